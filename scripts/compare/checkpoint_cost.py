#!/usr/bin/env python3
"""What a save costs: throughput over the steps from one save to the next, over that of a run that does not save.

usage: checkpoint_cost.py [options] [--section.key=value ...]      (needs: a built titan)

Each round trains once without saves and once with them (the other way round in every second round). A run has
1 + INTERVAL steps and saves after the first; the INTERVAL steps after that are measured, so the copy of the state and
its write are among them, and the save that ends a run is not. On a machine that does other things too, look at the
last line: for every step the shortest time of all rounds, since neighbours only make steps longer.

Keys after the options go to titan: --training.local_batch_size=1 makes steps short, and so the share of a save large.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def write_text(path):
    """Four megabytes of words: the speed of a step does not depend on what they say."""
    rng = random.Random(1)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(5000)]
    with open(path, "w") as out:
        for _ in range(48000):
            out.write(" ".join(rng.choices(words, k=14)) + ".\n")


def train(options, overrides, folder, saves):
    """Seconds of each measured step, and what the run said of its saves."""
    checkpoint = [
        "--checkpoint.enable=true",
        f"--checkpoint.async_mode={options.mode}",
        "--checkpoint.enable_first_step_checkpoint=true",
        "--checkpoint.interval=1000000",
    ]
    with tempfile.TemporaryDirectory(dir=folder, prefix="run-") as dump:
        command = [
            options.titan, "train", options.recipe,
            f"--job.dump_folder={dump}",
            f"--training.dataset_path={folder}/text.txt",
            f"--training.data_cache={folder}/tokens",
            f"--training.steps={options.interval + 1}",
            "--metrics.log_freq=1", "--metrics.save_jsonl=true",
            *overrides,
            *(checkpoint if saves else ["--checkpoint.enable=false"]),
        ]
        run = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, check=False)
        if run.returncode != 0:
            raise SystemExit(run.stderr)
        with open(f"{dump}/metrics.jsonl") as lines:
            steps = [step for step in map(json.loads, lines) if step["kind"] == "train" and step["step"] > 1]
    said = [line.split(" - ")[-1].split("checkpoint/")[-1] for line in run.stderr.splitlines() if "step-1:" in line]
    return [step["end_to_end_seconds"] for step in steps], said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titan", default=str(ROOT / "build/release/app/titan"))
    parser.add_argument("--recipe", default=str(ROOT / "configs/llama3_110m.toml"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--interval", type=int, default=20, help="steps from one save to the next (default 20)")
    parser.add_argument("--mode", default="async", choices=["async", "disabled"],
                        help="disabled: what a save costs that training waits for")
    parser.add_argument("--folder", default=None, help="where runs write (default: a temporary folder)")
    options, overrides = parser.parse_known_args()

    runs = {False: [], True: []}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        write_text(f"{folder}/text.txt")
        for number in range(options.rounds):
            for saves in (False, True) if number % 2 == 0 else (True, False):
                seconds, said = train(options, overrides, folder, saves)
                runs[saves].append(seconds)
                print("\n".join(f"  {line}" for line in said) or "  without saves")
                print("  " + " ".join(f"{s:.2f}" for s in seconds), flush=True)
            off, on = sum(runs[False][-1]), sum(runs[True][-1])
            print(f"round {number + 1}: {off:.2f} s without, {on:.2f} s with a save: throughput {off / on:.4f}",
                  flush=True)
    ratio = {name: sum(map(best, zip(*runs[False]))) / sum(map(best, zip(*runs[True])))
             for name, best in (("medians", statistics.median), ("minima", min))}
    print(f"throughput with a save every {options.interval} steps over that without: "
          f"{ratio['medians']:.4f} of each step's medians, {ratio['minima']:.4f} of its minima")


if __name__ == "__main__":
    main()
