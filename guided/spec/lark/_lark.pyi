"""LR automata of Lark's grammars."""

from typing import Any

def lalr_states(
    rules: dict[str, Any], start: str, most: int
) -> list[tuple[list[tuple[str, int, int]], frozenset[str], frozenset[str]]] | None:
    """
    Kernel, terminals and doubtful terminals of states of the LALR(1) table.

    The states are those that a terminal leads to, and the first one. None: there is no table, or it takes more than so many
    steps.
    """

def lr0_kernels(rules: dict[str, Any], start: str, most: int) -> list[list[tuple[str, int, int]]] | None:
    """
    The kernels of the LR(0) automaton; None: it takes more than so many steps.
    """
