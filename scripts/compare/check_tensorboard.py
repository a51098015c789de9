#!/usr/bin/env python3
"""Holds titan's TensorBoard files against the `tensorboard` package (pip install tensorboard).

  check_tensorboard.py check RUN_FOLDER METRICS_JSONL   the package reads the numbers of metrics.jsonl
  check_tensorboard.py golden OUT                       the package writes tensorboard_test.cc's golden file
"""

import argparse
import json
import math
import struct
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

GIB = 2.0**30

TRAIN_TAGS = {
    "loss_metrics/global_avg_loss": lambda m: m["loss"],
    "loss_metrics/global_max_loss": lambda m: m["max_loss"],
    "grad_norm": lambda m: m["grad_norm"],
    "throughput(tps)": lambda m: m["tps"],
    "tflops": lambda m: m["tflops"],
    "mfu(%)": lambda m: m["mfu"],
    "speed_of_light(%)": lambda m: m["speed_of_light"],
    "time_metrics/end_to_end(s)": lambda m: m["end_to_end_seconds"],
    "time_metrics/data_loading(s)": lambda m: m["data_loading_seconds"],
    "memory/max_reserved(GiB)": lambda m: m["memory_bytes"] / GIB,
    "memory/max_reserved(%)": lambda m: m["memory_percent"],
    "memory/beside_arena(GiB)": lambda m: m["beside_arena_gib"],
    "n_tokens_seen": lambda m: m["tokens_seen"],
    "lr": lambda m: m["lr"],
}
VALIDATION_TAGS = {
    "validation_metrics/loss": lambda m: m["loss"],
    "validation_metrics/throughput(tps)": lambda m: m["tps"],
    "validation_metrics/memory/max_reserved(GiB)": lambda m: m["memory_bytes"] / GIB,
    "validation_metrics/memory/max_reserved(%)": lambda m: m["memory_percent"],
}


def as_float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def expected_scalars(jsonl):
    """{tag: {step: value}}; a value is None where JSON has null (unknown or not finite)."""
    expected = {}
    with open(jsonl) as lines:
        for metrics in map(json.loads, lines):
            tags = TRAIN_TAGS if metrics["kind"] == "train" else VALIDATION_TAGS
            for tag, value in tags.items():
                expected.setdefault(tag, {})[metrics["step"]] = value(metrics)
    return expected


def check(folder, jsonl):
    events = event_accumulator.EventAccumulator(
        folder, size_guidance=event_accumulator.STORE_EVERYTHING_SIZE_GUIDANCE
    )
    events.Reload()
    actual = {tag: {e.step: e.value for e in events.Scalars(tag)} for tag in events.Tags()["scalars"]}
    compared, wrong = 0, []
    for tag, steps in expected_scalars(jsonl).items():
        for step, value in steps.items():
            found = actual.get(tag, {}).get(step)
            unknown = value is None and (found is None or not math.isfinite(found))
            if not unknown and (value is None or found != as_float32(value)):
                wrong.append(f"{tag} step {step}: metrics.jsonl {value}, TensorBoard {found}")
            compared += not unknown
    print("\n".join(wrong) or f"{compared} scalars of {len(actual)} tags agree")
    return 1 if wrong or compared == 0 else 0


def golden(path):
    wall_time = 1700000000.25
    steps = {
        1: {"loss_metrics/global_avg_loss": 8.0491, "grad_norm": 1.5, "mfu(%)": 0.0},
        300: {"lr": 8e-4, "n_tokens_seen": 1e15, "loss_metrics/global_max_loss": math.nan},
        1 << 40: {},
    }
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=wall_time, file_version="brain.Event:2").SerializeToString())
        for step, scalars in steps.items():
            values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
            event = Event(wall_time=wall_time, step=step, summary=Summary(value=values))
            writer.write(event.SerializeToString())
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check")
    checking.add_argument("folder")
    checking.add_argument("jsonl")
    making = commands.add_parser("golden")
    making.add_argument("path")
    args = parser.parse_args()
    return check(args.folder, args.jsonl) if args.command == "check" else golden(args.path)


if __name__ == "__main__":
    sys.exit(main())
