"""Token limits in the twin: the rest of a `MaxTokens`, and what happens to it when a token ends.

In: the run of the regular item, and the texts of all tokens. Out: a `Limited`, which is a run that also knows how many
tokens are left, and whether something was read. A token that ends within its text uses one of these tokens. The run is
then dropped unless the rest can still be written in the remaining tokens, the last of which ends with the rest.

Cost: a breadth-first search over the runs that tokens lead to. Slow on purpose.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from guided.automaton.reference.regular import Run

__all__ = ["Limited", "fewest_tokens"]


@dataclass(frozen=True)
class Limited:
    """The rest of a non-empty text of `run`, with `left` tokens for it. Its methods are those of a run."""

    run: Run
    left: int
    has_read: bool = False

    @property
    def may_stop(self) -> bool:
        """Whether the text may end here."""
        return self.has_read and self.run.may_stop

    @property
    def may_go_on(self) -> bool:
        """Whether some byte can follow."""
        return self.run.may_go_on

    @property
    def alive(self) -> bool:
        """Whether some text completes it, in any number of tokens."""
        return self.run.may_go_on or self.may_stop

    def after(self, byte: int) -> tuple[Limited, ...]:
        """The rest after a byte."""
        return tuple(Limited(run, self.left, True) for run in self.run.after(byte))

    def after_token(self, texts: Collection[bytes]) -> Limited | None:
        """The rest after a token ends here."""
        if not self.has_read:
            return self
        needed = fewest_tokens(self.run, texts)
        return replace(self, left=self.left - 1) if needed is not None and needed < self.left else None


def fewest_tokens(start: Run, texts: Collection[bytes]) -> int | None:
    """The fewest tokens, but at least one, that lead from a run to an end; None if there is no way."""
    met, level, count = {start}, [start], 0
    while level:
        further: list[Run] = []
        count += 1
        for run in level:
            for text in texts:
                runs = {run}
                for byte in text:
                    runs = {after for each in runs for after in each.after(byte)}
                if any(each.may_stop for each in runs):
                    return count
                further += runs - met
                met |= runs
        level = further
    return None
