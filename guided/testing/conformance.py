"""Whether an engine's masks are those of a specification: what it allows too much, and what it withholds.

    class Mine:                                    # around the engine that is judged
        def allowed(self): ...                     # ids that may come next, end tokens among them: a set or a list
        def accept(self, token): ...               # True, or False where it is refused
        def rollback(self, n): ...                 # optional

    check_masks(Mine, constraint, vocabulary)      # raises MaskMismatch with the tokens that lead there

In: a maker of followers, a constraint, the vocabulary. Out: nothing, or `MaskMismatch`. How: random walks; at each step
the allowed ids are compared with those of guided (with `reference=True`, of the readable twin of guided's core, which
tries each token by definition), then one allowed token is accepted by both, and now and then a token that must be
refused, or some tokens are taken back. A walk prefers what is rare: tokens of several bytes, ends, the last token of
the list. What differs is reported with the fewest tokens that any of the walks found.
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
    """One sequence of the engine that is judged; `rollback(n)` is called where there is one."""

    def allowed(self) -> Collection[int]:
        """The ids that may come next, end tokens among them."""

    def accept(self, token: int, /) -> bool:
        """Go on with a token; False: it is refused, and nothing has changed."""


class MaskMismatch(AssertionError):
    """An engine's masks are not those of the specification.

    Attributes:
        tokens: the ids that lead to where it differs.
        text: what they spell.
        extra: ids that the engine allows and the specification does not.
        missing: ids that the specification allows and the engine does not.
    """

    def __init__(
        self, tokens: Sequence[int], text: bytes, extra: Collection[int], missing: Collection[int], what: str = ""
    ) -> None:
        self.tokens, self.text = list(tokens), text
        self.extra, self.missing = sorted(extra), sorted(missing)
        told = [f"after {text!r} ({len(self.tokens)} tokens)"]
        told += [what] if what else []
        told += [f"it allows {_few(self.extra)}, which the specification refuses"] if extra else []
        told += [f"it withholds {_few(self.missing)}, which the specification allows"] if missing else []
        super().__init__(": ".join([told[0], "; ".join(told[1:])]))


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
        start: makes a follower at the empty text.
        constraint: as `Engine.generate` takes it; `options` as there.
        vocabulary: the ids that both speak of.
        walks, length: how many walks of at most how many tokens.
        seed: gives the same walks again.
        reference: judge by the readable twin: slow, and not for grammars with a lexer.

    Raises:
        MaskMismatch: they differ. SpecError, UnsupportedError: the specification.
        OptionError: there would be nothing to compare. TypeError: what `start` makes is no follower.
    """
    if not callable(start):
        raise TypeError(f"start is {brief(start)}, it must be a function that makes a follower")
    check_integer("walks", walks, least=1)
    check_integer("length", length, least=0)
    grammar = compile_constraint(GrammarCompiler(vocabulary), constraint, options)
    if grammar is None:
        raise GuidedError("there is no constraint, and so no mask")
    judge = _Twin(grammar) if reference else _Core(grammar)
    rng, worst = random.Random(seed), None
    for _ in range(walks):
        own = start()
        if lacking := [name for name in ("allowed", "accept") if not callable(getattr(own, name, None))]:
            raise TypeError(f"start() made {brief(own)}, which has no method {lacking[0]}(): see Follower")
        try:
            _walk(own, judge, vocabulary, length if worst is None else len(worst.tokens), rng)
        except MaskMismatch as found:
            if worst is None or len(found.tokens) < len(worst.tokens):
                worst = found
    if worst is not None:
        raise worst


