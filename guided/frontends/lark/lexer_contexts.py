"""Finds the positions at which Lark's contextual lexer tries terminals that cannot follow. In: rules, and terminals in
the lexer's order. Out: marks in the rules, and the terminals that are tried after them.

Problem: Lark tries the terminals in the current row of its LALR(1) table. A row may have terminals that cannot follow
at the parser's actual position (`lalr.py`). If one of them matches, Lark refuses the text, even if another terminal
would have matched it.

    element: "<" NAME ">" content* "</" NAME ">"          after the last ">", Lark tries TEXT, because a `content` could
    content: element | TEXT                               follow if the element were inside another one. So "\\n", which
    %ignore /\\s+/                                         is TEXT first, is refused after the outermost element.

How: the items at which an exact parser may be after the same terminals determine the state of Lark's parser. So these
items are marked with names of tokens that no text contains, and a set of marks identifies a state.

Only states in which this can matter are marked: a doubtful terminal and another terminal of the row match prefixes of
the same text, and the doubtful one is tried first, or one is a keyword of the other. Without a table, nothing is
marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from guided.ir.nodes import Terminal

from .lalr import Item, Rules, State, find_productive, terminal_states
from .terminal_texts import TerminalTexts, share_a_text

__all__ = ["Marks", "mark_positions"]

_MAX_PAIRS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of items, and the terminals that are tried where the parser can accept a set of marks."""

    by_item: Mapping[Item, str]
    contexts: Mapping[frozenset[str], frozenset[str]]


def mark_positions(
    rules: Rules,
    start: str,
    terminals: Sequence[Terminal],
    always_tried: frozenset[str],
    texts: Mapping[str, TerminalTexts],
) -> Marks:
    """See the module docstring. `always_tried`: the terminals that are tried everywhere; `texts`: the texts of each."""
    states = _states(rules, start, find_productive(rules))
    has_doubtful_terminals = _DoubtfulTerminals(terminals, always_tried, texts)
    marked_kernels = {state.kernel for state in states if has_doubtful_terminals(state)}
    lr_items = {lr_item for kernel in marked_kernels for lr_item in kernel}
    while new_kernels := {
        state.kernel for state in states if state.kernel not in marked_kernels and state.kernel & lr_items
    }:
        marked_kernels |= new_kernels
        lr_items |= {lr_item for kernel in new_kernels for lr_item in kernel}
    members: dict[Item, list[int]] = {}
    for number, state in enumerate(states):
        for lr_item in sorted(state.kernel) if state.kernel in marked_kernels else ():
            members.setdefault(lr_item, []).append(number)
    names: dict[tuple[int, ...], str] = {}
    by_item = {lr_item: names.setdefault(tuple(numbers), f"@{len(names)}") for lr_item, numbers in members.items()}
    rows_by_marks: dict[frozenset[str], set[frozenset[str]]] = {}
    for state in states:
        if state.kernel in marked_kernels:
            marks = frozenset(by_item[lr_item] for lr_item in state.kernel)
            rows_by_marks.setdefault(marks, set()).add(state.terminals)
    # States that differ only by rules without texts have the same marks: try the terminals that all of them try.
    contexts = {marks: frozenset.intersection(*rows) for marks, rows in rows_by_marks.items() if marks}
    return Marks(by_item, contexts)


def _states(rules: Rules, start: str, productive_names: set[str]) -> list[State]:
    """The states of the table, with the items at which an exact parser may be in them.

    Alternatives without texts are in the table, but an exact parser never takes them. So their items are left out, and
    so are states that only they lead to. Terminals that only they can accept are doubtful, too.
    """
    if len(productive_names) == len(rules):
        return terminal_states(rules, start) or []
    live_rules = {
        name: [number for number, symbols in enumerate(rules[name]) if _is_productive(symbols, productive_names)]
        for name in productive_names
    }
    return (terminal_states(rules, start, live_rules) or []) if start in productive_names else []


class _DoubtfulTerminals:
    """Whether the doubtful terminals of a state can change the lexer's result."""

    def __init__(
        self, terminals: Sequence[Terminal], always_tried: frozenset[str], texts: Mapping[str, TerminalTexts]
    ) -> None:
        self.order = {terminal.name: number for number, terminal in enumerate(terminals)}
        self.terminals, self.always_tried, self.texts = terminals, always_tried, texts
        self.keywords: dict[str, set[str]] = {}
        for each in terminals:
            for keyword in each.keywords:
                self.keywords.setdefault(each.name, set()).add(keyword.name)
                self.keywords.setdefault(keyword.name, set()).add(each.name)
        self.compared = 0
        self.competitors = cache(self._find_competitors)

    def __call__(self, state: State) -> bool:
        doubtful = [each for each in state.doubtful if each in self.order and each not in self.always_tried]
        others = state.terminals | self.always_tried if doubtful else frozenset()
        return any(not self.competitors(each).isdisjoint(others) for each in doubtful)

    def _find_competitors(self, doubtful: str) -> frozenset[str]:
        """The terminals that `doubtful` can keep from matching. With very many terminals, this may be a superset."""
        self.compared += len(self.order)
        first = self.terminals[self.order[doubtful]]
        candidates = {each.name: each for each in self.terminals[self.order[doubtful] + 1 :]}
        candidates |= {name: self.terminals[self.order[name]] for name in self.keywords.get(doubtful, ())}
        if self.compared > _MAX_PAIRS:
            return frozenset(candidates)
        texts = self.texts
        return frozenset(
            name
            for name, each in candidates.items()
            if share_a_text(first.item, each.item, (texts[doubtful], texts[name]))
        )


def _is_productive(symbols: Sequence[tuple[str, bool]], productive_names: set[str]) -> bool:
    return all(is_term or name in productive_names for name, is_term in symbols)
