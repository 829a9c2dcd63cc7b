"""Random texts of a specification, without a model.

In: a specification, and a seed. Out: texts. Each is a random walk through the masks under a bound on its length, so it
is complete and no longer than was asked for (matching/sentences.py). The distribution is not uniform: a letter is
likelier than a brace. `sentences` gives hypothesis such texts; `count` says how many there are.
"""

from __future__ import annotations

import random
from typing import Unpack

from guided.errors import BudgetError
from guided.keywords import check_integer
from guided.matching.constraint import Constraint, ConstraintOptions
from guided.matching.matcher import GrammarMatcher
from guided.matching.sentences import sentence
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
        constraint: what `Engine.generate` takes, but for None; a grammar that is compiled already, for any vocabulary.
        n: how many texts; the same one may come twice.
        seed: gives the same texts again; None: fresh ones.
        max_length: of a text, in bytes.
        any_character: False: printable ASCII without escapes wherever the specification allows some.
        **options: how the constraint is read and written, see `ConstraintOptions`.

    Raises:
        SpecError, UnsupportedError: the specification. BudgetError: no text of it is short enough.
        OptionError: a number is none, or out of its range. GuidedError: there is no constraint.
    """
    check_integer("n", n, least=1)
    check_integer("max_length", max_length, least=0)
    grammar = over_bytes(constraint, **options)
    if (shortest := GrammarMatcher(grammar).min_tokens_to_finish() - 1) > max_length:
        raise BudgetError(shortest, max_length)
    generator = random.Random(seed)
    return [sentence(grammar, generator, max_length, any_character) for _ in range(n)]
