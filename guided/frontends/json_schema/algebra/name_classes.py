"""Divides the member names into name classes: the names that are in the same languages. In: languages. Out: the
combinations of languages that a name may be in.

Languages are processed one after another. Each divides the existing classes in two, if both sides may contain a name.
Most pairs of languages share no name (`^x-` and `^y-`), so each pair is first checked for overlap. A language that is
disjoint from one of the languages of a class neither divides the class nor needs to be excluded from it. A bounded
search decides whether a combination contains a name (`regex/overlap.py`). If the search is undecided, the combination
is kept.

Cost: one search for each pair of languages, and for each class and language.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from guided.frontends.regex.overlap import Overlap
from guided.ir.nodes import Node
from guided.meter import spend

__all__ = ["MAX_CLASSES", "NameClass", "divide_names"]

MAX_CLASSES = 256
_MAX_UNCHECKED_LANGUAGES = 2  # for so few, the core drops empty combinations as quickly as checks would find them


class NameClass(NamedTuple):
    """Names in all languages with the indices `inside` and in no other. Only the languages `outside` need to be
    excluded: every other language is disjoint from one of the languages `inside`.
    """

    inside: tuple[int, ...]
    outside: tuple[int, ...]


def divide_names(languages: Sequence[Node], overlap: Overlap) -> list[NameClass] | None:
    """The classes, starting with those in the most languages. None for more than MAX_CLASSES."""
    checks_overlap = len(languages) > _MAX_UNCHECKED_LANGUAGES

    def may_overlap(new_index: int, old_index: int) -> bool:
        return not checks_overlap or overlap.may_have_word((languages[old_index], languages[new_index]))

    def may_have_name(names: NameClass) -> bool:
        inside, outside = ((languages[number] for number in numbers) for numbers in names)
        return not checks_overlap or overlap.may_have_word(inside, outside)

    classes = [NameClass((), ())]
    for new_index in range(len(languages)):
        new_classes: list[NameClass] = []
        for inside, outside in classes:
            spend()
            if not all(may_overlap(new_index, old_index) for old_index in inside):
                new_classes.append(NameClass(inside, outside))
                continue
            inside_class = NameClass(
                (*inside, new_index), tuple(old_index for old_index in outside if may_overlap(new_index, old_index))
            )
            new_classes += filter(may_have_name, (inside_class, NameClass(inside, (*outside, new_index))))
        if len(new_classes) > MAX_CLASSES:
            return None
        classes = new_classes
    return classes
