"""Writes a doubtful value again, and keeps the version that the model itself prefers.

Problem. A choice under a mask does not look ahead: the model may begin a value as it would begin another one, which the
mask then does not let it finish.

In: a function that makes sequences of one request, the number of versions, a threshold. Out: one output, which the
scheduler runs like any other.

How: when a value (a string, number or literal of JSON, otherwise the whole text) is complete and its confidence
(`Field.confidence`) is below the threshold, other sequences repeat the tokens before the value, and sample the value
anew, each with its own seed. Of all versions, the one with the highest probability without the mask (`Field.logprob`)
stays, and the output goes on after it. The versions share the cache: each reads only the tokens after the last common
prefix. Events are delivered when their value is decided.

Cost: the passes of the other versions, at most `max_passes` for one output; then no more values are written again.
Not supported: reasoning, tools, drafts, and scores of prompts and forced tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Final

from guided.engine.fields import Field
from guided.engine.result import Result, StreamEvent
from guided.engine.sequence import Sequence
from guided.engine.staged_output import Reply, Request, StagedOutput, continued
from guided.engine.step_requests import Forward, Steps
from guided.errors import GuidedError, OptionError, brief
from guided.frontends.json_schema.documents.source_spans import open_scalar
from guided.keywords import is_number

__all__ = ["MOST_RETRIES", "THRESHOLD", "Retries", "check_retries"]

THRESHOLD: Final = 0.5
MOST_RETRIES: Final = 64


class _Run:
    """A version of the output: its sequence, the events that are not delivered yet, and the answer to send next."""

    def __init__(self, sequence: Sequence) -> None:
        self.sequence, self.steps = sequence, sequence.steps()
        self.events: list[StreamEvent] = []
        self.reply: Reply = None
        self.result: Result | None = None

    def fields(self, *, is_json: bool) -> list[tuple[str, Field]]:
        """The complete values so far, with their names."""
        if not is_json and self.result is None:
            return []
        transcript, scores = self.sequence.transcript, self.sequence.scores
        record = scores.record(transcript.starts, None)
        found = list(record.fields(transcript.text, transcript.token_masks, scores.removed, is_json=is_json).items())
        open_at = open_scalar(transcript.text) if is_json and self.result is None else -1
        return [(name, field) for name, field in found if field.start != open_at]


class Retries(StagedOutput):
    """An output whose doubtful values are written again.

    Args:
        make: makes a sequence of the request. 0: with its own parameters; other numbers: with another seed, at a
            temperature of at least 1.
        retries: the number of other versions of a value.
        threshold: values below this confidence are doubtful.
        max_passes: the maximum number of forward passes for other versions.
        is_json: whether the text is JSON.
    """

    def __init__(
        self, make: Callable[[int], Sequence], retries: int, threshold: float, max_passes: int, *, is_json: bool
    ) -> None:
        self._first = make(0)
        super().__init__(self._first)
        self._make, self._retries, self._threshold, self._left = make, retries, threshold, max_passes
        self._is_json = is_json
        self._read: list[int] = []  # what the model has read
        self._tried = 0  # the number of other versions so far
        self._dropped: list[_Run] = []

    def steps(self) -> Steps:
        """Write the output. Raises as `Sequence.steps`."""
        run, decided, before = _Run(self._first), 0, 0
        while True:
            forward = yield from self._advance(run)
            fields = run.fields(is_json=self._is_json)
            for at in range(decided, len(fields)):
                if fields[at][1].confidence < self._threshold:
                    run, forward = yield from self._best(run, forward, before, at)
                    break
            decided = len(run.fields(is_json=self._is_json))
            if forward is None:
                break
            if self._is_json and self._is_between_values(run):
                before = len(run.sequence.transcript.tokens)
                yield from run.events
                run.events = []
            run.reply = yield self._forward(run, forward)
        self.current = run.sequence
        for other in self._dropped:
            other.steps.close()
            run.sequence.timings.include(other.sequence.timings)
        yield from run.events

    def _advance(self, run: _Run) -> Generator[Request, Reply, Forward | None]:
        """Run a version up to its next forward pass, and return this request; None: the version has ended."""
        self.current = run.sequence
        while True:
            request = run.steps.send(run.reply)
            run.reply = None
            if isinstance(request, Forward):
                return request
            if isinstance(request, StreamEvent):
                run.events.append(request)
                if request.result is not None:
                    run.result = request.result
                    return None
            else:
                run.reply = yield request

    def _forward(self, run: _Run, forward: Forward) -> Forward:
        """The pass after which a version goes on: over all that the model has not read of it."""
        ids = [*run.sequence.prompt, *run.sequence.transcript.tokens]
        forward = continued(self._read, ids, forward.keep)
        self._read = ids
        return forward

    def _best(
        self, first: _Run, forward: Forward | None, before: int, at: int
    ) -> Generator[Request, Reply, tuple[_Run, Forward | None]]:
        """Write a value again, and return the best version with its next forward pass.

        Args:
            first, forward: the first version of the value, and its next forward pass.
            before: the number of tokens before the value.
            at: the number of the value among those of the text.
        """
        name, field = first.fields(is_json=self._is_json)[at]
        versions = [(field.logprob, first, forward)]
        for _ in range(self._retries):
            if self._left <= 0:
                break
            self._tried += 1
            other = _Run(self._make(self._tried))
            _repeat(first.sequence, other.sequence, before)
            self._dropped.append(other)
            forward = yield from self._write_value(other, at)
            fields = other.fields(is_json=self._is_json)
            if len(fields) > at and fields[at][0] == name:
                versions.append((fields[at][1].logprob, other, forward))
        _, best, forward = max(versions, key=lambda version: version[0])  # of equals, the first
        if best is not first:
            self._dropped.remove(best)
            self._dropped.append(first)
        return best, forward

    def _write_value(self, run: _Run, at: int) -> Generator[Request, Reply, Forward | None]:
        """Run a version until its value is complete, or no passes are left. Return its next forward pass, if any."""
        while (forward := (yield from self._advance(run))) is not None:
            if len(run.fields(is_json=self._is_json)) > at or self._left <= 0:
                break
            self._left -= 1
            run.reply = yield self._forward(run, forward)
        return forward

    def _is_between_values(self, run: _Run) -> bool:
        """Whether the model has chosen no token of the value that comes next."""
        transcript = run.sequence.transcript
        begin = open_scalar(transcript.text)
        if begin < 0 or not any(transcript.token_masks):
            return True
        last = len(transcript.token_masks) - 1 - transcript.token_masks[::-1].index(1)
        ends = [*transcript.starts[1:], len(transcript.text)]
        return ends[last] <= begin


def _repeat(earlier: Sequence, sequence: Sequence, count: int) -> None:
    """Write the first `count` tokens of an earlier sequence of the same request again, without events for them."""
    written = earlier.transcript
    for token, sampled in zip(written.tokens[:count], written.token_masks, strict=False):
        if sequence.masks is not None and not sequence.masks.matcher.accept_token(token):
            raise GuidedError(f"the matcher refuses token {token}, which another one of the same kind has accepted")
        sequence.transcript.append([token], sampled=bool(sampled))
    sequence.scores.repeat(earlier.scores, sum(written.token_masks[:count]))
    sequence.prompt_is_read = True
    sequence.event()


def check_retries(retries: object, threshold: object, refused: Mapping[str, bool]) -> None:
    """Check the options of a request for `retries`.

    Args:
        retries, threshold: see `Options.retries` and `Options.retry_below`.
        refused: what retries cannot be combined with -> whether the request has it.

    Raises:
        OptionError: an option is invalid, or cannot be combined with `retries`.
    """
    if not isinstance(retries, int) or isinstance(retries, bool) or not 0 <= retries <= MOST_RETRIES:
        message = f"retries is {brief(retries)}, but must be an integer from 0 to {MOST_RETRIES}"
        raise OptionError(message, option="retries")
    if not is_number(threshold) or not 0 <= threshold <= 1:
        raise OptionError(f"retry_below is {brief(threshold)}, but must be from 0 to 1", option="retry_below")
    for name, is_given in refused.items():
        if retries and is_given:
            raise OptionError(f"retries cannot be combined with {name}", option="retries")
