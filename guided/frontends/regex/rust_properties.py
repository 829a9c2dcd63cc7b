r"""Unicode properties in patterns of Rust's crate `regex`: \pL, \p{Greek}, \p{scx=Grek}, \p{gc!=Lu}. In: the text
between the braces. Out: ECMA-262's name of the property, and its characters.

Case, spaces, underscores, hyphens and a leading "is" do not matter. A name without a value is a binary property, a
general category or a script, in this order. Source: regex-syntax, `src/unicode.rs`. Cost: one table, made once.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from guided.ir.ranges import Ranges, complement

from .ecma_chars import UnknownProperty, property_names, property_set

__all__ = ["find_property"]

_PARTS: Final = re.compile(r"([^=:!]*)(!=|=|:)(.*)", re.DOTALL)
_KEYS: Final = {"gc": "gc", "generalcategory": "gc", "sc": "sc", "script": "sc", "scx": "scx",
                "scriptextensions": "scx"}  # fmt: skip
_PREFIXES: Final = {"gc": "", "sc": "Script=", "scx": "Script_Extensions="}
_OTHER_KEYS: Final = ("age", "gcb", "graphemeclusterbreak", "wb", "wordbreak", "sb", "sentencebreak")


def find_property(text: str) -> tuple[str, Ranges] | None:
    """ECMA-262's name of a property ("" if it is a complement), and the characters.

    Returns None if ECMA-262 has no such property, but Rust has. Raises KeyError for an unknown name.
    """
    parts = _PARTS.fullmatch(text)
    if parts is None:
        name = _normalise(text)
        spelling = next(filter(None, (_map_names(key).get(name) for key in ("bin", "gc", "sc"))), None)
        if spelling is None:
            raise KeyError(text)
        return spelling, _read_ranges(spelling)
    key = _KEYS.get(_normalise(parts[1]))
    if key is None:
        if _normalise(parts[1]) in _OTHER_KEYS:
            return None
        raise KeyError(text)
    spelling = _map_names(key)[_normalise(parts[3])]
    return ("", complement(_read_ranges(spelling))) if parts[2] == "!=" else (spelling, _read_ranges(spelling))


def _normalise(name: str) -> str:
    name = re.sub(r"[ _-]", "", name).lower()
    return name[2:] if name.startswith("is") and name != "isc" else name


@cache
def _map_names(key: str) -> dict[str, str]:
    """Normalised name -> name in ECMA-262's spelling, for the properties of a kind."""
    names = {_normalise(name): _PREFIXES.get(key, "") + name for name in property_names("sc" if key == "scx" else key)}
    if key == "bin":
        return {name: spelling for name, spelling in names.items() if name not in ("cf", "sc", "lc")}
    return names


def _read_ranges(spelling: str) -> Ranges:
    name, _, value = spelling.partition("=")
    try:
        return property_set(name, value or None)
    except UnknownProperty:
        raise KeyError(spelling) from None
