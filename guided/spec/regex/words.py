"""The words of a regular language where they are few. In: a node. Out: its words, or None where they may be many.

The terms that a word may pass through (`terms.py`), then the words letter by letter: as each beginning has an end, and
no word without a circle is longer than the terms are many, this stops soon. Cost: MOST_TERMS terms, `most` words.
"""

from __future__ import annotations

from guided.grammar.ir import Node, Ranges

from .terms import Terms, TooLarge

__all__ = ["few_words"]

MOST_TERMS = 256


def few_words(terms: Terms, node: Node, most: int) -> tuple[str, ...] | None:
    """The words of a language, the shortest first; None where they may be more than `most`."""
    try:
        moves = _moves(terms, start := terms.read(node))
    except TooLarge:
        return None
    if moves is None:
        return None
    words: list[str] = []
    open_words = [("", start)] if start in moves else []
    for _ in range(len(moves) + 1):
        words += [word for word, term in open_words if terms.nullable[term]]
        following: list[tuple[str, int]] = []
        for word, term in open_words:
            for ranges, target in moves[term]:
                if len(words) + len(following) + sum(high - low + 1 for low, high in ranges) > most:
                    return None
                following += [(word + chr(code), target) for low, high in ranges for code in range(low, high + 1)]
        open_words = following
        if not open_words:
            return tuple(words) if len(words) <= most else None
    return None


def _moves(terms: Terms, start: int) -> dict[int, list[tuple[Ranges, int]]] | None:
    """Where each term leads, of those from which a word can end; None where there are too many terms."""
    moves: dict[int, list[tuple[Ranges, int]]] = {}
    before: dict[int, list[int]] = {start: []}
    work = [start]
    while work:
        term = work.pop()
        if len(moves) >= MOST_TERMS:
            return None
        moves[term] = terms.moves(term)
        for _, target in moves[term]:
            if target not in before:
                before[target] = []
                work.append(target)
            before[target].append(term)
    live = set[int]()
    work = [term for term in moves if terms.nullable[term]]
    while work:
        term = work.pop()
        if term not in live:
            live.add(term)
            work += before[term]
    return {term: [move for move in moves[term] if move[1] in live] for term in live}
