"""The language of a `Substrings` node, by its definition. In: the node. Out: an automaton, a trie of all substrings.

Cost: quadratic in the texts, so they must be short.
"""

from __future__ import annotations

from guided.errors import LimitExceeded
from guided.ir.nodes import Automaton, Substrings

__all__ = ["all_substrings", "trie_of"]

MAX_CHARACTERS = 200
"""The maximum total length of the texts."""


def all_substrings(node: Substrings) -> set[str]:
    """The strings that the node generates."""
    size = sum(map(len, node.texts))
    if size > MAX_CHARACTERS:
        raise LimitExceeded("nodes", size, MAX_CHARACTERS, fixed=True)
    out = set[str]()
    for text in node.texts:
        borders = [at for at in range(len(text) + 1) if not (node.whole_words and _is_inside_word(text, at))]
        out |= {text[begin:end] for begin in borders for end in borders if begin < end}
    return {text for text in out if text == text.strip()} if node.whole_words else out


def trie_of(texts: set[str]) -> Automaton:
    """An automaton that accepts exactly these texts."""
    prefixes = sorted({text[:at] for text in texts for at in range(len(text) + 1)} | {""})
    number = {prefix: at for at, prefix in enumerate(prefixes)}
    edges: dict[str, list[tuple[int, int, int]]] = {prefix: [] for prefix in prefixes}
    for prefix in prefixes[1:]:
        edges[prefix[:-1]].append((ord(prefix[-1]), ord(prefix[-1]), number[prefix]))
    return Automaton(tuple((prefix in texts, tuple(edges[prefix])) for prefix in prefixes))


def _is_inside_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and all(char.isalnum() or char == "_" for char in text[at - 1 : at + 1])
