"""Checks whether some word is in all of the languages `inside` and in none of the languages `outside`. In: IR nodes.
Out: "certainly not" or "perhaps".

How: intersect `inside` with the complements of `outside`, and search the derivatives (`derivatives.py`) for a term that
contains the empty word. The search is depth-first, and computes a derivative only when it enters it, so it finds most
words quickly. To decide whether a language contains a given word, derive by its characters in turn.

Emptiness of such intersections is PSPACE-hard, so the search is bounded: a search by MAX_TERMS terms, and all searches
of one `Overlap` together by `steps` derivatives. Beyond that, the answer is "perhaps". "Certainly not" is always
correct, so callers can skip work when they get it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from guided.ir.nodes import Node
from guided.ir.serial import serial

from .derivatives import ANY_STRING, EMPTY_LANGUAGE, Terms, TooLarge

__all__ = ["Overlap"]

MAX_TERMS = 200


class Overlap:
    """Answers and caches the queries of one compilation."""

    def __init__(self, steps: int = 80_000) -> None:
        self._max_terms = steps // 10
        self._answers: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}
        self._word_answers: dict[int, dict[str, bool]] = {}  # language -> word -> whether the language contains it

    @cached_property
    def _terms(self) -> Terms:
        return Terms(self._max_terms)

    def may_have_word(self, inside: Iterable[Node], outside: Iterable[Node] = ()) -> bool:
        """Whether some word may be in all languages of `inside` and in none of `outside`."""
        inside, outside = tuple(inside), tuple(outside)
        key = tuple(map(serial, inside)), tuple(map(serial, outside))
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._search_common_word(inside, outside)
        return answer

    def possible_words(self, words: Iterable[str], language: Node) -> list[str]:
        """The given words that may be in the language."""
        words = tuple(words)
        answers = self._decide_words(words, language)
        return [word for word in words if answers.get(word, True)]

    def contains_word(self, language: Node, word: str) -> bool | None:
        """Whether the language contains the word. None if the bound on the work was reached."""
        return self._decide_words((word,), language).get(word)

    def _decide_words(self, words: Iterable[str], language: Node) -> dict[str, bool]:
        """For each word, whether the language contains it. May lack words beyond the bound on the work."""
        answers = self._word_answers.setdefault(serial(language), {})
        if new_words := [word for word in words if word not in answers]:
            try:
                start = self._terms.read(language)
                for word in new_words:
                    answers[word] = self._contains(start, word)
            except TooLarge:
                pass
        return answers

    def _contains(self, term: int, word: str) -> bool:
        """Whether a term contains a word."""
        for char in word:
            term = self._terms.derive(term, ord(char))
            if term in (EMPTY_LANGUAGE, ANY_STRING):  # the rest of the word does not matter
                break
        return self._terms.nullable[term]

    def _search_common_word(self, inside: tuple[Node, ...], outside: tuple[Node, ...]) -> bool:
        terms = self._terms
        try:
            start = terms.intersection(
                [*map(terms.read, inside), *(terms.negate(terms.read(node)) for node in outside)]
            )
            seen, path = {start}, [self._derivatives(start)]
            if terms.nullable[start]:
                return True
            while path:
                term = next((derivative for derivative in path[-1] if derivative not in seen), None)
                if term is None:
                    path.pop()
                    continue
                seen.add(term)
                path.append(self._derivatives(term))
                if terms.nullable[term] or len(seen) > MAX_TERMS:
                    return True
        except TooLarge:
            return True
        return False

    def _derivatives(self, term: int) -> Iterator[int]:
        """The derivatives of a term that are not known to be empty. Each is computed when it is needed."""
        for block in self._terms.blocks(term):
            if (derivative := self._terms.derive(term, block[0][0])) != EMPTY_LANGUAGE:
                yield derivative
