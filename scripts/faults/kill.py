#!/usr/bin/env python3
"""Kills a training run at random moments and checks that it ends as if nothing had happened.

A tiny model with frequent saves is trained to its end once, undisturbed. Then it is started again and again in
another folder and killed (SIGKILL) at a random moment each time: while it starts, prepares data, loads, trains,
validates, saves. After each kill all checkpoints must verify, the next start must resume from the newest of them,
and a run that reaches its end must have the losses, the final checkpoint and the prepared data of the undisturbed
one, bit for bit. Prints the seed, and each kill with its moment and what it met.

    scripts/faults/kill.py                         50 kills, a few minutes
    scripts/faults/kill.py --kills 6 --seed 1      the quick version, as the tests run it
    scripts/faults/kill.py --async-mode async      with saves in the background
"""

import argparse
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS, INTERVAL, VALIDATION = 40, 2, 10
TIMES = {"tps", "tflops", "mfu", "speed_of_light", "end_to_end_seconds", "data_loading_seconds", "memory_percent",
         "beside_arena_gib"}


def write_inputs(folder, async_mode):
    """A recipe with relative paths, so that the recipes in both runs' checkpoints are equal."""
    words = random.Random(0)
    vocabulary = ["".join(words.choices("etaoinshrdlu", k=words.randint(2, 9))) for _ in range(4000)]
    with open(folder / "text.txt", "w") as text:
        for _ in range(60_000):
            text.write(" ".join(words.choices(vocabulary, k=8)) + ".\n")
    (folder / "recipe.toml").write_text(f"""
[job]
dump_folder = "out"
[metrics]
log_freq = 1
[model]
flavor = "custom"
tokenizer = "{ROOT}/configs/tokenizers/english_2048"
dim = 64
n_layers = 2
n_heads = 4
n_kv_heads = 2
ffn_dim = 128
vocab_size = 2048
[optimizer]
lr = 3e-3
[lr_scheduler]
warmup_steps = 5
[training]
local_batch_size = 2
global_batch_size = 4
seq_len = 64
steps = {STEPS}
dataset_path = "text.txt"
[validation]
enable = true
split = 0.01
local_batch_size = 4
seq_len = 64
freq = {VALIDATION}
steps = 30
[checkpoint]
enable = true
interval = {INTERVAL}
keep_latest_k = 3
last_save_model_only = false
async_mode = "{async_mode}"
[debug]
threads = 1
""")


class Life:
    """One start of titan in a folder, until it ends or is killed."""

    def __init__(self, titan, folder):
        self.folder = folder
        self.log_path = folder / "log"
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen([titan, "train", "recipe.toml"], cwd=folder, stderr=log)
        self.begin = time.monotonic()

    def lines(self):
        return self.log_path.read_bytes().count(b"\n")

    def end_within(self, lines, seconds):
        """Kills it `seconds` after its log has `lines` lines. Whether it ended by itself before that."""
        while self.process.poll() is None and self.lines() < lines:
            time.sleep(0.001)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.seconds = time.monotonic() - self.begin
        self.log = self.log_path.read_text()
        return self.process.returncode != -9

    def resumed_from(self):
        found = re.search(r"Finished loading the checkpoint \S+ \(step (\d+)\)", self.log)
        return int(found[1]) if found else None

    def met(self):
        """What the kill interrupted, as far as the log and the files tell."""
        saving = sorted(path.name for path in self.folder.glob("out/checkpoint/step-*.tmp"))
        last = (self.log.strip().splitlines() or [""])[-1]
        if "Training completed" in self.log:
            return "the end"
        if "Training starts at" in self.log:
            step = re.findall(r" step: +(\d+) ", self.log)
            at = f"step {step[-1]}" if step else "the start"
            if saving:
                return f"a save ({saving[0]}) after {at}"
            if "step: " in last and "validate" not in last and step and int(step[-1]) % VALIDATION == 0:
                return f"the validation or save of {at}"
            return f"training after {at}" if step else "the first step after the start"
        if "Training data:" in self.log:
            return "the set-up" + (f", {saving[0]} left" if saving else "")
        return "data preparation" if "Building" in self.log else "the start"


class Failure(Exception):
    pass


def require(condition, message):
    if not condition:
        raise Failure(message)


def checkpoints(folder):
    """Step -> folder of all that count as checkpoints."""
    found = {}
    for path in (folder / "out/checkpoint").glob("step-*"):
        if path.suffix != ".tmp":
            found[int(path.name[5:])] = path
    return found


def check_checkpoints(titan, folder):
    for path in checkpoints(folder).values():
        result = subprocess.run([titan, "checkpoint", "verify", path], capture_output=True, text=True)
        require(result.returncode == 0, f"{path} does not verify: {result.stdout}{result.stderr}")


