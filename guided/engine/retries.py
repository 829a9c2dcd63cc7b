"""Rewrites values about which the model is unsure, and keeps the version that the model itself prefers.

Problem. A choice under a mask does not look ahead: the model may begin a value, and the mask may then forbid what the
model would have written next.

In: a function that makes sequences of one request, the number of retries, a threshold, and the maximum number of
passes. Out: one output, which the scheduler runs like any other.

How: when a value (a string, number or literal in JSON; otherwise the whole text) is complete and its confidence
(`Field.confidence`) is below the threshold, other sequences repeat the tokens before its first choice, and sample the
value anew, each with its own seed. `Retries` keeps the version whose choices are most likely without the mask, and
continues after it with the request's own parameters. The versions share the cache: the model reads only the tokens
after the longest prefix that is still cached. Events are delivered once the version of their value has been chosen.

Cost: the forward passes of the other versions, at most `max_passes` per output. After that, no value is written again.
A version ends as soon as it is less likely than the best one, since more tokens only make it less likely. At most two
versions have a matcher: the best one, until it has ended, and the running one. Not supported: output without a
constraint, `reasoning_end`, tools, drafts, `score_forced`, log probabilities, and exact sampling.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Mapping
from math import exp
from typing import Final

from guided.engine.fields import end_of_choices
from guided.engine.result import Result, StreamEvent, Timings
from guided.engine.sequence import Sequence
from guided.engine.staged_output import Reply, Request, StagedOutput, forward_to
from guided.engine.step_requests import Forward, Steps
from guided.errors import GuidedError, OptionError, brief
from guided.frontends.json_schema.documents.source_spans import ScalarScanner
from guided.keywords import is_number

__all__ = ["DEFAULT_THRESHOLD", "MAX_RETRIES", "Retries", "check_retries"]

DEFAULT_THRESHOLD: Final = 0.5
MAX_RETRIES: Final = 64


class _Version:
    """A version of the output.

    Attributes:
        sequence, steps: the sequence that writes this version, and its steps.
        reply: the reply to the last request of the steps.
        result: the result, once the version has ended.
        values: the name and the span of each complete value.
    """

    def __init__(self, sequence: Sequence, *, is_json: bool) -> None:
        self.sequence, self.steps = sequence, sequence.steps()
        self.reply: Reply = None
        self.result: Result | None = None
        self.values: list[tuple[str, int, int]] = []
        self._scanner = ScalarScanner() if is_json else None
        self._events: list[tuple[int, StreamEvent]] = []  # each with the number of tokens written after the event

    def add_event(self, event: StreamEvent) -> None:
        """Keep an event until `take_events` yields it."""
        self._events.append((len(self.sequence.transcript.tokens), event))
        self.result = event.result
        if self.result is not None:
            self.close()

    def close(self) -> None:
        """End the version. Its matcher is released: it would keep states in memory that the grammar has replaced."""
        self.steps.close()
        sequence = self.sequence
        sequence.matcher = sequence.masks = sequence.regions = sequence.canonical = sequence.call_budget = None

    def find_values(self) -> None:
        """Add the new complete values to `values`."""
        text, has_ended = self.sequence.transcript.text, self.result is not None
        if self._scanner is not None:
            self.values += self._scanner.read(text, is_complete=has_ended)
        elif has_ended:
            self.values = [("", 0, len(text))]

    def first_choice(self, offset: int) -> int:
        """The index of the first chosen token with text after `offset`, or the number of tokens if there is none."""
        starts, token_masks = self.sequence.transcript.starts, self.sequence.transcript.token_masks
        index = max(0, bisect_right(starts, offset) - 1)
        if index + 1 < len(starts) and starts[index + 1] <= offset:
            index += 1
        return next((i for i in range(index, len(starts)) if token_masks[i]), len(starts))

    def confidence(self, number: int) -> float:
        """The confidence of a value, as in its `Field`."""
        _, start, end = self.values[number]
        transcript, scores = self.sequence.transcript, self.sequence.scores
        choices_end = end if self._scanner is None else end_of_choices(transcript.text, start, end)
        first_index = self.first_choice(start)
        choice_index, total = sum(transcript.token_masks[:first_index]), 0.0
        for index in range(first_index, len(transcript.tokens)):
            if transcript.token_masks[index]:
                if transcript.starts[index] >= choices_end:
                    break
                total += min(0.0, scores.logprobs[choice_index] + scores.removed_log_masses[choice_index])
                choice_index += 1
        return exp(total)

    def logprob(self, skipped_count: int) -> float:
        """log of the model's probability of all choices after the first `skipped_count` tokens, without the mask."""
        return sum(self.sequence.scores.logprobs[sum(self.sequence.transcript.token_masks[:skipped_count]) :])

    def take_events(self) -> Iterator[StreamEvent]:
        """Remove and yield the events before the unfinished value, or all events if the output has ended."""
        final_count = len(self.sequence.transcript.tokens)
        if self.result is None:
            open_offset = 0 if self._scanner is None else self._scanner.open_start
            final_count = final_count if open_offset < 0 else self.first_choice(open_offset)
        while self._events and self._events[0][0] <= final_count:
            yield self._events.pop(0)[1]


