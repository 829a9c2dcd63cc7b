"""Finds the regions of an output: captures, and the temperature. In: a grammar with marks (`annotated_grammar.py`), and
an output, step by step. Out: the marks of one parse of it.

A text may have many parses. The preferred one is found from left to right: a region begins as early and ends as late as
possible, as long as the rest can be parsed. So in `name rest`, both `/[a-z]+/`, all letters except the last belong to
the name.

How: threads, as in Pike's virtual machine for regular expressions, over states of the core instead of positions in a
program. A thread is a state, and the marks that led to it. At each byte all threads make a step. If two reach the same
state, only the preferred one survives, since their continuations are the same. Threads are ordered, the preferred
first, by the order of `AnnotatedGrammar.entries`. Source: Rob Pike's sam, as described in Russ Cox, "Regular Expression
Matching: the Virtual Machine Approach" (2009).

Cost: for each byte, a lookup for each thread; there is one thread per possible state of the text, and at most
`_MAX_THREADS`. The matcher stores a
snapshot after each step, so each part of an output is read once, also while it streams and after a rollback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from guided.errors import LimitExceeded
from guided.ir.nodes import Region
from guided.matching.explain.lexemes import Lexemes, PendingLexeme
from guided.matching.regions.annotated_grammar import AnnotatedGrammar, State

__all__ = ["Capture", "ParsePaths", "Past", "Snapshot", "enter_marks"]

Past: TypeAlias = tuple[int, int, "Past"] | None
"""The marks of a thread, the last one first: (its position in the text, its token, the marks before it)."""
Thread: TypeAlias = tuple[State, Past]
_IGNORED_BEGINS, _IGNORED_ENDS = -2, -1  # marks of ignored lexemes
_MAX_THREADS = 4_000  # a byte takes about 20 us for each


@dataclass(frozen=True, slots=True)
class Capture:
    """A captured text. `complete`: it has ended. `start`, `end` and `rule_end` are byte offsets in the output.
    `rule_end` is the end of the rule, after its `ending`."""

    name: str
    start: int
    end: int
    rule_end: int
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a parse after a part of the output."""

    threads: tuple[Thread, ...]
    pending: PendingLexeme | None = None


