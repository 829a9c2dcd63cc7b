"""The tokens that continue a text as the tokenizer itself would spell it.

In: the rules of a byte-level BPE tokenizer (vocabulary/byte_pairs.py). Out: `Spelling`, shared by all outputs, and a
`State` for each output. `row(state)` has the tokens t such that the encoding of some text begins with the tokens so far
and t. It has end tokens if the tokens so far are the encoding of their own text.

How: a token continues the current word, or a word border precedes it. words.py determines the borders. Within a word,
merges must leave each pair of neighbours apart (pairs.py). Further rules:

- if whole words take precedence, a word that equals an *unreachable* token (one that merges never produce) is that
  token. So such a token is a word by itself, and other tokens must not end a word with the same text
- a token that ends within a character needs a next token that continues the character
- the text between two added tokens does not contain the text of an added token
- if a tokenizer composes characters (NFC), it never produces the encoding of a text that is not composed. The check
  uses the last `_COMPOSED` bytes and the running Python's Unicode tables

Cost of a step: a few bitwise operations on rows. Rows are made on first use (words.py, pairs.py).
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple
from unicodedata import is_normalized
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from guided.matching.bitmask import allowed_tokens, is_allowed, row_of
from guided.matching.canonical.characters import composing
from guided.matching.canonical.pairs import PairTable
from guided.matching.canonical.splitter import Splitter
from guided.matching.canonical.words import BEGIN, Place, Words
from guided.vocabulary.byte_pairs import BytePairs
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Branch", "Spelling", "State", "spelling_of"]

Row = npt.NDArray[np.int32]
_MOST_ROWS: Final = 1024
_COMPOSED: Final = 64


_spellings: WeakKeyDictionary[Vocabulary, Spelling] = WeakKeyDictionary()
_spellings_lock = threading.Lock()


def spelling_of(vocabulary: Vocabulary) -> Spelling:
    """The spelling of a vocabulary's tokenizer, made on the first call (seconds for a large vocabulary).

    Raises:
        UnsupportedError: the tokenizer is not byte-level BPE, or has an unknown part.
    """
    with _spellings_lock:
        found = _spellings.get(vocabulary)
        if found is None:
            found = _spellings[vocabulary] = Spelling(vocabulary.size, vocabulary.tokens, vocabulary.byte_pairs())
        return found


class Branch(NamedTuple):
    """One reading of the output so far, given by the beginning of its last word.

    Attributes:
        place: see `Place`.
        word: the text of the last word, if it is a prefix of an unreachable token's text; else None.
        several: whether the word has more than one token.
        closed: whether the word is an unreachable token and so must end.
    """

    place: Place
    word: bytes | None = b""
    several: bool = False
    closed: bool = False


class State(NamedTuple):
    """All readings of the output so far; empty if no text is spelled so.

    Attributes:
        last: the last token.
        text: the end of the text since the last added token, if the tokenizer has added tokens.
    """

    branches: tuple[Branch, ...]
    last: int = -1
    text: bytes = b""


_BEGIN: Final = State((Branch(Place(BEGIN)),))


class Spelling:
    """See the module docstring.

    Attributes:
        begin: the state before anything is written.
    """

    def __init__(self, size: int, tokens: Sequence[bytes | None], pairs: BytePairs) -> None:
        self.begin = _BEGIN
        self._bytes, self._size = tokens, size
        self._pairs = PairTable(pairs, size)
        own = {id: data for data, id in pairs.ids.items() if id < len(self._bytes) and self._bytes[id] == data}
        self._added = {id: data for data, id in pairs.added.items()}
        self._holds_added = re.compile(b"|".join(map(re.escape, self._added.values())) or rb"(?!)")
        plain = {id: data for id, data in own.items() if id not in self._added and not self._holds_added.search(data)}
        self._words = Words(Splitter(pairs.splits), plain, self._size)
        reachable = self._pairs.reachable
        unreachable = [id for id in own if pairs.whole_first and not reachable[id] and id not in self._added]
        self._alone = np.zeros(self._size, bool)
        self._alone[unreachable] = True
        self._wholes = {own[id] for id in unreachable}
        self._ending: dict[bytes, set[int]] = {}  # the end of an unreachable token's text -> tokens that complete it
        for data in self._wholes:
            for at in range(len(data)):
                completing = self._ending.setdefault(data[:at], set())
                if (last := pairs.ids.get(data[at:])) is not None:
                    completing.add(last)
        self._longest = max((len(data) for data in self._added.values()), default=0)
        if pairs.composed:
            self._longest = max(self._longest, _COMPOSED + 1)
        self._joining = self._may_compose() if pairs.composed else None
        no_text = [id for id in range(self._size) if id >= len(self._bytes) or not self._bytes[id]]
        self._without_text = row_of(self._size, [*no_text, *self._added])
        self._nothing = row_of(self._size, [])
        self._is_tail = np.zeros(self._size, bool)
        self._is_tail[self._words.tails] = True
        self._rows: dict[tuple[Place, bool], Row] = {}
        self._completed: dict[tuple[Place, int], bool] = {}
        self._holding: dict[int, Row] = {}
        self._rests: dict[bytes, set[bytes]] = {}  # a prefix of an added token's text -> the rests
        for data in self._added.values():
            for n in range(1, len(data)):
                self._rests.setdefault(data[:n], set()).add(data[n:])
        self._by_bytes = sorted((data, id) for id, data in own.items()) if self._added else []
        self._lock = threading.RLock()

    def row(self, state: State) -> Row:
        """The allowed tokens as a bitmask row; control and end tokens are among them if a text may end here."""
        with self._lock:
            out = self._nothing.copy()
            for branch in state.branches:
                out |= self._row(branch, state.last)
            if self._added:
                _remove(out, self._begun_added(state.text))
            if self._joining is not None:
                _remove(out, [id for id in _ids(out & self._joining) if not self._is_composed(state.text, id)])
            if self.may_end(state):
                out |= self._without_text
            return out

    @cached_property
    def marks(self) -> Row:
        """The tokens that are a single ASCII punctuation mark or white space, as a row."""
        signs = {bytes((byte,)) for byte in range(128) if not chr(byte).isalnum()}
        return row_of(self._size, [id for id, data in enumerate(self._bytes) if data in signs])

    def with_any(self, marks: Iterable[int]) -> Row:
        """The tokens whose text contains the bytes of one of these tokens, as a row."""
        out = self._nothing.copy()
        for mark in marks:
            if mark not in self._holding:
                sign = self._bytes[mark] or b""
                self._holding[mark] = row_of(
                    self._size, [i for i, data in enumerate(self._bytes) if data and sign in data]
                )
            out |= self._holding[mark]
        return out

    def length(self, token: int) -> int:
        """The number of bytes of a token."""
        return len(self._bytes[token] or b"") if token < len(self._bytes) else 0

    def may_end(self, state: State) -> bool:
        """Whether the tokens are the encoding of their own text."""
        return any(not b.place.rest and not self._blocked(b) and self._words.may_end(b.place.states)
                   for b in state.branches)  # fmt: skip

    def after(self, state: State, token: int) -> State:
        """The state after a token; without branches if no text is spelled so."""
        with self._lock:
            data = self._bytes[token] if token < len(self._bytes) else None
            if not data or token in self._added:
                return _BEGIN if self.may_end(state) else State(())
            if self._added and self._writes_added(state.text, token):
                return State(())
            if self._joining is not None and not self._is_composed(state.text, token):
                return State(())
            found = [new for branch in state.branches for new in self._moved(branch, state.last, token)]
            return State(tuple(dict.fromkeys(found)), token, self._text_tail(state.text + data))

    def any_way(self, state: State, token: int) -> State:
        """The state after a token that the tokenizer would not write: its text, with word borders anywhere."""
        with self._lock:
            data = self._bytes[token] if token < len(self._bytes) else None
            if not data or token in self._added:
                return _BEGIN
            words, parts = self._words, self._words.spelled.get(token)
            places = set[Place]()
            for branch in state.branches:
                if parts is None or bool(branch.place.rest) != bool(parts.head):
                    continue
                states, text = branch.place.states, parts.text
                if parts.head:
                    text = (branch.place.rest + parts.head).decode(errors="ignore") + text
                if states := words.any_way(states, text):
                    places.update((Place(states, parts.tail), Place(states, parts.tail, bool(parts.tail))))
            branches = tuple(Branch(place, None) for place in sorted(places))
            return State(branches or (Branch(Place(BEGIN)),), token, self._text_tail(state.text + data))

    def _text_tail(self, text: bytes) -> bytes:
        """The end of a text in which an added token's text may begin."""
        return text[-(self._longest - 1) :] if self._longest > 1 else b""

    def _begun_added(self, text: bytes) -> Iterator[int]:
        """The tokens that complete the text of an added token whose beginning is already written."""
        for n in range(1, min(self._longest, len(text) + 1)):
            for rest in self._rests.get(text[len(text) - n :], ()):
                at = bisect_left(self._by_bytes, (rest, -1))
                while at < len(self._by_bytes) and self._by_bytes[at][0].startswith(rest):
                    yield self._by_bytes[at][1]
                    at += 1

    def _writes_added(self, text: bytes, token: int) -> bool:
        """Whether the text of an added token ends in this token."""
        return self._holds_added.search(text + (self._bytes[token] or b"")) is not None

    def _may_compose(self) -> Row:
        """The tokens that may compose with the text before them, or are not in normal form C themselves, as a row."""
        joins = composing()
        words = self._words.spelled.items()
        found = [id for id, (head, text, _) in words if head or text[:1] in joins or not is_normalized("NFC", text)]
        return row_of(self._size, found)

    def _is_composed(self, text: bytes, token: int) -> bool:
        """Whether a text with a token after it is in normal form C."""
        return is_normalized("NFC", (text + (self._bytes[token] or b"")).decode(errors="ignore"))

    def _blocked(self, branch: Branch) -> bool:
        """Whether the word must not end here."""
        return branch.several and branch.word in self._wholes

    def _row(self, branch: Branch, last: int) -> Row:
        """The tokens that may follow in one reading."""
        out = self._nothing.copy()
        place = branch.place
        if not place.rest and not self._blocked(branch):
            out |= self._open(place, True)
        if not branch.closed and place.is_begun and self._goes_on_after(last):
            goes_on = self._open(place, False) & self._pairs.row(last)
            few = self._ending.get(branch.word, ()) if branch.word is not None else ()
            dead = [id for id in few if is_allowed(goes_on, id) and not any(self._moved(branch, last, id, (False,)))]
            _remove(goes_on, dead)
            out |= goes_on
        return out

    def _open(self, place: Place, cut: bool) -> Row:
        """The tokens that continue a word, or begin one (`cut`), and after which a text can continue."""
        key = place, cut
        if key not in self._rows:
            if len(self._rows) >= _MOST_ROWS:
                self._rows.clear()
            out = self._words.row(place, cut) & (self._pairs.reachable | self._alone if cut else self._pairs.reachable)
            for id in np.flatnonzero(out & (self._alone | self._is_tail)).tolist():
                out[id] = self._after(place, id, cut) is not None
            self._rows[key] = row_of(self._size, np.flatnonzero(out))  # type: ignore[arg-type]
        return self._rows[key]

    def _after(self, place: Place, token: int, cut: bool) -> Place | None:
        """The place after a token, or None if no text can continue there. An unreachable token ends its word."""
        after = self._words.after(place, self._words.spelled[token], cut)
        if after is None or (after.rest and not self._is_completed(after, token)):
            return None
        if self._alone[token]:
            after = after._replace(states=0 if after.rest else self._words.ending(after.states))
        return after if after.states else None

    def _goes_on_after(self, last: int) -> bool:
        """Whether a word can continue after its last token."""
        return last >= 0 and bool(self._pairs.reachable[last])

    def _moved(self, branch: Branch, last: int, token: int, ways: tuple[bool, ...] = (False, True)) -> Iterator[Branch]:
        """The readings after a token that continues the word, or begins one (True)."""
        data, reachable = self._bytes[token] or b"", bool(self._pairs.reachable[token])
        if token not in self._words.spelled or not (reachable or self._alone[token]):
            return
        for cut in ways:
            if cut and (branch.place.rest or self._blocked(branch)):
                continue
            if not cut and (branch.closed or not reachable or not branch.place.is_begun):
                continue
            if not cut and not (self._goes_on_after(last) and is_allowed(self._pairs.row(last), token)):
                continue
            place = self._after(branch.place, token, cut)
            if place is None:
                continue
            word = data if cut else None if branch.word is None else branch.word + data
            known = word is not None and (word in self._ending or word in self._wholes)
            new = Branch(place, word if known else None, known and not cut, not reachable)
            if not self._blocked(new) or self._row(new, token).any():
                yield new

    def _is_completed(self, place: Place, token: int) -> bool:
        """Whether the tokens that may follow can complete a character that a token has begun."""
        key = place, token
        if key not in self._completed:
            if len(self._completed) > 1 << 16:
                self._completed.clear()
            may_follow = self._pairs.row(token)
            self._completed[key] = any(
                (after := self._words.after(place, self._words.spelled[head], False)) is not None
                and (not after.rest or self._is_completed(after, head))
                for head in self._words.heads.tolist()
                if is_allowed(may_follow, head)
            )
        return self._completed[key]


def _ids(row: Row) -> list[int]:
    return allowed_tokens(row[None])


def _remove(row: Row, tokens: Iterable[int]) -> None:
    for token in tokens:
        row[token // 32] &= ~np.uint32(1 << token % 32).view(np.int32)
