"""xgrammar's exceptions, and the conversion of guided's errors to them.

xgrammar raises RuntimeError, or a subclass, for every specification that it refuses, and so does `as_xgrammar`. As in
xgrammar, its messages begin with the line and column; guided's message follows, with the source line, carets and a
hint. guided's error is the cause (`error.__cause__`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from guided.errors import GuidedError

__all__ = [
    "DeserializeFormatError",
    "DeserializeVersionError",
    "InvalidJSONError",
    "InvalidStructuralTagError",
    "as_xgrammar",
]


class DeserializeFormatError(RuntimeError):
    """The text to deserialize is JSON, but not for this kind of object."""


class DeserializeVersionError(RuntimeError):
    """Another version or another library wrote the text to deserialize."""


class InvalidStructuralTagError(RuntimeError):
    """A structural tag is malformed, or a part of it cannot be enforced."""


class InvalidJSONError(RuntimeError):
    """A text that should be JSON is not."""


@contextmanager
def as_xgrammar(kind: type[RuntimeError] = RuntimeError, what: str = "") -> Iterator[None]:
    """Convert guided's errors inside the block to errors of this kind.

    Args:
        what: the name of the parser, such as "EBNF parser". The message begins with it, and with line and column if
            they are known.
    """
    try:
        yield
    except GuidedError as error:
        begin = f"{what} error" if what else ""
        if begin and error.text:
            line = error.text.count("\n", 0, error.span[0]) + 1
            column = error.span[0] - error.text.rfind("\n", 0, error.span[0])
            begin += f" at line {line}, column {column}"
        raise kind(f"{begin}: {error}" if begin else str(error)) from error
