"""Finds a shortest text that two grammars have in common. In: two grammars without a lexer. Out: a text, or None.

How: both are compiled over bytes, and pairs of their states are searched, breadth first, as for the intersection of two
finite automata (Hopcroft and Ullman 1979, section 3.2). A grammar that is not regular has infinitely many states, so
the search gives up after a number of steps, without a result. The problem is undecidable in general.

The search tries lowercase letters first, so examples are readable.

Cost: two steps of the core for each byte that both states of a pair allow. The number of compiled grammars, their total
rules, and the work for each are bounded. The search also ends when the caller's meter is exhausted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Final

from guided.automaton import _core
from guided.errors import GuidedError
from guided.frontends.common.lint_finding import LintFinding
from guided.frontends.common.rule_lint import reachable_rules
from guided.ir.nodes import Alt, Grammar, Node
from guided.limits import Limits
from guided.matching.regions.annotated_grammar import Automaton, State, automaton_of_rules
from guided.meter import is_exhausted

__all__ = ["Search", "find_ambiguous_alternatives"]

_MAX_STEPS: Final = 200_000  # steps of the core in all searches together
_MAX_STEPS_PER_PAIR: Final = 20_000
_MAX_ALTERNATIVES: Final = 30
_MAX_COMPILED: Final = 500
_MAX_RULES: Final = 50_000  # in all compiled grammars together: 500 grammars of 100 rules
_MAX_WORK: Final = 1_000_000  # to compile one grammar, see `Limits`
_BYTE_ORDER: Final = [(not 97 <= byte <= 122, not 33 <= byte <= 126, byte) for byte in range(256)]
"""Sort key of each byte: lowercase letters first, then other printable ASCII, then the rest."""


class Search:
    """Searches for common texts, with a bound on the work of all searches together."""

    def __init__(self, limits: Limits | None = None) -> None:
        full_limits = limits or Limits()
        self._limits = replace(full_limits, work=min(full_limits.work, _MAX_WORK))
        self._remaining_steps, self._compilations, self._rule_count = _MAX_STEPS, 0, 0

    @property
    def is_done(self) -> bool:
        """Whether a bound or the time limit is reached, so the search finds nothing more."""
        return self._compilations >= _MAX_COMPILED or self._rule_count > _MAX_RULES or is_exhausted()

    def automaton(self, rules: Mapping[str, Node], start: str) -> Automaton | None:
        """The byte automaton of the rules from `start`; None if they cannot be compiled or a bound is reached."""
        if self.is_done:
            return None
        names = reachable_rules(rules, start)
        self._compilations += 1
        self._rule_count += len(names)
        try:
            return automaton_of_rules(Grammar({name: rules[name] for name in names}, start), self._limits)
        except (GuidedError, RecursionError):
            return None

    def find_common_text(self, first: Automaton, second: Automaton) -> str | None:
        """Return a shortest common text, or None if the search finds none."""
        start = first.start, second.start
        predecessors: dict[tuple[State, State], tuple[tuple[State, State], int] | None] = {start: None}
        queue = [start]
        steps_left = min(self._remaining_steps, _MAX_STEPS_PER_PAIR)
        for pair in queue:  # grows during the loop
            if pair[0].is_accepting and pair[1].is_accepting:
                return _trace_text(predecessors, pair)
            common_bytes = set(_possible_bytes(pair[0])).intersection(_possible_bytes(pair[1]))
            steps_left -= len(common_bytes) + 1
            self._remaining_steps -= len(common_bytes) + 1
            if steps_left < 0 or is_exhausted():
                return None
            for byte in sorted(common_bytes, key=_BYTE_ORDER.__getitem__):
                first_state, second_state = first.read_byte(pair[0], byte), second.read_byte(pair[1], byte)
                if (
                    first_state is not None
                    and second_state is not None
                    and (first_state, second_state) not in predecessors
                ):
                    predecessors[first_state, second_state] = pair, byte
                    queue.append((first_state, second_state))
        return None


def find_ambiguous_alternatives(grammar: Grammar, limits: Limits | None = None) -> Iterator[LintFinding]:
    """Yield a finding for each rule with two alternatives that match a common text, with this text as the example.

    The text has two parses. The search may miss such texts, unless the alternatives are regular and small.
    """
    search = Search(limits)
    for name in reachable_rules(grammar.rules, grammar.start):
        node = grammar.rules[name]
        if search.is_done:
            return
        if not isinstance(node, Alt) or name.startswith("terminal ") or len(node.items) > _MAX_ALTERNATIVES:
            continue
        # The new names are unused: no rule name contains a newline.
        alternatives = {f"{name}\n{number}": item for number, item in enumerate(node.items, 1)}
        automata = [search.automaton({**grammar.rules, name: item}, name) for name, item in alternatives.items()]
        for (number, first), (other_number, second) in combinations(enumerate(automata, 1), 2):
            example = None if first is None or second is None else search.find_common_text(first, second)
            if example is not None:
                message = (
                    f"its alternatives {number} and {other_number} both match the example, so this text has two parses"
                )
                hint = "make the alternatives disjoint; this does not change which texts can be generated"
                yield LintFinding("ambiguous", grammar.origins.get(name, name), message, hint, example, False)
                break


def _possible_bytes(state: State) -> bytes:
    matcher: _core.Matcher = state.matcher
    return matcher._next_bytes()


def _trace_text(
    predecessors: Mapping[tuple[State, State], tuple[tuple[State, State], int] | None], pair: tuple[State, State]
) -> str:
    out = bytearray()
    while (step := predecessors[pair]) is not None:
        pair, byte = step
        out.append(byte)
    return bytes(reversed(out)).decode(errors="backslashreplace")