def check_resume(life, steps_before):
    newest = max(steps_before, default=None)
    if "Training starts at" in life.log:
        require(life.resumed_from() == newest, f"resumed from {life.resumed_from()}, the newest is {newest}")
    require("damaged" not in life.log and "WARNING - skipping" not in life.log, "a checkpoint was skipped")


def outcome(folder):
    """All that must be equal: losses and metrics, final state, manifest, prepared data."""
    lines = []
    for line in (folder / "out/metrics.jsonl").read_text().splitlines():
        values = json.loads(line)
        lines.append({key: value for key, value in values.items() if key not in TIMES})
    final = folder / f"out/checkpoint/step-{STEPS}"
    manifest = json.loads((final / "titan.json").read_text())
    run = manifest.get("run", manifest)
    return {
        "metrics": lines,
        "state": (final / "rank-0.safetensors").read_bytes(),
        "run": json.dumps(run, sort_keys=True) if run is not manifest else None,
        "shards": {p.name: p.read_bytes() for p in sorted(folder.glob("out/data/*/shard-*"))},
        "kept": sorted(checkpoints(folder)),
    }


def check_outcome(folder, reference):
    for name, value in outcome(folder).items():
        require(value == reference[name], f"{name} of the killed run are not those of the undisturbed run")


def moment(chance, folder, all_lines):
    """When to kill, by lines of the log and seconds after them: clocks tell little on a busy machine."""
    if chance.random() < 0.1:
        return 0, chance.uniform(0, 0.05)
    if not list(folder.glob("out/data/*/manifest.json")) and chance.random() < 0.7:
        return 2, chance.uniform(0, 0.2)
    left = 1 - max(checkpoints(folder), default=0) / STEPS
    return chance.randint(3, 12 + int((all_lines - 12) * left)), chance.uniform(0, 0.03)


def fresh_folder(work, name, inputs):
    folder = work / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file in ("text.txt", "recipe.toml"):
        shutil.copy2(inputs / file, folder / file)
    return folder


def run(titan, kills, seed, async_mode, work):
    chance = random.Random(seed)
    inputs = work / "inputs"
    inputs.mkdir()
    write_inputs(inputs, async_mode)
    whole = Life(titan, fresh_folder(work, "undisturbed", inputs))
    require(whole.end_within(0, 600) and whole.process.returncode == 0, f"the undisturbed run failed:\n{whole.log}")
    all_lines = whole.lines()
    reference = outcome(whole.folder)
    print(f"undisturbed: {whole.seconds:.2f} s, {len(reference['metrics'])} lines of metrics", flush=True)

    done = finished = 0
    met = {}
    folder = fresh_folder(work, "killed", inputs)
    while done < kills or folder is not None:
        lines, seconds = 0, 600
        if done < kills:
            lines, seconds = moment(chance, folder, all_lines)
        before = checkpoints(folder)
        life = Life(titan, folder)
        ended = life.end_within(lines, seconds)
        check_resume(life, before)
        check_checkpoints(titan, folder)
        if not ended:
            done += 1
            what = life.met()
            kind = re.sub(r"( of| after)? step \d+.*| \(.*|,.*", "", what)
            met[kind] = met.get(kind, 0) + 1
            at = f"{life.seconds:.3f} s ({1000 * seconds:.1f} ms after line {lines} of the log)"
            print(f"kill {done:3} at {at} met {what}", flush=True)
            continue
        require(life.process.returncode == 0, f"titan failed with {life.process.returncode}:\n{life.log}")
        check_outcome(folder, reference)
        finished += 1
        print(f"         run {finished} reached its end: equal", flush=True)
        folder = fresh_folder(work, "killed", inputs) if done < kills else None
    print(f"{done} kills, {finished} runs to the end, all equal to the undisturbed run")
    print("met: " + ", ".join(f"{count} {kind}" for kind, count in sorted(met.items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titan", default=str(ROOT / "build/release/app/titan"), help="the executable")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--async-mode", default="disabled", help="checkpoint.async_mode")
    parser.add_argument("--keep", action="store_true", help="keep the folder of the runs")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    work = pathlib.Path(tempfile.mkdtemp(prefix="titan-kill-"))
    print(f"seed {seed}, in {work}", flush=True)
    try:
        run(pathlib.Path(options.titan).resolve(), options.kills, seed, options.async_mode, work)
    except Failure as failure:
        print(f"FAILED (seed {seed}, files kept in {work}): {failure}", file=sys.stderr)
        return 1
    if not options.keep:
        shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
