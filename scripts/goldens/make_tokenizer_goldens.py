"""Write tests/data/tokenizer: hostile texts and the ids the reference libraries give them.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3 tiktoken==0.14.0
    venv/bin/python scripts/goldens/make_tokenizer_goldens.py

texts.json          the texts, shared by all
english_2048.json   ids of configs/tokenizers/english_2048 (Hugging Face `tokenizers`)
gpt2_small/         a tokenizer with GPT-2's regex, a prefix space, merges in the older "a b" form and added tokens
                    with every flag, trained here on the texts; ids.json holds its ids (`tokenizers`)
tiktoken_small/     the first 600 tokens of english_2048 as a tokenizer.model; ids.json: its ids (`tiktoken`)
llama3_small/       a tokenizer with Llama 3's regex and template, added tokens with every flag, and tokens that no merge
                    makes, which ignore_merges finds
hostile.json.gz     more texts, from a seed (hostile_text.py), as bytes that JSON writes as U+0000 to U+00FF; for each
                    tokenizer the number of ids of each text and the CRC-32 of these as little-endian int32
"""

import base64
import gzip
import json
import pathlib
import random
import struct
import sys
import zlib

import tiktoken
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).parent.parent.parent
FOLDER = ROOT / "tests/data/tokenizer"
sys.path.insert(0, str(ROOT / "scripts"))
from hostile_text import WHITE_SPACE, Hostile, long_word  # noqa: E402
from train_tokenizer import LLAMA3_PATTERN, train  # noqa: E402

HOSTILE_TEXTS = 2500

ADDED = "<|begin_of_text|> <|end_of_text|> <|eot_id|> <|reserved_special_token_1|> <|end <|end_of"
ADDED += " <mask> <r> <rl> [W] cat"


def curated():
    yield from [
        "",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\r",
        "\t",
        "\0",
        "a",
        " a",
        "a ",
        "  a",
        "   a  b   ",
        "a\n",
        "\n\na",
        " \n a",
    ]
    yield from [
        "Hello, world!",
        "The quick brown fox jumps over the lazy dog.",
        "don't",
        "it's, we'll, I'm, you're, I've, he'd",
    ]
    for ending in ["s", "t", "re", "ve", "m", "ll", "d", "\u017f"]:
        for form in dict.fromkeys([ending, ending.upper(), ending.capitalize()]):
            yield from [f"x'{form}", f"X '{form}y", f"'{form}", f"\u2019{form}"]
    for run in [
        "0",
        "7",
        "a",
        "Z",
        " ",
        "\n",
        "\r\n",
        "!",
        "'",
        "\u00e9",
        "\u65e5",
        "\U0001f600",
        "\t",
        "ab",
        " a",
        "-1",
    ]:
        yield from (run * count for count in (2, 3, 4, 5, 17, 100))
    yield from (f"a{space}b{space}{space}1{space}\n{space}!" for space in WHITE_SPACE)
    yield from (
        f"x{chr(c)}y {chr(c)}1"
        for c in [*range(0x20), 0x7F, *range(0x80, 0xA0, 5), 0xAD, 0x200E, 0x202E, 0x2066]
    )
    yield from [
        "3.14159",
        "1,234,567.89",
        "1234567890",
        "x2y3",
        "12 345",
        "\u0661\u0662\u0663\u0664",
        "\u2163\u2164 \u00bd\u00b2\u00b3\u00b9",
        "\u4e00\u4e8c\u4e09 123",
    ]
    yield from [
        "e\u0301",
        "a\u0300\u0301\u0302\u0303",
        "\u0301start",
        " \u0301",
        "\u1100\u1161\u11a8",
        "n\u0303o",
        "\u0e01\u0e33\u0e49",
        "\u0915\u094d\u0937\u093f",
    ]
    yield from [
        "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
        "\U0001f44d\U0001f3fd",
        "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7",
        "\u2764\ufe0f",
        "a\U0001f600b",
        "#\ufe0f\u20e3",
    ]
    yield from [
        "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002",
        "\u4f60\u597d\uff0c\u4e16\u754c\uff01",
        "\ud55c\uad6d\uc5b4",
        "\u30ab\u30bf\u30ab\u30ca\uff76\uff85",
        "\U00020000\U0002a6d6",
    ]
    yield from [
        "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
        "\u0645\u0631\u062d\u0628\u0627\u060c \u0628\u0643",
        "\u202babc\u202c",
        "\u0433\u0434\u0435 \u0401\u0436?",
        "\u0391\u03a3\u03c2",
        "\u0130\u0131",
        "\u212a\u212b",
        "\ufb01\ufb06\u00df\u1e9e",
    ]
    # Characters that came with Unicode 15, 15.1 and 16: a letter, digits, a mark, ideographs.
    yield from [
        "a\u1c89b \u1c8a",
        "1\U00010d40\U00010d41\U00010d42\U00010d43",
        "a\u0897",
        "\U00031350\U000323af\U0002ebf0",
        "\U0001e4d0!\U000116d0",
    ]
    yield from [
        "for (int i = 0; i < n; ++i) {\n\treturn x[i] != '\\0';\r\n}\r\n",
        "https://example.org/?q=a%20b&c=d#e",
        "<html>\n  <body/>\n</html>",
        "def f(x):\n    return  x**2\n\n\n",
        "a_b__c ___",
        "...\n\n...",
        "!?\r\n\r\n  ok",
    ]
    for token in ADDED.split():
        yield from [
            token,
            f"a{token}b",
            f" {token} ",
            f"\n {token}\u3000\n x",
            token * 2,
            f"{token} {token}",
            f"{token}'s",
            f".{token}.",
            token[:-1],
        ]
    yield from [
        "<|end_of_text|><|end_of_text",
        "<<|end_of_text|>>",
        "<|end_of<|end_of_text|>",
        "concatenate cat cats a cat\u0301",
        "\U000f0000\ue000",
        "\ufffd\ufffe\U0010ffff",
        "\u00ff\u0100\u07ff\u0800\uffff\U00010000",
    ]


