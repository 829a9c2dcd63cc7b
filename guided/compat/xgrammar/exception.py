"""The exceptions of xgrammar, and the way from guided's errors to them.

xgrammar raises RuntimeError for every specification that it refuses, with some subclasses. `as_xgrammar` does the same:
the message has the line and column first, as xgrammar's has, and then guided's own text, with the line, carets and a
hint. The error of guided is the cause (`error.__cause__`), with its attributes.
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
    """What is to be deserialized is JSON, but not of this kind of object."""


class DeserializeVersionError(RuntimeError):
    """What is to be deserialized was written by another version, or by another library."""


class InvalidStructuralTagError(RuntimeError):
    """A structural tag is malformed, or a part of it cannot be enforced."""


class InvalidJSONError(RuntimeError):
    """A text that should be JSON is none."""


@contextmanager
def as_xgrammar(kind: type[RuntimeError] = RuntimeError, what: str = "") -> Iterator[None]:
    """Errors of guided within the block become errors of this kind.

    Args:
        what: what was read, such as "EBNF parser": it begins the message, with line and column where they are known.
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
