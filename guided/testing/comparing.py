"""Whether two specifications allow the same, and if not, a shortest text that shows it.

In: two constraints. Out: a `Difference`, or None: there is none, which is then proven.

Source: Hopcroft and Karp (1971), "A linear algorithm for testing equivalence of finite automata": pairs of states are
searched breadth first, so the first pair of which one alone accepts is reached by a shortest text. Cost: a step for
each pair and byte, at most `max_pairs` pairs. A regular language has finitely many, so the search ends; the pairs of a
pushdown language have no end, and without a difference it ends with `LimitExceeded`.
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

_Pair = tuple[State | None, State | None]  # None: no text of this language goes on so


@dataclass(frozen=True, slots=True)
class Difference:
    """A shortest text on which two specifications differ.

    Attributes:
        data: the text, as bytes.
        only: which of the two allows it.
    """

    data: bytes
    only: Literal["first", "second"]

    @property
    def text(self) -> str:
        """The text; bytes that are not UTF-8 are written as U+FFFD."""
        return self.data.decode("utf-8", "replace")

    def __str__(self) -> str:
        return f"only the {self.only} allows {self.text!r}"


def equivalent(a: Constraint, b: Constraint, *, max_pairs: int = 100_000, **options: Any) -> Difference | None:
    """None where `a` and `b` allow the same texts, else a shortest text that one of them alone allows.

    Args:
        a, b: as `Engine.generate` takes constraints. With the options of `JsonSchemaOptions`, as `whitespace="json"`.
        max_pairs: of states that are looked at.

    Raises:
        SpecError, UnsupportedError: a specification. OptionError: `max_pairs` is no number of pairs.
        LimitExceeded: no difference was found among so many pairs, and there are more.
    """
    return _search(a, b, max_pairs, one_way=False, options=options)


def subset(a: Constraint, b: Constraint, *, max_pairs: int = 100_000, **options: Any) -> Difference | None:
    """None where `b` allows every text that `a` allows, else a shortest text that `a` alone allows.

    Arguments and errors are those of `equivalent`.
    """
    return _search(a, b, max_pairs, one_way=True, options=options)


def _search(
    a: Constraint, b: Constraint, max_pairs: int, *, one_way: bool, options: dict[str, Any]
) -> Difference | None:
    check_integer("max_pairs", max_pairs, least=1)
    first, second = Language(over_bytes(a, **options)), Language(over_bytes(b, **options))
    start: _Pair = (first.start, second.start)
    came: dict[_Pair, tuple[_Pair, int] | None] = {start: None}
    queue = deque([start])
    while queue:
        pair = queue.popleft()
        mine, theirs = pair
        accepts = mine is not None and first.accepts(mine), theirs is not None and second.accepts(theirs)
        if accepts == (True, False) or (accepts == (False, True) and not one_way):
            return Difference(_text(came, pair), "first" if accepts[0] else "second")
        moves = {} if mine is None else first.moves(mine), {} if theirs is None else second.moves(theirs)
        for byte in moves[0] if one_way else sorted({*moves[0], *moves[1]}):
            after: _Pair = (moves[0].get(byte), moves[1].get(byte))
            if after not in came:
                if len(came) >= max_pairs:
                    raise LimitExceeded("max_pairs", len(came) + 1, max_pairs, hint="give a larger max_pairs=...")
                came[after] = (pair, byte)
                queue.append(after)
    return None


def _text(came: dict[_Pair, tuple[_Pair, int] | None], pair: _Pair) -> bytes:
    out = bytearray()
    while (step := came[pair]) is not None:
        pair, byte = step
        out.append(byte)
    return bytes(reversed(out))
