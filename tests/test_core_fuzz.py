"""Hostile input: mutated specifications and random calls end in answers or in clear errors, never in a crash.

GUIDED_FUZZ_CASES is the number of cases of random calls, and four times the number of mutated specifications.
GUIDED_FUZZ_SEED is the first seed of both.
"""

from __future__ import annotations

import json
import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from guided import Limits
from guided.automaton import _core
from guided.errors import BudgetError, GuidedError, GuidedWarning
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask, fill_batch
from guided.matching.compiled import native_vocabulary
from tests.core_support import EVERY_SPEC, FREE, SPECS, TREE, vocabulary

CASES = int(os.environ.get("GUIDED_FUZZ_CASES", "20"))
SEED = int(os.environ.get("GUIDED_FUZZ_SEED", "0"))
LIMITS = Limits(states=20_000, nodes=50_000, memory=1 << 20)

PATTERNS = (
    r"(?:[a-z]{3,200}x|\w{2,9}){2,40}", r"^a*?(b|c)+$", r"(?=ab)\w+(?!x)", r"\p{L}{2,}", r"(?i)straße|[^\W\d_]{1,3}",
    r"[\x00-\uFFFF]*", r"((((a{2}){3}){4}){5}){6}", r"(?<!a)b|(?<=é).", r"\d{4}-\d\d-\d\d", r"(a|b|ab)*?c{0,1000}",
    r"\\\[\]\(",
)  # fmt: skip
SCHEMAS: tuple[Any, ...] = (
    TREE,
    FREE,
    {"type": "string", "pattern": "^[a-z]{2,5}$", "minLength": 3},
    {"allOf": [{"type": "integer", "minimum": -5}, {"maximum": 1e3, "multipleOf": 5}], "not": {"const": 10}},
    {"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "boolean"}, "maxItems": 4, "minItems": 2},
    {"oneOf": [{"enum": ["a", 1, None]}, {"type": "object", "patternProperties": {"^x": {"type": "number"}}}]},
)


def chances(count: int) -> Iterator[random.Random]:
    """A random generator for each case. A failing case shows its seed."""
    for number in range(SEED + 1, SEED + 1 + count):
        try:
            yield random.Random(number)
        except GeneratorExit:
            print(f"\nGUIDED_FUZZ_SEED={number - 1} repeats the last case")
            raise


def mutated(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 6)):
        at, to = sorted(rng.choices(range(len(text) + 1), k=2))
        to = min(to, at + rng.randint(0, 12))
        piece = rng.choice(
            (
                "", text[at:to] * rng.randint(2, 4), chr(rng.randrange(0x20, 0x7F)), chr(rng.randrange(1, 0x110000)),
                "\\", "{1000000000}", "{0,99999}", "(" * rng.randint(1, 50), "(?:", "[", "[^", ")", "*", "|", "\x00",
                "\ud800", '"', "-1", "1e400", "0.1", "[]", "{}", '{"$ref": "#"}', "null", "9" * 30,
            )
        )  # fmt: skip
        text = (text[:at] + piece + text[to:])[:3000]
    return text


def attempt(compile: Callable[[], CompiledGrammar]) -> CompiledGrammar | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuidedWarning)  # warnings about keywords that a mutation has misspelt
            return compile()
    except GuidedError as error:
        assert str(error)
        return None


def calls(matcher: GrammarMatcher, rng: random.Random, count: int) -> None:
    """Random calls with random arguments. They may only raise documented errors."""
    size = vocabulary().size
    odd = (-1, size, size + 31, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 256, 258, size - 1)
    bitmask = allocate_token_bitmask(2, size)
    for _ in range(count):
        token = rng.choice(odd) if rng.random() < 0.2 else rng.randrange(size)
        text = bytes(rng.choices(b'ab({["\\0,:} x\xc3\xa9\xff', k=rng.randint(0, 20)))
        try:
            match rng.randrange(13):
                case 0:
                    matcher.rollback(rng.choice((0, 1, matcher.steps, matcher.steps + 1, -1, -(2**63), 2**63 - 1)))
                case 1:
                    matcher = matcher.fork()
                case 2:
                    matcher.validate_tokens([token, *rng.choices(odd, k=2)])
                case 3:
                    matcher.accept_string(text)
                case 4:
                    matcher.explain(rng.choice((None, text, token, 256)))
                case 5:
                    assert matcher.min_tokens_to_finish() >= 0
                case 6:
                    matcher.forced_tokens()
                case 7:
                    matcher.reset()
                case 8:
                    matcher.fill_next_token_bitmask(
                        bitmask, 1, max_tokens=rng.choice((0, -1, 1, 5, 50, 2**62, -(2**63)))
                    )
                case 9:
                    fill_batch([matcher, matcher.fork()], bitmask, threads=rng.choice((None, 0, -3, 2, 10**6)))
                case _:
                    matcher.fill_next_token_bitmask(bitmask, rng.randrange(2))
                    row = np.flatnonzero(np.unpackbits(bitmask[0].view(np.uint8), bitorder="little"))
                    if len(row) and rng.random() < 0.8:
                        token = int(rng.choice(row))
                    matcher.accept_token(token)
        except (GuidedError, ValueError) as error:
            assert str(error)


