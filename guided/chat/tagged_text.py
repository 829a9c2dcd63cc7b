"""Strings that record which of their characters a template wrote.

Problem. A template writes `<|im_end|>` to end a turn, and a user may write the same characters in a message. The model
must read a control token in the first case and text in the second, but in the rendered text they look the same.

Idea. The literals of a template are `TaggedText`: strings that record which of their characters the template wrote. The
string operations of templates (join, slice, strip, replace, repeat) keep these tags. All other text is an ordinary
`str` without tags. The rendered text is the same as in any other template engine, since comparisons, searches and
slices see the same strings. Errors are only possible in the safe direction: neither text whose tags get lost nor text
from outside ever becomes a control token.

In: literals (`tag_text`), and the operations of `str`. Out: a text and the spans that the template wrote, merged and in
order. Cost: the string operation, and the spans. `join_tagged`, by which texts grow, charges for both
(render_budget.py). Tags are not kept by upper(), iteration, formats with widths and similar operations.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, SupportsIndex, TypeAlias

from guided.chat.render_budget import STEP, charge

__all__ = ["TaggedText", "get_spans", "join_tagged", "tag_text"]

_PART_CHARGE: Final = 64  # the charge for each part of a split text
Spans: TypeAlias = tuple[tuple[int, int], ...]


class TaggedText(str):
    """See the module docstring.

    Attributes:
        spans: (start, end) of the parts that the template wrote, in characters; sorted, with gaps between them.
    """

    __slots__ = ("spans",)
    spans: Spans

    def __new__(cls, text: str = "", spans: Spans = ()) -> TaggedText:
        """`text` with the spans that the template wrote."""
        self = super().__new__(cls, text)
        self.spans = spans
        return self

    def __str__(self) -> str:
        return self

    def __add__(self, other: str) -> str:
        if not isinstance(other, str) or hasattr(other, "__html__"):
            return NotImplemented  # Jinja's Markup escapes its other operand
        return join_tagged((self, other))

    def __radd__(self, other: str) -> str:
        return join_tagged((other, self)) if isinstance(other, str) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> str:
        charge(max(0, int(count)) * (len(self) + 1))
        return join_tagged([self] * int(count))

    __rmul__ = __mul__

    def __mod__(self, values: Any) -> str:
        text = self.fill_fields("%s", values if isinstance(values, tuple) else (values,))
        return str.__mod__(self, values) if text is None else text

    def fill_fields(self, field: str, values: tuple[Any, ...]) -> str | None:
        """Fill the fields `%s` or `{}` with values. None if other fields occur, or too few or many values."""
        parts = self.split(field)
        if any(sign in part for part in parts for sign in field if sign != "s") or len(values) != len(parts) - 1:
            return None
        return join_tagged(text for pair in zip(parts, (*map(str, values), ""), strict=True) for text in pair)

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        text = str.__getitem__(self, key)
        if isinstance(key, slice):
            start, _, step = key.indices(len(self))
            return _tag_substring(self, text, start) if step == 1 else text
        index = key.__index__()
        return _tag_substring(self, text, index + len(self) * (index < 0))

    def lstrip(self, chars: str | None = None, /) -> str:
        """As `str.lstrip`, but keeps tags. The methods below also behave like the methods of `str`, but keep tags."""
        text = str.lstrip(self, chars)
        return _tag_substring(self, text, len(self) - len(text))

    def rstrip(self, chars: str | None = None, /) -> str:
        """See `lstrip`."""
        return _tag_substring(self, str.rstrip(self, chars), 0)

    def strip(self, chars: str | None = None, /) -> str:
        """See `lstrip`."""
        return self.rstrip(chars).lstrip(chars)

    def removeprefix(self, prefix: str, /) -> str:
        """See `lstrip`."""
        return self[len(prefix) :] if prefix and self.startswith(prefix) else self

    def removesuffix(self, suffix: str, /) -> str:
        """See `lstrip`."""
        return self[: -len(suffix)] if suffix and self.endswith(suffix) else self

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        """See `lstrip`."""
        charge(_PART_CHARGE * (len(self) if sep is None else str.count(self, sep)))
        return _tag_parts(self, str.split(self, sep, maxsplit), sep)

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        """See `lstrip`."""
        charge(_PART_CHARGE * (len(self) if sep is None else str.count(self, sep)))
        return _tag_parts(self, str.rsplit(self, sep, maxsplit), sep)

    def splitlines(self, keepends: bool = False) -> list[str]:
        """See `lstrip`."""
        charge(_PART_CHARGE * str.count(self, "\n"))
        out, start = [], 0
        for line, full_line in zip(str.splitlines(self, keepends), str.splitlines(self, True), strict=True):
            out.append(_tag_substring(self, line, start))
            start += len(full_line)
        return out

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        """See `lstrip`."""
        before, separator, after = str.partition(self, sep)
        end = len(before) + len(separator)
        return self[: len(before)], self[len(before) : end], self[end:] if after else after

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        """See `lstrip`."""
        before, separator, _ = str.rpartition(self, sep)
        end = len(before) + len(separator)
        return self[: len(before)], self[len(before) : end], self[end:]

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        """See `lstrip`; the replacement keeps the tags of `new`."""
        if not old or not (self.spans or get_spans(new)):
            charge(len(self) + (str.count(self, old)) * len(new))
            return str.replace(self, old, new, count)
        parts = self.split(old, count)
        return join_tagged(
            part for number, piece in enumerate(parts) for part in ((new, piece) if number else (piece,))
        )

    def join(self, parts: Iterable[str], /) -> str:
        """See `lstrip`."""
        return join_tagged(
            part for number, piece in enumerate(parts) for part in ((self, piece) if number else (piece,))
        )


@lru_cache(maxsize=4096)
def tag_text(text: str) -> TaggedText:
    """A text of which the template wrote all characters."""
    return TaggedText(text, ((0, len(text)),) if text else ())


def get_spans(text: str) -> Spans:
    """The spans of a text that the template wrote; empty for an ordinary `str`."""
    return text.spans if isinstance(text, TaggedText) else ()


def join_tagged(parts: Iterable[str]) -> str:
    """Join texts and keep their tags."""
    texts, spans, length = list(parts), list[tuple[int, int]](), 0
    charge(sum(map(len, texts)) + STEP * len(texts))
    for part in texts:
        for start, end in get_spans(part):
            if spans and spans[-1][1] == length + start:
                spans[-1] = (spans[-1][0], length + end)
            else:
                spans.append((length + start, length + end))
        length += len(part)
    return _make_text("".join(texts), tuple(spans))


def _make_text(text: str, spans: Spans) -> str:
    return TaggedText(text, spans) if spans else text


def _tag_substring(text_with_tags: TaggedText, text: str, start: int) -> str:
    """`text`, which begins at the offset `start` of `text_with_tags`, with its tags."""
    if not text:
        return text
    end, out = start + len(text), list[tuple[int, int]]()
    for number in range(bisect_right(text_with_tags.spans, start, key=lambda span: span[1]), len(text_with_tags.spans)):
        left, right = text_with_tags.spans[number]
        if left >= end:
            break
        out.append((max(left, start) - start, min(right, end) - start))
    return _make_text(text, tuple(out))


def _tag_parts(text_with_tags: TaggedText, parts: list[str], sep: str | None) -> list[str]:
    """The parts of a split text, each with its tags."""
    if not text_with_tags.spans:
        return parts
    out, start = [], 0
    for part in parts:
        if sep is None:  # skip the separating whitespace
            start = str.find(text_with_tags, part, start)
        out.append(_tag_substring(text_with_tags, part, start))
        start += len(part) + (len(sep) if sep is not None else 0)
    return out
