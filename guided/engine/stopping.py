"""Where a free output stops: texts, patterns and tokens, found as they are written.

In: the output's text, piece by piece. Out: the stop that ends first (of those that end there, the one that begins
first), and how much of the text no stop can still reach back into. The borders of the pieces change nothing.

A pattern's match is a piece of the text that the whole pattern matches, taken by itself: `^`, `$` and `\\b` see its
borders, not the text around it. A candidate is a matcher of ours that began at some character; those that cannot
become a match any more drop out at once, and of two in the same state the later one goes: so there are no more of them
than the pattern has states, and what is held back may still become a match, for certain. A character costs a step of
each candidate; past 4096 of them (a pattern that counts far, on a text that lets it) the output fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple, Protocol

from guided.errors import GuidedError, SpecError, brief
from guided.limits import Limits
from guided.matching.compiler import CompiledGrammar, GrammarCompiler
from guided.matching.matcher import GrammarMatcher
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Found", "Stops", "Watch"]

_PATTERNS: Final = 32
_PATTERN_LENGTH: Final = 256
_CANDIDATES: Final = 4096


class Found(NamedTuple):
    """A stop: where it ends and begins in the text, and which one it is."""

    end: int
    begin: int
    stop: str


class _Finder(Protocol):
    """Looks for stops of one kind."""

    def read(self, text: str, old: int) -> Found | None:
        """The first that ends after `old`, up to where the text was read before; `text` is the whole of it."""

    def held(self, text: str) -> int:
        """From where on the text may still become part of a stop."""


@dataclass(frozen=True, slots=True)
class Stops:
    """What ends an output besides an end token. Refused under a constraint, which says itself where it ends.

    Attributes:
        texts: end it where one of them is complete.
        token_ids: end it as an end token does.
        patterns: regular expressions (as for a constraint; at most 32, of at most 256 characters): end it where a
            piece of the text matches one as a whole.
        included: the stop remains in the text, the stop token's text too; else the text is cut before it.
        ignore_eos: end tokens end nothing, and are tokens like any other.
    """

    texts: Sequence[str] = ()
    token_ids: Sequence[int] = ()
    patterns: Sequence[str] = ()
    included: bool = False
    ignore_eos: bool = False
    grammars: tuple[CompiledGrammar, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, items in (("stop", self.texts), ("stop_regex", self.patterns)):
            if isinstance(items, str) or not all(isinstance(item, str) and item for item in items):
                raise ValueError(f"{name} is {brief(items)}, it must be a sequence of strings that are not empty")
        if len(self.patterns) > _PATTERNS:
            raise ValueError(f"stop_regex has {len(self.patterns)} patterns, at most {_PATTERNS} are allowed")
        if long := [len(pattern) for pattern in self.patterns if len(pattern) > _PATTERN_LENGTH]:
            raise ValueError(f"stop_regex has a pattern of {long[0]} characters, at most {_PATTERN_LENGTH} are allowed")
        object.__setattr__(self, "grammars", tuple(map(_compiled, self.patterns)))

    def __bool__(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.texts or self.token_ids or self.patterns or self.ignore_eos)

    def check(self, size: int) -> None:
        """ValueError: a stop token is none of the vocabulary of this size."""
        for id in self.token_ids:
            if isinstance(id, bool) or not isinstance(id, int) or not 0 <= id < size:
                raise ValueError(f"stop_token_ids holds {brief(id)}, which is no token id below {size}")


class Watch:
    """Looks for the stops of one output.

    Attributes:
        text: all that was read.
        decided: so much of it no stop can reach back into.
    """

    def __init__(self, stops: Stops) -> None:
        self.text, self.decided = "", 0
        self._finders: list[_Finder] = [_Text(text) for text in stops.texts]
        self._finders += [_Pattern(grammar) for grammar in stops.grammars]

    def read(self, piece: str, *, counts: bool = True) -> Found | None:
        """The first stop that ends in the piece of text that comes next; None too where they do not count yet."""
        old, self.text = len(self.text), self.text + piece
        found = [one for finder in self._finders if (one := finder.read(self.text, old)) is not None]
        self.decided = min((finder.held(self.text) for finder in self._finders), default=len(self.text))
        return min(found) if found and counts else None


class _Text:
    """A stop text."""

    def __init__(self, stop: str) -> None:
        self.stop = stop

    def read(self, text: str, old: int) -> Found | None:
        begin = text.find(self.stop, max(0, old - len(self.stop) + 1))
        return None if begin < 0 else Found(begin + len(self.stop), begin, self.stop)

    def held(self, text: str) -> int:
        for begin in range(max(0, len(text) - len(self.stop) + 1), len(text)):
            if self.stop.startswith(text[begin:]):
                return begin
        return len(text)


class _Pattern:
    """A stop pattern."""

    def __init__(self, grammar: CompiledGrammar) -> None:
        self.grammar = grammar
        self.candidates: list[tuple[int, GrammarMatcher]] = []  # the character each began at, in order

    def read(self, text: str, old: int) -> Found | None:
        found = None
        for at in range(old, len(text)):
            self.candidates.append((at, GrammarMatcher(self.grammar)))
            states = dict[int, tuple[int, GrammarMatcher]]()
            for begin, matcher in self.candidates:
                if matcher.accept_string(text[at]):
                    states.setdefault(matcher.state, (begin, matcher))
            self.candidates = list(states.values())
            if len(self.candidates) > _CANDIDATES:
                raise GuidedError(
                    f"the stop pattern {brief(self.grammar.source)} follows more than {_CANDIDATES} places"
                )
            if found is None:
                ended = (begin for begin, matcher in self.candidates if matcher.is_accepting())
                found = next((Found(at + 1, begin, str(self.grammar.source)) for begin in ended), None)
        return found

    def held(self, text: str) -> int:
        return self.candidates[0][0] if self.candidates else len(text)


@cache
def _compiler() -> GrammarCompiler:
    """Of single bytes: patterns are matched on text, whatever the tokens. Bounded: patterns come from strangers."""
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
    return GrammarCompiler(vocabulary, limits=Limits(states=50_000, seconds=2.0))


def _compiled(pattern: str) -> CompiledGrammar:
    grammar = _compiler().compile_regex(pattern)
    if GrammarMatcher(grammar).is_accepting():
        raise SpecError("a stop pattern that matches the empty text would stop at once", text=pattern)
    return grammar