class Retries(StagedOutput):
    """An output in which values with a low confidence are written again.

    Args:
        make: makes a sequence of the request. make(0) uses the request's own parameters. Every other number has its own
            seed, and a temperature of at least 1.
        retries: the number of other versions of a value.
        threshold: values with a lower confidence are written again.
        max_passes: the maximum number of forward passes for other versions.
        is_json: whether the text is JSON.
    """

    def __init__(
        self, make: Callable[[int], Sequence], retries: int, threshold: float, max_passes: int, *, is_json: bool
    ) -> None:
        first = make(0)
        super().__init__(first)
        self._make_sequence, self._retries, self._threshold, self._passes_left = make, retries, threshold, max_passes
        self._params, self._is_json = first.params, is_json
        self._cached_tokens: list[int] = []  # the tokens whose keys and values are in the cache
        self._other_version_count = 0  # the number of other versions started so far
        self._discarded_timings = Timings()  # of the discarded versions

    def steps(self) -> Steps:
        """Write the output. Raises as `Sequence.steps`."""
        assert isinstance(self.current, Sequence)
        version, checked_count = _Version(self.current, is_json=self._is_json), 0
        while True:
            forward = yield from self._advance(version)
            while checked_count < len(version.values):
                if version.confidence(checked_count) < self._threshold:
                    version, forward = yield from self._retry_value(version, forward, checked_count)
                checked_count += 1
            if forward is None:
                break
            yield from version.take_events()
            version.reply = yield self._request_forward(version, forward)
        self.current = version.sequence
        version.sequence.timings.include(self._discarded_timings)
        yield from version.take_events()

    def _advance(self, version: _Version) -> Generator[Request, Reply, Forward | None]:
        """Run a version up to its next forward pass.

        Return the request for this pass; None if the version has ended.
        """
        self.current, forward = version.sequence, None
        while forward is None and version.result is None:
            request = version.steps.send(version.reply)
            version.reply = None
            if isinstance(request, Forward):
                forward = request
            elif isinstance(request, StreamEvent):
                version.add_event(request)
            else:
                version.reply = yield request
        version.find_values()
        return forward

    def _request_forward(self, version: _Version, forward: Forward) -> Forward:
        """Request a forward pass over the version's tokens that are not in the cache."""
        self.current = version.sequence
        ids = [*version.sequence.prompt, *version.sequence.transcript.tokens]
        forward = forward_to(ids, forward.keep, self._cached_tokens)
        self._cached_tokens = ids
        return forward

    def _retry_value(
        self, best: _Version, forward: Forward | None, number: int
    ) -> Generator[Request, Reply, tuple[_Version, Forward | None]]:
        """Write a value again, and return the best version with its next forward pass.

        Args:
            best, forward: the first version of the value, and its next forward pass.
            number: the number of the value in the text.
        """
        name, start, _ = best.values[number]
        kept_count = best.first_choice(start)
        best_logprob = best.logprob(kept_count)
        for _ in range(self._retries if kept_count < len(best.sequence.transcript.tokens) else 0):
            if self._passes_left <= 0:
                break
            self._other_version_count += 1
            other = _Version(self._make_sequence(self._other_version_count), is_json=self._is_json)
            _copy_tokens(best.sequence, other.sequence, kept_count)
            other_forward = yield from self._write_value(other, number, kept_count, best_logprob)
            is_complete = len(other.values) > number and other.values[number][0] == name
            if is_complete and (logprob := other.logprob(kept_count)) > best_logprob:
                best, other, forward, best_logprob = other, best, other_forward, logprob
            other.close()
            self._discarded_timings.include(other.sequence.timings)
        best.sequence.params = self._params  # for the text after the value
        if best.result is not None:
            best.result.seed = self._params.seed
        return best, forward

    def _write_value(
        self, version: _Version, number: int, kept_count: int, best_logprob: float
    ) -> Generator[Request, Reply, Forward | None]:
        """Run a version until value `number` is complete, it is no longer the most likely version, or no passes are
        left. Return the version's next forward pass."""
        while (forward := (yield from self._advance(version))) is not None:
            if len(version.values) > number or self._passes_left <= 0 or version.logprob(kept_count) <= best_logprob:
                break
            self._passes_left -= 1
            version.reply = yield self._request_forward(version, forward)
        return forward


def _copy_tokens(earlier: Sequence, sequence: Sequence, count: int) -> None:
    """Copy the first `count` tokens of an earlier sequence to a new sequence of the same request, without events."""
    transcript = earlier.transcript
    for token, sampled in zip(transcript.tokens[:count], transcript.token_masks, strict=False):
        if sequence.masks is not None and not sequence.masks.matcher.accept_token(token):
            raise GuidedError(f"the matcher rejects token {token}, which an equal matcher has accepted")
        sequence.transcript.append([token], sampled=bool(sampled))
    sequence.scores.copy_choices(earlier.scores, sum(transcript.token_masks[:count]))
    sequence.prompt_is_read = True
    sequence.event()


def check_retries(retries: object, threshold: object, features: Mapping[str, bool]) -> None:
    """Check the options of a request for `retries`.

    Args:
        retries, threshold: see `Options.retries` and `Options.retry_below`.
        features: the names of features that retries cannot be combined with -> whether the request uses them.

    Raises:
        OptionError: an option is invalid, or cannot be combined with `retries`.
    """
    if not isinstance(retries, int) or isinstance(retries, bool) or not 0 <= retries <= MAX_RETRIES:
        message = f"retries is {brief(retries)}, but must be an integer from 0 to {MAX_RETRIES}"
        raise OptionError(message, option="retries")
    if not is_number(threshold) or not 0 <= threshold <= 1:
        raise OptionError(f"retry_below is {brief(threshold)}, but must be from 0 to 1", option="retry_below")
    for name, is_used in features.items():
        if retries and is_used:
            raise OptionError(f"retries cannot be combined with {name}", option="retries")
