#!/usr/bin/env python3
"""Times training steps of titan and of PyTorch on the same shapes and tokens, on the CPU, in one run.

  cpu_training.py --titan build/release/app/titan --python VENV/bin/python --text FILE [options]

Contenders run in turn, one process each, `rounds` times, so that drift of the machine meets all of them. A process's
first step is left out (compilation, first touch). Prints a table in Markdown: medians over all other steps, tokens/s,
the largest resident set, and ratios to titan. --json keeps every number.

  --isa avx2      both restricted to AVX2, as on a machine without AVX-512; PyTorch in float32, because there its bf16
                  products have no instructions and take minutes

PyTorch's side is torch_llama.py.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RECIPES = {"debugmodel": "configs/llama3_debugmodel.toml", "110M": "configs/llama3_110m.toml"}
AVX2 = {
    "TITAN_CPU_ISA": "avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}


def run(command, environment):
    """Standard output and largest resident set of a command that must succeed."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=err, env=environment, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        if process.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} failed:\n{err.read()[-2000:]}")
        return out.read(), usage.ru_maxrss * 1024


def time_torch(args, shape, flags, environment):
    command = [args.python, HERE / "torch_llama.py", shape, "--steps", str(args.steps + 1), "--threads", str(args.threads)]
    out, rss = run([*command, *flags], environment)
    result = json.loads(out.splitlines()[-1])
    return {"seconds": result["seconds"][1:], "rss": rss, "tokens": result["tokens"], "version": result["version"]}


def time_titan(args, shape, flags, environment):
    with tempfile.TemporaryDirectory() as folder:
        command = [args.titan.resolve(), "train", RECIPES[shape], f"--job.dump_folder={folder}",
                   f"--training.dataset_path={args.text.resolve()}", f"--training.steps={args.steps + 1}",
                   f"--debug.threads={args.threads}", "--metrics.log_freq=1", *flags]
        _, rss = run(command, environment)
        steps = [json.loads(line) for line in open(f"{folder}/metrics.jsonl")]
    return {"seconds": [s["end_to_end_seconds"] for s in steps if s["step"] > 1], "rss": rss}


def contenders(args):
    if args.isa == "avx2":
        yield "PyTorch eager, float32", time_torch, ["--float32"]
        yield "PyTorch compiled, float32", time_torch, ["--float32", "--compile"]
        yield "titan, bf16", time_titan, []
        yield "titan, float32", time_titan, ["--training.mixed_precision_param=float32"]
    else:
        yield "PyTorch eager", time_torch, []
        yield "PyTorch compiled", time_torch, ["--compile"]
        yield "titan", time_titan, []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titan", type=pathlib.Path, default=ROOT / "build/release/app/titan")
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--text", type=pathlib.Path, required=True, help="what titan trains on")
    parser.add_argument("--shapes", nargs="+", default=list(RECIPES), choices=RECIPES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2, help="timed steps of a process")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isa", choices=["native", "avx2"], default="native")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    environment = dict(os.environ, **(AVX2 if args.isa == "avx2" else {}))

    results, tokens, version = {}, {}, ""
    for round_ in range(args.rounds):
        for shape in args.shapes:
            for name, measure, flags in contenders(args):
                result = measure(args, shape, flags, environment)
                tokens.setdefault(shape, result.get("tokens"))
                version = result.get("version", version)
                entry = results.setdefault(shape, {}).setdefault(name, {"seconds": [], "rss": 0})
                entry["seconds"] += result["seconds"]
                entry["rss"] = max(entry["rss"], result["rss"])
                print(f"round {round_ + 1}, {shape}, {name}: {', '.join(f'{s:.2f} s' for s in result['seconds'])}",
                      file=sys.stderr)

    print(f"PyTorch {version}, {args.threads} threads, {args.isa} instructions, {args.rounds} rounds of {args.steps} steps\n")
    print("| shape | program | step, median | least | most | tokens/s | largest RSS | titan is faster by | titan's RSS |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for shape, entries in results.items():
        own = entries["titan" if "titan" in entries else "titan, bf16"]
        own_step = statistics.median(own["seconds"])
        for name, entry in entries.items():
            step = statistics.median(entry["seconds"])
            peer = name.startswith("PyTorch")
            print(f"| {shape} | {name} | {step:.2f} s | {min(entry['seconds']):.2f} | {max(entry['seconds']):.2f} | "
                  f"{tokens[shape] / step:,.0f} | {entry['rss'] / 2**30:.2f} GiB | "
                  + (f"{step / own_step:.2f}x | {own['rss'] / entry['rss']:.2f}x |" if peer else " | |"))
    if args.json:
        args.json.write_text(json.dumps({"version": version, "tokens": tokens, "results": results}, indent=1))


if __name__ == "__main__":
    main()
