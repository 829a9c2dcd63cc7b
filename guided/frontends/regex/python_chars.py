r"""Character sets of Python's `re` for `str` patterns: \d, \w and \s, and case-insensitive sets.

In: code points and sets. Out: `Ranges`. Everything is computed with the `str` methods and the `re` of the running
Python, so the Unicode version is that of its `re`.

When ignoring case, `re` compares the *simple* lower case of each character of the string with the lower cases of the
pattern's characters, and with other lower-case characters that have the same upper case ("ſ" for "s"). A set without
cased characters is compared unchanged. If the running `re` has the following bug, it is reproduced: a set of several
members that lists a capital beyond U+FFFF does not match this capital.

Cost: one pass over the Unicode planes in use for each class, which takes a few milliseconds. The result is cached.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import numpy as np

from guided.ir.ranges import Ranges, charset, complement, contains, intersect

__all__ = ["class_ranges", "ignore_case", "plain_class"]

ASCII_DIGIT: Ranges = ((0x30, 0x39),)
ASCII_SPACE: Ranges = ((0x09, 0x0D), (0x20, 0x20))
ASCII_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_ASCII = {"d": ASCII_DIGIT, "s": ASCII_SPACE, "w": ASCII_WORD}


@cache
def class_ranges(letter: str, ascii_only: bool) -> Ranges:
    r"""The set of the class \letter: \d, \s, \w, \D, \S or \W."""
    if letter.isupper():
        return complement(class_ranges(letter.lower(), ascii_only))
    if ascii_only:
        return _ASCII[letter]
    spans = (match.span() for match in re.finditer(rf"\{letter}+", _list_chars()))
    return tuple((_index_to_code(start), _index_to_code(end - 1)) for start, end in spans)


@cache
def plain_class(letter: str) -> Ranges:
    r"""The narrower \d, \s or \w for generation: ASCII, and for \w also the letters of all scripts. It is a subset of
    `class_ranges`.
    """
    if letter != "w":
        return _ASCII[letter]
    return charset((*_find_letters(), *ASCII_WORD))


def _find_letters() -> list[tuple[int, int]]:
    """The letters of all scripts."""
    out: list[tuple[int, int]] = []
    everything = _list_chars()
    for start in range(0, len(everything), 256):
        block = everything[start : start + 256]
        if block.isalpha():
            out.append((_index_to_code(start), _index_to_code(start + len(block) - 1)))
        else:
            out.extend((code, code) for code, c in enumerate(block, _index_to_code(start)) if c.isalpha())
    return out


_LOW_END, _HIGH_START = 0x40000, 0xE0000  # planes 4 to 13 have always been unassigned; 15 and 16 are for private use


@cache
def _list_chars() -> str:
    """All characters of the planes in use, in order: U+0000 to U+3FFFF, then U+E0000 to U+E0FFF."""
    codes = np.concatenate(
        (np.arange(_LOW_END, dtype="<u4"), np.arange(_HIGH_START, _HIGH_START + 0x1000, dtype="<u4"))
    )
    codes[0xD800:0xE000] = 0
    return codes.tobytes().decode("utf-32-le")


def _index_to_code(index: int) -> int:
    """The code point at an index of `_list_chars`."""
    return index if index < _LOW_END else index - _LOW_END + _HIGH_START


@cache
def _compute_case_maps() -> tuple[dict[int, int], dict[int, int], dict[int, tuple[int, ...]]]:
    """(character -> lower case, character -> upper case, lower-case character -> all with the same upper case)."""
    lower, upper = {}, {}
    equivalents: dict[str, list[int]] = defaultdict(list)
    everything = _list_chars()
    for start in range(0, len(everything), 256):
        block = everything[start : start + 256]
        if block.lower() == block == block.upper():
            continue
        for code, c in enumerate(block, _index_to_code(start)):
            if c.lower() != c:
                lower[code] = ord(c.lower()[0])
            if c.upper() != c:
                upper[code] = ord(c.upper()[0])
                if c.lower() == c:
                    equivalents[c.upper()].append(code)
    return lower, upper, {code: tuple(group) for group in equivalents.values() if len(group) > 1 for code in group}


@cache
def _re_matches_astral_capitals() -> bool:
    return re.fullmatch("(?i)[\U00010400x]", "\U00010400") is not None


def _is_cased(ranges: Ranges, ascii_only: bool) -> bool:
    if ascii_only:
        return bool(intersect(ranges, ((0x41, 0x5A), (0x61, 0x7A))))
    lower, upper, _ = _compute_case_maps()
    return any(contains(ranges, code) for table in (lower, upper) for code in table)


def ignore_case(
    members: Sequence[tuple[int, int]], classes: Ranges, *, ascii_only: bool, is_single: bool = False
) -> Ranges:
    r"""The characters that a set matches when case is ignored.

    `members`: its characters (c, -1) and ranges (low, high); `classes`: the union of its \d, \w, \s and their
    complements; `is_single`: it is a single character, written with or without brackets.
    """
    ranges = charset((low, max(low, high)) for low, high in members)
    is_astral_set = bool(ranges) and ranges[-1][1] > 0xFFFF and not is_single
    if not is_astral_set and not _is_cased(ranges, ascii_only):
        return charset((*ranges, *classes))
    lower, upper, equivalents = _compute_case_maps()
    if ascii_only:
        lower, equivalents = {code: code + 32 for code in range(0x41, 0x5B)}, {}
    matched: list[tuple[int, int]] = [*classes]
    if not is_single and not _re_matches_astral_capitals():
        matched.extend((c, c) for c, high in members if high < 0 and c > 0xFFFF)
        members = [(c, high) for c, high in members if high >= 0 or c <= 0xFFFF]
    astral_ranges = charset((a, b) for a, b in members if b > 0xFFFF)  # `re` also compares their upper cases
    matched.extend(astral_ranges)
    matched.extend((code, code) for code in upper if contains(astral_ranges, upper[code]))
    ranges = charset((a, max(a, b)) for a, b in members)
    codes = [lower[code] for code in lower if contains(ranges, code)]
    codes.extend(code for key, group in equivalents.items() if contains(ranges, key) for code in group)
    codes.extend(code for key in codes[:] for code in equivalents.get(key, ()))
    matched.extend((code, code) for code in codes)
    matched.extend(intersect(ranges, _find_chars_without_lower_case(ascii_only)))
    matched_ranges = charset(matched)
    capitals = [(code, code) for code, small in lower.items() if contains(matched_ranges, small)]
    return charset((*intersect(matched_ranges, _find_chars_without_lower_case(ascii_only)), *capitals))


@cache
def _find_chars_without_lower_case(ascii_only: bool) -> Ranges:
    """The characters whose lower case is the character itself."""
    if ascii_only:
        return complement(((0x41, 0x5A),))
    return complement(charset((code, code) for code in _compute_case_maps()[0]))
