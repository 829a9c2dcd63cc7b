"""Continuous batching: decides which sequences run in the next forward pass, and how many of their tokens.

The scheduler takes `Task`s, alone or in groups that share a prompt, and returns events from each `step`. A step is one
forward pass over a chunk of each running sequence: one token for most, several forced tokens for some, a chunk of the
prompt for others, and at most `token_budget` tokens in total. Decoding sequences have precedence: while they continue,
long prompts are read in chunks (chunked prefill), which add at most about `long_seconds` to a pass (long_chunks.py). A
short prompt is read together with an earlier long one. Masks are filled after the pass is launched and before its
logits are read, so filling overlaps with the accelerator's work. Then one call chooses the tokens of all sequences.

A task may be added before its grammar is compiled. It then waits for the future that makes its sequence. Other tasks
continue meanwhile, and a compilation error ends only this task.

Order: by priority, then first come, first served. When the cache is full, the last sequence in this order is preempted:
its keys and values are dropped and recomputed later. Its output does not change. A sequence that does not fit into an
empty cache fails with MemoryError. The samples of one prompt wait until the first of them has read it. Then they
continue from its logits and a fork of its cache. An error in one sequence does not affect the others, nor does a slow
matcher delay them: its steps run on other threads (stepper.py).

On CUDA the scheduler *runs ahead*: the next pass starts before the host has seen its tokens, which stay on the device.
While the pass runs, the host reads these tokens and fills the masks for the next choice. If a sequence turns out to
have ended or to have forced tokens, its logits are dropped, and it joins the next pass if it continues. Sequences with
tools or drafts must see their tokens first, so they do not run ahead. The order of events is the same in both cases.

A choice depends only on seed, position and logits, and on a CPU the logits do not depend on the batch composition.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Sequence as Items
from concurrent.futures import FIRST_COMPLETED, Future, wait
from heapq import heappop, heappush
from itertools import count
from time import perf_counter
from typing import Final

from torch import Tensor

from guided.engine.answers import Answers
from guided.engine.batch_matchers import fill_masks
from guided.engine.long_chunks import SHORT_LENGTH, LongChunks, divide_tokens
from guided.engine.result import StreamEvent
from guided.engine.run_ahead import RunAhead
from guided.engine.runner import ModelRunner
from guided.engine.runs import TaskAnswer
from guided.engine.step_requests import Draft, Forward, LogitRows
from guided.engine.stepper import BackgroundSteps, StepOutcome, Stepper
from guided.engine.task import Outcome, Task
from guided.keywords import check_integer
from guided.sampling.choice import Choose, ChosenToken

__all__ = ["Scheduler"]

_WAIT: Final = 0.005  # seconds to wait for another thread if there is nothing else to do


class Scheduler:
    """Runs tasks to completion. Not thread-safe.

    Attributes:
        runner: the model and its cache.
        token_budget: the maximum number of tokens in one forward pass.
        runs_ahead: whether passes start before the host knows their tokens.
        max_running: the maximum number of tasks that hold a cache lease at the same time.
        preemptions: the number of preemptions so far.
        prefix_queries, prefix_hits: the number of prompt tokens looked up in the cache, and the number found there.
    """

    def __init__(
        self,
        runner: ModelRunner,
        *,
        draft: ModelRunner | None = None,
        token_budget: int = 512,
        long_seconds: float = 0.2,
        max_running: int = 256,
        run_ahead: bool | None = None,
    ) -> None:
        """`run_ahead`: None: only on CUDA. OptionError: a maximum is not a positive integer."""
        check_integer("token_budget", token_budget, minimum=1)
        check_integer("max_running", max_running, minimum=1)
        self.runner, self._cache = runner, runner.cache
        self._long_chunks = LongChunks(long_seconds)
        self.token_budget, self.max_running = token_budget, max_running
        self._arrivals = count()
        self._compiling: list[tuple[Future[list[Stepper]], list[Task]]] = []  # groups
        self._waiting: list[Task] = []  # a heap
        self._running: list[Task] = []
        self._outcomes: list[tuple[Task, Outcome]] = []
        self._requests: list[tuple[Task, Choose | Draft]] = []
        self.background_steps = BackgroundSteps[Task]()
        self._answers = Answers[Task](draft)
        on_cuda = runner.model.device.type == "cuda"
        self.runs_ahead = runner.can_run_ahead and (on_cuda if run_ahead is None else run_ahead)
        self._ahead = RunAhead(runner, self._answers, token_budget, max_running)
        self.preemptions = self.prefix_queries = self.prefix_hits = 0

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._compiling or self._waiting or self._running or self._outcomes or self.background_steps)

    @property
    def compiling_count(self) -> int:
        """The number of tasks whose grammars are being compiled."""
        return sum(len(group) for _, group in self._compiling)

    @property
    def waiting_count(self) -> int:
        """The number of tasks that wait for space in the cache, without `Task.followers`."""
        return len(self._waiting)

    @property
    def running_count(self) -> int:
        """The number of tasks that hold a cache lease."""
        return len(self._running)

    @property
    def prefilling_count(self) -> int:
        """The number of running tasks that have not read their whole prompt."""
        return sum(not task.sequence.prompt_is_read for task in list(self._running))

    def add(self, group: Items[Task]) -> None:
        """Queue tasks that have the same prompt; a single task is a group of one.

        Either all tasks of a group have a future, or none does.
        """
        for task in group:
            task.arrival = next(self._arrivals)
        if group and (future := group[0].future) is not None:
            self._compiling.append((future, list(group)))
        else:
            self._begin_tasks(group)

    def _begin_tasks(self, group: Items[Task]) -> None:
        """Run tasks up to their first forward pass, and queue them."""
        for task in group:
            task.stepper = task.stepper or Stepper(task.sequence)
            self._process_outcome(task, task.stepper.advance(None))
        open_tasks = [task for task in group if not task.is_done]
        if open_tasks:
            leader, *others = open_tasks
            for task in others:
                can_follow = (task.tokens, task.keep) == (leader.tokens, leader.keep)
                leader.followers.append(task) if can_follow else heappush(self._waiting, task)
            heappush(self._waiting, leader)

    def cancel(self, task: Task) -> None:
        """Stop a task in any state and release its memory. Does nothing if the task is done."""
        self._finish(task)
        for entry in [it for it in self._compiling if it[0] is task.future and all(other.is_done for other in it[1])]:
            self._compiling.remove(entry)
            entry[0].cancel()  # no effect once compilation has begun; its limits end it

    def step(self) -> list[tuple[Task, Outcome]]:
        """Admit tasks, run one forward pass, return the outcomes. The outcomes of a task are in order."""
        begin = perf_counter()
        self._start_compiled_tasks()
        self._take_background_steps(0.0)
        self._admit()
        runs = self._ahead.runs
        asked_tasks = [task for task in self._running if task not in runs]
        ahead_tasks = self._ahead.reserve(asked_tasks)
        plan = self._plan(asked_tasks, self.token_budget - len(runs) - len(ahead_tasks))
        tasks, forward_seconds = list[Task](), 0.0
        if plan or self._ahead.pending is not None:
            tasks, forward_seconds = self._run_pass(plan, ahead_tasks)
        else:
            self._take_background_steps(_WAIT)
        seconds = perf_counter() - begin
        for task in tasks:
            task.sequence.timings.total += seconds
        runs.record_step(forward_seconds, seconds)
        out, self._outcomes = self._outcomes, []
        return out

    # ---- admission and planning
    def _start_compiled_tasks(self) -> None:
        """Start the tasks whose grammars are compiled. Wait briefly for one if there is nothing else to do."""
        if self._compiling and not (self._waiting or self._running or self._outcomes):
            wait([future for future, _ in self._compiling], _WAIT, FIRST_COMPLETED)
        compiled_groups = [entry for entry in self._compiling if entry[0].done()]
        for future, group in compiled_groups:
            self._compiling.remove((future, group))
            open_tasks = [task for task in group if not task.is_done]
            try:
                steppers = future.result()
            except Exception as error:
                for task in open_tasks:
                    self._finish(task, error)
                continue
            for task in open_tasks:
                task.stepper = steppers[task.number]
                task.sequence = task.stepper.sequence
            self._begin_tasks(open_tasks)

    def _take_background_steps(self, timeout: float) -> None:
        """Continue tasks whose steps on other threads have ended. Wait up to `timeout` seconds for one."""
        for task, outcome in self.background_steps.take_finished(timeout) if self.background_steps else ():
            self._process_outcome(task, outcome)

    def _admit(self) -> None:
        """Admit waiting tasks in order, while the cache has space for all tokens that they must read."""
        while self._waiting and len(self._running) < self.max_running:
            task = self._waiting[0]
            if not task.is_done:
                lease = self._cache.open(task.tokens, keep=task.keep, salt=task.salt)
                if self._running and len(task.tokens) - lease.length > self._cache.available:
                    self._cache.close(lease)
                    return
                task.lease = lease
                self._running.append(task)
                if not task.admission_time:
                    task.admission_time = perf_counter()
                    self.prefix_queries += len(task.tokens)
                    self.prefix_hits += lease.length
            heappop(self._waiting)

    def _plan(self, asked_tasks: list[Task], tokens_left: int) -> list[tuple[Task, int]]:
        """Divide this step's remaining `tokens_left` tokens among the tasks, and reserve their positions."""
        plan = dict[Task, int]()
        for task, token_count in divide_tokens(asked_tasks, tokens_left, self._long_chunks):
            if not token_count or task.lease is None:
                continue  # no lease: an earlier task has preempted it
            if self._reserve(task, token_count, plan):
                plan[task] = token_count
        return list(plan.items())

    def _reserve(self, task: Task, token_count: int, plan: Collection[Task]) -> bool:
        """Reserve positions; preempt later tasks if necessary. False: the task itself was preempted, or failed."""
        while not self._cache.reserve(task.open_lease, token_count):
            idle_tasks = (other for other in self._running if other not in plan and not self._is_busy(other))
            last = max(idle_tasks, default=task)
            if last is not task:
                self._preempt(last)
            elif len(self._running) > 1:  # the others hold the memory and will release it
                self._preempt(task)
                return False
            else:
                message = f"{len(task.tokens)} tokens do not fit into a cache of {self._cache.capacity} positions"
                self._finish(task, MemoryError(message))
                return False
        return True

    def _is_busy(self, task: Task) -> bool:
        return task in self._ahead or task in self.background_steps

    def _preempt(self, task: Task) -> None:
        """Drop a task's keys and values and put it back into the queue. It will read its tokens again."""
        self._cache.close(task.open_lease)
        task.lease, task.rows = None, []
        self._answers.forget(task)
        self._running.remove(task)
        heappush(self._waiting, task)
        self.preemptions += 1

    # ---- a forward pass
    def _run_pass(self, plan: list[tuple[Task, int]], ahead_tasks: list[Task]) -> tuple[list[Task], float]:
        """Run a pass. Return the tasks that took part, without those whose runs continue, and the seconds to launch
        it."""
        tasks = [task for task, _ in plan]
        chunks = [task.chunk(token_count) for task, token_count in plan]
        long_tokens = sum(token_count for task, token_count in plan if task.unread > SHORT_LENGTH)
        begin = perf_counter()
        try:
            logits = self._ahead.forward(chunks, ahead_tasks)
        except Exception as error:  # out of memory or a broken model: every task of the pass fails
            for task in (*tasks, *ahead_tasks, *self._ahead.runs):
                self._finish(task, error)
            self._continue_with_tokens(self._ahead.take([], 0))
            return tasks, 0.0
        seconds = perf_counter() - begin
        self._long_chunks.record(seconds, long_tokens)
        rows, row_count = dict[Task, LogitRows](), 0
        for task, chunk in zip(tasks, chunks, strict=True):
            rows[task] = LogitRows(logits, row_count, chunk.keep)
            row_count += chunk.keep
        read_rows = self._continue_with_tokens(self._ahead.take(ahead_tasks, row_count))
        rows |= {task: LogitRows(logits, row, 1) for task, row in read_rows.items()}
        if self.runs_ahead:  # the accelerator is still computing, and the first access to the logits will wait for it
            fill_masks([task.stepper for task in rows])
        for task in rows:
            self._fill_mask(task)
        for task, task_rows in rows.items():
            task.sequence.timings.add_forward(seconds, is_prompt=not task.sequence.prompt_is_read)
            self._collect_logits(task, task_rows)
        self._answer_requests(logits)
        return list(dict.fromkeys((*rows, *ahead_tasks))), seconds

    def _collect_logits(self, task: Task, rows: LogitRows) -> None:
        """Collect the logits of a pass. Once the task has all the logits that it needs, continue it."""
        if rows.row_count:
            task.rows.append(rows)
        if task.unread == 0:
            rows = task.rows[0] if len(task.rows) == 1 else LogitRows.concatenate(task.rows)
            task.rows = []
            self._fork_followers(task, rows)
            self._continue_task(task, rows)

    def _continue_with_tokens(self, answers: Items[TaskAnswer]) -> dict[Task, int]:
        """Continue tasks with their tokens. Return those whose next request is for logits that a pass has computed,
        with the row."""
        rows = dict[Task, int]()
        for task, answer, row in answers:
            if isinstance(answer, Exception):
                self._finish(task, answer)
            elif isinstance(answer, StreamEvent):
                self._outcomes.append((task, answer))
            elif task.stepper is not None and not task.is_done:
                outcome = task.stepper.advance(answer)
                self._process_outcome(task, outcome)
                tokens = [choice.token for choice in answer.rows if isinstance(choice, ChosenToken)]
                if row is not None and outcome.request == Forward(tokens):
                    self._cache.advance(task.open_lease, tokens)
                    rows[task] = row
        return rows

    def _fill_mask(self, task: Task) -> None:
        if task.stepper is None or task.stepper.is_slow:
            return  # another thread fills it together with the step
        try:
            task.stepper.fill_mask()
        except Exception as error:
            self._finish(task, error)

    def _fork_followers(self, leader: Task, rows: LogitRows) -> None:
        """Continue the other samples of the leader's prompt from a fork of its cache."""
        followers, leader.followers = leader.followers, []
        for task in followers:
            if task.is_done:
                continue
            try:
                task.lease = self._cache.fork(leader.open_lease)
            except MemoryError:
                heappush(self._waiting, task)
                continue
            task.admission_time = task.admission_time or perf_counter()
            self._running.append(task)
            self._continue_task(task, rows)

    def _continue_task(self, task: Task, rows: LogitRows) -> None:
        """Send a sequence its logits, and run it up to its next forward pass."""
        assert task.stepper is not None
        if task.stepper.is_slow:
            self.background_steps.start(task, task.stepper, rows.copy())
        else:
            self._process_outcome(task, task.stepper.advance(rows))

    def _answer_requests(self, logits: Tensor) -> None:
        """Answer the requests of all sequences together, until each of them needs a forward pass or has ended.

        `logits`: those of the last pass.
        """
        if self.runs_ahead:
            self._requests, answers = self._ahead.launch(self._requests, logits, len(self._running))
            self._continue_with_tokens(answers)
        while self._requests:
            requests, self._requests = self._requests, []
            replies = self._answers.answer_all(requests)
            self._continue_with_tokens(
                [TaskAnswer(task, reply) for (task, _), reply in zip(requests, replies, strict=True)]
            )

    def _process_outcome(self, task: Task, outcome: StepOutcome) -> None:
        """Deliver the events of a step, and queue the task's next request."""
        assert task.stepper is not None
        if task.is_done:  # it was cancelled during the step
            task.stepper.close()
            return
        self._outcomes += [(task, event) for event in outcome.events]
        if isinstance(outcome.request, Choose | Draft):
            self._requests.append((task, outcome.request))
            return
        if outcome.request is None:
            self._finish(task, outcome.error)
            return
        if outcome.request.forget:
            del task.tokens[-outcome.request.forget :]
            if task.lease is not None:
                self._cache.truncate(task.lease, len(task.tokens))
        task.tokens += outcome.request.tokens
        task.keep = outcome.request.keep

    def _finish(self, task: Task, error: Exception | None = None) -> None:
        if task.is_done:
            return
        task.is_done = True
        self._answers.forget(task)
        self._ahead.forget(task)
        if error is not None:
            self._outcomes.append((task, error))
        if task.stepper is not None and task not in self.background_steps:
            task.stepper.close()
        if task.lease is not None:
            self._cache.close(task.lease)
            task.lease = None
            self._running.remove(task)
        followers, task.followers = [other for other in task.followers if not other.is_done], []
        if followers:  # one of them must now read the prompt
            leader, *leader.followers = followers
            heappush(self._waiting, leader)
