"""Finds where a text names a token of the vocabulary: `<think>`, `<|call|>`, `<[128000]>`, `<[1,5-9]>`. In: the text,
and the token. Out: its location, for the error about a token that the vocabulary lacks.

The core knows the token, but not the text: tokens are only looked up when a grammar is compiled for a vocabulary. In
texts with other notations, such as JSON, the name of the token is searched for.
"""

from __future__ import annotations

import re
from typing import Final

from guided.frontends.lark.scan import words

__all__ = ["place_of_token"]

_IDS: Final = re.compile(r"<\[\^?([\d,-]+)\]>")


def place_of_token(text: str, token: int | str) -> tuple[int, int] | None:
    """The first span in which a text names a token. None if there is none, for example if an imported file names it."""
    for each in words(text):
        if each.kind == "special" and (each.text == token or (isinstance(token, int) and _has(each.text, token))):
            return each.span
    at = text.find(token) if isinstance(token, str) else -1
    return (at, at + len(str(token))) if at >= 0 else None


def _has(written: str, token: int) -> bool:
    found = _IDS.fullmatch(written)
    pieces = [piece.partition("-") for piece in found[1].split(",")] if found is not None else []
    return any(low and int(low) <= token <= int(high or low) for low, _, high in pieces)
