"""Terminals with many texts, and with large counts, which are not unrolled: Lark and `re` are the judges."""

from __future__ import annotations

import itertools
import random
import re

import pytest

import guided
from guided.frontends.common import regular_texts as texts
from guided.frontends.lark import LarkOptions, lexing, read_lark
from guided.frontends.lark.lint import lint_lark
from guided.ir.nodes import Automaton
from guided.limits import Limits
from tests.effort import every
from tests.growth import assert_linear

VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
COMPILER = guided.GrammarCompiler(VOCABULARY, cache_bytes=0)
SEMANTICS = ["lexer", "scannerless"]

COUNTED = [
    "start: A+\nA: /(ab){2,3}/",
    "start: A B?\nA: /a{2,4}/\nB: /b{1,2}c/",
    "start: (A | B)+\nA: /(ab){1,3}c?/\nB: /b{2,3}/",
    'start: (NAME | KEY)+\nNAME: /[a-c]{2,3}/\nKEY: "ab"',
    'start: A "b"\nA: /(a{1,2}b){1,2}/',
    'start: (A ";")+\nA: /[^;c]{1,3}/\n%ignore /c{1,2}/',
    "start: A B\nA: /(a|cb){2,3}?/\nB: /c{2}/",
]


def accepts(grammar: guided.CompiledGrammar, text: str) -> bool:
    matcher = guided.GrammarMatcher(grammar)
    return matcher.accept_string(text) and matcher.is_accepting()


