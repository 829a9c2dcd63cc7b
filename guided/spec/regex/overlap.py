"""Whether a word is in some languages and in none of others. In: regular nodes. Out: no, or that there may be one.

A search through the derivatives of the combination (`terms.py`) for a term that holds the empty word; of a given word,
the derivatives along it. A search ends after MOST_TERMS terms, and all that are asked of one object after `steps`
derivatives: from then on there may be a word, always. So "no" is sure, and the work is bounded, whatever the languages.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from guided.grammar.ir import Node
from guided.grammar.serial import serial

from .terms import ANYTHING, NONE, Terms, TooLarge

__all__ = ["Overlap"]

MOST_TERMS = 200


class Overlap:
    """Answers for one compilation; what was asked is kept."""

    def __init__(self, steps: int = 80_000) -> None:
        self._most = steps // 10
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}
        self._words: dict[int, dict[str, bool]] = {}  # by language

    @cached_property
    def _terms(self) -> Terms:
        return Terms(self._most)

    def may_hold(self, inside: Iterable[Node], outside: Iterable[Node] = ()) -> bool:
        """Whether a word may be in all languages of `inside` and in none of `outside`."""
        inside, outside = tuple(inside), tuple(outside)
        key = tuple(map(serial, inside)), tuple(map(serial, outside))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._search(inside, outside)
        return found

    def those_in(self, words: Iterable[str], language: Node) -> list[str]:
        """Those of the words that may be in the language."""
        words = tuple(words)
        known = self._words.setdefault(serial(language), {})
        if new := [word for word in words if word not in known]:
            try:
                start = self._terms.read(language)
                for word in new:
                    known[word] = self._holds(start, word)
            except TooLarge:
                pass
        return [word for word in words if known.get(word, True)]

    def _holds(self, term: int, word: str) -> bool:
        """Whether a term holds a word."""
        for char in word:
            term = self._terms.derive(term, ord(char))
            if term in (NONE, ANYTHING):  # whatever follows
                break
        return self._terms.nullable[term]

    def _search(self, inside: tuple[Node, ...], outside: tuple[Node, ...]) -> bool:
        terms = self._terms
        try:
            start = terms.both([*map(terms.read, inside), *(terms.negate(terms.read(node)) for node in outside)])
            met, work = {start}, [start]
            while work:
                term = work.pop()
                if terms.nullable[term] or len(met) > MOST_TERMS:
                    return True
                for _, target in terms.moves(term):
                    if target not in met:
                        met.add(target)
                        work.append(target)
        except TooLarge:
            return True
        return False
