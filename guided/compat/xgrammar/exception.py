"""xgrammar's exceptions, and the conversion of guided's errors into them.

xgrammar raises RuntimeError, or a subclass, for every specification that it refuses, and so does `as_xgrammar`. As in
xgrammar, the messages of parsers begin with the line and column. guided's message follows, with the source line, carets
and a hint. guided's error is the cause (`error.__cause__`).
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
    """The string to deserialize is JSON, but not a serialized object of this class."""


class DeserializeVersionError(RuntimeError):
    """The string to deserialize was written by another version or another library."""


class InvalidStructuralTagError(RuntimeError):
    """A structural tag is malformed, or a part of it cannot be enforced."""


class InvalidJSONError(RuntimeError):
    """A string that should be JSON is not JSON."""


@contextmanager
def as_xgrammar(kind: type[RuntimeError] = RuntimeError, parser_name: str = "") -> Iterator[None]:
    """Convert guided's errors inside the block to errors of this kind.

    Args:
        parser_name: such as "EBNF parser". The message begins with it, and with the line and column if they are known.
    """
    try:
        yield
    except GuidedError as error:
        prefix = f"{parser_name} error" if parser_name else ""
        if prefix and error.text:
            line = error.text.count("\n", 0, error.span[0]) + 1
            column = error.span[0] - error.text.rfind("\n", 0, error.span[0])
            prefix += f" at line {line}, column {column}"
        raise kind(f"{prefix}: {error}" if prefix else str(error)) from error
