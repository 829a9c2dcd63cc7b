"""Infers the markup that a chat template writes around calls: the beginning and end of a call and of a group of calls,
and the text between calls.

In: a `CallRenderer`, and the shape of the arguments. Out: `section`, `trigger` and `call` of a style's description
(tool_styles.py). How: messages with one, two and three calls are rendered and split at the names and arguments.

    <calls>[{"name": "  N1  ", "args": {...}  }, {"name": "  N2  ", "args": {...}  }]</calls><|im_end|>
    first               inner                 between              inner                 last

A call begins with the common suffix of `first` and `between`, and ends with the common prefix of `between` and `last`.
What remains of `first` and `last` belongs to the group, and what remains of `between` separates calls. If beginning and
end overlap in `between`, the call begins at the first position where a marker can begin. Numbers that count the calls
become {index}, and the identifiers of calls become {id}.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from guided.chat.call_probes import HINT, CallRenderer, common_prefix, common_suffix
from guided.chat.call_shapes import Shape
from guided.chat.compiled import TemplateRefusal
from guided.errors import UnsupportedError, brief

__all__ = ["CallMarkup", "infer_markup"]

_PROBES: Final = tuple((f"qz{word}", {f"qzkey{word}": f"qzvalue{word}"}) for word in ("first", "second", "third"))
_PIECE: Final = re.compile(r"\{id\}|[0-9]+|.", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[\s,;]*")
_PUNCTUATION: Final = re.compile(r"[\s\[\]{}()\"',:;]*")
_SHORT_ID: Final = "[a-zA-Z0-9]{9}"
_LONG_ID: Final = "[a-zA-Z0-9_-]{1,64}"


@dataclass(frozen=True, slots=True)
class CallMarkup:
    """The inferred markup.

    Attributes:
        data: `section`, `trigger` and `call` of a style's description, without the form of the arguments.
        lead: the whitespace before the calls if there is no section, otherwise "".
        allows_several_calls: whether the template accepts several calls in a message.
    """

    data: dict[str, Any]
    lead: str
    allows_several_calls: bool


@dataclass(frozen=True, slots=True)
class _MessageParts:
    """The text of one rendered message, without its names and arguments.

    `prefix`: before the first name; `inner`: between each name and its arguments; `separators`: between calls;
    `suffix`: after the last arguments.
    """

    prefix: str
    inner: list[str]
    separators: list[str]
    suffix: str


def infer_markup(renderer: CallRenderer, shape: Shape) -> CallMarkup:
    """The markup of a template.

    Raises:
        UnsupportedError: it cannot be inferred. GuidedError: the template cannot render the calls.
    """
    parts = _split_message(renderer, shape, len(_PROBES))
    if parts is None:
        return _infer_single_call(renderer, shape)
    inner, first_index = _align_texts(parts.inner)
    begin, lengths, other_index = _align_suffixes([parts.prefix, *parts.separators])
    first = parts.prefix[: len(parts.prefix) - lengths[0]] + begin
    between = parts.separators[0][: len(parts.separators[0]) - lengths[1]] + begin
    start, end, separator = _split_between(first, between, parts.suffix)
    opening, closing = first[: len(first) - len(start)], parts.suffix[len(end) :]
    if not opening.strip():  # whitespace after the last call belongs to the message
        end, separator = end.rstrip(), end[len(end.rstrip()) :] + separator
    call: dict[str, Any] = {"begin": _join_begin(start, inner), "end": end}
    number = first_index if first_index is not None else other_index
    call |= {"first": number} if number else {}
    call |= {"id": _choose_id_pattern(renderer)} if "{id}" in call["begin"] + end else {}
    if opening.strip():
        return CallMarkup({**_describe_section(call, opening, closing, separator), "call": call}, "", True)
    if separator.strip():
        raise UnsupportedError(f"calls are separated by {brief(separator)}, and no marker surrounds them", hint=HINT)
    call["separator"] = separator
    return CallMarkup({"trigger": _find_trigger(start), "call": call}, opening, True)


def _infer_single_call(renderer: CallRenderer, shape: Shape) -> CallMarkup:
    """The markup of a template that does not write several calls in one message."""
    parts = _split_message(renderer, shape, 1)
    assert parts is not None
    start = parts.prefix.lstrip()
    call: dict[str, Any] = {"begin": _join_begin(start, parts.inner[0]), "end": parts.suffix.rstrip()}
    call |= {"id": _choose_id_pattern(renderer)} if "{id}" in call["begin"] + call["end"] else {}
    return CallMarkup({"trigger": _find_trigger(start), "call": call}, parts.prefix[: -len(start)], False)


def _split_message(renderer: CallRenderer, shape: Shape, count: int) -> _MessageParts | None:
    """The parts of a message with `count` calls. None if the template does not show all of them."""
    calls = _PROBES[:count]
    try:
        text = re.sub("call0000[0-9]", "{id}", renderer.render_calls(calls))
    except TemplateRefusal:
        return None
    inner, separators = list[str](), list[str]()
    for name, arguments in calls:
        text_before, match, text = text.partition(name)
        if not match:
            return None
        start, stop = shape.find_span(text, arguments)
        inner.append(text[:start].replace(name, "{name}"))
        separators.append(text_before)
        text = text[stop:]
    if renderer.message_end:
        text = text.partition(renderer.message_end)[0]
    return _MessageParts(separators[0], inner, separators[1:], text)


def _join_begin(start: str, inner: str) -> str:
    """The beginning of a call, from the text before its name and the text after it."""
    begin = f"{start}{{name}}{inner}"
    if match := re.search(r"\{(name|index|id)\}\{(name|index|id)\}", begin):
        raise UnsupportedError(f"nothing separates {match[1]} and {match[2]} of a call in {brief(begin)}", hint=HINT)
    return begin


def _describe_section(call: Mapping[str, Any], opening: str, closing: str, separator: str) -> dict[str, Any]:
    """The description of the markup around a group of calls."""
    begin, end = opening.strip(), closing.rstrip()
    if not end or "result" in end:
        raise UnsupportedError(
            f"calls begin with {brief(begin)}, but the end of a group of calls cannot be determined", hint=HINT
        )
    lead, space = opening[: len(opening) - len(opening.lstrip())], opening[len(opening.rstrip()) :]
    section = {"begin": begin, "separator": separator, "end": end}
    section |= {name: text for name, text in (("lead", lead), ("open", space)) if text}
    if not _PUNCTUATION.fullmatch(begin):
        return {"section": section}
    return {"section": section, "trigger": _find_trigger(begin + space + call["begin"])}


def _find_trigger(start: str) -> str:
    """The beginning of a call, up to the first index or identifier. In free text, a call begins where it occurs."""
    head = re.split(r"\{index\}|\{id\}", start)[0]
    if _PUNCTUATION.fullmatch(head.replace("{name}", "")) and "{name}" not in head:
        raise UnsupportedError(f"calls begin with {brief(head)}, which other text also contains", hint=HINT)
    return head


def _choose_id_pattern(renderer: CallRenderer) -> str:
    """A regular expression for identifiers: nine letters and digits if the template refuses longer ones (Mistral)."""
    return _LONG_ID if renderer.accepts_id("call_0123-abcdefg") else _SHORT_ID


def _split_between(first: str, between: str, last: str) -> tuple[str, str, str]:
    """The beginning of a call, its end, and the separator.

    Chooses the longest beginning for which the rest of `between` is an end and a separator, then the longest end.
    """
    longest = len(common_suffix(first, between))
    for start in range(len(between) - longest, len(between) + 1):
        if not _can_begin(between, start):
            continue
        for end in range(min(len(common_prefix(between, last)), start), -1, -1):
            splits_word = end and between[end - 1].isalnum() and last[end : end + 1].isalnum()
            if not splits_word and _SEPARATOR.fullmatch(between[end:start]):
                return between[start:], between[:end], between[end:start]
    raise UnsupportedError(
        f"the end of a call cannot be distinguished from the beginning of the next one in {brief(between)}", hint=HINT
    )


def _can_begin(text: str, position: int) -> bool:
    """Whether a call can begin at this position."""
    if position == len(text):
        return True
    previous = text[position - 1] if position else " "
    return (
        (previous.isspace() or previous in ">)]}`,;") and not text[position].isspace() and text[position] not in ">)},;"
    )


def _align_texts(texts: Sequence[str]) -> tuple[str, int | None]:
    """The common text, with {index} in place of numbers that count up, and the first of these numbers.

    Raises:
        UnsupportedError: the texts differ in another way.
    """
    template, lengths, index = _align_suffixes(texts)
    if any(length != len(text) for length, text in zip(lengths, texts, strict=True)):
        raise UnsupportedError(f"calls differ after the name: {brief(texts[0])}, {brief(texts[1])}", hint=HINT)
    return template, index


def _align_suffixes(texts: Sequence[str]) -> tuple[str, list[int], int | None]:
    """The common suffix, with {index} in place of numbers that count up; its length in each text; the first number."""
    pieces = [list(reversed(_PIECE.findall(text))) for text in texts]
    out, lengths, index = list[str](), [0] * len(texts), None
    for column in zip(*pieces, strict=False):
        numbers = [int(piece) for piece in column if piece.isdecimal() and len(piece) < 10]
        if len(set(column)) == 1:
            out.append(column[0])
        elif len(numbers) == len(column) and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            out.append("{index}")
            index = numbers[0]
        else:
            break
        lengths = [length + len(piece) for length, piece in zip(lengths, column, strict=True)]
    return "".join(reversed(out)), lengths, index
