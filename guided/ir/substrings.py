"""Where strings occur in the texts of a `Substrings` node. Cost: a search of the texts, as in `str.find`."""

from __future__ import annotations

from collections.abc import Iterator

from guided.ir.nodes import Substrings

__all__ = ["beginnings", "is_substring", "occurrences"]


def beginnings(node: Substrings, part: str) -> Iterator[tuple[int, int]]:
    """(number of the text, offset) wherever `part` occurs and may begin a string of the node. They may overlap."""
    for number, text in enumerate(node.texts):
        at = text.find(part)
        while at >= 0:
            if not (node.whole_words and (text[at : at + 1].isspace() or _is_inside_word(text, at))):
                yield number, at
            at = text.find(part, at + 1)


def occurrences(node: Substrings, part: str) -> Iterator[tuple[int, int]]:
    """(number of the text, offset) wherever `part` occurs as a string of the node. They may overlap."""
    if not part or (node.whole_words and part[-1].isspace()):
        return
    for number, at in beginnings(node, part):
        if not (node.whole_words and _is_inside_word(node.texts[number], at + len(part))):
            yield number, at


def is_substring(node: Substrings, part: str) -> bool:
    """Whether the node generates a string."""
    return next(occurrences(node, part), None) is not None


def _is_inside_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and _is_in_words(text[at - 1]) and _is_in_words(text[at])


def _is_in_words(char: str) -> bool:
    """Whether a character is one of a word, as in Python's regular expressions."""
    return char.isalnum() or char == "_"
