"""Explains how a grammar's lexer has split a text into lexemes, and the position in the rules.

In: a grammar with a lexer, and the accepted output. Out: a `Lexing`: the pending lexeme, the terminals that may match
it or begin here, the positions in the rules, and the longest match that refuses a byte.

    start: IF NAME      IF: "if"      NAME: /[a-z]+/      %ignore " "
    after  if x         the lexeme 'x' may be NAME; in start, after IF

How: the reference implementation of the lexer (`automaton/reference/lexer.py`) follows the readings, each with the
offsets of its lexemes, over a parser that knows its positions (see `positions.py`, also for the cost). It also follows
readings that a longer match excludes: if one of them accepts the refused text, the longest match is the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from guided.automaton.reference.language import ALL_BYTES
from guided.automaton.reference.lexer import LexedLanguage, Tokenization
from guided.errors import GuidedError
from guided.ir.nodes import Grammar
from guided.matching.explain.characters import join_with_or
from guided.matching.explain.notation import Names
from guided.matching.explain.positions import MAX_SYMBOLS, SECONDS, Position, label_rules
from guided.meter import limit_work

__all__ = ["LabelledLexer", "Lexing", "explain_lexing"]

_MAX_EXCLUDED: Final = 100


class Lexing(NamedTuple):
    """How a text was split into lexemes.

    Attributes:
        lexeme: the text of the pending lexeme; empty between lexemes, and in an ignored one. If there are several ways
            to split the text, the longest.
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
        parts = [f"the lexeme {self.lexeme!r} may be {join_with_or(list(self.may_be))}"] if self.lexeme else []
        parts += [f"{join_with_or(list(self.following))} may follow"] if self.following else []
        return "; ".join(filter(None, [", and ".join(parts), self.refusal]))


_Starts = dict[Tokenization, tuple[int, ...]]
"""Reading -> the offsets at which its lexemes begin. The last offset is for the current or the next lexeme."""
_Excluded = dict[Tokenization, str]
"""A reading that a longer match excludes, and that is continued all the same -> this match, in words."""


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
        readings: _Starts = dict.fromkeys(self.language.first, (0,))
        excluded: _Excluded = {}
        for at, byte in enumerate(text):
            excluded = self._excluded_after(readings, excluded, text[: at + 1])
            readings = self._after(readings, byte, at + 1)
        inside = {it: begins for it, begins in readings.items() if it.has_started}
        started = {it: begins for it, begins in inside.items() if self._names(self._current_terminals(it))}
        begin = min((begins[-1] for begins in started.values()), default=len(text))
        longest = [reading for reading, begins in started.items() if begins[-1] == begin]
        positions: dict[Position, None] = {}
        for reading in readings:
            positions |= dict.fromkeys(self.parser.positions(reading.position.parser, False))
        return Lexing(
            text[begin:].decode(errors="replace"),
            self._names(number for reading in longest for number in self._current_terminals(reading)),
            self._names(number for it in readings if not it.has_started for number in self._current_terminals(it)),
            tuple(positions),
            self._refusal(readings, excluded, text, refused_bytes),
        )

    def _after(self, readings: _Starts, byte: int, at: int) -> _Starts:
        out: _Starts = {}
        for reading, begins in readings.items():
            for after in self.language.read_one(reading, byte):
                out.setdefault(after, begins if after.has_started else (*begins, at))
        return out

    def _excluded_after(self, readings: _Starts, excluded: _Excluded, text: bytes) -> _Excluded:
        """The excluded readings after the last byte of `text`."""
        out: _Excluded = {}
        for reading, begins in readings.items():
            if reason := self._longer_match(reading, begins, text):
                for after in self.language.read_one(reading._replace(competitors=frozenset()), text[-1]):
                    out[after._replace(competitors=frozenset())] = reason
        for reading, reason in list(excluded.items())[:_MAX_EXCLUDED]:
            for after in self.language.read_one(reading, text[-1]):
                out.setdefault(after._replace(competitors=frozenset()), reason)
        return out

    def _refusal(self, readings: _Starts, excluded: _Excluded, text: bytes, refused_bytes: bytes) -> str:
        """The longer match, in words, without which `refused_bytes` could follow; empty if there is none."""
        for at, byte in enumerate(refused_bytes, 1):
            whole = text + refused_bytes[:at]
            excluded = self._excluded_after(readings, excluded, whole)
            readings = self._after(readings, byte, len(whole))
        return next(reversed(excluded.values()), "") if refused_bytes else ""

    def _longer_match(self, reading: Tokenization, begins: tuple[int, ...], text: bytes) -> str:
        """The competitor that matches with the last byte of a text, in words; empty if none does."""
        for competitor in reading.competitors:
            for number, run in competitor:
                if any(next_run.may_stop for next_run in run.after(text[-1])):
                    lexeme = next((text[at:] for at in reversed(begins[:-1]) if self._matches(number, text[at:])), b"")
                    name = self.names.terminals[self.lexer.terminals[number].name]
                    lexeme_text = lexeme.decode(errors="replace")
                    return f"the lexer takes the longest match, and {lexeme_text!r} is one {name}"
        return ""

    def _matches(self, number: int, text: bytes) -> bool:
        runs = [self.language.run_of(number)]
        for byte in text:
            runs = [after for run in runs for after in run.after(byte)]
        return bool(text) and any(run.may_stop for run in runs)

    def _current_terminals(self, reading: Tokenization) -> list[int]:
        return [*(number for number, _ in reading.matches), *(number for _, number, _ in reading.keywords)]

    def _names(self, numbers: Iterable[int]) -> tuple[str, ...]:
        terminals = [self.lexer.terminals[number].name for number in sorted(set(numbers))]
        return tuple(dict.fromkeys(self.names.terminals[name] for name in terminals if name not in self.lexer.ignored))
