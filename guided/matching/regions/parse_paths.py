"""Finds the regions of an output: captures, and the temperature. In: a grammar with marks (`annotated_grammar.py`), and
an output, step by step. Out: the marks of one parse of the output.

A text may have many parses. The preferred one is found from left to right: a region begins as early and ends as late as
possible, as long as the rest can be parsed. So in `name rest`, both `/[a-z]+/`, all letters except the last belong to
the name.

How: threads, as in Pike's virtual machine for regular expressions, but over states of the core instead of positions in
a program. A thread is a state, and the marks that led to it. At each byte all threads make a step. If two reach the
same state, only the preferred one survives, since their continuations are the same. Threads are ordered, the preferred
first, by the order of `AnnotatedGrammar.entries`. Source: Rob Pike's sam, as described in Russ Cox, "Regular Expression
Matching: the Virtual Machine Approach" (2009).

Cost: for each byte, a lookup for each thread; there is one thread per possible state of the text, and at most
`_MAX_THREADS`. The matcher stores a snapshot after each step, so each part of an output is read once, also while the
output streams and after a rollback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from guided.errors import LimitExceeded
from guided.ir.nodes import Region
from guided.matching.explain.lexemes import LexemeReader, PendingLexeme
from guided.matching.regions.annotated_grammar import AnnotatedGrammar, State

__all__ = ["Capture", "MarkHistory", "ParsePaths", "Snapshot", "enter_marks"]

MarkHistory: TypeAlias = tuple[int, int, "MarkHistory"] | None
"""The marks of a thread, the last one first: (its offset in the text, its token, the marks before it)."""
Thread: TypeAlias = tuple[State, MarkHistory]
_IGNORED_BEGINS, _IGNORED_ENDS = -2, -1  # marks of ignored lexemes
_MAX_THREADS = 4_000  # each takes about 20 us per byte


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
    pending_lexeme: PendingLexeme | None = None


class ParsePaths:
    """Parses the steps of one output. Outputs of one grammar share its automata."""

    def __init__(self, annotated_grammar: AnnotatedGrammar) -> None:
        self._grammar = annotated_grammar
        self._lexeme_reader = (
            None if annotated_grammar.lexer is None else LexemeReader(annotated_grammar.lexer, annotated_grammar.limits)
        )
        with annotated_grammar.lock:
            threads: tuple[Thread, ...] = tuple(self._enter_marks([(annotated_grammar.automaton.start, None)], 0))
        self.initial_snapshot = Snapshot(threads, self._begin_lexemes(0, threads))

    def read_bytes(self, snapshot: Snapshot, text: bytearray, start: int, end: int) -> Snapshot:
        """The snapshot after the bytes from `start` to `end` of the text.

        Raises:
            LimitExceeded: there are too many ways to place marks.
        """
        if self._lexeme_reader is not None:
            return self._read_lexemes(snapshot, text, end, is_complete=False)
        threads, automaton = snapshot.threads, self._grammar.automaton
        for offset in range(start, end):
            byte = text[offset]
            kernel = [
                (next_state, history) for state, history in threads if (next_state := automaton.read_byte(state, byte))
            ]
            threads = self._enter_marks(kernel, offset + 1)
        if self._grammar.counts_tokens and start < end:
            threads_by_state: dict[State, MarkHistory] = {}
            for state, history in threads:
                end_state = automaton.end_token(state)
                if end_state is not None and (
                    end_state.is_accepting or self._can_continue(end_state)
                ):  # in all other states, only a mark could follow
                    threads_by_state.setdefault(end_state, history)
            threads = tuple(threads_by_state.items())
        return Snapshot(threads)

    def read_token(
        self, snapshot: Snapshot, token: int, text: bytearray, start: int, end: int, *, is_control: bool
    ) -> Snapshot:
        """The snapshot after a token. The grammar may refer to the token itself, or read its text, which is from
        `start` to `end`. A control token is never read as text."""
        is_text = start < end and not is_control
        text_snapshot = self.read_bytes(snapshot, text, start, end) if is_text else Snapshot(())
        if self._lexeme_reader is not None:
            return text_snapshot if is_text else snapshot
        token_threads = [
            (next_state, history)
            for state, history in snapshot.threads
            if (next_state := self._grammar.automaton.read_token(state, token))
        ]
        if not token_threads:
            return text_snapshot if is_text else snapshot
        seen = {state for state, _ in text_snapshot.threads}
        return Snapshot(
            (*text_snapshot.threads, *(each for each in self._enter_marks(token_threads, end) if each[0] not in seen))
        )

    def complete_captures(self, snapshot: Snapshot, text: bytearray) -> Sequence[Capture]:
        """The captures of a complete output."""
        if self._lexeme_reader is not None:
            snapshot = self._read_lexemes(snapshot, text, len(text), is_complete=True)
        best = next((history for state, history in snapshot.threads if state.is_accepting), None)
        return self._captures(best, text)

    def partial_captures(self, snapshot: Snapshot, text: bytearray) -> Sequence[Capture]:
        """The captures of an unfinished output; the last ones may be incomplete."""
        threads = snapshot.threads
        if snapshot.pending_lexeme is not None and snapshot.pending_lexeme.read > snapshot.pending_lexeme.start:
            candidates = {number for number, _ in snapshot.pending_lexeme.matches} | {snapshot.pending_lexeme.winner}
            assert self._lexeme_reader is not None
            threads = (
                tuple(thread for thread in threads if self._lexeme_reader.may_be(candidates, thread[0].tokens))
                or threads
            )
        return self._captures(threads[0][1] if threads else None, text)

    def temperature(self, snapshot: Snapshot, length: int) -> float | None:
        """The temperature for the next token of an output of `length` bytes; None: the request's temperature applies.

        If the text may continue within an open region, that region's temperature applies. The temperature of a region
        that begins here applies only if nothing else can follow.
        """
        temperatures_here: list[float | None] = []
        for state, history in snapshot.threads:
            if not self._can_continue(state):
                continue
            start, temperature = self._innermost_temperature(history)
            if temperature is not None and start < length:
                return temperature
            temperatures_here.append(temperature)
        return temperatures_here[0] if temperatures_here and None not in temperatures_here else None

    # --- reading

    def _enter_marks(self, kernel: Sequence[Thread], offset: int) -> tuple[Thread, ...]:
        return enter_marks(self._grammar, kernel, offset)

    def _begin_lexemes(self, start: int, threads: Sequence[Thread]) -> PendingLexeme | None:
        if self._lexeme_reader is None:
            return None
        return self._lexeme_reader.begin(
            start, {token for state, _ in threads for token in state.tokens if token < self._grammar.first_mark}
        )

    def _read_lexemes(self, snapshot: Snapshot, text: bytearray, end: int, *, is_complete: bool) -> Snapshot:
        """The snapshot after all finished lexemes. `is_complete`: no text follows, so the last lexeme has ended."""
        lexemes, threads, pending = self._lexeme_reader, snapshot.threads, snapshot.pending_lexeme
        assert lexemes is not None and pending is not None
        while pending.start < end:
            pending = lexemes.read(pending, text, end)
            if pending.winner < 0 or (pending.matches and not is_complete):
                break
            if lexemes.is_ignored(pending):
                marked_threads = [(state, self._add_ignored_marks(history, pending)) for state, history in threads]
                threads = tuple(marked_threads)
            else:
                number = lexemes.find_terminal(pending, text)
                threads = self._enter_marks(
                    [
                        (next_state, history)
                        for state, history in threads
                        if (next_state := self._grammar.automaton.read_token(state, number))
                    ],
                    pending.end,
                )
            next_pending = self._begin_lexemes(pending.end, threads)
            assert next_pending is not None
            pending = next_pending
        return Snapshot(threads, pending)

    @staticmethod
    def _add_ignored_marks(history: MarkHistory, pending: PendingLexeme) -> MarkHistory:
        return pending.end, _IGNORED_ENDS, (pending.start, _IGNORED_BEGINS, history)

    def _can_continue(self, state: State) -> bool:
        return state.can_read or any(token < self._grammar.first_mark for token in state.tokens)

    # --- marks

    def _innermost_temperature(self, history: MarkHistory) -> tuple[int, float | None]:
        """The start and the temperature of the innermost open region with a temperature; (0, None) if there is none."""
        depth = 0
        while history is not None:
            offset, mark, history = history
            if mark < 0:
                continue
            region, is_end = self._grammar.region(mark)
            if is_end:
                depth += 1
            elif depth:
                depth -= 1
            elif region.temperature is not None:
                return offset, region.temperature
        return 0, None

    def _captures(self, history: MarkHistory, text: bytearray) -> list[Capture]:
        marks: list[tuple[int, int]] = []
        while history is not None:
            offset, mark, history = history
            marks.append((offset, mark))
        ignored_spans = _IgnoredSpans()
        open_regions: list[tuple[Region, int, int]] = []
        ordered_captures: list[tuple[int, Capture]] = []
        for number, (offset, mark) in enumerate(reversed(marks)):
            region, is_end = (_IGNORED_REGION, mark == _IGNORED_ENDS) if mark < 0 else self._grammar.region(mark)
            if region.ignored:
                ignored_spans.mark(offset, is_end)
            elif not is_end:
                open_regions.append((region, offset, number))
            else:
                region, start, order = open_regions.pop()
                start, end = ignored_spans.trim(start, offset)
                ordered_captures += [(order, each) for each in self._captures_of_region(region, text, start, end)]
        for region, offset, order in open_regions:
            start, end = ignored_spans.trim(offset, len(text), is_open=True)
            if region.capture and start < end:
                ordered_captures.append((order, Capture(region.capture, start, end, end, False)))
        ordered_captures.sort(key=lambda each: each[0])
        return [capture for _, capture in ordered_captures]

    def _captures_of_region(self, region: Region, text: bytearray, start: int, end: int) -> list[Capture]:
        """The captures of a region that has ended."""
        ending_start = end
        if region.ending is not None and region.captures:
            ending_start = start + self._grammar.find_ending(region.ending, bytes(text[start:end]))
        out = [Capture(region.capture, start, ending_start, end)] if region.capture else []
        if region.ending is not None and region.ending.capture:
            out.append(Capture(region.ending.capture, ending_start, end, end))
        return out


def enter_marks(annotated: AnnotatedGrammar, kernel: Sequence[Thread], offset: int) -> tuple[Thread, ...]:
    """Continue threads with the marks that may occur at this offset. The caller holds `annotated.lock`.

    Raises:
        LimitExceeded: the text has more than `_MAX_THREADS` parses that differ in what may follow.
    """
    out: dict[State, MarkHistory] = {}
    for state, history in kernel:
        if len(out) > _MAX_THREADS:
            hint = "rewrite counted repetitions that contain captures so that a text has one count"
            raise LimitExceeded("states", len(out), _MAX_THREADS, fixed=True, hint=hint)
        for entry, marks in annotated.entries(state):
            if entry not in out:
                marks_here = history
                for mark in marks:
                    marks_here = offset, mark, marks_here
                out[entry] = marks_here
    return tuple(out.items())


_IGNORED_REGION = Region(ignored=True)


class _IgnoredSpans:
    """The spans of ignored text."""

    def __init__(self) -> None:
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}
        self._open_start: int | None = None

    def mark(self, offset: int, is_end: bool) -> None:
        if not is_end:
            self._open_start = offset
        elif self._open_start is not None:
            if self._open_start < offset:
                self._end_of[self._open_start], self._start_of[offset] = offset, self._open_start
            self._open_start = None

    def trim(self, start: int, end: int, is_open: bool = False) -> tuple[int, int]:
        """Trim ignored text from the ends of a span. `is_open`: the span ends at the end of the text so far."""
        if is_open and self._open_start is not None:
            end = max(self._open_start, start)
        while self._end_of.get(start, end + 1) <= end:
            start = self._end_of[start]
        while self._start_of.get(end, -1) >= start:
            end = self._start_of[end]
        return start, end
