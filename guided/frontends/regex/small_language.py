"""Lists the words of a small regular language. In: a node. Out: its words, or None if there may be too many.

How: the derivatives (`derivatives.py`) from which a word can be completed form an automaton. If it has a cycle, the
language is infinite. So prefixes are extended character by character, for as many rounds as there are states. If any
prefix is left after that, there is a cycle. Cost: at most MAX_TERMS terms and `max_words` words.
"""

from __future__ import annotations

from guided.ir.nodes import Node
from guided.ir.ranges import Ranges

from .derivatives import Terms, TooLarge

__all__ = ["list_small_language"]

MAX_TERMS = 256


def list_small_language(terms: Terms, node: Node, max_words: int) -> tuple[str, ...] | None:
    """The words of a language, shortest first. None if there may be more than `max_words`."""
    try:
        transitions = _find_live_transitions(terms, start := terms.read(node))
    except TooLarge:
        return None
    if transitions is None:
        return None
    words: list[str] = []
    prefixes = [("", start)] if start in transitions else []
    for _ in range(len(transitions) + 1):
        words += [word for word, term in prefixes if terms.nullable[term]]
        longer: list[tuple[str, int]] = []
        for word, term in prefixes:
            for ranges, target in transitions[term]:
                if len(words) + len(longer) + sum(high - low + 1 for low, high in ranges) > max_words:
                    return None
                longer += [(word + chr(code), target) for low, high in ranges for code in range(low, high + 1)]
        prefixes = longer
        if not prefixes:
            return tuple(words) if len(words) <= max_words else None
    return None


def _find_live_transitions(terms: Terms, start: int) -> dict[int, list[tuple[Ranges, int]]] | None:
    """The transitions between terms from which a word can be completed. None if there are too many terms."""
    transitions: dict[int, list[tuple[Ranges, int]]] = {}
    predecessors: dict[int, list[int]] = {start: []}
    todo = [start]
    while todo:
        term = todo.pop()
        if len(transitions) >= MAX_TERMS:
            return None
        transitions[term] = terms.transitions(term)
        for _, target in transitions[term]:
            if target not in predecessors:
                predecessors[target] = []
                todo.append(target)
            predecessors[target].append(term)
    live_terms = set[int]()
    todo = [term for term in transitions if terms.nullable[term]]
    while todo:
        term = todo.pop()
        if term not in live_terms:
            live_terms.add(term)
            todo += predecessors[term]
    return {term: [edge for edge in transitions[term] if edge[1] in live_terms] for term in live_terms}
