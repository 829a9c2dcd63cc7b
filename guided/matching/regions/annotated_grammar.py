"""Builds the automaton of a grammar with marks around its regions. In: a grammar, a vocabulary. Out: states.

    value[capture]: /[a-z]+/         value: <begin 0> /[a-z]+/ <end 0>

A mark is a control token that occurs only in the grammar, never in an output. So the core parses texts with marks like
any other text: each marked text leads to a state, and equal states have equal continuations. `parse_paths.py` finds the
marks of a text.

For a grammar with a lexer, the rules are marked, and the automaton reads terminals instead of bytes.

Cost: the grammar is compiled a second time on the first access to its regions. A known step is a lookup. At most
`_MAX_STATES` states are cached.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import RLock
from typing import Any, Final, TypeAlias

from guided.automaton import _core
from guided.automaton.build import Target, compile_native
from guided.automaton.build_lexer import ids_of_terminals
from guided.errors import LimitExceeded
from guided.ir.nodes import EPSILON, Alt, Ending, Grammar, Node, Region, Seq, Special
from guided.limits import Limits
from guided.vocabulary import Vocabulary

__all__ = ["AnnotatedGrammar", "Automaton", "Entry", "State", "automaton_of", "automaton_of_rules"]

_MAX_STATES: Final = 50_000
_MAX_ENTRIES: Final = 10_000
_TABLE_BYTES: Final = 1 << 16
_UNKNOWN: Final[Any] = object()


class State:
    """A state of an automaton, compared by identity. `steps`: byte, 256 + token, or -1 (end of a token) -> state."""

    __slots__ = ("can_read", "entries", "is_accepting", "matcher", "steps", "tokens")

    def __init__(self, matcher: _core.Matcher) -> None:
        self.matcher, self.is_accepting = matcher, matcher.is_accepting()
        self.tokens = matcher._next_tokens()
        self.can_read = bool(matcher._next_bytes())
        self.steps: dict[int, State | None] = {}
        self.entries: tuple[Entry, ...] | None = None


Entry: TypeAlias = tuple[State, tuple[int, ...]]
"""A state, and the marks that lead to it."""


class Automaton:
    """The states of a compiled grammar, created when they are reached. Not thread-safe."""

    def __init__(self, compiled: _core.Compiled) -> None:
        self._native_grammar, self._rebuilds = compiled, compiled.rebuilds
        self._states: dict[int, State] = {}
        self.start = self._intern_state(_core.Matcher(compiled))

    def read_byte(self, state: State, byte: int) -> State | None:
        """The state after a byte, or None."""
        next_state = state.steps.get(byte, _UNKNOWN)
        if next_state is _UNKNOWN:
            matcher = _core.Matcher(state.matcher)
            next_state = state.steps[byte] = (
                self._intern_state(matcher) if matcher._accept_part(bytes([byte])) else None
            )
        return next_state  # type: ignore[no-any-return]

    def read_token(self, state: State, token: int) -> State | None:
        """The state after a control token, or None."""
        next_state = state.steps.get(256 + token, _UNKNOWN)
        if next_state is _UNKNOWN:
            matcher = _core.Matcher(state.matcher)
            next_state = state.steps[256 + token] = self._intern_state(matcher) if matcher.accept_token(token) else None
        return next_state  # type: ignore[no-any-return]

    def end_token(self, state: State) -> State | None:
        """The state after the end of a token whose bytes were read, or None."""
        next_state = state.steps.get(-1, _UNKNOWN)
        if next_state is _UNKNOWN:
            matcher = _core.Matcher(state.matcher)
            next_state = state.steps[-1] = self._intern_state(matcher) if matcher._end_token() else None
        return next_state  # type: ignore[no-any-return]

    def accepts(self, data: bytes) -> bool | None:
        """Whether a text is complete; None if no complete text begins with it. It does not cache states."""
        matcher = _core.Matcher(self.start.matcher)
        return matcher.is_accepting() if matcher._accept_part(data) else None

    def _intern_state(self, matcher: _core.Matcher) -> State:
        # When the core rebuilds its table of states, it numbers them anew.
        if self._native_grammar.rebuilds != self._rebuilds or len(self._states) > _MAX_STATES:
            self._rebuilds = self._native_grammar.rebuilds
            self._states.clear()
        number = matcher.state
        if number not in self._states:
            self._states[number] = State(matcher)
        return self._states[number]


class AnnotatedGrammar:
    """A grammar with marks. Hold `lock` while using its automata.

    Attributes:
        first_mark: the token of the first mark. The marks of region k are first_mark + 2k (begin) and first_mark + 2k +
            1 (end).
        regions: the regions, by number.
        counts_tokens: whether the grammar counts tokens (`MaxTokens`), so that the ends of tokens matter.
    """

    def __init__(
        self,
        grammar: Grammar,
        vocabulary: Vocabulary,
        get_text_ids: Callable[[], frozenset[int]],
        counts_tokens: bool,
        limits: Limits,
    ) -> None:
        self.lock = RLock()
        self.lexer, self.limits = grammar.lexer, limits
        self.regions = list(grammar.regions.values())
        self._ending_automata: dict[Ending, tuple[Automaton, Automaton]] = {}
        mark_count = 2 * len(self.regions)
        special_ids: dict[str, list[int]] = {}
        tokens: list[bytes | None]
        if grammar.lexer is not None:
            terminal_ids = ids_of_terminals(grammar.lexer)
            self.first_mark, special_ids = len(terminal_ids), {name: [token] for name, token in terminal_ids.items()}
            tokens, end_ids = [None] * (self.first_mark + mark_count), [self.first_mark + mark_count]
        else:
            for token, name in vocabulary.special_tokens.items():
                special_ids.setdefault(name, []).append(token)
            # Counting tokens needs the vocabulary's tokens; otherwise, single bytes suffice to read a text.
            tokens, end_ids = [None] * vocabulary.size, sorted(vocabulary.eos_token_ids)
            if counts_tokens:
                tokens[: len(vocabulary.tokens)] = vocabulary.tokens
            else:
                tokens += [bytes([byte]) for byte in range(256)]
            self.first_mark = len(tokens)
            tokens += [None] * mark_count
        marked_vocabulary = _core.TokenVocabulary(
            tokens, end_ids, max(len(tokens), max(end_ids, default=-1) + 1), _TABLE_BYTES
        )
        rules = dict(grammar.rules)
        for number, name in enumerate(grammar.regions):
            rules[name] = self._mark_node(rules[name], number)
        target = Target(marked_vocabulary, special_ids, end_ids, get_text_ids)
        compiled = compile_native(Grammar(rules, grammar.start), target, limits)
        self.automaton = Automaton(compiled)
        self.counts_tokens = compiled.limits_tokens

    def _mark_node(self, node: Node, number: int) -> Node:
        begin, end = Special(self.first_mark + 2 * number), Special(self.first_mark + 2 * number + 1)
        marked_node = Seq((begin, node, end))
        return Alt((EPSILON, marked_node)) if self.regions[number].ignored else marked_node

    def region(self, mark: int) -> tuple[Region, bool]:
        """The region of a mark, and whether the mark ends it."""
        number, is_end = divmod(mark - self.first_mark, 2)
        return self.regions[number], bool(is_end)

    def entries(self, state: State) -> tuple[Entry, ...]:
        """The state itself and the states that marks lead to, in order of preference. States that neither read text nor
        accept are left out.

        A region begins as early and ends as late as possible; ignored text begins late.

        Raises:
            LimitExceeded: there are too many such states.
        """
        if state.entries is None:
            out: list[Entry] = []
            seen: set[State] = set()
            stack: list[tuple[State, tuple[int, ...], bool]] = [(state, (), False)]
            while stack:
                current, marks, is_done = stack.pop()
                if is_done:
                    out.append((current, marks))
                elif current not in seen:
                    seen.add(current)
                    if len(seen) > _MAX_ENTRIES:
                        hint = "let fewer regions begin or end at the same position"
                        raise LimitExceeded("states", len(seen), _MAX_ENTRIES, fixed=True, hint=hint)
                    early_marks, late_marks, can_read = self._order_marks(current)
                    stack += [(next_state, (*marks, mark), False) for mark, next_state in reversed(late_marks)]
                    if can_read or current.is_accepting:
                        stack.append((current, marks, True))
                    stack += [(next_state, (*marks, mark), False) for mark, next_state in reversed(early_marks)]
            state.entries = tuple(out)
        return state.entries

    def _order_marks(self, state: State) -> tuple[list[tuple[int, State]], list[tuple[int, State]], bool]:
        """The marks to set as early as possible, the marks to set as late as possible, and whether the state reads
        text."""
        early_marks: list[tuple[int, State]] = []
        late_marks: list[tuple[bool, int, State]] = []
        for token in state.tokens:
            if token >= self.first_mark and (next_state := self.automaton.read_token(state, token)) is not None:
                region, is_end = self.region(token)
                if is_end or region.ignored:
                    late_marks.append((is_end, token, next_state))
                else:
                    early_marks.append((token, next_state))
        can_read = state.can_read or len(early_marks) + len(late_marks) < len(state.tokens)
        return (
            early_marks,
            [(token, next_state) for _, token, next_state in sorted(late_marks, key=lambda each: each[:2])],
            can_read,
        )

    def find_ending(self, ending: Ending, text: bytes) -> int:
        """The offset at which the end marker begins, or the length of the text if there is no marker."""
        if ending not in self._ending_automata:
            body_automaton = automaton_of(ending.before, self.limits)
            self._ending_automata[ending] = body_automaton, automaton_of(ending.end, self.limits)
        body_automaton, end_automaton = self._ending_automata[ending]
        state: State | None = body_automaton.start
        for offset in range(len(text) + 1):
            if state is None:
                break
            if state.is_accepting and end_automaton.accepts(text[offset:]):
                return offset
            state = body_automaton.read_byte(state, text[offset]) if offset < len(text) else None
        return len(text)


def automaton_of(node: Node, limits: Limits) -> Automaton:
    """The automaton of a regular node, over bytes."""
    return automaton_of_rules(Grammar({"start": node}), limits)


def automaton_of_rules(grammar: Grammar, limits: Limits) -> Automaton:
    """The automaton of a grammar without control tokens, over bytes.

    Raises:
        SpecError: the grammar generates nothing.
    """
    return Automaton(compile_native(grammar, Target(_byte_vocabulary()), limits))


@cache
def _byte_vocabulary() -> _core.TokenVocabulary:
    return _core.TokenVocabulary([bytes([each]) for each in range(256)], [256], 257, _TABLE_BYTES)