class ParsePaths:
    """Parses the steps of one output. Outputs of one grammar share its automata."""

    def __init__(self, annotated: AnnotatedGrammar) -> None:
        self._grammar = annotated
        self._lexemes = None if annotated.lexer is None else Lexemes(annotated.lexer, annotated.limits)
        with annotated.lock:
            threads: tuple[Thread, ...] = tuple(self._enter_marks([(annotated.automaton.start, None)], 0))
        self.first = Snapshot(threads, self._begin_lexemes(0, threads))

    def after_bytes(self, before: Snapshot, text: bytearray, start: int, end: int) -> Snapshot:
        """The snapshot after the bytes from `start` to `end` of the text.

        Raises:
            LimitExceeded: there are too many ways to place marks.
        """
        if self._lexemes is not None:
            return self._after_lexemes(before, text, end, is_complete=False)
        threads, automaton = before.threads, self._grammar.automaton
        for at in range(start, end):
            byte = text[at]
            kernel = [(after, past) for state, past in threads if (after := automaton.byte(state, byte))]
            threads = self._enter_marks(kernel, at + 1)
        if self._grammar.counts_tokens and start < end:
            threads_by_state: dict[State, Past] = {}
            for state, past in threads:
                last = automaton.token_end(state)
                if last is not None and (
                    last.is_accepting or self._can_continue(last)
                ):  # otherwise only a mark can follow
                    threads_by_state.setdefault(last, past)
            threads = tuple(threads_by_state.items())
        return Snapshot(threads)

    def after_token(
        self, before: Snapshot, token: int, text: bytearray, start: int, end: int, *, is_control: bool
    ) -> Snapshot:
        """The snapshot after a token: its text is from `start` to `end`, or the grammar names it. A control token
        is never read as text."""
        is_text = start < end and not is_control
        read = self.after_bytes(before, text, start, end) if is_text else Snapshot(())
        if self._lexemes is not None:
            return read if is_text else before
        token_marks = [
            (after, past) for state, past in before.threads if (after := self._grammar.automaton.token(state, token))
        ]
        if not token_marks:
            return read if is_text else before
        seen = {state for state, _ in read.threads}
        return Snapshot((*read.threads, *(each for each in self._enter_marks(token_marks, end) if each[0] not in seen)))

    def complete(self, at: Snapshot, text: bytearray) -> Sequence[Capture]:
        """The captures of a complete output."""
        if self._lexemes is not None:
            at = self._after_lexemes(at, text, len(text), is_complete=True)
        best = next((past for state, past in at.threads if state.is_accepting), None)
        return self._captures(best, text)

    def partial(self, at: Snapshot, text: bytearray) -> Sequence[Capture]:
        """The captures of an unfinished output; the last ones may be incomplete."""
        threads = at.threads
        if at.pending is not None and at.pending.read > at.pending.start:
            candidates = {number for number, _ in at.pending.matches} | {at.pending.winner}
            assert self._lexemes is not None
            threads = (
                tuple(thread for thread in threads if self._lexemes.may_be(candidates, thread[0].tokens)) or threads
            )
        return self._captures(threads[0][1] if threads else None, text)

    def temperature(self, at: Snapshot, length: int) -> float | None:
        """The temperature for the next token of an output of `length` bytes; None: the request's temperature applies.

        If the text may continue within an open region, that region decides. A region that would only begin here decides
        if nothing else can follow.
        """
        beginning: list[float | None] = []
        for state, past in at.threads:
            if not self._can_continue(state):
                continue
            start, temperature = self._innermost_temperature(past)
            if temperature is not None and start < length:
                return temperature
            beginning.append(temperature)
        return beginning[0] if beginning and None not in beginning else None

    # --- reading

    def _enter_marks(self, kernel: Sequence[Thread], position: int) -> tuple[Thread, ...]:
        return enter_marks(self._grammar, kernel, position)

    def _begin_lexemes(self, start: int, threads: Sequence[Thread]) -> PendingLexeme | None:
        if self._lexemes is None:
            return None
        return self._lexemes.begin(
            start, {token for state, _ in threads for token in state.tokens if token < self._grammar.first}
        )

    def _after_lexemes(self, before: Snapshot, text: bytearray, end: int, *, is_complete: bool) -> Snapshot:
        """The snapshot after all finished lexemes. `is_complete`: no text follows, so the last lexeme has ended."""
        lexemes, threads, pending = self._lexemes, before.threads, before.pending
        assert lexemes is not None and pending is not None
        while pending.start < end:
            pending = lexemes.read(pending, text, end)
            if pending.winner < 0 or (pending.matches and not is_complete):
                break
            if lexemes.is_ignored(pending):
                ignored = [(state, self._add_ignored_marks(past, pending)) for state, past in threads]
                threads = tuple(ignored)
            else:
                number = lexemes.terminal(pending, text)
                threads = self._enter_marks(
                    [
                        (after, past)
                        for state, past in threads
                        if (after := self._grammar.automaton.token(state, number))
                    ],
                    pending.end,
                )
            following = self._begin_lexemes(pending.end, threads)
            assert following is not None
            pending = following
        return Snapshot(threads, pending)

    @staticmethod
    def _add_ignored_marks(past: Past, pending: PendingLexeme) -> Past:
        return pending.end, _IGNORED_ENDS, (pending.start, _IGNORED_BEGINS, past)

    def _can_continue(self, state: State) -> bool:
        return state.can_read or any(token < self._grammar.first for token in state.tokens)

    # --- marks

    def _innermost_temperature(self, past: Past) -> tuple[int, float | None]:
        """The beginning and the temperature of the innermost region with a temperature."""
        depth = 0
        while past is not None:
            position, mark, past = past
            if mark < 0:
                continue
            region, is_end = self._grammar.region(mark)
            if is_end:
                depth += 1
            elif depth:
                depth -= 1
            elif region.temperature is not None:
                return position, region.temperature
        return 0, None

    def _captures(self, past: Past, text: bytearray) -> list[Capture]:
        marks: list[tuple[int, int]] = []
        while past is not None:
            position, mark, past = past
            marks.append((position, mark))
        ignored = _IgnoredSpans()
        open_regions: list[tuple[Region, int, int]] = []
        ordered_captures: list[tuple[int, Capture]] = []
        for number, (position, mark) in enumerate(reversed(marks)):
            region, is_end = (_IGNORED_REGION, mark == _IGNORED_ENDS) if mark < 0 else self._grammar.region(mark)
            if region.ignored:
                ignored.mark(position, is_end)
            elif not is_end:
                open_regions.append((region, position, number))
            else:
                region, start, order = open_regions.pop()
                start, end = ignored.trim(start, position)
                ordered_captures += [(order, each) for each in self._captures_of_region(region, text, start, end)]
        for region, position, order in open_regions:
            start, end = ignored.trim(position, len(text), is_open=True)
            if region.capture and start < end:
                ordered_captures.append((order, Capture(region.capture, start, end, end, False)))
        ordered_captures.sort(key=lambda each: each[0])
        return [capture for _, capture in ordered_captures]

    def _captures_of_region(self, region: Region, text: bytearray, start: int, end: int) -> list[Capture]:
        """The captures of a region that has ended."""
        middle = end
        if region.ending is not None and region.captures:
            middle = start + self._grammar.split(region.ending, bytes(text[start:end]))
        out = [Capture(region.capture, start, middle, end)] if region.capture else []
        if region.ending is not None and region.ending.capture:
            out.append(Capture(region.ending.capture, middle, end, end))
        return out


def enter_marks(annotated: AnnotatedGrammar, kernel: Sequence[Thread], position: int) -> tuple[Thread, ...]:
    """Continue threads with the marks that may stand at this position. The caller holds `annotated.lock`.

    Raises:
        LimitExceeded: the text has more than `_MAX_THREADS` parses that differ in what may follow.
    """
    out: dict[State, Past] = {}
    for state, past in kernel:
        if len(out) > _MAX_THREADS:
            hint = "write counted parts with captures so that a text has one count"
            raise LimitExceeded("states", len(out), _MAX_THREADS, fixed=True, hint=hint)
        for entry, marks in annotated.entries(state):
            if entry not in out:
                marks_here = past
                for mark in marks:
                    marks_here = position, mark, marks_here
                out[entry] = marks_here
    return tuple(out.items())


_IGNORED_REGION = Region(ignored=True)


class _IgnoredSpans:
    """The spans of ignored text."""

    def __init__(self) -> None:
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}
        self._open: int | None = None

    def mark(self, position: int, is_end: bool) -> None:
        if not is_end:
            self._open = position
        elif self._open is not None:
            if self._open < position:
                self._end_of[self._open], self._start_of[position] = position, self._open
            self._open = None

    def trim(self, start: int, end: int, is_open: bool = False) -> tuple[int, int]:
        """Trim ignored text from the ends of a span. `is_open`: the span ends at the end of the text so far."""
        if is_open and self._open is not None:
            end = max(self._open, start)
        while self._end_of.get(start, end + 1) <= end:
            start = self._end_of[start]
        while self._start_of.get(end, -1) >= start:
            end = self._start_of[end]
        return start, end
