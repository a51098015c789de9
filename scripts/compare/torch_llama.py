#!/usr/bin/env python3
"""Trains a Llama in PyTorch as its users do, and prints one JSON line with the time of each step.

  torch_llama.py SHAPE [--device cuda] [--compile] [--float32] [--steps N] [--threads N] [--batch N] [--seq N] [--layers N]
                       [--recompute] [--loss-chunks N] [--bf16-weights]

bf16 autocast, scaled_dot_product_attention, fused AdamW, clipping; weights and optimizer state in float32. SHAPE is a
key of SHAPES below. Needs torch; cpu_training.py and gpu_training.py run this beside titan. On a GPU attention is
FlashAttention and --compile compiles every block and the loss; on the CPU the whole model. To save memory: --recompute keeps
only the blocks' inputs, --loss-chunks never holds all logits, --bf16-weights has no float32 at all.
"""

import argparse
import contextlib
import json
import math
import os
import time

# Batch and sequence length are those of the comparison; the rest is the model.
SHAPES = {
    "debugmodel": dict(dim=256, layers=6, heads=16, kv_heads=16, ffn=768, vocab=2048, seq=2048, batch=8),
    "110M": dict(dim=768, layers=12, heads=12, kv_heads=4, ffn=2048, vocab=32000, seq=1024, batch=8),
    "tiny": dict(dim=64, layers=2, heads=2, kv_heads=1, ffn=128, vocab=272, seq=64, batch=1),
    "1B": dict(dim=2048, layers=16, heads=32, kv_heads=8, ffn=8192, vocab=128256, seq=8192, batch=4, tied=True),
    "8B": dict(dim=4096, layers=32, heads=32, kv_heads=8, ffn=14336, vocab=128256, seq=8192, batch=1),
}


def build(shape, recompute=False):
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.checkpoint import checkpoint

    head_dim = shape["dim"] // shape["heads"]

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.wq = nn.Linear(shape["dim"], shape["heads"] * head_dim, bias=False)
            self.wk = nn.Linear(shape["dim"], shape["kv_heads"] * head_dim, bias=False)
            self.wv = nn.Linear(shape["dim"], shape["kv_heads"] * head_dim, bias=False)
            self.wo = nn.Linear(shape["heads"] * head_dim, shape["dim"], bias=False)

        def forward(self, x, cos, sin):
            b, s, _ = x.shape

            def split(y):
                return y.view(b, s, -1, head_dim).transpose(1, 2)

            def rotate(y):
                first, second = y.chunk(2, dim=-1)
                return y * cos + torch.cat((-second, first), dim=-1) * sin

            q, k, v = split(self.wq(x)), split(self.wk(x)), split(self.wv(x))
            q, k = rotate(q).to(v.dtype), rotate(k).to(v.dtype)
            grouped = shape["kv_heads"] != shape["heads"]
            if grouped and q.is_cuda:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
                return self.wo(y.transpose(1, 2).reshape(b, s, -1))
            if grouped:
                groups = shape["heads"] // shape["kv_heads"]
                k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.wo(y.transpose(1, 2).reshape(b, s, -1))

    class FeedForward(nn.Module):
        def __init__(self):
            super().__init__()
            self.w1 = nn.Linear(shape["dim"], shape["ffn"], bias=False)
            self.w2 = nn.Linear(shape["ffn"], shape["dim"], bias=False)
            self.w3 = nn.Linear(shape["dim"], shape["ffn"], bias=False)

        def forward(self, x):
            return self.w2(F.silu(self.w1(x)) * self.w3(x))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm = nn.RMSNorm(shape["dim"], eps=1e-5)
            self.attention = Attention()
            self.ffn_norm = nn.RMSNorm(shape["dim"], eps=1e-5)
            self.feed_forward = FeedForward()

        def forward(self, x, cos, sin):
            x = x + self.attention(self.attention_norm(x), cos, sin)
            return x + self.feed_forward(self.ffn_norm(x))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.tok_embeddings = nn.Embedding(shape["vocab"], shape["dim"])
            self.layers = nn.ModuleList(Block() for _ in range(shape["layers"]))
            self.norm = nn.RMSNorm(shape["dim"], eps=1e-5)
            self.output = nn.Linear(shape["dim"], shape["vocab"], bias=False)
            frequencies = 500000.0 ** (-torch.arange(0, head_dim, 2).float() / head_dim)
            angles = torch.outer(torch.arange(shape["seq"]).float(), frequencies).repeat(1, 2)
            self.register_buffer("cos", angles.cos(), persistent=False)
            self.register_buffer("sin", angles.sin(), persistent=False)
            for name, p in self.named_parameters():
                if p.dim() > 1:
                    nn.init.trunc_normal_(p, std=0.02)
            if shape.get("tied"):
                self.output.weight = self.tok_embeddings.weight

        def hidden(self, tokens):
            x = self.tok_embeddings(tokens)
            for layer in self.layers:
                if recompute:
                    x = checkpoint(layer, x, self.cos, self.sin, use_reentrant=False)
                else:
                    x = layer(x, self.cos, self.sin)
            return self.norm(x)

        def forward(self, tokens):
            return self.output(self.hidden(tokens))

    return Llama()


