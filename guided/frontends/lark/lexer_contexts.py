"""Finds the positions at which Lark's contextual lexer tries terminals that cannot follow. In: rules, and terminals in
the lexer's order. Out: marks in the rules, and the terminals that are tried after them.

Problem: Lark tries the terminals in the current row of its LALR(1) table. A row may contain terminals that cannot
follow at the parser's actual position (`lalr.py`). If one of them matches, Lark rejects the input, even if another
terminal would have matched it.

    element: "<" NAME ">" content* "</" NAME ">"          after the last ">", Lark tries TEXT, because a `content` could
    content: element | TEXT                               follow if the element were inside another one. So Lark reads
    %ignore /\\s+/                                         "\\n" as TEXT and rejects it after the outermost element.

How: the state of Lark's parser is determined by the items at which an exact parser may be after the same terminals. So
these items are marked with token names that no input contains, and a set of marks identifies a state.

Only states in which this can matter are marked: a doubtful terminal and another terminal of the row match prefixes of
the same text; in addition, the doubtful one is tried first, or one of the two is a keyword of the other. If there is no
table, nothing is marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from guided.ir.nodes import Terminal

from .lalr import Item, Rules, State, Table, find_productive, find_terminal_states
from .terminal_texts import TerminalTexts, share_a_text

__all__ = ["Marks", "mark_positions"]

_MAX_PAIRS: Final = 200_000
_MAX_ROW_SIZES: Final = 200_000  # the sum of the sizes of all rows
_MAX_ROW_TERMINALS: Final = 1024  # with more terminals, the core does not use rows


@dataclass(frozen=True, slots=True)
class Marks:
    """`by_item`: the mark of each item. `contexts`: set of marks -> the terminals that Lark's lexer tries where exactly
    these marks can follow. `rows`: see `guided.ir.nodes.Lexer`; empty if they are too large, or if an exact parser may
    be in several states of the table at once.
    """

    by_item: Mapping[Item, str]
    contexts: Mapping[frozenset[str], frozenset[str]]
    rows: Mapping[frozenset[str], frozenset[str]]


def mark_positions(
    rules: Rules,
    start: str,
    terminals: Sequence[Terminal],
    always_tried: frozenset[str],
    texts: Mapping[str, TerminalTexts],
) -> Marks:
    """See the module docstring. `always_tried`: terminals that are tried everywhere. `texts`: the texts by terminal."""
    table = _find_table(rules, start, find_productive(rules))
    if table is None:
        return Marks({}, {}, {})
    states = table.states
    doubtful_terminals = _DoubtfulTerminals(terminals, always_tried, texts)
    marked_kernels = {state.kernel for state in states if doubtful_terminals.can_matter(state)}
    lr_items = {lr_item for kernel in marked_kernels for lr_item in kernel}
    while new_kernels := {
        state.kernel for state in states if state.kernel not in marked_kernels and state.kernel & lr_items
    }:
        marked_kernels |= new_kernels
        lr_items |= {lr_item for kernel in new_kernels for lr_item in kernel}
    states_by_item: dict[Item, list[int]] = {}
    for number, state in enumerate(states):
        for lr_item in sorted(state.kernel) if state.kernel in marked_kernels else ():
            states_by_item.setdefault(lr_item, []).append(number)
    names: dict[tuple[int, ...], str] = {}
    by_item = {
        lr_item: names.setdefault(tuple(numbers), f"@{len(names)}") for lr_item, numbers in states_by_item.items()
    }
    rows_by_marks: dict[frozenset[str], set[frozenset[str]]] = {}
    for state in states:
        if state.kernel in marked_kernels:
            marks = frozenset(by_item[lr_item] for lr_item in state.kernel)
            rows_by_marks.setdefault(marks, set()).add(state.terminals)
    # States that differ only in rules that generate nothing have the same marks: try the terminals that all of them
    # try.
    contexts = {marks: frozenset.intersection(*rows) for marks, rows in rows_by_marks.items() if marks}
    has_rows = table.is_deterministic and len(terminals) <= _MAX_ROW_TERMINALS
    return Marks(by_item, contexts, _find_rows(rules, states) if has_rows else {})


def _find_rows(rules: Rules, states: Sequence[State]) -> dict[frozenset[str], frozenset[str]]:
    """The row of each state that a terminal enters -> the terminals that enter states with this row. Empty if the rows
    are very long."""
    entering: dict[frozenset[str], set[str]] = {}
    for state in states:
        rule, alternative, read = next(iter(state.kernel))
        names = entering.setdefault(state.terminals, set())
        if read:
            names.add(rules[rule][alternative][read - 1][0])
    size = sum(len(row) + len(names) for row, names in entering.items())
    return {row: frozenset(names) for row, names in entering.items()} if size <= _MAX_ROW_SIZES else {}


def _find_table(rules: Rules, start: str, productive_names: set[str]) -> Table | None:
    """The states of the table, with the items at which an exact parser may be in them.

    The table contains alternatives that generate nothing, but an exact parser never takes them. So the result omits
    their items and the states to which only they lead. Terminals that only they can accept are doubtful, too.
    """
    if len(productive_names) == len(rules):
        return find_terminal_states(rules, start)
    live_rules = {
        name: [number for number, symbols in enumerate(rules[name]) if _is_productive(symbols, productive_names)]
        for name in productive_names
    }
    return find_terminal_states(rules, start, live_rules) if start in productive_names else None


class _DoubtfulTerminals:
    """Decides whether the doubtful terminals of a state can change the lexer's result."""

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
        self.compared_pairs = 0
        self.find_competitors = cache(self._compute_competitors)

    def can_matter(self, state: State) -> bool:
        names = [each for each in state.doubtful if each in self.order and each not in self.always_tried]
        tried_names = state.terminals | self.always_tried if names else frozenset()
        return any(not self.find_competitors(each).isdisjoint(tried_names) for each in names)

    def _compute_competitors(self, doubtful_name: str) -> frozenset[str]:
        """The terminals that a doubtful one can keep from matching. A superset if there are very many terminals."""
        self.compared_pairs += len(self.order)
        doubtful = self.terminals[self.order[doubtful_name]]
        candidates = {each.name: each for each in self.terminals[self.order[doubtful_name] + 1 :]}
        candidates |= {name: self.terminals[self.order[name]] for name in self.keywords.get(doubtful_name, ())}
        if self.compared_pairs > _MAX_PAIRS:
            return frozenset(candidates)
        texts = self.texts
        return frozenset(
            name
            for name, each in candidates.items()
            if share_a_text(doubtful.item, each.item, (texts[doubtful_name], texts[name]))
        )


def _is_productive(symbols: Sequence[tuple[str, bool]], productive_names: set[str]) -> bool:
    return all(is_term or name in productive_names for name, is_term in symbols)
