"""Converts an `Encoding` of the IR to the equivalent object of the core.

Cached by serial number, because nearly all grammars use the same two encodings.
"""

from __future__ import annotations

from typing import Final

from guided.automaton import _core
from guided.ir.encodings import Encoding
from guided.ir.serial import serial

__all__ = ["native_encoding"]

_MAX_CACHED: Final = 64
_native_encodings: dict[int, _core.Encoding] = {}


def native_encoding(encoding: Encoding) -> _core.Encoding:
    """The core's object for `encoding`, cached."""
    native = _native_encodings.get(serial(encoding))
    if native is None:
        forms = [
            (
                list(form.ranges),
                [[(span.low, span.high, span.value, span.step) for span in digit] for digit in form.digits],
            )
            for form in encoding.forms
        ]
        if len(_native_encodings) >= _MAX_CACHED:
            _native_encodings.clear()
        native = _native_encodings[serial(encoding)] = _core.Encoding(forms)
    return native
