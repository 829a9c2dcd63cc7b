"""The classes into which languages of names cut all names. In: languages. Out: the combinations of them that a name may
be in.

Languages are taken one by one, and each class so far is cut by the next one where both sides may hold a name. Most
languages share no name at all (`^x-` and `^y-`), so which of them do is asked first, two by two: a class is never cut
by a language that is apart from one that it is within, nor need its text exclude that language. Whether a combination
holds a name is decided as far as a bounded search tells (`overlap.py`); where that does not, it may.
Cost: the square of the languages and the classes times the languages, each time one search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from guided.grammar.ir import Node
from guided.spec.regex.overlap import Overlap

__all__ = ["MOST_CLASSES", "NameClass", "name_classes"]

MOST_CLASSES = 256
_FEW = 2  # languages of which every combination is taken to hold a name: the core finds out as quickly


class NameClass(NamedTuple):
    """Names in all languages of the numbers `inside` and in no other; to exclude those of `outside` is enough."""

    inside: tuple[int, ...]
    outside: tuple[int, ...]


def name_classes(languages: Sequence[Node], overlap: Overlap) -> list[NameClass] | None:
    """The classes, those of more languages first; None for more than MOST_CLASSES."""
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
            if not all(meet(new, old) for old in inside):
                cut.append(NameClass(inside, outside))
                continue
            within = NameClass((*inside, new), tuple(old for old in outside if meet(new, old)))
            cut += filter(may_hold, (within, NameClass(inside, (*outside, new))))
        if len(cut) > MOST_CLASSES:
            return None
        classes = cut
    return classes
