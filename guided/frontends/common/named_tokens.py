"""Where a text names a token of the vocabulary: `<think>`, `<|call|>`, `<[128000]>`, `<[1,5-9]>`. In: the text, and the
token. Out: its place, for the error of a token that the vocabulary does not have.

The core knows the token and not the text: whether a vocabulary has a token is asked only when a grammar is compiled for
it. In texts with another notation, as JSON, the name of the token is looked for.
"""

from __future__ import annotations

import re
from typing import Final

from guided.frontends.lark.scan import words

__all__ = ["place_of_token"]

_IDS: Final = re.compile(r"<\[\^?([\d,-]+)\]>")


def place_of_token(text: str, token: int | str) -> tuple[int, int] | None:
    """The first place at which a text names a token; None if it does not, as when a file that it imports does."""
    for each in words(text):
        if each.kind == "special" and (each.text == token or (isinstance(token, int) and _has(each.text, token))):
            return each.span
    at = text.find(token) if isinstance(token, str) else -1
    return (at, at + len(str(token))) if at >= 0 else None


def _has(written: str, token: int) -> bool:
    found = _IDS.fullmatch(written)
    pieces = [piece.partition("-") for piece in found[1].split(",")] if found is not None else []
    return any(low and int(low) <= token <= int(high or low) for low, _, high in pieces)
