r"""Finds the word boundaries of a text that is still being written.

In: the patterns of a pre-tokenizer. Out: `Splitter`, an automaton that *guesses* for each character whether a word
begins with it. It keeps a state only if some continuation proves its guesses right.

    \s+(?!\S)|\s+|\p{L}+      after two spaces, guess no boundary between them:
                              right if a space or the end follows, wrong if a letter follows.

How: Pike's simulation keeps the threads of a pattern in order of preference. When a thread matches, the threads behind
it are dropped, and the match counts unless a preferred thread matches later. So if a boundary is guessed at a match,
the preferred threads are kept as *forbidden*: none of them may match any more. A lookahead at one character is decided
when the next character, or the end of the text, is known. The text between two matches is a piece, too: no match may
begin at any of its characters. Several patterns are applied in sequence. For a later pattern, a boundary of an earlier
pattern is the end of the text.

Characters are read as classes: no set in the patterns distinguishes two characters of one class. States are created
when they are reached. The patterns in use have a few hundred states; `MAX_SIZE` is the limit.

Source: Cox, "Regular expression matching: the virtual machine approach" (2009), for the simulation.
Not supported: lookbehinds, back-references, word boundaries, patterns that match the empty text. Letters that
were added after Unicode 16.0 are letters here, but not in the packages tokenizers and tiktoken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.regex.budget import Budget
from guided.frontends.regex.ecma_chars import property_set
from guided.frontends.regex.ecma_syntax import EcmaReader
from guided.frontends.regex.leftmost_match import Program, Step, may_be_empty
from guided.frontends.regex.tree import Lookaround, Tree, cat, make_alternation, make_lookaround, make_repetition
from guided.ir.nodes import EPSILON, Alt, Chars, Repeat
from guided.ir.ranges import Ranges, complement, contains
from guided.limits import Limits
from guided.meter import limit_compilation
from guided.vocabulary.byte_pairs import HINT, Split

__all__ = ["END", "Splitter"]

END: Final = -1
"""Stands for the end of the text, in place of a character's class."""
MAX_SIZE: Final = 100_000

Positions: TypeAlias = tuple[int, ...]
"""Positions of a program, the preferred one first."""
_BETWEEN: Final = (-1,)  # in place of positions, in a piece between two matches


