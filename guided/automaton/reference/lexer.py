"""The reference implementation of grammars with a lexer: it lexes and parses one byte at a time.

In: a `Grammar` in whose rules `Special(name)` is a terminal, and a `Lexer`. Out: states, as in `language.py`.

Problem. A lexer decides without lookahead: the longest match wins, even if the parser cannot continue after it. While
a text is being written, the end of a lexeme is not yet known: after `<`, the next byte may make it `<=`.

A state is therefore a set of *readings*. Each reading is one way to split the text so far: the state of the parser, the
terminals that may still match the current lexeme, and the *competitors*: for each lexeme that this reading has ended,
the terminals that could still match a longer one. If a competitor matches, the lexer would not have ended the lexeme
there, and the reading is dropped.

    terminals: LESS = "<", LESS_OR_EQUAL = "<=", NAME = [a-z]+          text: a<

    reading 1   a  <...      in a lexeme that can become LESS or LESS_OR_EQUAL
    reading 2   a  <  ...    LESS has ended; competitor: LESS_OR_EQUAL, which needs "="
    next byte "=": the competitor matches, so reading 2 is dropped; reading 1 continues
    next byte "b": the competitor can no longer match, so reading 2 continues without it; reading 1 is dropped

At the start of a lexeme, a reading tries the terminals that its parser can accept, those that `Lexer.contexts` adds,
and the ignored ones. A lexer that is not contextual tries all terminals.

With indentation, a reading also has the stack of widths, the number of open brackets, and, in a lexeme that may become
a newline, the width of its last line so far. All of this is known when the lexeme ends.

Cost: a step is linear in the readings and their terminals. A breadth-first search of at most `MAX_AHEAD` states decides
whether a state can be completed. The code is deliberately slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, TypeAlias

from guided.automaton.reference.language import ALL_BYTES, MAX_AHEAD, Language
from guided.automaton.reference.language import State as ParserState
from guided.automaton.reference.regular import Run, Spelling, regular
from guided.errors import LimitExceeded, SpecError
from guided.ir.encodings import UTF8
from guided.ir.indentation import Indentation
from guided.ir.nodes import Grammar, Lexer, Node, Special, Terminal

__all__ = ["LexedLanguage", "LexedState", "Reading"]

_MAX_READINGS = 100_000  # in all states of one search; one state can have as many readings as the text has bytes

Match: TypeAlias = tuple[int, Run]
"""A terminal that may match the current lexeme: its number, and the run for the rest of its pattern."""


class LexerPosition(NamedTuple):
    """The state before the current lexeme: the parser's state, the stack of widths and the number of open brackets."""

    parser: ParserState
    widths: tuple[int, ...] = (0,)
    brackets: int = 0


class Reading(NamedTuple):
    """A reading (see the module's docstring). `has_started`: whether the current lexeme has at least one byte.

    `keywords`: (terminal, keyword, run) for each keyword that the lexeme may still spell. `width`: the width of the
    lexeme's last line so far, if the lexeme may be a newline and contains a line feed.
    """

    position: LexerPosition
    has_started: bool
    matches: tuple[Match, ...]
    keywords: tuple[tuple[int, int, Run], ...]
    competitors: frozenset[tuple[Match, ...]]
    width: int | None = None


LexedState: TypeAlias = frozenset[Reading]


