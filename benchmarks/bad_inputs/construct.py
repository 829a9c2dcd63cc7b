"""`Construct`: a specification or a request body as a function of n.

The size of the result of `build(n)` is linear in n, or constant if n is a number in the specification. So a cost that
grows faster than n grows faster than the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["Construct", "largest"]

_LARGEST_NUMBER: Final = 1 << 30


@dataclass(frozen=True)
class Construct:
    """One family of inputs.

    Attributes:
        name: unique. It begins with the front end, such as "regex: count".
        kind: how it is compiled: "json_schema", "regex", "gbnf", "lark", "choice", "structural_tag", "type",
            "expr", "vocabulary"; or the path of a route, for a request body.
        build: n -> the specification or the body.
        options: the options of the compilation.
        most: the largest n.
        first, factor: the smallest n, and the factor between one n and the next.
    """

    name: str
    kind: str
    build: Callable[[int], Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    most: int = 1 << 17
    first: int = 1
    factor: int = 2

    @property
    def is_request(self) -> bool:
        """Whether it is a request body."""
        return self.kind.startswith("/")


def largest(build: Callable[[int], Any], most: int) -> int:
    """The largest n: `most`, or 10^9 if n is a number in the text, whose length then hardly grows."""
    return _LARGEST_NUMBER if len(str(build(200))) - len(str(build(100))) < 50 else most
