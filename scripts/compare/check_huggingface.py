#!/usr/bin/env python3
"""Compares titan with transformers on Hugging Face folders: import, export, logits, perplexity and greedy generation.

    check_huggingface.py [--titan build/release/app/titan] [--checkpoint STEP_FOLDER --text FILE]

Run in a virtual environment with torch, transformers and safetensors. Without --checkpoint it makes Llamas of random weights; with it, the
trained checkpoint is exported and compared. Exit status 1 if anything differs by more than is allowed.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "configs" / "tokenizers" / "english_2048"
MOST_KL, MOST_PERPLEXITY, MIN_GAP, NEW_TOKENS, SEQ_LEN = 1e-9, 1e-4, 1e-3, 64, 128
PROMPTS = ["The history of", "A word that", "In the beginning there was a", "Once upon a time", "To make", "He said that", "Of the", "One"]
DEFAULT = dict(rope_type="default", rope_theta=10000.0)


def llama3(factor):
    return dict(rope_type="llama3", rope_theta=500000.0, factor=factor, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)


VARIANTS = {
    "f32 sharded, default rope": dict(dtype="float32", shard="2MB", heads=8, kv=4, head_dim=16, tied=False, rope=DEFAULT),
    "bf16 single, llama3 rope": dict(dtype="bfloat16", shard="5GB", heads=8, kv=2, head_dim=16, tied=False, rope=llama3(8.0)),
    "bf16 sharded, tied, factor 32": dict(dtype="bfloat16", shard="300KB", heads=8, kv=8, head_dim=16, tied=True, rope=llama3(32.0)),
    "f16 single, head_dim not dim/heads": dict(dtype="float16", shard="5GB", heads=4, kv=2, head_dim=48, tied=False, rope=llama3(8.0)),
}
failures = []


def titan(*arguments):
    done = subprocess.run([options.titan, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"titan {' '.join(map(str, arguments))}:\n{done.stderr}")
    return done.stdout


def report(what, ok, detail):
    print(f"  {'ok  ' if ok else 'FAIL'} {what}: {detail}")
    if not ok:
        failures.append(what)


def make(folder, v, seed):
    torch.manual_seed(seed)
    config = LlamaConfig(hidden_size=128, intermediate_size=320, num_hidden_layers=4, vocab_size=2048, head_dim=v["head_dim"], num_attention_heads=v["heads"],
                         num_key_value_heads=v["kv"], tie_word_embeddings=v["tied"], max_position_embeddings=512, rms_norm_eps=1e-5, rope_parameters=v["rope"],
                         bos_token_id=2046, eos_token_id=2047)  # the tokenizer's
    model = LlamaForCausalLM(config)
    for name, p in model.named_parameters():
        p.data = (1 + 0.1 * torch.randn_like(p)) if "norm" in name else 0.12 * torch.randn_like(p)
    model.to(getattr(torch, v["dtype"])).save_pretrained(folder, max_shard_size=v["shard"])
    for file in TOKENIZER.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())


def tensors(folder):
    return {name: t for file in sorted(folder.glob("*.safetensors")) for name, t in load_file(file).items()}


def same_bytes(a, b):
    a, b = tensors(a), tensors(b)
    raw = lambda t: t.contiguous().view(torch.uint8) if t.dim() else t
    return a.keys() == b.keys() and all(a[n].dtype == b[n].dtype and a[n].shape == b[n].shape and torch.equal(raw(a[n]), raw(b[n])) for n in a), len(a)


@torch.no_grad()
def compare_generation(model, source):
    """Logits of each of titan's tokens against transformers', and transformers' own greedy tokens where they are beyond doubt."""
    worst, equal, doubtful = 0.0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for prompt in PROMPTS:
            file = pathlib.Path(folder) / "logits.safetensors"
            file.unlink(missing_ok=True)
            g = json.loads(titan("generate", source, "--prompt", prompt, "--temperature", 0, "--max-new-tokens", NEW_TOKENS, "--json", "--logits", file))
            ours = load_file(file)["logits"].double().log_softmax(-1)
            ids = torch.tensor([g["prompt_ids"] + g["output_ids"]])
            rows = model(ids).logits[0, len(g["prompt_ids"]) - 1 : -1]
            theirs = rows.double().log_softmax(-1)
            worst = max(worst, (theirs.exp() * (theirs - ours)).sum(-1).abs().max().item())
            best = rows.topk(2).values
            if (best[:, 0] - best[:, 1]).min().item() <= MIN_GAP:
                doubtful += 1
                continue
            reference = model.generate(torch.tensor([g["prompt_ids"]]), do_sample=False, max_new_tokens=NEW_TOKENS)[0, len(g["prompt_ids"]) :].tolist()
            if reference and reference[-1] == model.generation_config.eos_token_id:
                reference.pop()
            equal += reference == g["output_ids"]
    report("logits", worst < MOST_KL, f"largest KL {worst:.2e} (allowed {MOST_KL:.0e})")
    report("greedy tokens", equal == len(PROMPTS) - doubtful and equal > 0, f"{equal} of {len(PROMPTS) - doubtful} prompts equal, {doubtful} with a top-2 gap below {MIN_GAP:g}")


