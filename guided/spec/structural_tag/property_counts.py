"""`minProperties` and `maxProperties` of arguments in the XML styles: how many elements a call may have.

In: the schema, the elements in their order, and which are required. Out: the sequences of elements of which as many are
there as the schema says. How: what may follow depends on the next element and on how many were there. Cost: the
elements times the greatest count that still matters.

What it does not do: count properties without a name, which may stand twice. Bounds beside them are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from guided.errors import SpecError, UnsupportedError, brief
from guided.ir.nodes import EMPTY
from guided.spec.combinators import Expr, NodePart, Part, choice, rule, rules, sequence

__all__ = ["COUNTS", "NOTHING", "counted", "property_counts"]

COUNTS: Final = ("minProperties", "maxProperties")
NOTHING: Final = NodePart(EMPTY)
"""No text at all, where a count cannot be reached any more."""
_MOST_STEPS: Final = 4096


def property_counts(schema: Any, at: str, *, others: bool, named: int) -> tuple[int, int]:
    """The least and the greatest number of properties, of which `named` have names.

    Args:
        schema: of the arguments, which may hold `COUNTS`.
        at: the place of the schema.
        others: whether there may be properties without a name.

    Raises:
        SpecError: a bound is no count. UnsupportedError: there is a bound, and there may be other properties.
    """
    bounds = {name: schema[name] for name in COUNTS if name in schema} if isinstance(schema, dict) else {}
    for name, bound in bounds.items():
        if isinstance(bound, bool) or not isinstance(bound, int | float) or bound < 0 or bound != int(bound):
            raise SpecError(f"{brief(bound)} is no count of properties", pointer=f"{at}/{name}", hint="write 0 or more")
        if others:
            raise UnsupportedError(
                f"{name!r} beside properties without a name is not enforced in this style",
                pointer=f"{at}/{name}",
                hint='write "additionalProperties": false, and name the properties',
            )
    return int(bounds.get("minProperties", 0)), min(int(bounds.get("maxProperties", named)), named)


def counted(elements: Mapping[str, Expr], required: frozenset[str], least: int, most: int, at: str) -> Expr:
    """The elements in their order, at least `least` and at most `most` of them.

    Raises:
        UnsupportedError: there are too many elements to count.
    """
    if len(elements) * (most + 1) > _MOST_STEPS:
        raise UnsupportedError(
            f"the counts of {len(elements)} properties are too many in this style", pointer=at,
            hint="leave minProperties and maxProperties out",
        )  # fmt: skip
    definitions: dict[str, Part] = {}
    follow: list[Expr] = [sequence() if least <= count <= most else NOTHING for count in range(most + 2)]
    for number, (name, element) in reversed(list(enumerate(elements.items()))):
        for count in range(min(number, most) + 1):
            with_it = sequence(element, follow[count + 1])
            definitions[f"from_{number}_{count}"] = with_it if name in required else choice(with_it, follow[count])
        follow = [rule(f"from_{number}_{count}") for count in range(min(number, most) + 1)] + [NOTHING]
    return rules(follow[0], **definitions)
