"""Texts that are hard on a tokenizer, made from a seed: for make_tokenizer_goldens.py and check_tokenizers.py."""

import itertools
import random
import sys
import unicodedata

# Every kind of white space, and U+180E, U+200B and U+FEFF, which look like it and are not.
WHITE_SPACE = [chr(c) for c in [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)]]
WHITE_SPACE += [chr(c) for c in (0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0x180E, 0x200B, 0xFEFF)]

SPECIAL = [
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|reserved_special_token_1|>",
    "<|end",
    "<|end_of",
    "<mask>",
    "<r>",
    "<rl>",
    "[W]",
    "cat",
]

EMOJI = [
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "\U0001f44d\U0001f3fd",
    "\U0001f1e9\U0001f1ea",
    "\u2764\ufe0f\u200d\U0001f525",
    "#\ufe0f\u20e3",
    "7\u20e3",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "\u2603\ufe0e",
    "\U0001f9d1\U0001f3ff\u200d\U0001f4bb",
]

CODE = [
    "for (int i = 0; i < n; ++i) {\r\n\t\tx[i] += '\\0';\r\n\t}",
    "https://example.org/?q=a%20b&c=d#e",
    "def f(x):\n    return  x**2\n\n\n",
    "<a href=\"x\">\n  b</a>",
    "-1.5e-10, 0xDEADBEEF, 1_000_000, 12:34:56.789",
    "\\p{L}+|[^\\s]*?(?!\\S)",
    "snake_case camelCase SCREAMING_CASE kebab-case __init__",
]

INVALID = [
    b"\xff",
    b"\xc0\xaf",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\x80",
    b"\xe0\x80\x80",
    b"\xf0\x80\x80\x80",
    b"\xc3",
    b"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41",
]


def code_points_by_category():
    """Of the assigned code points that are no surrogates, in this Python's version of Unicode."""
    categories = {}
    for c in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(c))
        if category not in ("Cn", "Cs"):
            categories.setdefault(category, []).append(chr(c))
    return categories


class Hostile:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.categories = code_points_by_category()
        self.kinds = [
            self.character,
            self.contraction,
            self.emoji,
            self.combined,
            self.line_ends,
            self.run,
            self.number,
            self.word,
            lambda: self.random.choice(WHITE_SPACE) * self.random.randint(1, 4),
            lambda: self.random.choice(SPECIAL),
            lambda: self.random.choice(SPECIAL)[: self.random.randint(1, 12)],
            lambda: self.random.choice(CODE),
        ]

    def character(self, category=None):
        return self.random.choice(self.categories[category or self.random.choice(sorted(self.categories))])

    def word(self):
        category = self.random.choice(["Ll", "Ll", "Ll", "Lu", "Lo", "Lm", "Lt", "L ASCII", "L ASCII"])
        length = self.random.choice([1, 2, 3, 5, 8, 13, 40, 64, 65])
        if category == "L ASCII":
            return "".join(chr(self.random.randint(97, 122)) for _ in range(length))
        return "".join(self.character(category) for _ in range(length))

    def contraction(self):
        ending = self.random.choice(["s", "t", "re", "ve", "m", "ll", "d", "\u017f", "k", "r", "v", "l"])
        cased = "".join(self.random.choice([c.lower(), c.upper()]) for c in ending)
        return self.random.choice(["'", "'", "'", "\u2019", "''"]) + cased

    def emoji(self):
        return self.random.choice(EMOJI) * self.random.randint(1, 3)

    def combined(self):
        marks = (self.character(self.random.choice(["Mn", "Mc", "Me"])) for _ in range(self.random.randint(1, 5)))
        return self.random.choice(["a", " ", "", "\u0915", "1", "!", "\n"]) + "".join(marks)

    def line_ends(self):
        return "".join(self.random.choice(["\r\n", "\n", "\r", " ", "\t", "\u00a0", "\u2028"])
                       for _ in range(self.random.randint(1, 6)))  # fmt: skip

    def run(self):
        unit = self.random.choice(["0", "a", "Z", " ", "\n", "\r\n", "!", "'", "\u00e9", "\u65e5", "\t", "ab", "\u00a0"])
        return unit * self.random.choice([2, 3, 4, 5, 16, 17, 48, 49, 50, 100, 300])

    def number(self):
        digits = self.random.choice(["0123456789", self.categories["Nd"], self.categories["No"], self.categories["Nl"]])
        text = "".join(self.random.choice(digits) for _ in range(self.random.randint(1, 10)))
        return text + self.random.choice(["", ".", ",", " ", "e", "-"])

    def mixed(self):
        return "".join(self.random.choice(self.kinds)() for _ in range(self.random.randint(1, 9)))

    def broken(self):
        """Bytes that are no UTF-8."""
        how = self.random.randrange(3)
        if how == 0:
            return bytes(self.random.randrange(256) for _ in range(self.random.randint(1, 40)))
        if how == 1:
            good = self.mixed().encode()
            cut = self.random.randrange(len(good) + 1)
            return good[:cut] + self.random.choice(INVALID) + good[cut:]
        good = bytearray(self.mixed().encode())
        for _ in range(self.random.randint(1, 4)):
            good[self.random.randrange(len(good))] = self.random.randrange(256)
        return bytes(good)

    def texts(self, count):
        """`count` byte strings, each once: all categories by turns, one in eight broken, the others mixtures."""
        seen = set()
        for i in itertools.count():
            names = sorted(self.categories)
            if i % 8 == 0:
                text = self.broken()
            elif i % 8 < 3:
                c = self.character(names[i % len(names)])
                text = self.random.choice(["{}", "a{}b", " {} ", "1{}2", "{}{}\n", "{}'s", "'{}", "\n {}!", "{}a"])
                text = text.replace("{}", c).encode()
            else:
                text = self.mixed().encode()
            if text in seen:
                continue
            seen.add(text)
            yield text
            if len(seen) == count:
                return


def long_word(length):
    """A word of this many letters that compresses well."""
    generator = random.Random(length)
    block = "".join(chr(generator.randint(97, 122)) for _ in range(997))
    return (block * (length // len(block) + 1))[:length].encode()
