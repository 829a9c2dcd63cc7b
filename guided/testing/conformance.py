"""Checks an engine's masks against a specification: finds tokens that it wrongly allows or forbids.

    class MyFollower:                              # wraps the engine under test
        def allowed(self): ...                     # a set or a list of the ids that may come next, including end tokens
        def accept(self, token): ...               # True, or False if the token is refused
        def rollback(self, n): ...                 # optional

    check_masks(MyFollower, constraint, vocabulary)   # raises MaskMismatch with the tokens before the difference

In: a function that creates followers, a constraint, the vocabulary. Out: nothing, or `MaskMismatch`. How: random walks.
Each step compares the allowed ids with guided's. With `reference=True`, it compares them with the core's reference
implementation instead, which tries each token separately. Then the engine must refuse a random token, if it is
forbidden, and accept one that is allowed. Sometimes, a step rolls tokens back instead. Walks often choose tokens that a
uniform choice rarely takes: tokens of several bytes, the last token of the list, an end token. The reported difference
is the one with the fewest tokens among all walks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from numbers import Integral
from typing import Protocol, Unpack

import numpy as np

from guided.automaton.reference.token_masks import ReferenceGrammar
from guided.errors import GuidedError, brief
from guided.keywords import check_integer
from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import Constraint, ConstraintOptions, compile_constraint
from guided.matching.matcher import GrammarMatcher
from guided.vocabulary import Vocabulary

__all__ = ["Follower", "MaskMismatch", "check_masks"]


class Follower(Protocol):
    """One sequence of the engine under test. A method `rollback(n)` is optional, and is tested if it exists."""

    def allowed(self) -> Collection[int]:
        """The ids that may come next, including end tokens."""

    def accept(self, token: int, /) -> bool:
        """Accept a token. Returns False if it is refused; the state is then unchanged."""


class MaskMismatch(AssertionError):
    """An engine's masks differ from the specification.

    Attributes:
        tokens: the ids that lead to the difference.
        text: the text of these tokens.
        extra: ids that the engine allows, but the specification does not.
        missing: ids that the specification allows, but the engine does not.
    """

    def __init__(
        self, tokens: Sequence[int], text: bytes, extra: Collection[int], missing: Collection[int], problem: str = ""
    ) -> None:
        self.tokens, self.text = list(tokens), text
        self.extra, self.missing = sorted(extra), sorted(missing)
        count = len(self.tokens)
        problems = [problem] if problem else []
        problems += [f"the engine allows {_format_ids(self.extra)}, which the specification forbids"] if extra else []
        problems += (
            [f"the engine forbids {_format_ids(self.missing)}, which the specification allows"] if missing else []
        )
        super().__init__(f"after {text!r} ({count} token{'s' * (count != 1)}): {'; '.join(problems)}")


def check_masks(
    start: Callable[[], Follower],
    constraint: Constraint,
    vocabulary: Vocabulary,
    *,
    walks: int = 50,
    length: int = 40,
    seed: int = 0,
    reference: bool = False,
    **options: Unpack[ConstraintOptions],
) -> None:
    """Compare an engine's masks with guided's; see the module docstring.

    Args:
        start: returns a new follower, which has read no token.
        constraint, options: as for `Engine.generate`.
        vocabulary: the vocabulary of the engine.
        walks, length: the number of walks, and the maximum number of tokens of each.
        seed: makes the walks repeatable.
        reference: compare with the readable reference, which is slow, and does not support grammars with a lexer.

    Raises:
        MaskMismatch: the masks differ. SpecError, UnsupportedError: the specification is invalid.
        OptionError: `walks` or `length` is out of range. TypeError: `start` does not return a follower.
    """
    if not callable(start):
        raise TypeError(f"start is {brief(start)}, but must be a function that returns a follower")
    check_integer("walks", walks, minimum=1)
    check_integer("length", length, minimum=0)
    grammar = compile_constraint(GrammarCompiler(vocabulary), constraint, options)
    if grammar is None:
        raise GuidedError("there is no constraint, so there are no masks to check")
    oracle = _Reference(grammar) if reference else _Core(grammar)
    rng, shortest_mismatch = random.Random(seed), None
    for _ in range(walks):
        follower = start()
        if missing_methods := [name for name in ("allowed", "accept") if not callable(getattr(follower, name, None))]:
            raise TypeError(
                f"start() returned {brief(follower)}, which has no method {missing_methods[0]}(): see Follower"
            )
        try:
            _walk(
                follower,
                oracle,
                vocabulary,
                length if shortest_mismatch is None else len(shortest_mismatch.tokens),
                rng,
            )
        except MaskMismatch as mismatch:
            if shortest_mismatch is None or len(mismatch.tokens) < len(shortest_mismatch.tokens):
                shortest_mismatch = mismatch
    if shortest_mismatch is not None:
        raise shortest_mismatch


def _walk(
    follower: Follower, oracle: _Core | _Reference, vocabulary: Vocabulary, length: int, rng: random.Random
) -> None:
    oracle.reset()
    tokens = list[int]()
    for _ in range(length + 1):
        expected_ids, engine_ids = oracle.allowed(), _as_ids(follower.allowed(), vocabulary)
        if expected_ids != engine_ids:
            raise MaskMismatch(tokens, vocabulary.decode(tokens), engine_ids - expected_ids, expected_ids - engine_ids)
        if oracle.has_ended:
            return
        forbidden_id = rng.randrange(vocabulary.size)
        if forbidden_id not in expected_ids and _require_bool(follower.accept(forbidden_id)):
            raise MaskMismatch(
                tokens, vocabulary.decode(tokens), [forbidden_id], [], "it accepts a token that its mask forbids"
            )
        rollback: Callable[[int], object] | None = getattr(follower, "rollback", None)
        if tokens and rollback is not None and rng.random() < 0.15:
            count = rng.randrange(1, len(tokens) + 1)
            rollback(count)
            del tokens[-count:]
            oracle.reset()
            for token in tokens:
                oracle.accept(token)
            continue
        token = _choose_token(sorted(expected_ids), vocabulary, rng)
        if not _require_bool(follower.accept(token)):
            problem = f"it refuses token {token}, which its mask allows"
            raise MaskMismatch(tokens, vocabulary.decode(tokens), [], [token], problem)
        oracle.accept(token)
        tokens.append(token)


def _as_ids(result: object, vocabulary: Vocabulary) -> set[int]:
    """The result of `allowed` as a set. An array is read as ids, unless it has the type and shape of a bitmask."""
    shape = tuple(getattr(result, "shape", ()))
    is_row = shape == ((vocabulary.size + 31) // 32,) and str(getattr(result, "dtype", "")).endswith("int32")
    values = result.tolist() if hasattr(result, "tolist") else result
    if isinstance(values, Iterable) and not isinstance(values, str | bytes) and not is_row:
        ids = list(values)
        if all(isinstance(id, Integral) and not isinstance(id, bool) and int(id) >= 0 for id in ids):
            return set(map(int, ids))
    description = f"an array of shape {shape}" if shape else brief(result)
    raise TypeError(
        f"allowed() returned {description}: a follower must return the ids that may come next, as a set or a list; "
        "guided.allowed_tokens(bitmask) converts a bitmask"
    )


def _require_bool(result: object) -> bool:
    """Return the result of `accept` as a bool, or raise TypeError if it is not one."""
    if not isinstance(result, bool | np.bool_):
        raise TypeError(
            f"accept() returned {brief(result)}: a follower must return True, or False if it refuses the token"
        )
    return bool(result)


def _choose_token(allowed_ids: list[int], vocabulary: Vocabulary, rng: random.Random) -> int:
    """A random allowed id. If other tokens are allowed, an end token is chosen with probability 0.1."""
    end_ids = [id for id in allowed_ids if id in vocabulary.eos_token_ids]
    other_ids = [id for id in allowed_ids if id not in vocabulary.eos_token_ids]
    if end_ids and (not other_ids or rng.random() < 0.1):
        return rng.choice(end_ids)
    if rng.random() < 0.3:
        long_ids = [id for id in other_ids if len(vocabulary.token_bytes(id) or b"") > 1]
        other_ids = long_ids or other_ids
    return other_ids[-1] if rng.random() < 0.1 else rng.choice(other_ids)


class _Core:
    """guided's matcher."""

    def __init__(self, grammar: CompiledGrammar) -> None:
        self._matcher = GrammarMatcher(grammar)
        self._bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)

    @property
    def has_ended(self) -> bool:
        return self._matcher.is_terminated()

    def reset(self) -> None:
        self._matcher.reset()

    def allowed(self) -> set[int]:
        self._matcher.fill_next_token_bitmask(self._bitmask)
        return set(allowed_tokens(self._bitmask))

    def accept(self, token: int) -> None:
        self._matcher.accept_token(token)


class _Reference:
    """The readable reference of guided's core."""

    def __init__(self, grammar: CompiledGrammar) -> None:
        if grammar.grammar.lexer is not None:
            raise GuidedError(
                "reference=True does not support grammars with a lexer, whose reference reads text, not tokens; omit it"
            )
        vocab = grammar.vocabulary
        self._grammar = ReferenceGrammar(grammar.grammar, vocab.tokens, vocab.eos_token_ids, vocab.special_tokens)
        self.reset()

    @property
    def has_ended(self) -> bool:
        return self._grammar.is_terminated(self._state)

    def reset(self) -> None:
        self._state = self._grammar.initial()

    def allowed(self) -> set[int]:
        return self._grammar.mask(self._state)

    def accept(self, token: int) -> None:
        next_state = self._grammar.accept_token(self._state, token)
        assert next_state is not None
        self._state = next_state


def _format_ids(ids: Sequence[int]) -> str:
    listed_ids = ", ".join(map(str, ids[:8]))
    return f"token{'s' * (len(ids) > 1)} {listed_ids}" + (f" and {len(ids) - 8} more" if len(ids) > 8 else "")
