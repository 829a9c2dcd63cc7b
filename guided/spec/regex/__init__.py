"""The regex front end: a pattern becomes one IR node for the set of texts that it matches.

    parse_regex(r"\\d{3}-\\w+")                               # what re.fullmatch matches
    parse_regex("^a|b$", dialect="ecma", search=True)         # what new RegExp("^a|b$", "u") finds something in

In: the pattern's text and a dialect. Out: an IR node without `Ref`. The way there: a reader for each dialect
(python_syntax, ecma_syntax) gives a tree (tree) with sets, flags and escapes resolved; lookarounds, anchors and word
boundaries are then turned into boolean operations (context). Patterns without those are IR as soon as they are read.

Refused: back-references and conditional groups (not regular), atomic groups that depend on the order of tries in ways
that atomic.py does not cover, and lookarounds inside repetition that need too many states.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from guided.grammar.ir import Node
from guided.limits import Limits

from .algebra import ANY_TEXT
from .budget import Budget
from .context import lower
from .ecma_syntax import EcmaReader
from .python_syntax import PythonReader
from .reader import read_with
from .tree import cat

__all__ = ["parse_regex"]


def parse_regex(
    pattern: str,
    *,
    dialect: Literal["python", "ecma"] = "python",
    search: bool = False,
    lenient: bool = False,
    limits: Limits | None = None,
) -> Node:
    """The IR node of the texts that `pattern` matches.

    Args:
        pattern: the regular expression, without delimiters.
        dialect: "python": `re` on `str`; "ecma": ECMA-262 with the u flag.
        search: False: the whole text must match; True: a match somewhere in the text is enough.
        lenient: of "ecma", a backslash before other ASCII punctuation stands for it, as it does without the u flag.
        limits: bounds on length, nesting and size.

    Raises:
        SpecError: the pattern is not valid in its dialect.
        UnsupportedError: it is valid, but a part of it is not enforced.
        LimitExceeded: a bound was reached.
    """
    if dialect not in ("python", "ecma"):
        raise ValueError(f"dialect must be 'python' or 'ecma', not {dialect!r}")
    budget = Budget(Limits() if limits is None else limits)
    make = PythonReader if dialect == "python" else partial(EcmaReader, lenient=lenient)
    tree = read_with(lambda ordered: make(pattern, budget, ordered=ordered))
    if search:
        tree = cat([ANY_TEXT, tree, ANY_TEXT])
    return lower(tree, pattern, budget)
