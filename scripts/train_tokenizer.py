"""Train a small byte-level BPE tokenizer in the form of Llama 3's, for experiments that need no download.

configs/tokenizers/english_2048 was made by this script from GCIDE, the GNU Collaborative International Dictionary of
English 0.48 (GPL), as Debian packages it (dict-gcide 0.48.5+nmu2). The tokenizer holds frequent letter sequences, none of its text:

    apt-get install dict-gcide
    zcat /usr/share/dictd/gcide.dict.dz > gcide.txt
    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python scripts/train_tokenizer.py gcide.txt configs/tokenizers/english_2048 --vocab-size 2048 --gcide

The same text gives the same file. Any UTF-8 text will do; --gcide strips the dictionary's markup.
"""

import argparse
import json
import pathlib
import re

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def prose_of_gcide(text):
    """One paragraph a line, without pronunciations, sources such as [1913 Webster] and {cross references}' braces."""
    text = re.sub(r"\\[^\\]{0,80}\\|\(\?[^)]{0,20}\)|\[[^\]]{0,40}\]|[{}]", "", text)
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return [paragraph + "\n" for paragraph in paragraphs if paragraph]


def train(lines, vocab_size):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    # As in Llama 3, special tokens follow the learned ones.
    tokenizer.add_special_tokens([BOS, EOS])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS}:1 $B:1", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    return tokenizer


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=pathlib.Path, help="UTF-8 text; invalid bytes count as U+FFFD")
    parser.add_argument("folder", type=pathlib.Path, help="gets tokenizer.json and tokenizer_config.json")
    parser.add_argument("--vocab-size", type=int, default=2048, help="special tokens included")
    parser.add_argument("--gcide", action="store_true", help="the text is GCIDE in dictd's form")
    arguments = parser.parse_args()

    text = arguments.text.read_text(encoding="utf-8", errors="replace")
    lines = prose_of_gcide(text) if arguments.gcide else text.splitlines(keepends=True)
    tokenizer = train(lines, arguments.vocab_size)

    arguments.folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(arguments.folder / "tokenizer.json"), pretty=False)
    config = {"bos_token": BOS, "eos_token": EOS, "tokenizer_class": "PreTrainedTokenizerFast"}
    (arguments.folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    print(f"{arguments.folder}: {tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