@pytest.mark.parametrize("text", every(2, COUNTED))
def test_counts_that_stay_match_lark(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lark", reason="lark is not installed")
    from tests.lark_judge import lalr, parses

    unrolled = COMPILER.compile_lark(text)
    monkeypatch.setattr(texts, "MAX_UNROLLED_POSITIONS", 0)
    lexer = read_lark(text, LarkOptions()).lexer
    assert lexer is not None
    assert any(not isinstance(each.item, Automaton) for each in lexer.terminals), "no count stayed"
    counted, parser = COMPILER.compile_lark(text), lalr(text)
    assert parser is not None
    taken = 0
    for length in range(1, 8):
        for letters in itertools.product("abc;" if ";" in text else "abc", repeat=length):
            written = "".join(letters)
            expected = parses(parser, written)
            assert accepts(counted, written) == expected == accepts(unrolled, written), written
            taken += expected
    assert taken > 1


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_a_count_is_not_unrolled(semantics: str) -> None:
    pattern = r"(ab){2,2000}c"
    grammar = COMPILER.compile_lark(f"start: A\nA: /{pattern}/i", semantics=semantics)
    for rounds in (0, 1, 2, 3, 1_999, 2_000, 2_001):
        text = "aB" * rounds + "C"
        assert accepts(grammar, text) == (re.fullmatch(pattern, text, re.IGNORECASE) is not None), rounds
    large = COMPILER.compile_lark("start: A\nA: /(ab){2,50000}c/i", semantics=semantics)
    assert guided.GrammarMatcher(large).min_tokens_to_finish() == 6
    assert accepts(large, "ab" * 5_000 + "c")
    node = read_lark("start: A\nA: /(ab){2,50000}c/i", LarkOptions(semantics=semantics))
    assert "50000" in str(node) and len(str(node)) < 20_000


def test_the_shortest_text_of_a_large_count_is_found() -> None:
    for pattern in ("(ab){3000,}c", "(ab){9000,30000}c"):
        matcher = guided.GrammarMatcher(COMPILER.compile_lark(f"start: A\nA: /{pattern}/"))
        least = int(pattern[5:9])
        bitmask = guided.allocate_token_bitmask(1, VOCABULARY.size)
        matcher.fill_next_token_bitmask(bitmask, max_tokens=2 * least + 2)
        assert guided.allowed_tokens(bitmask) == [ord("a")]
        assert matcher.accept_string("ab" * least)
        matcher.fill_next_token_bitmask(bitmask)
        assert guided.allowed_tokens(bitmask) == [ord("a"), ord("c")]


def options(count: int, length: int) -> list[str]:
    rng = random.Random(5)
    return ["".join(rng.choices("abcdefgh ", k=length)) for _ in range(count)]


def test_the_shortest_text_of_a_wide_union_is_found() -> None:
    """Its automaton has more states than a search for completions visits."""
    found = options(1_000, 40)
    text = "start: OPTS\nOPTS: " + " | ".join(f'"{each}"' for each in found)
    matcher = guided.GrammarMatcher(COMPILER.compile_lark(text))
    bitmask = guided.allocate_token_bitmask(1, VOCABULARY.size)
    matcher.fill_next_token_bitmask(bitmask, max_tokens=41)
    assert set(guided.allowed_tokens(bitmask)) == {ord(each[0]) for each in found}


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_a_union_of_a_thousand_texts(semantics: str) -> None:
    """Each of them, and no other."""
    rng, found = random.Random(6), options(1_000, 30)
    rules = [f'OPT{number}: "{text}"' for number, text in enumerate(found)]
    grammar = COMPILER.compile_lark(
        "\n".join(["start: OPTS", f"OPTS: {' | '.join(f'OPT{number}' for number in range(1_000))}", *rules]),
        semantics=semantics,
    )
    for text in rng.sample(found, 20):
        assert accepts(grammar, text)
        at = rng.randrange(30)
        for near in (text[:-1], text + "a", text[:at] + "x" + text[at + 1 :], text[:at] + text[at + 1 :]):
            assert not accepts(grammar, near)


def test_keywords_and_collisions_of_large_counts_are_found() -> None:
    text = 'start: (NAME | KEY)+\nNAME: /[a-z]{1,30000}/\nKEY: "if"'
    lexer = read_lark(text, LarkOptions()).lexer
    assert lexer is not None
    assert {each.name: [keyword.name for keyword in each.keywords] for each in lexer.terminals} == {
        "KEY": [], "NAME": ["KEY"],
    }  # fmt: skip
    assert {remark.kind for remark in lint_lark(text, LarkOptions(), Limits())} >= {"keyword"}
    both = "start: A | B\nA: /[a-c]{1,30000}/\nB: /[c-e]{2,30000}/"
    remarks = lint_lark(both, LarkOptions(), Limits())
    assert [remark.example for remark in remarks if remark.kind == "collision"] == ["cc"]


def test_why_a_grammar_with_large_counts_is_empty() -> None:
    with pytest.raises(guided.SpecError, match="that the lexer can find: A takes all of 'abb'"):
        COMPILER.compile_lark('start: A "b"\nA: /a{1,3000}b+/')


def test_long_patterns_are_read_in_linear_time() -> None:
    def read(size: int) -> None:
        COMPILER.compile_lark(f"start: A\nA: /x(?<!b){'a' * size}/", semantics="scannerless")

    assert_linear(read, 3_000)


@pytest.mark.parametrize(
    ("condition", "before", "after"),
    [("(?=aa)", 0, 2), ("(?!a)", 0, 1), ("(?<!bb)", 2, 0), ("(?<=a)", 1, 0), (r"\B", 1, 1)],
)
@pytest.mark.parametrize("width", range(4))
def test_conditions_see_only_the_text_of_the_terminal(condition: str, before: int, after: int, width: int) -> None:
    """`before` and `after`: the number of characters that the condition can see."""
    error = ""
    try:
        read_lark(f"start: A\nA: /y?{'a' * width}{condition}{'a' * (3 - width)}z*/", LarkOptions())
    except guided.UnsupportedError as caught:
        error = caught.reason
    assert ("at the edge of the terminal" in error) == (width < before or 3 - width < after)


CONDITIONS = [
    "/[abc]{1,4}/ & ~/.*ab.*/ & /.*c.*/",
    '(/[ab]*/ & /(..)+/) "c"',
    "(/a{2,5}/ & ~/aaa/) | /b[abc]/",
    "~(/[ab]*/ | /.*ca.*/) & /.{2,3}/",
]


@pytest.mark.parametrize("terminal", every(2, CONDITIONS))
def test_conditions_that_stay_match_automata(terminal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f'start: (A | B | "ab")+\nA: {terminal}\nB: /a+/ & ~/aa/\n%ignore "c"'
    automata = COMPILER.compile_lark(text)
    monkeypatch.setattr(lexing, "_MAX_DETERMINISED_STATES", 0)
    lexer = read_lark(text, LarkOptions()).lexer
    assert lexer is not None and not any(isinstance(each.item, Automaton) for each in lexer.terminals[:2])
    kept, accepted_count = COMPILER.compile_lark(text), 0
    for length in range(1, 7):
        for letters in itertools.product("abc", repeat=length):
            written = "".join(letters)
            expected = accepts(automata, written)
            assert accepts(kept, written) == expected, written
            accepted_count += expected
    assert accepted_count > 1


@pytest.mark.parametrize("terminal", ["{}", '({}) "!"', "{} | /[0-9]+/"])
def test_the_core_counts_in_terminals_with_conditions(terminal: str) -> None:
    conditions = ["[a-z]{1,9900}", ".*x.*y.*", ".*q.*", ".*r.*"]
    grammar = COMPILER.compile_lark(
        "start: A\nA: " + terminal.format(" & ".join(f"/{condition}/" for condition in conditions))
    )
    assert grammar.native.positions < 200
    end = "!" if "!" in terminal else ""
    for text in ("xyqr", "qrxy", "qryx", "a" * 9896 + "qrxy", "a" * 9897 + "qrxy", "a" * 9900):
        assert accepts(grammar, text + end) == all(re.fullmatch(condition, text) for condition in conditions)


def test_a_terminal_without_texts_is_found_within_the_limit_on_work() -> None:
    """The lengths are both even and odd, so no text is found early."""
    text = 'start: A | "b"\nA: /[a-z]{1,%d}/ & /(..)+/ & /.(..)*/ & ~/.*x.*/'
    assert not accepts(COMPILER.compile_lark(text % 900), "a")
    with pytest.raises(guided.LimitExceeded, match="work") as caught:
        COMPILER.compile_lark(text % 40_000)
    assert "line 2" in str(caught.value)
