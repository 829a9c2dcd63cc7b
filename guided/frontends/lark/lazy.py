"""Finds which terminals must not extend over lazy terminals. In: rules, and the names of lazy terminals. Out: for each
LR item before a terminal (`lalr.py`), the lazy terminals over which this terminal must not extend.

    start: (call | TEXT)*        TEXT: /(.|\\n)*/
    call: head "(" ")"           head[lazy]: TEXT "<call"

A lazy terminal ends at its first match. Wherever it can be tried, the text up to that point belongs to it: no other
terminal may take this text and continue. So the TEXT in `start` contains no `<call`, although its pattern allows it,
and `<call` is followed by `(`. Two lazy terminals may match the same text.

How: terminals compete if a state of the LR(0) automaton has items before both. Items after rules that may be empty
count, too. An item that belongs to several states avoids the lazy terminals of all of them, although llguidance decides
in each state: in `start: lazy | "c" t | t`, the texts of `t` after a c may not extend over `lazy` either.

Source: llguidance, docs/syntax.md, "Lazy lexemes" and "Tool calling".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .lalr import FIRST, ROOT, Item, Rules, find_lr0_kernels, find_nullable

__all__ = ["find_avoided_terminals"]


def find_avoided_terminals(rules: Rules, start: str, lazy_names: frozenset[str]) -> Mapping[Item, frozenset[str]]:
    """See the module docstring. If the automaton is too large, no terminal may extend over any lazy one."""
    if not lazy_names:
        return {}
    rules_with_root = {ROOT: [[(start, False)]], **rules}
    out: dict[Item, set[str]] = {}
    all_kernels = find_lr0_kernels(rules, start)
    if all_kernels is None:
        all_kernels = [
            frozenset(Item(name, number, 0) for name, each in rules_with_root.items() for number in range(len(each)))
        ]
    nullable_rules = find_nullable(rules_with_root)
    for kernel in all_kernels:
        terminal_items = {
            item: _get_next_symbol(rules_with_root, item)
            for item in _find_terminal_items(rules_with_root, kernel, nullable_rules)
        }
        competing_names = lazy_names & set(terminal_items.values())
        for item, name in terminal_items.items():
            if competing_names - {name}:
                out.setdefault(item, set()).update(competing_names - {name})
    return {item: frozenset(names) for item, names in out.items()}


def _get_next_symbol(rules: Rules, item: Item) -> str:
    return rules[item.rule][item.alternative][item.read][0]


def _find_terminal_items(rules: Rules, kernel: frozenset[Item], nullable_rules: set[str]) -> Iterator[Item]:
    """The items before terminals that a parser reaches from `kernel` without reading anything."""
    todo = list(kernel or {FIRST})
    seen: set[str] = set()
    for item in todo:  # grows during the loop
        symbols = rules[item.rule][item.alternative]
        for read in range(item.read, len(symbols)):
            name, is_terminal = symbols[read]
            if is_terminal:
                yield Item(item.rule, item.alternative, read)
                break
            if name not in seen:
                seen.add(name)
                todo += [Item(name, number, 0) for number in range(len(rules[name]))]
            if name not in nullable_rules:
                break
