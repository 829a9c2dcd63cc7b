"""Number formats of the OpenAPI format registry. In: a name. Out: a `NumberSet`. Values of other types satisfy all of
them.
"""

from __future__ import annotations

from guided.frontends.json_schema.algebra.number_set import EVERY_NUMBER, Bound, NumberSet
from guided.frontends.json_schema.documents.values import Decimal10

__all__ = ["NUMBER_FORMATS"]


def _integers(low: int, high: int) -> NumberSet:
    return NumberSet(Bound(Decimal10.parse(str(low))), Bound(Decimal10.parse(str(high))), integral=True)


NUMBER_FORMATS: dict[str, NumberSet] = {
    **{f"int{bits}": _integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": _integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
    "double-int": _integers(1 - (1 << 53), (1 << 53) - 1),
    "float": EVERY_NUMBER,
    "double": EVERY_NUMBER,
}
