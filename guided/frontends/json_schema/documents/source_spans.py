"""Locations in JSON text. In: a text. Out: the span of a JSON Pointer's target, or of the part that the parser refused.

The text is read token by token, together with the pointer of each value. Cost: linear in the text, and only paid if an
error shows a location. Text that is not JSON is left to the standard library, which reports the location itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from guided.errors import SpecError

__all__ = ["NOT_FINITE", "ScalarScanner", "escape", "json_error", "locate", "pointer_of", "scalar_spans", "syntax_hint"]

NOT_FINITE = "JSON has no NaN and no infinities: leave the bound out, or write a finite number"
_PYTHON = ("True", "False", "None")
_LAST_COMMA = re.compile(r",\s*[\]}]")  # Python 3.13 and later report this comma


def escape(token: str) -> str:
    """A key as a reference token of a JSON Pointer."""
    return token.replace("~", "~0").replace("/", "~1")


def pointer_of(tokens: Iterable[str | int]) -> str:
    """The JSON Pointer of some tokens."""
    return "".join(["/" + escape(str(token)) for token in tokens])


_TOKEN = re.compile(r'[ \t\n\r]*("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^ \t\n\r{}\[\],:"]+)', re.DOTALL)


@dataclass(slots=True)
class _Level:
    """An open container of the text: the key or index of the current child, and where that child began."""

    is_object: bool
    start: int
    keys: set[str]
    token: str | int | None = None
    child: int = -1


@dataclass(frozen=True, slots=True)
class _Event:
    """A finished value, or an error, with its path."""

    kind: str
    path: list[_Level]
    span: tuple[int, int]
    detail: str = ""


def _scan(text: str) -> Iterator[_Event]:
    """Every member (with its key) and item of a JSON text as it ends, and the errors that `json_error` reports."""
    stack: list[_Level] = []
    at, expect_key = 0, False
    while (match := _TOKEN.match(text, at)) is not None:
        lexeme, start, at = match[1], match.start(1), match.end()
        top = stack[-1] if stack else None
        if lexeme in ("{", "["):
            if top is not None and top.child < 0:
                top.child = start
            level = _Level(lexeme == "{", start, set())
            if lexeme == "[":
                level.token = 0
            stack.append(level)
            expect_key = lexeme == "{"
        elif lexeme in ("}", "]"):
            if top is not None and top.child >= 0:
                yield _Event("value", stack, (top.child, _end(text, start)))
            if stack:
                stack.pop()
            expect_key = False
        elif lexeme == ",":
            if top is not None:
                yield _Event("value", stack, (top.child, _end(text, start)))
                top.child = -1
                expect_key = top.is_object
                if isinstance(top.token, int):
                    top.token += 1
        elif expect_key and top is not None and lexeme.startswith('"'):
            key = json.loads(lexeme, strict=False)
            top.token, top.child, expect_key = key, start, False
            if key in top.keys:
                yield _Event("duplicate", stack, (start, at), key)
            top.keys.add(key)
        elif lexeme != ":":
            if top is not None and top.child < 0:
                top.child = start
            if lexeme in ("NaN", "Infinity", "-Infinity"):
                yield _Event("constant", stack, (start, at), lexeme)


def _end(text: str, at: int) -> int:
    while at > 0 and text[at - 1] in " \t\n\r":
        at -= 1
    return at


def syntax_hint(text: str, at: int) -> str:
    """What to write instead, if a text that is not JSON has a common mistake at this offset; "" otherwise."""
    if not text.strip():
        return 'the text is empty: write a schema, such as {"type": "string"}'
    if text.startswith("'", at):
        return "JSON writes strings and names in double quotes"
    if text.startswith(_PYTHON, at):
        return "JSON writes true, false and null"
    if (text[at : at + 1] in ("]", "}") and text[:at].rstrip().endswith(",")) or _LAST_COMMA.match(text, at):
        return "remove the comma before the bracket"
    if text.startswith(("//", "/*", "#"), at):
        return "JSON has no comments: use the keyword $comment"
    if text.startswith("\ufeff", at):
        return "this is a byte order mark: open the file with encoding='utf-8-sig'"
    return ""


def json_error(text: str) -> SpecError:
    """The error for a text with a duplicate key, or with a number that is not valid JSON."""
    for event in _scan(text):
        pointer = pointer_of(str(level.token) for level in event.path)
        if event.kind == "duplicate":
            message = f"the key {event.detail!r} is written twice in one object"
            return SpecError(message, text=text, span=event.span, pointer=pointer, hint="remove one of the two")
        if event.kind == "constant":
            message = f"{event.detail} is not a JSON number"
            return SpecError(message, text=text, span=event.span, pointer=pointer, hint=NOT_FINITE)
    return SpecError("the schema is not JSON", text=text)


def locate(text: str, pointer: str) -> tuple[int, int]:
    """The span of the member (key and value) or item at a JSON Pointer; the whole text if it is missing."""
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]
    if not tokens:
        return (0, len(text))
    for event in _scan(text):
        path = event.path
        if event.kind == "value" and len(path) == len(tokens) and tokens == [str(level.token) for level in path]:
            return event.span
    return (0, len(text))


def scalar_spans(text: str) -> Iterator[tuple[str, int, int]]:
    """The JSON Pointer and the span of each string, number, literal and empty container of a JSON text, in order.

    Raises:
        ValueError, IndexError: the text is not JSON. Only some errors are found.
    """
    return iter(ScalarScanner().read(text, is_complete=True))


class ScalarScanner:
    """Finds the scalars of a JSON text while it grows. Cost: linear in the text.

    Attributes:
        open_at: the offset of the string, number or literal with which the text so far ends, or -1. Keys have none. A
            number or a literal at the end counts, because it may continue.
    """

    def __init__(self) -> None:
        self.open_at = -1
        self._at = 0  # the end of the last complete token
        self._path: list[str | int] = []  # the key or index of each open value
        self._expects_key = False
        self._empty_start = -1  # where an empty container began

    def read(self, text: str, *, is_complete: bool = False) -> list[tuple[str, int, int]]:
        """The new complete scalars, as `scalar_spans` returns them. `text`: all so far; `is_complete`: it has ended."""
        scalars = list[tuple[str, int, int]]()
        self.open_at = -1
        while (match := _TOKEN.match(text, self._at)) is not None:
            lexeme, start, end = match[1], match.start(1), match.end()
            if end == len(text) and not is_complete and lexeme[0] not in '{}[]:,"':
                self.open_at = start
                return scalars
            self._at = end
            scalars += self._read_token(lexeme, start, end)
        rest = text[self._at :].lstrip(" \t\n\r")
        if rest.startswith('"') and not self._expects_key:
            self.open_at = len(text) - len(rest)
        return scalars

    def _read_token(self, lexeme: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
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
