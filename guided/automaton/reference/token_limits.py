"""Token limits in the reference implementation: follows the rest of a `MaxTokens` and counts the tokens that end.

In: a `Run` of the limited item, and the texts of all tokens. Out: a `LimitedRun`: the same, plus the number of tokens
left and whether a byte of the item has been read. Each token that ends within the item's text uses one of these tokens.
The run is then dropped unless the remaining tokens can write the rest and the last of them ends where the rest ends.

Cost: a breadth-first search over the runs to which tokens lead. The code is deliberately slow.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from guided.automaton.reference.regular import Run

__all__ = ["LimitedRun", "fewest_tokens"]


@dataclass(frozen=True)
class LimitedRun:
    """The rest of a non-empty text of `run`, with `tokens_left` tokens to write it. It has the methods of a run."""

    run: Run
    tokens_left: int
    has_read: bool = False

    @property
    def may_stop(self) -> bool:
        """Whether the text may end here."""
        return self.has_read and self.run.may_stop

    @property
    def can_continue(self) -> bool:
        """Whether some byte can follow."""
        return self.run.can_continue

    @property
    def is_alive(self) -> bool:
        """Whether some text completes the rest, in any number of tokens."""
        return self.run.can_continue or self.may_stop

    def step(self, byte: int) -> tuple[LimitedRun, ...]:
        """The rest after a byte."""
        return tuple(LimitedRun(run, self.tokens_left, True) for run in self.run.step(byte))

    def after_token(self, texts: Collection[bytes]) -> LimitedRun | None:
        """The rest after a token ends here, or None if the remaining tokens cannot write it."""
        if not self.has_read:
            return self
        min_tokens = fewest_tokens(self.run, texts)
        return (
            replace(self, tokens_left=self.tokens_left - 1)
            if min_tokens is not None and min_tokens < self.tokens_left
            else None
        )


def fewest_tokens(start: Run, texts: Collection[bytes]) -> int | None:
    """The smallest positive number of tokens that lead from `start` to an end, or None if no tokens do."""
    seen, level, count = {start}, [start], 0
    while level:
        next_level: list[Run] = []
        count += 1
        for run in level:
            for text in texts:
                runs = {run}
                for byte in text:
                    runs = {next_run for each in runs for next_run in each.step(byte)}
                if any(each.may_stop for each in runs):
                    return count
                next_level += runs - seen
                seen |= runs
        level = next_level
    return None