def drawn_specification(rng: random.Random) -> CompiledGrammar | None:
    """A mutated pattern or schema, compiled; None if it is refused."""
    compiler = GrammarCompiler(vocabulary(), limits=LIMITS)
    if rng.random() < 0.5:
        pattern = mutated(rng.choice(PATTERNS), rng)
        dialect, search = rng.choice(("python", "ecma")), rng.random() < 0.3
        return attempt(lambda: compiler.compile_regex(pattern, dialect=dialect, search=search))
    text = mutated(json.dumps(rng.choice(SCHEMAS)), rng)
    return attempt(lambda: compiler.compile_json_schema(text))


def test_mutated_specifications() -> None:
    for rng in chances(4 * CASES):
        grammar = drawn_specification(rng)
        if grammar is not None:
            calls(GrammarMatcher(grammar), rng, 15)


def test_random_calls() -> None:
    compiler = GrammarCompiler(vocabulary(), limits=Limits(memory=1 << 18))
    shared = [make(compiler) for make in EVERY_SPEC.values()]
    for rng in chances(CASES):
        calls(GrammarMatcher(rng.choice(shared)), rng, 60)


def build(builder: _core.Builder, rng: random.Random) -> None:
    """A few valid nodes, then calls with random numbers."""

    def pick() -> int:
        return rng.choice((-1, 0, 1, 2, 3, 5, 9, 2**31 - 1, 2**30))

    def some() -> list[int]:
        return [pick() for _ in range(rng.randint(0, 3))]

    utf8 = [([(0, 127)], [[(0, 127, 0, 1)]])]
    made: list[Callable[[], object]] = [
        lambda: builder.encoding(_core.Encoding(utf8)),
        lambda: builder.text("ab"),
        lambda: builder.chars([(97, 99)]),
        lambda: builder.many(rng.choice(("seq", "alt", "and", "?")), some()),
        lambda: builder.negation(pick()),
        lambda: builder.repeat(pick(), pick(), pick()),
        lambda: builder.length(pick(), pick(), pick()),
        lambda: builder.encoded(pick(), pick()),
        lambda: builder.ref(pick()),
        lambda: builder.special(rng.choice((256, 257, 258, 10**6, -1))),
        lambda: builder.permutation(some(), [True], [False], pick(), pick(), pick()),
        lambda: builder.permutation([1], [True], [False], 2, pick(), pick()),
        lambda: builder.chars([(pick(), pick()), (0xD000, 0xE000)]),
        lambda: builder.encoding(_core.Encoding([([(0, 9)], [[(pick(), 300, 0, 1)]])])),
        lambda: builder.text("\ud800"),
    ]
    for call in [*made[:3], *rng.choices(made[1:], k=10)]:
        with suppress(ValueError, IndexError, TypeError):
            call()


def test_random_nodes_at_the_border() -> None:
    """The core's builder receives numbers from Python, and refuses wrong ones."""
    native = native_vocabulary(vocabulary())
    for seed in range(400):
        rng = random.Random(SEED + seed)
        builder = _core.Builder()
        build(builder, rng)
        for _ in range(3):
            rules = [rng.randrange(0, 8) for _ in range(rng.randint(1, 4))]
            names = [str(number) for number in rules]
            try:
                compiled = builder.compile(native, rules, names, rng.randrange(-1, 4), 5000, 1.0, 1 << 16)
            except (GuidedError, ValueError, IndexError):
                continue
            matcher = _core.Matcher(compiled)
            for token in rng.choices((97, 98, 256, 257, 258), k=8):
                mask = set(matcher._walk_mask())
                assert matcher.accept_token(token) == (token in mask)


# ---- wrong buffers and arguments

