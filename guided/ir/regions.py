"""What is asked of the texts of single rules. Frozen descriptions that compute nothing.

Regions do not change which texts a grammar has: they say that the text of a rule is *captured* under a name, or written
at a temperature of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guided.ir.nodes import Node

__all__ = ["Ending", "Region"]


@dataclass(frozen=True, slots=True)
class Ending:
    """A text of the regular `before`, and one of the regular `end` after it; the latter takes as much as it can.

    `capture`: the name under which the end is captured; empty: none.
    """

    before: Node
    end: Node
    capture: str = ""


@dataclass(frozen=True, slots=True)
class Region:
    """What is asked of the text of one rule.

    Attributes:
        capture: the name under which the text is captured; empty: none. If there is an `ending`, its end is left out.
        ending: how the text ends, if that matters.
        temperature: what the sampler takes within the text, instead of the temperature of the request.
        ignored: the text is what a parser skips, so that it belongs to no capture whose first or last part it is.
    """

    capture: str = ""
    ending: Ending | None = None
    temperature: float | None = None
    ignored: bool = False

    @property
    def captures(self) -> tuple[str, ...]:
        """The names under which something is captured here."""
        return tuple(name for name in (self.capture, self.ending.capture if self.ending else "") if name)