def _walk(own: Follower, judge: _Core | _Twin, vocabulary: Vocabulary, length: int, rng: random.Random) -> None:
    judge.reset()
    tokens = list[int]()
    for _ in range(length + 1):
        wanted, found = judge.allowed(), _ids(own.allowed(), vocabulary)
        if wanted != found:
            raise MaskMismatch(tokens, vocabulary.decode(tokens), found - wanted, wanted - found)
        if judge.ended:
            return
        refused = rng.randrange(vocabulary.size)
        if refused not in wanted and _require_bool(own.accept(refused)):
            raise MaskMismatch(tokens, vocabulary.decode(tokens), [refused], [], "it accepts a token that it masks")
        take_back: Callable[[int], object] | None = getattr(own, "rollback", None)
        if tokens and take_back is not None and rng.random() < 0.15:
            back = rng.randrange(1, len(tokens) + 1)
            take_back(back)
            del tokens[-back:]
            judge.reset()
            for token in tokens:
                judge.accept(token)
            continue
        token = _chosen(sorted(wanted), vocabulary, rng)
        if not _require_bool(own.accept(token)):
            what = f"it refuses token {token}, which it allows"
            raise MaskMismatch(tokens, vocabulary.decode(tokens), [], [token], what)
        judge.accept(token)
        tokens.append(token)


def _ids(found: object, vocabulary: Vocabulary) -> set[int]:
    """What `allowed` returned, as a set. An array may hold ids, but for one of the type and shape of a bitmask."""
    shape = tuple(getattr(found, "shape", ()))
    is_row = shape == ((vocabulary.size + 31) // 32,) and str(getattr(found, "dtype", "")).endswith("int32")
    values = found.tolist() if hasattr(found, "tolist") else found
    if isinstance(values, Iterable) and not isinstance(values, str | bytes) and not is_row:
        ids = list(values)
        if all(isinstance(id, Integral) and not isinstance(id, bool) and int(id) >= 0 for id in ids):
            return set(map(int, ids))
    given = f"an array of shape {shape}" if shape else brief(found)
    raise TypeError(
        f"allowed() returned {given}: a follower returns the ids that may come next, as a set or a list; "
        "guided.allowed_tokens(bitmask) gives those of a bitmask"
    )


def _require_bool(accepted: object) -> bool:
    """What `accept` returned."""
    if not isinstance(accepted, bool | np.bool_):
        raise TypeError(f"accept() returned {brief(accepted)}: a follower says True, or False for a token it refuses")
    return bool(accepted)


def _chosen(allowed: list[int], vocabulary: Vocabulary, rng: random.Random) -> int:
    """An allowed id; the end is not preferred, since a walk ends there."""
    ends = [id for id in allowed if id in vocabulary.eos_token_ids]
    others = [id for id in allowed if id not in vocabulary.eos_token_ids]
    if ends and (not others or rng.random() < 0.1):
        return rng.choice(ends)
    if rng.random() < 0.3:
        long = [id for id in others if len(vocabulary.token_bytes(id) or b"") > 1]
        others = long or others
    return others[-1] if rng.random() < 0.1 else rng.choice(others)


class _Core:
    """guided's own matcher."""

    def __init__(self, grammar: CompiledGrammar) -> None:
        self._matcher = GrammarMatcher(grammar)
        self._bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)

    @property
    def ended(self) -> bool:
        return self._matcher.is_terminated()

    def reset(self) -> None:
        self._matcher.reset()

    def allowed(self) -> set[int]:
        self._matcher.fill_next_token_bitmask(self._bitmask)
        return set(allowed_tokens(self._bitmask))

    def accept(self, token: int) -> None:
        self._matcher.accept_token(token)


class _Twin:
    """The readable twin of guided's core."""

    def __init__(self, grammar: CompiledGrammar) -> None:
        if grammar.grammar.lexer is not None:
            raise GuidedError("the twin of grammars with a lexer speaks of their text alone: leave reference out")
        its = grammar.vocabulary
        self._grammar = ReferenceGrammar(grammar.grammar, its.tokens, its.eos_token_ids, its.special_tokens)
        self.reset()

    @property
    def ended(self) -> bool:
        return self._grammar.terminated(self._state)

    def reset(self) -> None:
        self._state = self._grammar.initial()

    def allowed(self) -> set[int]:
        return self._grammar.mask(self._state)

    def accept(self, token: int) -> None:
        after = self._grammar.accept_token(self._state, token)
        assert after is not None
        self._state = after


def _few(ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:8]))
    return f"tokens {shown}" + (f" and {len(ids) - 8} more" if len(ids) > 8 else "")
