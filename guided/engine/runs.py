"""Runs: several tokens of a sequence that are chosen one after the other before Python code looks at them.

In the middle of a text, the steps of a sequence are alike: its matcher accepts the chosen token, nothing is forced, and
the mask of the next choice is filled. In a large batch, the Python code for these steps takes longer than a pass of the
model. So the scheduler keeps such sequences in arrays. A step of all of them consists of a few operations on arrays,
and of one call of the core on each of several threads (`_core.advance_rows`).

    step          1        2        3        4        5
    sequence A    begins   ------- run ------>  four tokens at once; the run ends, because text is forced after them
    sequence B    begins   ------- run --------------->  its turn: an event with five tokens; the run continues
    sequence C    one token after the other, because it has penalties

In: the requests of sequences for which this is possible (`_can_run`), and the tokens that a device chose.
Out: the choices of the next step (`PreparedChoices`), events, and the answers for sequences whose runs end.

A run ends with a token that ends the text, after which something is forced, or after which a budget removes tokens.
Each step emits the tokens of an eighth of the runs (1 / `USUAL_TOKENS`) as events, the longest runs first. So all steps
take about the same time. A run of `MAX_TOKENS` tokens is always emitted, because the cache has reserved only so many
positions.

Tokens, scores and texts are the same as without runs. Only events contain several tokens.

Cost of a step: about 0.3 ms of Python code, one microsecond for each sequence, and the work of the matchers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.automaton import _core
from guided.engine.answers import Answers
from guided.engine.batch_matchers import advance_rows
from guided.engine.masks import RowStatus
from guided.engine.result import StreamEvent
from guided.engine.sequence import Sequence
from guided.engine.stepper import SLOW_SECONDS
from guided.engine.task import Task
from guided.kernels.choose_device import MAX_TOP_K
from guided.kernels.transfer import staged_zeros
from guided.kv.cache import KVCache
from guided.kv.paged import PagedCache
from guided.sampling.choice import Answer, Choice, Choose, ChosenToken, RunTokens
from guided.sampling.prepared import Ints, PreparedChoices, PreparedTokens
from guided.sampling.sampler import inverse_temperature, uniform

__all__ = ["MAX_TOKENS", "MIN_RUNNING", "USUAL_TOKENS", "RunRows", "Runs", "TaskAnswer"]

MIN_RUNNING: Final = 32  # with fewer running sequences, Python code takes less time than a pass anyway
USUAL_TOKENS: Final = 8
MAX_TOKENS: Final = 16
_MAX_RUNS: Final = 512
_MAX_ENDS: Final = 8
_NO_TOKEN: Final = -1
_TOKEN, _REMOVED, _LOGPROB, _PREFERRED, _FILL_SECONDS = range(5)  # the columns of the history


class RunRows(NamedTuple):
    """The sequences in runs, for a forward pass that reads one token of each.

    Attributes:
        tables: the block ids of each sequence.
        lengths: the number of positions of each sequence, with the new one.
    """

    tables: list[list[int]]
    lengths: list[int]


class TaskAnswer(NamedTuple):
    """An answer for a task.

    Attributes:
        answer: the chosen tokens, or the error of the last choice; or an event, if the task is still in its run.
        row: the row with the logits after the last token; None if no pass has read this token.
    """

    task: Task
    answer: Answer | StreamEvent | Exception
    row: int | None = None


@dataclass(slots=True)
class _Run:
    """What a run has in addition to its numbers in the arrays.

    Attributes:
        choice: how its first token is chosen.
        table: the ids of its blocks in the cache.
        delivered_count: the number of tokens that events have delivered.
    """

    task: Task
    sequence: Sequence
    choice: Choice
    matcher: _core.Matcher | None
    table: list[int]
    delivered_count: int = 0

    def position(self, count: int) -> int:
        """The position of the next token, if `count` tokens are not delivered yet."""
        return self.choice.position + self.delivered_count + count

    def uniform(self, count: int) -> float:
        """The random number of the next token; 0 if none is needed."""
        params = self.choice.params
        return uniform(params.seed, self.position(count)) if params.temperature else 0.0


class Runs:
    """See the module docstring. Each run has a slot: an index of all arrays.

    Args:
        cache: runs need a `PagedCache`. With other caches, none begins.
        answers: answers a choice again if the device has found no token.
        max_runs: the maximum number of runs.
    """

    def __init__(self, cache: KVCache, answers: Answers[Task], max_runs: int, device: torch.device) -> None:
        self._cache = cache if isinstance(cache, PagedCache) else None
        self._answers = answers
        self._prepared: PreparedChoices | None = None  # the choices of the last step
        self._device, self._capacity = device, min(max_runs, _MAX_RUNS)
        self._slots: dict[Task, int] = {}
        self._runs: list[_Run | None] = [None] * self._capacity
        self._free_slots = list(range(self._capacity))[::-1]  # low ones first, since masks are sent up to the last slot
        self._launched: Ints = np.zeros(0, np.int64)  # the slots whose tokens are being chosen
        self._passes = deque[tuple[float, float]](maxlen=MAX_TOKENS)  # the seconds of passes, and of their steps
        self._size = 0  # of the vocabulary
        self._has_many_tasks = True

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, task: object) -> bool:
        return task in self._slots

    def __iter__(self) -> Iterator[Task]:
        return iter(self._slots)

    # ---- the beginning and the end of a run
    def begin(self, task: Task, request: Choose, running_count: int) -> bool:
        """Begin a run with a request, if this is possible, and if many tasks are running. The model must have read all
        tokens of the task."""
        sequence, choice = task.sequence, request.choices[0]
        if running_count < MIN_RUNNING or self._cache is None or not self._free_slots:
            return False
        if not isinstance(sequence, Sequence) or not _can_run(sequence, choice):
            return False
        limit = _limit(sequence.tokens_left)
        has_other_size = self._size not in (0, choice.size)
        if limit < 2 or has_other_size or not self._cache.reserve(task.open_lease, limit):
            return False
        if not self._size:
            self._allocate(choice.size)
        self._slots[task] = slot = self._free_slots.pop()
        matcher = None if sequence.masks is None else sequence.masks.core_matcher
        self._runs[slot] = _Run(task, sequence, choice, matcher, self._cache.block_table(task.open_lease))
        self._write(slot, sequence, choice, limit)
        self._row[slot], self._length[slot] = request.first_row or 0, task.open_lease.length + 1
        return True

    def _allocate(self, size: int) -> None:
        """Allocate the arrays, once the size of the vocabulary is known."""
        n, self._size = self._capacity, size
        self._masks = staged_zeros(n, (size + 31) // 32, torch.int32, self._device)
        self._bits: npt.NDArray[np.int32] = self._masks.numpy()
        self._is_active, self._is_masked, self._has_ramp = np.zeros((3, n), np.bool_)
        self._ends = np.full((n, _MAX_ENDS), _NO_TOKEN, np.int64)
        self._scale, self._top_p, self._min_p = np.zeros((3, n))
        self._history = np.zeros((n, MAX_TOKENS, _FILL_SECONDS + 1))
        self._top_k, self._row, self._length, self._count, self._limit, self._budget = np.zeros((6, n), np.int64)

    def _write(self, slot: int, sequence: Sequence, choice: Choice, limit: int) -> None:
        """Write what does not depend on the pass into the arrays."""
        params = choice.params
        self._is_active[slot], self._is_masked[slot] = True, choice.allowed is not None
        if choice.allowed is not None and sequence.masks is not None:
            self._bits[slot] = choice.allowed
            self._has_ramp[slot] = sequence.masks.has_ramp
        self._ends[slot] = _NO_TOKEN
        self._ends[slot, : len(sequence.ends)] = list(sequence.ends)
        self._scale[slot] = inverse_temperature(params.temperature)
        self._top_p[slot] = 1.0 if params.top_p is None else params.top_p
        self._top_k[slot], self._min_p[slot] = choice.top_k, params.min_p or 0.0
        self._count[slot], self._limit[slot], self._budget[slot] = 0, limit, sequence.budget(1)

    def remove(self, task: Task) -> None:
        """End the run of a task, if it has one, without an answer."""
        if (slot := self._slots.pop(task, None)) is not None:
            self._runs[slot], self._is_active[slot] = None, False
            self._free_slots.append(slot)

    def _end(self, slot: int, status: RowStatus, last: Answer | Exception | None, seconds: float) -> TaskAnswer:
        """End a run. `last`: the answer to its last choice, if this was repeated."""
        run, last_index, is_repeated = self._runs[slot], int(self._count[slot]) - 1, last is not None
        assert run is not None
        token, removed, logprob, preferred, _ = self._history[slot, last_index].tolist()
        if (masks := run.sequence.masks) is not None:
            times = self._history[slot, : last_index + 1, _FILL_SECONDS].tolist()
            budget = int(self._budget[slot]) + 1  # of the mask after the last token
            masks.record_run(self._bits[slot], int(token), status, times, budget)
        if last is None:
            chosen = ChosenToken(int(token), removed, logprob=logprob, preferred=_id_or_none(preferred))
            last = Answer([chosen], seconds)
        tokens = self._take_tokens(run, slot, last_index, last_index, seconds)
        if isinstance(last, Answer) and tokens.tokens:
            last = last._replace(run=tokens)
        self.remove(run.task)
        return TaskAnswer(run.task, last, None if is_repeated else int(self._row[slot]))

    def _deliver(self, slot: int, seconds: float) -> TaskAnswer | None:
        """Deliver the tokens of a run, which continues. Return None if it cannot continue."""
        run, count = self._runs[slot], int(self._count[slot])
        assert run is not None and self._cache is not None
        limit = _limit(run.sequence.tokens_left - count)
        has_memory = self._cache.available >= MAX_TOKENS * len(self)  # otherwise, tasks may have to be preempted
        if limit < 2 or not self._has_many_tasks or not has_memory:
            return None
        if not self._cache.reserve(run.task.open_lease, count + limit):
            return None
        if run.sequence.masks is not None:
            run.sequence.masks.record_times(self._history[slot, :count, _FILL_SECONDS].tolist())
        tokens = self._take_tokens(run, slot, count, count - 1, seconds)
        run.table, run.delivered_count = self._cache.block_table(run.task.open_lease), run.delivered_count + count
        self._count[slot], self._limit[slot] = 0, limit
        run.sequence.append_run(tokens)
        return TaskAnswer(run.task, run.sequence.event())

    def _take_tokens(self, run: _Run, slot: int, count: int, pass_count: int, seconds: float) -> RunTokens:
        """Record the first `count` tokens of a run in its task and in the cache, and the times of the passes that have
        read tokens. The last pass, whose times are not known yet, has read the token with the index `pass_count`."""
        assert self._cache is not None
        history = self._history[slot, :count].T.tolist()
        tokens = list(map(int, history[_TOKEN]))
        run.task.tokens += tokens
        self._cache.advance(run.task.open_lease, tokens)
        passes = list(self._passes)[len(self._passes) - pass_count - (run.delivered_count > 0) :]
        run.sequence.timings.forward += [forward for forward, _ in passes]
        run.sequence.timings.total += sum(total for _, total in passes)
        preferred = list(map(_id_or_none, history[_PREFERRED]))
        return RunTokens(tokens, history[_REMOVED], history[_LOGPROB], preferred, seconds)

    # ---- a step of all runs
    def choices(self, logits: Tensor, running_count: int) -> PreparedChoices | None:
        """The next choice of each run, from the logits of a pass. `running_count`: the number of running tasks."""
        self._has_many_tasks = running_count >= MIN_RUNNING
        self._launched = slots = np.array(sorted(self._slots.values()), np.int64)
        self._prepared = None
        if not len(slots):
            return None
        runs, counts = self._runs_of(slots), self._count[slots].tolist()

        def make_choice(index: int) -> Choice:
            choice = runs[index].choice
            allowed = None if choice.allowed is None else self._bits[slots[index]]
            return replace(choice, position=runs[index].position(counts[index]), allowed=allowed)

        self._prepared = PreparedChoices(
            logits=logits,
            size=self._size,
            row=self._row[slots],
            masks=self._masks,
            mask=np.where(self._is_masked[slots], slots, -1),
            uniform=np.array([run.uniform(count) for run, count in zip(runs, counts, strict=True)]),
            scale=self._scale[slots],
            top_p=self._top_p[slots],
            top_k=self._top_k[slots],
            min_p=self._min_p[slots],
            make_choice=make_choice,
        )
        return self._prepared

    def indices(self) -> list[int]:
        """The indices of the remaining runs in the last `choices`."""
        return np.flatnonzero(self._is_active[self._launched]).tolist() if len(self._launched) else []

    def rows(self) -> RunRows:
        """The rows of the pass that reads the tokens of `indices`."""
        if not self._slots:
            return RunRows([], [])
        slots = self._launched[self.indices()]
        return RunRows([run.table for run in self._runs_of(slots)], self._length[slots].tolist())

    def take(self, tokens: PreparedTokens | None, first_row: int, seconds: float) -> list[TaskAnswer]:
        """Let all runs continue with their tokens. Return the answers of those that end, and events of others.

        Args:
            tokens: the tokens of the last `choices`; None: no token was chosen.
            first_row: the first row of `rows` among the logits of the pass.
            seconds: the mean computation time of a choice.
        """
        indices = np.array(self.indices(), np.int64)
        if not len(indices):
            return []
        tokens = PreparedTokens.none(len(self._launched)) if tokens is None else tokens
        slots, repeated = self._launched[indices], self._repeat(indices[~tokens.is_chosen[indices]])
        token, count = tokens.token[indices], self._count[slots]
        numbers = (token, tokens.removed[indices], tokens.logprob[indices], tokens.preferred[indices])
        for column, values in enumerate(numbers):
            self._history[slots, count, column] = values
        is_end = ~tokens.is_chosen[indices] | (token[:, None] == self._ends[slots]).any(1)
        status, is_slow = self._advance_matchers(slots, token, is_end)
        self._count[slots] += 1
        self._length[slots] += 1
        self._budget[slots] -= 1
        self._row[slots] = first_row + np.arange(len(slots))
        self._prepared = None  # it refers to the logits of all sequences
        must_end = (status != RowStatus.FILLED) | is_slow
        answers = list[TaskAnswer]()
        for i in np.flatnonzero(must_end | self._has_turn(slots, must_end)).tolist():
            slot = int(slots[i])
            answer = None if must_end[i] else self._deliver(slot, seconds)
            if answer is None:
                answer = self._end(slot, RowStatus(status[i]), repeated.get(int(indices[i])), seconds)
            answers.append(answer)
        return answers

    def _has_turn(self, slots: Ints, must_end: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which of the runs that need not end have their turn."""
        count = np.where(must_end, 0, self._count[slots])
        has_turn: npt.NDArray[np.bool_] = count >= self._limit[slots]
        others = np.flatnonzero(~has_turn & (count > 0))
        longest = others[np.argsort(-count[others], kind="stable")]
        has_turn[longest[: max(0, len(slots) // USUAL_TOKENS - int((has_turn | must_end).sum()))]] = True
        return has_turn

    def _repeat(self, indices: Ints) -> dict[int, Answer | Exception]:
        """Repeat choices for which no token was chosen, as ordinary requests."""
        if not len(indices) or self._prepared is None:
            return {}
        tasks = [run.task for run in self._runs_of(self._launched[indices])]
        answers = self._answers.answer_all(list(zip(tasks, self._prepared.requests(indices.tolist()), strict=True)))
        return dict(zip(indices.tolist(), answers, strict=True))

    def _advance_matchers(
        self, slots: Ints, token: Ints, is_end: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
        """Let the matchers accept their tokens, and fill the next masks. Return the status of each run, and which
        matchers were slow. Ends are left to the sequences."""
        is_masked, is_slow = self._is_masked[slots] & ~is_end, np.zeros(len(slots), np.bool_)
        status = np.where(is_masked | is_end, RowStatus.REJECTED, RowStatus.FILLED).astype(np.uint8)
        masked_slots = slots[is_masked]
        runs = self._runs_of(masked_slots)
        status[is_masked], times = advance_rows(
            [run.matcher for run in runs if run.matcher is not None],
            self._bits,
            masked_slots,
            token[is_masked],
            self._budget[masked_slots],
            self._has_ramp[masked_slots],
        )
        self._history[masked_slots, self._count[masked_slots], _FILL_SECONDS] = times[:, 0]
        is_slow[is_masked] = times[:, 1] > SLOW_SECONDS
        for index in np.flatnonzero(times[:, 1] > SLOW_SECONDS).tolist():
            if (stepper := runs[index].task.stepper) is not None:
                stepper.record_duration(times[index, 1])
        return status, is_slow

    def record_step(self, forward_seconds: float, seconds: float) -> None:
        """Record the times of a step and of its pass."""
        self._passes.append((forward_seconds, seconds))

    def _runs_of(self, slots: Ints) -> list[_Run]:
        return [run for slot in slots.tolist() if (run := self._runs[slot]) is not None]


def _limit(tokens_left: int) -> int:
    """The maximum number of tokens until the next turn. The last token of an output is not chosen in a run."""
    return min(MAX_TOKENS, tokens_left - 1)


def _id_or_none(value: float) -> int | None:
    return None if value < 0 else int(value)


def _can_run(sequence: Sequence, choice: Choice) -> bool:
    """Whether the steps of a sequence need only its matcher, and its next choice only one mask."""
    return (
        choice.unbudgeted is None
        and choice.ramp is None
        and choice.top_k <= MAX_TOP_K
        and choice.logprobs is None
        and sequence.can_run_ahead
        and (sequence.masks is None or sequence.masks.core_matcher is not None)
        and sequence.penalties is None
        and sequence.gate is None
        and sequence.regions is None
        and sequence.call_budget is None
        and not sequence.transcript.has_text_stops
        and len(sequence.ends) <= _MAX_ENDS
    )
