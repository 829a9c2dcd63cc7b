"""Computes character sets for the C++ code. In: a class such as `\\d`, or a character. Out: the characters that it
matches.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from guided.frontends.lark import _lark
from guided.frontends.regex.budget import Budget
from guided.frontends.regex.leftmost_match import leftmost_match
from guided.frontends.regex.python_chars import class_ranges
from guided.frontends.regex.python_syntax import PythonReader
from guided.ir.ranges import Ranges, charset
from guided.limits import Limits

__all__ = ["get_alphabet"]

_CASE_VARIANTS: Final = "\u0130\u0131\u017f\u212a"  # they differ from ASCII letters only by case


@cache
def get_alphabet() -> _lark.Alphabet:
    """The character sets of the running Python's `re`. Each set is computed when it is first needed."""
    return _lark.Alphabet(_find_chars)


def _find_chars(pattern: str) -> Ranges:
    """The characters of a class such as `\\\\d`, or the characters that match a character when case is ignored."""
    if len(pattern) > 1:
        return class_ranges(pattern[1], False)
    if pattern.isascii():  # avoid the tables of all characters, which take longer than a small grammar
        matches = re.compile(re.escape(pattern), re.IGNORECASE).fullmatch
        return charset((ord(c), ord(c)) for c in {pattern.lower(), pattern.upper(), *_CASE_VARIANTS} if matches(c))
    budget = Budget(Limits())
    tree = PythonReader(f"(?i:{re.escape(pattern)})", budget, classes="full", ordered=True).read()
    node = leftmost_match(tree, budget)
    return tuple((low, high) for low, high, _ in node.states[node.start][1])
