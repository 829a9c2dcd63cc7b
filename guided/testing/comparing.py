"""Compares two specifications: finds a shortest text that only one of them allows.

In: two constraints. Out: a `Difference`, or None if it is proven that there is none.

Source: Hopcroft and Karp (1971), "A linear algorithm for testing equivalence of finite automata". Pairs of states are
searched breadth first, so a shortest text leads to the first pair in which only one state accepts. Cost: a step for
each pair and byte, for at most `max_pairs` pairs. Regular languages have finitely many pairs, so the search ends. Other
languages may have infinitely many pairs; without a difference, the search then ends with `LimitExceeded`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

from guided.errors import LimitExceeded
from guided.keywords import check_integer
from guided.matching.constraint import Constraint
from guided.testing.language import Language, State, over_bytes

__all__ = ["Difference", "equivalent", "subset"]

_Pair = tuple[State | None, State | None]  # None: no text of this language begins like this


@dataclass(frozen=True, slots=True)
class Difference:
    """A shortest text on which two specifications differ.

    Attributes:
        data: the text, as bytes.
        only: which of the two specifications allows it.
    """

    data: bytes
    only: Literal["first", "second"]

    @property
    def text(self) -> str:
        """The text. Bytes that are not UTF-8 become U+FFFD."""
        return self.data.decode("utf-8", "replace")

    def __str__(self) -> str:
        return f"only the {self.only} allows {self.text!r}"


def equivalent(a: Constraint, b: Constraint, *, max_pairs: int = 100_000, **options: Any) -> Difference | None:
    """A shortest text that only one of `a` and `b` allows, or None if they allow the same texts.

    Args:
        a, b: constraints, as for `Engine.generate`.
        max_pairs: the maximum number of pairs of states to examine.
        **options: `ConstraintOptions` for both, such as `whitespace="json"`.

    Raises:
        SpecError, UnsupportedError: a specification is invalid. OptionError: `max_pairs` is out of range.
        LimitExceeded: no difference was found among `max_pairs` pairs, and there are more.
    """
    return _search(a, b, max_pairs, only_first=False, options=options)


def subset(a: Constraint, b: Constraint, *, max_pairs: int = 100_000, **options: Any) -> Difference | None:
    """A shortest text that `a` allows and `b` does not, or None if `b` allows every text that `a` allows.

    The arguments and errors are the same as for `equivalent`.
    """
    return _search(a, b, max_pairs, only_first=True, options=options)


def _search(
    a: Constraint, b: Constraint, max_pairs: int, *, only_first: bool, options: dict[str, Any]
) -> Difference | None:
    check_integer("max_pairs", max_pairs, minimum=1)
    first, second = Language(over_bytes(a, **options)), Language(over_bytes(b, **options))
    start: _Pair = (first.start, second.start)
    predecessors: dict[_Pair, tuple[_Pair, int] | None] = {start: None}
    queue = deque([start])
    while queue:
        pair = queue.popleft()
        first_state, second_state = pair
        accepts = (
            first_state is not None and first.accepts(first_state),
            second_state is not None and second.accepts(second_state),
        )
        if accepts == (True, False) or (accepts == (False, True) and not only_first):
            return Difference(_text_of_path(predecessors, pair), "first" if accepts[0] else "second")
        moves_by_side = (
            {} if first_state is None else first.moves(first_state),
            {} if second_state is None else second.moves(second_state),
        )
        for byte in moves_by_side[0] if only_first else sorted({*moves_by_side[0], *moves_by_side[1]}):
            next_pair: _Pair = (moves_by_side[0].get(byte), moves_by_side[1].get(byte))
            if next_pair not in predecessors:
                if len(predecessors) >= max_pairs:
                    raise LimitExceeded(
                        "max_pairs", len(predecessors) + 1, max_pairs, hint="set a larger max_pairs=..."
                    )
                predecessors[next_pair] = (pair, byte)
                queue.append(next_pair)
    return None


def _text_of_path(predecessors: dict[_Pair, tuple[_Pair, int] | None], pair: _Pair) -> bytes:
    reversed_text = bytearray()
    while (step := predecessors[pair]) is not None:
        pair, byte = step
        reversed_text.append(byte)
    return bytes(reversed(reversed_text))
