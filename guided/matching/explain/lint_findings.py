"""Finds parts of valid specifications that are likely to cause bad output. In: a compiled grammar. Out: findings.

Cost: terminals of a grammar with a lexer are compared in pairs, up to a bound (`guided/frontends/lark/lint.py`). Rules
are searched for ambiguous texts, up to a bound (`ambiguity.py`). The total time is at most `Limits.seconds` of the
grammar.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from guided.frontends.common.lint_finding import LintFinding
from guided.frontends.gbnf import lint_gbnf
from guided.frontends.lark import LarkOptions
from guided.frontends.lark.lint import lint_lark
from guided.frontends.library import library
from guided.frontends.lint import lint_grammar
from guided.frontends.regex.doubtful_sets import lint_pattern
from guided.matching.compiled import CompiledGrammar
from guided.matching.explain.ambiguity import find_ambiguous_alternatives
from guided.meter import limit_compilation

__all__ = ["lint_specification"]

_DATA_KEYWORDS: Final = ("const", "default", "enum", "example", "examples")


def lint_specification(grammar: CompiledGrammar, kind: str, source: Any, lark: Mapping[str, Any]) -> list[LintFinding]:
    """The findings, the most important first.

    Args:
        grammar: compiled from the specification.
        kind: "schema", "regex", "lark", "gbnf", "grammar" (a built-in grammar), or another kind of specification.
        source: the text, or the name of a built-in grammar.
        lark: the fields of `LarkOptions` for kind "lark"; ignored for other kinds.

    Raises:
        LimitExceeded: linting takes longer than `Limits.seconds`.
    """
    findings, limits = list[LintFinding](), grammar.limits
    with limit_compilation(limits, work=False):
        if kind == "grammar":
            built_in = library()[source]
            findings = lint_lark(built_in.text, LarkOptions(**built_in.options), limits)
            kind = "lark"
        elif kind == "lark":
            findings = lint_lark(source, LarkOptions(**lark), limits)
        elif kind == "regex":
            findings = lint_pattern(str(source), "")
        elif kind in ("schema", "structural_tag"):
            findings = _lint_patterns(source)
        rules = grammar.grammar
        if kind == "gbnf":
            findings += lint_gbnf(rules)
        findings += lint_grammar(rules, kind)
        if kind in ("lark", "gbnf") and rules.lexer is None:
            findings += find_ambiguous_alternatives(rules)
    return sorted(findings, key=lambda each: not each.matters)


def _lint_patterns(source: Any) -> list[LintFinding]:
    """The findings in the patterns of a JSON Schema or a structural tag."""
    if isinstance(source, str | bytes):
        with suppress(ValueError):  # a Python type
            source = json.loads(source)
    findings, pending = list[LintFinding](), [(source, "")]
    while pending:
        value, pointer = pending.pop()
        if isinstance(value, list):
            pending += [(item, f"{pointer}/{number}") for number, item in enumerate(value)]
        elif isinstance(value, Mapping):
            pattern, patterns = value.get("pattern"), value.get("patternProperties")
            if isinstance(pattern, str):
                findings += lint_pattern(pattern, f"{pointer}/pattern")
            for each in patterns if isinstance(patterns, Mapping) else ():
                findings += lint_pattern(str(each), f"{pointer}/patternProperties/{_escape(str(each))}")
            members = ((name, member) for name, member in value.items() if name not in _DATA_KEYWORDS)
            pending += [(member, f"{pointer}/{_escape(str(name))}") for name, member in members]
    return findings


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
