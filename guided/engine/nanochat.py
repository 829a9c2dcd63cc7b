"""Implements the interface of nanochat's `Engine`: token ids in, columns of tokens out, with the calculator.

    for column, masks in NanochatEngine(engine).generate(tokens, num_samples=4, max_tokens=256, top_k=50):
        ...  # one token of each row; 1 where the model chose it, 0 where a tool forced it

It behaves like nanochat, but without some of nanochat's limits and faults:

- A row that has ended is not decoded further. While other rows continue, its entry is the end token, with mask 0.
- Forced tokens are read in one forward pass, and no tokens are sampled and discarded in their place. Each forced token
  has its own column.
- Row i uses seed `seed` + i, so a row does not depend on the number of rows.
- The calculator can read every call and always returns a result, possibly "error: ...". With tools, the text is UTF-8,
  and the model writes no other control tokens.
- Any number of generators may run at the same time. Closing a generator releases its memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from guided.engine.engine import Engine, Options
from guided.engine.result import StreamEvent
from guided.tools.calculator import CALCULATOR
from guided.tools.tool import Tool

__all__ = ["NanochatEngine"]

_END = "<|assistant_end|>"


class NanochatEngine:
    """nanochat's `Engine`.

    Args:
        engine: the engine that generates.
        tools: the tools; None: the calculator if the vocabulary has its control tokens, otherwise no tools.
    """

    def __init__(self, engine: Engine, tools: Sequence[Tool] | None = None) -> None:
        names = engine.vocabulary.special_tokens
        if tools is None:
            tools = [CALCULATOR] if set(CALCULATOR.tokens) <= set(names.values()) else []
        ends = sorted(engine.vocabulary.eos_token_ids)
        self.engine, self.tools = engine, list(tools)
        self.end = next((id for id in ends if names.get(id) == _END), ends[0])

    def generate(
        self,
        tokens: Sequence[int],
        num_samples: int = 1,
        max_tokens: int | None = None,
        temperature: float = 1.0,
        top_k: int | None = None,
        seed: int = 42,
    ) -> Iterator[tuple[list[int], list[int]]]:
        """Yield columns: the next token of each row, and its mask. The last token of an ended row is the end token.

        Args:
            tokens: the prompt.
            num_samples: the number of rows.
            max_tokens: the maximum number of columns; None: until the model's context is full.
            temperature: 0 is greedy.
            top_k: see `SamplingParams`; None, 0 or less: no limit.
            seed: the seed of the first row.

        Raises:
            ValueError, GuidedError: a number or the prompt is invalid.
        """
        options = self._options(max_tokens, temperature, top_k, seed)
        return self._columns(self.engine.stream_samples(tokens, n=num_samples, **options), num_samples)

    def generate_batch(
        self, tokens: Sequence[int], num_samples: int = 1, **kwargs: Any
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return complete rows, with the prompt and without end tokens, and the masks of their tokens (0 in the
        prompt).

        Args:
            tokens, num_samples, **kwargs: as for `generate`.
        """
        results, masks = ([list(tokens) for _ in range(num_samples)], [[0] * len(tokens) for _ in range(num_samples)])
        for row, event in self.engine.stream_samples(tokens, n=num_samples, **self._options(**kwargs)):
            results[row] += event.tokens
            masks[row] += [int(not event.forced)] * len(event.tokens)
        return results, masks

    def _options(
        self, max_tokens: int | None = None, temperature: float = 1.0, top_k: int | None = None, seed: int = 42
    ) -> Options:
        budget = self.engine.context if max_tokens is None else max_tokens
        return {
            "max_tokens": budget,
            "temperature": temperature,
            "top_k": None if top_k is None or top_k <= 0 else top_k,
            "seed": seed,
            "tools": self.tools,
        }

    def _columns(self, events: Iterator[tuple[int, StreamEvent]], rows: int) -> Iterator[tuple[list[int], list[int]]]:
        queued_tokens = [deque[tuple[int, int]]() for _ in range(rows)]  # not yielded yet, for each row
        has_ended = [False] * rows
        for row, event in events:
            queued_tokens[row].extend((token, int(not event.forced)) for token in event.tokens)
            if event.result is not None:
                has_ended[row] = True
                if event.result.finish_reason == "stop":
                    queued_tokens[row].append((self.end, 1))
            while any(queued_tokens) and all(
                queue or ended for queue, ended in zip(queued_tokens, has_ended, strict=True)
            ):
                column = [queue.popleft() if queue else (self.end, 0) for queue in queued_tokens]
                yield [token for token, _ in column], [mask for _, mask in column]
