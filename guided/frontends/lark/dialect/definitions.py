"""Splits a Lark text with extensions into statements. In: tokens. Out: definitions and directives.

    ?name{x}[lazy, capture="c"].2::_ : body        modifiers, parameters of a template, attributes, priority, parameter

A statement ends with its line, unless the next line begins with `|` or a parenthesis is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from guided.errors import SpecError
from guided.frontends.lark.scan import Token

from .attributes import attributes_of

__all__ = ["Definition", "Directive", "statements"]

_OPENING: Final = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Definition:
    """A rule or a terminal. `modifiers`: ?, !, `%override` and `%extend`; `suffix`: parameters and priority."""

    name: Token
    body: tuple[Token, ...]
    modifiers: tuple[Token, ...] = ()
    suffix: tuple[Token, ...] = ()
    attributes: dict[str, Token | None] = field(default_factory=dict)
    is_parametric: bool = False


@dataclass(frozen=True, slots=True)
class Directive:
    """`%import`, `%ignore`, `%declare`, or options."""

    token: Token
    body: tuple[Token, ...]


def statements(source: str, tokens: Sequence[Token]) -> list[Definition | Directive]:
    """See the module docstring.

    Raises:
        SpecError: a statement is malformed.
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
        raise error(
            "a statement begins with a name or a directive",
            line[min(at, len(line) - 1)],
            'write, for example, start: "a"',
        )
    modifiers, name = tuple(line[:at]), line[at]
    suffix: list[Token] = []
    attributes: dict[str, Token | None] = {}
    is_parametric = False
    at += 1
    while at < len(line) and line[at].kind != ":":
        match line[at].kind:
            case "[":
                end = _closing(source, line, at)
                attributes = attributes_of(source, name, line[at + 1 : end])
            case "{":
                end = _closing(source, line, at)
                suffix += line[at : end + 1]
            case "." | "number" as kind:
                end = at + (kind == "." and at + 1 < len(line))
                suffix += line[at : end + 1]
            case "::":
                end = at + 1
                if end >= len(line) or line[end].text != "_":
                    raise error("the parameter of a rule must be written _", line[at], f"write {name.text}::_ : ...")
                is_parametric = True
            case _:
                raise error(f"':' is expected after the name {name.text}", line[at])
        at = end + 1
    if at == len(line):
        raise error(f"':' is expected after the name {name.text}", line[-1], f'write, for example, {name.text}: "a"')
    return Definition(name, tuple(line[at + 1 :]), modifiers, tuple(suffix), attributes, is_parametric)


def _closing(source: str, line: Sequence[Token], at: int) -> int:
    for number in range(at, len(line)):
        if line[number].kind == _OPENING[line[at].kind]:
            return number
    raise SpecError(f"{line[at].kind!r} is not closed", text=source, span=line[at].span)
