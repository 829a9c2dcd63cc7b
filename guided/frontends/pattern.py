r"""Patterns as a list of (class or character, "1" or "+"). In: such a list. Out: a grammar.

    [("UPPER", "+"), (":", "1"), (" ", "1"), ("LOWER", "+"), ("\n", "1")]

The classes are UPPER, LOWER, DIGIT, NEWLINE, SPACE, PUNCT (everything that is in none of these), LETTER (UPPER or
LOWER) and ANY. `str.isupper`, `str.islower` and `str.isdigit` define them for all of Unicode; a vocabulary of 65
characters restricts them to its characters. A pattern is a regular language: if two adjacent elements overlap, every
split is allowed, and a trailing "+" continues until the output ends. Cost: linear; the first use of a class visits
every code point once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TypeVar

from guided.close_names import find_closest_name
from guided.errors import LimitExceeded, SpecError
from guided.ir.nodes import Chars, Grammar, Node, Repeat, Seq
from guided.ir.ranges import ALL_CHARS, Ranges, charset, complement, union
from guided.keywords import read_items
from guided.limits import Limits

__all__ = ["CLASS_NAMES", "is_element", "pattern_to_grammar", "read_characters", "read_elements"]

CLASS_NAMES = ("UPPER", "LOWER", "DIGIT", "NEWLINE", "SPACE", "PUNCT", "LETTER", "ANY")

_DEFAULT_LIMITS = Limits()
_MAX_CHARACTERS = 0x110000
_T = TypeVar("_T")
_TESTS = {"UPPER": str.isupper, "LOWER": str.islower, "DIGIT": str.isdigit}


def read_elements(elements: Iterable[_T], limits: Limits | None = None) -> list[_T]:
    """The elements of a pattern, of any type. Raises LimitExceeded if there are more than `limits.nodes`."""
    max_items = (limits or _DEFAULT_LIMITS).nodes
    return read_items(
        "a pattern", elements, max_items=max_items, error=lambda _: LimitExceeded("nodes", max_items + 1, max_items)
    )


def read_characters(name: str, chars: Iterable[str]) -> list[str]:
    """The characters of a class. Raises SpecError if there are more than Unicode has."""
    return read_items(f"class {name!r}", chars, max_items=_MAX_CHARACTERS, error=SpecError)


def is_element(value: object) -> bool:
    """Whether a value is a pair of strings, like the elements of a pattern."""
    return isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(item, str) for item in value)


def pattern_to_grammar(
    elements: Sequence[tuple[str, str]], char_classes: Mapping[str, Iterable[str]] | None = None
) -> Grammar:
    """The language of a pattern. `char_classes` (name -> characters) replaces the default classes."""
    classes = (
        None if char_classes is None else {name: _class_ranges(name, chars) for name, chars in char_classes.items()}
    )
    items: list[Node] = []
    for index, element in enumerate(read_elements(elements)):
        if not is_element(element):
            raise SpecError(
                f"element {index} is not a pair of strings",
                pointer=f"/{index}",
                hint='write ("UPPER", "+") or (":", "1")',
            )
        name, quantifier = element
        chars = Chars(_resolve(name, classes, index))
        if quantifier not in ("1", "+"):
            raise SpecError(
                f"element {index}: the quantifier {quantifier!r} is unknown",
                pointer=f"/{index}/1",
                hint='write "1" or "+"',
            )
        items.append(chars if quantifier == "1" else Repeat(chars, 1, None))
    if not items:
        raise SpecError("the pattern has no elements", hint='write at least one, such as ("LETTER", "+")')
    return Grammar({"start": Seq(tuple(items))}, "start", {"start": ""})


def _resolve(name: str, classes: Mapping[str, Ranges] | None, index: int) -> Ranges:
    class_names = CLASS_NAMES if classes is None else tuple(classes)
    if name in class_names:
        return _default_class(name) if classes is None else classes[name]
    if len(name) == 1 and (ranges := charset([(ord(name), ord(name))])):
        return ranges
    close = find_closest_name(name, class_names)
    hint = (
        f"did you mean {close!r}?"
        if close
        else f"the classes are {', '.join(class_names)}; write longer texts character by character"
    )
    raise SpecError(f"element {index}: {name!r} is neither a class nor one character", pointer=f"/{index}/0", hint=hint)


def _class_ranges(name: str, chars: Iterable[str]) -> Ranges:
    if not isinstance(name, str):
        raise SpecError(f"the class name {name!r} is not a string", hint='write {"VOWEL": "aeiou"}')
    points = []
    for char in read_characters(name, chars):
        if not isinstance(char, str) or len(char) != 1:
            raise SpecError(
                f"class {name!r}: {char!r} is not one character", hint="give a string or a set of characters"
            )
        points.append((ord(char), ord(char)))
    ranges = charset(points)
    if not ranges:
        raise SpecError(f"class {name!r} has no characters", hint="give at least one; lone surrogates do not count")
    return ranges


@cache
def _default_class(name: str) -> Ranges:
    if name == "ANY":
        return ALL_CHARS
    if name in ("NEWLINE", "SPACE"):
        return charset([(10, 10)] if name == "NEWLINE" else [(32, 32)])
    if name == "LETTER":
        return charset((*_default_class("UPPER"), *_default_class("LOWER")))
    if name == "PUNCT":
        others = [_default_class(other) for other in ("LETTER", "DIGIT", "NEWLINE", "SPACE")]
        return complement(union(others))
    test = _TESTS[name]
    return charset((code, code) for low, high in ALL_CHARS for code in range(low, high + 1) if test(chr(code)))
