"""Splits a text into lexemes, as a grammar's lexer does. In: a stream of bytes, and the terminals to try. Out: the
terminal of each lexeme.

How: `guided.ir.Lexer` defines the terminal of a lexeme. A lexeme has ended once no tried terminal can match more, so
the last one of a text is pending. Its state is stored, so each byte is read once. Only bytes that a terminal reads in
vain after the longest match are read again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from guided.automaton.build_lexer import ids_of_terminals
from guided.ir.nodes import Lexer
from guided.limits import Limits
from guided.matching.regions.annotated_grammar import Automaton, State, automaton_of

__all__ = ["Lexemes", "PendingLexeme"]


@dataclass(frozen=True, slots=True)
class PendingLexeme:
    """A pending lexeme.

    Attributes:
        start: the offset at which it begins.
        read: the offset up to which it was read.
        candidates: the terminals that the lexer tries, and marks.
        matches: the terminals that may match more, in order, and their states.
        winner, end: the terminal with the longest match so far, or -1, and the end of that match.
    """

    start: int
    read: int
    candidates: frozenset[int]
    matches: tuple[tuple[int, State], ...]
    winner: int = -1
    end: int = -1


class Lexemes:
    """The lexer of a grammar. Not thread-safe."""

    def __init__(self, lexer: Lexer, limits: Limits) -> None:
        self._lexer, self._limits = lexer, limits
        self._ids = ids_of_terminals(lexer)
        self._automata: dict[tuple[int, int], Automaton] = {}
        self._ignored = frozenset(self._ids[name] for name in lexer.ignored)
        ids = self._ids
        self._contexts = {
            frozenset(ids[mark] for mark in marks): frozenset(ids[name] for name in names if name in ids)
            for marks, names in lexer.contexts.items()
        }
        self._marks = frozenset().union(*self._contexts)

    def is_ignored(self, pending: PendingLexeme) -> bool:
        """Whether a finished lexeme is ignored by the rules."""
        return pending.winner in self._ignored

    def may_be(self, numbers: Collection[int], allowed: Collection[int]) -> bool:
        """Whether a pending lexeme may become one of the terminals that the rules allow, or be ignored."""
        all_terminals = self._lexer.terminals
        names = {self._ids[each.name] for number in numbers if number >= 0 for each in all_terminals[number].keywords}
        return not self._ignored.isdisjoint(numbers) or not (names | set(numbers)).isdisjoint(allowed)

    def begin(self, start: int, allowed: Collection[int]) -> PendingLexeme:
        """A new lexeme at a position where the rules allow these terminals and marks."""
        candidates = frozenset(allowed)
        if not self._lexer.contextual:
            candidates = frozenset(range(len(self._lexer.terminals)))
        candidates = self._contexts.get(candidates & self._marks, candidates) | self._ignored
        tried_here = [(number, self._lexer.terminals[number]) for number in sorted(candidates - self._marks)]
        embedded = {self._ids[each.name] for _, it in tried_here for each in it.keywords if each.embedded}
        matches = [(number, self._automaton(number).start) for number, _ in tried_here if number not in embedded]
        return PendingLexeme(start, start, candidates, tuple(matches))

    def read(self, pending: PendingLexeme, text: bytes | bytearray, end: int) -> PendingLexeme:
        """The lexeme after more of the text; it has ended if it has no `matches` left."""
        matches, winner, last = pending.matches, pending.winner, pending.end
        at = pending.read
        while at < end and matches:
            after = []
            for number, state in matches:
                next_run = self._automaton(number).byte(state, text[at])
                if next_run is None:
                    continue
                after.append((number, next_run))
                if next_run.is_accepting:  # terminals after the first match cannot win any more
                    winner, last = number, at + 1
                    break
            matches = tuple(after)
            at += 1
        return replace(
            pending, read=at, matches=tuple(each for each in matches if each[1].can_read), winner=winner, end=last
        )

    def terminal(self, pending: PendingLexeme, text: bytes | bytearray) -> int:
        """The terminal of a finished lexeme, or its keyword."""
        for number, keyword in enumerate(self._lexer.terminals[pending.winner].keywords):
            if self._ids[keyword.name] in pending.candidates:
                automaton = self._automaton(pending.winner, number)
                if automaton.accepts(bytes(text[pending.start : pending.end])):
                    return self._ids[keyword.name]
        return pending.winner

    def _automaton(self, number: int, keyword: int = -1) -> Automaton:
        key = number, keyword
        if key not in self._automata:
            terminal = self._lexer.terminals[number]
            item = terminal.item if keyword < 0 else terminal.keywords[keyword].item
            self._automata[key] = automaton_of(item, self._limits)
        return self._automata[key]
