"""Finds where strings occur in the texts of a `Substrings` node. In: the node and a string. Out: text numbers and
offsets.

Cost: linear in the texts, on repetitive texts as well. `str.find` prepares its search in time linear in the string, so
a search for each of many overlapping occurrences would be quadratic. Two occurrences that overlap by at least half show
that the string is periodic, and further ones are then found by comparing one period each (Fine and Wilf, Uniqueness
theorems for periodic functions, 1965).
"""

from __future__ import annotations

from collections.abc import Iterator

from guided.ir.nodes import Substrings

__all__ = ["beginnings", "is_substring", "occurrences"]


def beginnings(node: Substrings, string: str) -> Iterator[tuple[int, int]]:
    """(number of the text, offset) of each occurrence of `string` with which a string of the node may begin. They may
    overlap.
    """
    for number, text in enumerate(node.texts):
        for offset in _offsets(text, string):
            if not (node.whole_words and (text[offset : offset + 1].isspace() or _is_inside_word(text, offset))):
                yield number, offset


def occurrences(node: Substrings, string: str) -> Iterator[tuple[int, int]]:
    """(number of the text, offset) wherever `string` occurs as a string of the node. They may overlap."""
    if not string or (node.whole_words and string[-1].isspace()):
        return
    for number, offset in beginnings(node, string):
        if not (node.whole_words and _is_inside_word(node.texts[number], offset + len(string))):
            yield number, offset


def is_substring(node: Substrings, string: str) -> bool:
    """Whether the node generates `string`."""
    return next(occurrences(node, string), None) is not None


def _offsets(text: str, string: str) -> Iterator[int]:
    """The offset of each occurrence of `string` in a text. They may overlap."""
    length = len(string)
    offset = text.find(string)
    while offset >= 0:
        yield offset
        next_offset = text.find(string, offset + 1)
        period = next_offset - offset
        if 0 < period <= length // 2:
            while text.startswith(string[length - period :], offset + length):  # it occurs a period later
                offset += period
                yield offset
            # Occurrences that overlap this one by at least a period were found above, at multiples of the period.
            next_offset = text.find(string, offset + length - period + 1)
        offset = next_offset


def _is_inside_word(text: str, offset: int) -> bool:
    return 0 < offset < len(text) and _is_word_char(text[offset - 1]) and _is_word_char(text[offset])


def _is_word_char(char: str) -> bool:
    """Whether a character is part of a word, as Python's regular expressions define it."""
    return char.isalnum() or char == "_"
