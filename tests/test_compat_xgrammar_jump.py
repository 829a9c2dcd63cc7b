"""Jump-forward decoding with the facade: the forced text, and the tokens for it."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

import guided.compat.xgrammar as xgr
from tests.xgrammar_version import XGRAMMAR

pytest.importorskip("torch")
pytest.importorskip("pydantic")

CASES: list[tuple[list[bytes], str, list[int]]] = [
    ([b"ab", b"c"], 'root ::= "abc" [xy]', [0, 1]),
    ([b"ab", b"c", b"cd"], 'root ::= "abc" [xy]', [0]),  # the model might write cd
    ([b"abc", b"abc"], 'root ::= "abc"', [0]),
    ([b"a", b"ab", b"abc", b"d"], 'root ::= "abcd"', [2, 3]),
    ([b"ab", b"d"], 'root ::= "abcd"', [0]),  # no token begins with c
    ([b"b"], 'root ::= "ab"', []),
    ([b"", b"a"], 'root ::= "a"', [1]),
    ([b"a", b"b"], "root ::= [ab]", []),
    ([b"a"], 'root ::= "a"*', []),
    ([b"ab", b"c"], 'root ::= "ab" | "abc"', [0]),
    ([b"a", b"b"], 'root ::= Token(0) | "b"', []),
    ([b"ab", b"c", b"d"], 'root ::= "ab" (Token(2) | "c")', [0]),
    ([b"\xe4", b"\xbd"], 'root ::= "你" | "佡"', [0, 1]),
    ([b"\xe4", b"\xbd", b"\xbd\xa0"], 'root ::= "你" | "佡"', [0]),
    ([b"a", b"x", b"!"], 'root ::= body "!"\nbody[max_tokens=1] ::= [ax]*', []),
]


def matcher_of(library: Any, tokens: list[bytes], grammar: str, **options: Any) -> Any:
    info = library.TokenizerInfo(tokens, vocab_type=library.VocabType.RAW)
    return library.GrammarMatcher(library.GrammarCompiler(info).compile_grammar(grammar), **options)


@pytest.mark.parametrize(("tokens", "grammar", "expected"), CASES, ids=lambda it: it if isinstance(it, str) else "")
def test_tokens_of_forced_text(tokens: list[bytes], grammar: str, expected: list[int]) -> None:
    matcher = matcher_of(xgr, tokens, grammar)
    assert matcher.find_jump_forward_tokens() == matcher.find_jump_forward_tokens() == expected
    if XGRAMMAR >= (0, 2, 9):
        import xgrammar

        assert matcher_of(xgrammar, tokens, grammar).find_jump_forward_tokens() == expected
    assert all(map(matcher.accept_token, expected))


def test_random_vocabularies() -> None:
    """The tokens are the longest ones, cover a forced text, and the last one is not the beginning of a longer one."""
    source = random.Random(0)
    words = ["".join(letters) for size in range(1, 5) for letters in product("ab", repeat=size)]
    for _ in range(60):
        tokens = [word.encode() for word in ["a", "b", *source.sample(words, 10)]]
        start = source.choice(words)
        texts = [(start + end).encode() for end in source.sample(words, 5)]
        stop = source.randrange(2, 12)
        matcher = matcher_of(xgr, tokens, "root ::= " + " | ".join(f'"{text.decode()}"' for text in texts),
                             override_stop_tokens=[stop])  # fmt: skip
        prefix = 0
        while all(len(text) > prefix and text[: prefix + 1] == texts[0][: prefix + 1] for text in texts):
            prefix += 1
            if texts[0][:prefix] in texts:
                break
        expected, rest = list[int](), texts[0][:prefix]
        ordinary = [(token, number) for number, token in enumerate(tokens) if number != stop]
        while rest and (fitting := [one for one in ordinary if rest.startswith(one[0])]):
            longest = max(len(token) for token, _ in fitting)
            expected.append(min(number for token, number in fitting if len(token) == longest))
            rest = rest[longest:]
        last = tokens[expected[-1]] if expected else b""
        if expected and any(token.startswith(last) and token != last for token, _ in ordinary):
            expected.pop()
        assert matcher.find_jump_forward_tokens() == expected


def test_no_tokens_follow_a_complete_output() -> None:
    matcher = matcher_of(xgr, [b"a", b"</s>"], 'root ::= "a"')
    assert matcher.find_jump_forward_tokens() == [0]
    assert matcher.accept_token(0) and matcher.find_jump_forward_tokens() == []
    assert matcher.accept_token(1) and matcher.find_jump_forward_tokens() == []
    matcher.reset()
    assert matcher.fork().find_jump_forward_tokens() == [0]


@pytest.mark.parametrize(("grammar", "begin", "expected"), [
    ('root ::= "aéb" [xy]', b"", "aéb"),
    ('root ::= "a" ("é" | "è")', b"", "a"),
    ('root ::= "aéb"', b"a\xc3", ""),
    ('root ::= "aéb"', b"a\xc3\xa9", "b"),
])  # fmt: skip
def test_the_forced_text_ends_before_a_divided_character(grammar: str, begin: bytes, expected: str) -> None:
    matcher = matcher_of(xgr, [bytes([byte]) for byte in range(256)], grammar)
    for byte in begin:
        assert matcher.accept_token(byte)
    assert matcher.find_jump_forward_string() == expected


def test_dynamic_compilation_is_accepted() -> None:
    info = xgr.TokenizerInfo([b"a", b"</s>"])
    compiled = xgr.GrammarCompiler(info, enable_dynamic_compilation=True).compile_grammar('root ::= "a"')
    assert xgr.GrammarMatcher(compiled).accept_token(0)
