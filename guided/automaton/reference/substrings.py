"""The language of a `Substrings` node by definition: finds all substrings, and builds a trie that accepts them.

Cost: quadratic in the number of characters, so the texts must be short.
"""

from __future__ import annotations

from guided.errors import LimitExceeded
from guided.ir.nodes import Automaton, Substrings

__all__ = ["all_substrings", "build_trie"]

MAX_CHARACTERS = 200
"""The maximum total length of the texts, in characters."""


def all_substrings(node: Substrings) -> set[str]:
    """Return the strings that the node generates."""
    size = sum(map(len, node.texts))
    if size > MAX_CHARACTERS:
        raise LimitExceeded("nodes", size, MAX_CHARACTERS, fixed=True)
    out = set[str]()
    for text in node.texts:
        boundaries = [i for i in range(len(text) + 1) if not (node.whole_words and _is_inside_word(text, i))]
        out |= {text[begin:end] for begin in boundaries for end in boundaries if begin < end}
    return {text for text in out if text == text.strip()} if node.whole_words else out


def build_trie(texts: set[str]) -> Automaton:
    """Build an automaton that accepts exactly these texts."""
    prefixes = sorted({text[:i] for text in texts for i in range(len(text) + 1)} | {""})
    number = {prefix: i for i, prefix in enumerate(prefixes)}
    edges: dict[str, list[tuple[int, int, int]]] = {prefix: [] for prefix in prefixes}
    for prefix in prefixes[1:]:
        edges[prefix[:-1]].append((ord(prefix[-1]), ord(prefix[-1]), number[prefix]))
    return Automaton(tuple((prefix in texts, tuple(edges[prefix])) for prefix in prefixes))


def _is_inside_word(text: str, i: int) -> bool:
    return 0 < i < len(text) and all(char.isalnum() or char == "_" for char in text[i - 1 : i + 1])
