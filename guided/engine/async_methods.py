"""The asynchronous methods of `Engine`: `agenerate`, `agenerate_batch` and `astream`.

They take the arguments of `generate`, `generate_batch` and `stream`. Requests of coroutines and of threads run in one
batch. The event loop never waits for the model: a thread runs the steps (async_driver.py).

Cancelling a coroutine cancels its requests. So does closing the generator of `astream` (`contextlib.aclosing`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, Protocol, Unpack, overload

from guided.engine.async_driver import AsyncDriver
from guided.engine.batch import pair_with_constraints
from guided.engine.request import FOREIGN_KEYWORDS, Options, Prompt
from guided.engine.result import GrowingText, Result, StreamEvent, ValueT_co
from guided.engine.task import Task
from guided.keywords import keywords_checked
from guided.matching.constraint import Constraint

__all__ = ["AsyncMethods"]


class _Engine(Protocol):
    """The parts of an engine that the methods use."""

    @property
    def async_driver(self) -> AsyncDriver: ...

    def _background_tasks(self, prompt: Prompt, constraint: Constraint, n: int, **options: Any) -> list[Task]: ...


class AsyncMethods:
    """See the module docstring."""

    @overload
    async def agenerate(
        self: _Engine, prompt: Prompt, constraint: type[ValueT_co], *, n: Literal[1] = 1, **options: Unpack[Options]
    ) -> Result[ValueT_co]: ...
    @overload
    async def agenerate(
        self: _Engine, prompt: Prompt, constraint: str | Sequence[str], *, n: Literal[1] = 1, **options: Unpack[Options]
    ) -> Result[str]: ...
    @overload
    async def agenerate(
        self: _Engine, prompt: Prompt, constraint: Constraint = None, *, n: Literal[1] = 1, **options: Unpack[Options]
    ) -> Result: ...
    @overload
    async def agenerate(
        self: _Engine, prompt: Prompt, constraint: Constraint = None, *, n: int, **options: Unpack[Options]
    ) -> Result | list[Result]: ...
    @keywords_checked(Options.__annotations__, foreign_keywords=FOREIGN_KEYWORDS)
    async def agenerate(
        self: _Engine, prompt: Prompt, constraint: Constraint = None, *, n: int = 1, **options: Unpack[Options]
    ) -> Any:
        """Like `Engine.generate`. Raises the same errors."""
        results = await _await_results(self, [self._background_tasks(prompt, constraint, n, **options)])
        return results[0] if n == 1 else results

    @overload
    async def agenerate_batch(
        self: _Engine, prompts: Sequence[Prompt], constraint: type[ValueT_co], **options: Unpack[Options]
    ) -> list[Result[ValueT_co]]: ...
    @overload
    async def agenerate_batch(
        self: _Engine,
        prompts: Sequence[Prompt],
        constraint: Constraint = None,
        *,
        constraints: Sequence[Constraint] | None = None,
        **options: Unpack[Options],
    ) -> list[Result]: ...
    @keywords_checked(Options.__annotations__, foreign_keywords=FOREIGN_KEYWORDS)
    async def agenerate_batch(
        self: _Engine,
        prompts: Sequence[Prompt],
        constraint: Constraint = None,
        *,
        constraints: Sequence[Constraint] | None = None,
        **options: Unpack[Options],
    ) -> Any:
        """Like `Engine.generate_batch`, without `progress`. Raises the same errors."""
        pairs = pair_with_constraints(prompts, constraint, constraints)
        return await _await_results(self, [self._background_tasks(*pair, 1, **options) for pair in pairs])

    @overload
    def astream(
        self: _Engine, prompt: Prompt, constraint: type[ValueT_co], **options: Unpack[Options]
    ) -> AsyncGenerator[StreamEvent[ValueT_co], None]: ...
    @overload
    def astream(
        self: _Engine, prompt: Prompt, constraint: str | Sequence[str], **options: Unpack[Options]
    ) -> AsyncGenerator[StreamEvent[str], None]: ...
    @overload
    def astream(
        self: _Engine, prompt: Prompt, constraint: Constraint = None, **options: Unpack[Options]
    ) -> AsyncGenerator[StreamEvent, None]: ...
    @keywords_checked(Options.__annotations__, foreign_keywords=FOREIGN_KEYWORDS)
    async def astream(self: _Engine, prompt: Prompt, constraint: Constraint = None, **options: Unpack[Options]) -> Any:
        """Like `Engine.stream`. Errors are raised when the first event is awaited."""
        growing_text: GrowingText | None = None
        async for task, event in self.async_driver.events([self._background_tasks(prompt, constraint, 1, **options)]):
            growing_text = growing_text or GrowingText(task.sequence.parse, task.sequence.prefill)
            yield growing_text.add(event)


async def _await_results(engine: _Engine, groups: Sequence[list[Task]]) -> list[Result]:
    """Run groups of samples to completion. Return their results in order."""
    results = dict[Task, Result]()
    async for task, event in engine.async_driver.events(groups):
        if event.result is not None:
            results[task] = event.result
    return [results[task] for tasks in groups for task in tasks]
