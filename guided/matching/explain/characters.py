"""Describes sets of characters in words, for messages: "a digit, a letter from a to f or 語".

In: code points as ranges. Out: parts, each a set with its description. The parts are disjoint, and their union is
exactly the given set, so a message neither adds nor hides a character.

Named classes come first, the largest first. A class that lacks only a few characters is "a letter other than 'q'". The
rest is listed: single characters, and ranges. A set of more than half of all characters is described by the missing
ones, if these are few. The end of a long list is only counted: "or one of 312 other characters".

"A letter" means A-Z and a-z, and "a digit" means 0-9. Other scripts are named explicitly.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from guided.frontends.regex.ecma_chars import class_ranges as ecma_category
from guided.frontends.regex.ecma_chars import property_set
from guided.frontends.regex.python_chars import class_ranges
from guided.ir.ranges import ALL_CHARS, Ranges, charset, complement, intersect, subtract

__all__ = ["Part", "count", "describe", "join_with_or", "name_of", "parts_of"]

_MAX_PARTS: Final = 6
_MAX_MISSING: Final = 3
_MAX_EXCEPTIONS: Final = 5
_SHORT_RANGE: Final = 3  # characters; a longer run is shown by its first and last character
_SHORT_RANGE_OF_PUNCTUATION: Final = 8  # the same for ASCII punctuation, whose order readers do not know
_NAMES: Final = {
    " ": "a space",
    "\t": "a tab",
    "\n": "a line break",
    "\r": "a carriage return",
    '"': "a quotation mark",
    "'": "an apostrophe",
    "\\": "a backslash",
    "\x7f": "the delete character",
    "\u00a0": "a no-break space",
    "\ufeff": "a byte order mark",
}


class Part(NamedTuple):
    """Some of the characters of a set, and their description.

    Attributes:
        description: with an article: "a digit", "'}'", "語".
        characters: code points; sorted, disjoint ranges.
    """

    description: str
    characters: Ranges


def describe(characters: Ranges) -> str:
    """A set of characters in words; "nothing" if it is empty."""
    return join_with_or([part.description for part in parts_of(characters)]) or "nothing"


def join_with_or(words: Sequence[str]) -> str:
    """Join words, as in "'a', 'b' or 'c'"."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def count(characters: Ranges) -> int:
    """The number of characters in a set."""
    return sum(high - low + 1 for low, high in characters)


def name_of(character: str) -> str:
    """A character for a message: in quotes if it is printable ASCII, by its name if it is invisible."""
    if character in _NAMES:
        return _NAMES[character]
    if character.isascii() and character.isprintable():
        return f"'{character}'"
    if not character.isprintable() or unicodedata.category(character).startswith("M"):
        code = f"U+{ord(character):04X}"
        name = unicodedata.name(character, "").lower()
        return f"{code} ({name})" if name else code
    return character


def parts_of(characters: Ranges) -> tuple[Part, ...]:
    """The parts of a set, see the module docstring."""
    if not characters:
        return ()
    if characters == ALL_CHARS:
        return (Part("any character", characters),)
    missing = complement(characters)
    if count(missing) < count(characters):
        missing_parts = _list_parts(missing)
        if len(missing_parts) <= _MAX_MISSING:
            return (
                Part(f"any character but {join_with_or([part.description for part in missing_parts])}", characters),
            )
    parts = _list_parts(characters)
    if len(parts) <= _MAX_PARTS:
        return tuple(parts)
    first_parts, hidden_parts = parts[: _MAX_PARTS - 1], parts[_MAX_PARTS - 1 :]
    other_characters = charset(bounds for part in hidden_parts for bounds in part.characters)
    return (*first_parts, Part(f"one of {count(other_characters):,} other characters", other_characters))


def _list_parts(characters: Ranges) -> list[Part]:
    """The classes in a set, then the remaining characters."""
    parts, remaining = [], characters
    for description, members in _build_classes():
        if not (common := intersect(remaining, members)):
            continue
        missing = subtract(members, common)
        if not missing:
            parts.append(Part(description, members))
        elif count(missing) <= min(_MAX_EXCEPTIONS, count(members) // 5) and len(common) > 1:
            names = [name_of(chr(code)) for low, high in missing for code in range(low, high + 1)]
            parts.append(Part(f"{description} other than {join_with_or(names)}", common))
        else:
            continue
        remaining = subtract(remaining, common)
    return parts + [part for low, high in remaining for part in _describe_run(low, high)]


def _describe_run(low: int, high: int) -> list[Part]:
    """Consecutive characters: one by one if they are few, otherwise as a range."""
    first, last = chr(low), chr(high)
    is_punctuation = (first + last).isascii() and not (first + last).isalnum()
    if high - low < (_SHORT_RANGE_OF_PUNCTUATION if is_punctuation else _SHORT_RANGE):
        return [Part(name_of(chr(code)), ((code, code),)) for code in range(low, high + 1)]
    if first.isascii() and last.isascii() and (first + last).isalpha() and first.isupper() == last.isupper():
        description = f"a letter from {first} to {last}"
    elif (first + last).isascii() and (first + last).isdigit():
        description = f"a digit from {first} to {last}"
    else:
        description = f"a character from {name_of(first)} to {name_of(last)}"
    return [Part(description, ((low, high),))]


@cache
def _build_classes() -> tuple[tuple[str, Ranges], ...]:
    """The named classes, the largest first. If two overlap, the larger one takes the common characters."""
    letters, lower, upper = charset(((0x41, 0x5A), (0x61, 0x7A))), ((0x61, 0x7A),), ((0x41, 0x5A),)
    ranges_by_name: dict[str, Ranges] = {
        "a character beyond ASCII": charset([(0x80, 0x10FFFF)]),
        "a letter, digit or underscore of any script": class_ranges("w", False),
        "a letter of any script": property_set("L"),
        "a digit of any script": class_ranges("d", False),
        "an ASCII character": ((0, 0x7F),),
        "a printable ASCII character": ((0x20, 0x7E),),
        "a letter": letters,
        "a control character": ((0, 0x1F),),
        "whitespace of any kind": class_ranges("s", False),
        "whitespace as ECMAScript defines it": ecma_category("s", any_case=False),
        "an uppercase letter": upper,
        "a lowercase letter": lower,
        "a hexadecimal digit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
        "a digit": ((0x30, 0x39),),
        "whitespace": ((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20)),
    }
    return tuple(sorted(ranges_by_name.items(), key=lambda item: -count(item[1])))
