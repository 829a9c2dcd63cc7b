"""Where strings occur in the texts of a `Substrings` node.

Cost: linear in the texts, on repetitive texts as well. `str.find` prepares its search in time linear in the part, so a
search for each of many overlapping occurrences would be quadratic. Two occurrences that overlap by at least half show
that the part is periodic, and further ones are then found by comparing one period each (Fine and Wilf, Uniqueness
theorems for periodic functions, 1965).
"""

from __future__ import annotations

from collections.abc import Iterator

from guided.ir.nodes import Substrings

__all__ = ["beginnings", "is_substring", "occurrences"]


def beginnings(node: Substrings, part: str) -> Iterator[tuple[int, int]]:
    """(number of the text, offset) of each occurrence of `part` at which a string may begin. They may overlap."""
    for number, text in enumerate(node.texts):
        for offset in _offsets(text, part):
            if not (node.whole_words and (text[offset : offset + 1].isspace() or _is_inside_word(text, offset))):
                yield number, offset


def occurrences(node: Substrings, part: str) -> Iterator[tuple[int, int]]:
    """(number of the text, offset) wherever `part` occurs as a string of the node. They may overlap."""
    if not part or (node.whole_words and part[-1].isspace()):
        return
    for number, offset in beginnings(node, part):
        if not (node.whole_words and _is_inside_word(node.texts[number], offset + len(part))):
            yield number, offset


def is_substring(node: Substrings, part: str) -> bool:
    """Whether the node generates a string."""
    return next(occurrences(node, part), None) is not None


def _offsets(text: str, part: str) -> Iterator[int]:
    """The offset of each occurrence of `part` in a text. They may overlap."""
    length = len(part)
    offset = text.find(part)
    while offset >= 0:
        yield offset
        next_offset = text.find(part, offset + 1)
        period = next_offset - offset
        if 0 < period <= length // 2:
            while text.startswith(part[length - period :], offset + length):  # it occurs a period later
                offset += period
                yield offset
            # Occurrences that overlap this one by at least a period were found above, at multiples of the period.
            next_offset = text.find(part, offset + length - period + 1)
        offset = next_offset


def _is_inside_word(text: str, offset: int) -> bool:
    return 0 < offset < len(text) and _is_word_char(text[offset - 1]) and _is_word_char(text[offset])


def _is_word_char(char: str) -> bool:
    """Whether a character is part of a word, as Python's regular expressions define it."""
    return char.isalnum() or char == "_"
