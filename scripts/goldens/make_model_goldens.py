#!/usr/bin/env python3
"""Makes tests/data/model: what transformers' Llama gives for tiny models, in float64, and how far float32 and bfloat16 are from it.

Run in a virtual environment with torch, transformers and safetensors:  make_model_goldens.py OUTPUT_FOLDER
Deterministic: the same versions write the same files. Recorded with the versions in versions.json.
"""

import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

VARIANTS = {
    # name: (heads, kv heads, tied, rope scaling)
    "gqa": dict(num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False, scaled=True),
    "tied": dict(num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=True, scaled=False),
}
DIM, FFN, LAYERS, VOCAB, LENGTH, BATCH, STEPS = 32, 64, 2, 96, 24, 2, 50
ADAMW = dict(lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
MAX_NORM = 1.0


def config(heads, kv_heads, tied, scaled):
    rope = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=8192) if scaled else dict(rope_type="default", rope_theta=10000.0)
    return LlamaConfig(hidden_size=DIM, intermediate_size=FFN, num_hidden_layers=LAYERS, vocab_size=VOCAB,
                       num_attention_heads=heads, num_key_value_heads=kv_heads, tie_word_embeddings=tied,
                       max_position_embeddings=131072, rms_norm_eps=1e-5, rope_parameters=rope, attn_implementation="eager")


def build(variant, state, dtype):
    v = VARIANTS[variant]
    model = LlamaForCausalLM(config(v["num_attention_heads"], v["num_key_value_heads"], v["tie_word_embeddings"], v["scaled"]))
    model.to(dtype)  # rotary frequencies stay float32 buffers in transformers; float64 runs recompute them below
    model.load_state_dict({k: t.to(dtype) for k, t in state.items()}, strict=False)
    if dtype == torch.float64:
        rotary = model.model.rotary_emb
        rotary.inv_freq = exact_frequencies(v["scaled"], DIM // v["num_attention_heads"])
        rotary.forward = lambda x, position_ids: exact_rotary(rotary.inv_freq, position_ids)
    return model


def exact_frequencies(scaled, head_dim):
    """Llama 3.1's frequencies in float64."""
    f = 1.0 / 10000.0 ** (torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    if not scaled:
        return f
    wavelength = 2 * torch.pi / f
    smooth = ((8192 / wavelength - 1.0) / (4.0 - 1.0)).clamp(0, 1)
    return (1 - smooth) * f / 8 + smooth * f


def exact_rotary(inv_freq, position_ids):
    angles = position_ids[:, :, None].to(torch.float64) * inv_freq[None, None, :]
    both = torch.cat((angles, angles), dim=-1)
    return both.cos(), both.sin()


def loss_of(model, tokens, targets):
    logits = model(input_ids=tokens).logits
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return logits, torch.nn.functional.cross_entropy(wide.flatten(0, 1), targets.flatten(), ignore_index=-100)


def gradients(model, tokens, targets):
    model.zero_grad()
    logits, loss = loss_of(model, tokens, targets)
    loss.backward()
    return logits.detach().double(), loss.item(), {n: p.grad.detach().double() for n, p in model.named_parameters()}


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def train(model, batches):
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    losses = []
    for tokens, targets in batches:
        optimizer.zero_grad()
        _, loss = loss_of(model, tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"shape": dict(dim=DIM, ffn=FFN, layers=LAYERS, vocab=VOCAB, length=LENGTH, batch=BATCH, steps=STEPS),
             "adamw": dict(ADAMW, max_norm=MAX_NORM), "versions": dict(torch=torch.__version__, transformers=transformers.__version__)}
    for index, (variant, v) in enumerate(VARIANTS.items()):
        torch.manual_seed(1234 + index)
        model = LlamaForCausalLM(config(v["num_attention_heads"], v["num_key_value_heads"], v["tie_word_embeddings"], v["scaled"]))
        state = {}
        for name, p in model.named_parameters():
            state[name] = (1 + 0.1 * torch.randn_like(p) if "norm" in name else 0.3 * torch.randn_like(p)).detach()
        tokens = torch.randint(0, VOCAB, (STEPS, BATCH, LENGTH))
        # Learnable text: with probability 3/4 the next token is a fixed function of this one.
        follow = torch.randperm(VOCAB)
        for t in range(1, LENGTH):
            keep = torch.rand(STEPS, BATCH) < 0.75
            tokens[:, :, t] = torch.where(keep, follow[tokens[:, :, t - 1]], tokens[:, :, t])
        targets = torch.roll(tokens, -1, dims=2)
        targets[:, :, -1] = -100
        targets[:, 0, 3] = -100

        exact_logits, exact_loss, exact = gradients(build(variant, state, torch.float64), tokens[0], targets[0])
        errors = {}
        for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
            logits, loss, grads = gradients(build(variant, state, dtype), tokens[0], targets[0])
            flat = lambda g: torch.cat([g[n].flatten() for n in sorted(g)])
            errors[name] = dict(logits=relative(logits, exact_logits), loss=abs(loss - exact_loss) / exact_loss, gradients=relative(flat(grads), flat(exact)))
        batches = list(zip(tokens, targets))
        facts[variant] = dict(heads=v["num_attention_heads"], kv_heads=v["num_key_value_heads"], tied=v["tie_word_embeddings"], scaled=v["scaled"],
                              loss=exact_loss, errors=errors, curve_float64=train(build(variant, state, torch.float64), batches),
                              curve_float32=train(build(variant, state, torch.float32), batches))
        tensors = {f"weight.{n}": t.float().contiguous() for n, t in state.items()}
        tensors |= {f"gradient.{n}": t.float().contiguous() for n, t in exact.items()}
        tensors["logits"] = exact_logits.float().contiguous()
        tensors["tokens"] = tokens.to(torch.int32).contiguous()
        tensors["targets"] = targets.to(torch.int32).contiguous()
        save_file(tensors, folder / f"{variant}.safetensors")
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
