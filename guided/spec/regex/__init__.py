"""The regex front end: a pattern becomes one IR node for the set of texts that it matches.

    parse_regex(r"\\d{3}-\\w+")                               # what re.fullmatch matches
    parse_regex("^a|b$", dialect="ecma", search=True)         # what new RegExp("^a|b$", "u") finds something in

In: the pattern's text and a dialect. Out: an IR node without `Ref`. The way there: a reader for each dialect
(python_syntax, ecma_syntax) gives a tree (tree) with sets, flags and escapes resolved; lookarounds, anchors and word
boundaries are then turned into boolean operations (context). Patterns without those are IR as soon as they are read.
An `ecma` pattern that the flag u refuses is read as ECMA-262's annex B does, in code units (ecma_annex_b, code_units).

What is accepted and what is written need not be the same: `\\d` accepts the digits of all scripts, and a model that may
write any of them does. `classes="plain"` gives a part of the language, see reader.py. An atomic group decides by what
it takes, so that fewer characters could match more: there the pattern is read both ways, and both must match.

Refused: back-references and conditional groups (not regular), atomic groups that depend on the order of tries in ways
that atomic.py does not cover, and lookarounds inside repetition that need too many states.
"""

from __future__ import annotations

from typing import Literal

from guided.errors import GuidedError, SpecError, UnsupportedError
from guided.grammar.ir import Node
from guided.limits import Limits

from .algebra import ANY_TEXT, conj
from .budget import Budget
from .code_units import texts_of_units
from .context import lower
from .ecma_annex_b import AnnexBReader
from .ecma_syntax import EcmaReader
from .python_syntax import PythonReader
from .reader import Classes, NeedsOrder
from .terms import TooLarge
from .tree import Tree, cat, erase

__all__ = ["Classes", "parse_regex", "refused_with_u"]


def parse_regex(
    pattern: str,
    *,
    dialect: Literal["python", "ecma"] = "python",
    search: bool = False,
    classes: Classes = "full",
    limits: Limits | None = None,
) -> Node:
    """The IR node of the texts that `pattern` matches.

    Args:
        pattern: the regular expression, without delimiters.
        dialect: "python": `re` on `str`; "ecma": ECMA-262 with the flag u, without it where that refuses the pattern.
        search: False: the whole text must match; True: a match somewhere in the text is enough.
        classes: "full": \\d, \\s and \\w are what the dialect says. "plain": of these what is best written; \\d and \\s
            are ASCII, \\w has the letters of all scripts, ASCII's digits and the underscore. The language is a part of
            the full one. Flags that say which characters are meant, (?a) and (?u), are obeyed.
        limits: bounds on length, nesting and size.

    Raises:
        SpecError: the pattern is not valid in its dialect.
        UnsupportedError: it is valid, but a part of it is not enforced.
        LimitExceeded: a bound was reached.
    """
    if dialect not in ("python", "ecma"):
        raise ValueError(f"dialect must be 'python' or 'ecma', not {dialect!r}")
    if classes not in ("full", "plain"):
        raise ValueError(f"classes must be 'full' or 'plain', not {classes!r}")
    budget = Budget(Limits() if limits is None else limits)
    make = PythonReader if dialect == "python" else EcmaReader

    def language(classes: Classes, ordered: bool) -> Node:
        tree = make(pattern, budget, classes=classes, ordered=ordered).read()
        return lower(_placed(erase(tree) if ordered else tree, search), pattern, budget)

    try:
        return language(classes, False)
    except NeedsOrder:
        full = language("full", True)
        return full if classes == "full" else conj(full, language("plain", True))
    except SpecError as problem:
        if dialect == "python":
            raise
        return _without_u(pattern, search, classes, budget, problem)


def _placed(tree: Tree, search: bool) -> Tree:
    return cat([ANY_TEXT, tree, ANY_TEXT]) if search else tree


def refused_with_u(pattern: str, limits: Limits | None = None) -> SpecError | None:
    """Why ECMA-262's flag u refuses a pattern, which is then read without it; None if it does not."""
    budget = Budget(Limits() if limits is None else limits)
    try:
        EcmaReader(pattern, budget).read()
    except SpecError as problem:
        return problem
    except GuidedError:
        pass
    return None


def _without_u(pattern: str, search: bool, classes: Classes, budget: Budget, problem: SpecError) -> Node:
    """The node of a pattern that is valid without the flag u only; else raises the `problem` that there is with it."""
    reader = AnnexBReader(pattern, budget, classes=classes)
    try:
        tree = reader.read()
    except SpecError:
        raise problem from None
    except UnsupportedError as error:
        raise UnsupportedError(error.reason, pointer=error.pointer, hint=error.hint, text=pattern,
                               span=reader.span(*error.span)) from None  # fmt: skip
    node = lower(_placed(tree, search), reader.text, budget)
    if not reader.of_units:
        return node
    try:
        return texts_of_units(node, budget)
    except TooLarge:
        raise UnsupportedError(
            f"without the flag u, which refuses this ({problem.message}), the pattern needs too many states",
            hint=problem.hint, text=pattern, span=problem.span,
        ) from None  # fmt: skip
