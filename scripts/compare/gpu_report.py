#!/usr/bin/env python3
"""Keeps what the steps of gpu_check.sh found, one JSON object a line, and prints it as tables in Markdown.

  gpu_report.py machine --results FILE --text TEXT --fields NAMES --cuda VERSION    notes the machine
  gpu_report.py add     --results FILE --phase P --step S --build ID --status N --seconds N [--out FILE] [--err FILE]
  gpu_report.py is_done --results FILE --phase P --step S --build ID                exit status 0: that step is done
  gpu_report.py table   --results FILE --phase P [--build ID]                       exit status 1: steps of P are not done

--status is a step's exit status: 0 ok; 75 it did not fit into the time; 77 it cannot run here; 124 and 137 stopped at its
limit; all else failed. A later result of a step replaces an earlier one. Results of another build do not count; without
--build the one that was measured last does.
"""

import argparse
import json
import pathlib
import sys

WORDS = {0: "ok", 75: "did not fit into the time", 77: "not here", 124: "stopped at its limit", 137: "stopped at its limit"}
DONE = ("ok", "not here")


def read(path):
    """The last result of each step, in the order of their first ones; the machine; the build measured last."""
    steps, machine, build = {}, {}, ""
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue  # cut off with the machine
            if "machine" in entry:
                machine = entry
            else:
                steps[entry["phase"], entry["step"]] = entry
                build = build if entry["phase"] == "build" else entry["build"]
    return steps, machine, build


def append(path, entry):
    with open(path, "a") as file:
        file.write(json.dumps(entry) + "\n")


def counts(entry, build):
    """Whether a result is of this build; the build's own steps are checked again in every call."""
    return entry["phase"] == "build" or entry["build"] == build


def last_words(text):
    """The last line that says something, for the table."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" =-\n")]
    return lines[-1].replace("|", "/")[:160] if lines else ""


def add(args):
    out = args.out.read_text(errors="replace") if args.out else ""
    err = args.err.read_text(errors="replace") if args.err else ""
    entry = {"phase": args.phase, "step": args.step, "build": args.build, "seconds": args.seconds,
             "status": WORDS.get(args.status, f"failed ({args.status})")}
    if out.lstrip().startswith("{"):
        try:
            entry["data"] = json.loads(out)
        except json.JSONDecodeError:
            entry["status"] = entry["status"] if args.status else "failed (its JSON is broken)"
    if entry["status"] != "ok":
        entry["note"] = last_words(err) or last_words(out)
    elif "data" not in entry:
        entry["note"] = last_words(out)
    append(args.results, entry)


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def machine_lines(machine):
    names = machine["fields"].split(",")
    values = [value.strip() for value in machine["machine"].split(",")]
    if len(names) == len(values):
        yield "Machine: " + ", ".join(f"{n.replace('.', ' ')} {v}" for n, v in zip(names, values)) + f"; CUDA {machine['cuda'] or 'none'}"
    else:
        yield f"Machine: {machine['machine']}; CUDA toolkit {machine['cuda'] or 'none'}"


def step_lines(steps):
    yield row("phase", "step", "result", "seconds", "last line")
    yield "|---|---|---|--:|---|"
    for entry in steps:
        yield row(entry["phase"], entry["step"], entry["status"], entry["seconds"], entry.get("note", ""))


def operation_lines(name, data):
    """Every operation of one step, the longest first, against what this device was measured to reach."""
    f8 = f", {data['peak_flops_f8'] * 1e-12:.4g} TFLOP/s of 8-bit products" if data.get("peak_flops_f8") else ""
    yield (f"{name[0].upper()}{name[1:]}, on {data['device']}: measured {data['peak_flops_bf16'] * 1e-12:.4g} TFLOP/s of bf16 and "
           f"{data['peak_flops_f32'] * 1e-12:.4g} TFLOP/s of f32 products{f8}, copies {data['bytes_per_second'] * 1e-9:.4g} GB/s; "
           f"a step of {data['step_seconds'] * 1e3:.4g} ms.")
    yield ""
    yield row("operation", "shape", "launches", "ms, each", "TFLOP/s", "GB/s", "of floor", "share of the step")
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    total = sum(op["seconds"] for op in data["ops"])
    for op in data["ops"]:
        seconds = max(op["fastest_seconds"], 1e-12)
        yield row(f"`{op['op']}`", op["shape"], op["count"], f"{seconds / op['count'] * 1e3:.4f}", f"{op['flops'] / seconds * 1e-12:.4g}",
                  f"{op['bytes'] / seconds * 1e-9:.4g}", f"{100 * op['floor_seconds'] / seconds:.0f} %",
                  f"{100 * op['seconds'] / total:.1f} %")


def gib(value):
    return f"{value / 2**30:.2f} GiB" if value else "n/a"


def training_lines(trainings):
    yield row("model", "program", "step, median", "least", "most", "tokens/s", "MFU", "memory planned", "memory used", "against PyTorch")
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for data in trainings:
        rate = {name: c.get("tokens_per_second") for name, c in data["contenders"].items()}
        peer = next((r for name, r in rate.items() if r and name.startswith("PyTorch")), None)
        for name, c in data["contenders"].items():
            if not c.get("seconds"):
                yield row(data["shape"], name, c["message"].replace("|", "/"), *[""] * 7)
                continue
            mfu = f"{c['mfu_percent']:.1f} %" if c.get("mfu_percent") else "n/a"
            ratio = f"{rate[name] / peer:.2f}x" if peer and not name.startswith("PyTorch") else ""
            yield row(data["shape"], name, f"{c['median'] * 1e3:.1f} ms", f"{min(c['seconds']) * 1e3:.1f}", f"{max(c['seconds']) * 1e3:.1f}",
                      f"{rate[name]:,.0f}", mfu, gib(c.get("planned_bytes")), gib(c.get("used_bytes")), ratio)


def table(args):
    steps, machine, latest = read(args.results)
    kept = [entry for entry in steps.values() if counts(entry, args.build or latest)]
    if not kept:
        print("No results yet: scripts/gpu_check.sh --phase build, then ops, then train.")
        return True
    sections = [list(machine_lines(machine))] if machine else []
    sections.append(list(step_lines(kept)))
    for entry in kept:
        if "ops" in entry.get("data", {}):
            sections.append(list(operation_lines(entry["step"], entry["data"])))
    trainings = [entry["data"] for entry in kept if "contenders" in entry.get("data", {})]
    if trainings:
        sections.append(list(training_lines(trainings)))
    print("\n\n".join("\n".join(lines) for lines in sections))
    return all(entry["status"] in DONE for entry in kept if args.phase in ("all", entry["phase"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["machine", "add", "is_done", "table"])
    parser.add_argument("--results", type=pathlib.Path, required=True)
    for name in ("phase", "step", "build", "text", "fields", "cuda"):
        parser.add_argument(f"--{name}", default="")
    for name in ("status", "seconds"):
        parser.add_argument(f"--{name}", type=int, default=0)
    for name in ("out", "err"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    args = parser.parse_args()
    if args.action == "machine":
        append(args.results, {"machine": args.text, "fields": args.fields, "cuda": args.cuda})
    elif args.action == "add":
        add(args)
    elif args.action == "is_done":
        entry = read(args.results)[0].get((args.phase, args.step))
        sys.exit(0 if entry and counts(entry, args.build) and entry["status"] == "ok" else 1)
    else:
        sys.exit(0 if table(args) else 1)


if __name__ == "__main__":
    main()
