#!/usr/bin/env python3
"""Makes tests/data/huggingface: tiny Llamas saved by transformers, and what transformers computes with them in float32.

Run in a virtual environment with torch, transformers and safetensors:  make_hf_goldens.py OUTPUT_FOLDER
Token ids are those of titan's byte tokenizer: bytes, 256 BOS, 257 EOS. Deterministic: the same versions write the same files.
"""

import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

DEFAULT = dict(rope_type="default", rope_theta=10000.0)


def llama3(factor, original):
    return dict(rope_type="llama3", rope_theta=500000.0, factor=factor, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=original)


# head_dim 12 is not 16 / 4; with 32 original positions, scaling changes what this short text gives.
VARIANTS = {
    "sharded": dict(dtype=torch.float32, shard="24KB", heads=4, kv_heads=2, head_dim=4, tied=False, rope=DEFAULT),
    "scaled": dict(dtype=torch.bfloat16, shard="5GB", heads=4, kv_heads=2, head_dim=12, tied=False, rope=llama3(8.0, 32)),
    "tied": dict(dtype=torch.float16, shard="5GB", heads=2, kv_heads=2, head_dim=8, tied=True, rope=llama3(32.0, 64)),
}
DIM, FFN, LAYERS, VOCAB, BOS, EOS = 16, 32, 2, 260, 256, 257
PROMPT, NEW_TOKENS, LOGIT_ROWS, MIN_GAP = "the weights of a model", 64, 8, 1e-3
TEXT = "".join(f"line {i} of a text for the loss of a model that knows nothing\n" for i in range(8))
SEQ_LEN = 48


def make(v, seed):
    torch.manual_seed(seed)
    config = LlamaConfig(hidden_size=DIM, intermediate_size=FFN, num_hidden_layers=LAYERS, vocab_size=VOCAB, head_dim=v["head_dim"],
                         num_attention_heads=v["heads"], num_key_value_heads=v["kv_heads"], tie_word_embeddings=v["tied"],
                         max_position_embeddings=256, rms_norm_eps=1e-5, rope_parameters=v["rope"], bos_token_id=BOS, eos_token_id=EOS)
    model = LlamaForCausalLM(config)
    for name, p in model.named_parameters():
        values = (1 + 0.1 * torch.randn_like(p)) if "norm" in name else 0.5 * torch.randn_like(p)
        p.data = values.to(v["dtype"])  # model.to() would round the rotary frequencies too
    return model


@torch.no_grad()
def greedy(model, ids):
    """Tokens, their logits, and the smallest lead of a token over the next best."""
    ids, rows, gap = list(ids), [], float("inf")
    for _ in range(NEW_TOKENS):
        logits = model(torch.tensor([ids])).logits[0, -1]
        best = logits[: EOS + 1].topk(2)
        gap = min(gap, (best.values[0] - best.values[1]).item())
        rows.append(logits)
        ids.append(best.indices[0].item())
    return ids[-NEW_TOKENS:], torch.stack(rows), gap


@torch.no_grad()
def mean_loss(model):
    ids = torch.tensor([BOS, *TEXT.encode(), EOS])
    count = (len(ids) - 1) // SEQ_LEN
    losses = []
    for w in range(count):
        window = ids[w * SEQ_LEN : (w + 1) * SEQ_LEN + 1]
        logits = model(window[None, :-1]).logits[0].double()
        losses.append(torch.nn.functional.cross_entropy(logits, window[1:], reduction="none"))
    return torch.cat(losses).mean().item(), count * SEQ_LEN


def torchtitan_names(tensors, head_dim):
    """As torchtitan's Llama3Model names them, rows of q and k interleaved."""
    rename = {"embed_tokens": "tok_embeddings", "self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk",
              "self_attn.v_proj": "attention.wv", "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1",
              "mlp.up_proj": "feed_forward.w3", "mlp.down_proj": "feed_forward.w2", "input_layernorm": "attention_norm",
              "post_attention_layernorm": "ffn_norm", "lm_head": "output"}
    out = {}
    for name, t in tensors.items():
        if "q_proj" in name or "k_proj" in name:
            t = t.view(-1, 2, head_dim // 2, t.shape[1]).transpose(1, 2).reshape(t.shape)
        name = name.removeprefix("model.")
        for ours, theirs in rename.items():
            name = name.replace(ours, theirs)
        out[name] = t.contiguous()
    return out


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    facts = {"versions": dict(torch=torch.__version__, transformers=transformers.__version__),
             "prompt": PROMPT, "text": TEXT, "seq_len": SEQ_LEN}
    logits = {}
    for variant, v in VARIANTS.items():
        for seed in range(1000):
            stored = make(v, seed)
            model = make(v, seed).float().eval()
            tokens, rows, gap = greedy(model, [BOS, *PROMPT.encode()])
            if gap > MIN_GAP and EOS not in tokens:
                break
        else:
            raise SystemExit(f"{variant}: no seed whose greedy tokens are beyond doubt")
        stored.config.dtype = v["dtype"]
        stored.save_pretrained(folder / variant, max_shard_size=v["shard"])
        loss, count = mean_loss(model)
        facts[variant] = dict(seed=seed, greedy=tokens, gap=gap, loss=loss, loss_tokens=count, head_dim=v["head_dim"])
        logits[variant] = rows[:LOGIT_ROWS].float().contiguous()
    titan = folder / "torchtitan"
    titan.mkdir()
    shutil.copy(folder / "scaled" / "config.json", titan)
    save_file(torchtitan_names(load_file(folder / "scaled" / "model.safetensors"), VARIANTS["scaled"]["head_dim"]), titan / "model.safetensors")
    save_file(logits, folder / "logits.safetensors")
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
