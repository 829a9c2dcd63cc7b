"""What is asked of each open value of an unfinished JSON text, if more text should follow.

In: a text, and what should follow it. Out: the values that are under way, each with how it would go on:

    {"year": 20    with  20} behind it       the object: {"year": 202, and as a whole {"year": 2020}
                                              its member: 202, and as a whole 2020

A key that is being written is a place of its own. So is a value that has not begun, if `[`, `,` or the key before it is
what is asked: a value that nothing can satisfy is refused there.

Cost: linear in the text, for each open value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from guided.frontends.json_schema.unfinished_json import OpenValue, open_values
from guided.meter import spend

__all__ = ["Asked", "Longer", "Place", "Question", "places_asked"]

Question: TypeAlias = Literal["character", "value"]
_ENDS: Final = (b",", b"}", b"]", b" ", b"\n", b"\r", b"\t")


class Asked(NamedTuple):
    """What should follow a text: the first character, which is refused; it with all behind it; whether that is the
    end. An empty character asks for the end itself."""

    character: bytes
    rest: bytes
    ends: bool


class Longer(NamedTuple):
    """A longer text of a value; whether that is all of it."""

    text: bytes
    is_whole: bool


@dataclass(slots=True, eq=False)
class Place:
    """An open value, or the key that is being written.

    Attributes:
        token: its key or number in the value around it.
        text: what was written of it; empty before its first character.
        keys: of an object, the keys that were written.
        new_keys: those that are complete with the next character.
        character, value: it with the next character, and with all that is asked; None where that is not known, or
            no JSON.
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

    def longer(self, question: Question) -> Longer | None:
        """How the value would go on."""
        return self.character if question == "character" else self.value


def places_asked(text: bytes, asked: Asked, is_json: Callable[[bytes, bool], bool]) -> Place | None:
    """The outermost value, with the others in it; None between whole values."""
    values = open_values(text)
    if not values:
        return None
    whole = text + asked.rest
    after = open_values(text + asked.character)
    places: list[Place] = []
    for number, value in enumerate(values):
        place = Place(value.token, text[value.start :], value.keys)
        if number < len(after) and after[number].start == value.start:
            place.new_keys = after[number].keys[len(value.keys) :]
        place.character = _with_character(text, values, number, asked.character, is_json)
        place.value = _all_of_it(whole[value.start :], asked.ends, is_json)
        if places:
            places[-1].inside.append(place)
        places.append(place)
    inner = after[-1] if len(after) > 1 else None
    around = places[len(after) - 2] if inner is not None and len(after) - 2 < len(places) else None
    longer = len(text) + len(asked.character)
    if around is not None and inner is not None and inner.start == longer and asked.character in (b"[", b","):
        around.inside.append(Place(inner.token, b"", character=Longer(b"", False)))
    elif (
        (last := after[-1] if after else None) is not None and last.key_start is not None and len(after) <= len(places)
    ):
        key = (text + asked.character)[last.key_start :]
        inside = places[len(after) - 1].inside
        inside.append(Place(None, text[last.key_start :], character=Longer(key, False), is_name=True))
        if len(key) > 1 and key.endswith(b'"') and last.keys:
            inside.append(Place(last.keys[-1], b"", character=Longer(b"", False)))
    return places[0]


def _with_character(
    text: bytes, values: Sequence[OpenValue], number: int, character: bytes, is_json: Callable[[bytes, bool], bool]
) -> Longer | None:
    """A value with the next character; if a number ends before it, the number as a whole."""
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
    """The JSON value at the beginning of a text, or what there is of it; None if that is no JSON."""
    spend(len(text))
    decoded = text.decode(errors="replace")
    try:
        _, end = json.JSONDecoder().raw_decode(decoded)
    except (ValueError, RecursionError):
        return Longer(text, False) if is_json(text, False) else None
    if end == len(decoded) and not ends and decoded[-1] not in '"}]le':  # a number, which may go on
        return Longer(text, False)
    value = decoded[:end].encode()
    return Longer(value, True) if text.startswith(value) else None
