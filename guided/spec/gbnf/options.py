"""The options of a rule, in brackets after its name, as xgrammar has them. In: the bracket. Out: what it asks for.

`max_chars=n` bounds the characters that the rule writes, and is enforced. The others are read and refused: they act on
the sampler (`temperature`), count tokens (`max_tokens`), or ask for the text afterwards (`capture`).
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Final

from guided.errors import SpecError, UnsupportedError

from .tokens import Token

__all__ = ["RuleOptions", "read_options"]

_OPTION: Final = re.compile(r'[ \t]*([A-Za-z_]+)[ \t]*(?:=[ \t]*("[^"\\\r\n]*"|[^,"\]\s]+))?[ \t]*(,|\])')
_REFUSED: Final = {
    "temperature": ("the temperature of a rule is not applied", "give the temperature of the request"),
    "max_tokens": ("a number of tokens is not counted within a rule", "write max_chars=, or a repetition {0,n}"),
    "capture": ("what a rule writes is not captured", "parse the output, which matches the grammar"),
}
_KNOWN: Final = ("max_chars", *_REFUSED)


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """What is asked of a rule.

    Attributes:
        max_chars: the most code points that it writes; None: any number.
        span: the bracket.
    """

    max_chars: int | None = None
    span: tuple[int, int] = (0, 0)


def read_options(text: str, bracket: Token) -> RuleOptions:
    """The options in a bracket.

    Raises:
        SpecError: an option that is unknown, given twice, or has a wrong value. UnsupportedError: one that is refused.
    """
    at, seen = bracket.start + 1, dict[str, int]()
    refused: UnsupportedError | None = None
    while at < bracket.end:
        match = _OPTION.match(text, at)
        if match is None:
            raise SpecError(
                "the options of a rule are malformed", text=text, span=(at, bracket.end), hint="write [max_chars=10]"
            )
        name, value = match[1], match[2]
        if name not in _KNOWN:
            close = difflib.get_close_matches(name, _KNOWN, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the options are {', '.join(_KNOWN)}"
            raise SpecError(f"the option {name!r} is unknown", text=text, span=match.span(1), hint=hint)
        if name in seen:
            raise SpecError(f"the option {name!r} is given twice", text=text, span=match.span(1))
        seen[name] = 0
        if name in _REFUSED:
            reason, hint = _REFUSED[name]
            refused = refused or UnsupportedError(reason, text=text, span=match.span(1), hint=hint)
        elif value is None or not value.isdigit() or len(value) > 15:
            raise SpecError(f"{name} is a number of characters", text=text, span=match.span(), hint=f"write {name}=10")
        else:
            seen[name] = int(value)
        at = match.end()
    if refused is not None:
        raise refused
    return RuleOptions(seen.get("max_chars"), bracket.span)
