"""xgrammar's exceptions, and the conversion of guided's errors to them.

xgrammar raises RuntimeError, or a subclass, for every specification that it refuses. `as_xgrammar` does the same. Its
messages begin with line and column, as in xgrammar, followed by guided's own text with the line, carets and a hint. The
error of guided is the cause (`error.__cause__`), with its attributes.
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
    """The text to deserialize was written by another version or another library."""


class InvalidStructuralTagError(RuntimeError):
    """A structural tag is malformed, or a part of it cannot be enforced."""


class InvalidJSONError(RuntimeError):
    """A text that should be JSON is not."""


@contextmanager
def as_xgrammar(kind: type[RuntimeError] = RuntimeError, what: str = "") -> Iterator[None]:
    """Convert errors of guided within the block to errors of this kind.

    Args:
        what: the reader, such as "EBNF parser". It begins the message, with line and column if they are known.
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
