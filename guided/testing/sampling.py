"""Creates random texts of a specification, without a model.

In: a specification, and a seed. Out: texts. Each text is a random walk through the masks with a bound on its length, so
it is complete and short enough (matching/sentences.py). The distribution is not uniform: letters are more likely than
braces. `guided.testing.sentences` is a hypothesis strategy for such texts; `guided.testing.count` counts
them.
"""

from __future__ import annotations

import random
from typing import Unpack

from guided.errors import BudgetError
from guided.keywords import check_integer
from guided.matching.constraint import Constraint, ConstraintOptions
from guided.matching.matcher import GrammarMatcher
from guided.matching.sentences import draw_sentence
from guided.testing.language import over_bytes

__all__ = ["sample"]


def sample(
    constraint: Constraint,
    n: int = 1,
    *,
    seed: int | None = None,
    max_length: int = 200,
    any_character: bool = False,
    **options: Unpack[ConstraintOptions],
) -> list[str]:
    """Random texts that a specification allows.

    Args:
        constraint: as for `Engine.generate`, but not None. A compiled grammar may have any vocabulary.
        n: the number of texts. A text may occur more than once.
        seed: makes the texts repeatable. None: different texts in each call.
        max_length: the maximum length of a text, in bytes.
        any_character: whether to use all characters. If False, texts have printable ASCII without escapes where the
            specification allows it.
        **options: how the constraint is read, and how its texts are written; see `ConstraintOptions`.

    Raises:
        SpecError, UnsupportedError: the specification is invalid. BudgetError: no text is short enough.
        OptionError: an argument is out of range. GuidedError: there is no constraint.
    """
    check_integer("n", n, minimum=1)
    check_integer("max_length", max_length, minimum=0)
    grammar = over_bytes(constraint, **options)
    if (shortest_length := GrammarMatcher(grammar).min_tokens_to_finish() - 1) > max_length:
        raise BudgetError(shortest_length, max_length)
    generator = random.Random(seed)
    return [draw_sentence(grammar, generator, max_length, any_character) for _ in range(n)]
