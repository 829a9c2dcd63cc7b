r"""Regular expressions in xgrammar's dialect. In: a pattern. Out: a node of the IR.

The dialect is ECMA-262 with the flag s, so a dot also matches a line end, and \s matches ASCII spaces. In addition,
`\a` and `\e` are control characters as in C, a group may be named in Python's notation, `(?P<name>..)`, and `(?i)` at
the beginning of a pattern sets the flag i. Incomplete escapes and counts are refused, whereas ECMA-262 without the flag
u reads them literally. Lookarounds and word boundaries are enforced; xgrammar ignores or refuses them.
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
    """The texts that a regular expression matches. SpecError: it is malformed. UnsupportedError: it is not supported.

    `flags`: a combination of i and s. `classes`, `ascii_case`: see `parse_regex`.
    """
    if pattern.startswith("(?i)"):
        pattern, flags = pattern[4:], "i" + flags.replace("i", "")
    pattern = _as_ecma(pattern)
    parse_regex(pattern, dialect="ecma", limits=limits)  # so that errors show their location in this text
    with_flags = f"(?{flags}:{pattern})"
    return parse_regex(with_flags, dialect="ecma", classes=classes, ascii_case=ascii_case, limits=limits)


def _as_ecma(pattern: str) -> str:
    in_class = False

    def replace(found_match: re.Match[str]) -> str:
        nonlocal in_class
        match found_match.lastgroup:
            case "cut":
                raise _error(
                    pattern,
                    found_match,
                    "the escape is incomplete",
                    r"write, for example, \x41, \u0041, \u{1F600} or \cA",
                )
            case "escape":
                return _ESCAPES.get(found_match["escape"], found_match[0])
            case "open":
                in_class = True
            case "close":
                in_class = False
            case "name" if not in_class:
                return "(?<"
            case "count" if not in_class:
                raise _error(pattern, found_match, "the lower bound is missing", f"write {{0{found_match[0][1:]}")
        return found_match[0]

    return _PIECE.sub(replace, pattern)


def _error(pattern: str, match: re.Match[str], message: str, hint: str) -> SpecError:
    return SpecError(message, text=pattern, span=match.span(), hint=hint)
