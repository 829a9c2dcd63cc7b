"""Locates values and errors in JSON text. In: a text. Out: the span of a JSON Pointer's target, or of the error in the
text.

The text is read lexeme by lexeme, together with the pointer of each value. Cost: linear in the text, and only paid if
an error shows a location. The standard library reports syntax errors, with their locations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from guided.errors import SpecError, brief

__all__ = [
    "NOT_FINITE",
    "ScalarScanner",
    "escape",
    "json_error",
    "locate",
    "pointer_of",
    "reference_target",
    "scalar_spans",
    "syntax_error",
    "syntax_hint",
]

NOT_FINITE = "JSON has no NaN and no infinities: leave the bound out, or write a finite number"
_PYTHON_LITERALS = ("True", "False", "None")
_TRAILING_COMMA = re.compile(r",\s*[\]}]")  # Python 3.13 and later report this comma


def escape(key: str) -> str:
    """A key as it is written in a JSON Pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def pointer_of(keys: Iterable[str | int]) -> str:
    """The JSON Pointer along a path of keys and indices."""
    return "".join(["/" + escape(str(key)) for key in keys])


def reference_target(document: object, reference: object) -> Any:
    """The value to which a reference within a document leads, such as `#/$defs/name`. None if there is no such value,
    and for references to anchors.
    """
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    fragment, target = unquote(reference[1:]), document
    if fragment and not fragment.startswith("/"):
        return None
    for escaped_key in fragment.split("/")[1:]:
        key = escaped_key.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping) and key in target:
            target = target[key]
        elif isinstance(target, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(target):
            target = target[int(key[:9])]
        else:
            return None
    return target


_SPACE, _WORD_PART, _STRING_PART = map(re.compile, (r"[ \t\n\r]*+", r'[^ \t\n\r{}\[\],:"]*+', r'(?s:[^"\\]++|\\.)*+'))
_LEXEME = re.compile(r'[ \t\n\r]*("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^ \t\n\r{}\[\],:"]+)', re.DOTALL)


@dataclass(slots=True)
class _Level:
    """An open container of the text: the key or index of the current child, and where that child began."""

    is_object: bool
    start: int
    seen_keys: set[str]
    key: str | int | None = None
    child_start: int = -1


@dataclass(frozen=True, slots=True)
class _Event:
    """A finished value, or an error, with its path."""

    kind: str
    path: list[_Level]
    span: tuple[int, int]
    detail: str = ""


def _scan(text: str) -> Iterator[_Event]:
    """Yield each member (with its key) and item of a JSON text when it ends, and errors that `json_error` reports."""
    stack: list[_Level] = []
    pos, expects_key = 0, False
    while (match := _LEXEME.match(text, pos)) is not None:
        lexeme, start, pos = match[1], match.start(1), match.end()
        top = stack[-1] if stack else None
        if lexeme in ("{", "["):
            if top is not None and top.child_start < 0:
                top.child_start = start
            level = _Level(lexeme == "{", start, set())
            if lexeme == "[":
                level.key = 0
            stack.append(level)
            expects_key = lexeme == "{"
        elif lexeme in ("}", "]"):
            if top is not None and top.child_start >= 0:
                yield _Event("value", stack, (top.child_start, _strip_space_before(text, start)))
            if stack:
                stack.pop()
            expects_key = False
        elif lexeme == ",":
            if top is not None:
                yield _Event("value", stack, (top.child_start, _strip_space_before(text, start)))
                top.child_start = -1
                expects_key = top.is_object
                if isinstance(top.key, int):
                    top.key += 1
        elif expects_key and top is not None and lexeme.startswith('"'):
            key = json.loads(lexeme, strict=False)
            top.key, top.child_start, expects_key = key, start, False
            if key in top.seen_keys:
                yield _Event("duplicate", stack, (start, pos), key)
            top.seen_keys.add(key)
        elif lexeme != ":":
            if top is not None and top.child_start < 0:
                top.child_start = start
            if lexeme in ("NaN", "Infinity", "-Infinity"):
                yield _Event("constant", stack, (start, pos), lexeme)


def _strip_space_before(text: str, pos: int) -> int:
    while pos > 0 and text[pos - 1] in " \t\n\r":
        pos -= 1
    return pos


def syntax_error(error: json.JSONDecodeError, subject: str) -> SpecError:
    """The standard library's error as a SpecError with a span and a hint. `subject`: what the text is."""
    text, pos = error.doc, error.pos
    return SpecError(
        f"{subject} is not JSON: {error.msg[0].lower()}{error.msg[1:]}",
        text=text,
        span=(pos, min(pos + 1, len(text))),
        hint=syntax_hint(text, pos),
    )


def syntax_hint(text: str, pos: int) -> str:
    """What to write instead, if the syntax error at this offset is a common mistake; "" otherwise."""
    if not text.strip():
        return 'the text is empty: write a schema, such as {"type": "string"}'
    if text.startswith("'", pos):
        return "JSON writes strings and names in double quotes"
    if text.startswith(_PYTHON_LITERALS, pos):
        return "JSON writes true, false and null"
    if (text[pos : pos + 1] in ("]", "}") and text[:pos].rstrip().endswith(",")) or _TRAILING_COMMA.match(text, pos):
        return "remove the comma before the bracket"
    if text.startswith(("//", "/*", "#"), pos):
        return "JSON has no comments: use the keyword $comment"
    if text.startswith("\ufeff", pos):
        return "this is a byte order mark: open the file with encoding='utf-8-sig'"
    return ""


def json_error(text: str) -> SpecError:
    """The error for a text with a duplicate key, or with a number that is not valid JSON."""
    event = next((event for event in _scan(text) if event.kind != "value"), None)
    if event is None:
        return SpecError("the schema is not JSON", text=text)
    is_duplicate = event.kind == "duplicate"
    return SpecError(
        f"the key {brief(event.detail)} is written twice in one object" if is_duplicate
        else f"{event.detail} is not a JSON number",
        text=text, span=event.span, pointer=pointer_of(str(level.key) for level in event.path),
        hint="remove one of the two" if is_duplicate else NOT_FINITE,
    )  # fmt: skip


def locate(text: str, pointer: str) -> tuple[int, int]:
    """The span of the member (key and value) or item at a JSON Pointer; the whole text if it is missing."""
    keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    if not keys:
        return (0, len(text))
    for event in _scan(text):
        if event.kind == "value" and len(event.path) == len(keys):
            levels = zip(reversed(event.path), reversed(keys), strict=True)  # the last keys differ most often
            if all(str(level.key) == key for level, key in levels):
                return event.span
    return (0, len(text))


def scalar_spans(text: str) -> Iterator[tuple[str, int, int]]:
    """The JSON Pointer and the span of each string, number, literal and empty container of a JSON text, in order.

    Raises:
        ValueError, IndexError: the text is not JSON. Only some errors are found.
    """
    return iter(ScalarScanner().read(text, is_complete=True))


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    assert match is not None  # the pattern matches the empty text
    return match.end()


class ScalarScanner:
    """Finds the scalars of a JSON text while it grows. Cost: linear in the text.

    Attributes:
        open_start: the offset of the unfinished string, number or literal at the end of the text so far, or -1. Keys do
            not count. A number or a literal at the end counts as unfinished, because it may continue.
    """

    def __init__(self) -> None:
        self.open_start = -1
        self._start = -1  # where the unfinished lexeme begins; -1: it has not begun
        self._position = 0  # all characters before it have been read, and a lexeme that has begun continues here
        self._path: list[str | int] = []  # the key or index of each open value
        self._expects_key = False
        self._empty_start = -1  # where an empty container began

    def read(self, text: str, *, is_complete: bool = False) -> list[tuple[str, int, int]]:
        """The scalars completed since the last call, as `scalar_spans` returns them.

        `text`: the whole text so far. `is_complete`: whether the text has ended.
        """
        scalars = list[tuple[str, int, int]]()
        self.open_start = -1
        while (end := self._find_lexeme_end(text, is_complete=is_complete)) >= 0:
            start, self._start = self._start, -1
            scalars += self._read_lexeme(text[start:end], start, end)
        return scalars

    def _find_lexeme_end(self, text: str, *, is_complete: bool) -> int:
        """The end of the next lexeme, or -1 if the text does not contain its end."""
        if self._start < 0:
            self._position = _match_end(_SPACE, text, self._position)
            if self._position == len(text):
                return -1
            self._start = self._position
            self._position += text[self._start] in '{}[]:,"'
        first = text[self._start : self._start + 1]
        if first == '"':
            self._position = _match_end(_STRING_PART, text, self._position)
            if not text.startswith('"', self._position):
                self.open_start = -1 if self._expects_key else self._start
                return -1
            self._position += 1
        elif first not in "{}[]:,":
            self._position = _match_end(_WORD_PART, text, self._position)
            if self._position == len(text) and not is_complete:
                self.open_start = self._start
                return -1
        return self._position

    def _read_lexeme(self, lexeme: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        path = self._path
        if lexeme in ("{", "["):
            path.append("" if lexeme == "{" else 0)
            self._expects_key, self._empty_start = lexeme == "{", start
        elif lexeme in ("}", "]"):
            path.pop()
            if self._empty_start >= 0:
                yield pointer_of(path), self._empty_start, end
            self._expects_key, self._empty_start = False, -1
        elif lexeme == ",":
            last = path[-1]
            self._expects_key = isinstance(last, str)
            path[-1] = last if isinstance(last, str) else last + 1
        elif self._expects_key:
            path[-1], self._expects_key, self._empty_start = json.loads(lexeme), False, -1
        elif lexeme != ":":
            yield pointer_of(path), start, end
            self._empty_start = -1
