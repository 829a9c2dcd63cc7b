"""Pre-tokenizers: the regex by which a tokenizer cuts text into pieces before it merges bytes.

In: a published pattern, as tiktoken (`dialect="rust"`) or Hugging Face (`dialect="oniguruma"`) read it. Out: a
`Splitter`, whose `split(text)` gives pieces that join to the text.

Python's `re` has no `\\p{..}` and another `\\s`, and a class of 700 ranges is slow in it. So the alphabet is divided
instead: ASCII stays, every other character becomes one symbol that stands for its general category and for the
interval between the code points that the pattern names. Both pattern and text are translated to symbols, and a small
`re` pattern over symbols finds the same pieces. Building costs some milliseconds and no tables; splitting is `re`'s
own cost plus one dictionary look-up per character that is not ASCII.

What cannot be translated exactly (scripts, class intersections, back-references, `\\w`, `\\b`) is refused, with its
place. A pattern is trusted as its tokenizer is: `re` may take exponential time over one that was made to.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from guided.errors import VocabularyError
from guided.vocabulary.categories import CATEGORIES, category

__all__ = ["PATTERNS", "Dialect", "Splitter"]

Dialect: TypeAlias = Literal["rust", "oniguruma"]

_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORDS = r"|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s"
    r"|%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# The published patterns by the names that model files use; a splitter applies them one after another.
PATTERNS: Final[dict[str, tuple[str, ...]]] = {
    "gpt2": (_GPT2,),
    "smollm": (r"\p{N}", _GPT2),
    "llama3": (_CONTRACTION + _WORDS % r"\p{N}{1,3}",),
    "qwen2": (_CONTRACTION + _WORDS % r"\p{N}",),
    "qwen35": (
        _CONTRACTION
        + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
        r"|\s+(?!\S)|\s",
    ),
    "o200k": (_CASED % (_CONTRACTION + "?", _CONTRACTION + "?", r"\p{N}{1,3}"),),
    "tekken": (_CASED % ("", "", r"\p{N}"),),
}

_SYMBOLS_START = 0xF0000  # planes 15 and 16: private use, 131,068 symbols
_SYMBOLS_END = 0x10FFFD
_CLASSES: Final = (*CATEGORIES, "Cc/space")  # U+0085 is the one control character past ASCII that is white space
_WIDTH = len(_CLASSES)
_ASCII_SPACE = frozenset("\t\n\v\f\r ")
_MAX_PATTERN = 100_000
_MAX_GROUPS = 80  # nesting; `re` compiles recursively
_PROPERTY = re.compile(r"\\([pP])(?:\{(\^?)([A-Za-z&_]+)\}|([A-Za-z]))")
_CODE_POINT = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|[xu]\{([0-9A-Fa-f]{1,6})\})")
_COUNT = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}")
_CONTROL = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11, "a": 7, "e": 27}
_SHORTHAND = {"s": ("Space", False), "S": ("Space", True), "d": ("Nd", False), "D": ("Nd", True)}
_OPENERS = ("(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>")


def _members(name: str) -> Callable[[str], bool] | None:
    """The predicate of a property over `_CLASSES` names, or None where the property is not known."""
    if name == "Space":
        return lambda label: label[0] == "Z" or label == "Cc/space"
    if name in ("L&", "LC"):
        return lambda label: label in ("Lu", "Ll", "Lt")
    if name in CATEGORIES or name in {label[0] for label in CATEGORIES}:
        return lambda label: label.startswith(name)
    return None


@dataclass(slots=True)
class _Set:
    """A character class before the alphabet is known: ranges and properties, possibly complemented."""

    ranges: list[tuple[int, int]]
    properties: list[tuple[str, bool]]
    negated: bool = False

    def named(self, code_point: int) -> bool:
        """Whether one of the ranges holds `code_point`."""
        return any(low <= code_point <= high for low, high in self.ranges)

    def contains(self, code_point: int, label: str, named: bool) -> bool:
        """Whether the set holds `code_point`, whose category (or space class) is `label`."""
        inside = named or any(_has_property(name, code_point, label) != no for name, no in self.properties)
        return inside != self.negated


def _has_property(name: str, code_point: int, label: str) -> bool:
    if name == "Space" and code_point < 128:
        return chr(code_point) in _ASCII_SPACE
    members = _members(name)
    assert members is not None  # checked when the pattern was read
    return members(label)


class Splitter:
    """Cuts text where `pattern` matches; what lies between matches is a piece too, so nothing is lost.

    Raises:
        VocabularyError: the pattern has a construct that is not translated; the message says which and where.
    """

    def __init__(self, pattern: str, *, dialect: Dialect = "rust") -> None:
        self.pattern = pattern
        parts = _Translation(pattern, dialect).parts
        self._bounds = sorted(
            {edge for part in parts if isinstance(part, _Set) for low, high in part.ranges for edge in (low, high + 1)}
            | {128}
        )
        self._bounds = [edge for edge in self._bounds if edge >= 128]
        if len(self._bounds) * _WIDTH > _SYMBOLS_END - _SYMBOLS_START:
            raise VocabularyError(f"the pre-tokenizer pattern names too many characters: {len(self._bounds)} intervals")
        self._symbols = _Symbols(self._bounds)
        source = "".join(part if isinstance(part, str) else self._render(part) for part in parts)
        try:
            self._regex = re.compile(source)
        except (re.error, OverflowError, RecursionError) as error:
            raise VocabularyError(f"the pre-tokenizer pattern {pattern[:200]!r} is not valid: {error}") from None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """The (start, end) of each match that is not empty, from left to right."""
        symbols = text if text.isascii() else text.translate(self._symbols)
        return (match.span() for match in self._regex.finditer(symbols) if match.end() > match.start())

    def split(self, text: str) -> list[str]:
        """The pieces; they join to `text`."""
        pieces, position = [], 0
        for start, end in self.spans(text):
            if start > position:
                pieces.append(text[position:start])
            pieces.append(text[start:end])
            position = end
        if position < len(text):
            pieces.append(text[position:])
        return pieces

    def merged(self, text: str, behavior: str, invert: bool) -> list[str]:
        """The pieces, with each match ("Isolated") alone or joined to its neighbour ("MergedWithPrevious"/"...Next").

        With `invert` what lies between the matches plays their part.
        """
        parts: list[tuple[str, bool]] = []
        position = 0
        for start, end in (*self.spans(text), (len(text), len(text))):
            parts += [(text[position:start], invert), (text[start:end], not invert)]
            position = end
        parts = [(part, matched) for part, matched in parts if part]
        if behavior == "Isolated":
            return [part for part, _ in parts]
        out: list[str] = []
        before = behavior == "MergedWithPrevious"
        open_ended = False  # the last piece still takes the part that follows
        for part, matched in parts:
            if open_ended and matched == before:
                out[-1] += part
            else:
                out.append(part)
            open_ended = matched != before
        return out

    def _render(self, item: _Set) -> str:
        """The set as a class of `re` over symbols."""
        found = [code for code in range(128) if item.contains(code, category(code), item.named(code))]
        for interval, code_point in enumerate(self._bounds):
            base, named = _SYMBOLS_START + interval * _WIDTH, item.named(code_point)
            found += [base + k for k, label in enumerate(_CLASSES) if item.contains(code_point, label, named)]
        if not found:
            return "(?!)"
        runs: list[list[int]] = []
        for code in found:
            if runs and runs[-1][1] == code - 1:
                runs[-1][1] = code
            else:
                runs.append([code, code])
        return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in runs) + "]"


class _Symbols(dict[int, int]):
    """Code point -> symbol, filled as characters are met (at most one entry per code point that is not ASCII)."""

    def __init__(self, bounds: list[int]) -> None:
        super().__init__((code, code) for code in range(128))
        self._bounds = bounds

    def __missing__(self, code_point: int) -> int:
        label = "Cc/space" if code_point == 0x85 else category(code_point)
        interval = bisect_right(self._bounds, code_point) - 1
        symbol = self[code_point] = _SYMBOLS_START + interval * _WIDTH + _CLASSES.index(label)
        return symbol


class _Translation:
    """One pass over the pattern: text that `re` takes as it is, and sets to be rendered."""

    def __init__(self, pattern: str, dialect: Dialect) -> None:
        if len(pattern) > _MAX_PATTERN:
            raise VocabularyError(f"the pre-tokenizer pattern has {len(pattern)} characters, more than {_MAX_PATTERN}")
        self.pattern, self.dialect, self.position = pattern, dialect, 0
        self.parts: list[str | _Set] = []
        self.ignore_case = [False]
        while self.position < len(pattern):
            self._item(pattern[self.position])
        if len(self.ignore_case) > 1:
            raise self._error("a group is not closed")

    def _error(self, message: str) -> VocabularyError:
        return VocabularyError(
            f"the pre-tokenizer pattern cannot be used: {message} at offset {self.position} of {self.pattern[:200]!r}"
        )

    def _item(self, char: str) -> None:
        if char == "(":
            self._open()
        elif char == ")":
            if len(self.ignore_case) == 1:
                raise self._error("an unopened group is closed")
            self.ignore_case.pop()
            self._emit(")", 1)
        elif char in "*+?{":
            self._quantifier(char)
        elif char == "|":
            self._emit("|", 1)
        elif char in "^$":
            self._anchor(char)
        elif char == "[":
            self.parts.append(self._class())
        elif char == ".":
            self._emit(_Set([(10, 10)], [], negated=True), 1)
        elif (found := self._property_or_shorthand()) is not None:
            self.parts.append(_Set([], [found]))
        else:
            code_point = self._literal()
            self.parts.append(_Set(self._folded(code_point, code_point), []))

    def _emit(self, part: str | _Set, width: int) -> None:
        self.parts.append(part)
        self.position += width

    def _anchor(self, char: str) -> None:
        if self.dialect == "oniguruma":
            raise self._error(f"the line anchor {char!r}")
        self._emit(r"\A" if char == "^" else r"\Z", 1)

    def _open(self) -> None:
        if len(self.ignore_case) > _MAX_GROUPS:
            raise self._error(f"groups nest deeper than {_MAX_GROUPS}")
        rest = self.pattern[self.position : self.position + 4]
        if rest == "(?i:":
            self.ignore_case.append(True)
            return self._emit("(?:", 4)
        self.ignore_case.append(self.ignore_case[-1])
        for opener in _OPENERS:
            if rest.startswith(opener):
                return self._emit(opener, len(opener))
        if rest.startswith("(?"):
            raise self._error(f"the group {rest!r}")
        return self._emit("(?:", 1)

    def _quantifier(self, char: str) -> None:
        if not self.parts or self.parts[-1] in ("|", "(?:", *_OPENERS):
            raise self._error("nothing to repeat")
        text = char
        if char == "{":
            match = _COUNT.match(self.pattern, self.position)
            if match is None:
                raise self._error("a brace that is not a count")
            text = match[0]
        after = self.pattern[self.position + len(text) : self.position + len(text) + 1]
        if after == "+" and char == "{" and self.dialect == "oniguruma":
            raise self._error("'+' after a count")  # there it repeats the repetition, elsewhere it is possessive
        self._emit(text + (after if after in ("+", "?") and after else ""), len(text) + (after in ("+", "?") and 1))

    def _property_or_shorthand(self) -> tuple[str, bool] | None:
        """`\\p{..}`, `\\s`, `\\d` and their complements as (name, negated); None where something else stands."""
        if self.pattern[self.position] != "\\":
            return None
        kind = self.pattern[self.position + 1 : self.position + 2]
        if kind in _SHORTHAND:
            self.position += 2
            return _SHORTHAND[kind]
        match = _PROPERTY.match(self.pattern, self.position)
        if match is None:
            return None
        name = match[3] or match[4]
        if _members(name) is None:
            raise self._error(f"the property {match[0]}, which is not a general category,")
        if self.ignore_case[-1] and name not in ("L", "M", "N", "P", "S", "Z", "C", "Nd", "Space"):
            raise self._error(f"{match[0]} where case is ignored")
        self.position = match.end()
        return name, (match[1] == "P") != bool(match[2])

    def _literal(self) -> int:
        """One character, written as itself or escaped."""
        char = self.pattern[self.position]
        if char != "\\":
            self.position += 1
            return ord(char)
        if match := _CODE_POINT.match(self.pattern, self.position):
            code_point = int(match[1] or match[2] or match[3], 16)
            if code_point > 0x10FFFF:
                raise self._error("a code point past U+10FFFF")
            self.position = match.end()
            return code_point
        escaped = self.pattern[self.position + 1 : self.position + 2]
        if escaped in _CONTROL:
            self.position += 2
            return _CONTROL[escaped]
        if not escaped or escaped.isalnum() or not escaped.isascii():
            raise self._error("the escape \\" + escaped)
        self.position += 2
        return ord(escaped)

    def _class(self) -> _Set:
        """`[...]`, which may hold characters, ranges and properties, and nothing nested."""
        self.position += 1
        item = _Set([], [])
        if self.pattern[self.position : self.position + 1] == "^":
            item.negated = True
            self.position += 1
        first = True
        while (char := self.pattern[self.position : self.position + 1]) != "]" or first:
            if not char:
                raise self._error("a class is not closed")
            two = self.pattern[self.position : self.position + 2]
            if char in "[]" or two in ("&&", "--", "~~"):
                raise self._error(f"{two if char in '&-~' else char!r} inside a class")
            first = False
            if (found := self._property_or_shorthand()) is not None:
                item.properties.append(found)
                continue
            low = high = self._literal()
            rest = self.pattern[self.position : self.position + 2]
            if rest[:1] == "-" and rest != "-]" and len(rest) == 2:
                self.position += 1
                if self.pattern[self.position] == "[" or self._property_or_shorthand() is not None:
                    raise self._error("a range that does not end in a character")
                high = self._literal()
                if high < low:
                    raise self._error("a range that runs backwards")
            item.ranges += self._folded(low, high)
        self.position += 1
        return item

    def _folded(self, low: int, high: int) -> list[tuple[int, int]]:
        """The range, with the other case of its letters where case is ignored (simple folding of ASCII letters)."""
        if not self.ignore_case[-1]:
            return [(low, high)]
        if high > 127:
            raise self._error("a character that is not ASCII where case is ignored")
        out = [(low, high)]
        for code_point in range(low, high + 1):
            char = chr(code_point)
            if char.isalpha():
                twins = {char.lower(), char.upper()} | ({"\u017f"} if char in "sS" else set())
                twins |= {"\u212a"} if char in "kK" else set()
                out += [(ord(twin), ord(twin)) for twin in twins]
        return out
