"""Stop tokens in `guided.compat.xgrammar`: the same masks and states as in xgrammar 0.2.9, if that is installed."""

from __future__ import annotations

from typing import Any

import pytest

import guided
import guided.compat.xgrammar as xgr
from tests.xgrammar_version import XGRAMMAR

pytest.importorskip("torch")

BYTES = [bytes([byte]) for byte in range(256)]
VOCABULARIES = {
    "bytes": ([*BYTES, b"STOP", b"</s>"], [256, 257]),
    "words": ([b"STOP", b"</s>", b"ok", b"tail", b"S", b"T", b"x"], [0, 1, 6]),
    "one stop": ([b"STOP", b"a", b"ok", b"tail"], [0]),
}
GRAMMARS = [
    'root ::= "ok"*', 'root ::= "ok" "tail"?', 'root ::= "ok" Token(0)', 'root ::= "ok" Token(0)?',
    'root ::= "ok" (Token(0) "tail" | "STOP")', 'root ::= "ok" "tail" | Token(0) | "ok" Token(0, 1)',
    'root ::= item* Token(0)\nitem ::= "ok" | "tail"', 'root ::= "ok" (Token(1) | "tail" Token(0))',
    'root ::= "ok" "STOP"', "root ::= [a-zA-Z]{2,5}", 'root ::= ("ok" Token(0, 1) | "tail" Token(1) | "ok")*',
]  # fmt: skip


def matcher_of(library: Any, kind: str, grammar: str, **options: Any) -> Any:
    tokens, stops = VOCABULARIES[kind]
    if kind == "bytes":
        grammar = grammar.replace("Token(0", "Token(256").replace("1)", "257)")
    info = library.TokenizerInfo(tokens, stop_token_ids=stops)
    return library.GrammarMatcher(library.GrammarCompiler(info).compile_grammar(grammar), **options)


def state(library: Any, kind: str, matcher: Any) -> tuple[list[int] | None, bool, bool]:
    """The tokens that may follow (None: a stop token was accepted), and whether the output is complete and ended."""
    size = len(VOCABULARIES[kind][0])
    bitmask = library.allocate_token_bitmask(1, size)
    try:
        matcher.fill_next_token_bitmask(bitmask)
        allowed = [token for token in guided.allowed_tokens(bitmask.numpy()) if token < size]
    except RuntimeError:
        allowed = None
    return allowed, matcher.is_completed(), matcher.is_terminated()


CASES = [
    ('root ::= "ok" Token(257)', True, ([257], False, False), True),
    ('root ::= "ok" Token(257)', False, ([257], False, False), True),
    ('root ::= "ok" Token(257)?', False, ([256, 257], True, False), True),
    ('root ::= "ok" Token(257)?', True, ([257], True, True), True),
    ('root ::= "ok" (Token(257) "tail" | "</s>")', False, ([ord("<"), 257], False, False), True),
    ('root ::= "ok" (Token(256) | Token(257) "a")', False, ([256], False, False), False),
    ('root ::= "ok" "</s>"', True, ([ord("<"), 257], False, False), True),
    ('root ::= "ok" "</s>x"', False, ([ord("<")], False, False), False),
    ('root ::= "ok"', True, ([], True, True), False),
    ('root ::= "ok"', False, ([256, 257], True, False), True),
]


@pytest.mark.parametrize(("grammar", "without_stop", "expected", "is_stop"), CASES)
def test_the_state_before_a_stop_token(grammar: str, without_stop: bool, expected: Any, is_stop: bool) -> None:
    """xgrammar 0.2.9 has the same states."""
    matcher = matcher_of(xgr, "bytes", grammar.replace("257)", "1)"), terminate_without_stop_token=without_stop)
    for _ in range(2):
        assert matcher.accept_string("ok") and state(xgr, "bytes", matcher) == expected
        fork = matcher.fork()
        assert matcher.accept_token(257) is is_stop
        if is_stop:
            assert state(xgr, "bytes", matcher) == (None, True, True)
            assert not matcher.accept_token(257) and not matcher.accept_string("x")
            with pytest.raises(RuntimeError, match="terminated"):
                matcher.find_jump_forward_string()
            matcher.rollback(1)
        assert state(xgr, "bytes", matcher) == state(xgr, "bytes", fork) == expected
        fork.accept_token(257)
        assert fork.is_terminated() == (is_stop or expected[2]) and not matcher.accept_token(999)
        matcher.reset()


def test_masks_of_a_batch_have_the_same_stop_tokens() -> None:
    for without_stop in (False, True):
        matchers = [
            matcher_of(xgr, "words", grammar, terminate_without_stop_token=without_stop) for grammar in GRAMMARS[:3]
        ]
        for matcher in matchers:
            assert matcher.accept_string("ok")
        bitmask = xgr.allocate_token_bitmask(3, 7)
        xgr.BatchGrammarMatcher().batch_fill_next_token_bitmask(matchers, bitmask)
        for row, matcher in enumerate(matchers):
            allowed = [token for token in guided.allowed_tokens(bitmask.numpy(), row) if token < 7]
            assert allowed == state(xgr, "words", matcher)[0]


def test_a_stop_token_that_more_output_follows_is_refused() -> None:
    with pytest.raises(RuntimeError, match="no output"):
        matcher_of(xgr, "bytes", 'root ::= "ok" Token(0) "tail"')


@pytest.mark.parametrize("without_stop", [False, True])
@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("grammar", GRAMMARS)
def test_walks_are_as_in_xgrammar(kind: str, grammar: str, without_stop: bool) -> None:
    theirs = pytest.importorskip("xgrammar", reason="the oracle is the installed xgrammar")
    if XGRAMMAR < (0, 2, 9):
        pytest.skip("older versions of xgrammar do not accept stop tokens as a part of the output")
    if kind == "one stop" and "1)" in grammar:
        pytest.skip("the vocabulary has one stop token")
    pair = [matcher_of(library, kind, grammar, terminate_without_stop_token=without_stop) for library in (xgr, theirs)]
    tokens = [*range(250, 258), *b"oktailSTOP"] if kind == "bytes" else range(len(VOCABULARIES[kind][0]))

    def walk(depth: int) -> None:
        found, expected = (state(*each) for each in zip((xgr, theirs), (kind, kind), pair, strict=True))
        assert found == expected
        for token in tokens if depth else ():
            accepted = [matcher.accept_token(token) for matcher in pair]
            assert accepted[0] == accepted[1]
            if accepted[0]:
                walk(depth - 1)
                for matcher in pair:
                    matcher.rollback(1)

    walk(4)
