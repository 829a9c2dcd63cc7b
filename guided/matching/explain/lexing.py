"""Explains how a grammar's lexer has split a text into lexemes, and the position in the rules.

In: a grammar with a lexer, and the accepted output. Out: a `Lexing`: the pending lexeme, the terminals that may match
it or begin here, the positions in the rules, and the longest match if it is the reason for a refusal.

    start: IF NAME      IF: "if"      NAME: /[a-z]+/      %ignore " "
    after  if x         the lexeme 'x' may be NAME; in start, after IF

How: the reference implementation of the lexer (`automaton/reference/lexer.py`) follows the readings, each with
the offsets of its lexemes. Its parser knows its positions (see `positions.py`, also for the cost). It also follows
readings that a longer match excludes. If one of them accepts the refused text, the longest match is the reason for the
refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from guided.automaton.reference.language import ALL_BYTES
from guided.automaton.reference.lexer import LexedLanguage, Reading
from guided.errors import GuidedError
from guided.ir.nodes import Grammar
from guided.matching.explain.characters import join_with_or
from guided.matching.explain.format_grammar import Names
from guided.matching.explain.positions import MAX_SYMBOLS, SECONDS, Position, label_rules
from guided.meter import limit_work

__all__ = ["LabelledLexer", "Lexing", "explain_lexing"]

_MAX_EXCLUDED: Final = 100


class Lexing(NamedTuple):
    """How a text was split into lexemes.

    Attributes:
        lexeme: the text of the pending lexeme; empty between lexemes and in an ignored lexeme. If there are several
            ways to split the text, the longest pending lexeme.
        may_be: the terminals that it is or may become, by the author's names.
        following: the terminals that may begin here, without ignored ones.
        positions: the positions in the rules.
        refusal: the reason if the longest match refuses the next text; otherwise empty.
    """

    lexeme: str = ""
    may_be: tuple[str, ...] = ()
    following: tuple[str, ...] = ()
    positions: tuple[Position, ...] = ()
    refusal: str = ""

    def __str__(self) -> str:
        phrases = [f"the lexeme {self.lexeme!r} may be {join_with_or(list(self.may_be))}"] if self.lexeme else []
        phrases += [f"{join_with_or(list(self.following))} may follow"] if self.following else []
        return "; ".join(filter(None, [", and ".join(phrases), self.refusal]))


_Starts = dict[Reading, tuple[int, ...]]
"""Reading -> the offsets at which its lexemes begin. The last offset is for the current or the next lexeme."""
_Excluded = dict[Reading, str]
"""Reading that a longer match excludes -> this match, in words. Such readings are followed for explanations only."""


def explain_lexing(lexer: LabelledLexer, symbols: Sequence[int], refused_bytes: bytes = b"") -> Lexing:
    """See the module docstring. `symbols`: the output so far. `refused_bytes`: the next text, up to the refused
    byte.
    """
    if len(symbols) > MAX_SYMBOLS or any(symbol > 255 for symbol in symbols):
        return Lexing()
    try:
        with limit_work(SECONDS):
            return lexer.explain(bytes(symbols), refused_bytes)
    except (GuidedError, RecursionError):  # beyond the reference implementation
        return Lexing()


class LabelledLexer:
    """A grammar with a lexer, whose parser knows its positions.

    Raises:
        LimitExceeded: the grammar has too many parts.
    """

    def __init__(self, grammar: Grammar) -> None:
        assert grammar.lexer is not None
        self.lexer, self.names = grammar.lexer, Names(grammar)
        self.parser = label_rules(grammar, "lark")
        self.language = LexedLanguage(grammar, grammar.lexer, ALL_BYTES, self.parser)

    def explain(self, text: bytes, refused_bytes: bytes) -> Lexing:
        """How `text` was split, and why `refused_bytes` may not follow."""
        readings: _Starts = dict.fromkeys(self.language.initial_readings, (0,))
        excluded: _Excluded = {}
        for index, byte in enumerate(text):
            excluded = self._advance_excluded(readings, excluded, text[: index + 1])
            readings = self._advance(readings, byte, index + 1)
        in_lexeme = {reading: starts for reading, starts in readings.items() if reading.has_started}
        in_named_lexeme = {
            reading: starts
            for reading, starts in in_lexeme.items()
            if self._terminal_names(self._current_terminals(reading))
        }
        lexeme_start = min((starts[-1] for starts in in_named_lexeme.values()), default=len(text))
        longest_readings = [reading for reading, starts in in_named_lexeme.items() if starts[-1] == lexeme_start]
        positions: dict[Position, None] = {}
        for reading in readings:
            positions |= dict.fromkeys(self.parser.positions(reading.position.parser, False))
        return Lexing(
            text[lexeme_start:].decode(errors="replace"),
            self._terminal_names(number for reading in longest_readings for number in self._current_terminals(reading)),
            self._terminal_names(
                number for reading in readings if not reading.has_started for number in self._current_terminals(reading)
            ),
            tuple(positions),
            self._describe_refusal(readings, excluded, text, refused_bytes),
        )

    def _advance(self, readings: _Starts, byte: int, offset: int) -> _Starts:
        out: _Starts = {}
        for reading, starts in readings.items():
            for next_reading in self.language.read_one(reading, byte):
                out.setdefault(next_reading, starts if next_reading.has_started else (*starts, offset))
        return out

    def _advance_excluded(self, readings: _Starts, excluded: _Excluded, text: bytes) -> _Excluded:
        """The excluded readings after the last byte of `text`."""
        out: _Excluded = {}
        for reading, starts in readings.items():
            if reason := self._describe_longer_match(reading, starts, text):
                for next_reading in self.language.read_one(reading._replace(competitors=frozenset()), text[-1]):
                    out[next_reading._replace(competitors=frozenset())] = reason
        for reading, reason in list(excluded.items())[:_MAX_EXCLUDED]:
            for next_reading in self.language.read_one(reading, text[-1]):
                out.setdefault(next_reading._replace(competitors=frozenset()), reason)
        return out

    def _describe_refusal(self, readings: _Starts, excluded: _Excluded, text: bytes, refused_bytes: bytes) -> str:
        """Describe the longer match without which `refused_bytes` could follow; empty if there is none."""
        for length, byte in enumerate(refused_bytes, 1):
            longer_text = text + refused_bytes[:length]
            excluded = self._advance_excluded(readings, excluded, longer_text)
            readings = self._advance(readings, byte, len(longer_text))
        return next(reversed(excluded.values()), "") if refused_bytes else ""

    def _describe_longer_match(self, reading: Reading, starts: tuple[int, ...], text: bytes) -> str:
        """Describe the competitor whose match ends with the last byte of `text`; empty if there is none."""
        for competitor in reading.competitors:
            for number, run in competitor:
                if any(next_run.may_stop for next_run in run.step(text[-1])):
                    lexeme = next(
                        (text[start:] for start in reversed(starts[:-1]) if self._matches(number, text[start:])), b""
                    )
                    name = self.names.terminals[self.lexer.terminals[number].name]
                    lexeme_text = lexeme.decode(errors="replace")
                    return f"the lexer takes the longest match, and {lexeme_text!r} is one {name}"
        return ""

    def _matches(self, number: int, text: bytes) -> bool:
        runs = [self.language.run_of(number)]
        for byte in text:
            runs = [next_run for run in runs for next_run in run.step(byte)]
        return bool(text) and any(run.may_stop for run in runs)

    def _current_terminals(self, reading: Reading) -> list[int]:
        return [*(number for number, _ in reading.matches), *(number for _, number, _ in reading.keywords)]

    def _terminal_names(self, numbers: Iterable[int]) -> tuple[str, ...]:
        terminals = [self.lexer.terminals[number].name for number in sorted(set(numbers))]
        return tuple(dict.fromkeys(self.names.terminals[name] for name in terminals if name not in self.lexer.ignored))
