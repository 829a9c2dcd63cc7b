r"""Where the words of a text may end when only its beginning is known.

In: the patterns of a pre-tokenizer. Out: `Splitter`, an automaton that *guesses* for each character whether a word
begins with it. It keeps a state only if some continuation proves its guesses right.

    \s+(?!\S)|\s+|\p{L}+      after two spaces, with no border between them:
                              a third space, or the end: right. A letter: the border was before the second space.

How: Pike's simulation keeps the threads of a pattern in order of preference. When a thread matches, the threads behind
it are dropped, and the match counts unless a preferred thread matches later. So if a border is guessed at a match, the
preferred threads are kept as *forbidden*: none of them may match any more. A lookahead at one character is decided when
the next character, or the end of the text, is known. The text between two matches is a piece too: there the pattern
must not match at any character. Several patterns are applied in sequence. A border of an earlier pattern is the end of
the text for a later one.

Characters are read as classes that no set of the patterns distinguishes. States are made when they are reached. The
patterns in use have some hundreds; `MOST` bounds them.

Source: Cox, "Regular expression matching: the virtual machine approach" (2009), for the simulation.
What it does not do: lookbehinds, back-references, word boundaries, patterns that match the empty text. Characters that
are newer than the Unicode tables of a package (tokenizers and tiktoken: 16.0) are letters here and not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.regex.budget import Budget
from guided.frontends.regex.ecma_chars import property_set
from guided.frontends.regex.ecma_syntax import EcmaReader
from guided.frontends.regex.leftmost_match import Program, Step, may_be_empty
from guided.frontends.regex.tree import Look, Tree, cat, either, look, times
from guided.ir.nodes import EPSILON, Alt, Chars, Repeat
from guided.ir.ranges import Ranges, complement
from guided.limits import Limits
from guided.matching.canonical.classes import CharacterClasses
from guided.meter import compiling
from guided.vocabulary.byte_pairs import HINT, Split

__all__ = ["END", "Splitter"]

END: Final = -1
"""The end of the text, where a character's class is expected."""
MOST: Final = 100_000

Places: TypeAlias = tuple[int, ...]
"""Positions of a program, the preferred one first."""
_BETWEEN: Final = (-1,)  # instead of places: in a piece between two matches


class _Stage(NamedTuple):
    """The state of one pattern: its threads in a match, and those that must not match any more."""

    places: Places
    forbidden: Places


_State: TypeAlias = tuple[_Stage, ...]


def _unsupported(reason: str, pattern: str) -> UnsupportedError:
    return UnsupportedError(f"the pattern of the pre-tokenizer {reason}", text=pattern, hint=HINT)


class _Reader(EcmaReader):
    r"""Patterns of pre-tokenizers: those of ECMA-262, with possessive quantifiers and Unicode's \s and \d."""

    def __init__(self, split: Split) -> None:
        super().__init__(split.pattern, Budget(Limits()), ordered=True)
        self.rust = split.engine == "rust"

    def item(self, c: str) -> None:
        if c in "^$" and not (self.rust and c == "$"):
            raise _unsupported(f"has {c}, which depends on lines", self.text)
        super().item(c)

    def _category(self, letter: str, *, any_case: bool, negated: bool) -> Ranges:
        if letter in "wW":
            raise _unsupported("has \\w, which engines read in more ways than one", self.text)
        ranges = property_set("White_Space" if letter in "sS" else "Nd")
        return complement(ranges) if letter.isupper() else ranges

    def _member(self, negated: bool) -> int | Ranges:
        if self.text[self.at] == "[" or self.text[self.at : self.at + 2] in ("&&", "--", "~~"):
            raise _unsupported("has a set within a set", self.text)
        return super()._member(negated)

    def quantify(self, low: int, high: int | None, start: int, *, lazy: bool, possessive: bool = False) -> None:
        again = self.text[start] == "{" and not self.rust  # Oniguruma reads x{1,3}+ as (?:x{1,3})+
        if lazy or not self.take("+"):
            super().quantify(low, high, start, lazy=lazy)
        elif again:
            super().quantify(low, high, start, lazy=False)
            super().quantify(1, None, start, lazy=False)
        else:
            piece = self.frame.pieces.pop()
            if not isinstance(piece.tree, Chars):
                raise _unsupported("has a possessive quantifier after more than one character", self.text)
            span = (piece.start, self.at)
            piece.tree = _possessive(piece.tree, low, high, span)
            piece.low, piece.high, piece.end, piece.kind = low * piece.low, 1 << 30, self.at, "repeat"
            self.frame.pieces.append(piece)


