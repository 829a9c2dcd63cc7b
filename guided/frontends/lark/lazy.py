"""Finds which terminals must not extend over lazy terminals. In: rules, and the names of lazy terminals. Out: items
before terminals, and the lazy terminals over which each of these must not extend.

    start: (call | TEXT)*        TEXT: /(.|\\n)*/
    call: head "(" ")"           head[lazy]: TEXT "<call"

A lazy terminal ends at its first match. Wherever it can be tried, the text up to that point belongs to it: no other
terminal may take this text and continue. So the first TEXT above contains no `<call`, although its pattern allows it,
and `<call` is followed by `(`. Two lazy terminals may match the same text.

How: terminals compete if one state of the LR(0) automaton has items before both. Rules that may be empty are skipped.

Source: llguidance, docs/syntax.md, "Lazy lexemes" and "Tool calling".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .lalr import FIRST, ROOT, Item, Rules, find_nullable, lr0_kernels

__all__ = ["avoided_lazy_terminals"]


def avoided_lazy_terminals(rules: Rules, start: str, lazy: frozenset[str]) -> Mapping[Item, frozenset[str]]:
    """See the module docstring. If the automaton is too large, no terminal may extend over any lazy one."""
    if not lazy:
        return {}
    rules_with_root = {ROOT: [[(start, False)]], **rules}
    out: dict[Item, set[str]] = {}
    all_kernels = lr0_kernels(rules, start)
    if all_kernels is None:
        all_kernels = [
            frozenset(Item(name, at, 0) for name, each in rules_with_root.items() for at in range(len(each)))
        ]
    nullable_rules = find_nullable(rules_with_root)
    for kernel in all_kernels:
        terminal_items = {
            item: _symbol(rules_with_root, item) for item in _terminals_before(rules_with_root, kernel, nullable_rules)
        }
        competing = lazy & set(terminal_items.values())
        for item, name in terminal_items.items():
            if competing - {name}:
                out.setdefault(item, set()).update(competing - {name})
    return {item: frozenset(names) for item, names in out.items()}


def _symbol(rules: Rules, item: Item) -> str:
    return rules[item.rule][item.alternative][item.read][0]


def _terminals_before(rules: Rules, kernel: frozenset[Item], nullable_rules: set[str]) -> Iterator[Item]:
    """The items before terminals that a parser reaches without reading anything."""
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
