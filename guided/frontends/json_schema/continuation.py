"""Determines how each open value of an unfinished JSON text would continue.

In: a text, and the text that should follow. Out: the open values, each with its continuation:

    {"year": 20    followed by  20}
                      with the next character      with all of the text
        the object    {"year": 202                 {"year": 2020}
        its member    202                          2020

A key that is being written is listed separately. A value that has not begun is listed if the next character is `[` or
`,`, or completes its key. If no value can be written there, the text is refused at that character.

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
        character: its first character, which is refused. Empty if the end of the output is refused instead.
        text: all of the text, including that character.
        is_final: whether the output ends after the text.
    """

    character: bytes
    text: bytes
    is_final: bool


class ContinuedText(NamedTuple):
    """The continued text of a value, and whether the value is then complete."""

    text: bytes
    is_whole: bool


@dataclass(slots=True, eq=False)
class ContinuedValue:
    """An open value, or the key that is being written.

    Attributes:
        name_or_index: its key or index in the enclosing value.
        text: the part that was written; empty before its first character.
        keys: the keys that were written, if it is an object.
        new_keys: the keys that the next character completes.
        text_with_character, text_with_rest: its text with the next character, and with all of the following text;
            None if unknown or not JSON.
        inner_values: the open values in it.
        is_name: whether it is a key.
    """

    name_or_index: str | int | None
    text: bytes
    keys: Sequence[str] = ()
    new_keys: Sequence[str] = ()
    text_with_character: ContinuedText | None = None
    text_with_rest: ContinuedText | None = None
    inner_values: list[ContinuedValue] = field(default_factory=list)
    is_name: bool = False

    def text_after(self, extent: Extent) -> ContinuedText | None:
        """The continued text of the value."""
        return self.text_with_character if extent == "character" else self.text_with_rest


def read_continued_value(
    text: bytes, continuation: Continuation, is_json: Callable[[bytes, bool], bool]
) -> ContinuedValue | None:
    """The outermost open value, which contains the others. None if no value is open."""
    values = open_values(text)
    if not values:
        return None
    complete_text = text + continuation.text
    next_values = open_values(text + continuation.character)
    continued_values: list[ContinuedValue] = []
    for index, value in enumerate(values):
        continued_value = ContinuedValue(value.name_or_index, text[value.start :], value.keys)
        if index < len(next_values) and next_values[index].start == value.start:
            continued_value.new_keys = next_values[index].keys[len(value.keys) :]
        continued_value.text_with_character = _append_character(text, values, index, continuation.character, is_json)
        continued_value.text_with_rest = _cut_after_value(complete_text[value.start :], continuation.is_final, is_json)
        if continued_values:
            continued_values[-1].inner_values.append(continued_value)
        continued_values.append(continued_value)
    innermost = next_values[-1] if len(next_values) > 1 else None
    enclosing_value = (
        continued_values[len(next_values) - 2]
        if innermost is not None and len(next_values) - 2 < len(continued_values)
        else None
    )
    end = len(text) + len(continuation.character)
    if (
        enclosing_value is not None
        and innermost is not None
        and innermost.start == end
        and continuation.character in (b"[", b",")
    ):
        enclosing_value.inner_values.append(
            ContinuedValue(innermost.name_or_index, b"", text_with_character=ContinuedText(b"", False))
        )
    elif (
        (last := next_values[-1] if next_values else None) is not None
        and last.key_start is not None
        and len(next_values) <= len(continued_values)
    ):
        key = (text + continuation.character)[last.key_start :]
        inner_values = continued_values[len(next_values) - 1].inner_values
        inner_values.append(
            ContinuedValue(None, text[last.key_start :], text_with_character=ContinuedText(key, False), is_name=True)
        )
        if len(key) > 1 and key.endswith(b'"') and last.keys:
            inner_values.append(ContinuedValue(last.keys[-1], b"", text_with_character=ContinuedText(b"", False)))
    return continued_values[0]


def _append_character(
    text: bytes, values: Sequence[OpenValue], index: int, character: bytes, is_json: Callable[[bytes, bool], bool]
) -> ContinuedText | None:
    """The text of a value with the next character. If that character ends it, as after a number: the value."""
    value_text = text[values[index].start :]
    if character and is_json(value_text + character, False):
        return ContinuedText(value_text + character, False)
    if index < len(values) - 1 or not is_json(value_text, True):
        return None
    if index:
        enclosing_text = text[values[index - 1].start :]
        ends_value = character in _ENDS and is_json(enclosing_text + character, False)
    else:
        ends_value = not character.strip()
    return ContinuedText(value_text, True) if ends_value else None


def _cut_after_value(text: bytes, is_final: bool, is_json: Callable[[bytes, bool], bool]) -> ContinuedText | None:
    """The JSON value at the beginning of a text, or the whole text if the value is unfinished. None if not JSON."""
    spend(len(text))
    decoded_text = text.decode(errors="replace")
    try:
        _, end = json.JSONDecoder().raw_decode(decoded_text)
    except (ValueError, RecursionError):
        return ContinuedText(text, False) if is_json(text, False) else None
    if end == len(decoded_text) and not is_final and decoded_text[-1] not in '"}]le':  # a number, which may continue
        return ContinuedText(text, False)
    value = decoded_text[:end].encode()
    return ContinuedText(value, True) if text.startswith(value) else None