def _possessive(item: Tree, low: int, high: int | None, span: tuple[int, int]) -> Tree:
    """A possessive repetition of `item`, one character: it ends early only where no `item` follows."""
    gone = look(item, ahead=True, negative=True, span=span)
    first = [item] * low
    if high is None:
        return cat([*first, times(item, 0, None, lazy=False, span=span, ordered=True), gone])
    rest: Tree = EPSILON
    for _ in range(high - low):
        rest = either([cat([item, rest]), gone], ordered=True)
    return cat([*first, rest])


class _Program(Program):
    """A pattern as positions; the first one is `start`. A position's condition is on the next character, or the end."""

    def __init__(self, split: Split) -> None:
        super().__init__()
        self.split, self.steps = split, [Step()]
        try:
            with compiling(Limits()):
                tree = _Reader(split).read()
        except SpecError as error:
            raise _unsupported(f"cannot be read ({error.message})", split.pattern) from None
        self.start = self.compile(tree, 0)

    def add(self, step: Step) -> int:
        if len(self.steps) > MOST:
            raise LimitExceeded("nodes", len(self.steps), MOST)
        return super().add(step)

    def special(self, tree: Tree, then: int) -> int:
        match tree:
            case Alt(items):  # of single characters, in no order
                return self.add(Step(ways=tuple(self.compile(item, then) for item in items)))
            case Repeat(item, low, high):
                return self.times(item, low, high, False, then)
            case Look(Chars(ranges), ahead=True, negative=negative):
                return self.add(Step(ways=(then,), beside=ranges, negative=negative))
        raise _unsupported("has a lookaround that is not a lookahead at one character", self.split.pattern)

    def check_round(self, item: Tree) -> None:
        if may_be_empty(item):
            raise _unsupported("repeats what may be empty", self.split.pattern)


class _Pattern:
    """A program over classes of characters, with cached steps."""

    def __init__(self, program: _Program, classes: CharacterClasses) -> None:
        self.program, self.start = program, (program.start,)
        self._reads = [None if s.ranges is None else classes.bits(s.ranges) for s in program.steps]
        self._ahead = [None if s.beside is None else classes.bits(s.beside) for s in program.steps]
        self._transitions: dict[tuple[Places, int], tuple[Places, bool]] = {}
        if any(self.after(self.start, one)[1] for one in (END, *range(classes.count))):
            raise _unsupported("matches the empty text", program.split.pattern)

    def after(self, places: Places, following: int) -> tuple[Places, bool]:
        """The places after the next character (END: none), and whether there is a match before it."""
        key = places, following
        if key not in self._transitions:
            self._transitions[key] = self._after(places, following)
        return self._transitions[key]

    def _after(self, places: Places, following: int) -> tuple[Places, bool]:
        out: dict[int, None] = {}
        seen: set[int] = set()
        stack = list(reversed(places))
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            step, reads, ahead = self.program.steps[at], self._reads[at], self._ahead[at]
            if reads is not None:
                if following >= 0 and reads >> following & 1:
                    out[step.ways[0]] = None
            elif not step.ways:
                return tuple(out), True
            elif ahead is None or (following >= 0 and bool(ahead >> following & 1)) != step.negative:
                stack.extend(reversed(step.ways))
        return tuple(out), False

    def starts(self, following: int) -> Iterator[_Stage]:
        """How a piece may begin with a character: as a match, or as text between two matches."""
        places, _ = self.after(self.start, following)
        if places:
            yield _Stage(places, ())
        yield _Stage(_BETWEEN, tuple(sorted(places)))

    def moved(self, stage: _Stage, following: int) -> _Stage | None:
        """The stage after a character within a piece; None: the guesses were wrong."""
        forbidden = self._still(stage.forbidden, following)
        if forbidden is None:
            return None
        if stage.places == _BETWEEN:
            begun, _ = self.after(self.start, following)
            return _Stage(_BETWEEN, tuple(sorted({*forbidden, *begun})))
        places, _ = self.after(stage.places, following)
        return _Stage(places, forbidden) if places else None

    def cut(self, stage: _Stage, following: int) -> Iterator[_Stage]:
        """The stages after a border and then the character."""
        forbidden = self._still(stage.forbidden, following)
        if forbidden is None:
            return
        preferred: Places = ()
        between = stage.places == _BETWEEN
        if not between:
            preferred, matched = self.after(stage.places, following)
            if not matched:
                return
        for new in self.starts(following):
            if not (between and new.places == _BETWEEN):
                yield _Stage(new.places, tuple(sorted({*forbidden, *preferred, *new.forbidden})))

    def _still(self, forbidden: Places, following: int) -> Places | None:
        """The forbidden places after a character, or None if one of them has matched."""
        if not forbidden:
            return ()
        places, matched = self.after(forbidden, following)
        return None if matched else tuple(sorted(places))

    def may_end(self, stage: _Stage) -> bool:
        """Whether the text may end here."""
        if stage.forbidden and self.after(stage.forbidden, END)[1]:
            return False
        return stage.places == _BETWEEN or self.after(stage.places, END)[1]


