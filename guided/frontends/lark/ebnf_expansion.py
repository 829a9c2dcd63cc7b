"""Expands a grammar as Lark's loader does, without the parts that guided does not need. In: the grammar that Lark has
read, and the start rule. Out: its terminals and the alternatives of its rules.

How: `compile_grammar` replaces Lark's `Grammar.compile`. Lark's own transformers create the terminals, including the
terminals for literals in rules, in the same order as in Lark, because the order determines their names. C++ code
expands the rules (`native/ebnf.hpp`). Lark itself handles the unusual cases: templates, long repetitions, and errors.

Cost: linear in the trees and in the expansion.
"""

from __future__ import annotations

import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from guided.frontends.lark import _lark
from guided.meter import spend

from .lark_errors import import_lark

__all__ = ["Symbols", "compile_grammar"]

Symbols: TypeAlias = tuple[tuple[str, bool], ...]
"""The symbols of an alternative: (name, whether it is a terminal)."""


def compile_grammar(
    grammar: Any, start: str, check: Callable[[], None] = lambda: None
) -> tuple[list[Any], dict[str, list[Symbols]]]:
    """See the module docstring. `check` is called only if Lark itself must expand the rules, before it does.

    Raises:
        Exception: as raised by `check`.
        lark.exceptions.LarkError, AssertionError and others: as in Lark.
    """
    loader = import_lark().load_grammar
    terminals = _create_terminals(grammar, loader)
    literals, names = loader.PrepareLiterals(), loader.PrepareAnonTerminals(terminals)

    def create_terminal(tree: Any) -> tuple[str, bool]:
        spend()
        (pattern,) = getattr(literals, tree.data)(*tree.children).children
        return str(names.pattern(pattern).name), pattern.type == "str"

    rules = _lark.expanded(grammar.rule_defs, start, create_terminal)
    if rules is not None:
        return terminals, rules
    check()
    terminals, compiled_rules, _ = grammar.compile([start], "*")
    rules = {}
    for rule in compiled_rules:
        symbols = tuple((str(symbol.name), bool(symbol.is_term)) for symbol in rule.expansion)
        rules.setdefault(str(rule.origin.name), []).append(symbols)
    return terminals, rules


def _create_terminals(grammar: Any, loader: Any) -> list[Any]:
    """The named terminals, as Lark creates them. The trees are copied, because Lark's transformers modify them."""
    out, transformer = [], loader.PrepareLiterals() * _make_pattern_transformer()
    for name, (tree, priority) in grammar.term_defs:
        spend()
        if tree is None:  # declared
            continue
        copy = loader.nr_deepcopy_tree(tree)
        expansions = list(copy.find_data("expansion"))
        if len(expansions) == 1 and not expansions[0].children:
            raise loader.GrammarError(f"Terminals cannot be empty ({name})")
        out.append(loader.TerminalDef(name, transformer.transform(copy), priority))
    return out


@cache
def _make_pattern_transformer() -> Any:
    """Lark's transformer of terminals, which compares the widths of alternatives. If Python cannot read a pattern, Lark
    would match it with the package regex to find out whether it may be empty, which can take exponential time.
    """
    base: Any = import_lark().load_grammar.TerminalTreeToPattern

    class CheckedPatterns(base):  # type: ignore[misc]
        def expansions(self, alternatives: list[Any]) -> Any:
            for pattern in alternatives if len(alternatives) > 1 else ():
                if pattern.type == "re":
                    parser.parse(pattern.to_regexp())
            return super().expansions(alternatives)

    return CheckedPatterns()
