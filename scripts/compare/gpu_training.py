#!/usr/bin/env python3
"""Times training steps of titan and of PyTorch on one GPU, on the same shape, in turn, and prints one JSON object.

  gpu_training.py 1B|8B --titan build/release/app/titan [--python PYTHON] [--seconds N] [--steps N] [--warmup N] [-- OVERRIDES]

titan's contenders are runs of `titan bench` of configs/llama3_SHAPE_gpu.toml, in bf16 and in Float8; PyTorch's are
torch_llama.py with every block compiled: float32 weights under bf16 autocast as titan has, and for 8B, which that may not fit,
also bf16 weights and moments. A round runs each contender once, a process each; another round starts while it is likely to end within
--seconds. Memory is the largest that nvidia-smi showed, less what was used before. gpu_check.sh runs this.
"""

import argparse
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RECIPES = {"1B": "configs/llama3_1b_gpu.toml", "8B": "configs/llama3_8b_gpu.toml"}
MOST_ROUNDS = 3


def used_memory():
    """Bytes in use on the first GPU; None without one."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"]
    try:
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]) << 20
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return None


class MemoryWatch:
    """The largest used_memory() of a block, less that at its begin."""

    def __enter__(self):
        self.before, self.over = used_memory(), threading.Event()
        self.most = self.before or 0
        self.thread = threading.Thread(target=self.watch)
        if self.before is not None:
            self.thread.start()
        return self

    def watch(self):
        while not self.over.wait(0.1):
            self.most = max(self.most, used_memory() or 0)

    def __exit__(self, *_):
        self.over.set()
        if self.before is not None:
            self.thread.join()

    def bytes(self):
        return self.most - self.before if self.before is not None else None


def run(command):
    """Standard output and memory used; raises RuntimeError with the last line of what the command said."""
    with MemoryWatch() as watch:
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=ROOT)
    if result.returncode != 0:
        lines = [line for line in (result.stderr or result.stdout).splitlines() if line.strip()]
        raise RuntimeError(lines[-1] if lines else f"exit status {result.returncode}")
    return result.stdout, watch.bytes()


def time_titan(args, flags):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [args.titan.resolve(), "bench", RECIPES[args.shape], "--steps", args.steps, "--warmup", args.warmup, "--json", file.name]
        _, used = run([*command, *args.overrides, "--debug.device=cuda", *flags])
        trial = json.load(open(file.name))["trials"][0]
    step, rate = trial["step_seconds"], trial["tokens_per_second"]
    return {"seconds": [step["min"], step["median"], step["max"]], "median": step["median"], "tokens": rate * step["median"],
            "mfu_percent": trial["mfu_percent"], "planned_bytes": trial["planned_bytes"], "used_bytes": used}


def time_torch(args, flags):
    command = [args.python, HERE / "torch_llama.py", "tiny" if args.torch_device == "cpu" else args.shape, "--device", args.torch_device]
    out, used = run([*command, "--compile", "--steps", args.steps + args.warmup, *flags])
    result = json.loads(out.splitlines()[-1])
    seconds = result["seconds"][args.warmup:]
    return {"seconds": seconds, "median": statistics.median(seconds), "tokens": result["tokens"], "used_bytes": used}


def contenders(shape):
    yield "titan, bf16", time_titan, []
    yield "titan, float8", time_titan, ['--model.converters=["float8"]']
    save_memory = ["--recompute", "--loss-chunks", "8"] if shape == "8B" else []
    yield "PyTorch compiled, bf16 autocast", time_torch, save_memory
    if shape == "8B":
        yield "PyTorch compiled, bf16 weights and moments", time_torch, [*save_memory, "--bf16-weights"]


def has_torch(python):
    return subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0


def measure(args, name, function, flags, entry):
    """One run, pooled with the earlier ones; a failure takes the contender out."""
    try:
        result = function(args, flags)
    except (RuntimeError, KeyError) as error:
        entry["message"] = str(error)
        return
    entry["runs"] = entry.get("runs", []) + [result.pop("seconds")]
    entry.update(result)
    print(f"{args.shape}, {name}: {result['median']:.3f} s", file=sys.stderr)


def summary(entry):
    """Over all runs: the median of their medians, all their times, and tokens a second of that."""
    runs = entry.pop("runs", [])
    if not runs:
        return entry
    entry["seconds"] = [seconds for one in runs for seconds in one]
    entry["median"] = statistics.median(statistics.median(one) for one in runs)
    entry["tokens_per_second"] = entry["tokens"] / entry["median"]
    return entry


class Stopped(Exception):
    """By the limit of the step: what is measured is still told."""


def stop(*_):
    raise Stopped


def measure_rounds(args, entries):
    """How many rounds ran."""
    torch = has_torch(args.python)
    begin = time.monotonic()
    for round_ in range(MOST_ROUNDS):
        for name, function, flags in contenders(args.shape):
            if function is time_torch and not torch:
                entries[name]["message"] = "torch not present"
            elif "message" not in entries[name]:
                measure(args, name, function, flags, entries[name])
        elapsed = time.monotonic() - begin
        if elapsed * (round_ + 2) / (round_ + 1) > args.seconds:
            break
    return round_ + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=RECIPES)
    parser.add_argument("--titan", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable, help="a Python that may have torch")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--torch-device", default="cuda", help="cpu: a tiny shape, to test this script")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:end])
    args.overrides = words[end + 1:]

    entries = {name: {} for name, _, _ in contenders(args.shape)}
    rounds = 0
    signal.signal(signal.SIGTERM, stop)
    try:
        rounds = measure_rounds(args, entries)
    except Stopped:
        for entry in entries.values():
            entry.setdefault("message", "stopped at the step's limit")
    print(json.dumps({"shape": args.shape, "rounds": rounds, "contenders": {n: summary(e) for n, e in entries.items()}}))
    titan = [e for n, e in entries.items() if n.startswith("titan")]
    sys.exit(0 if rounds and all(e.get("seconds") for e in titan) else 1)


if __name__ == "__main__":
    main()
