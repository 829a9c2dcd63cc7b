"""A matcher's captures, as in xgrammar. In: guided's captures, with their positions. Out: (name, text).

They are sorted by the ends of their rules (after any `suffix`), with inner ones first. The text of a `stop`
(`lark_text.py`) belongs only to its own capture.
"""

from __future__ import annotations

from collections.abc import Sequence

from guided.compat.xgrammar.lark_text import HIDDEN
from guided.matching.regions.parse_paths import Capture

__all__ = ["order_captures"]


def order_captures(found: Sequence[Capture], text: bytes) -> list[tuple[str, bytes]]:
    """The captures of a text in xgrammar's order. `found` is sorted by their beginnings."""
    hidden = [capture for capture in found if capture.name.startswith(HIDDEN)]
    ordered = [*reversed(found)]
    ordered.sort(key=lambda capture: (capture.closed, -capture.start))
    named = [(capture.name.removeprefix(HIDDEN), _text_without(capture, hidden, text)) for capture in ordered]
    return [each for each in named if each[0]]


def _text_without(capture: Capture, hidden: Sequence[Capture], text: bytes) -> bytes:
    out, at = bytearray(), capture.start
    for one in hidden:
        if one is not capture and at <= one.start and one.end <= capture.end:
            out += text[at : one.start]
            at = one.end
    return bytes(out + text[at : capture.end])
