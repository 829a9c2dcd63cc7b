"""The work of a process of an audit: it follows a text, and completes outputs under the masks of its library.

In: a `Place` with a compiled grammar. Out: the tokens that the masks refuse along a text, or texts that the library
completes itself (`benchmarks/audit.py` judges them). Nothing here knows JSON Schema.

How an output is completed: token by token, among the tokens that the library allows. Brackets, quotes and zeros are
preferred, so most outputs end soon. One choice in five is random, so no loop is endless.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from benchmarks.jobs import Place

__all__ = ["complete", "follow"]

_FIRST = (b"}", b"]", b'"', b":", b",", b"0")
_STRUCTURE = frozenset(b'"\\{}[],:')
_RANDOM = 0.2


def follow(place: Place, name: str, text: str) -> dict[str, Any]:
    """Walk along a text. At each position, the mask should allow every token with which the rest of the text begins.

    Returns:
        `judged`: the number of these tokens, including the end token. `own`: the positions at which the tokenizer's
            own next token is refused, which ends the walk. `others`: (position, bytes) of other refused tokens.
    """
    tokens, data, at = place.tokens, text.encode(), 0
    matcher = place.engine.matcher(place.grammars[name])
    out: dict[str, Any] = {"positions": 0, "judged": 0, "own": [], "others": []}
    longest = max(map(len, tokens.ranks))
    for id in [*tokens.encode(text), tokens.end]:
        words = _filled(place, matcher)
        out["positions"] += 1
        ranks = (tokens.ranks.get(data[at : at + length]) for length in range(1, min(longest, len(data) - at) + 1))
        for other in {id, *(rank for rank in ranks if rank is not None)}:
            out["judged"] += 1
            if not _has(words, other) and other != id:
                out["others"].append((at, tokens.spelled[other]))
        if not _has(words, id) or (id != tokens.end and not place.engine.accept(matcher, id)):
            out["own"].append(at)
            break
        at += len(tokens.spelled[id] or b"")
    return out


def complete(
    place: Place, name: str, text: str, positions: int, choices: int, most: int, seed: int
) -> list[tuple[bytes, bytes, bytes | None]]:
    """Let the library complete outputs, from positions of a text, after tokens that its mask allows there.

    Args:
        positions: the number of positions of the text, drawn at random.
        choices: the number of allowed tokens at each position. Half of them are arbitrary; half have a quote, a
            bracket, a comma, a colon or a backslash.
        most: the largest number of tokens of a completion.

    Returns:
        (prefix, token, completion) of each. The completion is None if it takes more tokens. It ends with b"\\xff" if
        neither a token nor the end is allowed any more. No text contains this byte.
    """
    rng, ids, out = random.Random(seed), place.tokens.encode(text), []
    kinds = _Kinds(place)
    for length in sorted(rng.sample(range(len(ids)), min(positions, len(ids)))):
        prefix = b"".join(place.tokens.spelled[id] or b"" for id in ids[:length])
        matcher = _after(place, name, ids[:length])
        if matcher is None:
            break
        bits = _bits(_filled(place, matcher))
        drawn = []
        for kind, count in ((kinds.textual, (choices + 1) // 2), (kinds.structural, choices // 2)):
            allowed = np.flatnonzero(bits & kind)
            drawn += [int(allowed[at]) for at in rng.sample(range(len(allowed)), min(count, len(allowed)))]
        for id in dict.fromkeys(drawn):
            matcher = _after(place, name, [*ids[:length], id])
            rest = None if matcher is None else _finish(place, matcher, kinds, rng, most)
            out.append((prefix, place.tokens.spelled[id] or b"", rest))
    return out


def _after(place: Place, name: str, ids: list[int]) -> Any:
    """A matcher that has accepted these tokens, or None if it refuses one of them."""
    matcher = place.engine.matcher(place.grammars[name])
    return matcher if all(place.engine.accept(matcher, id) for id in ids) else None


class _Kinds:
    """Three rows of bool (32 * words,): tokens with a text, tokens that contain structure, tokens that are not only
    whitespace.
    """

    def __init__(self, place: Place) -> None:
        spelled = [token or b"" for token in place.tokens.spelled]
        is_kind: list[Callable[[bytes], bool]] = [
            lambda token: token != b"",
            lambda token: not _STRUCTURE.isdisjoint(token),
            lambda token: token.strip() != b"",
        ]
        arrays = [np.zeros(32 * len(place.words), np.uint8) for _ in is_kind]
        for array, test in zip(arrays, is_kind, strict=True):
            array[: len(spelled)] = [test(token) for token in spelled]
        self.textual, self.structural, self.visible = arrays


def _finish(place: Place, matcher: Any, kinds: _Kinds, rng: random.Random, most: int) -> bytes | None:
    spelled, out = place.tokens.spelled, b""
    for _ in range(most):
        words = _filled(place, matcher)
        if _has(words, place.tokens.end):
            return out
        if not words.any():
            return out + b"\xff"
        first = (place.tokens.ranks[data] for data in _FIRST)
        id = next((id for id in first if _has(words, id)), None) if rng.random() >= _RANDOM else None
        if id is None:
            bits = _bits(words)
            allowed = np.flatnonzero(bits & kinds.visible)
            allowed = allowed if len(allowed) else np.flatnonzero(bits & kinds.textual)
            if not len(allowed):
                return None  # only control tokens are allowed
            id = int(allowed[rng.randrange(len(allowed))])
        if not place.engine.accept(matcher, id):
            return out + b"\xff"
        out += spelled[id] or b""
    return None


def _filled(place: Place, matcher: Any) -> npt.NDArray[np.int32]:
    """The mask. If every token is allowed, a library may leave the row unchanged."""
    place.words.fill(-1)
    place.engine.fill(matcher, place.row)
    return place.words


def _has(words: npt.NDArray[np.int32], id: int) -> bool:
    return bool(int(words[id >> 5]) >> (id & 31) & 1)


def _bits(words: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
    return np.unpackbits(words.view(np.uint8), bitorder="little")