ROW = (vocabulary().size + 31) // 32


def frozen() -> Any:
    array = np.zeros((1, ROW), np.int32)
    array.setflags(write=False)
    return array


WRONG: dict[str, Callable[[], Any]] = {
    "float": lambda: np.zeros((1, ROW), np.float32),
    "int64": lambda: np.zeros((1, ROW), np.int64),
    "uint8": lambda: np.zeros((1, ROW * 4), np.uint8),
    "big endian": lambda: np.zeros((1, ROW), ">i4"),
    "one dimension": lambda: np.zeros(ROW, np.int32),
    "three dimensions": lambda: np.zeros((1, 1, ROW), np.int32),
    "narrow": lambda: np.zeros((1, ROW - 1), np.int32),
    "wide": lambda: np.zeros((1, ROW + 1), np.int32),
    "no rows": lambda: np.zeros((0, ROW), np.int32),
    "transposed": lambda: np.zeros((ROW, 2), np.int32).T,
    "every second word": lambda: np.zeros((2, ROW * 2), np.int32)[:, ::2],
    "every second row": lambda: np.zeros((4, ROW), np.int32)[::2],
    "backwards": lambda: np.zeros((2, ROW), np.int32)[::-1],
    "read-only": frozen,
    "None": lambda: None,
    "list": lambda: [[0] * ROW],
    "bytes": lambda: bytes(ROW * 4),
    "text": lambda: "0" * ROW,
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_buffers(kind: str) -> None:
    matcher = GrammarMatcher(SPECS["tree"](GrammarCompiler(vocabulary())))
    array = WRONG[kind]()
    for call in (
        lambda: matcher.fill_next_token_bitmask(array),
        lambda: fill_batch([matcher], array),
        lambda: matcher.fill_next_token_bitmask(array, max_tokens=100),
    ):
        with pytest.raises((TypeError, ValueError, IndexError)):
            call()
    if isinstance(array, np.ndarray):
        assert not array.any()


def test_wrong_arguments() -> None:
    matcher = GrammarMatcher(SPECS["tree"](GrammarCompiler(vocabulary())))
    bitmask = allocate_token_bitmask(2, vocabulary().size)
    for row in (-1, 2, 2**31, -(2**40), 2**62):
        with pytest.raises(IndexError):
            matcher.fill_next_token_bitmask(bitmask, row)
        with pytest.raises(IndexError):
            fill_batch([matcher], bitmask, [row])
    wrong: list[Callable[[], object]] = [
        lambda: fill_batch([None], bitmask),  # type: ignore[list-item]
        lambda: fill_batch([matcher, "x"], bitmask),  # type: ignore[list-item]
        lambda: fill_batch([matcher], bitmask, [0, 1]),
        lambda: fill_batch([matcher, matcher], bitmask),
        lambda: fill_batch([matcher, matcher.fork()], bitmask, [0, 0]),
        lambda: fill_batch([matcher.fork() for _ in range(3)], bitmask),
        lambda: matcher.rollback(1),
        lambda: matcher.rollback(-1),
        lambda: matcher.rollback(2**80),
        lambda: matcher.accept_token("a"),  # type: ignore[arg-type]
        lambda: matcher.accept_token(None),  # type: ignore[arg-type]
        lambda: matcher.validate_tokens([None]),  # type: ignore[list-item]
        lambda: matcher.fill_next_token_bitmask(bitmask, max_tokens="9"),  # type: ignore[arg-type]
        lambda: _core.Matcher(None),  # type: ignore[arg-type]
        lambda: GrammarMatcher(None),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises((TypeError, ValueError, IndexError, OverflowError, AttributeError, RuntimeError)):
            call()
    with pytest.raises(BudgetError):
        matcher.fill_next_token_bitmask(bitmask, max_tokens=0)
    fill_batch([], bitmask)
    assert matcher.steps == 0 and not matcher.is_terminated()


def test_broken_vocabularies() -> None:
    for tokens, ends, size in (
        ([b"a"], [5], 1),
        ([b"a"], [-1], 1),
        ([b"a"], [], 0),
        ([b"a"], [], 2**31),
        (["a"], [], 1),
        ([3], [], 1),
    ):
        with pytest.raises((TypeError, ValueError, IndexError, RuntimeError)):
            _core.TokenVocabulary(tokens, ends, size, 1000)
    with pytest.raises(TypeError):
        _core.Matcher(_core.Compiled())  # no constructor of its own
