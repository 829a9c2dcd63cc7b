"""Suggests the known name that is closest to a misspelled one, for hints in errors.

In: a name, and the names that exist. Out: the most similar one, or "".

How: `difflib.SequenceMatcher`. Cheap upper bounds on its ratio, from lengths and letter counts, rule out all but a few
names.

Cost: bounded for any input. Names of more than 100 characters get no suggestion, and only the first 2,000 names of a
similar length are considered. A search takes at most about 20 ms, usually 0.03 ms. Callers that report many names limit
the number of searches.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice
from typing import Final

__all__ = ["find_closest_name"]

_MAX_LENGTH: Final = 100  # characters of a name
_MAX_QUICK_RATIOS: Final = 2_000  # names whose letters are counted
_MAX_RATIOS: Final = 20


def find_closest_name(name: object, known_names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The known name that is most similar to `name`, or "" if none is similar enough.

    Args:
        name: the misspelled name; "" is returned if it is not a string.
        known_names: the names that exist.
        cutoff: the lowest ratio of `SequenceMatcher` that counts as similar, from 0 to 1.
    """
    if not isinstance(name, str) or len(name) > _MAX_LENGTH:
        return ""
    length = len(name)
    candidates = (other for other in known_names if 2 * min(length, len(other)) >= cutoff * (length + len(other)))
    matcher = SequenceMatcher()
    matcher.set_seq2(name)
    bounds: list[tuple[float, str]] = []
    for other in islice(candidates, _MAX_QUICK_RATIOS):
        min_common = cutoff * (length + len(other)) / 2  # characters in common
        if sum(map(other.__contains__, name)) >= min_common and sum(map(name.__contains__, other)) >= min_common:
            matcher.set_seq1(other)
            bounds.append((matcher.quick_ratio(), other))
    best = (cutoff, "")
    for bound, other in nlargest(_MAX_RATIOS, bounds):
        if bound < best[0]:
            break
        matcher.set_seq1(other)
        best = max(best, (matcher.ratio(), other))
    return best[1]
