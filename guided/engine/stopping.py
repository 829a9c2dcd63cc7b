"""The stop conditions of an output, and the search for stop strings and stop patterns in its growing text.

In: the text of the output, in pieces as it is written. Out: the match that ends first (if several end at the same
character, the one that begins first), and how much of the text can no longer belong to any match. The result does not
depend on how the text is divided into pieces.

A stop pattern matches a substring in isolation: `^`, `$` and `\\b` refer to the boundaries of the substring, not to the
text around it. A *candidate* is a matcher that was started at some character. Candidates that can no longer match are
dropped at once. If two are in the same state, only the earlier one is kept, so there are never more candidates than the
pattern has states. Text is withheld only as long as some candidate can still complete a match.

Cost: one step per character for each stop string and each candidate. With more than 4096 candidates (a pattern with
large counts, and a text that keeps them alive) the output fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple, Protocol

from guided.errors import GuidedError, OptionError, SpecError, brief
from guided.keywords import check_token_ids
from guided.limits import Limits
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.matcher import GrammarMatcher
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["StopMatch", "StopSearch", "Stops"]

_MAX_PATTERNS: Final = 32
_MAX_PATTERN_LENGTH: Final = 256
_MAX_CANDIDATES: Final = 4096


class StopMatch(NamedTuple):
    """A match: its end and beginning in the text, and the stop string or pattern."""

    end: int
    begin: int
    stop: str


class _Finder(Protocol):
    """Looks for one stop string or one stop pattern."""

    def read(self, text: str, start: int) -> StopMatch | None:
        """Return the first match that ends after `start`.

        `text`: the whole text so far; `start`: the number of characters that were read before.
        """

    def first_undecided(self, text: str) -> int:
        """The index of the first character that may still become part of a match."""


@dataclass(frozen=True, slots=True)
class Stops:
    """Conditions that end an output, in addition to end tokens. A constraint determines the end itself, so it cannot be
    combined with stops. If its text may end anywhere, stop strings and stop patterns are possible (sequence.py).

    Attributes:
        texts: stop strings. The output ends as soon as it contains one of them.
        token_ids: tokens that end the output like an end token.
        patterns: regular expressions as for a constraint, at most 32 with at most 256 characters each. The output ends
            as soon as a substring matches one of them completely.
        includes_stop: whether the output contains the matched text, or the text of the stop token. If not, the output
            ends before this text.
        ignore_eos: whether end tokens are ordinary tokens that do not end the output.
    """

    texts: Sequence[str] = ()
    token_ids: Sequence[int] = ()
    patterns: Sequence[str] = ()
    includes_stop: bool = False
    ignore_eos: bool = False
    grammars: tuple[CompiledGrammar, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, items in (("stop", self.texts), ("stop_regex", self.patterns)):
            if isinstance(items, str) or not all(isinstance(item, str) and item for item in items):
                has_empty_text = not isinstance(items, str) and "" in items
                problem = "contains an empty string" if has_empty_text else f"is {brief(items)}"
                raise OptionError(f"{name} {problem}, but must be a sequence of nonempty strings", option=name)
        flags = {"include_stop_str_in_output": self.includes_stop, "ignore_eos": self.ignore_eos}
        for name, flag in flags.items():
            if not isinstance(flag, bool | None):
                raise OptionError(f"{name} is {brief(flag)}, but must be True or False", option=name)
        if len(self.patterns) > _MAX_PATTERNS:
            message = f"stop_regex has {len(self.patterns)} patterns, but at most {_MAX_PATTERNS} are allowed"
            raise OptionError(message, option="stop_regex")
        if long_lengths := [len(pattern) for pattern in self.patterns if len(pattern) > _MAX_PATTERN_LENGTH]:
            length = long_lengths[0]
            message = f"stop_regex has a pattern of {length} characters, but at most {_MAX_PATTERN_LENGTH} are allowed"
            raise OptionError(message, option="stop_regex")
        object.__setattr__(self, "grammars", tuple(map(_compile_pattern, self.patterns)))

    def __bool__(self) -> bool:
        """Whether there is any stop condition, or end tokens are ignored."""
        return bool(self.texts or self.token_ids or self.patterns or self.ignore_eos)

    @property
    def option(self) -> str | None:
        """The name of the option that is set, without which there would be no stops; None if there are several."""
        options = {
            "stop": self.texts,
            "stop_token_ids": self.token_ids,
            "stop_regex": self.patterns,
            "ignore_eos": self.ignore_eos,
        }
        names = [name for name, value in options.items() if value]
        return names[0] if len(names) == 1 else None

    @property
    def has_only_text_stops(self) -> bool:
        """Whether the only stop conditions are stop strings and stop patterns."""
        return not self.token_ids and not self.ignore_eos

    def check(self, size: int) -> None:
        """Raise OptionError if a stop token is not an id of a vocabulary of this size."""
        check_token_ids("stop_token_ids", self.token_ids, size)


class StopSearch:
    """Looks for stop strings and stop patterns in one output.

    Attributes:
        text: the whole text so far.
        decided_length: the number of characters that can no longer belong to a match.
    """

    def __init__(self, stops: Stops) -> None:
        self.text, self.decided_length = "", 0
        self._finders: list[_Finder] = [_TextFinder(text) for text in stops.texts]
        self._finders += [_PatternFinder(grammar) for grammar in stops.grammars]

    def read(self, piece: str, *, may_stop: bool = True) -> StopMatch | None:
        """Append a piece of the text. Return the first match that ends in it, or None.

        With may_stop=False matches are tracked but not returned, because the output is still too short to stop.
        """
        start, self.text = len(self.text), self.text + piece
        matches = [match for finder in self._finders if (match := finder.read(self.text, start)) is not None]
        self.decided_length = min(
            (finder.first_undecided(self.text) for finder in self._finders), default=len(self.text)
        )
        return min(matches) if matches and may_stop else None


class _TextFinder:
    """Finds a stop string with the algorithm of Knuth, Morris and Pratt (1977), which reads each character once."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self._matched_length = 0  # the length of the stop string's prefix with which the text ends
        self._borders = [0, 0]  # for each prefix of the stop string: the length of its longest border

    def read(self, text: str, start: int) -> StopMatch | None:
        match = None
        if not self._matched_length and text.find(self.stop[0], start) < 0:
            return None
        for index in range(start, len(text)):
            while self._matched_length and self.stop[self._matched_length] != text[index]:
                self._matched_length = self._border(self._matched_length)
            self._matched_length += self.stop[self._matched_length] == text[index]
            if self._matched_length == len(self.stop):
                match = match or StopMatch(index + 1, index + 1 - len(self.stop), self.stop)
                self._matched_length = self._border(self._matched_length)
        return match

    def first_undecided(self, text: str) -> int:
        return len(text) - self._matched_length

    def _border(self, size: int) -> int:
        """The length of a prefix's longest border. Computed on demand, since most of a long stop string is rarely
        needed."""
        for end in range(len(self._borders), size + 1):
            border = self._borders[end - 1]
            while border and self.stop[border] != self.stop[end - 1]:
                border = self._borders[border]
            self._borders.append(border + (self.stop[border] == self.stop[end - 1]))
        return self._borders[size]


