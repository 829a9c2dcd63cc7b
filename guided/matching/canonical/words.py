"""Computes the tokens that the pre-tokenizer allows next: one mask row for each set of its states.

In: the bytes of tokens, and the automaton of the pre-tokenizer (splitter.py). Out: `WordMasks`: for a set of
states, the tokens that continue the current word (pre-token), and the tokens that begin a new one. No token crosses a
boundary.

The automaton is nondeterministic: after a text it may be in several states, one for each possible placement of the most
recent boundaries. The *sets* of states are numbered here. Set 0 is empty; `BEGIN` is the set at the start of a text.

Cost: a row takes about 5 ms for 128,000 tokens, once for each set; real patterns have a few dozen sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from guided.matching.canonical.characters import ClassTree, TokenCharacters, characters_starting_with, token_characters
from guided.matching.canonical.splitter import Splitter

__all__ = ["BEGIN", "WordMasks", "WordState"]

BEGIN: Final = 1
MAX_ROWS: Final = 1024

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class WordState(NamedTuple):
    """The state of the pre-tokenizer after a text.

    Attributes:
        state_set_id: the number of the set of states before the incomplete character.
        partial_char: the bytes of the incomplete character; empty between characters.
        begins_word: whether that character is the first one of a word.
    """

    state_set_id: int
    partial_char: bytes = b""
    begins_word: bool = False

    @property
    def has_word(self) -> bool:
        """Whether there is a word to continue."""
        return self.state_set_id != BEGIN or bool(self.partial_char)


class WordMasks:
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
        self._set_ids = {states: set_id for set_id, states in enumerate(self._sets)}
        self._steps: dict[tuple[int, int, bool], int] = {}
        characters_or_none = {id: token_characters(data) for id, data in tokens.items()}
        self.characters_by_id = {
            id: characters for id, characters in characters_or_none.items() if characters is not None
        }
        self.heads = np.array([id for id, characters in self.characters_by_id.items() if characters.head], np.int64)
        self.tails = np.array([id for id, characters in self.characters_by_id.items() if characters.tail], np.int64)
        text_by_id = {id: characters.text for id, characters in self.characters_by_id.items() if not characters.head}
        self._tree = ClassTree(list(text_by_id.values()), splitter.classes.classes_of)
        self._ids_at_boundary = np.fromiter(text_by_id, np.int64, len(text_by_id))
        self._rows: dict[tuple[WordState, bool], Bools] = {}

    def step(self, state_set_id: int, char_class: int, begins_word: bool) -> int:
        """The set of states after a character of a class, which begins a word (`begins_word`) or continues one."""
        key = state_set_id, char_class, begins_word
        if key not in self._steps:
            old_states = self._sets[state_set_id]
            if begins_word:
                new_states = {
                    target: None for state in old_states for target in self._splitter.begin_word(state, char_class)
                }
            else:
                new_states = {
                    target: None
                    for state in old_states
                    if (target := self._splitter.continue_word(state, char_class)) is not None
                }
            self._steps[key] = self._intern_set(tuple(sorted(new_states)))
        return self._steps[key]

    def advance(self, word_state: WordState, token: TokenCharacters, begins_word: bool) -> WordState | None:
        """The state after a token that begins or continues a word (`begins_word`); None if it crosses a boundary."""
        state_set_id, partial_char = word_state.state_set_id, word_state.partial_char
        if partial_char:
            if begins_word or not token.head:
                return None
            partial_char, begins_word = partial_char + token.head, word_state.begins_word
            if not token.text and not token.tail and characters_starting_with(partial_char):
                return (
                    word_state._replace(partial_char=partial_char)
                    if self._may_follow(state_set_id, partial_char, begins_word)
                    else None
                )
            try:
                text = partial_char.decode() + token.text
            except UnicodeDecodeError:
                return None
        elif token.head:
            return None
        else:
            text = token.text
        for char in text:
            state_set_id = self.step(state_set_id, self._splitter.classes.class_of(ord(char)), begins_word)
            begins_word = False
        if not state_set_id or (token.tail and not self._may_follow(state_set_id, token.tail, begins_word)):
            return None
        return WordState(state_set_id, token.tail, begins_word and bool(token.tail))

    def advance_ignoring_boundaries(self, state_set_id: int, text: str) -> int:
        """The set of states after a text if any of its characters may begin a word."""
        for char in text:
            char_class = self._splitter.classes.class_of(ord(char))
            union = (
                *self._sets[self.step(state_set_id, char_class, False)],
                *self._sets[self.step(state_set_id, char_class, True)],
            )
            state_set_id = self._intern_set(tuple(sorted(set(union))))
        return state_set_id

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
        if word_state.partial_char:
            ids_to_check = [] if begins_word else self.heads.tolist()
        else:
            states_by_node = self._tree.walk(
                word_state.state_set_id, lambda s, c: self.step(s, c, begins_word), lambda s, c: self.step(s, c, False)
            )
            out[self._ids_at_boundary] = states_by_node[self._tree.nodes] > 0
            ids_to_check = [id for id in self.tails.tolist() if not self.characters_by_id[id].head]
        for id in ids_to_check:
            out[id] = self.advance(word_state, self.characters_by_id[id], begins_word) is not None
        return out

    def may_end(self, state_set_id: int) -> bool:
        """Whether the text may end here."""
        return any(map(self._splitter.may_end, self._sets[state_set_id]))

    def states_at_word_end(self, state_set_id: int) -> int:
        """The subset of states in which the word may end."""
        return self._intern_set(
            tuple(state for state in self._sets[state_set_id] if self._splitter.may_end_word(state))
        )

    def _may_follow(self, state_set_id: int, data: bytes, begins_word: bool) -> bool:
        """Whether a character whose encoding begins with these bytes may follow."""
        in_range = self._splitter.classes.classes_in_range
        classes = frozenset(
            char_class for low, high in characters_starting_with(data) for char_class in in_range(low, high)
        )
        return any(self.step(state_set_id, char_class, begins_word) for char_class in classes)

    def _intern_set(self, states: tuple[int, ...]) -> int:
        if states not in self._set_ids:
            self._set_ids[states] = len(self._sets)
            self._sets.append(states)
        return self._set_ids[states]
