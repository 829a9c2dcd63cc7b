"""Prepares a `Substrings` node for the core: marks the words in its texts.

    Substrings(("a cat, cats",), whole_words=True)     "<a> <cat><,> <cats>"

A substring begins only at a mark `<`, and ends only at a mark `>`. The marks are surrogates, which no text contains.
The core's suffix automaton treats them as characters (`fsa/substrings.hpp`).

Cost: linear, 0.2 us per character if there are marks.
"""

from __future__ import annotations

import re
from typing import Final

from guided.errors import LimitExceeded
from guided.ir.nodes import Substrings
from guided.ir.ranges import has_surrogate
from guided.limits import Limits
from guided.meter import spend

__all__ = ["mark_texts"]

_WORD_OR_PUNCTUATION: Final = re.compile(r"\w+|[^\w\s]")
_MARKED_TEXT: Final = "\ud800\\g<0>\ud801"


def mark_texts(node: Substrings, limits: Limits, earlier_length: int) -> tuple[list[str], bool]:
    """Return the texts, and whether they have marks. `earlier_length`: the number of characters in earlier nodes.

    Raises:
        ValueError: all texts are empty, or a text contains a surrogate.
        LimitExceeded: the automaton would be too large.
    """
    size = sum(map(len, node.texts))
    if earlier_length + size > limits.states:  # a lower bound: a state for each character; the core counts exactly
        raise LimitExceeded("states", earlier_length + size, limits.states)
    spend(size)
    if not size:
        raise ValueError("there is no text")
    if any(map(has_surrogate, node.texts)):
        raise ValueError("a text contains a surrogate")
    if not node.whole_words:
        return list(node.texts), False
    return [_WORD_OR_PUNCTUATION.sub(_MARKED_TEXT, text.strip()) for text in node.texts], True
