"""The reader of Lark's notation and its extensions, on generated texts; see `generated_support.py` for the checks."""

from __future__ import annotations

import os
import random
import re

import pytest
from hypothesis import given

from guided.matching import CompiledGrammar
from tests.effort import examples
from tests.generated_support import COMPILER, NAMES, RANDOMS, agree, answered, broken, tell, walked_if_short
from tests.lark_trees import NAMED, DrawnLark
from tests.tree_grammars import CONTROL

pytest.importorskip("lark", reason="lark is not installed")

SEED = os.environ.get("GUIDED_FUZZ_SEED", "0")  # of the slow runs
LETTERS = "aabbbccBA" + "".join(chr(CONTROL + id) for id in NAMES)
PIECES = re.compile(r'"(?:[^"\\\n]|\\.)*"i?|/(?:[^/\\\n]|\\.)+/i?|<[^<>\s]+>|%\w+|[\w-]+|\.\.|\s+|.', re.DOTALL)
OTHERS = [
    "start", ":", '"a"', "/a+/", "(", ")", "|", "*", "~2", "{2", "{2,1}", "{1,2}", "~3..1", "[", "]", "\n", "//", "&",
    "~", "%json {", "%json {}", '%json {"type": "objct"}', '%regex {"substring_words": "a b"}', "%regex {}",
    "%lark {", "}", "->", '%lark { start: "a" }', "@sub", "@other", "<[1,5-9]>", "<[9-1]>", "<other>", "<[*]>",
    "[lazy]", '[suffix="a"]', "::", "[max_chars=x]", "a::_", "%if true", "%ignore", '%ignore "a"',
    "%import common.WORD", "%import nothing.X", "%declare A", "%override", "%extend", "T0", "T9", "_", "?", "!", ".2",
    '""', "/(/", "/a(?=b)/", '"\\q"', "é", "\x00", "\ud800", '"', "/", "{}", "a{b}", "%llguidance {}", "..",
    '"a".."z"', "=", ",", "0x1", "99999999999",
]  # fmt: skip


def scannerless(text: str) -> CompiledGrammar:
    return COMPILER.compile_lark(text, semantics="scannerless", allow_special_tokens=True, grammars=NAMED)


def lexed(text: str) -> CompiledGrammar:
    return COMPILER.compile_lark(text, allow_special_tokens=True, grammars=NAMED)


def judge(rng: random.Random) -> None:
    drawn = DrawnLark(rng)
    rules = drawn.rules()
    text = drawn.text(rules)
    tell(text)
    agree(answered(text, scannerless), rules, LETTERS, rng, "start")
    for _ in range(4):
        changed = broken(text, PIECES, OTHERS, rng)
        tell(changed)
        walked_if_short(answered(changed, rng.choice([scannerless, lexed])), rng)


@examples(60)
@given(RANDOMS)
def test_lark(rng: random.Random) -> None:
    judge(rng)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many(part: int) -> None:
    for number in range(1000):
        judge(random.Random(f"{SEED} {part} {number}"))
