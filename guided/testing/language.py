"""The language of a specification as a deterministic automaton over bytes, made state by state.

In: a constraint, as `Engine.generate` takes it. Out: states, which of them accept, and where each byte leads. States
are numbers; equal numbers mean the same rest of the language, while different ones need not differ. From each state
some text can be completed. A pushdown language has no end of states; whoever searches it says how many are enough.

Cost: a mask and an accepted byte for each step, once.
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
"""A token for each byte: the specification itself, whatever the model."""
_PLAIN: Final = b'abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ "{}[]:,.-'
_RANK: Final = {byte: rank for rank, byte in enumerate(_PLAIN)}


def over_bytes(constraint: Constraint, **options: Unpack[ConstraintOptions]) -> CompiledGrammar:
    """The grammar of a constraint over `BYTES`.

    A compiled grammar is compiled again from its specification; any other constraint is read as `Engine.generate` reads
    it, with its options.

    Raises:
        SpecError, UnsupportedError: the specification. GuidedError: there is none.
    """
    compiler = GrammarCompiler(BYTES)
    if isinstance(constraint, CompiledGrammar):
        return constraint if constraint.vocabulary is BYTES else compiler.compile_grammar(constraint.grammar)
    grammar = compile_constraint(compiler, constraint, options)
    if grammar is None:
        raise GuidedError("there is no constraint, and so no language")
    return grammar


class Language:
    """See the module docstring.

    Attributes:
        start: the state of the empty text.
    """

    def __init__(self, grammar: CompiledGrammar) -> None:
        first = GrammarMatcher(grammar)
        self.start: State = first.state
        self._at = {self.start: first}
        self._moves: dict[State, Mapping[int, State]] = {}
        self._ways: dict[State, Sequence[tuple[int, int]]] = {}
        self._bitmask = allocate_token_bitmask(1, BYTES.size)

    def __len__(self) -> int:
        """How many states were made."""
        return len(self._at)

    def accepts(self, state: State) -> bool:
        """Whether the text may end here."""
        return self._at[state].is_accepting()

    def least(self, state: State) -> int:
        """How many bytes the shortest completion has."""
        return self._at[state].min_tokens_to_finish() - 1

    def moves(self, state: State) -> Mapping[int, State]:
        """Byte -> the state after it, for each byte that some text of the language goes on with, ascending."""
        known = self._moves.get(state)
        if known is None:
            matcher = self._at[state]
            matcher.fill_next_token_bitmask(self._bitmask)
            known = self._moves[state] = {
                byte: self._after(matcher, byte) for byte in allowed_tokens(self._bitmask) if byte != END
            }
        return known

    def ways(self, state: State) -> Sequence[tuple[int, int]]:
        """The bytes of `moves`, each with how many bytes must follow it at least: fewest first, then plainest."""
        known = self._ways.get(state)
        if known is None:
            each = [(byte, self.least(after)) for byte, after in self.moves(state).items()]
            each.sort(key=lambda way: (way[1], _RANK.get(way[0], len(_RANK)), way[0]))
            known = self._ways[state] = each
        return known

    def _after(self, matcher: GrammarMatcher, byte: int) -> State:
        matcher.accept_token(byte)
        state = matcher.state
        if state not in self._at:
            self._at[state] = matcher.fork()
        matcher.rollback(1)
        return state
