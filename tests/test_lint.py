"""`guided lint`: what it finds is so, and what is so is found."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.matching import GrammarCompiler, GrammarMatcher
from guided.spec.lark import LarkOptions, lark_to_lexed
from guided.spec.lark.lint import lint_lark
from guided.spec.library import library
from guided.spec.lint import lint_grammar
from guided.vocabulary import Vocabulary
from tests.effort import examples
from tests.test_cli import run, run_json

TEXT = """start: item+
item: NAME "=" value | dead
value: WORD | NUMBER | "if" | value2
value2: value
dead: "x" dead
lost: "y"
NAME: /[a-z]+/
WORD: /[a-z_]+/
NUMBER: /[0-9]{1,4}/
OTHER: "q"
%ignore /[ \\n]+/
"""
COMPILER = GrammarCompiler(Vocabulary([bytes([code]) for code in range(256)], eos_token_ids=[256]))


def found(text: str) -> set[tuple[str, str]]:
    return {(each.kind, each.place) for each in lint_lark(text, LarkOptions())}


def test_of_a_lark_text() -> None:
    assert found(TEXT) == {
        ("empty-rule", "dead (line 5)"),
        ("cycle", "value (line 3)"),
        ("cycle", "value2 (line 4)"),
        ("collision", "WORD (line 8)"),
        ("unused", "lost (line 6)"),
        ("unused", "OTHER (line 10)"),
        ("keyword", '"if"'),
        ("keyword", '"x"'),
    }
    (collision,) = [each for each in lint_lark(TEXT, LarkOptions()) if each.kind == "collision"]
    assert "NAME (line 7) matches" in collision.message and "NAME.2" in collision.hint
    assert re.fullmatch("[a-z]+", collision.example)


def test_terminals_that_never_meet_do_not_collide() -> None:
    assert found('start: "<" A ">" | "[" B "]"\nA: /[a-z]+/\nB: /[a-y]+/') == set()
    assert ("collision", "A (line 2)") in found('start: "<" (A ">" | B "]")\nA: /[a-z]+/\nB: /[a-y]+/')


def test_a_higher_priority_is_told() -> None:
    text = "start: A | B\nA.2: /[a-z]{1,3}/\nB: /[a-y]{1,9}/"
    (collision,) = [each for each in lint_lark(text, LarkOptions()) if each.kind == "collision"]
    assert (collision.place, "by a higher priority" in collision.message) == ("A (line 2)", True)


def test_what_interegular_cannot_read_is_told() -> None:
    assert ("not-compared", "A (line 2)") in found("start: A | B\nA: /ab(?<=b)-/\nB: /[a-y]{1,9}/")


def test_templates_and_parts_of_terminals_are_used() -> None:
    text = 'start: list{item}\nlist{x}: x ("," x)*\nitem: A\nA: B "x"\nB: "b"\n'
    assert not [each for each in found(text) if each[0] == "unused"]


def test_scannerless_texts_have_no_collisions() -> None:
    assert lint_lark("start: A | B\nA: /a+/\nB: /a+b?/", LarkOptions(semantics="scannerless")) == []


@pytest.mark.parametrize(
    ("option", "spec", "places"),
    [
        ("regex", "(a|b)+", ["start"]),
        ("regex", "[ab]{1,4}", []),
        ("regex", r"a\s*b", []),  # white space alone
        ("schema", '{"type": "string"}', [""]),
        ("schema", '{"type": "string", "maxLength": 9}', []),
        ("schema", '{"properties": {"a": {"type": "array", "items": {"type": "null"}}}, "type": "object", '
         '"additionalProperties": false, "required": ["a"]}', ["/properties/a"]),
        ("gbnf", 'root ::= "a"{1,3} x\nx ::= [a-z]+', ["x (line 2)"]),
        ("lark", 'start: NAME\nNAME: /[a-z]+/', ["NAME (line 2)"]),
        ("lark", 'start: NAME\nNAME: /[a-z]{1,9}/\n%ignore " "', []),
        ("choice", "yes,no", []),
    ],
)  # fmt: skip
def test_repetitions_without_a_bound(option: str, spec: str, places: list[str]) -> None:
    out = run_json("lint", f"--{option}", spec, code=1 if places else 0)
    assert [each["place"] for each in out["findings"] if each["kind"] == "unbounded"] == places
    assert all(each["hint"] for each in out["findings"] if each["kind"] == "unbounded")


def test_recursion_is_noted() -> None:
    out = run_json("lint", "--gbnf", 'root ::= "(" root ")" | "x"')
    assert [(each["kind"], each["matters"]) for each in out["findings"]] == [("recursion", False)]


def test_size_and_masks() -> None:
    out = run_json("lint", "--lark", TEXT, code=1)
    assert out["size"]["terminals"] == 7 and out["size"]["rules"] > 4 and out["size"]["compile_ms"] > 0
    assert 0 < out["masks"]["median_us"] <= out["masks"]["slowest_us"] and out["masks"]["measured"] > 5


def test_words() -> None:
    code, text, _ = run("lint", "--regex", "[ab]{1,4}")
    assert code == 0 and text.startswith("nothing found\nsize: 1 rules, ")
    code, text, _ = run("lint", "--lark", TEXT)
    assert code == 1 and "note: unused: lost (line 6): no output uses the rule\n  hint: delete it, or use it\n" in text


@pytest.mark.parametrize("name", sorted(library()))
def test_grammars_of_the_library_have_no_findings_but_text_without_bounds(name: str) -> None:
    out = json.loads(run("lint", "--grammar", name, "--json")[1])
    assert {each["kind"] for each in out["findings"] if each["matters"]} <= {"unbounded"}


# --- random grammars

RULES = ("start", "r", "s")


@st.composite
def rule_texts(draw: st.DrawFn) -> dict[str, list[list[str]]]:
    """Alternatives of each rule: symbols, terminals in quotes."""
    symbol = st.sampled_from(['"a"', '"b"', "start", "r", "s"])
    return {name: draw(st.lists(st.lists(symbol, max_size=3), min_size=1, max_size=3)) for name in RULES}


def generates(rules: dict[str, list[list[str]]], depth: int = 8) -> set[str]:
    """The rules of which some text of a tree up to a depth is made."""
    living: set[str] = set()
    for _ in range(depth):
        living |= {
            name
            for name, each in rules.items()
            if any(all(symbol in living or symbol[0] == '"' for symbol in symbols) for symbols in each)
        }
    return living


@examples(80)
@given(rule_texts())
def test_rules_that_generate_nothing(rules: dict[str, list[list[str]]]) -> None:
    text = "".join(f"{name}: {' | '.join(map(' '.join, each))}\n" for name, each in rules.items())
    reached, todo = {"start"}, ["start"]
    while todo:
        for symbol in itertools.chain(*rules[todo.pop()]):
            if symbol in rules and symbol not in reached:
                reached.add(symbol)
                todo.append(symbol)
    if "start" not in generates(rules):
        return
    kinds: dict[str, set[str]] = {}
    for each in lint_lark(text, LarkOptions()):
        kinds.setdefault(each.kind, set()).add(each.place.split()[0])
    assert kinds.get("empty-rule", set()) == reached - generates(rules)
    assert kinds.get("unused", set()) == set(rules) - reached


PATTERNS = ["a", "b+", "ab", "[ab]{1,2}", "a?b", "(a|b)c", "a[^b]", "c|a", "[a-c]+", "b(?<=b)c"]


@examples(60)
@given(st.lists(st.sampled_from(PATTERNS), min_size=2, max_size=3, unique=True))
def test_collisions_are_just_the_common_texts(patterns: list[str]) -> None:
    names = [f"T{number}" for number in range(len(patterns))]
    text = f"start: ({' | '.join(names)})+\n" + "".join(
        f"{name}: /{pattern}/\n" for name, pattern in zip(names, patterns, strict=True)
    )
    texts = ["".join(each) for length in range(1, 5) for each in itertools.product("abc", repeat=length)]
    common = sum(
        any(re.fullmatch(first, one) and re.fullmatch(second, one) for one in texts)
        for first, second in itertools.combinations(patterns, 2)
    )
    remarks = [each for each in lint_lark(text, LarkOptions()) if each.kind in ("collision", "keyword")]
    if any(each.kind == "not-compared" for each in lint_lark(text, LarkOptions())):
        assert len(remarks) <= common
    else:
        assert len(remarks) == common
    first = {each.name: number for number, each in enumerate(lark_to_lexed(text)[1].terminals)}
    for each in remarks:
        assert each.example and first[each.place.split()[0]] >= 0


def test_unbounded_means_endless() -> None:
    endless_ones = ["a+", "(a|b+)c", "(?:ab|c)*"]
    for pattern in ["(ab){1,9}", r"\s+", r"(a\s*){2}", *endless_ones]:
        endless = pattern in endless_ones
        grammar = COMPILER.compile_regex(pattern)
        assert bool(lint_grammar(grammar.grammar, "regex")) == endless, pattern
        assert (GrammarMatcher(grammar).min_tokens_to_finish() > 0) is True
