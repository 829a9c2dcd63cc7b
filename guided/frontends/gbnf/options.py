"""Reads the options of a rule, in brackets after its name, as in xgrammar. In: the brackets. Out: the options.

    max_chars=n           at most n characters               max_tokens=n      written in at most n tokens
    capture, capture="x"  capture its text                   temperature=0.7   the sampling temperature within it
    lazy                  its text ends as early as possible

`max_chars`, `max_tokens` and `lazy` require that the rule's language is regular. Options that occur only in grammars
that xgrammar prints (`stop_capture`, `capture_hidden_...`) are not supported: they describe hidden text by byte counts
or rule numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from guided.close_names import find_closest_name
from guided.errors import SpecError, UnsupportedError
from guided.frontends.common.digits import is_number
from guided.ir.nodes import Region

from .tokens import Token

__all__ = ["RuleOptions", "read_options"]

_OPTION: Final = re.compile(r'[ \t]*+([A-Za-z_]++)[ \t]*+(?:=[ \t]*+("[^"\\\r\n]*"|[^,"\]\s]++)[ \t]*+)?(,|\])')
_UNSUPPORTED: Final = dict.fromkeys(
    (
        "stop_capture", "capture_hidden_suffix_bytes", "capture_hidden_stop_bytes", "capture_hidden_body_rule_id",
        "capture_hidden_marker_rule_id",
    ),
    (
        "captures that hide text by byte counts or rule numbers are not supported",
        "write the grammar in Lark with suffix and stop",
    ),
)  # fmt: skip
_COUNTS: Final = {"max_chars": "characters", "max_tokens": "tokens"}
_OPTION_NAMES: Final = (*_COUNTS, "capture", "temperature", "lazy", *_UNSUPPORTED)
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """The options of a rule.

    Attributes:
        max_chars: the maximum number of code points in the rule's text; None: any number.
        max_tokens: the maximum number of tokens in the rule's text; None: any number.
        capture: the name under which the rule's text is captured; empty if it is not captured.
        temperature: the sampling temperature within the rule's text; None: the temperature of the request.
        lazy: whether the rule's text ends as early as possible.
        span: the span of the brackets.
    """

    max_chars: int | None = None
    max_tokens: int | None = None
    capture: str = ""
    temperature: float | None = None
    lazy: bool = False
    span: tuple[int, int] = (0, 0)

    @property
    def is_regular(self) -> bool:
        """Whether the options require that the rule's language is regular."""
        return self.lazy or self.max_chars is not None or self.max_tokens is not None

    @property
    def region(self) -> Region | None:
        """The options that do not change the language of the rule; None if there are none."""
        if not self.capture and self.temperature is None:
            return None
        return Region(capture=self.capture, temperature=self.temperature)


def read_options(text: str, name: str, bracket: Token) -> RuleOptions:
    """Read the options in the brackets after the rule name `name`.

    Raises:
        SpecError: an option is unknown, given twice, or has a wrong value. UnsupportedError: an option is not
            supported.
    """
    pos, matches = bracket.start + 1, dict[str, re.Match[str]]()
    first_error: UnsupportedError | None = None
    while pos < bracket.end:
        match = _OPTION.match(text, pos)
        if match is None:
            raise SpecError(
                "the options of a rule are malformed", text=text, span=(pos, bracket.end), hint="write [max_chars=10]"
            )
        option = match[1]
        if option not in _OPTION_NAMES:
            close = find_closest_name(option, _OPTION_NAMES)
            hint = f"did you mean {close!r}?" if close else f"the options are {', '.join(_OPTION_NAMES[:5])}"
            raise SpecError(f"the option {option!r} is unknown", text=text, span=match.span(1), hint=hint)
        if option in matches:
            raise SpecError(f"the option {option!r} is given twice", text=text, span=match.span(1))
        matches[option] = match
        if option in _UNSUPPORTED:
            reason, hint = _UNSUPPORTED[option]
            first_error = first_error or UnsupportedError(reason, text=text, span=match.span(1), hint=hint)
        pos = match.end()
    options = RuleOptions(
        max_chars=_parse_count(text, matches.get("max_chars")),
        max_tokens=_parse_count(text, matches.get("max_tokens")),
        capture=_parse_capture(text, name, matches.get("capture")),
        temperature=_parse_temperature(text, matches.get("temperature")),
        lazy=_parse_lazy(text, matches.get("lazy")),
        span=bracket.span,
    )
    if first_error is not None:
        raise first_error
    return options


def _parse_count(text: str, match: re.Match[str] | None) -> int | None:
    if match is None:
        return None
    if match[2] is None or not is_number(match[2]) or len(match[2]) > 15:
        message = f"{match[1]} must be a number of {_COUNTS[match[1]]}"
        raise SpecError(message, text=text, span=match.span(), hint=f"write {match[1]}=10")
    return int(match[2])


def _parse_capture(text: str, name: str, match: re.Match[str] | None) -> str:
    if match is None:
        return ""
    if match[2] is None:
        return name
    if len(match[2]) < 3 or match[2][0] != '"':
        raise SpecError(
            "the name of a capture must be a string literal", text=text, span=match.span(), hint='write capture="name"'
        )
    return match[2][1:-1]


def _parse_temperature(text: str, match: re.Match[str] | None) -> float | None:
    if match is None:
        return None
    if match[2] is None or not _NUMBER.fullmatch(match[2]) or float(match[2]) == float("inf"):
        raise SpecError(
            "temperature must be a number of at least 0", text=text, span=match.span(), hint="write temperature=0.7"
        )
    return float(match[2])


def _parse_lazy(text: str, match: re.Match[str] | None) -> bool:
    if match is not None and match[2] is not None:
        raise SpecError("lazy takes no value", text=text, span=match.span(), hint="write [lazy]")
    return match is not None
