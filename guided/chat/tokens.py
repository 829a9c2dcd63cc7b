"""Turns a rendered text into tokens: control tokens if the template wrote them, text otherwise.

In: a text in which the template's own parts are tagged (tagged_text.py), and a vocabulary. Out: ids.

If only the template writes names of control tokens, the tokenizer encodes the whole text at once, as in every engine.
Otherwise the text is split at the template's own control tokens. Each part is encoded as plain text, in which names of
control tokens have no special meaning. Some tokens are text for the vocabulary and markers for the template, such as
`<think>` in Qwen 3. The tokenizer extracts them from any text. If the template did not write such a name, the text is
split inside the name, so other tokens spell it. The assistant's own text keeps such tokens (template.py).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import NamedTuple

from guided.chat.tagged_text import get_spans
from guided.errors import VocabularyError, brief
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["encode_rendered", "make_names_pattern"]


def encode_rendered(vocabulary: Vocabulary, text: str, markers: Collection[str] = ()) -> list[int]:
    """The ids of a rendered text.

    Args:
        vocabulary: the model's vocabulary.
        text: a `TaggedText`, or a `str` if the template wrote none of it.
        markers: tokens that are text for the vocabulary, but markers if the template wrote them.

    Raises:
        VocabularyError: as `Vocabulary.encode`, or the tokenizer encodes text as control tokens.
    """
    ids = _map_special_names(vocabulary)
    foreign_spans = [
        match.span()
        for match in _compile_names((*ids, *markers)).finditer(text)
        if not _is_from_template(text, *match.span())
    ]
    if not foreign_spans:
        return vocabulary.encode_with_special(str.__str__(text))
    out, position, previous_rules = list[int](), 0, _SpaceRules(False, False, False)
    for start, end, id in _find_control_tokens(text, ids):
        rules = _determine_space_rules(vocabulary, id)
        out += [*_encode_text(vocabulary, text, position, start, foreign_spans, previous_rules, rules), id]
        position, previous_rules = end, rules
    return out + _encode_text(
        vocabulary, text, position, len(text), foreign_spans, previous_rules, _SpaceRules(False, False, False)
    )


class _SpaceRules(NamedTuple):
    """A control token's effect on adjacent text: whether it strips the whitespace before or after it, and whether the
    text after it is encoded as the continuation of a text."""

    strips_before: bool
    strips_after: bool
    continues: bool


@lru_cache(maxsize=8)
def _map_special_names(vocabulary: Vocabulary) -> dict[str, int]:
    ids: dict[str, int] = {}
    for id in sorted(vocabulary.special_tokens):
        if name := vocabulary.special_tokens[id]:
            ids.setdefault(name, id)
    return ids


@lru_cache(maxsize=16)
def _compile_names(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(make_names_pattern(names))


def make_names_pattern(names: Iterable[str]) -> str:
    """A regular expression that matches the longest of the names at a position."""
    return "|".join(map(re.escape, sorted(set(names), key=len, reverse=True))) or "(?!)"


def _is_from_template(text: str, start: int, end: int) -> bool:
    """Whether the template wrote the whole range."""
    spans = get_spans(text)
    number = bisect_right(spans, start, key=lambda span: span[0]) - 1
    return number >= 0 and end <= spans[number][1]


def _find_control_tokens(text: str, ids: dict[str, int]) -> Iterable[tuple[int, int, int]]:
    for start, end in get_spans(text):
        for match in _compile_names(tuple(ids)).finditer(text, start, end):
            yield *match.span(), ids[match[0]]


@lru_cache(maxsize=1024)
def _determine_space_rules(vocabulary: Vocabulary, id: int) -> _SpaceRules:
    """Determine the rules by encoding test strings. A tokenizer may have different rules for each control token."""
    name, encode = vocabulary.special_tokens[id], vocabulary.encode_with_special
    try:
        word_after_name, word = encode(f"{name}a"), vocabulary.encode("a")
        return _SpaceRules(
            encode(f"a \n{name}") == encode(f"a{name}"),
            encode(f"{name} \na") == word_after_name,
            word_after_name[1:] != word and word_after_name[1:] == vocabulary.encode("a", continued=True),
        )
    except VocabularyError:  # the vocabulary cannot spell whitespace
        return _SpaceRules(False, False, False)


def _encode_text(
    vocabulary: Vocabulary,
    text: str,
    start: int,
    end: int,
    foreign_spans: list[tuple[int, int]],
    previous_rules: _SpaceRules,
    next_rules: _SpaceRules,
) -> list[int]:
    """The ids of the text between two control tokens."""
    part = str.__str__(text)[start:end]
    if previous_rules.strips_after:
        start, part = end - len(part.lstrip()), part.lstrip()
    if next_rules.strips_before:
        part = part.rstrip()
    special, out, position = vocabulary.special_tokens, list[int](), 0
    for end_of_piece in [begin + 1 - start for begin, _ in foreign_spans if start <= begin < start + len(part)] + [
        len(part)
    ]:
        if end_of_piece > position:
            out += vocabulary.encode(part[position:end_of_piece], continued=position > 0 or previous_rules.continues)
            position = end_of_piece
    if control_ids := [id for id in out if id in special]:
        raise VocabularyError(
            f"the tokenizer encodes the text {brief(part)} with the control token {special[control_ids[0]]}"
        )
    return out
