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

    None: Lark itself has to expand them, see `native/ebnf.hpp`.
    """

class Alphabet:
    """
    The character sets that depend on Unicode: classes, and characters that differ only in case.
    """

    def __init__(self, chars_of: Callable[[str], tuple[tuple[int, int], ...]]) -> None:
        """
        `chars_of`: the characters of "\\\\d", "\\\\s" or "\\\\w", or those that a character matches if case is ignored.
        """

def terminal_states(
    pattern: str, alphabet: Alphabet, bounds: tuple[int, int, int]
) -> tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...] | None:
    """
    The states of the automaton of the texts that `re.match` matches as a whole; the first one is the start.

    None: the Python code has to find them, see `native/regex.hpp` and `native/leftmost.hpp`.

    Args:
        bounds: the maximum depth and number of nodes of the pattern, as in `Limits`, and the maximum number of
            character positions that unrolling repetitions may add.
    """

class Texts:
    """
    The texts of an automaton, as in `guided/frontends/common/regular_texts.py`.
    """

    def __init__(self, states: tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...], start: int) -> None:
        """
        The states and the start of an `Automaton`. Raises IndexError if an edge leads to no state.
        """

    def longest_match(self, text: str) -> int:
        """
        The length of the longest prefix that the automaton accepts; 0 if there is none.
        """

    def share_a_text(self, other: Texts, most: int) -> bool:
        """
        Whether a text of one is a prefix of a text of the other; True if it is undecided after `most` pairs of states.
        """

def string_states(
    text: str, any_case: bool, alphabet: Alphabet
) -> tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...]:
    """The states of an automaton that accepts one string."""

def read_grammar(
    text: str,
    start: str,
    alphabet: Alphabet,
    limits: tuple[int, int],
    name_of: Callable[[str], str],
    width_of: Callable[[str], tuple[int, int | None]],
    open: Callable[[tuple[str, ...], bool, dict[str, str], int], tuple[int, str]],
) -> (
    tuple[
        list[tuple[str, str, bool, int, str, str, str, bool, tuple[int, int | None] | None]],
        dict[str, list[tuple[tuple[str, bool], ...]]],
        list[str],
        list[tuple[str, str, int, tuple[int, int]]],
    ]
    | None
):
    """
    A grammar in Lark's notation: its terminals, rules, ignored terminals, and the locations of its definitions.

    A terminal is its name, expression, whether it is a string, its priority, value, flag, its literal as written or "",
    whether the grammar defines or declares it (otherwise it is a literal in a rule), and its width if that is known. A
    location is a name, the name as written, the number of the text, and the span.

    None: the Python code has to read it, see `native/grammar.hpp`.

    Args:
        limits: bounds for the depth of brackets and the nodes of a pattern, as in `Limits`.
        name_of: the name that Lark prefers for the terminal of a string, or "".
        width_of: the least and greatest length of the texts of a pattern; None for no limit.
        open: the number and text of an imported file. Its arguments are the path, whether it is relative, the imported
            names with their new names, and the number of the importing text, which is 0 for the first.
    """

def lalr_states(
    rules: dict[str, Any], start: str, most: int, living: dict[str, list[int]] | None = None
) -> tuple[list[tuple[list[tuple[str, int, int]], frozenset[str], frozenset[str]]], bool] | None:
    """
    (states, whether there is no conflict). A state: its kernel, terminals and doubtful terminals.

    The states are the first one, and those that a terminal leads to. None: there is no table, or it takes more than
    `most` steps.

    `living`: rule -> its living alternatives. The states are then those that these lead to, with only their items.
    Terminals that only other alternatives can take are doubtful, too.
    """

def lr0_kernels(rules: dict[str, Any], start: str, most: int) -> list[list[tuple[str, int, int]]] | None:
    """
    The kernels of the LR(0) automaton; None: computing them takes more than `most` steps.
    """
