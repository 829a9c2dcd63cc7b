"""LR automata of a grammar. In: rules as lists of alternatives. Out: what the lexer must know of an LALR(1) table.

After a terminal, which terminals does the row of the table have? `terminal_states` gives the first state, and those
that are entered by a terminal. Each has its kernel, which are the places in the rules at which the parser may stand,
and the terminals in its row: those that it shifts, and those before which it reduces. Some of the latter may be
`doubtful`: the state is entered in several contexts, which the table does not tell apart, and the terminal can follow
in some of them only.

    start: "(" e ")" | "[" e "]"        one state after NAME, which has ")" and "]" in its row, both doubtful:
    e: NAME                             after "(" NAME, no "]" can follow

How: in C++, `native/lr0.hpp` and `native/lalr.hpp`, which name the sources.

Cost: states times items, and a grammar may have exponentially many states: after `MOST` steps, of some nanoseconds
each, there is no table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from guided.frontends.lark import _lark

__all__ = [
    "FIRST",
    "MOST",
    "ROOT",
    "Place",
    "Rules",
    "State",
    "kernels",
    "nullable",
    "terminal_states",
    "with_all",
]

MOST: Final = 20_000_000

ROOT: Final = ""
Rules: TypeAlias = Mapping[str, Sequence[Sequence[tuple[str, bool]]]]
"""The alternatives of each rule. A symbol is a name, and whether it is that of a terminal."""


class Place(NamedTuple):
    """The place after the first `read` symbols of an alternative."""

    rule: str
    alternative: int
    read: int


FIRST: Final = Place(ROOT, 0, 0)
"""The kernel of the first state: the place before the rule to begin with."""


@dataclass(frozen=True, slots=True)
class State:
    """See the head. `doubtful` is a part of `terminals`."""

    kernel: frozenset[Place]
    terminals: frozenset[str]
    doubtful: frozenset[str]


def terminal_states(rules: Rules, start: str, living: Mapping[str, list[int]] | None = None) -> list[State] | None:
    """See the head. None: two alternatives may end before the same terminal, or `MOST` is exceeded.

    With `living` alternatives, by rule: the states of the same table that these lead to, with their places there alone.
    A state may be there several times, and what only the other alternatives could take is doubtful, too.
    """
    found = _lark.lalr_states(dict(rules), start, MOST, None if living is None else dict(living))
    return None if found is None else [State(_places(kernel), row, doubtful) for kernel, row, doubtful in found]


def kernels(rules: Rules, start: str) -> list[frozenset[Place]] | None:
    """The kernels of all states of the LR(0) automaton. None: `MOST` is exceeded."""
    found = _lark.lr0_kernels(dict(rules), start, MOST)
    return None if found is None else [_places(kernel) for kernel in found]


def _places(kernel: list[tuple[str, int, int]]) -> frozenset[Place]:
    return frozenset(map(Place._make, kernel))


def nullable(rules: Rules) -> set[str]:
    """The rules that may be empty."""
    return with_all(rules, terminals_count=False)


def with_all(rules: Rules, *, terminals_count: bool) -> set[str]:
    """The rules with an alternative all of whose symbols count: rules that were found, and terminals or none.

    Each alternative counts down what it waits for, so the cost is linear (Dowling and Gallier 1984).
    """
    out: set[str] = set()
    waiting: dict[str, list[int]] = {}  # a rule -> the alternatives that wait for it
    owners: list[str] = []
    missing: list[int] = []
    todo: list[str] = []
    for rule, alternatives in rules.items():
        for symbols in alternatives:
            if not terminals_count and any(is_terminal for _, is_terminal in symbols):
                continue
            number, names = len(owners), [name for name, is_terminal in symbols if not is_terminal]
            owners.append(rule)
            missing.append(len(names))
            for name in names:
                waiting.setdefault(name, []).append(number)
            if not names:
                todo.append(rule)
    while todo:
        rule = todo.pop()
        if rule in out:
            continue
        out.add(rule)
        for number in waiting.get(rule, ()):
            missing[number] -= 1
            if not missing[number]:
                todo.append(owners[number])
    return out
