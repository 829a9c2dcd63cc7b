"""The values of an output, each with the model's confidence in it.

In: a text, its tokens, and the recorded scores of each choice. Out: a `Field` for each value. Its name is the value's
JSON Pointer or the name of a capture. A text that is not JSON and has no captures is one field, named "".

How: a scanner finds the spans of the strings, numbers, literals and empty containers in a JSON text. A choice belongs
to each field that its token overlaps. The choice of what follows a number, or a literal such as `true`, also belongs to
it, because this choice ended the value. Forced tokens and tokens between values, such as member names, belong to no
field.

Cost: linear in the text, when `Result.fields` is first read. While tokens are chosen, three numbers are stored for each
choice; they are computed anyway.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import NamedTuple, NoReturn, Self

from guided.frontends.json_schema.documents.source_spans import scalar_spans
from guided.frontends.structural_tag.calls import CallReader
from guided.matching.regions.parse_paths import Capture
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["ChoiceRecord", "Field", "decode_captures", "end_of_choices", "text_with_names"]


@dataclass(frozen=True, slots=True)
class Field:
    """One value of an output.

    Attributes:
        text: the value as it was written; a JSON string has its quotes.
        start, end: its span in `Result.text`, in characters. If the output continues a message, `Result.prefill` comes
            before the text.
        choices: the number of tokens in the value that the model chose. 0: all of them were forced.
        logprob: log of the model's probability of these tokens (temperature 1, without the mask), summed.
        removed: -log of the total probability that the model gave to the allowed tokens, summed over these choices. 0:
            the mask removed nothing that the model might have written.
        confidence: the probability of these tokens among the allowed tokens (temperature 1), multiplied: 0 to 1, and 1
            without choices.
        position: the index in `Result.tokens` of the choice at which the mask removed most; None without choices.
        preferred: the text of the model's most likely token at `position` if the mask removed that token, otherwise "".
    """

    text: str
    start: int
    end: int
    choices: int
    logprob: float
    removed: float
    confidence: float
    position: int | None
    preferred: str


class _Span(NamedTuple):
    """The span of a field in the text, in characters. Choices that begin before `choices_end` belong to it."""

    name: str
    start: int
    end: int
    choices_end: int


class _Choice(NamedTuple):
    """A choice: the index of its token, the span of the token's text, and the scores of the choice."""

    position: int
    start: int
    end: int
    logprob: float
    removed: float
    preferred: int | None