class Splitter:
    """The automaton; see the module docstring. States are numbers, 0 is the beginning of a text.

    Attributes:
        classes: of the characters.
    """

    def __init__(self, splits: Sequence[Split]) -> None:
        programs = [_Program(split) for split in splits]
        self.classes = CharacterClasses(r for p in programs for s in p.steps for r in (s.ranges, s.beside) if r)
        self._patterns = [_Pattern(program, self.classes) for program in programs]
        self._states: list[_State | None] = [None]
        self._numbers: dict[_State, int] = {}
        self._alive: dict[int, bool] = {}
        self._moves: dict[tuple[int, int], int | None] = {}
        self._cuts: dict[tuple[int, int], tuple[int, ...]] = {}
        for split, pattern in zip(splits, self._patterns, strict=True):
            if split.whole and any(self._between(pattern)):
                raise _unsupported("leaves text out, which is dropped", split.pattern)

    def moved(self, state: int, following: int) -> int | None:
        """The state after a character of a class that continues the word, or None if it cannot."""
        key = state, following
        if key not in self._moves:
            self._moves[key] = next(iter(self._checked([self._moved(state, following)])), None)
        return self._moves[key]

    def cut(self, state: int, following: int) -> tuple[int, ...]:
        """The states after a character of a class with which a word begins."""
        key = state, following
        if key not in self._cuts:
            self._cuts[key] = tuple(dict.fromkeys(self._checked(self._split_at_border(state, following))))
        return self._cuts[key]

    def may_end(self, state: int) -> bool:
        """Whether the text may end here."""
        stages = self._states[state]
        return stages is None or all(p.may_end(s) for p, s in zip(self._patterns, stages, strict=True))

    def may_cut(self, state: int) -> bool:
        """Whether the word may end here."""
        return self.may_end(state) or any(self.cut(state, one) for one in range(self.classes.count))

    def _checked(self, states: Iterable[_State | None]) -> Iterator[int]:
        """The numbers of the states from which an end can be reached."""
        for state in states:
            if state is not None and self._is_alive(number := self._number(state)):
                yield number

    def _number(self, state: _State) -> int:
        if state not in self._numbers:
            if len(self._states) > MOST:
                raise LimitExceeded("states", len(self._states), MOST)
            self._numbers[state] = len(self._states)
            self._states.append(state)
        return self._numbers[state]

    def _is_alive(self, number: int) -> bool:
        if number in self._alive:
            return self._alive[number]
        seen, queue = {number: None}, [number]
        for at in queue:  # grows while it is read
            if self._alive.get(at) or self.may_end(at):
                self._alive[number] = True
                return True
            for following in range(self.classes.count):
                for state in (self._moved(at, following), *self._split_at_border(at, following)):
                    if state is not None and (new := self._number(state)) not in seen and self._alive.get(new, True):
                        seen[new] = None
                        queue.append(new)
        self._alive.update(dict.fromkeys(seen, False))
        return False

    def _moved(self, number: int, following: int) -> _State | None:
        stages = self._states[number]
        if stages is None:
            return None
        after = [p.moved(s, following) for p, s in zip(self._patterns, stages, strict=True)]
        return None if None in after else tuple(after)  # type: ignore[arg-type]

    def _split_at_border(self, number: int, following: int) -> Iterator[_State]:
        """For each pattern that may be the first with a border here: earlier patterns continue, later ones end."""
        stages = self._states[number]
        if stages is None:
            yield from product(*(p.starts(following) for p in self._patterns))
            return
        for at, pattern in enumerate(self._patterns):
            after = [p.moved(s, following) for p, s in zip(self._patterns[:at], stages[:at], strict=True)]
            later = zip(self._patterns[at + 1 :], stages[at + 1 :], strict=True)
            if None in after or not all(p.may_end(s) for p, s in later):
                continue
            begun = [p.starts(following) for p in self._patterns[at + 1 :]]
            for new in product(pattern.cut(stages[at], following), *begun):
                yield (*after, *new)  # type: ignore[arg-type]

    def _between(self, pattern: _Pattern) -> Iterator[bool]:
        """For each class, whether a piece between two matches may begin with it."""
        alone = Splitter.__new__(Splitter)
        alone.classes, alone._patterns, alone._states = self.classes, [pattern], [None]
        alone._numbers, alone._alive, alone._moves, alone._cuts = {}, {}, {}, {}
        for one in range(self.classes.count):
            yield any(alone._states[to][0].places == _BETWEEN for to in alone.cut(0, one))  # type: ignore[index]