def scrambled(count):
    generator = random.Random(2048)
    pieces = [
        "the",
        " of",
        "'s",
        "'LL",
        "123",
        "4",
        "\r\n",
        "\n",
        "  ",
        "\u00a0",
        "\u2028",
        "\u00e9",
        "e\u0301",
        "\u65e5\u672c",
        "\U0001f600",
        "\u200d",
        "!",
        " ?",
        "-",
        "_",
        "\u05d0",
        "\0",
        "\u0660",
    ]
    pieces += ADDED.split()
    for _ in range(count):
        yield "".join(generator.choice(pieces) for _ in range(generator.randrange(3, 15)))


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, separators=(",", ":")) + "\n")


def rows(path, values):
    """One value a line, so that a change is readable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(json.dumps(v, separators=(",", ":")) for v in values) + "\n]\n")


def add_flagged_tokens(tokenizer):
    tokenizer.add_tokens(
        [
            AddedToken("<mask>", lstrip=True, normalized=False),
            AddedToken("<r>", rstrip=True, normalized=False),
            AddedToken("<rl>", lstrip=True, rstrip=True, normalized=True),
            AddedToken("[W]", single_word=True, normalized=False),
            AddedToken("cat", single_word=True, normalized=True),
        ]
    )


def make_llama3_small(texts):
    tokenizer = train([text.decode("utf-8", errors="replace") for text in texts], vocab_size=700)
    add_flagged_tokens(tokenizer)
    description = json.loads(tokenizer.to_str())
    del description["model"]["merges"][::4]
    write(FOLDER / "llama3_small/tokenizer.json", description)


def variant_of_llama3_small(ignore_merges):
    description = json.loads((FOLDER / "llama3_small/tokenizer.json").read_text())
    description["model"]["ignore_merges"] = ignore_merges
    return Tokenizer.from_str(json.dumps(description))


def llama3_encoding(ranks):
    """What Llama 3's tokenizer.model with these ranks means."""
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>"]
    names += ["<|finetune_right_pad_id|>", "<|reserved_special_token_2|>"]
    names += ["<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"]
    names += [f"<|reserved_special_token_{i}|>" for i in range(3, 248)]
    return tiktoken.Encoding(
        "llama3",
        pat_str=LLAMA3_PATTERN,
        mergeable_ranks=ranks,
        special_tokens={name: len(ranks) + i for i, name in enumerate(names)},
    )


def digest(ids):
    return [len(ids), zlib.crc32(struct.pack(f"<{len(ids)}i", *ids))]


def make_gpt2_small(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    )
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|end"])
    add_flagged_tokens(tokenizer)
    description = json.loads(tokenizer.to_str())
    description["model"]["merges"] = [" ".join(pair) for pair in description["model"]["merges"]]
    write(FOLDER / "gpt2_small/tokenizer.json", description)
    return Tokenizer.from_file(str(FOLDER / "gpt2_small/tokenizer.json"))


def make_tiktoken_small(english):
    size = 600
    tokens = [alphabet_bytes(english.id_to_token(i)) for i in range(size)]
    lines = (f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens))
    path = FOLDER / "tiktoken_small/tokenizer.model"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))
    return llama3_encoding({token: rank for rank, token in enumerate(tokens)})


def alphabet_bytes(spelled):
    """The bytes that a token in GPT-2's alphabet stands for."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(others)}
    return bytes(byte_of[character] for character in spelled)


def main():
    texts = list(dict.fromkeys([*curated(), *scrambled(150)]))
    english = Tokenizer.from_file(str(ROOT / "configs/tokenizers/english_2048/tokenizer.json"))
    gpt2 = make_gpt2_small(texts)
    small = make_tiktoken_small(english)
    rows(FOLDER / "texts.json", texts)
    rows(FOLDER / "english_2048.json", [english.encode(text, add_special_tokens=False).ids for text in texts])
    rows(FOLDER / "gpt2_small/ids.json", [gpt2.encode(text, add_special_tokens=False).ids for text in texts])
    rows(FOLDER / "tiktoken_small/ids.json", [small.encode(text, allowed_special="all") for text in texts])

    hostile = [*Hostile(2048).texts(HOSTILE_TEXTS), long_word(1 << 20)]
    make_llama3_small(hostile[:-1])
    encoders = {
        "english_2048": lambda text: english.encode(text, add_special_tokens=False).ids,
        "gpt2_small": lambda text: gpt2.encode(text, add_special_tokens=False).ids,
        "tiktoken_small": lambda text: small.encode(text, allowed_special="all"),
    }
    for name, ignore_merges in [("llama3_small", True), ("llama3_small, merges only", False)]:
        variant = variant_of_llama3_small(ignore_merges)
        encoders[name] = lambda text, variant=variant: variant.encode(text, add_special_tokens=False).ids
    strings = [text.decode("utf-8", errors="replace") for text in hostile]
    record = {"texts": [text.decode("latin-1") for text in hostile]}
    record["ids"] = {name: [digest(encode(text)) for text in strings] for name, encode in encoders.items()}
    packed = gzip.compress(json.dumps(record, separators=(",", ":")).encode(), mtime=0)
    (FOLDER / "hostile.json.gz").write_bytes(packed)
    print(f"{len(texts)} texts, {len(hostile)} from a seed")


if __name__ == "__main__":
    main()
