r"""The front end for regular expressions. In: a pattern and its dialect. Out: one regular IR node for the texts that
match.

    parse_regex(r"\d{3}-\w+")                               # the texts that re.fullmatch matches
    parse_regex("^a|b$", dialect="ecma", search=True)       # the texts in which new RegExp("^a|b$", "u") finds a match

How: a reader for each dialect (`python_syntax.py`, `ecma_syntax.py`) resolves flags, escapes and character classes and
produces a tree (`tree.py`). Then `lookarounds.py` turns lookarounds, anchors and word boundaries into boolean
operations. A pattern without them is an IR node as soon as it has been read. If ECMA-262's flag u refuses a pattern, it
is read according to annex B of ECMA-262, in UTF-16 code units (`ecma_annex_b.py`, `code_units.py`).

A constraint may accept more than a model should write: `\d` accepts the digits of all scripts, and a model that may
write them sometimes does. `classes="plain"` narrows the classes for generation (`reader.py`). Inside an atomic group, a
smaller class can cause more matches. Such a pattern is read both ways, and a text must match both.

What it does not do: it refuses back-references and conditional groups, because they are not regular. It also refuses
atomic groups that depend on the order of attempts in ways that `atomic.py` does not cover, and lookarounds inside
repetition that need too many states.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from guided.errors import GuidedError, SpecError, UnsupportedError
from guided.ir.nodes import Node
from guided.limits import Limits
from guided.meter import limit_compilation

from .algebra import ANY_TEXT, conj
from .budget import Budget
from .code_units import texts_of_units
from .derivatives import TooLarge
from .ecma_annex_b import AnnexBReader
from .ecma_syntax import EcmaReader
from .lookarounds import lower
from .python_syntax import PythonReader
from .reader import Classes, NeedsOrder
from .tree import Tree, cat, erase

__all__ = ["Classes", "parse_regex", "unicode_flag_error"]


def parse_regex(
    pattern: str,
    *,
    dialect: Literal["python", "ecma"] = "python",
    search: bool = False,
    classes: Classes = "full",
    ascii_case: bool = False,
    limits: Limits | None = None,
) -> Node:
    """The IR node of the texts that `pattern` matches.

    Args:
        pattern: the regular expression, without delimiters.
        dialect: "python": `re` on `str`. "ecma": ECMA-262 with the flag u, or without it if u refuses the pattern.
        search: False if the whole text must match; True if a match somewhere in the text is enough.
        classes: with "full", \\d, \\s and \\w have the dialect's meaning. With "plain" they are narrower: \\d and \\s
            are ASCII, and \\w has the letters of all scripts, the digits of ASCII and the underscore. The result is a
            subset of the full language. The flags (?a) and (?u), which select the characters themselves, take
            precedence.
        ascii_case: in "ecma", the flag i folds only ASCII letters. In "python", the flag (?a) has this effect.
        limits: bounds on length, nesting and size.

    Raises:
        SpecError: the pattern is not valid in its dialect.
        UnsupportedError: the pattern is valid, but a part of it is not supported.
        LimitExceeded: a limit was exceeded.
    """
    if dialect not in ("python", "ecma"):
        raise ValueError(f"dialect must be 'python' or 'ecma', not {dialect!r}")
    if classes not in ("full", "plain"):
        raise ValueError(f"classes must be 'full' or 'plain', not {classes!r}")
    budget = Budget(Limits() if limits is None else limits)
    if ascii_case and dialect == "python":
        raise ValueError("ascii_case is only for dialect='ecma': write (?a) in the pattern instead")
    make = PythonReader if dialect == "python" else partial(EcmaReader, ascii_case=ascii_case)

    def language(classes: Classes, ordered: bool) -> Node:
        tree = make(pattern, budget, classes=classes, ordered=ordered).read()
        return lower(_for_search(erase(tree) if ordered else tree, search), pattern, budget)

    with limit_compilation(budget.limits):
        try:
            return language(classes, False)
        except NeedsOrder:
            full = language("full", True)
            return full if classes == "full" else conj(full, language("plain", True))
        except SpecError as problem:
            if dialect == "python":
                raise
            reader = AnnexBReader(pattern, budget, classes=classes, ascii_case=ascii_case)
            return _node_without_unicode_flag(reader, search, budget, problem)


def _for_search(tree: Tree, search: bool) -> Tree:
    return cat([ANY_TEXT, tree, ANY_TEXT]) if search else tree


def unicode_flag_error(pattern: str, limits: Limits | None = None) -> SpecError | None:
    """The error with which ECMA-262's flag u refuses a pattern, or None if the flag accepts it."""
    budget = Budget(Limits() if limits is None else limits)
    try:
        with limit_compilation(budget.limits):
            EcmaReader(pattern, budget).read()
    except SpecError as problem:
        return problem
    except GuidedError:
        pass
    return None


def _node_without_unicode_flag(reader: AnnexBReader, search: bool, budget: Budget, problem: SpecError) -> Node:
    """The node of a pattern that is valid only without the flag u. If it is invalid either way, raises `problem`."""
    try:
        tree = reader.read()
    except SpecError:
        raise problem from None
    except UnsupportedError as error:
        raise UnsupportedError(error.reason, pointer=error.pointer, hint=error.hint, text=problem.text,
                               span=reader.span(*error.span)) from None  # fmt: skip
    node = lower(_for_search(tree, search), reader.text, budget)
    if not reader.needs_units:
        return node
    try:
        return texts_of_units(node, budget)
    except TooLarge:
        raise UnsupportedError(
            f"the flag u refuses the pattern ({problem.message}), and without this flag it needs too many states",
            hint=problem.hint, text=problem.text, span=problem.span,
        ) from None  # fmt: skip
