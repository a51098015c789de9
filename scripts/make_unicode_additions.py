"""Write engine/tokenizer/unicode_16_additions.inc: the characters assigned after Unicode 14, with their categories.

PCRE2 10.42 classifies characters by Unicode 14, the reference tokenizers by Unicode 16. The list is read from the
reference itself: `tokenizers` (Oniguruma) is asked for the members of each category, and Python 3.11's unicodedata
(Unicode 14) says which of them it does not know.

    python3.11 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python scripts/make_unicode_additions.py
"""

import pathlib
import unicodedata

from tokenizers import Regex, pre_tokenizers

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp".split()
TARGET = pathlib.Path(__file__).parent.parent / "engine/tokenizer/unicode_16_additions.inc"

if not unicodedata.unidata_version.startswith("14."):
    raise SystemExit(
        f"this Python knows Unicode {unicodedata.unidata_version}; run with Python 3.11 (Unicode 14)"
    )
unknown = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) == "Cn"]

category_of = {}
for category in CATEGORIES:
    keep_members = pre_tokenizers.Split(Regex(r"\p{%s}" % category), "removed", invert=True)
    for start in range(0, len(unknown), 4096):
        for members, _ in keep_members.pre_tokenize_str("".join(unknown[start : start + 4096])):
            category_of.update((ord(character), category) for character in members)

ranges = []
for code_point, category in sorted(category_of.items()):
    if ranges and ranges[-1][1] == code_point - 1 and ranges[-1][2] == category:
        ranges[-1][1] = code_point
    else:
        ranges.append([code_point, code_point, category])

lines = ["// Written by scripts/make_unicode_additions.py: first, last, general category."]
lines += [f'{{0x{first:X}, 0x{last:X}, "{category}"}},' for first, last, category in ranges]
TARGET.write_text("\n".join(lines) + "\n")
