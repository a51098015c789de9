"""Time titan's encoding of text on one thread against `tokenizers` and `tiktoken`, and look for quadratic cases.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3 tiktoken==0.14.0
    venv/bin/python scripts/compare/tokenizer_speed.py TOKENIZER --text english=gcide.txt [--text code=sources.txt ...]
    venv/bin/python scripts/compare/tokenizer_speed.py TOKENIZER --words 5

Each text is repeated or cut to --megabytes and split at line ends into documents of about 3 KB. The programs take turns, --rounds
times; the best of each counts. `tokenizers` is timed as encode_batch and as encode_batch_fast, which leaves out offsets; `tiktoken`
runs the same ranks where they make the same tokens: with a tokenizer.model. --words 5 prints seconds for single words of 64 KiB to 16 MiB.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tiktoken.load  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

ROOT = pathlib.Path(__file__).parent.parent.parent
sys.path += [str(ROOT / "scripts"), str(ROOT / "scripts/goldens")]
from make_tokenizer_goldens import llama3_encoding  # noqa: E402

DOCUMENT = 3000  # characters


def documents(text, megabytes):
    total, size = megabytes * 1_000_000, 0
    pieces = re.findall(r"(?s).{%d}[^\n]*\n|.+" % DOCUMENT, text)
    out = []
    while size < total:
        for piece in pieces:
            out.append(piece)
            size += len(piece.encode())
            if size >= total:
                break
    return out, size


def by_titan(titan, tokenizer, folder, docs):
    path = folder / "text.jsonl"
    if docs is not None:
        with path.open("w") as file:
            for doc in docs:
                file.write(json.dumps({"text": doc}, ensure_ascii=False) + "\n")
        return None
    command = [str(titan), "data", "encode", "--summary", "--tokenizer", str(tokenizer), str(path)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(re.search(r"(\d+) tokens", out)[1]), float(re.search(r"([\d.]+) s,", out)[1])


def timed(encode, docs):
    """Tokens and seconds; in batches, as data preparation does, so that memory stays small."""
    tokens, seconds = 0, 0.0
    for first in range(0, len(docs), 1000):
        begin = time.perf_counter()
        ids = encode(docs[first : first + 1000])
        seconds += time.perf_counter() - begin
        tokens += sum(map(len, ids))
    return tokens, seconds


def references(path):
    if path.suffix == ".model":
        encoding = llama3_encoding(tiktoken.load.load_tiktoken_bpe(str(path)))
        return {"tiktoken": lambda docs: [encoding.encode(doc, allowed_special="all") for doc in docs]}
    tokenizer = Tokenizer.from_file(str(path))
    return {
        "encode_batch": lambda docs: tokenizer.encode_batch(docs, add_special_tokens=False),
        "encode_batch_fast": lambda docs: tokenizer.encode_batch_fast(docs, add_special_tokens=False),
    }


def compare(arguments, folder):
    encoders = references(arguments.tokenizer)
    for name, path in (text.split("=", 1) for text in arguments.text):
        docs, size = documents(pathlib.Path(path).read_text(errors="replace"), arguments.megabytes)
        by_titan(arguments.titan, arguments.tokenizer, folder, docs)
        best, counts = {}, set()
        for _ in range(arguments.rounds):
            results = {"titan": by_titan(arguments.titan, arguments.tokenizer, folder, None)}
            results |= {other: timed(encode, docs) for other, encode in encoders.items()}
            for who, (tokens, seconds) in results.items():
                counts.add(tokens)
                best[who] = min(seconds, best.get(who, seconds))
        line = "  ".join(f"{who} {size / 1e6 / s:.1f} MB/s ({s / best['titan']:.2f}x)" for who, s in best.items())
        print(f"{name}: {len(docs)} documents, {size / 1e6:.0f} MB: {line}", flush=True)
        if len(counts) > 1:
            sys.exit(f"{name}: the numbers of tokens differ: {counts}")


def words(arguments, folder):
    generator = random.Random(1)
    letters = "".join(chr(generator.randint(97, 122)) for _ in range(1 << 20)) * 16
    kinds = {"a": "a" * (1 << 24), "letters": letters, "spaces": " " * (1 << 24), "digits": "7" * (1 << 24)}
    kinds |= {"emoji": "\U0001f600" * (1 << 22), "line ends": "\n" * (1 << 24), "marks": "!?" * (1 << 23)}
    sizes = [1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24][: arguments.words]
    print("seconds for one word of  " + "  ".join(f"{size >> 10:>6} KiB" for size in sizes))
    for name, text in kinds.items():
        row = []
        for size in sizes:
            (folder / "text.jsonl").write_text(json.dumps({"text": text.encode()[:size].decode()}) + "\n")
            row.append(by_titan(arguments.titan, arguments.tokenizer, folder, None)[1])
        print(f"{name:<24} " + "  ".join(f"{seconds:>10.4f}" for seconds in row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=pathlib.Path, help="a tokenizer.json or a Llama 3 tokenizer.model")
    parser.add_argument("--text", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--words", type=int, default=0, metavar="N", help="single words of the N smallest of 64 KiB, 256 KiB, ... 16 MiB")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--titan", type=pathlib.Path, default=ROOT / "build/release/app/titan")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(arguments, pathlib.Path(folder))
        if arguments.words:
            words(arguments, pathlib.Path(folder))


if __name__ == "__main__":
    main()
