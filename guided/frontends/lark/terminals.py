"""Turns terminals into automata. In: the regular expression of a terminal. Out: an automaton of the texts it matches.

A terminal is matched in the middle of a text, so a lookaround at its border would see the adjacent text: `/a(?!b)/` is
an `a`, but not before `b`. That text belongs to another terminal, so the condition is not a property of this terminal's
text. `_check_borders` refuses lookarounds that can see past the border. Inner lookarounds, as in `/".*?(?<!\\\\)"/`,
concern only the terminal's own text, and become boolean operations (`frontends/regex/lookarounds.py`).

A terminal's texts are those that `re.match` matches as a whole, as in Lark's lexers: `".*?"` matches `"x"`, but never
`"x" y"`, which `re.fullmatch` would accept (`frontends/regex/leftmost_match.py`). With `uses_fullmatch`, `re.fullmatch`
defines the texts. If both are the same, as for `/(ab){2,50000}c/`, large counts are not unrolled: the core counts.

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
from guided.frontends.regex.budget import Budget
from guided.frontends.regex.derivatives import TooLarge
from guided.frontends.regex.leftmost_match import Undecided, is_deterministic, leftmost_match
from guided.frontends.regex.python_syntax import PythonReader
from guided.frontends.regex.tree import erase_order
from guided.ir.nodes import Automaton, Node
from guided.ir.ranges import has_surrogate
from guided.limits import Limits
from guided.meter import spend

from .alphabet import alphabet
from .loader import LoadedGrammar, LoadedTerminal

__all__ = ["node_of", "terminal_node"]

_UNBOUNDED: Final = 1 << 30
_MAX_LITERAL: Final = 1_000  # longer strings are read as regular expressions, within their limits


def node_of(loaded: LoadedGrammar, name: str, limits: Limits) -> Node:
    """The node of a terminal of a grammar. Raises as `terminal_node` does, with the location."""
    try:
        return terminal_node(loaded.terminals[name], limits)
    except GuidedError as error:
        raise loaded.located(error, name) from None


def terminal_node(terminal: LoadedTerminal, limits: Limits) -> Node:
    """The node of a terminal's texts: an automaton, unless the terminal has a node of its own or large counts.

    Raises:
        SpecError: its pattern is invalid. UnsupportedError: it is not regular, or looks past its border.
    """
    if terminal.node is not None:
        return terminal.node
    label = terminal.label or terminal.name
    if terminal.is_text and has_surrogate(terminal.value):
        raise SpecError(f"terminal {label} contains a lone surrogate, which cannot occur in a text")
    if terminal.is_text and terminal.flags <= {"i"} and len(terminal.value) <= _MAX_LITERAL:
        return Automaton(_lark.string_states(terminal.value, bool(terminal.flags), alphabet()))
    if not terminal.uses_fullmatch and len(terminal.source) <= limits.spec_length:
        bounds = limits.depth, limits.nodes, regular_texts.MAX_UNROLLED_ROUNDS
        states = _lark.terminal_states(terminal.source, alphabet(), bounds)
        if states is not None:
            spend(len(states))
            return Automaton(states)
    try:
        _check_borders(parser.parse(terminal.source), 0, 0)
        if terminal.uses_fullmatch:
            return parse_regex(terminal.source, limits=limits)
        budget = Budget(limits)
        tree = PythonReader(terminal.source, budget, classes="full", ordered=True).read()
        if regular_texts.keeps_counts(tree) and is_deterministic(tree):
            return cast(Node, erase_order(tree))  # it has no lookarounds
        return leftmost_match(tree, budget)
    except Undecided:
        raise UnsupportedError(
            f"terminal {label}: the match that the pattern prefers depends on a lookahead, or on a repetition of "
            "a part that may be empty",
            hint="write [^x]* for .*?(?=x), and a* for (a*)*",
        ) from None
    except TooLarge as error:
        reason = f"terminal {label}: the pattern needs more than {error.limit} {error.what}"
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


def _check_borders(pattern: Any, before: int, after: int) -> None:
    """Refuse lookarounds that see past the border. `before`, `after`: the least number of characters on each side."""
    items = list(pattern)
    widths = [_min_width(item) for item in items]
    for at, (kind, value) in enumerate(items):
        left, right = before + sum(widths[:at]), after + sum(widths[at + 1 :])
        match kind:
            case sre.ASSERT | sre.ASSERT_NOT:
                direction, inner = value
                if (direction > 0 and inner.getwidth()[1] > right) or (direction < 0 and inner.getwidth()[1] > left):
                    raise _border_error("a lookahead" if direction > 0 else "a lookbehind")
                _check_borders(inner, _UNBOUNDED, _UNBOUNDED)
            case sre.AT:
                if left < 1 or right < 1:
                    raise _border_error("an anchor or a word boundary")
            case sre.BRANCH:
                for branch in value[1]:
                    _check_borders(branch, left, right)
            case sre.SUBPATTERN:
                _check_borders(value[3], left, right)
            case sre.MAX_REPEAT | sre.MIN_REPEAT | sre.POSSESSIVE_REPEAT:
                _check_borders(value[2], left, right)
            case sre.ATOMIC_GROUP:
                _check_borders(value, left, right)


def _min_width(item: Any) -> int:
    """The least width of one item of a pattern; a reference to a group may be empty."""
    if item[0] in (sre.GROUPREF, sre.GROUPREF_EXISTS):
        return 0
    return int(parser.SubPattern(parser.State(), [item]).getwidth()[0])


def _border_error(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} at the border of the terminal sees the adjacent text, which belongs to other terminals",
        hint="move the condition on the following text to the rule, or split the terminal",
    )