@torch.no_grad()
def compare_perplexity(model, tokenizer, source, text):
    result = json.loads(titan("eval", source, "--data", text, "--seq-len", SEQ_LEN, "--json"))
    ids = tokenizer(text.read_text(), add_special_tokens=False)["input_ids"]
    ids = torch.tensor([i for i in [tokenizer.bos_token_id, *ids, tokenizer.eos_token_id] if i is not None])
    count = (len(ids) - 1) // SEQ_LEN
    windows = torch.stack([ids[w * SEQ_LEN : (w + 1) * SEQ_LEN + 1] for w in range(count)])
    losses = torch.cat([torch.nn.functional.cross_entropy(model(w[None, :-1]).logits[0].double(), w[1:], reduction="none") for w in windows])
    theirs = losses.mean().exp().item()
    relative = abs(result["perplexity"] / theirs - 1)
    report("perplexity", relative < MOST_PERPLEXITY and result["tokens"] == count * SEQ_LEN, f"titan {result['perplexity']:.6f}, transformers {theirs:.6f}, relative {relative:.1e}, {result['tokens']} tokens")


def compare_export(exported, source, text):
    tokenizer = AutoTokenizer.from_pretrained(exported)
    model = AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float32).eval()
    report("opens in transformers", True, f"{type(model).__name__}, {sum(p.numel() for p in model.parameters()):,} parameters, {type(tokenizer).__name__} of {len(tokenizer)}")
    compare_generation(model, source)
    compare_perplexity(model, tokenizer, source, text)


def check_variant(name, v, work, text, seed):
    print(name)
    folder = work / f"model-{seed}"
    folder.mkdir()
    make(folder, v, seed)
    checkpoint, exported = work / f"import-{seed}" / "step-0", work / f"export-{seed}"
    titan("checkpoint", "import", folder, checkpoint)
    titan("checkpoint", "export", checkpoint, exported, "--dtype", v["dtype"], "--max-shard-size", "500KB")
    same, count = same_bytes(folder, exported)
    report("bytes after import and export", same, f"{count} tensors, {len(list(exported.glob('*.safetensors')))} files")
    compare_export(exported, checkpoint, text)
    again = json.loads(titan("eval", folder, "--data", text, "--seq-len", SEQ_LEN, "--json"))["loss"]
    report("the folder itself evaluates alike", again == json.loads(titan("eval", checkpoint, "--data", text, "--seq-len", SEQ_LEN, "--json"))["loss"], f"loss {again:.6f}")


def main():
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    with tempfile.TemporaryDirectory() as temp:
        work = pathlib.Path(temp)
        text = pathlib.Path(options.text) if options.text else ROOT / "docs" / "architecture.md"
        plain = work / "text.txt"
        plain.write_text(text.read_text()[:20000])
        if options.checkpoint:
            print(options.checkpoint)
            titan("checkpoint", "export", options.checkpoint, work / "export")
            compare_export(work / "export", options.checkpoint, plain)
        else:
            for seed, (name, v) in enumerate(VARIANTS.items()):
                check_variant(name, v, work, plain, seed)
    print(f"{len(failures)} failures" if failures else "all equal")
    return 1 if failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--titan", default=str(ROOT / "build" / "release" / "app" / "titan"))
    parser.add_argument("--checkpoint")
    parser.add_argument("--text")
    options = parser.parse_args()
    sys.exit(main())
