"""Splits a text into lexemes, as a grammar's lexer does. In: a stream of bytes, and the candidate terminals. Out: the
terminal of each lexeme.

How: `guided.ir.Lexer` defines the terminal of a lexeme. A lexeme has ended once no candidate terminal can match more
text, so the last lexeme of a text is pending. Its state is stored, so each byte is read once. Only bytes that a
terminal has read beyond the longest match are read again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from guided.automaton.build_lexer import ids_of_terminals
from guided.ir.nodes import Lexer
from guided.limits import Limits
from guided.matching.regions.annotated_grammar import Automaton, State, automaton_of

__all__ = ["LexemeReader", "PendingLexeme"]


@dataclass(frozen=True, slots=True)
class PendingLexeme:
    """A pending lexeme.

    Attributes:
        start: the offset at which it begins.
        read: the offset up to which it was read.
        candidates: the terminals that the lexer tries, and the marks of its context.
        matches: the terminals that may match more text, in order of priority, each with its state.
        winner, end: the terminal with the longest match so far, or -1, and the end of that match.
    """

    start: int
    read: int
    candidates: frozenset[int]
    matches: tuple[tuple[int, State], ...]
    winner: int = -1
    end: int = -1


class LexemeReader:
    """The lexer of a grammar. Not thread-safe."""

    def __init__(self, lexer: Lexer, limits: Limits) -> None:
        self._lexer, self._limits = lexer, limits
        self._ids = ids_of_terminals(lexer)
        self._automata: dict[tuple[int, int], Automaton] = {}
        self._ignored_terminals = frozenset(self._ids[name] for name in lexer.ignored)
        ids = self._ids
        self._contexts = {
            frozenset(ids[mark] for mark in marks): frozenset(ids[name] for name in names if name in ids)
            for marks, names in lexer.contexts.items()
        }
        self._marks = frozenset().union(*self._contexts)

    def is_ignored(self, pending: PendingLexeme) -> bool:
        """Whether a finished lexeme is ignored by the rules."""
        return pending.winner in self._ignored_terminals

    def may_be(self, numbers: Collection[int], allowed_terminals: Collection[int]) -> bool:
        """Whether a pending lexeme may become one of the terminals that the rules allow, or be ignored."""
        all_terminals = self._lexer.terminals
        keyword_ids = {
            self._ids[keyword.name] for number in numbers if number >= 0 for keyword in all_terminals[number].keywords
        }
        return not self._ignored_terminals.isdisjoint(numbers) or not (keyword_ids | set(numbers)).isdisjoint(
            allowed_terminals
        )

    def begin(self, start: int, allowed_terminals: Collection[int]) -> PendingLexeme:
        """Begin a lexeme at an offset at which the rules allow these terminals and marks."""
        candidates = frozenset(allowed_terminals)
        if not self._lexer.contextual:
            candidates = frozenset(range(len(self._lexer.terminals)))
        candidates = self._contexts.get(candidates & self._marks, candidates) | self._ignored_terminals
        tried_terminals = [(number, self._lexer.terminals[number]) for number in sorted(candidates - self._marks)]
        embedded_keywords = {
            self._ids[keyword.name]
            for _, terminal in tried_terminals
            for keyword in terminal.keywords
            if keyword.embedded
        }
        matches = [
            (number, self._automaton(number).start) for number, _ in tried_terminals if number not in embedded_keywords
        ]
        return PendingLexeme(start, start, candidates, tuple(matches))

    def read(self, pending: PendingLexeme, text: bytes | bytearray, end: int) -> PendingLexeme:
        """Return the lexeme after more of the text; it has ended if it has no `matches` left."""
        matches, winner, match_end = pending.matches, pending.winner, pending.end
        pos = pending.read
        while pos < end and matches:
            next_matches = []
            for number, state in matches:
                next_state = self._automaton(number).read_byte(state, text[pos])
                if next_state is None:
                    continue
                next_matches.append((number, next_state))
                if next_state.is_accepting:  # terminals after the first match cannot win any more
                    winner, match_end = number, pos + 1
                    break
            matches = tuple(next_matches)
            pos += 1
        return replace(
            pending, read=pos, matches=tuple(each for each in matches if each[1].can_read), winner=winner, end=match_end
        )

    def find_terminal(self, pending: PendingLexeme, text: bytes | bytearray) -> int:
        """The terminal of a finished lexeme, or the keyword that it equals."""
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
