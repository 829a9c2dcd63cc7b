"""The lines of --batch: JSON objects with one request each. They are checked before a model is loaded.

In: a file of JSON lines. Out: `Line`s. Each contains a request, or an error with its position. Empty lines are skipped.
The compiler checks specifications later, and the engine checks the values of options.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from guided.cli.options import GRAMMAR_OPTIONS, LINE_OPTIONS, read_line_options
from guided.close_names import find_closest_name
from guided.errors import GuidedError, LimitExceeded, SpecError, UnsupportedError, brief
from guided.frontends.json_schema.documents.source_spans import locate
from guided.frontends.json_schema.documents.values import read_json
from guided.frontends.pattern import is_element
from guided.limits import Limits

__all__ = ["SPECIFICATIONS", "Line", "read_lines"]

_PROMPTS: Final = ("prompt", "messages")
SPECIFICATIONS: Final = ("schema", "regex", "lark", "gbnf", "grammar", "structural_tag", "choice", "pattern")
"""The kinds of specification that a line can contain."""
_OBJECT_KINDS: Final = ("schema", "structural_tag")
_MEMBERS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {  # what the value must be, and a check of it
    "id": ("a string or an integer", lambda v: isinstance(v, str | int) and not isinstance(v, bool)),
    "prompt": ("a string", lambda v: isinstance(v, str)),
    "messages": ("a list of messages", lambda v: isinstance(v, list) and all(isinstance(m, dict) for m in v)),
    "schema": ("a JSON Schema: an object or a boolean", lambda v: isinstance(v, dict | bool)),
    "regex": ("a regular expression", lambda v: isinstance(v, str)),
    "lark": ("the text of a Lark grammar", lambda v: isinstance(v, str)),
    "gbnf": ("the text of a GBNF grammar", lambda v: isinstance(v, str)),
    "grammar": ("the name of a grammar that comes with guided", lambda v: isinstance(v, str)),
    "structural_tag": ("a structural tag: an object", lambda v: isinstance(v, dict)),
    "choice": ("a list of strings", lambda v: isinstance(v, list) and all(isinstance(c, str) for c in v)),
    "pattern": ('a list of pairs such as ["UPPER", "+"]', lambda v: isinstance(v, list) and all(map(is_element, v))),
}
_OPTIONS: Final = frozenset({*LINE_OPTIONS, *GRAMMAR_OPTIONS})
_FORBIDDEN_HINTS: Final = {
    "allow_special_tokens": "a line may be untrusted; --allow-special-tokens on the command line allows control tokens "
    "in all lines",
    "import_paths": "a line has no folder; put the imported grammars into 'grammars', and refer to them as @name",
}
"""Arguments that a line cannot contain, and what to do instead."""
_MIN_SIMILARITY: Final = 0.8  # suggest only keys that are at least this similar
_LINE_FORM_HINT: Final = 'each line holds one request, a JSON object such as {"prompt": "..."}'
_ID_HINT: Final = "give every line an id, or none"
_KEY: Final = re.compile(r'"(?:[^"\\]|\\.)*"\s*:\s*')


@dataclass(frozen=True, slots=True)
class Line:
    """A request in the file.

    Attributes:
        number: the line number in the file, from 1.
        text: the line.
        id: the id of the answer: the id in the line, otherwise the line number; "line 3" if the line cannot be read.
        prompt: a string, or messages; None if there is an error.
        kind: the kind of the line's own specification, such as "schema" or "structural_tag"; "": none.
        value: the specification. A schema or a structural tag is kept as text, which preserves all digits of numbers.
        value_offset: the offset in the line at which the text of a schema or a structural tag begins.
        options: the options in the line, including n.
        error: the error in the line; its span refers to `text`.
    """

    number: int
    text: str
    id: str | int
    prompt: str | list[dict[str, str]] | None = None
    kind: str = ""
    value: Any = None
    value_offset: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    error: GuidedError | None = None

    def with_position(self, error: Exception) -> Exception:
        """Convert an error in the line's specification to an error with a position in the line."""
        if (
            self.kind not in _OBJECT_KINDS
            or not isinstance(error, SpecError | UnsupportedError)
            or error.text != self.value
        ):
            return error
        span = (error.span[0] + self.value_offset, error.span[1] + self.value_offset)
        pointer = f"/{self.kind}{error.pointer}"
        if isinstance(error, SpecError):
            return SpecError(error.message, text=self.text, span=span, pointer=pointer, hint=error.hint)
        return UnsupportedError(error.reason, text=self.text, span=span, pointer=pointer, hint=error.hint)


