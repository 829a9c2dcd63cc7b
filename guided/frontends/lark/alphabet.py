"""The character sets that the C++ code asks for. In: a class such as `\\d`, or a character. Out: its characters."""

from __future__ import annotations

import re
from functools import cache

from guided.frontends.lark import _lark
from guided.frontends.regex.budget import Budget
from guided.frontends.regex.leftmost_match import leftmost_match
from guided.frontends.regex.python_chars import class_ranges
from guided.frontends.regex.python_syntax import PythonReader
from guided.ir.ranges import Ranges
from guided.limits import Limits

__all__ = ["alphabet"]


@cache
def alphabet() -> _lark.Alphabet:
    """The sets of the running Python's `re`. Each is computed when it is first needed."""
    return _lark.Alphabet(_chars_of)


def _chars_of(pattern: str) -> Ranges:
    """The characters of a class such as `\\\\d`, or those that match a character if case is ignored."""
    if len(pattern) > 1:
        return class_ranges(pattern[1], False)
    budget = Budget(Limits())
    tree = PythonReader(f"(?i:{re.escape(pattern)})", budget, classes="full", ordered=True).read()
    node = leftmost_match(tree, budget)
    return tuple((low, high) for low, high, _ in node.states[node.start][1])