class _CharacterClasses:
    """Classes of characters: no given set distinguishes two characters of one class.

    Attributes:
        count: the number of classes; they are numbered from 0.
    """

    def __init__(self, sets: Iterable[Ranges]) -> None:
        sets = list(dict.fromkeys(sets))
        lows = sorted({0, *(edge for ranges in sets for low, high in ranges for edge in (low, high + 1))})
        numbers: dict[tuple[bool, ...], int] = {}
        self._lows, self._numbers = lows, list[int]()
        for low in lows:
            signature = tuple(contains(ranges, low) for ranges in sets)
            self._numbers.append(numbers.setdefault(signature, len(numbers)))
        self.count = len(numbers)
        self._bits_by_set = {
            ranges: sum(1 << number for signature, number in numbers.items() if signature[index])
            for index, ranges in enumerate(sets)
        }

    def bits(self, ranges: Ranges) -> int:
        """The classes that make up one of the given sets, as bits."""
        return self._bits_by_set[ranges] if ranges else 0

    def class_of(self, code: int) -> int:
        """The class of a character."""
        return self._numbers[bisect_right(self._lows, code) - 1]

    def classes_of(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The classes of characters, (n,)."""
        numbers: npt.NDArray[np.int64] = np.array(self._numbers, np.int64)
        return numbers[np.searchsorted(np.array(self._lows, np.int64), codes, "right") - 1]

    def classes_in_range(self, low: int, high: int) -> frozenset[int]:
        """The classes of the characters from `low` to `high`."""
        return frozenset(self._numbers[bisect_right(self._lows, low) - 1 : bisect_right(self._lows, high)])


class _Stage(NamedTuple):
    """The state of one pattern: the threads of the current match, and the threads that must not match any more."""

    positions: Positions
    forbidden: Positions


_State: TypeAlias = tuple[_Stage, ...]


def _unsupported_error(reason: str, pattern: str) -> UnsupportedError:
    return UnsupportedError(f"the pattern of the pre-tokenizer {reason}", text=pattern, hint=HINT)


class _Reader(EcmaReader):
    r"""Reads patterns of pre-tokenizers: ECMA-262 with possessive quantifiers and the Unicode meanings of \s and \d."""

    def __init__(self, split: Split) -> None:
        super().__init__(split.pattern, Budget(Limits()), ordered=True)
        self.is_rust = split.engine == "rust"

    def read_element(self, c: str) -> None:
        if c in "^$" and not (self.is_rust and c == "$"):
            raise _unsupported_error(f"has {c}, which depends on lines", self.text)
        super().read_element(c)

    def _select_class(self, letter: str, *, any_case: bool, is_negated: bool) -> Ranges:
        if letter in "wW":
            raise _unsupported_error("has \\w, which regular expression engines interpret differently", self.text)
        ranges = property_set("White_Space" if letter in "sS" else "Nd")
        return complement(ranges) if letter.isupper() else ranges

    def _read_member(self, is_negated: bool) -> int | Ranges:
        if self.text[self.pos] == "[" or self.text[self.pos : self.pos + 2] in ("&&", "--", "~~"):
            raise _unsupported_error("has a set within a set", self.text)
        return super()._read_member(is_negated)

    def quantify(self, low: int, high: int | None, start: int, *, lazy: bool, possessive: bool = False) -> None:
        repeats_whole = self.text[start] == "{" and not self.is_rust  # Oniguruma reads x{1,3}+ as (?:x{1,3})+
        if lazy or not self.take("+"):
            super().quantify(low, high, start, lazy=lazy)
        elif repeats_whole:
            super().quantify(low, high, start, lazy=False)
            super().quantify(1, None, start, lazy=False)
        else:
            piece = self.frame.pieces.pop()
            if not isinstance(piece.tree, Chars):
                raise _unsupported_error("has a possessive quantifier after more than one character", self.text)
            span = (piece.start, self.pos)
            piece.tree = _make_possessive(piece.tree, low, high, span)
            piece.min_width, piece.max_width, piece.end, piece.kind = low * piece.min_width, 1 << 30, self.pos, "repeat"
            self.frame.pieces.append(piece)


def _make_possessive(item: Tree, low: int, high: int | None, span: tuple[int, int]) -> Tree:
    """A possessive repetition of the single character `item`: it ends before `high` only if no `item` follows."""
    none_follows = make_lookaround(item, ahead=True, negative=True, span=span)
    required_items = [item] * low
    if high is None:
        return cat([*required_items, make_repetition(item, 0, None, lazy=False, span=span, ordered=True), none_follows])
    optional_items: Tree = EPSILON
    for _ in range(high - low):
        optional_items = make_alternation([cat([item, optional_items]), none_follows], ordered=True)
    return cat([*required_items, optional_items])


class _Program(Program):
    """A pattern as positions, beginning at `start`. Each position has a condition on the next character or the end."""

    def __init__(self, split: Split) -> None:
        super().__init__()
        self.split, self.steps = split, [Step()]
        try:
            with limit_compilation(Limits()):
                tree = _Reader(split).read()
        except SpecError as error:
            raise _unsupported_error(f"cannot be read ({error.message})", split.pattern) from None
        self.start = self.compile(tree, 0)

    def add(self, step: Step) -> int:
        if len(self.steps) > MAX_SIZE:
            raise LimitExceeded("nodes", len(self.steps), MAX_SIZE)
        return super().add(step)

    def compile_other(self, tree: Tree, next_step: int) -> int:
        match tree:
            case Alt(items):  # alternatives of single characters: their order does not matter
                return self.add(Step(ways=tuple(self.compile(item, next_step) for item in items)))
            case Repeat(item, low, high):
                return self.compile_repetition(item, low, high, False, next_step)
            case Lookaround(Chars(ranges), ahead=True, negative=negative):
                return self.add(Step(ways=(next_step,), neighbour=ranges, negative=negative))
        raise _unsupported_error("has a lookaround that is not a lookahead at one character", self.split.pattern)

    def check_round(self, item: Tree) -> None:
        if may_be_empty(item):
            raise _unsupported_error("repeats a part that may be empty", self.split.pattern)


class _Pattern:
    """A program over classes of characters, with cached steps."""

    def __init__(self, program: _Program, classes: _CharacterClasses) -> None:
        self.program, self.start = program, (program.start,)
        self._reads = [None if s.ranges is None else classes.bits(s.ranges) for s in program.steps]
        self._lookaheads = [None if s.neighbour is None else classes.bits(s.neighbour) for s in program.steps]
        self._transitions: dict[tuple[Positions, int], tuple[Positions, bool]] = {}
        if any(self.advance(self.start, char_class)[1] for char_class in (END, *range(classes.count))):
            raise _unsupported_error("matches the empty text", program.split.pattern)

    def advance(self, positions: Positions, char_class: int) -> tuple[Positions, bool]:
        """The positions after the next character (END: the text ends), and whether there is a match before it."""
        key = positions, char_class
        if key not in self._transitions:
            self._transitions[key] = self._compute_advance(positions, char_class)
        return self._transitions[key]

    def _compute_advance(self, positions: Positions, char_class: int) -> tuple[Positions, bool]:
        out: dict[int, None] = {}
        seen: set[int] = set()
        stack = list(reversed(positions))
        while stack:
            position = stack.pop()
            if position in seen:
                continue
            seen.add(position)
            step, reads, lookahead = self.program.steps[position], self._reads[position], self._lookaheads[position]
            if reads is not None:
                if char_class >= 0 and reads >> char_class & 1:
                    out[step.ways[0]] = None
            elif not step.ways:
                return tuple(out), True
            elif lookahead is None or (char_class >= 0 and bool(lookahead >> char_class & 1)) != step.negative:
                stack.extend(reversed(step.ways))
        return tuple(out), False

    def first_stages(self, char_class: int) -> Iterator[_Stage]:
        """Yield the stages after the first character of a piece, which is a match or lies between two matches."""
        positions, _ = self.advance(self.start, char_class)
        if positions:
            yield _Stage(positions, ())
        yield _Stage(_BETWEEN, tuple(sorted(positions)))

    def continue_piece(self, stage: _Stage, char_class: int) -> _Stage | None:
        """The stage after a further character of a piece, or None if a guess was wrong."""
        forbidden = self._advance_forbidden(stage.forbidden, char_class)
        if forbidden is None:
            return None
        if stage.positions == _BETWEEN:
            first_positions, _ = self.advance(self.start, char_class)
            return _Stage(_BETWEEN, tuple(sorted({*forbidden, *first_positions})))
        positions, _ = self.advance(stage.positions, char_class)
        return _Stage(positions, forbidden) if positions else None

    def cross_boundary(self, stage: _Stage, char_class: int) -> Iterator[_Stage]:
        """Yield the stages after a boundary and then a character."""
        forbidden = self._advance_forbidden(stage.forbidden, char_class)
        if forbidden is None:
            return
        preferred: Positions = ()
        is_between = stage.positions == _BETWEEN
        if not is_between:
            preferred, has_match = self.advance(stage.positions, char_class)
            if not has_match:
                return
        for first_stage in self.first_stages(char_class):
            if not (is_between and first_stage.positions == _BETWEEN):
                yield _Stage(first_stage.positions, tuple(sorted({*forbidden, *preferred, *first_stage.forbidden})))

    def _advance_forbidden(self, forbidden: Positions, char_class: int) -> Positions | None:
        """The forbidden positions after a character, or None if one of them has matched."""
        if not forbidden:
            return ()
        positions, has_match = self.advance(forbidden, char_class)
        return None if has_match else tuple(sorted(positions))

    def may_end(self, stage: _Stage) -> bool:
        """Whether the text may end here."""
        if stage.forbidden and self.advance(stage.forbidden, END)[1]:
            return False
        return stage.positions == _BETWEEN or self.advance(stage.positions, END)[1]


class Splitter:
    """The automaton; see the module docstring. States are numbers; 0 is the beginning of a text.

    Attributes:
        classes: the classes of characters.
    """

    def __init__(self, splits: Sequence[Split]) -> None:
        programs = [_Program(split) for split in splits]
        self.classes = _CharacterClasses(r for p in programs for s in p.steps for r in (s.ranges, s.neighbour) if r)
        self._patterns = [_Pattern(program, self.classes) for program in programs]
        self._states: list[_State | None] = [None]
        self._state_ids: dict[_State, int] = {}
        self._alive_cache: dict[int, bool] = {}
        self._continuations: dict[tuple[int, int], int | None] = {}
        self._word_starts: dict[tuple[int, int], tuple[int, ...]] = {}
        for split, pattern in zip(splits, self._patterns, strict=True):
            if split.must_cover and any(self._starts_between(pattern)):
                raise _unsupported_error(
                    "does not cover the whole text, and the tokenizer drops the rest", split.pattern
                )

    def continue_word(self, state: int, char_class: int) -> int | None:
        """The state after a character of a class that continues the word, or None if none can."""
        key = state, char_class
        if key not in self._continuations:
            self._continuations[key] = next(iter(self._live_numbers([self._continue_word(state, char_class)])), None)
        return self._continuations[key]

    def begin_word(self, state: int, char_class: int) -> tuple[int, ...]:
        """The states after a character of a class that begins a word."""
        key = state, char_class
        if key not in self._word_starts:
            self._word_starts[key] = tuple(dict.fromkeys(self._live_numbers(self._cross_boundary(state, char_class))))
        return self._word_starts[key]

    def may_end(self, state: int) -> bool:
        """Whether the text may end here."""
        stages = self._states[state]
        return stages is None or all(p.may_end(s) for p, s in zip(self._patterns, stages, strict=True))

    def may_end_word(self, state: int) -> bool:
        """Whether the word may end here."""
        return self.may_end(state) or any(
            self.begin_word(state, char_class) for char_class in range(self.classes.count)
        )

    def _live_numbers(self, states: Iterable[_State | None]) -> Iterator[int]:
        """Yield the numbers of the states from which an end can be reached."""
        for state in states:
            if state is not None and self._is_alive(number := self._intern_state(state)):
                yield number

    def _intern_state(self, state: _State) -> int:
        if state not in self._state_ids:
            if len(self._states) > MAX_SIZE:
                raise LimitExceeded("states", len(self._states), MAX_SIZE)
            self._state_ids[state] = len(self._states)
            self._states.append(state)
        return self._state_ids[state]

    def _is_alive(self, number: int) -> bool:
        if number in self._alive_cache:
            return self._alive_cache[number]
        seen, queue = {number: None}, [number]
        for current in queue:  # grows during the loop
            if self._alive_cache.get(current) or self.may_end(current):
                self._alive_cache[number] = True
                return True
            for char_class in range(self.classes.count):
                for state in (self._continue_word(current, char_class), *self._cross_boundary(current, char_class)):
                    if (
                        state is not None
                        and (successor := self._intern_state(state)) not in seen
                        and self._alive_cache.get(successor, True)
                    ):
                        seen[successor] = None
                        queue.append(successor)
        self._alive_cache.update(dict.fromkeys(seen, False))
        return False

    def _continue_word(self, number: int, char_class: int) -> _State | None:
        stages = self._states[number]
        if stages is None:
            return None
        new_stages = [p.continue_piece(s, char_class) for p, s in zip(self._patterns, stages, strict=True)]
        return None if None in new_stages else tuple(new_stages)  # type: ignore[arg-type]

    def _cross_boundary(self, number: int, char_class: int) -> Iterator[_State]:
        """Yield the states after a boundary, for each pattern that may be the first to have one. Earlier patterns
        continue their pieces."""
        stages = self._states[number]
        if stages is None:
            yield from product(*(p.first_stages(char_class) for p in self._patterns))
            return
        for index, pattern in enumerate(self._patterns):
            earlier_stages = [
                p.continue_piece(s, char_class) for p, s in zip(self._patterns[:index], stages[:index], strict=True)
            ]
            later_pairs = zip(self._patterns[index + 1 :], stages[index + 1 :], strict=True)
            if None in earlier_stages or not all(p.may_end(s) for p, s in later_pairs):
                continue
            later_stages = [p.first_stages(char_class) for p in self._patterns[index + 1 :]]
            for new_stages in product(pattern.cross_boundary(stages[index], char_class), *later_stages):
                yield (*earlier_stages, *new_stages)  # type: ignore[arg-type]

    def _starts_between(self, pattern: _Pattern) -> Iterator[bool]:
        """Yield for each class whether a piece between two matches may begin with it."""
        probe = Splitter.__new__(Splitter)
        probe.classes, probe._patterns, probe._states = self.classes, [pattern], [None]
        (
            probe._state_ids,
            probe._alive_cache,
            probe._continuations,
            probe._word_starts,
        ) = {}, {}, {}, {}
        for char_class in range(self.classes.count):
            yield any(probe._states[state][0].positions == _BETWEEN for state in probe.begin_word(0, char_class))  # type: ignore[index]
