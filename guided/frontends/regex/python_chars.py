r"""Character sets of Python's `re` for `str` patterns: \d, \w and \s, and case-insensitive sets.

In: code points and sets. Out: `Ranges`. Everything is computed with the `str` methods and the `re` of the running
Python, so the Unicode version is that of its `re`.

When ignoring case, `re` compares the *simple* lower case of each character of the string with the lower cases of the
pattern's characters, and with other lower-case characters that have the same upper case ("ſ" for "s"). A set without
cased characters is compared unchanged. If the running `re` has the following bug, it is reproduced: a set of several
members that lists a capital beyond U+FFFF does not match this capital.

Cost: one pass over the Unicode planes in use for each class, which takes a few milliseconds. The result is cached. A
case-insensitive set takes a few binary searches for each of its ranges, and a step for each of its cased characters.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from guided.ir.ranges import Ranges, charset, complement, select, subtract
from guided.meter import spend

__all__ = ["class_ranges", "ignore_case", "plain_class", "with_same_lower_case", "with_same_lower_case_in_ascii"]

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


class _CaseMap:
    """A relation between characters, such as from capitals to lower-case characters."""

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        self.images: dict[int, list[int]] = {}
        for code, other in pairs:
            self.images.setdefault(code, []).append(other)
        self.codes = sorted(self.images)

    def find(self, ranges: Ranges) -> list[int]:
        """The characters that the characters in `ranges` are related to."""
        return [other for code in select(self.codes, ranges) for other in self.images[code]]


class _CaseMaps(NamedTuple):
    """Relations: character -> lower case, its inverse, upper case -> character, and lower-case character -> all with
    the same upper case. `cased`: the characters that have another case, sorted.
    """

    lower: _CaseMap
    capitals: _CaseMap
    with_upper: _CaseMap
    equivalents: _CaseMap
    cased: list[int]


@cache
def _compute_case_maps(ascii_only: bool) -> _CaseMaps:
    if ascii_only:
        pairs = [(code, code + 32) for code in range(0x41, 0x5B)]
        return _CaseMaps(
            lower=_CaseMap(pairs),
            capitals=_CaseMap((small, code) for code, small in pairs),
            with_upper=_compute_case_maps(False).with_upper,
            equivalents=_CaseMap(()),
            cased=sorted(code for pair in pairs for code in pair),
        )
    lower, upper = {}, {}
    lower_by_upper: dict[str, list[int]] = defaultdict(list)
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
                    lower_by_upper[c.upper()].append(code)
    groups = [group for group in lower_by_upper.values() if len(group) > 1]
    return _CaseMaps(
        lower=_CaseMap(lower.items()),
        capitals=_CaseMap((small, code) for code, small in lower.items()),
        with_upper=_CaseMap((capital, code) for code, capital in upper.items()),
        equivalents=_CaseMap((code, other) for group in groups for code in group for other in group),
        cased=sorted(lower.keys() | upper.keys()),
    )


@cache
def _re_matches_astral_capitals() -> bool:
    return re.fullmatch("(?i)[\U00010400x]", "\U00010400") is not None


def ignore_case(
    members: Sequence[tuple[int, int]], classes: Ranges, *, ascii_only: bool, is_single: bool = False
) -> Ranges:
    r"""The characters that a set matches when case is ignored.

    `members`: its characters (c, -1) and ranges (low, high); `classes`: the union of its \d, \w, \s and their
    complements; `is_single`: it is a single character, written with or without brackets.
    """
    ranges = charset((low, max(low, high)) for low, high in members)
    maps = _compute_case_maps(ascii_only)
    is_astral_set = bool(ranges) and ranges[-1][1] > 0xFFFF and not is_single
    if not is_astral_set and not select(maps.cased, ranges):
        return charset((*ranges, *classes))
    matched_chars: list[tuple[int, int]] = [*classes]
    if not is_single and not _re_matches_astral_capitals():
        matched_chars.extend((c, c) for c, high in members if high < 0 and c > 0xFFFF)
        members = [(c, high) for c, high in members if high >= 0 or c <= 0xFFFF]
    astral_ranges = charset((a, b) for a, b in members if b > 0xFFFF)  # `re` also compares their upper cases
    matched_chars.extend(astral_ranges)
    matched_chars.extend((code, code) for code in maps.with_upper.find(astral_ranges))
    ranges = charset((a, max(a, b)) for a, b in members)
    codes = maps.lower.find(ranges) + maps.equivalents.find(ranges)
    codes.extend(code for key in codes[:] for code in maps.equivalents.images.get(key, ()))
    spend(len(codes))
    matched_chars.extend((code, code) for code in codes)
    matched_chars.extend(_remove_capitals(ranges, maps))
    matched_ranges = charset(matched_chars)
    capitals = [(code, code) for code in maps.capitals.find(matched_ranges)]
    return charset((*_remove_capitals(matched_ranges, maps), *capitals))


def with_same_lower_case(ranges: Ranges) -> Ranges:
    """The characters whose lower case is that of a character in `ranges`: what a back-reference matches when case is
    ignored. Unlike a character of the pattern, it does not match other characters with the same upper case.
    """
    return _add_other_cases(ranges, _compute_case_maps(False))


def with_same_lower_case_in_ascii(ranges: Ranges) -> Ranges:
    """`with_same_lower_case` under the flag a, which leaves only ASCII letters with another case."""
    return _add_other_cases(ranges, _compute_case_maps(True))


def _add_other_cases(ranges: Ranges, maps: _CaseMaps) -> Ranges:
    lower = charset((*_remove_capitals(ranges, maps), *((code, code) for code in maps.lower.find(ranges))))
    return charset((*lower, *((code, code) for code in maps.capitals.find(lower))))


def _remove_capitals(ranges: Ranges, maps: _CaseMaps) -> Ranges:
    """The characters of `ranges` whose lower case is the character itself."""
    capitals = charset((code, code) for code in select(maps.lower.codes, ranges))
    return subtract(ranges, capitals) if capitals else ranges