def cross_entropy(logits, targets):
    """Summed over tokens."""
    from torch.nn import functional as F

    return F.cross_entropy(logits.float(), targets, reduction="sum")


def loss_of(args, run, sum_of, model, tokens):
    """Mean cross entropy of each token's successor; in chunks, of one chunk's logits after the other."""
    from torch.utils.checkpoint import checkpoint

    targets = tokens[:, 1:].flatten()
    if args.loss_chunks == 1:
        return sum_of(run(tokens[:, :-1]).flatten(0, 1), targets) / targets.numel()
    hidden = model.hidden(tokens[:, :-1]).flatten(0, 1)

    def part(x, t):
        return sum_of(model.output(x), t)

    parts = zip(hidden.chunk(args.loss_chunks), targets.chunk(args.loss_chunks))
    return sum(checkpoint(part, x, t, use_reentrant=False) for x, t in parts) / targets.numel()


def compiled(args, model):
    """What turns tokens into logits, and those into a loss."""
    import torch

    if not args.compile:
        return model, cross_entropy
    if args.device == "cpu":
        return torch.compile(model), cross_entropy
    for layer in model.layers:
        layer.compile()
    return model, torch.compile(cross_entropy)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--float32", action="store_true", help="without autocast")
    parser.add_argument("--bf16-weights", action="store_true", help="weights, gradients and moments in bf16")
    parser.add_argument("--recompute", action="store_true", help="checkpoint every block")
    parser.add_argument("--loss-chunks", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--seq", type=int)
    parser.add_argument("--layers", type=int)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    shape = dict(SHAPES[args.shape])
    for key in ("batch", "seq", "layers"):
        if getattr(args, key):
            shape[key] = getattr(args, key)
    with torch.device(args.device):
        model = build(shape, args.recompute)
    if args.bf16_weights:
        model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    run, sum_of = compiled(args, model)
    on_gpu = args.device == "cuda"
    seconds, losses = [], []
    for _ in range(args.steps):
        tokens = torch.randint(0, shape["vocab"], (shape["batch"], shape["seq"] + 1)).to(args.device)
        begin = time.perf_counter()
        # With recomputation autocast would keep a bf16 copy of every weight until the end of the backward.
        cast = torch.autocast(args.device, torch.bfloat16, enabled=not args.float32, cache_enabled=not args.recompute)
        with cast, sdpa_kernel(SDPBackend.FLASH_ATTENTION) if on_gpu else contextlib.nullcontext():
            loss = loss_of(args, run, sum_of, model, tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())  # on a GPU this waits for the step
        seconds.append(time.perf_counter() - begin)
    assert all(map(math.isfinite, losses)), losses
    print(json.dumps({
        "version": torch.__version__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens": shape["batch"] * shape["seq"],
        "seconds": seconds,
        "losses": losses,
        "allocated_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
    }))


if __name__ == "__main__":
    main()