class _PatternFinder:
    """Finds a stop pattern."""

    def __init__(self, grammar: CompiledGrammar) -> None:
        self.grammar = grammar
        self.candidates: list[tuple[int, GrammarMatcher]] = []  # in order, each with the index of its first character

    def read(self, text: str, start: int) -> StopMatch | None:
        match = None
        for index in range(start, len(text)):
            self.candidates.append((index, GrammarMatcher(self.grammar)))
            states = dict[int, tuple[int, GrammarMatcher]]()
            for begin, matcher in self.candidates:
                if matcher.accept_string(text[index]):
                    states.setdefault(matcher.state, (begin, matcher))
            self.candidates = list(states.values())
            if len(self.candidates) > _MAX_CANDIDATES:
                problem = f"has more than {_MAX_CANDIDATES} unfinished matches in this output: use a simpler pattern"
                raise GuidedError(f"the stop pattern {brief(self.grammar.source)} {problem}")
            if match is None:
                match_begins = (begin for begin, matcher in self.candidates if matcher.is_accepting())
                match = next((StopMatch(index + 1, begin, str(self.grammar.source)) for begin in match_begins), None)
        return match

    def first_undecided(self, text: str) -> int:
        return self.candidates[0][0] if self.candidates else len(text)


@cache
def _compiler() -> GrammarCompiler:
    """A compiler whose tokens are single bytes, since patterns match text.

    Its limits are low, because patterns are untrusted.
    """
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
    return GrammarCompiler(vocabulary, limits=Limits(states=50_000, seconds=2.0))


def _compile_pattern(pattern: str) -> CompiledGrammar:
    grammar = _compiler().compile_regex(pattern)
    if GrammarMatcher(grammar).is_accepting():
        raise SpecError("the stop pattern matches the empty text, so it would stop the output at once", text=pattern)
    return grammar
