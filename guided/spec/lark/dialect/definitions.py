"""Statements of a Lark text with extensions. In: tokens. Out: definitions and directives.

    ?name{x}[lazy, capture="c"].2::_ : body        modifiers, parameters of a template, attributes, priority, parameter

A statement ends with its line, unless the next line begins with `|` or a parenthesis is open.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from guided.errors import SpecError

from .scan import Token

__all__ = ["ATTRIBUTES", "Definition", "Directive", "statements"]

ATTRIBUTES: Final = (
    "lazy", "suffix", "stop", "stop_capture", "capture", "max_chars", "max_tokens", "temperature",
)  # fmt: skip
_OPENING: Final = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Definition:
    """A rule or a terminal. `before`: modifiers, or `%override` and `%extend`; `after`: parameters and priority."""

    name: Token
    body: tuple[Token, ...]
    before: tuple[Token, ...] = ()
    after: tuple[Token, ...] = ()
    attributes: dict[str, Token | None] = field(default_factory=dict)
    parametric: bool = False


@dataclass(frozen=True, slots=True)
class Directive:
    """`%import`, `%ignore`, `%declare`, or options."""

    token: Token
    body: tuple[Token, ...]


def statements(source: str, tokens: Sequence[Token]) -> list[Definition | Directive]:
    """See the head.

    Raises:
        SpecError: a statement is malformed; with its place.
    """
    out: list[Definition | Directive] = []
    for line in _lines(tokens):
        if line[0].kind == "directive" and line[0].text not in ("%override", "%extend"):
            out.append(Directive(line[0], tuple(line[1:])))
        else:
            out.append(_definition(source, line))
    return out


def _lines(tokens: Sequence[Token]) -> list[list[Token]]:
    lines: list[list[Token]] = [[]]
    depth = 0
    for number, token in enumerate(tokens):
        depth = max(depth + (token.kind in _OPENING) - (token.kind in _OPENING.values()), 0)
        if token.kind == "end":
            break
        if token.kind != "newline":
            lines[-1].append(token)
        elif depth == 0 and next(each for each in tokens[number:] if each.kind != "newline").kind != "|":
            lines.append([])
    return [line for line in lines if line]


def _definition(source: str, line: list[Token]) -> Definition:
    def error(message: str, token: Token, hint: str = "") -> SpecError:
        return SpecError(message, text=source, span=token.span, hint=hint)

    at = 0
    while at < len(line) and line[at].kind in ("?", "!", "directive"):
        at += 1
    if at == len(line) or line[at].kind != "name":
        raise error("a statement begins with a name or a directive", line[min(at, len(line) - 1)], 'as start: "a"')
    before, name = tuple(line[:at]), line[at]
    after: list[Token] = []
    attributes: dict[str, Token | None] = {}
    parametric = False
    at += 1
    while at < len(line) and line[at].kind != ":":
        match line[at].kind:
            case "[":
                end = _closing(source, line, at)
                attributes = _attributes(source, line[at + 1 : end])
            case "{":
                end = _closing(source, line, at)
                after += line[at : end + 1]
            case "." | "number" as kind:
                end = at + (kind == "." and at + 1 < len(line))
                after += line[at : end + 1]
            case "::":
                end = at + 1
                if end >= len(line) or line[end].text != "_":
                    raise error("the parameter of a rule is written _", line[at], f"write {name.text}::_ : ...")
                parametric = True
            case _:
                raise error(f"':' is expected after the name {name.text}", line[at])
        at = end + 1
    if at == len(line):
        raise error(f"':' is expected after the name {name.text}", line[-1], f'as {name.text}: "a"')
    return Definition(name, tuple(line[at + 1 :]), before, tuple(after), attributes, parametric)


def _closing(source: str, line: Sequence[Token], at: int) -> int:
    for number in range(at, len(line)):
        if line[number].kind == _OPENING[line[at].kind]:
            return number
    raise SpecError(f"{line[at].kind!r} is not closed", text=source, span=line[at].span)


def _attributes(source: str, tokens: Sequence[Token]) -> dict[str, Token | None]:
    """Name -> the token of its value, or None for one without a value."""
    out: dict[str, Token | None] = {}
    groups: list[list[Token]] = [[]]
    for token in tokens:
        if token.kind == ",":
            groups.append([])
        else:
            groups[-1].append(token)
    for group in filter(None, groups):
        name = group[0].text
        if name not in ATTRIBUTES:
            close = difflib.get_close_matches(name, ATTRIBUTES, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(ATTRIBUTES)}"
            raise SpecError(f"there is no attribute {name!r}", text=source, span=group[0].span, hint=hint)
        value = group[2] if len(group) == 3 and group[1].kind == "=" else None
        if len(group) > 1 and value is None:
            raise SpecError(f"the attribute {name} is malformed", text=source, span=group[1].span, hint='name="value"')
        if name in out:
            raise SpecError(f"the attribute {name} is given twice", text=source, span=group[0].span)
        _check(source, group[0], value)
        out[name] = value
    return out


def _check(source: str, name: Token, value: Token | None) -> None:
    def refuse(expected: str) -> None:
        place = (value or name).span
        raise SpecError(f"the attribute {name.text} takes {expected}", text=source, span=place)

    match name.text:
        case "lazy":
            if value is not None:
                refuse("no value")
        case "capture":
            if value is not None and value.kind != "string":
                refuse("a string")
        case "stop_capture":
            if value is None or value.kind != "string":
                refuse("a string")
        case "suffix" | "stop":
            if value is None or value.kind not in ("string", "regex", "name"):
                refuse("a string, a regular expression, or a terminal")
        case "max_chars" | "max_tokens":
            if value is None or not value.text.isdigit() or len(value.text) > 9:
                refuse("a number from 0 on")
        case "temperature":
            if value is None or value.kind != "number" or value.text.startswith("-"):
                refuse("a number from 0 on")