class LexedLanguage:
    """The states of one grammar with a lexer. `live`: the bytes that can be written."""

    def __init__(
        self, grammar: Grammar, lexer: Lexer, live: frozenset[int] = ALL_BYTES, parser: Language | None = None
    ) -> None:
        self._parser = Language(grammar) if parser is None else parser
        self._lexer, self._live = lexer, live
        self._numbers = {terminal.name: number for number, terminal in enumerate(lexer.terminals)}
        self._spelling = Spelling(UTF8, live)
        self._runs = [self._start_run(terminal.item) for terminal in lexer.terminals]
        self._keywords = [
            [(number, self._numbers[keyword.name], self._start_run(keyword.item)) for keyword in terminal.keywords]
            for number, terminal in enumerate(lexer.terminals)
        ]
        self._newlines = frozenset(
            number
            for number, terminal in enumerate(lexer.terminals)
            if lexer.indentation is not None
            and lexer.indentation.newline in (terminal.name, *(keyword.name for keyword in terminal.keywords))
        )
        if any(run.may_stop for run in self._runs):
            raise SpecError("a terminal matches the empty text")
        self._context_marks = frozenset(mark for marks in lexer.contexts for mark in marks)
        self._completable: dict[LexedState, bool] = {}
        start = self._parser.begin
        self.initial_readings: LexedState = (
            frozenset() if start is None else frozenset({self._begin_lexeme(LexerPosition(start), frozenset())})
        )
        """The readings before the first byte."""

    @cached_property
    def start(self) -> LexedState | None:
        """The state before the first byte, or None if the language is empty."""
        return self.initial_readings if self._is_completable(self.initial_readings) else None

    def is_accepting(self, state: LexedState) -> bool:
        """Whether the text may end here. Competitors do not matter: at the end, none can match any more."""
        return any(not reading.has_started and self._may_end(reading.position) for reading in state)

    def step(self, state: LexedState, byte: int) -> LexedState | None:
        """The state after `byte`, or None if it has no completion."""
        after = self.read(state, byte)
        return after if self._is_completable(after) else None

    def read(self, state: LexedState, byte: int) -> LexedState:
        """The readings after `byte`, whether or not they can be completed."""
        if byte not in self._live:
            return frozenset()
        return frozenset(after for reading in state for after in self.read_one(reading, byte))

    def can_continue(self, state: LexedState) -> bool:
        """Whether the current lexeme can end as a terminal that is allowed here. If not, no output begins like this.

        If it can, there may still be no completion; `step` searches for one.
        """
        return any(not reading.has_started or any(self._allowed_endings(reading)) for reading in state)

    def accepts(self, data: bytes) -> bool:
        """Whether `data` is in the language."""
        state = self.initial_readings
        for byte in data:
            state = self.read(state, byte)
        return self.is_accepting(state)

    def run_of(self, terminal: int) -> Run:
        """The initial run of a terminal."""
        return self._runs[terminal]

    # ---- stepping

    def _start_run(self, item: Node) -> Run:
        return self._spelling.run(regular(item, {}))

    def read_one(self, reading: Reading, byte: int) -> list[Reading]:
        """The readings after `byte`: the lexeme ends with it, or continues."""
        competitors = set()
        for competitor in reading.competitors:
            matches = _advance(competitor, byte)
            if _matching_terminal(matches) is not None:
                return []
            if matches := _unfinished_matches(matches):
                competitors.add(matches)
        matches = _advance(reading.matches, byte)
        keywords = tuple(
            (terminal, name, after) for terminal, name, run in reading.keywords for after in run.step(byte)
        )
        width = self._line_width(reading.width, matches, byte)
        out = []
        winner = _matching_terminal(matches)
        if winner is not None:
            position = self._after_lexeme(reading.position, winner, self._name_lexeme(winner, keywords), width)
            unfinished = _unfinished_matches(matches)
            if position is not None:
                out.append(
                    self._begin_lexeme(position, frozenset(competitors | {unfinished} if unfinished else competitors))
                )
        if matches := _unfinished_matches(matches):
            out.append(Reading(reading.position, True, matches, keywords, frozenset(competitors), width))
        return out

    def _name_lexeme(self, winner: int, keywords: tuple[tuple[int, int, Run], ...]) -> str:
        """The name of the lexeme: a keyword of the terminal that matched, or that terminal.

        A lexeme of an ignored terminal is ignored even if it is a keyword. A lexeme of any other terminal is never
        ignored: it becomes its keyword even if the keyword is an ignored terminal, which the parser may then reject.
        """
        name = self._lexer.terminals[winner].name
        if name not in self._lexer.ignored:
            for terminal, keyword, run in keywords:
                if terminal == winner and run.may_stop:
                    return self._lexer.terminals[keyword].name
        return name

    def _after_lexeme(self, position: LexerPosition, winner: int, name: str, width: int | None) -> LexerPosition | None:
        """The position after a lexeme that `winner` matched and that is called `name`, or None if it is not allowed."""
        if self._lexer.terminals[winner].name in self._lexer.ignored:
            return position
        indentation, brackets = self._lexer.indentation, position.brackets
        if indentation is None:
            return self._shift(position, name)
        if name != indentation.newline:
            after = self._shift(position, name)
        elif brackets:
            after = position
        else:
            after = self._begin_line(position, indentation, width)
        if after is not None and name in indentation.opening:
            return after._replace(brackets=brackets + 1)
        if after is not None and name in indentation.closing:
            return after._replace(brackets=brackets - 1) if brackets else None
        return after

    def _allowed_endings(self, reading: Reading) -> Iterator[bool]:
        """For each terminal that the current lexeme may still become, whether it is allowed here."""
        keywords = [(terminal, self._lexer.terminals[keyword].name) for terminal, keyword, _ in reading.keywords]
        for number, _ in reading.matches:
            names = [self._lexer.terminals[number].name, *(name for terminal, name in keywords if terminal == number)]
            for name in names:  # the width of the last line is not known yet
                yield number in self._newlines or self._after_lexeme(reading.position, number, name, None) is not None

    def _shift(self, position: LexerPosition, name: str) -> LexerPosition | None:
        parser = self._parser.special(position.parser, {name})
        return None if parser is None else position._replace(parser=parser)

    def _begin_lexeme(self, position: LexerPosition, competitors: frozenset[tuple[Match, ...]]) -> Reading:
        """The reading at the start of a new lexeme."""
        candidates = self._find_candidates(position.parser) | self._lexer.ignored
        if self._lexer.indentation is not None:
            candidates |= {self._lexer.indentation.newline}
        candidate_numbers = {number for name, number in self._numbers.items() if name in candidates}
        embedded = {
            self._numbers[name]
            for number in candidate_numbers
            for name in _embedded_keywords(self._lexer.terminals[number])
        }
        matches = [(number, self._runs[number]) for number in sorted(candidate_numbers - embedded)]
        keywords = [
            entry
            for number in sorted(candidate_numbers)
            for entry in self._keywords[number]
            if entry[1] in candidate_numbers
        ]
        return Reading(position, False, tuple(matches), tuple(keywords), competitors)

    def _find_candidates(self, parser: ParserState) -> frozenset[str]:
        """The terminals that the parser can accept, and those that `Lexer.contexts` adds for the marks that it accepts.

        If the set of these marks is not a key of `contexts`, the largest keys that are subsets of it apply.
        """
        if not self._lexer.contextual:
            return frozenset(self._numbers)
        accepted = frozenset(str(rest[0].token) for rest, _, _ in parser.items if isinstance(rest[0], Special))
        contexts, marks = self._lexer.contexts, accepted & self._context_marks
        keys = [marks] if marks in contexts else [key for key in contexts if key <= marks]
        largest_keys = [key for key in keys if not any(key < other for other in keys)]
        return accepted.union(*(contexts[key] for key in largest_keys))

    # ---- indentation

    def _line_width(self, width: int | None, matches: tuple[Match, ...], byte: int) -> int | None:
        """The width of the lexeme's last line after `byte`."""
        if self._lexer.indentation is None or not any(number in self._newlines for number, _ in matches):
            return None
        if byte == ord("\n"):
            return 0
        columns = {ord(" "): 1, ord("\t"): self._lexer.indentation.tab}
        too_wide = self._lexer.indentation.most_width + 1
        return None if width is None else min(width + columns.get(byte, 0), too_wide)

    def _begin_line(self, position: LexerPosition, indentation: Indentation, width: int | None) -> LexerPosition | None:
        """The position after a newline and the indentation or dedentations that follow, or None if not allowed."""
        after = self._shift(position, indentation.newline)
        if after is None or width is None:
            return None
        if width > position.widths[-1]:
            if width > indentation.most_width or len(position.widths) >= indentation.most_levels:
                return None
            return self._shift(after._replace(widths=(*position.widths, width)), indentation.indent)
        while after is not None and width < after.widths[-1]:
            after = self._shift(after._replace(widths=after.widths[:-1]), indentation.dedent)
        return after if after is not None and width == after.widths[-1] else None

    def _may_end(self, position: LexerPosition) -> bool:
        """Whether the text may end here, after a dedentation for each width on the stack except the first."""
        after: LexerPosition | None = position
        for _ in position.widths[1:]:
            if after is not None and self._lexer.indentation is not None:
                after = self._shift(after, self._lexer.indentation.dedent)
        return after is not None and after.parser.is_accepting

    # ---- completions

    def _is_completable(self, start: LexedState) -> bool:
        if start not in self._completable:
            predecessors: dict[LexedState, LexedState | None] = {start: None}
            todo, completable, reading_count = [start], None, 0
            for state in todo:
                if self.is_accepting(state) or self._completable.get(state, False):
                    completable = state
                    break
                for byte in self._live:
                    after = self.read(state, byte)
                    if after and after not in predecessors and self._completable.get(after, True):
                        predecessors[after] = state
                        todo.append(after)
                        reading_count += len(after)
                for amount, limit in ((len(predecessors), MAX_AHEAD), (reading_count, _MAX_READINGS)):
                    if amount > limit:
                        raise LimitExceeded("states", amount, limit, fixed=True)
            if completable is None:
                self._completable.update(dict.fromkeys(predecessors, False))
            while completable is not None:
                self._completable[completable], completable = True, predecessors[completable]
        return self._completable[start]


def _advance(matches: tuple[Match, ...], byte: int) -> tuple[Match, ...]:
    """The matches after `byte`, up to the first terminal that matches here: later terminals can no longer win."""
    out: list[Match] = []
    for terminal, run in matches:
        after = [(terminal, next_run) for next_run in run.step(byte)]
        out += after
        if any(next_run.may_stop for _, next_run in after):
            break
    return tuple(out)


def _matching_terminal(matches: tuple[Match, ...]) -> int | None:
    """The terminal that matches here, or None."""
    return next((terminal for terminal, run in matches if run.may_stop), None)


def _unfinished_matches(matches: tuple[Match, ...]) -> tuple[Match, ...]:
    """The terminals that may still match a longer lexeme."""
    return tuple(match for match in matches if match[1].can_continue)


def _embedded_keywords(terminal: Terminal) -> list[str]:
    """The keywords of a terminal that are not also tried as separate terminals."""
    return [keyword.name for keyword in terminal.keywords if keyword.embedded]
