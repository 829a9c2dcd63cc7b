"""Captures and temperatures of the texts of single rules. Frozen descriptions that compute nothing.

Regions do not change the texts of a grammar: they say that the text of a rule is *captured* under a name, or written at
its own temperature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guided.ir.nodes import Node

__all__ = ["Ending", "Region"]


@dataclass(frozen=True, slots=True)
class Ending:
    """A text of the regular `before`, followed by one of the regular `end`, which is as long as possible.

    `capture`: the name under which the end is captured; empty: none.
    """

    before: Node
    end: Node
    capture: str = ""


@dataclass(frozen=True, slots=True)
class Region:
    """Options for the text of one rule.

    Attributes:
        capture: the name under which the text is captured; empty: none. If there is an `ending`, its end is left out.
        ending: how the text ends, if that matters.
        temperature: the sampler's temperature within the text, instead of the temperature of the request.
        ignored: a parser skips the text, so captures do not include it at their start or end.
    """

    capture: str = ""
    ending: Ending | None = None
    temperature: float | None = None
    ignored: bool = False

    @property
    def captures(self) -> tuple[str, ...]:
        """The names under which texts are captured here."""
        return tuple(name for name in (self.capture, self.ending.capture if self.ending else "") if name)
