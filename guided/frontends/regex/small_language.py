"""The words of a small regular language. In: a node. Out: its words, or None if there may be too many.

How: the derivatives (`derivatives.py`) from which a word can be completed form an automaton. If it has a cycle, the
language is infinite. So words are extended character by character, at most as often as there are states; if a word can
still continue then, there is a cycle. Cost: at most MAX_TERMS terms and `max_words` words.
"""

from __future__ import annotations

from guided.ir.nodes import Node
from guided.ir.ranges import Ranges

from .derivatives import Terms, TooLarge

__all__ = ["small_language"]

MAX_TERMS = 256


def small_language(terms: Terms, node: Node, max_words: int) -> tuple[str, ...] | None:
    """The words of a language, shortest first. None if there may be more than `max_words`."""
    try:
        transitions = _transitions(terms, start := terms.read(node))
    except TooLarge:
        return None
    if transitions is None:
        return None
    words: list[str] = []
    prefixes = [("", start)] if start in transitions else []
    for _ in range(len(transitions) + 1):
        words += [word for word, term in prefixes if terms.nullable[term]]
        following: list[tuple[str, int]] = []
        for word, term in prefixes:
            for ranges, target in transitions[term]:
                if len(words) + len(following) + sum(high - low + 1 for low, high in ranges) > max_words:
                    return None
                following += [(word + chr(code), target) for low, high in ranges for code in range(low, high + 1)]
        prefixes = following
        if not prefixes:
            return tuple(words) if len(words) <= max_words else None
    return None


def _transitions(terms: Terms, start: int) -> dict[int, list[tuple[Ranges, int]]] | None:
    """The transitions between terms from which a word can be completed. None if there are too many terms."""
    transitions: dict[int, list[tuple[Ranges, int]]] = {}
    before: dict[int, list[int]] = {start: []}
    work = [start]
    while work:
        term = work.pop()
        if len(transitions) >= MAX_TERMS:
            return None
        transitions[term] = terms.transitions(term)
        for _, target in transitions[term]:
            if target not in before:
                before[target] = []
                work.append(target)
            before[target].append(term)
    live = set[int]()
    work = [term for term in transitions if terms.nullable[term]]
    while work:
        term = work.pop()
        if term not in live:
            live.add(term)
            work += before[term]
    return {term: [edge for edge in transitions[term] if edge[1] in live] for term in live}
