"""General categories of Unicode 16, whatever version this Python's `unicodedata` has.

In: a code point. Out: its general category ("Lu", "Nd", ...). Tokenizers' regex engines (Rust's and Oniguruma's) read
Unicode 16; Python 3.11 reads 14, 3.12 15, 3.13 15.1. The table holds what changed from 14 to 16: 127 ranges.
Source: DerivedGeneralCategory.txt of Unicode 14.0 and 16.0. Parsed on first use; a look-up is a bisection.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from functools import cache
from typing import Final

__all__ = ["CATEGORIES", "category"]

_NAMES: Final = "Cc Cf Cn Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs"
CATEGORIES: Final = tuple(_NAMES.split())

_CHANGES: Final = {
    "Cf": "13439-1343F",
    "Ll": "1C8A A7CD A7DB 10D70-10D85 1DF25-1DF2A",
    "Lm": "10D4E 10D6F 16D40-16D42 16D6B-16D6C 1E030-1E06D 1E4EB",
    "Lo": (
        "105C0-105F3 10D4A-10D4D 10D4F 10EC2-10EC4 1123F-11240 11380-11389 1138B 1138E 11390-113B5 113B7 113D1 113D3 "
        "11BC0-11BE0 11F02 11F04-11F10 11F12-11F33 1342F 13441-13446 13460-143FA 16100-1611D 16D43-16D6A 18CFF 1B132 "
        "1B155 1E4D0-1E4EA 1E5D0-1E5ED 1E5F0 2B739 2EBF0-2EE5D 31350-323AF"
    ),
    "Lu": "1C89 A7CB-A7CC A7DA A7DC 10D50-10D65",
    "Mc": (
        "CF3 113B8-113BA 113C2 113C5 113C7-113CA 113CC-113CD 113CF 1171E 11F03 11F34-11F35 11F3E-11F3F 11F41 "
        "1612A-1612C"
    ),
    "Mn": (
        "897 ECE 10D69-10D6D 10EFC-10EFF 11241 113BB-113C0 113CE 113D0 113D2 113E1-113E2 11F00-11F01 11F36-11F3A 11F40 "
        "11F42 11F5A 13440 13447-13455 1611E-16129 1612D-1612F 1E08F 1E4EC-1E4EF 1E5EE-1E5EF"
    ),
    "Nd": (
        "10D40-10D49 116D0-116E3 11BF0-11BF9 11F50-11F59 16130-16139 16D70-16D79 1CCF0-1CCF9 1E4F0-1E4F9 1E5F1-1E5FA"
    ),
    "No": "1D2C0-1D2D3",
    "Pd": "10D6E",
    "Po": "1B4E-1B4F 1B7F 113D4-113D5 113D7-113D8 11B00-11B09 11BE1 11F43-11F4F 16D6D-16D6F 1E5FF",
    "Sm": "10D8E-10D8F",
    "So": (
        "2427-2429 2FFC-2FFF 31E4-31E5 31EF 1CC00-1CCEF 1CD00-1CEB3 1F6DC 1F774-1F776 1F77B-1F77F 1F7D9 1F8B2-1F8BB "
        "1F8C0-1F8C1 1FA75-1FA77 1FA87-1FA89 1FA8F 1FAAD-1FAAF 1FABB-1FABF 1FAC6 1FACE-1FACF 1FADA-1FADC 1FADF "
        "1FAE8-1FAE9 1FAF7-1FAF8 1FBCB-1FBEF"
    ),
}


@cache
def _changes() -> tuple[list[int], list[tuple[int, str]]]:
    """First code points, sorted, and beside each the last one and the category."""
    ranges = []
    for name, text in _CHANGES.items():
        for part in text.split():
            first, _, last = part.partition("-")
            ranges.append((int(first, 16), int(last or first, 16), name))
    ranges.sort()
    return [first for first, _, _ in ranges], [(last, name) for _, last, name in ranges]


def category(code_point: int) -> str:
    """The general category of `code_point` in Unicode 16."""
    firsts, rest = _changes()
    place = bisect_right(firsts, code_point) - 1
    if place >= 0 and code_point <= rest[place][0]:
        return rest[place][1]
    return unicodedata.category(chr(code_point))
