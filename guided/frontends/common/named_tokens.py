"""Finds where a specification names a token of the vocabulary: `<think>`, `<|call|>`, `<[128000]>`, `<[1,5-9]>`. In:
the text, and the token. Out: the location, for the error about a token that the vocabulary lacks.

The core, which looks tokens up when it compiles a grammar for a vocabulary, knows the token but not the text. In other
notations, such as JSON, this module searches for the name of the token.
"""

from __future__ import annotations

import re
from typing import Final

from guided.frontends.lark.scan import scan_leniently

__all__ = ["find_token"]

_IDS: Final = re.compile(r"<\[\^?([\d,-]+)\]>")


def find_token(text: str, token: int | str) -> tuple[int, int] | None:
    """The first span in which a text names a token. None if an imported file names it, for example."""
    for each in scan_leniently(text):
        if each.kind == "special" and (each.text == token or (isinstance(token, int) and _lists_id(each.text, token))):
            return each.span
    at = text.find(token) if isinstance(token, str) else -1
    return (at, at + len(str(token))) if at >= 0 else None


def _lists_id(written: str, token: int) -> bool:
    found = _IDS.fullmatch(written)
    pieces = [piece.partition("-") for piece in found[1].split(",")] if found is not None else []
    return any(low and int(low) <= token <= int(high or low) for low, _, high in pieces)
