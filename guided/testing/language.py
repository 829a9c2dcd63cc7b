"""The language of a specification as a deterministic automaton over bytes, which is built state by state.

In: a constraint, as for `Engine.generate`. Out: states, which of them accept, and the state after each byte. States are
numbers. States with equal numbers allow the same continuations; states with different numbers may do so, too. Every
state can be completed to a text. There may be infinitely many states, so callers must bound their searches.

Cost: a mask for each state, and an accepted byte for each edge; both are cached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, Unpack

from guided.errors import GuidedError
from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import Constraint, ConstraintOptions, compile_constraint
from guided.matching.matcher import GrammarMatcher
from guided.matching.sentences import byte_vocabulary

__all__ = ["BYTES", "END", "Language", "State", "over_bytes"]

State: TypeAlias = int
END: Final = 256
"""The id of the end token in `BYTES`."""
BYTES: Final = byte_vocabulary()
"""A token for each byte, so that masks show the specification without regard to a model's tokens."""
_READABLE: Final = b'abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ "{}[]:,.-'
_RANK: Final = {byte: rank for rank, byte in enumerate(_READABLE)}


def over_bytes(constraint: Constraint, **options: Unpack[ConstraintOptions]) -> CompiledGrammar:
    """The grammar of a constraint over `BYTES`.

    A compiled grammar is compiled again from its specification. Any other constraint is read like a constraint of
    `Engine.generate`, with the same options.

    Raises:
        SpecError, UnsupportedError: the specification is invalid. GuidedError: there is no constraint.
    """
    compiler = GrammarCompiler(BYTES)
    if isinstance(constraint, CompiledGrammar):
        return constraint if constraint.vocabulary is BYTES else compiler.compile_grammar(constraint.grammar)
    grammar = compile_constraint(compiler, constraint, options)
    if grammar is None:
        raise GuidedError("there is no constraint, so there is no language")
    return grammar


class Language:
    """See the module docstring.

    Attributes:
        start: the state of the empty text.
    """

    def __init__(self, grammar: CompiledGrammar) -> None:
        matcher = GrammarMatcher(grammar)
        self.start: State = matcher.state
        self._matchers = {self.start: matcher}
        self._moves: dict[State, Mapping[int, State]] = {}
        self._sorted_moves: dict[State, Sequence[tuple[int, int]]] = {}
        self._bitmask = allocate_token_bitmask(1, BYTES.size)

    def __len__(self) -> int:
        """The number of states so far."""
        return len(self._matchers)

    def accepts(self, state: State) -> bool:
        """Whether the text may end in the state."""
        return self._matchers[state].is_accepting()

    def completion_length(self, state: State) -> int:
        """The number of bytes of the shortest completion."""
        return self._matchers[state].min_tokens_to_finish() - 1

    def moves(self, state: State) -> Mapping[int, State]:
        """Byte -> the state after it, for each byte with which some text continues, in ascending order."""
        moves = self._moves.get(state)
        if moves is None:
            matcher = self._matchers[state]
            matcher.fill_next_token_bitmask(self._bitmask)
            moves = self._moves[state] = {
                byte: self._next_state(matcher, byte) for byte in allowed_tokens(self._bitmask) if byte != END
            }
        return moves

    def sorted_moves(self, state: State) -> Sequence[tuple[int, int]]:
        """The bytes of `moves`, each with the number of bytes of the shortest completion after it.

        Sorted by this number, then by readability.
        """
        moves = self._sorted_moves.get(state)
        if moves is None:
            ranked_moves = [
                (byte, self.completion_length(next_state)) for byte, next_state in self.moves(state).items()
            ]
            ranked_moves.sort(key=lambda move: (move[1], _RANK.get(move[0], len(_RANK)), move[0]))
            moves = self._sorted_moves[state] = ranked_moves
        return moves

    def _next_state(self, matcher: GrammarMatcher, byte: int) -> State:
        matcher.accept_token(byte)
        state = matcher.state
        if state not in self._matchers:
            self._matchers[state] = matcher.fork()
        matcher.rollback(1)
        return state
