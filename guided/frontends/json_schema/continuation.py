"""Determines how each open value of an unfinished JSON text would continue.

In: a text, and the text that should follow. Out: the open values, each with its continuation:

    {"year": 20    followed by  20}
                      with the next character      with all of the text
        the object    {"year": 202                 {"year": 2020}
        its member    202                          2020

A key that is being written is listed separately. A value that has not begun is listed if the next character is `[` or
`,`, or completes its key. If nothing can satisfy such a value, the text is refused at that character.

Cost: linear in the text, for each open value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from guided.frontends.json_schema.unfinished_json import OpenValue, open_values
from guided.meter import spend

__all__ = ["Continuation", "ContinuedText", "ContinuedValue", "Extent", "read_continued_value"]

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


class ContinuedText(NamedTuple):
    """The continued text of a value, and whether the value is then complete."""

    text: bytes
    is_whole: bool


@dataclass(slots=True, eq=False)
class ContinuedValue:
    """An open value, or the key that is being written.

    Attributes:
        token: its key or index in the enclosing value.
        text: the part that was written; empty before its first character.
        keys: the keys that were written, if it is an object.
        new_keys: the keys that the next character completes.
        character, whole: its text with the next character, and with all of the following text; None if unknown or not
            JSON.
        inner_values: the open values in it.
        is_name: whether it is a key.
    """

    token: str | int | None
    text: bytes
    keys: Sequence[str] = ()
    new_keys: Sequence[str] = ()
    character: ContinuedText | None = None
    whole: ContinuedText | None = None
    inner_values: list[ContinuedValue] = field(default_factory=list)
    is_name: bool = False

    def text_after(self, extent: Extent) -> ContinuedText | None:
        """The continued text of the value."""
        return self.character if extent == "character" else self.whole


def read_continued_value(
    text: bytes, following: Continuation, is_json: Callable[[bytes, bool], bool]
) -> ContinuedValue | None:
    """The outermost open value, which contains the others. None if no value is open."""
    values = open_values(text)
    if not values:
        return None
    complete = text + following.rest
    after = open_values(text + following.character)
    continued_values: list[ContinuedValue] = []
    for number, value in enumerate(values):
        continued = ContinuedValue(value.token, text[value.start :], value.keys)
        if number < len(after) and after[number].start == value.start:
            continued.new_keys = after[number].keys[len(value.keys) :]
        continued.character = _with_character(text, values, number, following.character, is_json)
        continued.whole = _split_after_value(complete[value.start :], following.ends, is_json)
        if continued_values:
            continued_values[-1].inner_values.append(continued)
        continued_values.append(continued)
    innermost = after[-1] if len(after) > 1 else None
    enclosing = (
        continued_values[len(after) - 2] if innermost is not None and len(after) - 2 < len(continued_values) else None
    )
    end = len(text) + len(following.character)
    if (
        enclosing is not None
        and innermost is not None
        and innermost.start == end
        and following.character in (b"[", b",")
    ):
        enclosing.inner_values.append(ContinuedValue(innermost.token, b"", character=ContinuedText(b"", False)))
    elif (
        (last := after[-1] if after else None) is not None
        and last.key_start is not None
        and len(after) <= len(continued_values)
    ):
        key = (text + following.character)[last.key_start :]
        inner_values = continued_values[len(after) - 1].inner_values
        inner_values.append(
            ContinuedValue(None, text[last.key_start :], character=ContinuedText(key, False), is_name=True)
        )
        if len(key) > 1 and key.endswith(b'"') and last.keys:
            inner_values.append(ContinuedValue(last.keys[-1], b"", character=ContinuedText(b"", False)))
    return continued_values[0]


def _with_character(
    text: bytes, values: Sequence[OpenValue], number: int, character: bytes, is_json: Callable[[bytes, bool], bool]
) -> ContinuedText | None:
    """The text of a value with the next character. If the value is a number that ends before it, the whole number."""
    value_text = text[values[number].start :]
    if character and is_json(value_text + character, False):
        return ContinuedText(value_text + character, False)
    if number < len(values) - 1 or not is_json(value_text, True):
        return None
    if number:
        enclosing = text[values[number - 1].start :]
        ends = character in _ENDS and is_json(enclosing + character, False)
    else:
        ends = not character.strip()
    return ContinuedText(value_text, True) if ends else None


def _split_after_value(text: bytes, ends: bool, is_json: Callable[[bytes, bool], bool]) -> ContinuedText | None:
    """The JSON value at the beginning of a text, or its unfinished beginning. None if that is not JSON."""
    spend(len(text))
    decoded = text.decode(errors="replace")
    try:
        _, end = json.JSONDecoder().raw_decode(decoded)
    except (ValueError, RecursionError):
        return ContinuedText(text, False) if is_json(text, False) else None
    if end == len(decoded) and not ends and decoded[-1] not in '"}]le':  # a number, which may continue
        return ContinuedText(text, False)
    value = decoded[:end].encode()
    return ContinuedText(value, True) if text.startswith(value) else None
