"""Lint for GBNF or EBNF. In: a grammar. Out: findings on its rules, see `rule_lint.py`."""

from __future__ import annotations

from collections.abc import Iterator

from guided.frontends.common.lint_finding import LintFinding
from guided.frontends.common.rule_lint import lint_rules, reached, unused
from guided.ir.nodes import Grammar

__all__ = ["lint_gbnf"]


def lint_gbnf(grammar: Grammar) -> Iterator[LintFinding]:
    """Rules that generate nothing, that derive themselves, or that no output uses."""
    yield from lint_rules(grammar.rules, grammar.start, grammar.origins.__getitem__)
    used = set(reached(grammar.rules, grammar.start))
    for name in grammar.rules:
        if name not in used:
            yield unused("rule", grammar.origins[name])
