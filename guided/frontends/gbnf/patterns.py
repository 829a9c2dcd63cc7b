r"""Reads regular expressions in xgrammar's dialect. In: a pattern. Out: an IR node.

The dialect is ECMA-262, by default with the flag s, so a dot also matches a line end. By default, \s matches only ASCII
spaces. In addition, `\a` and `\e` are control characters as in C, a group may be named in Python's notation,
`(?P<name>..)`, and `(?i)` at the beginning of a pattern sets the flag i. Incomplete escapes and counts are errors,
whereas ECMA-262 without the flag u reads them literally. Lookarounds and word boundaries are enforced; xgrammar ignores
or rejects them.
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
    r"""(?P<incomplete>
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
    """The IR node of the strings that a regular expression matches.

    `flags`: a combination of i and s. `classes`, `ascii_case`: see `parse_regex`.

    Raises:
        SpecError: the pattern is malformed. UnsupportedError: it is not supported.
    """
    if pattern.startswith("(?i)"):
        pattern, flags = pattern[4:], "i" + flags.replace("i", "")
    pattern = _convert_to_ecma(pattern)
    parse_regex(pattern, dialect="ecma", limits=limits)  # so that errors show their location in this pattern
    with_flags = f"(?{flags}:{pattern})"
    return parse_regex(with_flags, dialect="ecma", classes=classes, ascii_case=ascii_case, limits=limits)


def _convert_to_ecma(pattern: str) -> str:
    in_class = False

    def convert_piece(piece: re.Match[str]) -> str:
        nonlocal in_class
        match piece.lastgroup:
            case "incomplete":
                raise _make_error(
                    pattern,
                    piece,
                    "the escape is incomplete",
                    r"write, for example, \x41, \u0041, \u{1F600} or \cA",
                )
            case "escape":
                return _ESCAPES.get(piece["escape"], piece[0])
            case "open":
                in_class = True
            case "close":
                in_class = False
            case "name" if not in_class:
                return "(?<"
            case "count" if not in_class:
                raise _make_error(pattern, piece, "the lower bound is missing", f"write {{0{piece[0][1:]}")
        return piece[0]

    return _PIECE.sub(convert_piece, pattern)


def _make_error(pattern: str, match: re.Match[str], message: str, hint: str) -> SpecError:
    return SpecError(message, text=pattern, span=match.span(), hint=hint)
