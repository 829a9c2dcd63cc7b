r"""Regular expressions as xgrammar reads them. In: a pattern. Out: a node of the IR.

They are those of ECMA-262 with the flag s, so a dot is a line end too, and \s has the spaces of ASCII. Besides, `\a`
and `\e` are the control characters that they are in C, a group may have a name in Python's notation, `(?P<name>..)`,
and `(?i)` at the begin of a pattern is the flag i. An escape or a count that is not complete is refused, where ECMA-262
without the flag u takes it for a text. Lookarounds and word boundaries are enforced, which xgrammar leaves out or
refuses.
"""

from __future__ import annotations

import re
from typing import Final

from guided.errors import SpecError
from guided.frontends.regex import Classes, parse_regex
from guided.ir.nodes import Node
from guided.limits import Limits

__all__ = ["regex_node"]

_PIECE: Final = re.compile(
    r"""(?P<cut>
          \\x(?![0-9A-Fa-f]{2}) | \\c(?![A-Za-z])
        | \\u(?![0-9A-Fa-f]{4}|\{0*(?:10|[0-9A-Fa-f])?[0-9A-Fa-f]{1,4}\})
        )
      | \\(?P<escape>.) | (?P<open>\[) | (?P<close>\]) | (?P<name>\(\?P<) | (?P<count>\{,\d+\}) """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {"a": r"\x07", "e": r"\x1b"}


def regex_node(
    pattern: str, limits: Limits, flags: str = "s", classes: Classes = "plain", *, ascii_case: bool = False
) -> Node:
    """What a regular expression matches. SpecError, UnsupportedError: it is malformed, or not enforced.

    `flags`: some of i and s. `classes`, `ascii_case`: see `parse_regex`.
    """
    if pattern.startswith("(?i)"):
        pattern, flags = pattern[4:], "i" + flags.replace("i", "")
    pattern = _as_ecma(pattern)
    parse_regex(pattern, dialect="ecma", limits=limits)  # what is wrong has its own place
    written = f"(?{flags}:{pattern})"
    return parse_regex(written, dialect="ecma", classes=classes, ascii_case=ascii_case, limits=limits)


def _as_ecma(pattern: str) -> str:
    in_class = False

    def written(found: re.Match[str]) -> str:
        nonlocal in_class
        match found.lastgroup:
            case "cut":
                raise _wrong(pattern, found, "the escape is not complete", r"as \x41, \u0041, \u{1F600} or \cA")
            case "escape":
                return _ESCAPES.get(found["escape"], found[0])
            case "open":
                in_class = True
            case "close":
                in_class = False
            case "name" if not in_class:
                return "(?<"
            case "count" if not in_class:
                raise _wrong(pattern, found, "the least count is missing", f"write {{0{found[0][1:]}")
        return found[0]

    return _PIECE.sub(written, pattern)


def _wrong(pattern: str, found: re.Match[str], message: str, hint: str) -> SpecError:
    return SpecError(message, text=pattern, span=found.span(), hint=hint)
