"""LR automata of a grammar. In: rules as lists of alternatives. Out: the data that a lexer needs of an LALR(1) table.

After a terminal, which terminals does the row of the table have? `terminal_states` returns the first state and the
states that are entered by a terminal. Each has its kernel items (positions in the rules) and the terminals in its row:
those that it shifts, and the lookaheads for which it reduces. A lookahead may be `doubtful`: the table merges several
contexts into one state, and the terminal can follow in only some of them.

    start: "(" e ")" | "[" e "]"        one state after NAME, which has ")" and "]" in its row, both doubtful:
    e: NAME                             after "(" NAME, no "]" can follow

The code is in C++: `native/lr0.hpp` and `native/lalr.hpp`, which name the sources.

Cost: states times items. A grammar may have exponentially many states, so the construction stops after `MOST` steps of
some nanoseconds each. Then there is no table.
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
"""The alternatives of each rule. A symbol is a name, and whether it is a terminal."""


class Place(NamedTuple):
    """An LR(0) item: the position after the first `read` symbols of an alternative."""

    rule: str
    alternative: int
    read: int


FIRST: Final = Place(ROOT, 0, 0)
"""The kernel item of the first state: the position before the start rule."""


@dataclass(frozen=True, slots=True)
class State:
    """See the module docstring. `doubtful` is a subset of `terminals`."""

    kernel: frozenset[Place]
    terminals: frozenset[str]
    doubtful: frozenset[str]


def terminal_states(rules: Rules, start: str, living: Mapping[str, list[int]] | None = None) -> list[State] | None:
    """See the module docstring. None: the table has a reduce/reduce conflict, or `MOST` is exceeded.

    `living`: some alternatives, by rule. The result then has only the states of the same table that these lead to, and
    only their items. A state may occur several times. Terminals that only the other alternatives can accept are
    doubtful, too.
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
    """The rules with an alternative that consists only of such rules and, if `terminals_count`, of terminals.

    Each alternative counts its missing symbols down, so the cost is linear (Dowling and Gallier 1984).
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
