"""Turns a rendered text into tokens: control tokens if the template wrote them, text otherwise.

In: a text with tags for the template's own parts (tagged_text.py), and a vocabulary. Out: ids.

If only the template writes names of control tokens, the ids are the tokenizer's ids of the whole text, as in every
engine. Otherwise the text is split at the template's own control tokens. Each part is encoded as plain text, in which
these names have no special meaning. Some tokens are text for the vocabulary and markers for the template, such as
`<think>` in Qwen 3. The tokenizer extracts them from any text. If such a name comes from elsewhere, the text is split
inside the name, so other tokens spell it. The assistant's own text keeps such tokens (template.py).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import NamedTuple

from guided.chat.tagged_text import spans_of
from guided.errors import VocabularyError, brief
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["ids_of", "names_pattern"]


def ids_of(vocabulary: Vocabulary, text: str, markers: Collection[str] = ()) -> list[int]:
    """The ids of a rendered text.

    Args:
        vocabulary: the model's vocabulary.
        text: a `TaggedText` with the template's parts, or a `str` if there are none.
        markers: tokens that are text for the vocabulary, but markers if the template wrote them.

    Raises:
        VocabularyError: as `Vocabulary.encode`, or the tokenizer encodes text as control tokens.
    """
    ids = _special_ids(vocabulary)
    foreign_spans = [
        match.span() for match in _names((*ids, *markers)).finditer(text) if not _is_from_template(text, *match.span())
    ]
    if not foreign_spans:
        return vocabulary.encode_with_special(str.__str__(text))
    out, at, before = list[int](), 0, _SpaceRules(False, False, False)
    for start, end, id in _control_tokens(text, ids):
        rules = _space_rules(vocabulary, id)
        out += [*_text(vocabulary, text, at, start, foreign_spans, before, rules), id]
        at, before = end, rules
    return out + _text(vocabulary, text, at, len(text), foreign_spans, before, _SpaceRules(False, False, False))


class _SpaceRules(NamedTuple):
    """A control token's effect on adjacent text: it may strip white space, or the text after it counts as continued."""

    strips_before: bool
    strips_after: bool
    continues: bool


@lru_cache(maxsize=8)
def _special_ids(vocabulary: Vocabulary) -> dict[str, int]:
    ids: dict[str, int] = {}
    for id in sorted(vocabulary.special_tokens):
        if name := vocabulary.special_tokens[id]:
            ids.setdefault(name, id)
    return ids


@lru_cache(maxsize=16)
def _names(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(names_pattern(names))


def names_pattern(names: Iterable[str]) -> str:
    """A regular expression that finds the longest name at a position."""
    return "|".join(map(re.escape, sorted(set(names), key=len, reverse=True))) or "(?!)"


def _is_from_template(text: str, start: int, end: int) -> bool:
    """Whether the template wrote the whole range."""
    spans = spans_of(text)
    number = bisect_right(spans, start, key=lambda span: span[0]) - 1
    return number >= 0 and end <= spans[number][1]


def _control_tokens(text: str, ids: dict[str, int]) -> Iterable[tuple[int, int, int]]:
    for start, end in spans_of(text):
        for match in _names(tuple(ids)).finditer(text, start, end):
            yield *match.span(), ids[match[0]]


@lru_cache(maxsize=1024)
def _space_rules(vocabulary: Vocabulary, id: int) -> _SpaceRules:
    """Determine the rules by encoding test texts: a tokenizer may have different rules for each control token."""
    name, encode = vocabulary.special_tokens[id], vocabulary.encode_with_special
    try:
        after, word = encode(f"{name}a"), vocabulary.encode("a")
        return _SpaceRules(
            encode(f"a \n{name}") == encode(f"a{name}"),
            encode(f"{name} \na") == after,
            after[1:] != word and after[1:] == vocabulary.encode("a", continued=True),
        )
    except VocabularyError:  # the vocabulary cannot spell white space
        return _SpaceRules(False, False, False)


def _text(
    vocabulary: Vocabulary,
    text: str,
    start: int,
    end: int,
    foreign_spans: list[tuple[int, int]],
    before: _SpaceRules,
    after: _SpaceRules,
) -> list[int]:
    """The ids of the text between two control tokens."""
    part = str.__str__(text)[start:end]
    if before.strips_after:
        start, part = end - len(part.lstrip()), part.lstrip()
    if after.strips_before:
        part = part.rstrip()
    special, out, at = vocabulary.special_tokens, list[int](), 0
    for end_of_piece in [begin + 1 - start for begin, _ in foreign_spans if start <= begin < start + len(part)] + [
        len(part)
    ]:
        if end_of_piece > at:
            out += vocabulary.encode(part[at:end_of_piece], continued=at > 0 or before.continues)
            at = end_of_piece
    if control_ids := [id for id in out if id in special]:
        raise VocabularyError(
            f"the tokenizer gives the control token {special[control_ids[0]]} for the text {brief(part)}"
        )
    return out