@dataclass(frozen=True, slots=True)
class ChoiceRecord:
    """The recorded scores of an output's choices.

    Attributes:
        vocabulary: decodes the tokens.
        starts: for each token, the number of characters of the text before it.
        logprobs, preferred: for each choice, see `guided.sampling.choice.ChosenToken`. There may be one more entry than
            sampled tokens, as in `Result.removed_log_masses`.
        captures: the captures, and the bytes that their offsets refer to; None if the grammar has no captures.
    """

    vocabulary: Vocabulary
    starts: Sequence[int]
    logprobs: Sequence[float]
    preferred: Sequence[int | None]
    captures: tuple[Sequence[Capture], bytes] | None = None

    def __copy__(self) -> Self:
        return self  # immutable

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Result under a constraint cannot be pickled: pickle its text, value or fields instead")

    def with_tokens_before(self, are_sampled: Sequence[int]) -> ChoiceRecord:
        """The record of the same output preceded by further tokens, which are not part of its text."""
        sampled_count = sum(are_sampled)
        return replace(
            self,
            starts=[*([0] * len(are_sampled)), *self.starts],
            logprobs=[*([0.0] * sampled_count), *self.logprobs],
            preferred=[*([None] * sampled_count), *self.preferred],
        )

    def fields(
        self,
        text: str,
        are_sampled: Sequence[int],
        removed_log_masses: Sequence[float],
        *,
        is_json: bool,
        prefill: str = "",
    ) -> dict[str, Field]:
        """The fields of the output, in the order of the text. Further captures of a name are `name/1`, `name/2`, ...

        Args:
            text, removed_log_masses, prefill: see `Result`.
            are_sampled: `Result.token_masks`, by token.
            is_json: whether prefill and text together are JSON.
        """
        text, starts = prefill + text, [len(prefill) + start for start in self.starts]
        spans = _json_spans(text) if is_json else self._capture_spans(text)
        return self._fields(text, self._choices(text, starts, are_sampled, removed_log_masses), spans)

    def call_fields(
        self,
        tokens: Sequence[int],
        are_sampled: Sequence[int],
        removed_log_masses: Sequence[float],
        reader: CallReader,
        *,
        reasoning_tokens: int,
    ) -> dict[str, Field]:
        """The names and arguments of the calls that `reader` finds, as fields. `Field.start` and `end` refer to the
        text that contains the names of control tokens.

        Args:
            tokens, removed_log_masses, reasoning_tokens: see `Result`.
            are_sampled: `Result.token_masks`, by token.
            reader: a new reader.
        """
        text, starts = text_with_names(self.vocabulary, tokens[reasoning_tokens:])
        reader.parts(text)
        reader.finish()
        spans = list[_Span]()
        for pointer, start, end in reader.spans:
            value = text[start:end].strip()
            start += text[start:end].find(value)
            spans.append(_Span(pointer, start, start + len(value), start + len(value)))
        starts = [*([0] * reasoning_tokens), *starts]
        return self._fields(text, self._choices(text, starts, are_sampled, removed_log_masses), spans)

    def _choices(
        self, text: str, starts: Sequence[int], are_sampled: Sequence[int], removed_log_masses: Sequence[float]
    ) -> list[_Choice]:
        ends = [*starts[1:], len(text)]
        positions = [position for position, is_sampled in enumerate(are_sampled) if is_sampled]
        return [
            _Choice(position, starts[position], ends[position], logprob, removed_log_mass, preferred)
            for position, logprob, removed_log_mass, preferred in zip(
                positions, self.logprobs, removed_log_masses, self.preferred, strict=False
            )
        ]

    def _fields(self, text: str, choices: Sequence[_Choice], spans: Iterable[_Span]) -> dict[str, Field]:
        starts, ends = [choice.start for choice in choices], [choice.end for choice in choices]
        fields, name_counts = dict[str, Field](), Counter[str]()
        for span in spans:
            first, last = bisect_right(ends, span.start), bisect_left(starts, span.choices_end)
            name = span.name
            while name in fields:
                name_counts[span.name] += 1
                name = f"{span.name}/{name_counts[span.name]}"
            fields[name] = self._make_field(text, span, choices[first:last])
        return fields

    def _capture_spans(self, text: str) -> Iterable[_Span]:
        captures, data = self.captures or ((), b"")
        if not captures:
            return [_Span("", 0, len(text), len(text))]
        text_start = len(data.decode("utf-8", "replace")) - len(text)

        def to_text_offset(offset: int) -> int:
            return len(data[:offset].decode("utf-8", "replace")) - text_start

        return [
            _Span(capture.name, to_text_offset(capture.start), end := to_text_offset(capture.end), end)
            for capture in captures
        ]

    def _make_field(self, text: str, span: _Span, choices: Sequence[_Choice]) -> Field:
        worst = max(choices, key=lambda choice: choice.removed, default=None)
        preferred = b""
        if worst is not None and worst.preferred is not None:
            names = self.vocabulary.special_tokens
            token = worst.preferred
            preferred = self.vocabulary.token_bytes(token) or names.get(token, "").encode()
        return Field(
            text[span.start : span.end],
            span.start,
            span.end,
            len(choices),
            sum(choice.logprob for choice in choices),
            sum(choice.removed for choice in choices),
            exp(sum(min(0.0, choice.logprob + choice.removed) for choice in choices)),
            None if worst is None else worst.position,
            preferred.decode("utf-8", "replace"),
        )


def _json_spans(text: str) -> Iterable[_Span]:
    for pointer, start, end in scalar_spans(text):
        yield _Span(pointer, start, end, end_of_choices(text, start, end))


def end_of_choices(text: str, start: int, end: int) -> int:
    """The offset before which all choices of a JSON value begin. For a number, true, false and null, they include the
    choice of what follows it."""
    return end if text[start] in '"[{' else end + 1


def decode_captures(captures: Mapping[str, Sequence[bytes]]) -> dict[str, list[str]]:
    """Decode the captures."""
    return {name: [text.decode("utf-8", "replace") for text in texts] for name, texts in captures.items()}


def text_with_names(vocabulary: Vocabulary, tokens: Sequence[int]) -> tuple[str, list[int]]:
    """The text of tokens, including the names of control tokens, and the offset at which each token begins."""
    utf8, pieces, starts = codecs.getincrementaldecoder("utf-8")("replace"), list[str](), list[int]()
    size = 0
    for token in tokens:
        starts.append(size)
        name = vocabulary.special_tokens.get(token)
        data = vocabulary.token_bytes(token) or b""
        pieces.append(utf8.decode(data) if name is None else utf8.decode(b"", True) + name)
        size += len(pieces[-1])
    pieces.append(utf8.decode(b"", True))
    return "".join(pieces), starts
