"""Compares the texts of terminals. In: their nodes. Out: which strings a terminal matches, and which terminals match
prefixes of the same text.

C++ code walks automata (`native/texts.hpp`). Other nodes, such as large counts, are walked by their derivatives
(`frontends/common/regular_texts.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from guided.frontends.common.regular_texts import Edges, TextAutomaton
from guided.frontends.lark import _lark
from guided.frontends.regex.derivatives import TooLarge
from guided.ir.nodes import Automaton, Node

__all__ = ["TerminalTexts", "find_common_edges", "make_texts", "share_a_text"]

_MAX_STATES: Final = 10_000

TerminalTexts: TypeAlias = "_lark.Texts | TextAutomaton"


def make_texts(node: Node) -> TerminalTexts:
    """The object that represents the texts of a terminal's node."""
    return _lark.Texts(node.states, node.start) if isinstance(node, Automaton) else TextAutomaton(node)


def share_a_text(first: Node, second: Node, texts: tuple[TerminalTexts, TerminalTexts]) -> bool:
    """Whether some text begins with a text of `first` and with a text of `second`. True if the search is too long.

    `texts`: for each of the two nodes, `make_texts(node)` or `TextAutomaton(node)`.
    """
    left, right = texts
    if isinstance(left, _lark.Texts) and isinstance(right, _lark.Texts):
        return left.share_a_text(right, _MAX_STATES)
    return _share_a_text(
        left if isinstance(left, TextAutomaton) else TextAutomaton(first),
        right if isinstance(right, TextAutomaton) else TextAutomaton(second),
    )


def _share_a_text(first: TextAutomaton, other: TextAutomaton) -> bool:
    seen = {(first.start, other.start)}
    todo = list(seen)
    try:
        for a, b in todo:  # grows during the loop
            if not first.is_live(a) or not other.is_live(b):
                continue
            if first.accepts(a) or other.accepts(b) or len(seen) > _MAX_STATES:
                return True
            for _, to in find_common_edges(first.edges(a), other.edges(b)):
                if to not in seen:
                    seen.add(to)
                    todo.append(to)
    except TooLarge:
        return True
    return False


def find_common_edges(first: Edges, second: Edges) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield (a range of characters that both states can read, the pair of states to which it leads)."""
    i = j = 0
    while i < len(first) and j < len(second):
        (low, high, target), (other_low, other_high, other_target) = first[i], second[j]
        if low <= other_high and other_low <= high:
            yield (max(low, other_low), min(high, other_high)), (target, other_target)
        i, j = (i + 1, j) if high < other_high else (i, j + 1)
