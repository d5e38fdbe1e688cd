#!/usr/bin/env python3
"""Makes the files of this folder: a small byte-pair vocabulary of HuggingFace's `tokenizers`, and
texts with the numbers that it gives for them. The tests read what was committed; they run this
script too where `tokenizers` is installed (pip install tokenizers==0.23.3).

usage: make_files.py FOLDER          trains, and writes tokenizer.json, vocab.json, merges.txt, cases.json
       make_files.py --encode FOLDER TEXTS   encodes each text of TEXTS (a JSON list), writes JSON
"""

import json
import pathlib
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[3]
TEXTS = [
    "", " ", "  ", "a", "Hello world", " Hello  world ", "It's we're they'll I'd I'm you've don't",
    "IT'S 'S 's''s '", "\n\n\n  x\n", "tab\tand\r\nlines\n", "   leading", "trailing   ",
    "x  y   z", "12345 67,890.12 ½ ² Ⅷ ٣", "naïve café Straße ÀÉÎ", "你好,世界。 こんにちは 한국어",
    "русский текст", "🙂🙃 👨‍👩‍👧 ❤️", "e\u0301 o\u0308", "a\u00a0b\u3000c\u2003d\u0085e", "\u200b\u2060x",
    "for (int i = 0; i < n; ++i) { total += values[i]; }", "!!!???...", "a_b__c", "$100 #tag @name",
    "<|endoftext|>", "one<|endoftext|>two <|endoftext|> three<|endoftext", "<|endoftext|><|endoftext|>",
    "workers workers workers", "the the the " * 20, "z" * 300, "ab" * 200, "\u0000\u0001\u007f",
    "\u1c89\ua7cb\U000323af \U0001e5fa", "'", "''", " '", "'\u017f", "x's\u2019s",
]


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train([str(ROOT / "docs/guide.md"), str(ROOT / "docs/elastic.md")], trainer)
    return tokenizer


def write(folder):
    tokenizer = train()
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    tokenizer.model.save(str(folder))
    cases = [{"text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS]
    lines = ",\n".join(json.dumps(case) for case in cases)
    (folder / "cases.json").write_text(f"[\n{lines}\n]\n")


if sys.argv[1] == "--encode":
    known = Tokenizer.from_file(str(pathlib.Path(sys.argv[2]) / "tokenizer.json"))
    texts = json.loads(pathlib.Path(sys.argv[3]).read_text())
    print(json.dumps([known.encode(text).ids for text in texts]))
else:
    write(pathlib.Path(sys.argv[1]))
