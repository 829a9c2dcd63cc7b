"""The tokens that the pre-tokenizer allows next: one mask row for each set of its states.

In: the bytes of tokens, and the automaton of the pre-tokenizer (splitter.py). Out: `Words`: for a set of states, the
tokens that continue the current word (pre-token), and the tokens that begin a new one. No token crosses a boundary.

The automaton is nondeterministic: after a text it may be in several states, one for each possible placement of the most
recent boundaries. The *sets* of states are numbered here. Set 0 is empty; `BEGIN` is the set at the beginning.

Cost: a row takes about 5 ms for 128,000 tokens, once for each set; real patterns have a few dozen sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from guided.matching.canonical.characters import ClassTree, TokenCharacters, characters_starting_with, token_characters
from guided.matching.canonical.splitter import Splitter

__all__ = ["BEGIN", "WordState", "Words"]

BEGIN: Final = 1
MAX_ROWS: Final = 1024

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class WordState(NamedTuple):
    """The state of the pre-tokenizer after a text.

    Attributes:
        states: the number of the set of states before the incomplete character.
        rest: the bytes of the incomplete character; empty between characters.
        begins_word: whether that character is the first one of a word.
    """

    states: int
    rest: bytes = b""
    begins_word: bool = False

    @property
    def has_word(self) -> bool:
        """Whether there is a word to continue."""
        return self.states != BEGIN or bool(self.rest)


class Words:
    """See the module docstring.

    Args:
        tokens: id -> bytes, for the tokens that can be part of words.
        size: the size of the vocabulary.

    Attributes:
        characters_by_id: id -> its characters, for the tokens that can occur in UTF-8 text.
        heads: the tokens that begin within a character, int64 (n,).
        tails: the tokens that end within a character, int64 (n,).
    """

    def __init__(self, splitter: Splitter, tokens: Mapping[int, bytes], size: int) -> None:
        self._splitter, self._size = splitter, size
        self._sets: list[tuple[int, ...]] = [(), (0,)]
        self._numbers = {states: number for number, states in enumerate(self._sets)}
        self._steps: dict[tuple[int, int, bool], int] = {}
        characters_or_none = {id: token_characters(data) for id, data in tokens.items()}
        self.characters_by_id = {id: parts for id, parts in characters_or_none.items() if parts is not None}
        self.heads = np.array([id for id, parts in self.characters_by_id.items() if parts.head], np.int64)
        self.tails = np.array([id for id, parts in self.characters_by_id.items() if parts.tail], np.int64)
        whole = {id: parts.text for id, parts in self.characters_by_id.items() if not parts.head}
        self._tree = ClassTree(sorted(set(whole.values())), splitter.classes.class_of)
        self._whole = np.fromiter((id for id in whole), np.int64, len(whole))
        self._nodes = np.fromiter((self._tree.nodes[text] for text in whole.values()), np.int64, len(whole))
        self._rows: dict[tuple[WordState, bool], Bools] = {}

    def step(self, states: int, char_class: int, begins_word: bool) -> int:
        """The set of states after a character of a class, which begins a word (`begins_word`) or continues one."""
        key = states, char_class, begins_word
        if key not in self._steps:
            old = self._sets[states]
            if begins_word:
                new = {to: None for state in old for to in self._splitter.begin_word(state, char_class)}
            else:
                new = {to: None for state in old if (to := self._splitter.continue_word(state, char_class)) is not None}
            self._steps[key] = self._number(tuple(sorted(new)))
        return self._steps[key]

    def after(self, word_state: WordState, token: TokenCharacters, begins_word: bool) -> WordState | None:
        """The state after a token that begins or continues a word (`begins_word`); None if it crosses a boundary."""
        states, rest = word_state.states, word_state.rest
        if rest:
            if begins_word or not token.head:
                return None
            rest, begins_word = rest + token.head, word_state.begins_word
            if not token.text and not token.tail and characters_starting_with(rest):
                return word_state._replace(rest=rest) if self._may_follow(states, rest, begins_word) else None
            try:
                text = rest.decode() + token.text
            except UnicodeDecodeError:
                return None
        elif token.head:
            return None
        else:
            text = token.text
        for char in text:
            states = self.step(states, self._splitter.classes.class_of(ord(char)), begins_word)
            begins_word = False
        if not states or (token.tail and not self._may_follow(states, token.tail, begins_word)):
            return None
        return WordState(states, token.tail, begins_word and bool(token.tail))

    def step_over_any_borders(self, states: int, text: str) -> int:
        """The set of states after a text, if a word may begin at any of its characters."""
        for char in text:
            char_class = self._splitter.classes.class_of(ord(char))
            both = (*self._sets[self.step(states, char_class, False)], *self._sets[self.step(states, char_class, True)])
            states = self._number(tuple(sorted(set(both))))
        return states

    def row(self, word_state: WordState, begins_word: bool) -> Bools:
        """The tokens that begin a word (`begins_word`) or continue one without crossing a boundary; bool (size,)."""
        key = word_state, begins_word
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= MAX_ROWS:
                self._rows.clear()
            row = self._rows[key] = self._row(word_state, begins_word)
            row.flags.writeable = False
        return row

    def _row(self, word_state: WordState, begins_word: bool) -> Bools:
        out = np.zeros(self._size, bool)
        if word_state.rest:
            one_by_one = [] if begins_word else self.heads.tolist()
        else:
            after = self._tree.walk(
                word_state.states, lambda s, c: self.step(s, c, begins_word), lambda s, c: self.step(s, c, False)
            )
            out[self._whole] = after[self._nodes] > 0
            one_by_one = [id for id in self.tails.tolist() if not self.characters_by_id[id].head]
        for id in one_by_one:
            out[id] = self.after(word_state, self.characters_by_id[id], begins_word) is not None
        return out

    def may_end(self, states: int) -> bool:
        """Whether the text may end here."""
        return any(map(self._splitter.may_end, self._sets[states]))

    def states_at_word_end(self, states: int) -> int:
        """The subset of states in which the word may end."""
        return self._number(tuple(state for state in self._sets[states] if self._splitter.may_end_word(state)))

    def _may_follow(self, states: int, data: bytes, begins_word: bool) -> bool:
        """Whether a character that begins with these bytes may follow."""
        in_range = self._splitter.classes.classes_in_range
        classes = frozenset(symbol for low, high in characters_starting_with(data) for symbol in in_range(low, high))
        return any(self.step(states, symbol, begins_word) for symbol in classes)

    def _number(self, states: tuple[int, ...]) -> int:
        if states not in self._numbers:
            self._numbers[states] = len(self._sets)
            self._sets.append(states)
        return self._numbers[states]
