"""Rules of Lark's grammars, and their LR automata."""

from collections.abc import Callable
from typing import Any

def expanded(
    definitions: list[Any], start: str, terminal_of: Callable[[Any], tuple[str, bool]]
) -> dict[str, list[tuple[tuple[str, bool], ...]]] | None:
    """
    The alternatives of rules that are given as Lark's trees.

    Args:
        definitions: name, parameters, tree and options of each rule.
        terminal_of: the name of the terminal of a literal or range, and whether it is a string.

    None: Lark itself has to do it, see `native/ebnf.hpp`.
    """

def lalr_states(
    rules: dict[str, Any], start: str, most: int, living: dict[str, list[int]] | None = None
) -> list[tuple[list[tuple[str, int, int]], frozenset[str], frozenset[str]]] | None:
    """
    Kernel, terminals and doubtful terminals of states of the LALR(1) table.

    The states are those that a terminal leads to, and the first one. None: there is no table, or it takes more steps.

    With `living` alternatives, by rule: the states that these lead to, with their places there alone. What only the
    other alternatives could take is doubtful, too.
    """

def lr0_kernels(rules: dict[str, Any], start: str, most: int) -> list[list[tuple[str, int, int]]] | None:
    """
    The kernels of the LR(0) automaton; None: it takes more than so many steps.
    """
