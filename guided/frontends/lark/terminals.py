"""Turns terminals into automata. In: the regular expression of a terminal. Out: an automaton of the texts it matches.

A terminal is matched in the middle of an input, so a lookaround at its edge would see the adjacent text: `/a(?!b)/`
matches `a` only if no `b` follows. That text belongs to another terminal, so the condition is not a property of this
terminal's text. `_check_edges` refuses lookarounds that can see past the edge. Inner lookarounds, as in
`/".*?(?<!\\\\)"/`, concern only the terminal's own text, and become boolean operations
(`frontends/regex/lookarounds.py`).

As in Lark's lexers, a terminal's texts are the strings that `re.match` matches as a whole: `".*?"` matches `"x"`, but
never `"x" y"`, which `re.fullmatch` would accept (`frontends/regex/leftmost_match.py`). With `uses_fullmatch`,
`re.fullmatch` defines the texts. If both definitions agree, as for `/(ab){2,50000}c/`, large counts are not unrolled;
the core counts instead.

C++ code (`native/regex.hpp`, `native/leftmost.hpp`) reads the common patterns. The Python code reads all others, and
explains all errors.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from typing import Any, Final, cast

from guided.errors import GuidedError, SpecError, UnsupportedError
from guided.frontends.common import regular_texts
from guided.frontends.lark import _lark
from guided.frontends.regex import parse_regex
from guided.frontends.regex.atomic import is_prefix_free
from guided.frontends.regex.budget import Budget
from guided.frontends.regex.derivatives import TooLarge
from guided.frontends.regex.leftmost_match import Undecided, is_deterministic, leftmost_match
from guided.frontends.regex.python_syntax import PythonReader
from guided.frontends.regex.tree import erase_order
from guided.ir.nodes import Automaton, Node
from guided.ir.ranges import has_surrogate
from guided.limits import Limits
from guided.meter import spend

from .alphabet import get_alphabet
from .loader import LoadedGrammar, LoadedTerminal

__all__ = ["build_named_terminal", "build_terminal_node"]

_UNBOUNDED_WIDTH: Final = 1 << 30
_MAX_LITERAL: Final = 1_000  # longer strings are read as regular expressions, within their limits


def build_named_terminal(loaded_grammar: LoadedGrammar, name: str, limits: Limits) -> Node:
    """The node of the terminal `name` of a grammar. Raises the errors of `build_terminal_node`, with the location."""
    try:
        return build_terminal_node(loaded_grammar.terminals[name], limits)
    except GuidedError as error:
        raise loaded_grammar.locate(error, name) from None


def build_terminal_node(terminal: LoadedTerminal, limits: Limits) -> Node:
    """The node of a terminal's texts: an automaton, unless the terminal has a node of its own or large counts.

    Raises:
        SpecError: its pattern is invalid. UnsupportedError: it is not regular, or looks past its edge.
    """
    if terminal.node is not None:
        return terminal.node
    label = terminal.label or terminal.name
    if terminal.is_string and has_surrogate(terminal.value):
        raise SpecError(f"terminal {label} contains a lone surrogate, which cannot occur in a text")
    if terminal.is_string and terminal.flags <= {"i"} and len(terminal.value) <= _MAX_LITERAL:
        return Automaton(_lark.string_states(terminal.value, bool(terminal.flags), get_alphabet()))
    if not terminal.uses_fullmatch and len(terminal.source) <= limits.spec_length:
        bounds = limits.depth, limits.nodes, regular_texts.MAX_UNROLLED_POSITIONS
        states = _lark.terminal_states(terminal.source, get_alphabet(), bounds)
        if states is not None:
            spend(len(states))
            return Automaton(states)
    try:
        _check_edges(parser.parse(terminal.source), 0, 0)
        if terminal.uses_fullmatch:
            return parse_regex(terminal.source, limits=limits)
        return _build_matched_texts(terminal.source, limits)
    except Undecided:
        raise UnsupportedError(
            f"terminal {label}: one match of the pattern can begin another, and which one it prefers depends on a "
            "lookaround, or on a repetition of a part that may be empty",
            hint="end the pattern with a text that occurs nowhere else in it, or write a class of characters for the "
            "lookaround, and a* for (a*)*",
        ) from None
    except TooLarge as error:
        reason = f"terminal {label}: the pattern needs more than {error.limit} {error.unit}"
        raise UnsupportedError(
            reason, hint="bound its repetitions by smaller counts, or write several terminals"
        ) from None
    except UnsupportedError as error:
        reason = f"terminal {label}: {error.reason}"
        raise UnsupportedError(reason, hint=error.hint, text=error.text, span=error.span) from None
    except SpecError as error:
        message = f"terminal {label}: {error.message}"
        raise SpecError(message, hint=error.hint, text=error.text, span=error.span) from None
    except re.error as error:
        span = (0, 0) if error.pos is None else (error.pos, error.pos + 1)
        raise SpecError(f"terminal {label}: {error.msg}", text=terminal.source, span=span) from None
    except (RecursionError, OverflowError) as error:
        raise SpecError(f"terminal {label}: {error}") from None


def _build_matched_texts(source: str, limits: Limits) -> Node:
    """The node of the texts that `re.match` matches as a whole. Raises `Undecided` if they are unknown."""
    budget = Budget(limits)
    tree = PythonReader(source, budget, classes="full", ordered=True).read()
    if regular_texts.keeps_counts(tree) and is_deterministic(tree):
        return cast(Node, erase_order(tree))  # it has no lookarounds
    try:
        return leftmost_match(tree, budget)
    except Undecided:
        node = parse_regex(source, limits=limits)
        if not is_prefix_free(node):
            raise
        return node  # no match begins another one, so preferences do not matter


def _check_edges(pattern: Any, min_before: int, min_after: int) -> None:
    """Refuse lookarounds that can see past the edge of the terminal.

    `min_before`, `min_after`: the minimum number of the terminal's characters before and after the pattern.
    """
    items = list(pattern)
    widths = [_compute_min_width(item) for item in items]
    left, right = min_before, min_after + sum(widths)
    for (kind, value), width, width_before in zip(items, widths, [0, *widths], strict=False):
        left, right = left + width_before, right - width
        match kind:
            case sre.ASSERT | sre.ASSERT_NOT:
                direction, inner = value
                if (direction > 0 and inner.getwidth()[1] > right) or (direction < 0 and inner.getwidth()[1] > left):
                    raise _make_edge_error("a lookahead" if direction > 0 else "a lookbehind")
                _check_edges(inner, _UNBOUNDED_WIDTH, _UNBOUNDED_WIDTH)
            case sre.AT:
                if left < 1 or right < 1:
                    raise _make_edge_error("an anchor or a word boundary")
            case sre.BRANCH:
                for branch in value[1]:
                    _check_edges(branch, left, right)
            case sre.SUBPATTERN:
                _check_edges(value[3], left, right)
            case sre.MAX_REPEAT | sre.MIN_REPEAT | sre.POSSESSIVE_REPEAT:
                _check_edges(value[2], left, right)
            case sre.ATOMIC_GROUP:
                _check_edges(value, left, right)


def _compute_min_width(item: Any) -> int:
    """The minimum width of one item of a pattern. A reference to a group may be empty."""
    if item[0] in (sre.GROUPREF, sre.GROUPREF_EXISTS):
        return 0
    return int(parser.SubPattern(parser.State(), [item]).getwidth()[0])


def _make_edge_error(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} at the edge of the terminal sees the adjacent text, which belongs to other terminals",
        hint="move the condition on the following text to the rule, or split the terminal",
    )
