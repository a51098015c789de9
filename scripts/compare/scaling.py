#!/usr/bin/env python3
"""Measures how titan's time and memory grow with sequence length, batch and depth, and draws it.

  scaling.py --titan build/release/app/titan --text FILE --plot docs/images/scaling.svg [--steps N]     (needs matplotlib)

The model is a slice of the 110M one: dim 768, 12 heads over 4, feed-forward 2048, vocabulary 8192, 4 layers. Each point is
a process of its own; the median of its steps but the first counts. Beside each measurement stands what the mathematics
asks: multiply-adds of the matrix products and of the attention scores that the causal mask leaves. The last column, FLOP/s
of that, would fall if anything grew faster. Prints tables in Markdown.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BASE = dict(dim=768, layers=4, heads=12, kv_heads=4, ffn=2048, vocab=8192)
SWEEPS = {
    # 16,384 tokens a step whatever their cut
    "sequence length": [dict(seq=s, batch=16384 // s) for s in (512, 1024, 2048, 4096, 8192, 16384)],
    "batch": [dict(seq=1024, batch=b) for b in (1, 2, 4, 8, 16, 32)],
    "depth": [dict(seq=1024, batch=8, layers=n) for n in (1, 2, 4, 8, 16)],
}


def flops(shape):
    """Of a training step: forward and backward (three times the forward), a multiply-add is two."""
    d, head_dim, tokens = shape["dim"], shape["dim"] // shape["heads"], shape["seq"] * shape["batch"]
    weights = d * (d + 2 * shape["kv_heads"] * head_dim) + d * d + 3 * d * shape["ffn"]
    products = 6 * tokens * (shape["layers"] * weights + d * shape["vocab"])
    # Two products forward, and five backward because scores are made again; half of them are visible.
    attention = 7 * 2 * tokens * shape["seq"] / 2 * d * shape["layers"]
    return products + attention


def measure(args, shape):
    with tempfile.TemporaryDirectory() as folder:
        command = [str(args.titan.resolve()), "train", "configs/llama3_110m.toml", f"--job.dump_folder={folder}",
                   f"--training.dataset_path={args.text.resolve()}", f"--training.steps={args.steps + 1}",
                   f"--training.seq_len={shape['seq']}", f"--training.local_batch_size={shape['batch']}",
                   f"--model.n_layers={shape['layers']}", f"--model.vocab_size={shape['vocab']}"]
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if process.returncode != 0:
            sys.exit(process.stderr[-2000:])
        arena = int(re.search(r"one arena of (\d+) B", process.stderr).group(1))
        steps = [json.loads(line) for line in open(f"{folder}/metrics.jsonl")]
    return statistics.median(s["end_to_end_seconds"] for s in steps if s["step"] > 1), arena


def draw(results, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "titan"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(11, 6), layout="constrained")
    keys = {"sequence length": "seq", "batch": "batch", "depth": "layers"}
    for column, (sweep, points) in enumerate(results.items()):
        x = [p["shape"][keys[sweep]] for p in points]
        tokens = [p["tokens"] for p in points]
        floor = max(p["flops"] / p["seconds"] for p in points)
        top, bottom = axes[0][column], axes[1][column]
        top.plot(x, [t / p["seconds"] for t, p in zip(tokens, points)], "o-", label="measured")
        top.plot(x, [t / (p["flops"] / floor) for t, p in zip(tokens, points)], "--", label="at the best FLOP/s of the row")
        bottom.plot(x, [p["arena"] / 2**30 for p in points], "o-")
        top.set(xlabel=sweep, ylabel="tokens/s", xscale="log", ylim=(0, None), xticks=x, xticklabels=x)
        bottom.set(xlabel=sweep, ylabel="memory, GiB", xscale="log", ylim=(0, None), xticks=x, xticklabels=x)
        for axis in (top, bottom):
            axis.minorticks_off()
            axis.grid(alpha=0.3)
        top.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titan", type=pathlib.Path, default=ROOT / "build/release/app/titan")
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=3, help="timed steps of a point")
    parser.add_argument("--plot", type=pathlib.Path)
    args = parser.parse_args()
    results = {}
    for sweep, changes in SWEEPS.items():
        print(f"\n| sequence | batch | layers | step | tokens/s | memory | memory/token | FLOP | TFLOP/s |")
        print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
        for change in changes:
            shape = {**BASE, **change}
            seconds, arena = measure(args, shape)
            tokens = shape["seq"] * shape["batch"]
            point = dict(shape=shape, seconds=seconds, arena=arena, tokens=tokens, flops=flops(shape))
            results.setdefault(sweep, []).append(point)
            print(f"| {shape['seq']:,} | {shape['batch']} | {shape['layers']} | {seconds:.3f} s | {tokens / seconds:,.0f} | "
                  f"{arena / 2**30:.2f} GiB | {arena / tokens / 1024:,.0f} KiB | {point['flops'] / 1e12:.2f}e12 | "
                  f"{point['flops'] / seconds / 1e12:.3f} |", flush=True)
    if args.plot:
        draw(results, args.plot)


if __name__ == "__main__":
    main()
