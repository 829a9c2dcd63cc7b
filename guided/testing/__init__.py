"""Uses specifications to test a parser, a schema, or an engine.

    sentences, near_misses      hypothesis strategies: texts of the language, and texts just outside it
    equivalent, subset          compare two specifications, and find a shortest text on which they differ
    sample                      random texts, without hypothesis
    count, counts               the number of texts
    check_masks                 compares an engine's masks with the specification

The strategies need hypothesis. `guided.testing.plugin` has fixtures for pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from guided.testing.comparing import Difference, equivalent, subset
from guided.testing.conformance import Follower, MaskMismatch, check_masks
from guided.testing.counting import count, counts
from guided.testing.sampling import sample

if TYPE_CHECKING:
    from guided.testing.strategies import near_misses, sentences

__all__ = [
    "Difference",
    "Follower",
    "MaskMismatch",
    "check_masks",
    "count",
    "counts",
    "equivalent",
    "near_misses",
    "sample",
    "sentences",
    "subset",
]

_STRATEGIES: Final = ("near_misses", "sentences")


def __getattr__(name: str) -> Any:
    if name not in _STRATEGIES:
        raise AttributeError(f"module 'guided.testing' has no attribute {name!r}")
    try:
        return getattr(import_module("guided.testing.strategies"), name)
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise ModuleNotFoundError(f"guided.testing.{name} needs hypothesis: pip install hypothesis") from None
