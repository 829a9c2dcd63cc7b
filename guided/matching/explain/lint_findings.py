"""Finds likely problems of valid specifications in generation. In: a compiled grammar. Out: remarks.

Cost: terminals of a grammar with a lexer are compared in pairs, up to a bound (`guided/frontends/lark/lint.py`). Rules
are searched for ambiguous texts, up to a bound (`ambiguity.py`). The total time is at most the seconds of the grammar's
`Limits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guided.frontends.common.lint_finding import LintFinding
from guided.frontends.gbnf.lint import lint_gbnf
from guided.frontends.lark import LarkOptions
from guided.frontends.lark.lint import lint_lark
from guided.frontends.library import library
from guided.frontends.lint import lint_grammar
from guided.matching.compiled import CompiledGrammar
from guided.matching.explain.ambiguity import ambiguous
from guided.meter import compiling

__all__ = ["lint_findings_of"]


def lint_findings_of(grammar: CompiledGrammar, kind: str, source: Any, lark: Mapping[str, Any]) -> list[LintFinding]:
    """The remarks, the most important first.

    Args:
        grammar: compiled from the specification.
        kind: of the specification: "schema", "regex", "lark", "gbnf", "grammar" (one of the library), or another.
        source: the text, or the name of a grammar of the library.
        lark: the options of a grammar of Lark (`LarkOptions`); others need none.

    Raises:
        LimitExceeded: it takes too long; see `guided.Limits`.
    """
    remarks, limits = list[LintFinding](), grammar.limits
    with compiling(limits, work=False):
        if kind == "grammar":
            found = library()[source]
            remarks = lint_lark(found.text, LarkOptions(**found.options), limits)
            kind = "lark"
        elif kind == "lark":
            remarks = lint_lark(source, LarkOptions(**lark), limits)
        rules = grammar.grammar
        if kind == "gbnf":
            remarks += lint_gbnf(rules)
        remarks += lint_grammar(rules, kind)
        if kind in ("lark", "gbnf") and rules.lexer is None:
            remarks += ambiguous(rules)
    return sorted(remarks, key=lambda each: not each.matters)
