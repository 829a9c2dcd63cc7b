"""The work of lint is bounded: it is linear in the rules, and omitted checks are counted."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.frontends.common.rule_lint import recursive_rules
from guided.frontends.gbnf import lint_gbnf
from guided.frontends.lark import LarkOptions
from guided.frontends.lark.lint import lint_lark
from guided.frontends.lint import lint_grammar
from guided.ir.nodes import Alt, Ref
from guided.matching.explain import ambiguity
from guided.matching.explain.ambiguity import find_ambiguous_alternatives
from tests.effort import examples
from tests.test_lint import COMPILER
from tests.work_support import lines_run


@examples(300)
@given(st.integers(0, 8).flatmap(lambda n: st.lists(st.sets(st.integers(0, n)), min_size=n + 1, max_size=n + 1)))
def test_rules_that_contain_themselves(following: list[set[int]]) -> None:
    """Compared with the transitive closure, which is computed by repeated union."""
    rules = {f"r{at}": Alt(tuple(Ref(f"r{to}") for to in each)) for at, each in enumerate(following)}
    closure = [set(each) for each in following]
    for _ in following:
        closure = [each.union(*(closure[to] for to in each)) for each in closure]
    assert recursive_rules(rules) == [f"r{at}" for at, each in enumerate(closure) if at in each]


def many_rules(n: int) -> str:
    """Operators of n levels."""
    levels = "".join(f'r{i} ::= r{i} "o{i}" r{i + 1} | r{i + 1}\n' for i in range(n))
    return f'root ::= r0\n{levels}r{n} ::= [0-9]+ | "(" r0 ")"'


def many_keywords(n: int) -> str:
    """They all collide with each other's rows."""
    return "start: (" + " | ".join(f'"k{i}"' for i in range(n)) + ")+\n" + "".join(f'u{i}: "u"\n' for i in range(n))


def test_the_work_is_linear_in_the_rules() -> None:
    """Except for pairs of terminals, of which a fixed number is compared."""
    grammars = {n: COMPILER.compile_gbnf(many_rules(n)).grammar for n in (50, 200)}
    small, large = (
        lines_run(lambda n=n: [*lint_gbnf(grammars[n]), *lint_grammar(grammars[n], "gbnf")]) for n in grammars
    )
    assert large < 5 * small
    small, large = (lines_run(lambda n=n: lint_lark(many_keywords(n), LarkOptions())) for n in (200, 800))
    assert large < 5 * small


def test_ambiguity_is_looked_for_in_a_bounded_number_of_rules() -> None:
    """Each of 400 rules leads to all others, so every other automaton has 400 rules."""
    rules = "".join(f'r{i} ::= "a" r{(i + 1) % 400} | "b"\n' for i in range(400))
    grammar = COMPILER.compile_gbnf(f"root ::= r0\n{rules}").grammar
    compiled = []
    with pytest.MonkeyPatch.context() as patch:
        make = ambiguity.automaton_of_rules
        patch.setattr(ambiguity, "automaton_of_rules", lambda *given: compiled.append(given) or make(*given))
        assert list(find_ambiguous_alternatives(grammar)) == []
    assert 240 < len(compiled) < 260


def test_pairs_that_are_not_compared_are_counted() -> None:
    (remark,) = [each for each in lint_lark(many_keywords(100), LarkOptions()) if each.kind == "not-compared"]
    assert remark.message == "2950 pairs of terminals were not compared"


def test_names_with_many_underscores_take_little_memory() -> None:
    """Also, a rule with a repetition is used, although Lark renames its repetition."""
    name = "a_" * 3_000 + "a"
    tracemalloc.start()
    try:
        findings = lint_lark(f'start: {name}\n{name}: ("x" "z")* "y"\nb: "x"+', LarkOptions())
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()
    assert [finding.place for finding in findings] == ["b (line 3)"]
