"""What Lark's loader makes of a grammar, without what nobody needs here. In: the grammar that Lark has read, and the
rule to begin with. Out: its terminals and the alternatives of its rules.

How: `compiled` is `Grammar.compile`: terminals are made by Lark's own transformers, and so are those of literals in
rules, in the same order, since their names count. Rules are written out in C++ (`native/ebnf.hpp`). What is unusual is
left to Lark: templates, long repetitions, and whatever is an error.

Cost: linear in the trees and in what is written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from guided.frontends.lark import _lark
from guided.meter import spend

from .lark_errors import lark_package

__all__ = ["Symbols", "compiled"]

Symbols: TypeAlias = tuple[tuple[str, bool], ...]
"""Names, and whether each is that of a terminal."""


def compiled(
    grammar: Any, start: str, check: Callable[[], None] = lambda: None
) -> tuple[list[Any], dict[str, list[Symbols]]]:
    """See the head. `check`: is called before Lark writes the rules out.

    Raises:
        Exception: what `check` raises.
        lark.exceptions.LarkError, AssertionError and others: as Lark does.
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
    terminals, found, _ = grammar.compile([start], "*")
    rules = {}
    for rule in found:
        symbols = tuple((str(symbol.name), bool(symbol.is_term)) for symbol in rule.expansion)
        rules.setdefault(str(rule.origin.name), []).append(symbols)
    return terminals, rules


def _terminals(grammar: Any, loader: Any) -> list[Any]:
    """Those with a name, as Lark makes them; its transformers change trees, which are needed again."""
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
