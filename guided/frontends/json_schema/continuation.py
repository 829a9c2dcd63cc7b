"""Finds what an unfinished JSON text must satisfy, value by value, if more text should follow.

In: a text, and the text that should follow. Out: the open values, each with its continuation:

    {"year": 20    followed by  20}     the object: {"year": 202, and as a whole {"year": 2020}
                                        its member: 202, and as a whole 2020

A key that is being written is listed separately. So is a value that has not begun, if the next character is `[` or `,`,
or completes its key: a value that nothing can satisfy is refused there.

Cost: linear in the text, for each open value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from guided.frontends.json_schema.unfinished_json import OpenValue, open_values
from guided.meter import spend

__all__ = ["Continuation", "Extent", "Longer", "Place", "open_places"]

Extent: TypeAlias = Literal["character", "value"]
_ENDS: Final = (b",", b"}", b"]", b" ", b"\n", b"\r", b"\t")


class Continuation(NamedTuple):
    """The text whose refusal is to be explained.

    Attributes:
        character: its first character, which is refused; empty: the end of the output is refused.
        rest: all of the text, including that character.
        ends: whether the output ends after it.
    """

    character: bytes
    rest: bytes
    ends: bool


class Longer(NamedTuple):
    """A continued text of a value, and whether the value is complete."""

    text: bytes
    is_whole: bool


@dataclass(slots=True, eq=False)
class Place:
    """An open value, or the key that is being written.

    Attributes:
        token: its key or index in the enclosing value.
        text: the part that was written; empty before its first character.
        keys: the keys that were written, if it is an object.
        new_keys: the keys that the next character completes.
        character, value: its text with the next character, and with all of the following text; None if unknown or not
            JSON.
        inside: the values in it.
        is_name: whether it is a key.
    """

    token: str | int | None
    text: bytes
    keys: Sequence[str] = ()
    new_keys: Sequence[str] = ()
    character: Longer | None = None
    value: Longer | None = None
    inside: list[Place] = field(default_factory=list)
    is_name: bool = False

    def longer(self, extent: Extent) -> Longer | None:
        """The continued text of the value."""
        return self.character if extent == "character" else self.value


def open_places(text: bytes, following: Continuation, is_json: Callable[[bytes, bool], bool]) -> Place | None:
    """The outermost open value, which contains the others. None between whole values."""
    values = open_values(text)
    if not values:
        return None
    whole = text + following.rest
    after = open_values(text + following.character)
    places: list[Place] = []
    for number, value in enumerate(values):
        place = Place(value.token, text[value.start :], value.keys)
        if number < len(after) and after[number].start == value.start:
            place.new_keys = after[number].keys[len(value.keys) :]
        place.character = _with_character(text, values, number, following.character, is_json)
        place.value = _all_of_it(whole[value.start :], following.ends, is_json)
        if places:
            places[-1].inside.append(place)
        places.append(place)
    inner = after[-1] if len(after) > 1 else None
    around = places[len(after) - 2] if inner is not None and len(after) - 2 < len(places) else None
    longer = len(text) + len(following.character)
    if around is not None and inner is not None and inner.start == longer and following.character in (b"[", b","):
        around.inside.append(Place(inner.token, b"", character=Longer(b"", False)))
    elif (
        (last := after[-1] if after else None) is not None and last.key_start is not None and len(after) <= len(places)
    ):
        key = (text + following.character)[last.key_start :]
        inside = places[len(after) - 1].inside
        inside.append(Place(None, text[last.key_start :], character=Longer(key, False), is_name=True))
        if len(key) > 1 and key.endswith(b'"') and last.keys:
            inside.append(Place(last.keys[-1], b"", character=Longer(b"", False)))
    return places[0]


def _with_character(
    text: bytes, values: Sequence[OpenValue], number: int, character: bytes, is_json: Callable[[bytes, bool], bool]
) -> Longer | None:
    """The text of a value with the next character. If a number ends before this character, the whole number."""
    written = text[values[number].start :]
    if character and is_json(written + character, False):
        return Longer(written + character, False)
    if number < len(values) - 1 or not is_json(written, True):
        return None
    if number:
        around = text[values[number - 1].start :]
        ends = character in _ENDS and is_json(around + character, False)
    else:
        ends = not character.strip()
    return Longer(written, True) if ends else None


def _all_of_it(text: bytes, ends: bool, is_json: Callable[[bytes, bool], bool]) -> Longer | None:
    """The JSON value at the beginning of a text, or its unfinished beginning. None if that is not JSON."""
    spend(len(text))
    decoded = text.decode(errors="replace")
    try:
        _, end = json.JSONDecoder().raw_decode(decoded)
    except (ValueError, RecursionError):
        return Longer(text, False) if is_json(text, False) else None
    if end == len(decoded) and not ends and decoded[-1] not in '"}]le':  # a number, which may continue
        return Longer(text, False)
    value = decoded[:end].encode()
    return Longer(value, True) if text.startswith(value) else None
