"""Compare titan's token ids with those of `tokenizers` and `tiktoken` on hostile texts made from a seed.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3 tiktoken==0.14.0 transformers
    venv/bin/python scripts/compare/check_tokenizers.py --count 20000 [TOKENIZER...]

A tokenizer is a tokenizer.json or a Llama 3 tokenizer.model (or a folder with one); without any, those in the repository.
Beside a tokenizer_config.json the reference is `transformers`, which adds the special tokens that file names.
Prints each difference and a line a tokenizer; exit status 1 if there was a difference.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import tiktoken
import tiktoken.load
from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).parent.parent.parent
sys.path += [str(ROOT / "scripts"), str(ROOT / "scripts/goldens")]
from hostile_text import Hostile, long_word  # noqa: E402
from make_tokenizer_goldens import llama3_encoding  # noqa: E402

OWN = ["configs/tokenizers/english_2048", *(f"tests/data/tokenizer/{n}" for n in ("gpt2_small", "llama3_small", "tiktoken_small"))]
BATCH = 2000


def reference(path):
    """text -> ids by the real library."""
    if path.suffix == ".model":
        encoding = llama3_encoding(tiktoken.load.load_tiktoken_bpe(str(path)))
        return lambda text: encoding.encode(text, allowed_special="all")
    if (path.parent / "tokenizer_config.json").exists():  # it may add special tokens
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(path.parent)).backend_tokenizer
    else:
        tokenizer = Tokenizer.from_file(str(path))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def by_titan(titan, tokenizer, texts, folder):
    """Ids of byte strings: JSON lines for those that are UTF-8, a file each for the others."""
    lines, files = [], []
    for i, text in enumerate(texts):
        try:
            lines.append((i, json.dumps({"text": text.decode()})))
        except UnicodeDecodeError:
            files.append(i)
            (folder / f"{i:06}.txt").write_bytes(text)
    (folder / "lines.jsonl").write_text("\n".join(line for _, line in lines) + "\n")
    ids = {}
    for numbers, source in [([i for i, _ in lines], [folder / "lines.jsonl"]), (files, [folder / f"{i:06}.txt" for i in files])]:
        if not source:
            continue
        command = [str(titan), "data", "encode", "--tokenizer", str(tokenizer), *map(str, source)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        ids.update(zip(numbers, ([int(n) for n in line.split()] for line in out.split("\n")[:-1]), strict=True))
    for file in folder.iterdir():
        file.unlink()
    return [ids[i] for i in range(len(texts))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", nargs="*", type=pathlib.Path, default=[ROOT / path for path in OWN])
    parser.add_argument("--count", type=int, default=20000, help="texts for each tokenizer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--titan", type=pathlib.Path, default=ROOT / "build/release/app/titan")
    arguments = parser.parse_args()

    texts = list(Hostile(arguments.seed).texts(arguments.count)) + [long_word(1 << 20), b"", b"\xf0\x9f\x98" * 5000]
    failed = False
    for path in arguments.tokenizer:
        if path.is_dir():
            path = next(path / n for n in ("tokenizer.json", "tokenizer.model") if (path / n).exists())
        encode = reference(path)
        different = 0
        with tempfile.TemporaryDirectory() as folder:
            for first in range(0, len(texts), BATCH):
                batch = texts[first : first + BATCH]
                for text, ids in zip(batch, by_titan(arguments.titan, path, batch, pathlib.Path(folder)), strict=True):
                    expected = encode(text.decode("utf-8", errors="replace"))
                    if ids != expected:
                        different += 1
                        if different <= 20:
                            print(f"{path}: {text[:200]!r}\n  titan {ids[:40]}\n  here  {expected[:40]}")
        print(f"{path}: {len(texts)} texts, {different} differ", flush=True)
        failed |= different > 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
