"""Bounds how much longer the steps of a tokenizer.json make a text before it becomes tokens.

In: the normalizer and the pre-tokenizer of a file, which may be untrusted. Out: a factor. Each step may replace each
character by a text, so a file of a few hundred bytes can ask for 10^12 characters. Unicode's normal forms and changes
of case add at most a constant factor, however often they occur, and are not counted.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from guided.errors import VocabularyError

__all__ = ["compute_growth"]

_MAX_GROWTH: Final = 1 << 40


def compute_growth(data: Mapping[str, Any]) -> int:
    """At least how many characters the steps of a tokenizer.json make of one; 2^40 means that or more.

    Raises:
        VocabularyError: a table of characters is shorter than it says, so the package would read or allocate too much.
    """
    pending, growth = [data.get("normalizer"), data.get("pre_tokenizer")], 1
    while pending:
        step = pending.pop()
        if isinstance(step, dict):
            pending += [*(step.get("normalizers") or ()), *(step.get("pretokenizers") or ())]
            growth = min(growth * _compute_step_growth(step), _MAX_GROWTH)
    return growth


def _compute_step_growth(step: Mapping[str, Any]) -> int:
    match step:
        case {"type": "Replace", "pattern": {"String": str(text)}, "content": str(content)} if text:
            return max(1, -(-len(content) // len(text)))
        case {"type": "Replace", "content": str(content)}:  # the pattern may match between any two characters
            return 1 + len(content)
        case {"type": "Prepend", "prepend": str(text)}:  # before each part between added tokens
            return 1 + len(text)
        case {"type": "ByteLevel"}:
            return 2  # a byte becomes a character of up to two bytes
        case {"type": "BertNormalizer"}:
            return 3  # a space on both sides of Chinese characters
        case {"type": "Precompiled", "precompiled_charsmap": str(table)}:
            return _find_longest_replacement(table)
    return 1


def _find_longest_replacement(table: str) -> int:
    """The length in bytes of the longest text in a table of SentencePiece: a trie, after its length, and its texts."""
    try:
        content = base64.b64decode(table)
    except ValueError:
        return 1  # the package reports it
    size = int.from_bytes(content[:4], "little")
    if size > len(content) - 4:
        raise VocabularyError(f"the normalizer's table of characters has {len(content)} bytes, but says {size}")
    return max(1, *map(len, content[4 + size :].split(b"\0")))
