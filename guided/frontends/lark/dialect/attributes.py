"""Reads the attributes of rules: `rule[lazy, capture="name"]: ...`. In: the tokens between the brackets. Out: name ->
value.

    lazy, suffix=, stop=, max_chars=     change which texts the rule's terminal matches (`parts.py`)
    max_tokens=9                         limits the number of tokens in the terminal's text
    capture, capture="name"              captures the rule's text, under the rule's name or another name
    stop_capture="name"                  captures the text of the suffix
    temperature=0.7                      the sampling temperature within the rule's text

Source: llguidance, docs/syntax.md, "Lexeme options".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Final

from guided.close_names import find_closest_name
from guided.errors import SpecError
from guided.frontends.common.digits import is_number
from guided.frontends.lark.scan import Token, is_terminal

__all__ = ["RegionSource", "TerminalSource", "read_attributes"]

ATTRIBUTES: Final = (
    "lazy", "suffix", "stop", "stop_capture", "capture", "max_chars", "max_tokens", "temperature",
)  # fmt: skip


_EXAMPLES: Final = {
    **{name: f'{name}="name"' for name in ("capture", "stop_capture")},
    **{name: f'{name}="end"' for name in ("suffix", "stop")},
    **{name: f"{name}=100" for name in ("max_chars", "max_tokens")},
    "temperature": "temperature=0.7",
}
_TEMPERATURE: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?")


@dataclass(frozen=True, slots=True)
class TerminalSource:
    """A terminal that Lark sees only in `%declare`: the tokens of its expression, and the attributes of its rule."""

    tokens: tuple[Token, ...]
    lazy: bool = False
    suffix: Token | None = None
    stop: Token | None = None
    max_chars: int | None = None
    max_tokens: int | None = None


@dataclass(slots=True)
class RegionSource:
    """A rule with attributes for its text. `terminal`: the terminal that replaces the rule's body, or ""."""

    rule: Token
    attributes: Mapping[str, Token | None]
    terminal: str = ""


def read_attributes(source: str, rule: Token, tokens: Sequence[Token]) -> dict[str, Token | None]:
    """Read the attributes: name -> the token of the value, or None for an attribute without a value.

    Args:
        rule: the name of the rule.
        tokens: the tokens between the brackets.

    Raises:
        SpecError: an attribute is unknown, malformed, given twice, or incompatible with another one.
    """
    if is_terminal(rule.text):
        hint = f"write a rule, with a name in lower case: {rule.text.lower()}[...]: {rule.text}"
        raise SpecError(
            f"{rule.text} is a terminal, but only rules have attributes", text=source, span=rule.span, hint=hint
        )
    out: dict[str, Token | None] = {}
    name_tokens: dict[str, Token] = {}
    groups: list[list[Token]] = [[]]
    for token in tokens:
        if token.kind == ",":
            groups.append([])
        else:
            groups[-1].append(token)
    for group in filter(None, groups):
        name = group[0].text
        if name not in ATTRIBUTES:
            close = find_closest_name(name, ATTRIBUTES)
            hint = f"did you mean {close}?" if close else f"the attributes are {', '.join(ATTRIBUTES)}"
            raise SpecError(f"there is no attribute {name!r}", text=source, span=group[0].span, hint=hint)
        value = group[2] if len(group) == 3 and group[1].kind == "=" else None
        if len(group) > 1 and value is None:
            hint = f"write, for example, [{_EXAMPLES.get(name, name)}]"
            raise SpecError(f"the attribute {name} is malformed", text=source, span=group[1].span, hint=hint)
        if name in out:
            raise SpecError(f"the attribute {name} is given twice", text=source, span=group[0].span)
        _check_value(source, group[0], value)
        out[name] = value
        name_tokens[name] = group[0]
    _check_combinations(source, out, name_tokens)
    return out


def _check_combinations(source: str, attributes: Mapping[str, Token | None], name_tokens: Mapping[str, Token]) -> None:
    def refuse(name: str, message: str, hint: str) -> None:
        raise SpecError(message, text=source, span=name_tokens[name].span, hint=hint)

    if "suffix" in attributes and "stop" in attributes:
        refuse("stop", "a rule can have a suffix or a stop, not both", "remove one of them")
    if "stop_capture" in attributes and "stop" in attributes:
        refuse(
            "stop_capture", "the text of a stop is not written by this rule, so it cannot be captured here",
            'write suffix= instead of stop=, or a rule for the text that follows: end[capture="name"]: "..."',
        )  # fmt: skip
    if "stop_capture" in attributes and "suffix" not in attributes:
        refuse("stop_capture", "stop_capture captures the suffix, but there is none", 'add suffix="..."')


def _check_value(source: str, name: Token, value: Token | None) -> None:
    def refuse(expected: str) -> None:
        span = (value or name).span
        message = f"the attribute {name.text} takes {expected}"
        raise SpecError(
            message, text=source, span=span, hint=f"write, for example, [{_EXAMPLES.get(name.text, name.text)}]"
        )

    match name.text:
        case "lazy":
            if value is not None:
                refuse("no value")
        case "capture":
            if value is not None and (value.kind != "string" or value.text in ('""', '""i')):
                refuse("a string")
        case "stop_capture":
            if value is None or value.kind != "string" or value.text in ('""', '""i'):
                refuse("a string")
        case "suffix" | "stop":
            is_pattern = value is not None and (value.kind in ("string", "regex") or is_terminal(value.text))
            if not is_pattern:
                refuse("a string, a regular expression, or a terminal")
        case "max_chars" | "max_tokens":
            if value is None or not is_number(value.text) or len(value.text) > 9:
                refuse("a number of at least 0")
        case "temperature":
            if value is None or not _TEMPERATURE.fullmatch(value.text) or isinf(float(value.text)):
                refuse("a number of at least 0")
