"""The tokens that word borders allow next: rows of a vocabulary for the states of a splitter.

In: the bytes of tokens, and the automaton that cuts a text into words (splitter.py). Out: `Words`: for the states of a
text, the tokens that continue its word, and the tokens that begin a new one. No token crosses a border.

A text may be in several states at once, one for each possible choice of its last borders. Such *sets* of states are
numbered here. Set 0 is empty; `BEGIN` is the set at the beginning of a text.

Cost: a row takes about 5 ms for 128,000 tokens, once for each set; real patterns have some dozens of sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from guided.matching.canonical.characters import ClassTree, Spelled, beginnings, spelled
from guided.matching.canonical.splitter import Splitter

__all__ = ["BEGIN", "Place", "Words"]

BEGIN: Final = 1
MOST_ROWS: Final = 1024

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Place(NamedTuple):
    """The state of a text.

    Attributes:
        states: the set of states before the incomplete character.
        rest: the bytes of the incomplete character; empty between characters.
        cut: whether that character is the first one of a word.
    """

    states: int
    rest: bytes = b""
    cut: bool = False

    @property
    def is_begun(self) -> bool:
        """Whether there is a word to continue."""
        return self.states != BEGIN or bool(self.rest)


class Words:
    """See the module docstring.

    Args:
        tokens: id -> bytes, of the tokens that spell words.
        size: of the vocabulary.

    Attributes:
        spelled: id -> its characters, of the tokens that can occur in UTF-8 text.
        heads: the tokens that begin within a character, int64 (n,).
        tails: the tokens that end within a character, int64 (n,).
    """

    def __init__(self, splitter: Splitter, tokens: Mapping[int, bytes], size: int) -> None:
        self._splitter, self._size = splitter, size
        self._sets: list[tuple[int, ...]] = [(), (0,)]
        self._numbers = {states: number for number, states in enumerate(self._sets)}
        self._steps: dict[tuple[int, int, bool], int] = {}
        self.spelled = {id: parts for id, data in tokens.items() if (parts := spelled(data)) is not None}
        self.heads = np.array([id for id, parts in self.spelled.items() if parts.head], np.int64)
        self.tails = np.array([id for id, parts in self.spelled.items() if parts.tail], np.int64)
        whole = {id: parts.text for id, parts in self.spelled.items() if not parts.head}
        self._tree = ClassTree(sorted(set(whole.values())), splitter.classes.of)
        self._whole = np.fromiter((id for id in whole), np.int64, len(whole))
        self._nodes = np.fromiter((self._tree.nodes[text] for text in whole.values()), np.int64, len(whole))
        self._rows: dict[tuple[Place, bool], Bools] = {}

    def step(self, states: int, following: int, cut: bool) -> int:
        """The states after a character of a class that continues a word, or begins one (`cut`)."""
        key = states, following, cut
        if key not in self._steps:
            old = self._sets[states]
            if cut:
                new = {to: None for state in old for to in self._splitter.cut(state, following)}
            else:
                new = {to: None for state in old if (to := self._splitter.moved(state, following)) is not None}
            self._steps[key] = self._number(tuple(sorted(new)))
        return self._steps[key]

    def after(self, place: Place, token: Spelled, cut: bool) -> Place | None:
        """The place after a token that continues a word, or begins one (`cut`); None: it crosses a border."""
        states, rest = place.states, place.rest
        if rest:
            if cut or not token.head:
                return None
            rest, cut = rest + token.head, place.cut
            if not token.text and not token.tail and beginnings(rest):
                return place._replace(rest=rest) if self._may_begin(states, rest, cut) else None
            try:
                text = rest.decode() + token.text
            except UnicodeDecodeError:
                return None
        elif token.head:
            return None
        else:
            text = token.text
        for char in text:
            states = self.step(states, self._splitter.classes.of(ord(char)), cut)
            cut = False
        if not states or (token.tail and not self._may_begin(states, token.tail, cut)):
            return None
        return Place(states, token.tail, cut and bool(token.tail))

    def any_way(self, states: int, text: str) -> int:
        """The states after a text within which words may begin anywhere."""
        for char in text:
            following = self._splitter.classes.of(ord(char))
            both = (*self._sets[self.step(states, following, False)], *self._sets[self.step(states, following, True)])
            states = self._number(tuple(sorted(set(both))))
        return states

    def row(self, place: Place, cut: bool) -> Bools:
        """The tokens that continue the word, or begin one (`cut`), without crossing a border; bool (size,)."""
        key = place, cut
        found = self._rows.get(key)
        if found is None:
            if len(self._rows) >= MOST_ROWS:
                self._rows.clear()
            found = self._rows[key] = self._row(place, cut)
            found.flags.writeable = False
        return found

    def _row(self, place: Place, cut: bool) -> Bools:
        out = np.zeros(self._size, bool)
        if place.rest:
            one_by_one = [] if cut else self.heads.tolist()
        else:
            after = self._tree.walk(
                place.states, lambda s, c: self.step(s, c, cut), lambda s, c: self.step(s, c, False)
            )
            out[self._whole] = after[self._nodes] > 0
            one_by_one = [id for id in self.tails.tolist() if not self.spelled[id].head]
        for id in one_by_one:
            out[id] = self.after(place, self.spelled[id], cut) is not None
        return out

    def may_end(self, states: int) -> bool:
        """Whether the text may end here."""
        return any(map(self._splitter.may_end, self._sets[states]))

    def ending(self, states: int) -> int:
        """The subset of states in which the word may end."""
        return self._number(tuple(state for state in self._sets[states] if self._splitter.may_cut(state)))

    def _may_begin(self, states: int, data: bytes, cut: bool) -> bool:
        """Whether a character that begins with these bytes may follow."""
        among = self._splitter.classes.among
        classes = frozenset(one for low, high in beginnings(data) for one in among(low, high))
        return any(self.step(states, one, cut) for one in classes)

    def _number(self, states: tuple[int, ...]) -> int:
        if states not in self._numbers:
            self._numbers[states] = len(self._sets)
            self._sets.append(states)
        return self._numbers[states]
