"""The reference implementation of token masks: the exact masks of a grammar over a vocabulary, by definition.

The native core caches and shares results, and skips work. This module caches only searches: it defines the masks, and
the tests compare the core with it. It has the same operations as the core, but shares only the code of the IR with it.

In: an IR `Grammar`, the bytes of each token id, the end tokens, and the names of the control tokens. Out: states, the
token ids that are allowed in a state, and the minimum number of tokens from a state to the end of an output.

A token is allowed if an accepting state can still be reached *in tokens* after its bytes. If every byte that occurs in
a token is also a token by itself, and the grammar has no token limits, a token is allowed if a state exists after its
bytes, because every state has a completion in live bytes (`language.py`). Otherwise, a breadth-first search of the
graph of states and tokens decides.
Example: with the tokens `a` and `bc`, the grammar `a|aab` does not allow a second `a`: a `b` would have to follow, and
no token spells it.

End tokens and control tokens spell no text, regardless of their bytes. Ids without bytes (None or empty) are allowed
only where the grammar names them. A grammar names a control token by its id or by its name.

If the grammar names an end token, the output ends there: any end token is allowed where the grammar allows one of them
as the last token. Otherwise, end tokens in the grammar are never allowed.

Cost: a mask tries every token. Searches are memoised by state and raise `LimitExceeded` after `MAX_SEARCH` states; they
never approximate. The code is deliberately slow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from guided.automaton.reference.language import Language, State, accepts, viable
from guided.errors import LimitExceeded, SpecError, VocabularyError
from guided.frontends.common.rule_table import replace_nodes
from guided.ir.nodes import Grammar, Node, OtherTokens
from guided.ir.tokens import other_tokens

__all__ = ["ReferenceGrammar", "State", "accepts", "viable"]

MAX_SEARCH = 10_000
"""The maximum number of states that one search visits."""

_NO_NAMES: Mapping[int, str] = MappingProxyType({})


class ReferenceGrammar:
    """One grammar over one vocabulary. States are compared by identity.

    Args:
        tokens: token id -> its bytes; None or empty for an id that spells nothing.
        eos_token_ids: the ids that end an output.
        special_tokens: id -> name of each control token.

    Raises:
        SpecError: the language is empty, or the grammar is malformed.
        VocabularyError: the grammar names a missing control token, or the tokens cannot write any output.
        UnsupportedError: a text does not fit into its token limit.
        LimitExceeded: a search visits too many states.
    """

    def __init__(
        self,
        grammar: Grammar,
        tokens: Sequence[bytes | None],
        eos_token_ids: Collection[int],
        special_tokens: Mapping[int, str] = _NO_NAMES,
    ) -> None:
        self._end_tokens = frozenset(eos_token_ids)
        no_text = self._end_tokens | special_tokens.keys()
        self._texts = {token: data for token, data in enumerate(tokens) if data and token not in no_text}
        strings = frozenset(self._texts.values())
        live = frozenset(byte for data in strings for byte in data)
        self._is_byte_complete = all(bytes([byte]) in strings for byte in live)
        self._strings = sorted(strings)
        grammar = _without_other_tokens(grammar, self._texts, special_tokens)
        self._language = Language(grammar, live)
        named_ids = self._control_ids(len(tokens), special_tokens)
        self._named_ends = [names for token, names in named_ids.items() if token in self._end_tokens]
        self._controls = {token: names for token, names in named_ids.items() if token not in self._end_tokens}
        self._terminated = State(frozenset(), is_accepting=True)
        self._distances: dict[State, int | None] = {}
        start = self._language.start
        if start is not None:
            self._language.check_limits(strings)
        if start is None or not self._can_finish(start):
            if Language(grammar).start is None:
                raise SpecError("the grammar generates nothing")
            raise VocabularyError("the tokens of the vocabulary cannot write any output of the grammar")
        self._start = start

    def _control_ids(self, size: int, special_tokens: Mapping[int, str]) -> dict[int, frozenset[int | str]]:
        """The control and end tokens that the grammar names: id -> the names that the grammar uses for it, or the id
        itself.
        """
        names_by_id: dict[int, set[int | str]] = {}
        for name in self._language.control_tokens:
            if isinstance(name, str):
                ids = {token for token, its_name in special_tokens.items() if its_name == name}
            else:
                ids = {name} if 0 <= name < size or name in special_tokens or name in self._end_tokens else set()
            if not ids:
                raise VocabularyError(f"the vocabulary has no control token {name!r}")
            for token in ids:
                names_by_id.setdefault(token, set()).add(name)
        return {token: frozenset(names) for token, names in names_by_id.items()}

    def initial(self) -> State:
        """The state before the first token."""
        return self._start

    def is_accepting(self, state: State) -> bool:
        """Whether the output may end here. This is also true after an end token."""
        if state.is_accepting or state is self._terminated:
            return True
        next_states = [self._language.special(state, names) for names in self._named_ends]
        return any(next_state is not None and next_state.is_accepting for next_state in next_states)

    def is_terminated(self, state: State) -> bool:
        """Whether an end token has been accepted. Further end tokens change nothing; no other token may follow."""
        return state is self._terminated

    def step(self, state: State, byte: int) -> State | None:
        """The state after one byte, or None if no output continues with it."""
        return self._language.step(state, byte)

    def accept_token(self, state: State, token: int) -> State | None:
        """The state after one token, or None if it is not allowed."""
        if token in self._end_tokens:
            return self._terminated if self.is_accepting(state) else None
        next_state = self._read_bytes(state, self._texts.get(token))
        if token in self._controls:  # a grammar may also name an ordinary token by its id
            next_state = self._language.unite(next_state, self._language.special(state, self._controls[token]))
        return next_state if next_state is not None and self._can_finish(next_state) else None

    def mask(self, state: State) -> set[int]:
        """The ids that are allowed next."""
        return {token for token in self._ids() if self.accept_token(state, token) is not None}

    def min_tokens(self, state: State) -> int | None:
        """The minimum number of tokens to the end of an output, including the end token; None if unreachable."""
        if self.is_terminated(state):
            return 0
        if not self._end_tokens:
            return None
        if state not in self._distances:
            self._distances[state] = self._search(state)
        min_tokens = self._distances[state]
        return None if min_tokens is None else min_tokens + 1

    def budget_mask(self, state: State, n: int) -> set[int]:
        """The ids that are allowed next if the output must end within `n` tokens, including the end token."""
        allowed = set()
        for token in self._ids():
            next_state = self.accept_token(state, token)
            tokens_left = None if next_state is None else self.min_tokens(next_state)
            if tokens_left is not None and tokens_left <= n - 1:
                allowed.add(token)
        return allowed

    def _ids(self) -> set[int]:
        return {*self._end_tokens, *self._texts, *self._controls}

    def _read_bytes(self, state: State, data: bytes | None) -> State | None:
        next_state = state if data else None
        for byte in data or b"":
            next_state = self._language.step(next_state, byte) if next_state is not None else None
        return (
            next_state
            if next_state is None or not self._language.limits
            else self._language.after_token(next_state, self._strings)
        )

    def _successors(self, state: State) -> Iterator[State]:
        for data in self._strings:
            if (next_state := self._read_bytes(state, data)) is not None:
                yield next_state
        for names in self._controls.values():
            if (next_state := self._language.special(state, names)) is not None:
                yield next_state

    def _can_finish(self, state: State) -> bool:
        """Whether tokens lead from `state` to an accepting state."""
        if self._is_byte_complete and not self._language.limits and not self._named_ends:
            return True
        if state not in self._distances:
            self._distances[state] = self._search(state)
        return self._distances[state] is not None

    def _search(self, start: State) -> int | None:
        """The minimum number of tokens from `start` to an accepting state, or None; found by breadth-first search."""
        seen, level, distance = {start}, [start], 0
        while level:
            if any(map(self.is_accepting, level)):
                return distance
            next_level: list[State] = []
            for successor in (successor for state in level for successor in self._successors(state)):
                if successor not in seen:
                    seen.add(successor)
                    next_level.append(successor)
                if len(seen) > MAX_SEARCH:
                    raise LimitExceeded("states", len(seen), MAX_SEARCH, fixed=True)
            level, distance = next_level, distance + 1
        return None


def _without_other_tokens(grammar: Grammar, text_ids: Collection[int], special_tokens: Mapping[int, str]) -> Grammar:
    """Replace each `OtherTokens` by nodes that list the tokens that it allows."""

    def find_ids(token: int | str) -> Collection[int]:
        token_ids = [token] if isinstance(token, int) else [id for id, name in special_tokens.items() if name == token]
        if not token_ids:
            raise VocabularyError(f"the vocabulary has no control token {token!r}")
        return token_ids

    def replace_other_tokens(node: Any) -> Node | None:
        if not isinstance(node, OtherTokens):
            return None
        return other_tokens(node, {id for token in node.but for id in find_ids(token)}, text_ids)

    return replace_nodes(grammar, replace_other_tokens)
