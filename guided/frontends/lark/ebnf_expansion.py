"""Expands a grammar as Lark's loader does, without the parts that guided does not need. In: the grammar that Lark has
read, and the start rule. Out: its terminals and the alternatives of its rules.

How: `compile_grammar` replaces Lark's `Grammar.compile`. Lark's own transformers create the terminals, including those
of literals in rules. They do so in the same order, since the order determines their names. C++ code expands the rules
(`native/ebnf.hpp`). Lark itself handles the unusual cases: templates, long repetitions, and errors.

Cost: linear in the trees and in the expansion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from guided.frontends.lark import _lark
from guided.meter import spend

from .lark_errors import lark_package

__all__ = ["Symbols", "compile_grammar"]

Symbols: TypeAlias = tuple[tuple[str, bool], ...]
"""Pairs of a name, and whether it is a terminal."""


def compile_grammar(
    grammar: Any, start: str, check: Callable[[], None] = lambda: None
) -> tuple[list[Any], dict[str, list[Symbols]]]:
    """See the module docstring. `check` is called before Lark expands the rules.

    Raises:
        Exception: as raised by `check`.
        lark.exceptions.LarkError, AssertionError and others: as in Lark.
    """
    loader = lark_package().load_grammar
    terminals = _terminals(grammar, loader)
    literals, names = loader.PrepareLiterals(), loader.PrepareAnonTerminals(terminals)

    def terminal_of(tree: Any) -> tuple[str, bool]:
        spend()
        (pattern,) = getattr(literals, tree.data)(*tree.children).children
        return str(names.pattern(pattern).name), pattern.type == "str"

    rules = _lark.expanded(grammar.rule_defs, start, terminal_of)
    if rules is not None:
        return terminals, rules
    check()
    terminals, compiled_rules, _ = grammar.compile([start], "*")
    rules = {}
    for rule in compiled_rules:
        symbols = tuple((str(symbol.name), bool(symbol.is_term)) for symbol in rule.expansion)
        rules.setdefault(str(rule.origin.name), []).append(symbols)
    return terminals, rules


def _terminals(grammar: Any, loader: Any) -> list[Any]:
    """The named terminals, as Lark creates them. The trees are copied, since Lark's transformers change them."""
    out, transformer = [], loader.PrepareLiterals() * loader.TerminalTreeToPattern()
    for name, (tree, priority) in grammar.term_defs:
        spend()
        if tree is None:  # declared
            continue
        copy = loader.nr_deepcopy_tree(tree)
        empty = list(copy.find_data("expansion"))
        if len(empty) == 1 and not empty[0].children:
            raise loader.GrammarError(f"Terminals cannot be empty ({name})")
        out.append(loader.TerminalDef(name, transformer.transform(copy), priority))
    return out
