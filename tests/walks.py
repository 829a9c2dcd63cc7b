"""Random walks through the masks of a grammar, some with unfavourable choices: every allowed token is accepted, and the
output ends.

In: a grammar and a plan: a prefix, a rule for the choice among allowed tokens, the number of free choices, and the
budget after them. Out: the text. At each step, the mask must not be empty, one of its tokens must be accepted, and the
remaining budget must suffice. Otherwise the walk raises `WalkError`. Calls that take long are recorded with their
position.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from guided.errors import BudgetError
from guided.matching import CompiledGrammar, GrammarMatcher, allocate_token_bitmask
from guided.vocabulary import Vocabulary

__all__ = ["RULES", "Plan", "SlowCall", "WalkError", "Walker", "plans"]

RULES = ("uniform", "structural", "longest", "opening", "farthest")
"""Any token; half of the time one with a bracket, a quote, a comma or a colon; one of the longest; one that opens most
brackets; of a few the one with the most tokens still to come."""

_Result = TypeVar("_Result")
_ENDLESS = 2**40  # more tokens than any specification needs, so there is no end
_TRIED = 8  # number of tokens among which "farthest" chooses the best


class WalkError(AssertionError):
    """A walk found an empty mask, a refused token of a mask, or an exceeded budget."""


@dataclass(frozen=True)
class Plan:
    """A number of tokens without a budget, and then to the end with `extra` more tokens than are needed."""

    rule: str
    free: int
    extra: int
    prefix: bytes = b""


@dataclass(frozen=True)
class SlowCall:
    """A call that took long, and its position."""

    seconds: float
    call: str
    budget: int | None
    after: bytes


@dataclass
class Walker:
    """Walks over one vocabulary, and their findings."""

    vocabulary: Vocabulary
    patience: float = 0.5
    """Seconds from which on a call is noted."""
    longest_end: int = 1500
    """Walks that need more tokens than this to the end are cut off there."""
    deadline: float = math.inf
    """Where `time.monotonic()` is when walks are cut off."""
    slow: list[SlowCall] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        texts = [self.vocabulary.token_bytes(number) or b"" for number in range(self.vocabulary.size)]
        self._texts = texts
        self._lengths = np.array([*map(len, texts)])
        self._opening = np.array([text.count(b"{") + text.count(b"[") for text in texts])
        self._structural = np.array([any(mark in text for mark in b'{}[]",:') for text in texts])
        self._ends = np.array(sorted(self.vocabulary.eos_token_ids))
        self._bitmask = allocate_token_bitmask(1, self.vocabulary.size)

    def walk(self, grammar: CompiledGrammar, plan: Plan, rng: random.Random) -> bytes | None:
        """One walk. Returns the complete text; None if the prefix is refused or the walk is cut off."""
        matcher = GrammarMatcher(grammar)
        text = bytearray(plan.prefix)
        if plan.prefix and not matcher.accept_string(plan.prefix):
            return None
        self.counts["walks"] += 1
        for _ in range(plan.free):
            if not self._step(matcher, text, None, plan.rule, rng):
                return bytes(text)
        least = self._timed("distance", None, text, matcher.min_tokens_to_finish)
        if least >= _ENDLESS:
            raise WalkError(f"no way to the end after {bytes(text)!r}")
        self._refuses_less(matcher, least)
        budget = least + plan.extra
        for left in range(budget, 0, -1):
            if left < budget - self.longest_end or time.monotonic() > self.deadline:
                self.counts["cut off"] += 1
                return None
            if not self._step(matcher, text, left, plan.rule, rng):
                return bytes(text)
        raise WalkError(f"not complete after a budget of {budget}: {bytes(text)!r}")

    def _step(self, matcher: GrammarMatcher, text: bytearray, left: int | None, rule: str, rng: random.Random) -> bool:
        """Accept a token. False if it was the end."""
        fill = partial(matcher.fill_next_token_bitmask, self._bitmask, max_tokens=left)
        self._timed("mask", left, text, fill)
        allowed = np.flatnonzero(np.unpackbits(self._bitmask.view(np.uint8), bitorder="little"))
        self.counts["masks"] += 1
        if not allowed.size:
            raise WalkError(f"an empty mask, budget {left}, after {bytes(text)!r}")
        could_end = matcher.is_accepting()
        token = self._choose(matcher, allowed, rule, rng)
        if not self._timed("accept", left, text, partial(matcher.accept_token, token)):
            raise WalkError(f"token {token} of the mask is refused, budget {left}, after {bytes(text)!r}")
        if matcher.is_terminated():
            if not could_end:
                raise WalkError(f"an end that is none, after {bytes(text)!r}")
            return False
        text += self._texts[token]
        if left is not None:
            rest = self._timed("distance", left, text, matcher.min_tokens_to_finish)
            if rest > left - 1:
                raise WalkError(f"{rest} tokens needed, {left - 1} left, after {bytes(text)!r}")
        return True

    def _choose(self, matcher: GrammarMatcher, allowed: Any, rule: str, rng: random.Random) -> int:
        if rule != "uniform":  # the others end if nothing else is allowed
            going = allowed[~np.isin(allowed, self._ends)]
            allowed = going if going.size else allowed
        if rule == "structural" and rng.random() < 0.5:
            marks = allowed[self._structural[allowed]]
            allowed = marks if marks.size else allowed
        elif rule in ("longest", "opening"):
            score = self._lengths[allowed] + (100 * self._opening[allowed] if rule == "opening" else 0)
            allowed = allowed[score == score.max()]
        elif rule == "farthest":
            return max((int(rng.choice(allowed)) for _ in range(_TRIED)), key=partial(_distance_after, matcher))
        return int(rng.choice(allowed))

    def _refuses_less(self, matcher: GrammarMatcher, least: int) -> None:
        try:
            matcher.fill_next_token_bitmask(self._bitmask, max_tokens=least - 1)
        except BudgetError:
            return
        raise WalkError(f"a budget of {least - 1} where {least} are needed")

    def _timed(self, call: str, budget: int | None, text: bytearray, act: Callable[[], _Result]) -> _Result:
        begin = time.perf_counter()
        result = act()
        seconds = time.perf_counter() - begin
        if seconds >= self.patience:
            self.slow.append(SlowCall(round(seconds, 3), call, budget, bytes(text)))
        return result


def _distance_after(matcher: GrammarMatcher, token: int) -> int:
    if not matcher.accept_token(token):
        raise WalkError(f"token {token} of the mask is refused")
    rest = matcher.min_tokens_to_finish()
    matcher.rollback(1)
    return rest


def plans(rng: random.Random, prefixes: list[bytes]) -> list[Plan]:
    """A walk with each rule from the start, with and without a budget, and two from inside texts of the language."""
    out = [
        Plan("uniform", 0, 0),
        Plan("structural", 0, rng.randint(0, 60)),
        Plan("longest", 0, rng.randint(0, 10)),
        Plan("opening", 0, rng.randint(0, 40)),
        Plan("farthest", 0, rng.randint(0, 40)),
        Plan("structural", rng.randint(20, 80), rng.randint(0, 3)),
        Plan(rng.choice(RULES), rng.randint(10, 60), 0),
    ]
    for text in rng.sample(prefixes, min(2, len(prefixes))):
        cut = text[: rng.randint(0, len(text))]
        out.append(Plan(rng.choice(RULES), rng.choice([0, 0, 20]), rng.choice([0, 1, 5, 40]), cut))
    return out
