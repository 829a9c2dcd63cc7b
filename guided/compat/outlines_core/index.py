"""`Index` and `Guide` as in outlines-core: an automaton with numbered states, and a current state in it.

In: a regular expression in Rust's syntax or a result of `build_regex_from_schema`, and a vocabulary. Out: the tokens
allowed in a state, and the next state after a token.

How: a compiled grammar creates its states when they are first reached. States are numbered from 0 in the order in which
they are found, so a number is valid only for one index and its copies. `get_transitions` and `get_final_states` explore
all states, up to `MAX_STATES`, for at most `MAX_SECONDS`. This takes seconds for a large vocabulary; outlines-core
spends this time when it builds the index.

Differences: a token after which the vocabulary cannot complete the output is not allowed; outlines-core refuses to
build the index instead. A token without text is not allowed.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from typing import Any, Final

import numpy as np

from guided.compat.memory import rows_at
from guided.compat.outlines_core.json_schema import read_marker
from guided.compat.outlines_core.vocabulary import Vocabulary
from guided.errors import GuidedError, LimitExceeded, VocabularyError
from guided.frontends.regex.rust_syntax import to_python_regex
from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.matcher import GrammarMatcher
from guided.meter import limit_work, spend

__all__ = ["MAX_SECONDS", "MAX_STATES", "Guide", "Index"]

MAX_STATES: Final = 100_000
MAX_SECONDS: Final = 60.0


class _States:
    """The states that have been found so far, each with a matcher in that state."""

    def __init__(self, grammar: CompiledGrammar) -> None:
        self.eos_token_id = min(grammar.vocabulary.eos_token_ids)
        self._size = grammar.vocabulary.size
        self._lock = threading.Lock()
        self._matchers = [GrammarMatcher(grammar)]
        self._numbers = {self._matchers[0].state: 0}
        # for each state but the first: the state before it, and the token that leads to it
        self._parents: list[tuple[int, int] | None] = [None]
        self._allowed_tokens: dict[int, list[int]] = {}

    def find_allowed_tokens(self, state: int) -> list[int] | None:
        """The tokens allowed in a state, in ascending order; None if there is no such state, or no token is allowed."""
        with self._lock:
            if not 0 <= state < len(self._matchers):
                return None
            if state not in self._allowed_tokens:
                row = allocate_token_bitmask(1, self._size)
                has_mask = self._matchers[state].fill_next_token_bitmask(row)
                self._allowed_tokens[state] = allowed_tokens(row) if has_mask else list(range(self._size))
            return self._allowed_tokens[state] or None

    def is_final(self, state: int) -> bool:
        with self._lock:
            return 0 <= state < len(self._matchers) and self._matchers[state].is_accepting()

    def next_state(self, state: int, token: int) -> int | None:
        """The state after a token; None if the token is not allowed, or is the end token."""
        with self._lock:
            if not 0 <= state < len(self._matchers) or token == self.eos_token_id or not 0 <= token < self._size:
                return None
            matcher = self._matchers[state].fork()
            if not matcher.accept_token(token):
                return None
            number = self._numbers.get(matcher.state)
            if (
                number is None or self._matchers[number].state != matcher.state
            ):  # the grammar discarded its states and numbered them again
                self._numbers = {known_matcher.state: index for index, known_matcher in enumerate(self._matchers)}
                number = self._numbers.get(matcher.state)
            if number is None:
                number = self._numbers[matcher.state] = len(self._matchers)
                self._matchers.append(matcher)
                self._parents.append((state, token))
            return number

    def explore(self) -> int:
        """Find all states, and return how many there are. LimitExceeded: there are too many."""
        state = 0
        while state < len(self._matchers):
            for token in self.find_allowed_tokens(state) or ():
                spend()
                self.next_state(state, token)
            state += 1
            if len(self._matchers) > MAX_STATES:
                raise LimitExceeded("states", len(self._matchers), MAX_STATES, fixed=True)
        return state

    def find_path(self, state: int) -> list[int]:
        """Tokens that lead from the initial state to this state."""
        out: list[int] = []
        while (parent := self._parents[state]) is not None:
            state = parent[0]
            out.append(parent[1])
        return out[::-1]


class Index:
    """See the module docstring.

    Args:
        regex: a pattern in Rust's syntax, which the whole output must match.
        vocabulary: the tokens; later changes to it have no effect.

    Raises:
        ValueError: the pattern is invalid or not supported, or no sequence of tokens matches it.
    """

    __hash__ = None  # type: ignore[assignment]  # as in outlines-core

    def __init__(self, regex: str, vocabulary: Vocabulary) -> None:
        self._regex, self._vocabulary = regex, vocabulary.__deepcopy__({})
        try:
            self._states = _States(_compile_regex(regex, vocabulary))
        except VocabularyError as error:
            raise ValueError(
                f"The vocabulary provided is incompatible with the regex {regex[:100]!r}: {error}"
            ) from error
        except GuidedError as error:
            raise ValueError(f"Failed to build the index: {error}") from error

    def get_initial_state(self) -> int:
        """The initial state."""
        return 0

    def get_allowed_tokens(self, state: int) -> list[int] | None:
        """The tokens allowed in a state, in ascending order; None if there is no such state, or no token is allowed."""
        return self._states.find_allowed_tokens(state)

    def get_next_state(self, state: int, token_id: int) -> int | None:
        """The state after a token; None if the token is not allowed, or is the end token."""
        return self._states.next_state(state, token_id)

    def is_final_state(self, state: int) -> bool:
        """Whether the output may end in a state."""
        return self._states.is_final(state)

    def get_final_states(self) -> set[int]:
        """All states in which the output may end. LimitExceeded: there are more than `MAX_STATES` states, or finding
        them takes more than `MAX_SECONDS`."""
        with limit_work(MAX_SECONDS):
            return {state for state in range(self._states.explore()) if self._states.is_final(state)}

    def get_transitions(self) -> dict[int, dict[int, int]]:
        """State -> token -> next state; the end token leads back to the same state. LimitExceeded: see
        `get_final_states`."""
        out: dict[int, dict[int, int]] = {}
        with limit_work(MAX_SECONDS):
            for state in range(self._states.explore()):
                spend()
                tokens = self._states.find_allowed_tokens(state) or ()
                next_states = {token: self._states.next_state(state, token) for token in tokens}
                out[state] = {
                    token: state if next_state is None else next_state for token, next_state in next_states.items()
                }
        return out

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and (self._regex, self._vocabulary) == (other._regex, other._vocabulary)

    def __deepcopy__(self, memo: dict[int, Any]) -> Index:
        out = object.__new__(Index)
        out.__dict__.update(self.__dict__)  # the shared states only cache results
        return out

    def __repr__(self) -> str:
        return f"Index({self._regex[:60]!r}, {self._vocabulary!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Index, (self._regex, self._vocabulary)

    @staticmethod
    def from_binary(binary_data: bytes | list[int]) -> Index:
        """An index from JSON: `{"regex": ..., "vocabulary": ...}`, where `Vocabulary.from_binary` reads the vocabulary.

        Raises:
            ValueError: the data is not an index.
        """
        try:
            data = json.loads(bytes(binary_data))
            return Index(data["regex"], Vocabulary.from_binary(data["vocabulary"].encode()))
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"Deserialization of Index failed: {error}") from None


def _compile_regex(regex: str, vocabulary: Vocabulary) -> CompiledGrammar:
    compiler = GrammarCompiler(vocabulary.to_guided(), cache_bytes=0, warn=False)
    schema = read_marker(regex)
    if schema is not None:
        return compiler.compile_json_schema(schema[0], **schema[1])
    return compiler.compile_regex(to_python_regex(regex, compiler.limits))


class Guide:
    """The current state of one output in an index.

    Args:
        index: the index.
        max_rollback: the number of previous states to keep.
    """

    __hash__ = None  # type: ignore[assignment]  # it is mutable

    def __init__(self, index: Index, max_rollback: int = 32) -> None:
        self._index, self._state = index, index.get_initial_state()
        self._previous_states: deque[int] = deque(maxlen=max_rollback)

    def get_state(self) -> int:
        """The number of the current state."""
        return self._state

    def get_tokens(self) -> list[int]:
        """The allowed tokens. ValueError: there are none."""
        tokens = self._index.get_allowed_tokens(self._state)
        if tokens is None:
            raise ValueError(f"No allowed tokens available for the state {self._state}")
        return tokens

    def get_allowed_rollback(self) -> int:
        """The number of steps that can be taken back."""
        return len(self._previous_states)

    def advance(self, token_id: int, return_tokens: bool | None = None) -> list[int] | None:
        """Accept a token, and return the tokens allowed after it, or None if `return_tokens` is False.

        Raises:
            ValueError: the token is not allowed, or is the end token.
        """
        next_state = self._index.get_next_state(self._state, token_id)
        if next_state is None:
            raise ValueError(f"No next state found for the current state: {self._state} with token ID: {token_id}")
        self._previous_states.append(self._state)
        self._state = next_state
        return None if return_tokens is False else self.get_tokens()

    def rollback_state(self, n: int) -> None:
        """Take back n steps. ValueError: fewer than n previous states are kept."""
        if n > len(self._previous_states):
            raise ValueError(
                f"Cannot roll back {n} step(s): only {len(self._previous_states)} states stored "
                f"(max_rollback = {self._previous_states.maxlen})."
            )
        for _ in range(n):
            self._state = self._previous_states.pop()

    def accepts_tokens(self, sequence: list[int]) -> bool:
        """Whether the tokens would be accepted one after the other. The state does not change."""
        state: int | None = self._state
        for token in sequence:
            state = None if state is None else self._index.get_next_state(state, token)
        return state is not None

    def is_finished(self) -> bool:
        """Whether the output may end here."""
        return self._index.is_final_state(self._state)

    def write_mask_into(self, data_ptr: int, numel: int, element_size: int) -> None:
        """Write the mask to an address: int32, bit `id % 32` of word `id // 32`.

        Raises:
            ValueError: the address, the number of elements or their size is wrong.
        """
        min_words = (len(self._index._vocabulary) + 31) // 32
        if element_size != 4:
            raise ValueError(f"Invalid element size: got {element_size} bytes per element, expected 4 bytes")
        if data_ptr == 0:
            raise ValueError("Invalid data pointer: received a null pointer.")
        if data_ptr % 4:
            raise ValueError(f"Invalid data pointer alignment: pointer address {data_ptr} is not a multiple of 4.")
        if numel < min_words:
            raise ValueError(f"Invalid buffer size: got {numel} elements, expected {min_words} elements")
        bits = np.zeros(32 * numel, np.uint8)
        tokens = np.array(self._index.get_allowed_tokens(self._state) or [], np.int64)
        bits[tokens[tokens < len(bits)]] = 1
        rows_at(data_ptr, 1, numel)[0] = np.packbits(bits, bitorder="little").view("<i4")

    def reset(self) -> None:
        """Return to the initial state. The previous states for `rollback_state` are kept."""
        self._state = self._index.get_initial_state()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Guide) or self._index != other._index:
            return False
        return self._state_numbers(self._index._states) == other._state_numbers(self._index._states)

    def _state_numbers(self, states: _States) -> list[int | None]:
        """The previous and current states, numbered as in `states`, which may belong to another equal index."""
        own_states, out = self._index._states, list[int | None]()
        for state in (*self._previous_states, self._state):
            number: int | None = state
            if own_states is not states:
                number = 0
                for token in own_states.find_path(state):
                    number = None if number is None else states.next_state(number, token)
            out.append(number)
        return out

    def __repr__(self) -> str:
        return f"Guide object with the state={self._state} and {self._index!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        paths = [self._index._states.find_path(state) for state in (*self._previous_states, self._state)]
        return _restore_guide, (self._index, self._previous_states.maxlen, paths)

    @staticmethod
    def from_binary(binary_data: bytes | list[int]) -> Guide:
        """A guide in the initial state of the index that `Index.from_binary` reads. ValueError: it is not an index."""
        return Guide(Index.from_binary(binary_data))


def _restore_guide(index: Index, max_rollback: int, paths: list[list[int]]) -> Guide:
    """Create a guide in the state to which the last path leads; the other paths lead to its previous states."""
    out = Guide(index, max_rollback)
    numbers = []
    for path in paths:
        state: int | None = 0
        for token in path:
            state = None if state is None else index.get_next_state(state, token)
        if state is None:
            raise ValueError("Deserialization of Guide failed: its tokens are not allowed")
        numbers.append(state)
    *previous_states, out._state = numbers
    out._previous_states.extend(previous_states)
    return out
