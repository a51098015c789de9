#!/usr/bin/env python3
"""Trains a Llama in PyTorch on the CPU as its users do, and prints one JSON line with the time of each step.

  torch_llama.py SHAPE [--compile] [--float32] [--steps N] [--threads N] [--batch N] [--seq N] [--layers N]

bf16 autocast, scaled_dot_product_attention, fused AdamW, clipping; weights and optimizer state in float32. SHAPE is a
key of SHAPES below. Needs torch; cpu_training.py runs this beside titan.
"""

import argparse
import json
import math
import os
import time

# Batch and sequence length are those of the comparison; the rest is the model.
SHAPES = {
    "debugmodel": dict(dim=256, layers=6, heads=16, kv_heads=16, ffn=768, vocab=2048, seq=2048, batch=8),
    "110M": dict(dim=768, layers=12, heads=12, kv_heads=4, ffn=2048, vocab=32000, seq=1024, batch=8),
}


def build(shape):
    import torch
    from torch import nn
    from torch.nn import functional as F

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
            if shape["kv_heads"] != shape["heads"]:
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

        def forward(self, tokens):
            x = self.tok_embeddings(tokens)
            for layer in self.layers:
                x = layer(x, self.cos, self.sin)
            return self.output(self.norm(x))

    return Llama()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--float32", action="store_true", help="without autocast")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--seq", type=int)
    parser.add_argument("--layers", type=int)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)

    import torch
    from torch.nn import functional as F

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    shape = dict(SHAPES[args.shape])
    for key in ("batch", "seq", "layers"):
        if getattr(args, key):
            shape[key] = getattr(args, key)
    model = build(shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    run = torch.compile(model) if args.compile else model
    seconds, losses = [], []
    for _ in range(args.steps):
        tokens = torch.randint(0, shape["vocab"], (shape["batch"], shape["seq"] + 1))
        begin = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not args.float32):
            logits = run(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        del logits
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
    assert all(map(math.isfinite, losses)), losses
    print(json.dumps({
        "version": torch.__version__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens": shape["batch"] * shape["seq"],
        "seconds": seconds,
        "losses": losses,
    }))


if __name__ == "__main__":
    main()
