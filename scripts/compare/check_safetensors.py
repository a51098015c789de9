#!/usr/bin/env python3
"""Opens a titan checkpoint with the reference safetensors library and puts every parameter together again.

usage: check_safetensors.py CHECKPOINT      (needs: pip install safetensors numpy torch)

Checks that every file opens, that its tensors are those of titan.json, and that the pieces of each parameter cover
every element; prints one line a tensor: shape, dtype, sum of squares. Exits 1 at the first difference.
"""
import json
import math
import pathlib
import sys

import torch
from safetensors import safe_open

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def check(condition, *what):
    if not condition:
        sys.exit("FAILED: " + " ".join(map(str, what)))


def tensor_name(entry):
    """The name in the file: NAME, or NAME[rows,columns]{range} of a piece."""
    (begin, end), offset, size = entry["range"], entry["box_offset"], entry["box_size"]
    name = entry["parameter"] + ("" if entry["kind"] == "parameter" else "." + entry["kind"])
    if end - begin == math.prod(entry["shape"]):
        return name
    name += "[" + ",".join(f"{o}:{o + s}" for o, s in zip(offset, size)) + "]"
    return name if end - begin == math.prod(size) else name + f"{{{begin}:{end}}}"


def place(entry, values, whole, seen):
    """Writes a piece into its parameter, and marks the elements it has."""
    slices = tuple(slice(o, o + s) for o, s in zip(entry["box_offset"], entry["box_size"]))
    begin, end = entry["range"]
    for target, source in ((whole, values.reshape(-1)), (seen, True)):
        box = target[slices].reshape(-1)
        box[begin:end] = source
        target[slices] = box.reshape(entry["box_size"])


def main(checkpoint):
    manifest = json.loads((checkpoint / "titan.json").read_text())["content"]
    tensors = {}
    for stored in manifest["files"]:
        with safe_open(checkpoint / stored["name"], framework="pt") as file:
            expected = {tensor_name(entry): entry for entry in stored["tensors"]}
            check(set(file.keys()) == set(expected), stored["name"], "holds other tensors than titan.json says")
            for name, entry in expected.items():
                values = file.get_tensor(name)
                dtype = DTYPES[entry["dtype"]]
                check(values.dtype == dtype, stored["name"], name, values.dtype, "expected", dtype)
                check(values.numel() == entry["range"][1] - entry["range"][0], stored["name"], name, values.shape)
                key = (entry["parameter"], entry["kind"])
                if key not in tensors:
                    tensors[key] = torch.zeros(entry["shape"], dtype=dtype), torch.zeros(entry["shape"], dtype=bool)
                place(entry, values, *tensors[key])
    for (parameter, kind), (whole, seen) in sorted(tensors.items()):
        check(bool(seen.all()), parameter, kind, int((~seen).sum()), "elements are in no file")
        print(f"{parameter:60} {kind:10} {str(list(whole.shape)):16} {str(whole.dtype):15} {float((whole.double() ** 2).sum()):.17g}")
    print(f"ok: step {manifest['run']['step']}, {len(manifest['files'])} files, {len(tensors)} tensors")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
