"""The grammar of Python: real programs, texts near them, and generated texts, judged by `ast.parse`."""

from __future__ import annotations

import random
import sys
import unicodedata
from collections import Counter

import numpy as np
import pytest

import guided

pytest.importorskip("lark", reason="lark is not installed")

from tests.lexer_support import vocabulary_of
from tests.program_support import few_or_many
from tests.python_judge import FOLDER, PIECES, is_parsed, mutated, programs, reason_for
from tests.test_library import accepts, samples, written

GOOD, BAD = samples("python", "accept"), samples("python", "reject")
EDGES = [
    "", " ", "\n", " \n", "\t\n", "\f\n", "\\\n", "  \\\n", "\\\n\n", "\\\nx\n", "  \\\nx\n", "x\\\n\n", "x \\\n y\n",
    "#\n", "  #\n", "#\\\n", "x #\\\ny\n", "if x:\n y\n#\n z\n", "if x:\n y\n\\\n z\n", "if x: #\n #\n\n y\n",
    "\ufeffx\n", "x\r\n", "x\n\f\ny\n", "if x:\n\\\n y\n", "if x:\n  \\\n y\n", "if x:\n y\n \\\n\nz\n",
    "(\n\n#\n)\n", "x;\n", "\u0000\n", "{}\n", "()\n", "...\n", "..\n", "1if 1else 2\n", "1_a\n", "0_0\n", "0_7\n",
    "1__0\n", "1e\n", "1.e1\n", "0xfor x in y\n", "\u00aa = \ufb01\n", "x\u00b7y\n", "\u00b7x\n", "a\u0301\n",
    "\u0968 = 1\n", "a\u0968\n", "\u00b2\n", "\u2118 = \u212e\n", "\u0915\u094d\u0937\u093f\n", "x\u200d\n",
]  # fmt: skip


@pytest.fixture(scope="module")
def grammar() -> guided.CompiledGrammar:
    """A token for each byte, for pieces of the samples with and without a space before them, and for line breaks."""
    words = {
        found[0] for text in GOOD for found in PIECES.finditer(text) if found[0].isascii() and not found[0][0].isdigit()
    }
    texts = {text.encode() for word in words for text in (word, f" {word}")} | {b"\n" + b" " * n for n in range(17)}
    tokens = [bytes([byte]) for byte in range(256)] + sorted(text for text in texts if 1 < len(text) < 30)
    vocabulary = vocabulary_of(tokens)
    return guided.GrammarCompiler(vocabulary).compile(guided.grammar("python"))


def test_samples_are_read_by_python():
    assert len(GOOD) >= 25 and len(BAD) >= 100
    assert [text for text in GOOD if not is_parsed(text)] == []
    taken = {text: reason_for(text, False) for text in BAD if is_parsed(text)}
    assert len(taken) < 8 and None not in taken.values(), taken


@pytest.mark.parametrize("text", EDGES)
def test_edges(grammar: guided.CompiledGrammar, text: str):
    taken = accepts(grammar, text)
    assert taken == is_parsed(text) or reason_for(text, taken) is not None


@pytest.mark.parametrize(
    ("least", "most", "part", "parts"),
    [
        pytest.param(0, 1000, 0, 4, id="few"),
        *(pytest.param(0, 20_000, part, 4, id=f"small {part}", marks=pytest.mark.slow) for part in range(4)),
        *(pytest.param(20_000, 1 << 30, part, 8, id=f"large {part}", marks=pytest.mark.slow) for part in range(8)),
    ],
)
def test_the_standard_library_is_read(grammar: guided.CompiledGrammar, least: int, most: int, part: int, parts: int):
    """Each file that ast.parse accepts. Later versions have other f-strings, so a few files are refused there. Some
    distributions leave out the folder `test`, which has most of the files."""
    refused, read, size = Counter[str](), 0, 0
    for path, text in [*programs(least, most)][part::parts]:
        read += 1
        size += len(text)
        if not accepts(grammar, text):
            reason = reason_for(text, False)
            assert reason is not None, path
            refused[reason] += 1
            print(f"refused: {path.relative_to(FOLDER)}: {reason}")
    print(f"{read} files, {size} characters, refused: {dict(refused)}")
    assert read > 10 and refused.total() <= (0.06 * read if sys.version_info >= (3, 12) else 0)


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the grammar's names are those of Unicode 14")
def test_every_character_stands_in_names_where_python_takes_it(grammar: guided.CompiledGrammar):
    matcher, differ = guided.GrammarMatcher(grammar), []
    for char in (chr(code) for code in range(128, 0x110000) if not 0xD800 <= code < 0xE000):
        for name in (char, f"a{char}"):
            matcher.reset()
            taken = matcher.accept_string(name) and matcher.accept_string("\n")
            if taken != name.isidentifier():
                differ.append(name)
    assert differ == []


@few_or_many(150, 2000)
def test_mutated_programs_are_judged_alike(grammar: guided.CompiledGrammar, count: int, seed: str):
    rng, found = random.Random(f"mutated {seed}"), Counter[str]()
    texts = [*GOOD, *(text for _, text in programs(100, 1500 if count < 1000 else 6000))]
    for _ in range(count):
        text = mutated(rng, rng.choice(texts) or "x\n")
        taken, parsed = accepts(grammar, text), is_parsed(text)
        reason = reason_for(text, taken) if taken != parsed else ("both" if taken else "neither")
        assert reason is not None, (taken, text)
        found[reason] += 1
    print(dict(found))
    assert found["both"] > count / 8 and found["neither"] > count / 4 and found["both"] + found["neither"] > 0.9 * count


@few_or_many(150, 3000)
def test_programs_that_are_written_parse(grammar: guided.CompiledGrammar, count: int, seed: str):
    """Walks through the masks, each within a budget."""
    rng, texts, vocabulary = random.Random(f"written {seed}"), set[str](), grammar.vocabulary
    plain = np.array([bool(t) and t.isascii() and not set(t) & set(b"#\"'\\") for t in vocabulary.tokens])
    least = guided.GrammarMatcher(grammar).min_tokens_to_finish()
    for _ in range(count):
        text = written(grammar, rng, least + rng.choice([3, 15, 40, 100]), plain, ascii_only=False)
        assert is_parsed(text) or reason_for(text, True) is not None, text
        texts.add(text)
    print(f"{len(texts)} programs, {sum(map(len, texts))} characters")
    assert len(texts) > 0.4 * count