def read_lines(text: str) -> list[Line]:
    """All requests of a file."""
    first_lines = dict[str | int, Line]()
    return [_check_id(line, first_lines) for line in _iterate_lines(text)]


def _iterate_lines(text: str) -> Iterator[Line]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip(" \t\r"):
            yield _read_line(number, line.rstrip("\r"))


def _check_id(line: Line, first_lines: dict[str | int, Line]) -> Line:
    if line.error is not None or (first_line := first_lines.setdefault(line.id, line)) is line:
        return line
    message = f"line {first_line.number} has the same id {line.id!r}"
    if not _has_id(line):
        message = f"the line has no id, so its id is its number, but {message}"
        return replace(line, error=SpecError(message, hint=_ID_HINT))
    if not _has_id(first_line):
        message = f"{message}: it has no id, so its id is its number"
        return replace(line, error=_make_member_error(line.text, "id", message, _ID_HINT))
    return replace(line, error=_make_member_error(line.text, "id", message))


def _has_id(line: Line) -> bool:
    return json.loads(line.text).get("id") is not None


def _read_line(number: int, text: str) -> Line:
    id: str | int = f"line {number}"  # until the id is read
    try:
        try:
            read_json(text, Limits(), "the line")
        except LimitExceeded as error:
            raise SpecError(str(error)) from None
        except SpecError as error:
            raise SpecError(
                error.message, text=error.text, span=error.span, hint=error.hint or _LINE_FORM_HINT
            ) from None
        members = json.loads(text)
        if not isinstance(members, dict):
            raise SpecError("a request must be a JSON object", text=text, hint=_LINE_FORM_HINT)
        members = {name: value for name, value in members.items() if value is not None}
        if _MEMBERS["id"][1](line_id := members.get("id", number)):
            id = line_id
        _check_members(text, members)
        return _read_request(number, text, id, members)
    except ValueError as error:  # an integer with more digits than Python accepts
        return Line(number, text, id, error=SpecError(str(error)))
    except SpecError as error:
        return Line(number, text, id, error=error)


def _read_request(number: int, text: str, id: str | int, members: dict[str, Any]) -> Line:
    try:
        options = read_line_options({name: value for name, value in members.items() if name in _OPTIONS})
    except TypeError as error:
        name, expected = error.args
        raise _make_member_error(text, name, f"{name} must be {expected}, not {_shorten(members[name])}") from None
    kind = next((name for name in SPECIFICATIONS if name in members), "")
    value, value_offset = members.get(kind), 0
    if kind in _OBJECT_KINDS:
        start, end = locate(text, f"/{kind}")
        key = _KEY.match(text, start)
        value_offset = key.end() if key is not None else start
        value = text[value_offset:end]
    prompt = members.get("prompt", members.get("messages"))
    return Line(number, text, id, prompt, kind, value, value_offset, options)


def _check_members(text: str, members: dict[str, Any]) -> None:
    """Check the names and types of members, and that there is exactly one prompt and at most one specification."""
    for name, value in members.items():
        if name not in _MEMBERS and name not in _OPTIONS:
            similar_name = find_closest_name(name, [*_MEMBERS, *_OPTIONS], cutoff=_MIN_SIMILARITY)
            hint = _FORBIDDEN_HINTS.get(name, f"did you mean {similar_name!r}?" if similar_name else "")
            raise _make_member_error(text, name, f"a request cannot have {brief(name)}", hint)
        if name in _MEMBERS and not _MEMBERS[name][1](value):
            raise _make_member_error(text, name, f"{name} must be {_MEMBERS[name][0]}, not {_shorten(value)}")
    if not any(name in members for name in _PROMPTS):
        raise SpecError("a request needs a prompt or messages", text=text)
    for names in (_PROMPTS, SPECIFICATIONS):
        if len(present_names := [name for name in names if name in members]) > 1:
            raise _make_member_error(
                text, present_names[1], f"{present_names[0]} and {present_names[1]} cannot both be given"
            )


def _make_member_error(text: str, name: str, message: str, hint: str = "") -> SpecError:
    pointer = f"/{name.replace('~', '~0').replace('/', '~1')}"
    return SpecError(message, text=text, span=locate(text, pointer), pointer=pointer, hint=hint)


def _shorten(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}..."
