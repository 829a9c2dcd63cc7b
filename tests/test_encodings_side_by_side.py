"""Adjacent parts with different encodings: every output up to a length, by brute force and by the twin.

A byte may then begin a character of one encoding and be a whole character of another, and later bytes decide which. The
core must follow both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from guided.automaton.reference.token_masks import ReferenceGrammar
from guided.errors import SpecError, VocabularyError
from guided.frontends.json_schema.text.spelling import JSON_STRING
from guided.ir import (
    UTF8,
    Alt,
    Chars,
    Encoded,
    Encoding,
    Form,
    Grammar,
    Node,
    Ref,
    Repeat,
    Seq,
    Span,
    Special,
    Text,
)
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.brute_force import HEX, TOY, language


def digit(low: str, high: str, value: int, step: int = 1) -> tuple[Span, ...]:
    return (Span(ord(low), ord(high), value, step),)


# a is written b and b is written a.
SWAPPED = Encoding(
    "swapped", (Form(((0x61, 0x61),), (digit("b", "b", 0x61),)), Form(((0x62, 0x62),), (digit("a", "a", 0x62),)))
)
# a is written a or ab, and b is written b: one spelling of a begins another one.
PREFIX = Encoding(
    "prefix",
    (
        Form(((0x61, 0x62),), (digit("a", "b", 0x61),)),
        Form(((0x61, 0x61),), (digit("a", "a", 0x61), digit("b", "b", 0))),
    ),
)
PLAIN = Encoding("plain", UTF8.forms[:1])
"""ASCII as it is: other than UTF-8, and spelled by the same bytes."""
ENCODINGS = (UTF8, PLAIN, SWAPPED, PREFIX, TOY, HEX, JSON_STRING)
LETTERS = {encoding.name: b"ab" for encoding in ENCODINGS} | {"toy": b"ab!", "hex": b"6a1b", "json-string": b'ab"\\u06'}
LETTER = Chars(((0x61, 0x62),))
SHAPES: dict[str, Callable[[Callable[[Node], Node], Callable[[Node], Node]], Node]] = {
    "repetition, then letter": lambda a, b: Seq((a(Repeat(LETTER, 0, None)), b(LETTER))),
    "text, or text": lambda a, b: Alt((Seq((a(Text("a")), Text("b"))), Seq((b(Text("ab")), Text("a"))))),
    "any order": lambda a, b: Repeat(Alt((a(Text("a")), b(Text("b")), b(Text("aa")))), 1, None),
    "letter, then control token": lambda a, b: Seq(
        (Repeat(Alt((a(LETTER), Seq((b(Text("b")), Special("<s>"))))), 0, None), b(Text("a")))
    ),
}


def outputs(matcher: GrammarMatcher, letters: bytes, n: int, done: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Every output of at most n bytes and control tokens, found by stepping. A control token is ~id."""
    tried = range(258) if not done else (*letters, 256, 257)  # no token has other bytes
    assert set(matcher._walk_mask()) == {id for id in tried if matcher.fork().accept_token(id)}, done
    if matcher.is_accepting():
        yield done
    if len(done) == n:
        return
    for id in (*sorted(set(letters)), 256):
        fork = matcher.fork()
        if fork.accept_token(id):
            yield from outputs(fork, letters, n, (*done, id if id < 256 else ~0))


def check(grammar: Grammar, letters: bytes, n: int) -> None:
    tokens: list[bytes | None] = [bytes([byte]) if byte in letters else None for byte in range(256)]
    vocabulary = Vocabulary([*tokens, None], eos_token_ids=[257], special_tokens={256: "<s>"})
    try:
        matcher = GrammarMatcher(GrammarCompiler(vocabulary).compile_grammar(grammar))
    except (SpecError, VocabularyError):
        with pytest.raises((SpecError, VocabularyError)):
            ReferenceGrammar(grammar, vocabulary.tokens, [257], {256: "<s>"})
        return
    found = list(outputs(matcher, letters, n))
    assert len(found) == len(set(found))
    assert set(found) == language(grammar, letters, n)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("first", ENCODINGS, ids=lambda encoding: encoding.name)
def test_two_encodings(first: Encoding, shape: str) -> None:
    for second in ENCODINGS:
        node: Node = SHAPES[shape](partial(Encoded, encoding=first), partial(Encoded, encoding=second))
        letters = bytes(dict.fromkeys(LETTERS[first.name] + LETTERS[second.name]))
        n = 6 if len(letters) <= 4 else 4
        for rules in ({"start": node}, {"start": Seq((Ref("part"), Text("a"))), "part": node}):
            check(Grammar(rules), letters, n)
