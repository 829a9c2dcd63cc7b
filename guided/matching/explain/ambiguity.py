"""A shortest text that two grammars have in common. In: two grammars without a lexer. Out: a text, or nothing.

How: both are compiled over bytes, and pairs of their states are searched, breadth first, as for the intersection of two
finite automata (Hopcroft and Ullman 1979, section 3.2). A grammar that is not regular has infinitely many states, so
the search gives up after a number of pairs, without a result. The problem is undecidable in general.

The examples are readable: the search tries letters first.

Cost: two steps of the core for each byte of each pair. The number of compiled grammars, their total rules, and the work
for each are bounded. The search ends when a meter around it is exhausted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Final

from guided.automaton import _core
from guided.errors import GuidedError
from guided.frontends.common.lint_finding import LintFinding
from guided.frontends.common.rule_lint import reached
from guided.ir.nodes import Alt, Grammar, Node
from guided.limits import Limits
from guided.matching.regions.annotated_grammar import Automaton, State, automaton_of_rules
from guided.meter import is_exhausted

__all__ = ["Search", "ambiguous"]

_MOST_STEPS: Final = 200_000  # of the core, for all pairs of alternatives together
_MOST_OF_ONE: Final = 20_000
_MOST_ALTERNATIVES: Final = 30
_MOST_COMPILED: Final = 500
_MOST_RULES: Final = 50_000  # of all compiled grammars: 500 grammars of 100 rules
_MOST_WORK: Final = 1_000_000  # of one of them, see `Limits`
_RANK: Final = [(not 97 <= byte <= 122, not 33 <= byte <= 126, byte) for byte in range(256)]
"""Letters, other characters that can be shown, and the rest."""


class Search:
    """Searches for common texts, with a bound on the work of all searches together."""

    def __init__(self, limits: Limits | None = None) -> None:
        given = limits or Limits()
        self._limits = replace(given, work=min(given.work, _MOST_WORK))
        self._remaining_steps, self._compilations, self._rules = _MOST_STEPS, 0, 0

    @property
    def is_over(self) -> bool:
        """Whether the bounds or the time are exhausted, so that the search finds nothing more."""
        return self._compilations >= _MOST_COMPILED or self._rules > _MOST_RULES or is_exhausted()

    def automaton(self, rules: Mapping[str, Node], start: str) -> Automaton | None:
        """The automaton of a grammar over bytes; None if it has none, generates nothing, or a bound is reached."""
        if self.is_over:
            return None
        needed = reached(rules, start)
        self._compilations += 1
        self._rules += len(needed)
        try:
            return automaton_of_rules(Grammar({name: rules[name] for name in needed}, start), self._limits)
        except (GuidedError, RecursionError):
            return None

    def common(self, first: Automaton, second: Automaton) -> str | None:
        """A shortest common text, or None if the search found none."""
        start = first.start, second.start
        before: dict[tuple[State, State], tuple[tuple[State, State], int] | None] = {start: None}
        todo = [start]
        most = min(self._remaining_steps, _MOST_OF_ONE)
        for pair in todo:  # grows while it is read
            if pair[0].is_accepting and pair[1].is_accepting:
                return _text(before, pair)
            both = set(_bytes(pair[0])).intersection(_bytes(pair[1]))
            most -= len(both) + 1
            self._remaining_steps -= len(both) + 1
            if most < 0 or is_exhausted():
                return None
            for byte in sorted(both, key=_RANK.__getitem__):
                one, other = first.byte(pair[0], byte), second.byte(pair[1], byte)
                if one is not None and other is not None and (one, other) not in before:
                    before[one, other] = pair, byte
                    todo.append((one, other))
        return None


def ambiguous(grammar: Grammar, limits: Limits | None = None) -> Iterator[LintFinding]:
    """Alternatives of one rule that have a text in common, with an example: this text has two readings.

    The search may miss such texts, unless the alternatives are regular and small.
    """
    search = Search(limits)
    for name in reached(grammar.rules, grammar.start):
        node = grammar.rules[name]
        if search.is_over:
            return
        if not isinstance(node, Alt) or name.startswith("terminal ") or len(node.items) > _MOST_ALTERNATIVES:
            continue
        own = {f"{name}\n{number}": item for number, item in enumerate(node.items, 1)}  # no name has a line end
        automata = [search.automaton({**grammar.rules, one: item}, one) for one, item in own.items()]
        for (number, first), (other, second) in combinations(enumerate(automata, 1), 2):
            example = None if first is None or second is None else search.common(first, second)
            if example is not None:
                message = f"its alternatives {number} and {other} have a text in common, so it has two readings"
                hint = "let one of them exclude the other; what is generated is the same in any case"
                yield LintFinding("ambiguous", grammar.origins.get(name, name), message, hint, example, False)
                break


def _bytes(state: State) -> bytes:
    matcher: _core.Matcher = state.matcher
    return matcher._next_bytes()


def _text(
    before: Mapping[tuple[State, State], tuple[tuple[State, State], int] | None], pair: tuple[State, State]
) -> str:
    out = bytearray()
    while (step := before[pair]) is not None:
        pair, byte = step
        out.append(byte)
    return bytes(reversed(out)).decode(errors="backslashreplace")
