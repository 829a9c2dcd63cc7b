"""Runs ahead of the host: while a device chooses tokens, the next pass, which reads them, is launched already.

In: the requests of tasks, and the logits of the last pass. Out: the answers, one step later, each with the row of the
next pass's logits that belongs to it. Tasks in a run (runs.py) get several tokens with one answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from guided.engine.answers import Answers, PendingChoices
from guided.engine.batch_matchers import accept_tokens
from guided.engine.long_chunks import SHORT_LENGTH, first_in_order
from guided.engine.runner import Chunk, ModelRunner, TokensAhead
from guided.engine.runs import Runs, TaskAnswer
from guided.engine.step_requests import Draft
from guided.engine.task import Task
from guided.sampling.choice import Choose

__all__ = ["RunAhead"]


class RunAhead:
    """The choices that the device is computing.

    Attributes:
        pending: these choices; None while the device chooses no token.
        runs: the tasks in runs.
    """

    def __init__(self, runner: ModelRunner, answers: Answers[Task], token_budget: int, max_running: int) -> None:
        self._runner, self._cache, self._answers, self._token_budget = runner, runner.cache, answers, token_budget
        self.pending: PendingChoices[Task] | None = None
        self.runs = Runs(runner.cache, answers, min(max_running, token_budget // 2), runner.model.device)

    def __contains__(self, task: object) -> bool:
        return task in self.runs or (self.pending is not None and task in self.pending)

    def __iter__(self) -> Iterator[Task]:
        """The tasks whose tokens are being chosen, without those in runs."""
        return iter(self.pending or ())

    def forget(self, task: Task) -> None:
        """Drop the choice of a task that is done."""
        self.runs.remove(task)
        if self.pending is not None and not self.runs and all(other.is_done for other in self.pending):
            self.pending = None

    # ---- a step, in this order
    def reserve(self, asked_tasks: Sequence[Task]) -> list[Task]:
        """Reserve a position for each task whose next pass starts before its token is known. Return these tasks.

        `asked_tasks`: the running tasks without those in runs, which have reserved their positions.
        """
        candidates = [task for task in self if _may_need_token(task)]
        short_tasks = [task for task in asked_tasks if 0 < task.unread <= SHORT_LENGTH] if candidates else []
        tokens_left = self._token_budget - len(self.runs)
        if len(candidates) + sum(task.unread for task in short_tasks) > tokens_left:
            candidates = first_in_order(set(candidates), short_tasks, tokens_left)
        return [task for task in candidates if self._cache.reserve(task.open_lease, 1)]

    def forward(self, chunks: list[Chunk], ahead_tasks: list[Task]) -> Tensor:
        """Launch a pass over chunks, then over the tokens that are being chosen for `ahead_tasks`, then for runs.
        Return the logits."""
        if self.pending is None or not (ahead_tasks or self.runs):
            return self._runner.step(chunks) if chunks else torch.empty(0, 0)
        tokens = self.pending.tokens(ahead_tasks, self.runs.indices())
        leases, rows = [task.open_lease for task in ahead_tasks], self.runs.rows()
        return self._runner.step(chunks, TokensAhead(leases, tokens, *rows))

    def take(self, ahead_tasks: Sequence[Task], first_row: int) -> list[TaskAnswer]:
        """Wait for the pending choices, and return their answers. A run that continues has an event, or nothing.

        Args:
            ahead_tasks: the tasks that ran ahead.
            first_row: the row of logits of the first of them. The rows of the others and of the runs follow.
        """
        pending, self.pending = self.pending, None
        if pending is None:
            return []
        rows = {task: row for row, task in enumerate(ahead_tasks, first_row)}
        chosen = pending.wait()
        accept_tokens([(task.stepper, answer) for task, answer, _ in chosen if not task.is_done])
        answers = [TaskAnswer(task, answer, rows.get(task) if read else None) for task, answer, read in chosen]
        first_row += len(ahead_tasks)
        return answers + self.runs.take(pending.prepared_tokens, first_row, pending.seconds_per_row)

    def launch(
        self, requests: Sequence[tuple[Task, Choose | Draft]], logits: Tensor, running_count: int
    ) -> tuple[list[tuple[Task, Choose | Draft]], list[TaskAnswer]]:
        """Start choosing the tokens of runs, and of tasks that can run ahead.

        Args:
            requests: the requests of all tasks.
            logits: those of the last pass.
            running_count: the number of running tasks.

        Returns:
            The other requests, and, if the device refuses the choices, the answers for the runs.
        """
        launched, others = list[tuple[Task, Choose]](), list[tuple[Task, Choose | Draft]]()
        for task, request in requests:
            if isinstance(request, Draft) or len(request.choices) != 1 or not task.sequence.can_run_ahead:
                others.append((task, request))
            elif request.logits is not logits or not self.runs.begin(task, request, running_count):
                launched.append((task, request))
        if not launched and not self.runs:
            return others, []
        self.pending = self._answers.launch(launched, self.runs.choices(logits, running_count))
        if self.pending is not None:
            return others, []
        return others + launched, self.runs.take(None, 0, 0.0)


def _may_need_token(task: Task) -> bool:
    """Whether a task whose token is being chosen may need another token after it."""
    is_slow = task.stepper is not None and task.stepper.is_slow
    return not task.is_done and not is_slow and task.sequence.tokens_left > 1
