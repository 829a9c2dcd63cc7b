r"""The front end for regular expressions. In: a pattern and its dialect. Out: one regular IR node for the strings that
match.

    parse_regex(r"\d{3}-\w+")                               # the strings that re.fullmatch matches
    parse_regex("^a|b$", dialect="ecma", search=True)       # the strings s with new RegExp("^a|b$", "u").test(s)

How: a reader for each dialect (`python_syntax.py`, `ecma_syntax.py`) resolves flags, escapes and character classes and
produces a tree (`tree.py`). Then `lookarounds.py` turns lookarounds, anchors and word boundaries into boolean
operations. For a pattern without them, the reader's tree already is an IR node. A pattern that is invalid with
ECMA-262's flag u is read according to annex B of ECMA-262, in UTF-16 code units (`ecma_annex_b.py`, `code_units.py`).

A constraint may accept more than a model should write: `\d` accepts the digits of all scripts, and a model that may
write them sometimes does. `classes="plain"` narrows the classes for generation (`reader.py`). Inside an atomic group, a
smaller class can cause more matches. Such a pattern is read both ways, and a string must match both.

Not supported: back-references that `back_references.py` does not cover, and conditional groups; atomic groups that
depend on the order of attempts in ways that `atomic.py` does not cover; and lookarounds inside repetition that need too
many states.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeVar

from guided.errors import GuidedError, SpecError, UnsupportedError
from guided.ir.nodes import Node
from guided.limits import Limits
from guided.meter import limit_compilation

from .algebra import ANY_TEXT, conj
from .back_references import resolve_references
from .budget import Budget
from .code_units import decode_code_units
from .derivatives import TooLarge
from .ecma_annex_b import AnnexBReader, find_pattern_span
from .ecma_syntax import EcmaReader
from .lookarounds import lower
from .python_syntax import PythonReader
from .reader import Classes, NeedsCaptures, NeedsOrder, Reader
from .tree import Tree, cat, erase_order

__all__ = ["Classes", "parse_regex", "unicode_flag_error"]

_Reader = TypeVar("_Reader", bound=Reader)


def parse_regex(
    pattern: str,
    *,
    dialect: Literal["python", "ecma"] = "python",
    search: bool = False,
    classes: Classes = "full",
    ascii_case: bool = False,
    limits: Limits | None = None,
) -> Node:
    """The IR node for the strings that `pattern` matches.

    Args:
        pattern: the regular expression, without delimiters.
        dialect: "python": `re` on `str`. "ecma": ECMA-262 with the flag u, or without u if the pattern is invalid with
            it.
        search: False if the whole string must match; True if a match somewhere in the string is enough.
        classes: with "full", \\d, \\s and \\w have the dialect's meaning. With "plain" they are narrower: \\d and \\s
            are ASCII. In "python", \\w is the letters of all scripts, the ASCII digits and the underscore. In "ecma",
            \\d and \\w are ASCII already. The result is a subset of the full language. Python's flags (?a) and (?u)
            select the classes explicitly and take precedence.
        ascii_case: the flag i folds only ASCII letters. Only for "ecma"; in "python", write (?a) in the pattern.
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
    make_reader = PythonReader if dialect == "python" else partial(EcmaReader, ascii_case=ascii_case)

    def build_node(classes: Classes, ordered: bool) -> Node:
        _, tree = _read(partial(make_reader, pattern, budget, classes=classes, ordered=ordered), budget)
        return lower(_extend_for_search(erase_order(tree) if ordered else tree, search), pattern, budget)

    with limit_compilation(budget.limits):
        try:
            return build_node(classes, False)
        except NeedsOrder:
            full_node = build_node("full", True)
            return full_node if classes == "full" else conj(full_node, build_node("plain", True))
        except SpecError as error:
            if dialect == "python":
                raise
            make_annex_b_reader = partial(AnnexBReader, pattern, budget, classes=classes, ascii_case=ascii_case)
            return _build_without_unicode_flag(make_annex_b_reader, search, budget, error)


def _read(make_reader: Callable[..., _Reader], budget: Budget) -> tuple[_Reader, Tree]:
    """The tree of a pattern, without back-references, and the reader that has read it."""
    reader = make_reader()
    try:
        return reader, reader.read()
    except NeedsCaptures as request:
        reader = make_reader(captures=request.groups)
    return reader, resolve_references(reader.read(), reader.text, budget)


def _extend_for_search(tree: Tree, search: bool) -> Tree:
    return cat([ANY_TEXT, tree, ANY_TEXT]) if search else tree


def unicode_flag_error(pattern: str, limits: Limits | None = None) -> SpecError | None:
    """The syntax error of a pattern under ECMA-262's flag u, or None if the pattern is valid.

    Also None if the pattern is valid but not supported, or exceeds a limit.
    """
    budget = Budget(Limits() if limits is None else limits)
    try:
        with limit_compilation(budget.limits):
            EcmaReader(pattern, budget).read()
    except SpecError as error:
        return error
    except (GuidedError, NeedsCaptures):
        pass
    return None


def _build_without_unicode_flag(
    make_reader: Callable[..., AnnexBReader], search: bool, budget: Budget, unicode_error: SpecError
) -> Node:
    """The node of a pattern that is valid only without the flag u. If it is invalid either way, raises `unicode_error`,
    its error with the flag.
    """
    try:
        reader, tree = _read(make_reader, budget)
    except SpecError:
        raise unicode_error from None
    except UnsupportedError as error:
        raise UnsupportedError(error.reason, pointer=error.pointer, hint=error.hint, text=unicode_error.text,
                               span=find_pattern_span(unicode_error.text, *error.span)) from None  # fmt: skip
    node = lower(_extend_for_search(tree, search), reader.text, budget)
    if not reader.needs_units:
        return node
    try:
        return decode_code_units(node, budget)
    except TooLarge:
        raise UnsupportedError(
            f"the pattern is invalid with the flag u ({unicode_error.message}), and needs too many states without it",
            hint=unicode_error.hint, text=unicode_error.text, span=unicode_error.span,
        ) from None  # fmt: skip
