"""Builds LR automata of a grammar. In: rules as lists of alternatives. Out: the data that a lexer needs from an LALR(1)
table.

A contextual lexer tries the terminals in the table row of the parser's current state. When a lexeme begins, this is the
first state, or a state that was entered by a terminal. `find_terminal_states` returns these states. Each has its kernel
items (positions in the rules) and the terminals in its row: the terminals that it shifts, and the lookaheads for which
it reduces. A lookahead may be `doubtful`: the table merges several contexts into one state, and the terminal can follow
in only some of them.

    start: "(" e ")" | "[" e "]"        one state after NAME, which has ")" and "]" in its row, both doubtful:
    e: NAME                             after "(" NAME, no "]" can follow

The C++ code is in `native/lr0.hpp` and `native/lalr.hpp`, which cite the sources.

Cost: states times items. A grammar may have exponentially many states, so the construction gives up after `MAX_STEPS`
steps of a few nanoseconds each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from guided.frontends.lark import _lark

__all__ = [
    "FIRST",
    "MAX_STEPS",
    "ROOT",
    "Item",
    "Rules",
    "State",
    "Table",
    "find_lr0_kernels",
    "find_nullable",
    "find_productive",
    "find_terminal_states",
    "remove_terminals",
]

MAX_STEPS: Final = 20_000_000

ROOT: Final = ""
Rules: TypeAlias = Mapping[str, Sequence[Sequence[tuple[str, bool]]]]
"""The alternatives of each rule. A symbol is (name, whether it is a terminal)."""


class Item(NamedTuple):
    """An LR(0) item: the position after the first `read` symbols of an alternative."""

    rule: str
    alternative: int
    read: int


FIRST: Final = Item(ROOT, 0, 0)
"""The kernel item of the first state: the position before the start rule."""


@dataclass(frozen=True, slots=True)
class State:
    """A state of the LALR(1) table, see the module docstring. `doubtful` is a subset of `terminals`."""

    kernel: frozenset[Item]
    terminals: frozenset[str]
    doubtful: frozenset[str]


@dataclass(frozen=True, slots=True)
class Table:
    """The states of a table that `find_terminal_states` finds.

    `is_deterministic`: the rules have no shift/reduce conflict, so an exact parser is in only one state at a time.
    Lark resolves a conflict by a shift.
    """

    states: list[State]
    is_deterministic: bool


def find_terminal_states(
    rules: Rules, start: str, live_alternatives: Mapping[str, list[int]] | None = None
) -> Table | None:
    """See the module docstring. None: the table has a reduce/reduce conflict, or `MAX_STEPS` is exceeded.

    `live_alternatives`: the numbers of some alternatives, by rule. The result then contains only the states to which
    these alternatives lead, and their kernels contain only items of these alternatives. The rows still come from the
    complete table. A state may occur several times, with different kernels. Terminals that only the other alternatives
    can accept are doubtful, too. Conflicts with the other alternatives do not count.
    """
    native_table = _lark.lalr_states(
        dict(rules), start, MAX_STEPS, None if live_alternatives is None else dict(live_alternatives)
    )
    if native_table is None:
        return None
    states, is_deterministic = native_table
    return Table([State(_make_items(kernel), row, doubtful) for kernel, row, doubtful in states], is_deterministic)


def find_lr0_kernels(rules: Rules, start: str) -> list[frozenset[Item]] | None:
    """The kernels of all states of the LR(0) automaton. None: `MAX_STEPS` is exceeded."""
    native_kernels = _lark.lr0_kernels(dict(rules), start, MAX_STEPS)
    return None if native_kernels is None else [_make_items(kernel) for kernel in native_kernels]


def _make_items(kernel: list[tuple[str, int, int]]) -> frozenset[Item]:
    return frozenset(map(Item._make, kernel))


def find_nullable(rules: Rules) -> set[str]:
    """The rules that match the empty string."""
    return _find_complete_rules(rules, allow_terminals=False)


def find_productive(rules: Rules) -> set[str]:
    """The rules that generate something, assuming that all terminals do."""
    return _find_complete_rules(rules, allow_terminals=True)


def remove_terminals(rules: Rules, names: Set[str]) -> Rules:
    """The rules after the terminals `names`, which match no text, have been turned into rules without alternatives.

    The items before such a terminal remain, because Lark's table contains them.
    """
    out: dict[str, list[tuple[tuple[str, bool], ...]]] = {
        name: [tuple((symbol, is_term and symbol not in names) for symbol, is_term in each) for each in alternatives]
        for name, alternatives in rules.items()
    }
    return out | {name: [] for name in names}


def _find_complete_rules(rules: Rules, *, allow_terminals: bool) -> set[str]:
    """The smallest set that contains every rule with an alternative in which all rules belong to the set. The
    alternative may contain terminals only if `allow_terminals` is set.

    Each alternative counts down its missing rules, so the cost is linear (Dowling and Gallier 1984).
    """
    out: set[str] = set()
    alternatives_by_rule: dict[str, list[int]] = {}  # a rule -> the alternatives that contain it
    owners: list[str] = []
    missing_counts: list[int] = []
    todo: list[str] = []
    for rule, alternatives in rules.items():
        for symbols in alternatives:
            if not allow_terminals and any(is_terminal for _, is_terminal in symbols):
                continue
            number, names = len(owners), [name for name, is_terminal in symbols if not is_terminal]
            owners.append(rule)
            missing_counts.append(len(names))
            for name in names:
                alternatives_by_rule.setdefault(name, []).append(number)
            if not names:
                todo.append(rule)
    while todo:
        rule = todo.pop()
        if rule in out:
            continue
        out.add(rule)
        for number in alternatives_by_rule.get(rule, ()):
            missing_counts[number] -= 1
            if not missing_counts[number]:
                todo.append(owners[number])
    return out
