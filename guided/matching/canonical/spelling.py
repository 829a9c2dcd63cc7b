"""Finds the tokens that may come next if the output is to have the tokens that the tokenizer itself would produce.

In: the rules of a byte-level BPE tokenizer (vocabulary/byte_pairs.py). Out: `Spelling`, shared by all outputs, and a
`State` for each output. `row(state)` allows the tokens t such that the encoding of some text begins with the tokens so
far, followed by t. It allows the end tokens if the tokens so far are the encoding of their own text.

How: a token continues the current word or begins a new one. words.py finds the word boundaries. Within a word, merges
must not join two neighbouring tokens (pairs.py). Further rules:

- some tokenizers look up whole words before they merge. Then a word that equals an *unreachable* token (one that merges
  never produce) is encoded as that token. So such a token is always a whole word, and no word of several tokens may
  have the same text
- a token that ends within a character must be followed by a token that continues the character
- the text between two added tokens must not contain the text of an added token
- if a tokenizer composes characters (NFC), it never encodes a text that is not composed. The check uses
  the last `_COMPOSED_BYTES` bytes and the running Python's Unicode tables

Cost of a step: a few bitwise operations on rows. Rows are computed on first use (words.py, pairs.py).
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import Final, NamedTuple
from unicodedata import is_normalized
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from guided.errors import UnsupportedError
from guided.matching.bitmask import allowed_tokens, is_allowed, row_of
from guided.matching.canonical.characters import composing_characters
from guided.matching.canonical.pairs import PairTable, pack_row
from guided.matching.canonical.splitter import Splitter
from guided.matching.canonical.words import BEGIN, WordMasks, WordState
from guided.vocabulary.byte_pairs import BytePairs
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Branch", "Spelling", "State", "spelling_of"]

Row = npt.NDArray[np.int32]
_MAX_ROWS: Final = 1024
_COMPOSED_BYTES: Final = 64
_MARKS: Final = frozenset(bytes((byte,)) for byte in range(128) if not chr(byte).isalnum())


_spellings: WeakKeyDictionary[Vocabulary, Spelling | UnsupportedError] = WeakKeyDictionary()
_spellings_lock = threading.Lock()


def spelling_of(vocabulary: Vocabulary) -> Spelling:
    """The `Spelling` of a vocabulary's tokenizer, computed on the first call (seconds for a large vocabulary).

    Raises:
        UnsupportedError: the tokenizer is not byte-level BPE, or has an unknown part.
    """
    with _spellings_lock:
        spelling = _spellings.get(vocabulary)
        if spelling is None:
            try:
                spelling = Spelling(vocabulary.size, vocabulary.tokens, vocabulary.byte_pairs())
            except UnsupportedError as error:
                spelling = error.with_traceback(None)
            _spellings[vocabulary] = spelling
    if isinstance(spelling, UnsupportedError):
        raise copy(spelling)
    return spelling


def is_spelling_known(vocabulary: Vocabulary) -> bool:
    """Whether `spelling_of` returns or raises at once. Does not wait for a call that computes the spelling."""
    return vocabulary in _spellings


class Branch(NamedTuple):
    """One possible split of the output so far into words.

    Attributes:
        word_state: the state of the pre-tokenizer (words.py).
        word: the text of the last word, if it is a prefix of an unreachable token's text; otherwise None.
        has_several_tokens: whether the word has more than one token.
        must_end: whether the word is an unreachable token and so must end.
    """

    word_state: WordState
    word: bytes | None = b""
    has_several_tokens: bool = False
    must_end: bool = False


class State(NamedTuple):
    """All possible splits of the output so far into words; none if no text has this encoding.

    Attributes:
        last_token: the last token.
        text: the end of the text since the last added token, as far as later checks need it.
    """

    branches: tuple[Branch, ...]
    last_token: int = -1
    text: bytes = b""


_BEGIN: Final = State((Branch(WordState(BEGIN)),))


class Spelling:
    """See the module docstring.

    Attributes:
        begin: the state before the first token.
        size: the number of ids.
    """

    def __init__(self, size: int, tokens: Sequence[bytes | None], pairs: BytePairs) -> None:
        self.begin = _BEGIN
        self._bytes, self.size = tokens, size
        self._pairs = PairTable(pairs, size)
        bpe_tokens = {id: data for data, id in pairs.ids.items() if id < len(self._bytes) and self._bytes[id] == data}
        self._added_texts = {id: data for data, id in pairs.added_tokens.items()}
        self._added_pattern = re.compile(b"|".join(map(re.escape, self._added_texts.values())) or rb"(?!)")
        ordinary_tokens = {
            id: data
            for id, data in bpe_tokens.items()
            if id not in self._added_texts and not self._added_pattern.search(data)
        }
        self._word_masks = WordMasks(Splitter(pairs.splits), ordinary_tokens, self.size)
        reachable = self._pairs.reachable
        unreachable = [
            id for id in bpe_tokens if pairs.ignores_merges and not reachable[id] and id not in self._added_texts
        ]
        self._is_unreachable = np.zeros(self.size, bool)
        self._is_unreachable[unreachable] = True
        self._unreachable_texts = {bpe_tokens[id] for id in unreachable}
        # prefix of an unreachable token's text -> tokens that complete this text
        self._completing_tokens: dict[bytes, set[int]] = {}
        for data in self._unreachable_texts:
            for length in range(len(data)):
                completing_tokens = self._completing_tokens.setdefault(data[:length], set())
                if (last_token := pairs.ids.get(data[length:])) is not None:
                    completing_tokens.add(last_token)
        self._checked_bytes = max((len(data) for data in self._added_texts.values()), default=0)
        if pairs.uses_nfc:
            self._checked_bytes = max(self._checked_bytes, _COMPOSED_BYTES + 1)
        self._composing_tokens = self._find_composing_tokens() if pairs.uses_nfc else None
        ids_without_text = [id for id in range(self.size) if id >= len(self._bytes) or not self._bytes[id]]
        self._non_text_row = row_of(self.size, [*ids_without_text, *self._added_texts])
        self._empty_row = row_of(self.size, [])
        self._is_tail = np.zeros(self.size, bool)
        self._is_tail[self._word_masks.tails] = True
        self._rows: dict[tuple[WordState, bool], Row] = {}
        self._completion_cache: dict[tuple[WordState, int], bool] = {}
        self._tokens_containing: dict[int, Row] = {}
        self._remainders: dict[bytes, set[bytes]] = {}  # proper prefix of an added token's text -> the remaining bytes
        for data in self._added_texts.values():
            for n in range(1, len(data)):
                self._remainders.setdefault(data[:n], set()).add(data[n:])
        self._sorted_tokens = sorted((data, id) for id, data in bpe_tokens.items()) if self._added_texts else []
        self._lock = threading.RLock()

    def row(self, state: State) -> Row:
        """The allowed tokens as a bitmask row, including control and end tokens if the text may end here."""
        with self._lock:
            out = self._empty_row.copy()
            for branch in state.branches:
                out |= self._row(branch, state.last_token)
            if self._added_texts:
                _remove(out, self._tokens_completing_added(state.text))
            if self._composing_tokens is not None:
                _remove(out, [id for id in _ids(out & self._composing_tokens) if not self._is_composed(state.text, id)])
            if self.may_end(state):
                out |= self._non_text_row
            return out

    @cached_property
    def punctuation(self) -> Row:
        """The tokens that are a single ASCII character other than a letter or digit, as a row."""
        return row_of(self.size, [id for id, data in enumerate(self._bytes) if data in _MARKS])

    def tokens_with_any(self, marks: Iterable[int]) -> Row:
        """The tokens whose text contains one of `marks`, which are tokens of `punctuation`, as a row."""
        out = self._empty_row.copy()
        for mark in marks:
            if mark not in self._tokens_containing:
                (byte,) = self._bytes[mark] or b""
                bytes_, ids = self._marks_in_tokens
                self._tokens_containing[mark] = row_of(self.size, ids[bytes_ == byte])
            out |= self._tokens_containing[mark]
        return out

    @cached_property
    def _marks_in_tokens(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """The bytes of all tokens that are punctuation, and the token of each, (n,)."""
        texts = [data or b"" for data in self._bytes]
        ids = np.repeat(np.arange(len(texts)), np.fromiter(map(len, texts), np.int64, len(texts)))
        bytes_ = np.frombuffer(b"".join(texts), np.uint8)
        is_mark = np.isin(bytes_, np.frombuffer(b"".join(_MARKS), np.uint8))
        return bytes_[is_mark], ids[is_mark]

    def length(self, token: int) -> int:
        """The number of bytes of a token."""
        return len(self._bytes[token] or b"") if token < len(self._bytes) else 0

    def may_end(self, state: State) -> bool:
        """Whether the tokens are the encoding of their own text."""
        return any(
            not branch.word_state.partial_char
            and not self._is_blocked(branch)
            and self._word_masks.may_end(branch.word_state.state_set_id)
            for branch in state.branches
        )

    def advance(self, state: State, token: int) -> State:
        """The state after a token; without branches if no text has this encoding."""
        with self._lock:
            data = self._bytes[token] if token < len(self._bytes) else None
            if not data or token in self._added_texts:
                return _BEGIN if self.may_end(state) else State(())
            if self._added_texts and self._completes_added(state.text, token):
                return State(())
            if self._composing_tokens is not None and not self._is_composed(state.text, token):
                return State(())
            branches = [
                new_branch
                for branch in state.branches
                for new_branch in self._branches_after(branch, state.last_token, token)
            ]
            return State(tuple(dict.fromkeys(branches)), token, self._text_tail(state.text + data))

    def advance_ignoring_boundaries(self, state: State, token: int) -> State:
        """The state after a token that the tokenizer would not produce: any of its characters may begin a word."""
        with self._lock:
            data = self._bytes[token] if token < len(self._bytes) else None
            if not data or token in self._added_texts:
                return _BEGIN
            words, characters = self._word_masks, self._word_masks.characters_by_id.get(token)
            word_states = set[WordState]()
            for branch in state.branches:
                if characters is None or bool(branch.word_state.partial_char) != bool(characters.head):
                    continue
                state_set_id, text = branch.word_state.state_set_id, characters.text
                if characters.head:
                    text = (branch.word_state.partial_char + characters.head).decode(errors="ignore") + text
                if state_set_id := words.advance_ignoring_boundaries(state_set_id, text):
                    word_states.update(
                        (
                            WordState(state_set_id, characters.tail),
                            WordState(state_set_id, characters.tail, bool(characters.tail)),
                        )
                    )
            branches = tuple(Branch(word_state, None) for word_state in sorted(word_states))
            return State(branches or (Branch(WordState(BEGIN)),), token, self._text_tail(state.text + data))

    def _text_tail(self, text: bytes) -> bytes:
        """The end of a text, as far as later checks need it: an added token's text may begin there, for example."""
        return text[-(self._checked_bytes - 1) :] if self._checked_bytes > 1 else b""

    def _tokens_completing_added(self, text: bytes) -> Iterator[int]:
        """Yield the tokens that complete the text of an added token whose beginning is already written."""
        for n in range(1, min(self._checked_bytes, len(text) + 1)):
            for remainder in self._remainders.get(text[len(text) - n :], ()):
                index = bisect_left(self._sorted_tokens, (remainder, -1))
                while index < len(self._sorted_tokens) and self._sorted_tokens[index][0].startswith(remainder):
                    yield self._sorted_tokens[index][1]
                    index += 1

    def _completes_added(self, text: bytes, token: int) -> bool:
        """Whether the text with this token contains the text of an added token."""
        return self._added_pattern.search(text + (self._bytes[token] or b"")) is not None

    def _find_composing_tokens(self) -> Row:
        """The tokens that may compose with the text before them, or are not in NFC themselves, as a row."""
        composing = composing_characters()
        words = self._word_masks.characters_by_id.items()
        ids = [id for id, (head, text, _) in words if head or text[:1] in composing or not is_normalized("NFC", text)]
        return row_of(self.size, ids)

    def _is_composed(self, text: bytes, token: int) -> bool:
        """Whether a text followed by a token is in NFC."""
        return is_normalized("NFC", (text + (self._bytes[token] or b"")).decode(errors="ignore"))

    def _is_blocked(self, branch: Branch) -> bool:
        """Whether the word must not end here: it has several tokens, but the text of one unreachable token."""
        return branch.has_several_tokens and branch.word in self._unreachable_texts

    def _row(self, branch: Branch, last_token: int) -> Row:
        """The tokens that may follow one split, as a row."""
        out = self._empty_row.copy()
        word_state = branch.word_state
        if not word_state.partial_char and not self._is_blocked(branch):
            out |= self._word_row(word_state, True)
        if not branch.must_end and word_state.has_word and self._can_continue_word(last_token):
            continuing_row = self._word_row(word_state, False) & self._pairs.row(last_token)
            completing_tokens = self._completing_tokens.get(branch.word, ()) if branch.word is not None else ()
            candidates = (id for id in completing_tokens if is_allowed(continuing_row, id))
            _remove(
                continuing_row,
                [id for id in candidates if not any(self._branches_after(branch, last_token, id, (False,)))],
            )
            out |= continuing_row
        return out

    def _word_row(self, word_state: WordState, begins_word: bool) -> Row:
        """The tokens that begin a word (`begins_word`) or continue one, if a text can continue after them, as a row."""
        key = word_state, begins_word
        if key not in self._rows:
            if len(self._rows) >= _MAX_ROWS:
                self._rows.clear()
            can_be_produced = self._pairs.reachable | self._is_unreachable if begins_word else self._pairs.reachable
            out = self._word_masks.row(word_state, begins_word) & can_be_produced
            for id in np.flatnonzero(out & (self._is_unreachable | self._is_tail)).tolist():
                out[id] = self._advance_word_state(word_state, id, begins_word) is not None
            self._rows[key] = pack_row(out)
        return self._rows[key]

    def _advance_word_state(self, word_state: WordState, token: int, begins_word: bool) -> WordState | None:
        """The state after a token, or None if no text can continue there. An unreachable token ends its word."""
        next_state = self._word_masks.advance(word_state, self._word_masks.characters_by_id[token], begins_word)
        if next_state is None or (next_state.partial_char and not self._can_complete_character(next_state, token)):
            return None
        if self._is_unreachable[token]:
            next_state = next_state._replace(
                state_set_id=0
                if next_state.partial_char
                else self._word_masks.states_at_word_end(next_state.state_set_id)
            )
        return next_state if next_state.state_set_id else None

    def _can_continue_word(self, last_token: int) -> bool:
        """Whether a word can continue after the token `last_token`."""
        return last_token >= 0 and bool(self._pairs.reachable[last_token])

    def _branches_after(
        self, branch: Branch, last_token: int, token: int, choices: tuple[bool, ...] = (False, True)
    ) -> Iterator[Branch]:
        """Yield the splits after a token. `choices`: the values of `begins_word` to try."""
        data, reachable = self._bytes[token] or b"", bool(self._pairs.reachable[token])
        if token not in self._word_masks.characters_by_id or not (reachable or self._is_unreachable[token]):
            return
        for begins_word in choices:
            if begins_word and (branch.word_state.partial_char or self._is_blocked(branch)):
                continue
            if not begins_word and (branch.must_end or not reachable or not branch.word_state.has_word):
                continue
            if not begins_word and not (
                self._can_continue_word(last_token) and is_allowed(self._pairs.row(last_token), token)
            ):
                continue
            word_state = self._advance_word_state(branch.word_state, token, begins_word)
            if word_state is None:
                continue
            word = data if begins_word else None if branch.word is None else branch.word + data
            keeps_word = word is not None and (word in self._completing_tokens or word in self._unreachable_texts)
            new_branch = Branch(word_state, word if keeps_word else None, keeps_word and not begins_word, not reachable)
            if not self._is_blocked(new_branch) or self._row(new_branch, token).any():
                yield new_branch

    def _can_complete_character(self, word_state: WordState, token: int) -> bool:
        """Whether the tokens that may follow can complete the character that a token begins."""
        key = word_state, token
        if key not in self._completion_cache:
            if len(self._completion_cache) > 1 << 16:
                self._completion_cache.clear()
            following_row = self._pairs.row(token)
            self._completion_cache[key] = any(
                (new_state := self._word_masks.advance(word_state, self._word_masks.characters_by_id[head], False))
                is not None
                and (not new_state.partial_char or self._can_complete_character(new_state, head))
                for head in self._word_masks.heads.tolist()
                if is_allowed(following_row, head)
            )
        return self._completion_cache[key]


def _ids(row: Row) -> list[int]:
    return allowed_tokens(row[None])


def _remove(row: Row, tokens: Iterable[int]) -> None:
    for token in tokens:
        row[token // 32] &= ~np.uint32(1 << token % 32).view(np.int32)
