"""Removes the anchors around a pattern of Rust's crate `regex`. In: a pattern that must match a whole text. Out: an
equivalent pattern without anchors at the ends of its top-level alternatives. Cost: linear in the length of the pattern.
"""

from __future__ import annotations

import re
from typing import Final

from guided.errors import SpecError

__all__ = ["strip_anchors"]

_PIECE: Final = re.compile(r"\\.|\[\^?\]?|.", re.DOTALL)
_ANCHORS_AT_START: Final = re.compile(r"\A(\(\?[a-z]+\))?(?:\^|\\A)+")
_SETS_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z]*x")


def strip_anchors(pattern: str) -> str:
    """Remove the anchors at the ends of top-level alternatives. They have no effect if the whole text must match.

    Raises:
        SpecError: a group is closed that was not opened.
    """
    alternatives, depth, class_depth, begin = [], 0, 0, 0
    may_have_comments = _SETS_VERBOSE.search(pattern) is not None  # a parenthesis may be in a comment
    for match in _PIECE.finditer(pattern):
        if match[0][0] == "[":
            class_depth += 1
        elif class_depth:
            class_depth -= match[0] == "]"
        elif match[0] in ("(", ")"):
            depth += 1 if match[0] == "(" else -1
            if depth < 0 and not may_have_comments:
                raise SpecError("unopened group", text=pattern, span=match.span(), hint=r"write \) for a parenthesis")
        elif match[0] == "|" and depth == 0:
            alternatives.append(pattern[begin : match.start()])
            begin = match.end()
    alternatives.append(pattern[begin:])
    return "|".join(_strip_end(_ANCHORS_AT_START.sub(r"\1", each)) for each in alternatives)


def _strip_end(pattern: str) -> str:
    """Remove `$` and `\\z` at the end."""
    end = len(pattern)
    while length := 1 if pattern.endswith("$", 0, end) else 2 * pattern.endswith(r"\z", 0, end):
        begin = anchor_start = end - length
        while pattern.endswith("\\", 0, begin):
            begin -= 1
        if (anchor_start - begin) % 2:  # the anchor is escaped
            break
        end = anchor_start
    return pattern[:end]
