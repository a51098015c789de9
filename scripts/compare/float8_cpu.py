#!/usr/bin/env python3
"""Trains the quickstart model in bfloat16 and in each Float8 recipe on the CPU, and compares the losses.

  float8_cpu.py --text FILE [--titan build/release/app/titan] [--steps 300]

FILE: what scripts/quickstart.sh trains on (outputs/quickstart/corpus/gcide.txt), or any text. Every run has the same
data, seed and schedule; the last layer stays in bfloat16 (filter_fqns = output), as in TorchTitan's recipes. Prints a table
in Markdown: the mean training loss of the last tenth of the steps, the validation loss at the end, and their distance from
bfloat16's. Exit status 1 when a recipe is farther away than --tolerance (2 %).
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECIPES = ["tensorwise", "rowwise", "rowwise_with_gw_hp"]


def train(args, cache, recipe):
    """Losses of the last steps, the last validation loss, and the median step's seconds."""
    float8 = ["--model.converters=float8", f"--quantize.linear.float8.recipe_name={recipe}",
              f"--quantize.linear.float8.filter_fqns={args.filter}"]
    with tempfile.TemporaryDirectory() as folder:
        command = [args.titan.resolve(), "train", ROOT / "configs/llama3_quickstart.toml", f"--job.dump_folder={folder}",
                   f"--training.dataset_path={args.text.resolve()}", f"--training.data_cache={cache}",
                   f"--training.steps={args.steps}", f"--validation.freq={args.steps}", "--metrics.log_freq=1",
                   "--checkpoint.enable=false", *(float8 if recipe else [])]
        process = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)
        if process.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} failed:\n{process.stderr[-2000:]}")
        lines = [json.loads(line) for line in open(f"{folder}/metrics.jsonl")]
    steps = [line for line in lines if line.get("kind") != "validation"]
    validation = [line for line in lines if line.get("kind") == "validation"]
    last = steps[-max(1, args.steps // 10):]
    return {"training": statistics.mean(s["loss"] for s in last), "validation": validation[-1]["loss"],
            "seconds": statistics.median(s["end_to_end_seconds"] for s in steps)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titan", type=pathlib.Path, default=ROOT / "build/release/app/titan")
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--filter", default="output", help="filter_fqns; empty: all linear layers in 8 bits")
    parser.add_argument("--tolerance", type=float, default=0.02)
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as cache:
        results = {}
        for recipe in [None, *RECIPES]:
            results[recipe] = train(args, cache, recipe)
            print(f"{recipe or 'bfloat16'}: {results[recipe]}", file=sys.stderr)

    base, worst = results[None], 0.0
    print(f"{args.steps} steps of configs/llama3_quickstart.toml, filter_fqns = {args.filter or 'none'}\n")
    print("| recipe | training loss, last tenth | from bfloat16 | validation loss | from bfloat16 | step, median |")
    print("|---|--:|--:|--:|--:|--:|")
    for recipe, result in results.items():
        distance = {kind: result[kind] / base[kind] - 1 for kind in ("training", "validation")}
        worst = max(worst, *map(abs, distance.values()))
        print(f"| {recipe or 'bfloat16'} | {result['training']:.4f} | {distance['training']:+.2%} | "
              f"{result['validation']:.4f} | {distance['validation']:+.2%} | {result['seconds']:.3f} s |")
    return 0 if worst <= args.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
