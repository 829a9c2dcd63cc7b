"""Runs many independent requests at once. If a request fails, its answer is the error, and the others continue.

In: an iterator of requests. Out: answers in order of completion, each with the number of its request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeAlias

from guided.engine.progress import ProgressCounter
from guided.engine.request import Prompt, Request
from guided.engine.result import Result, StreamEvent
from guided.engine.task import Outcome, Task
from guided.errors import brief
from guided.keywords import read_items
from guided.matching.constraint import Constraint

__all__ = ["Answer", "answer_each", "pair_with_constraints"]

Answer: TypeAlias = tuple[int, list[Result] | Exception]


@dataclass(slots=True)
class _Group:
    """The tasks of a request, and the results or errors of the tasks that have ended."""

    number: int
    tasks: list[Task]
    outcomes: dict[Task, Result | Exception] = field(default_factory=dict)

    def answer(self) -> Answer:
        """The results in order, or the first error."""
        results = list[Result]()
        for task in self.tasks:
            outcome = self.outcomes[task]
            if isinstance(outcome, Exception):
                return self.number, outcome
            results.append(outcome)
        return self.number, results


def answer_each(
    requests: Iterable[Request | Exception],
    make_tasks: Callable[[Request], list[Task]],
    drive: Callable[[Iterable[Sequence[Task]]], Generator[tuple[Task, Outcome], None, None]],
    counter: ProgressCounter,
) -> Generator[Answer, None, None]:
    """See `Engine.generate_each`. `make_tasks` makes the tasks of a request; `drive` runs groups of tasks."""
    ready_answers, groups = deque[Answer](), dict[Task, _Group]()

    def start_requests() -> Iterator[list[Task]]:
        for number, request in enumerate(requests):
            try:
                if isinstance(request, Exception):
                    raise request
                if not isinstance(request, Request):
                    raise TypeError(f"a request must be a guided.Request, not {brief(request)}")
                tasks = make_tasks(request)
            except Exception as error:
                ready_answers.append((number, error))
            else:
                groups.update(dict.fromkeys(tasks, _Group(number, tasks)))
                yield tasks

    def yield_ready() -> Iterator[Answer]:
        while ready_answers:
            number, answer = ready_answers.popleft()
            counter.finish(0 if isinstance(answer, Exception) else sum(len(result.tokens) for result in answer))
            yield number, answer

    with counter, closing(drive(start_requests())) as outcomes:
        for task, outcome in outcomes:
            if isinstance(outcome, StreamEvent):
                counter.count(outcome)
            last_outcome = outcome.result if isinstance(outcome, StreamEvent) else outcome
            if last_outcome is not None:
                group = groups.pop(task)
                group.outcomes[task] = last_outcome
                if len(group.outcomes) == len(group.tasks):
                    ready_answers.append(group.answer())
            yield from yield_ready()
        yield from yield_ready()


def pair_with_constraints(
    prompts: Sequence[Prompt], constraint: Constraint, constraints: Sequence[Constraint] | None
) -> list[tuple[Prompt, Constraint]]:
    """Pair each prompt of a batch with its constraint.

    Raises:
        TypeError: the prompts are a single string. ValueError: the numbers of constraints and prompts differ, or both
            a constraint and a list are given.
    """
    if isinstance(prompts, str | bytes):
        raise TypeError(
            f"prompts must be a list of prompts, not {type(prompts).__name__}: for a single prompt call generate"
        )
    if constraint is not None and constraints is not None:
        raise ValueError("constraint and constraints exclude each other: give one of them")
    constraint_list = [constraint] * len(prompts) if constraints is None else read_items("constraints", constraints)
    if len(constraint_list) != len(prompts):
        raise ValueError(f"{len(prompts)} prompts, but {len(constraint_list)} constraints")
    return list(zip(prompts, constraint_list, strict=True))
