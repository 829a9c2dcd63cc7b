"""Splits a Lark grammar with extensions into statements. In: tokens. Out: definitions and directives.

    ?name{x}[lazy, capture="c"].2::_ : body        modifiers, parameters of a template, attributes, priority, parameter

A statement ends at the end of its line, unless the next line begins with `|` or a bracket is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from guided.errors import SpecError
from guided.frontends.lark.scan import Token

from .attributes import read_attributes

__all__ = ["Definition", "Directive", "split_statements"]

_OPENING: Final = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Definition:
    """A rule or a terminal. `modifiers`: ?, !, `%override` and `%extend`; `suffix`: the tokens of the template's
    parameters and of the priority.
    """

    name: Token
    body: tuple[Token, ...]
    modifiers: tuple[Token, ...] = ()
    suffix: tuple[Token, ...] = ()
    attributes: dict[str, Token | None] = field(default_factory=dict)
    is_parametric: bool = False


@dataclass(frozen=True, slots=True)
class Directive:
    """`%import`, `%ignore`, `%declare`, or options (`%llguidance {...}`)."""

    token: Token
    body: tuple[Token, ...]


def split_statements(source: str, tokens: Sequence[Token]) -> list[Definition | Directive]:
    """See the module docstring.

    Raises:
        SpecError: a statement is malformed.
    """
    out: list[Definition | Directive] = []
    for line in _split_lines(tokens):
        if line[0].kind == "directive" and line[0].text not in ("%override", "%extend"):
            out.append(Directive(line[0], tuple(line[1:])))
        else:
            out.append(_read_definition(source, line))
    return out


def _split_lines(tokens: Sequence[Token]) -> list[list[Token]]:
    lines: list[list[Token]] = [[]]
    depth, is_complete = 0, False
    for token in tokens:
        if token.kind == "end":
            break
        if token.kind == "newline":
            is_complete = is_complete or depth == 0
            continue
        if is_complete and token.kind != "|":
            lines.append([])
        is_complete = False
        depth = max(depth + (token.kind in _OPENING) - (token.kind in _OPENING.values()), 0)
        lines[-1].append(token)
    return [line for line in lines if line]


def _read_definition(source: str, line: list[Token]) -> Definition:
    def error(message: str, token: Token, hint: str = "") -> SpecError:
        return SpecError(message, text=source, span=token.span, hint=hint)

    index = 0
    while index < len(line) and line[index].kind in ("?", "!", "directive"):
        index += 1
    if index == len(line) or line[index].kind != "name":
        raise error(
            "a statement begins with a name or a directive",
            line[min(index, len(line) - 1)],
            'write, for example, start: "a"',
        )
    modifiers, name = tuple(line[:index]), line[index]
    suffix: list[Token] = []
    attributes: dict[str, Token | None] = {}
    is_parametric = False
    index += 1
    while index < len(line) and line[index].kind != ":":
        match line[index].kind:
            case "[":
                end = _find_closing(source, line, index)
                attributes = read_attributes(source, name, line[index + 1 : end])
            case "{":
                end = _find_closing(source, line, index)
                suffix += line[index : end + 1]
            case "." | "number" as kind:
                end = index + (kind == "." and index + 1 < len(line))
                suffix += line[index : end + 1]
            case "::":
                end = index + 1
                if end >= len(line) or line[end].text != "_":
                    raise error("the parameter of a rule must be written _", line[index], f"write {name.text}::_ : ...")
                is_parametric = True
            case _:
                raise error(f"':' is expected after the name {name.text}", line[index])
        index = end + 1
    if index == len(line):
        raise error(f"':' is expected after the name {name.text}", line[-1], f'write, for example, {name.text}: "a"')
    return Definition(name, tuple(line[index + 1 :]), modifiers, tuple(suffix), attributes, is_parametric)


def _find_closing(source: str, line: Sequence[Token], opening: int) -> int:
    """The index of the first token that closes the bracket at index `opening`."""
    for index in range(opening, len(line)):
        if line[index].kind == _OPENING[line[opening].kind]:
            return index
    raise SpecError(f"{line[opening].kind!r} is not closed", text=source, span=line[opening].span)
