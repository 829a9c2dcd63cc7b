"""Name classes: the parts into which languages cut the set of all member names. In: languages. Out: the combinations
of languages that a name may be in.

Languages are taken one after another, and each cuts the classes so far in two, if both sides may hold a name. Most
languages share no name (`^x-` and `^y-`). So for each two languages it is asked first whether they overlap. A class
is never cut by a language that does not overlap one that the class is within, and need not exclude such a language.
Whether a combination holds a name is decided by a bounded search (`overlap.py`); where that does not decide, it may.

Cost: the square of the number of languages, and classes times languages, each time one search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from guided.frontends.regex.overlap import Overlap
from guided.ir.nodes import Node
from guided.meter import spend

__all__ = ["MOST_CLASSES", "NameClass", "name_classes"]

MOST_CLASSES = 256
_FEW = 2  # up to so many languages every combination is kept: the core drops empty ones as quickly


class NameClass(NamedTuple):
    """Names in all languages of the indices `inside` and in no other. Only those of `outside` need to be excluded."""

    inside: tuple[int, ...]
    outside: tuple[int, ...]


def name_classes(languages: Sequence[Node], overlap: Overlap) -> list[NameClass] | None:
    """The classes, those within more languages first. None for more than MOST_CLASSES."""
    decides = len(languages) > _FEW

    def meet(new: int, old: int) -> bool:
        return not decides or overlap.may_hold((languages[old], languages[new]))

    def may_hold(names: NameClass) -> bool:
        inside, outside = ((languages[at] for at in numbers) for numbers in names)
        return not decides or overlap.may_hold(inside, outside)

    classes = [NameClass((), ())]
    for new in range(len(languages)):
        cut: list[NameClass] = []
        for inside, outside in classes:
            spend()
            if not all(meet(new, old) for old in inside):
                cut.append(NameClass(inside, outside))
                continue
            within = NameClass((*inside, new), tuple(old for old in outside if meet(new, old)))
            cut += filter(may_hold, (within, NameClass(inside, (*outside, new))))
        if len(cut) > MOST_CLASSES:
            return None
        classes = cut
    return classes
