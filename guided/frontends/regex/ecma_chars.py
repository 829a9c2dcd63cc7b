r"""Character sets of ECMA-262's regular expressions: \d, \s, \w and \p{..}, and case-insensitive matching with and
without the flag u.

In: names and sets. Out: `Ranges`. The data is in unicode.txt in this folder. make_unicode.mjs generates it with a
JavaScript RegExp engine, so the Unicode version does not depend on Python. The file is read when the first \p{..} or
the first case-insensitive set needs it, and each set is decoded on first use.
"""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from importlib.resources import files

from guided.ir.ranges import ALL_CHARS, Ranges, charset, complement, contains, select
from guided.meter import spend

__all__ = [
    "LINE_ENDS",
    "UnknownProperty",
    "class_ranges",
    "decode_ranges",
    "ignore_case",
    "ignore_case_of_units",
    "plain_class",
    "property_names",
    "property_set",
    "word_chars",
]

LINE_ENDS: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_DIGIT: Ranges = ((0x30, 0x39),)
_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Ranges = (
    (0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip
_UNIONS = {
    "L": "Lu Ll Lt Lm Lo", "LC": "Lu Ll Lt", "M": "Mn Mc Me", "N": "Nd Nl No", "P": "Pc Pd Ps Pe Pi Pf Po",
    "S": "Sm Sc Sk So", "Z": "Zs Zl Zp", "C": "Cc Cf Cs Co Cn",
}  # fmt: skip
_UNION_NAMES = {
    "Letter": "L", "Cased_Letter": "LC", "Mark": "M", "Combining_Mark": "M", "Number": "N", "Punctuation": "P",
    "punct": "P", "Symbol": "S", "Separator": "Z", "Other": "C",
}  # fmt: skip
_PROPERTIES_WITH_VALUES = {
    "General_Category": "gc",
    "gc": "gc",
    "Script": "sc",
    "sc": "sc",
    "Script_Extensions": "scx",
    "scx": "scx",
}


class UnknownProperty(Exception):
    """The property or value is unknown. The exception's text is a hint."""


@cache
def _load_data() -> dict[tuple[str, str], str]:
    """(key, name) -> the encoded set. The keys and the encoding are described in make_unicode.mjs."""
    encoded_sets: dict[tuple[str, str], str] = {}
    for line in files(__package__).joinpath("unicode.txt").read_text(encoding="ascii").splitlines()[1:]:
        key, names, *encoded = line.split(" ", 2)
        for name in names.split("="):
            encoded_sets[key, name] = encoded[0] if encoded else ""
    return encoded_sets


def decode_ranges(encoded: str) -> Ranges:
    """Decode a set. Each range is written as the gap before it, a dot and its length, in base 36. Without a dot, the
    length is 1.
    """
    out: list[tuple[int, int]] = []
    end = 0
    for pair in encoded.split():
        gap, _, length = pair.partition(".")
        low = end + int(gap, 36)
        end = low + (int(length, 36) if length else 1)
        out.append((low, end - 1))
    return charset(out)


@cache
def _load_set(key: str, name: str) -> Ranges | None:
    encoded = _load_data().get((key, name))
    return None if encoded is None else decode_ranges(encoded)


@cache
def _load_general_category(name: str) -> Ranges | None:
    short = _UNION_NAMES.get(name, name)
    if short not in _UNIONS:
        return _load_set("gc", name)
    return charset(r for category in _UNIONS[short].split() for r in _load_set("gc", category) or ())


@cache
def property_set(name: str, value: str | None = None) -> Ranges:
    r"""The set of \p{name} or \p{name=value}. Names are exact, as ECMA-262 requires."""
    if value is not None:
        key = _PROPERTIES_WITH_VALUES.get(name)
        if key is None:
            raise UnknownProperty("only General_Category, Script and Script_Extensions take a value")
        ranges = _load_general_category(value) if key == "gc" else _load_set(key, value)
        if ranges is None and key == "scx":
            ranges = _load_set("sc", value)
        if ranges is None:
            raise UnknownProperty(f"{name} has no such value; write names exactly, with their capitals and underscores")
        return ranges
    special_sets = {"Any": ALL_CHARS, "ASCII": ((0, 0x7F),)}
    if name in special_sets:
        return special_sets[name]
    if name == "Assigned":
        return complement(_load_set("gc", "Cn") or ())
    ranges = _load_general_category(name)
    if ranges is None:
        ranges = _load_set("bin", name)
    if ranges is None:
        is_script = ("sc", name) in _load_data()
        raise UnknownProperty(
            f"write \\p{{Script={name}}}" if is_script else "write names exactly, with their capitals and underscores"
        )
    return ranges


def property_names(key: str) -> list[str]:
    """The names of general categories (key "gc"), binary properties ("bin") or scripts ("sc")."""
    names = [name for kind, name in _load_data() if kind == key]
    return [*names, *_UNIONS, *_UNION_NAMES, "Any", "ASCII", "Assigned"] if key == "gc" else names


@cache
def _load_orbits() -> dict[int, tuple[int, ...]]:
    """Character -> its *orbit*, all characters of its case-folding class. Only for characters that have another
    case."""
    orbits = {}
    for orbit in _load_data()["fold", "orbits"].split():
        members = tuple(int(member, 16) for member in orbit.split("="))
        for member in members:
            orbits[member] = members
    return orbits


@cache
def _list_cased_chars() -> list[int]:
    return sorted(_load_orbits())


@lru_cache(maxsize=1024)
def ignore_case(ranges: Ranges) -> Ranges:
    """All characters that match one of `ranges` when case is ignored."""
    return _add_orbits(ranges, _load_orbits(), _list_cased_chars())


def ignore_case_of_ascii(ranges: Ranges) -> Ranges:
    """`ranges`, plus the other case of each ASCII letter in it."""
    other_case = [(code ^ 32, code ^ 32) for code in (*range(65, 91), *range(97, 123)) if contains(ranges, code)]
    return charset((*ranges, *other_case))


def _add_orbits(ranges: Ranges, orbits: dict[int, tuple[int, ...]], cased_chars: list[int]) -> Ranges:
    """The characters of `ranges` and of their orbits. `cased_chars`: the characters that have an orbit, sorted."""
    equivalents = [(other, other) for code in select(cased_chars, ranges) for other in orbits[code]]
    spend(len(equivalents))
    return charset((*ranges, *equivalents)) if equivalents else ranges


def _canonicalize(code: int) -> int:
    """ECMA-262's `Canonicalize` without the flag u: what is compared instead of a code unit when case is ignored."""
    upper = chr(code).upper()
    if len(upper) > 1 or ord(upper) > 0xFFFF or ord(upper) < 128 <= code:
        return code
    return ord(upper)


@cache
def _compute_unit_orbits() -> dict[int, tuple[int, ...]]:
    """Code unit -> the code units that match it without the flag u (a subset of its orbit), for each unit that has
    another case.

    The running Python defines upper case. A letter that is too new for this Python matches its whole orbit.
    """
    orbits = {}
    for orbit in set(_load_orbits().values()):
        is_assigned = all(unicodedata.category(chr(code)) != "Cn" for code in orbit)
        groups: dict[int, list[int]] = {}
        for code in orbit:
            if code <= 0xFFFF:
                groups.setdefault(_canonicalize(code) if is_assigned else 0, []).append(code)
        orbits.update({code: tuple(group) for group in groups.values() for code in group if len(group) > 1})
    return orbits


@cache
def _list_cased_units() -> list[int]:
    return sorted(_compute_unit_orbits())


@lru_cache(maxsize=256)
def ignore_case_of_units(ranges: Ranges) -> Ranges:
    """All code units that match one of `ranges` when case is ignored, without the flag u."""
    return _add_orbits(ranges, _compute_unit_orbits(), _list_cased_units())


def word_chars(any_case: bool) -> Ranges:
    r"""The word characters of \w and \b. `any_case`: with the flags i and u, which add two non-ASCII letters."""
    return ignore_case(_WORD) if any_case else _WORD


def plain_class(letter: str, any_case: bool) -> Ranges:
    r"""The narrower \d, \s or \w for generation: \s is ASCII, and the other two are already narrow. It is a subset of
    `class_ranges`.
    """
    return ((0x09, 0x0D), (0x20, 0x20)) if letter == "s" else class_ranges(letter, any_case)


def class_ranges(letter: str, any_case: bool) -> Ranges:
    r"""The set of the class \letter: \d, \s, \w, \D, \S or \W. `any_case`: see `word_chars`."""
    ranges = {"d": _DIGIT, "s": _SPACE, "w": word_chars(any_case)}[letter.lower()]
    return complement(ranges) if letter.isupper() else ranges
