"""Lets the model write free text before a constrained answer. The answer is often better if the model thinks first.

In: a function that makes the constrained sequence, a limit, and the ids between the free text and the answer. Out: one
output, which the scheduler runs like any other. The free text becomes its reasoning.

How: two sequences on one cache. The first is unconstrained and is the assistant's turn. The second begins where the
first ended: the model reads the end of the turn and a user message that requests the answer in the required form. Then
it writes the answer under the mask. The free text may only use the part of the budget and of the context that the
shortest answer does not need. If nothing is left, there is no free text.

Source: draft-conditioned constrained decoding (arXiv 2603.03305).
Cost: the free text, and the request for the answer, whose tokens the model reads in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from typing import Final, Literal, TypeAlias, cast

from guided.engine.result import Result, StreamEvent
from guided.engine.sequence import Sequence
from guided.engine.staged_output import Output, Reply, Request, StagedOutput, forward_to
from guided.engine.step_requests import Forward, Steps
from guided.engine.stopping import Stops
from guided.errors import OptionError, brief
from guided.matching.constraint import ValueParser
from guided.matching.protocol import Matcher
from guided.sampling.params import SamplingParams
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["THINK_INSTRUCTION", "ThinkFirst", "Thoughts", "check_thoughts", "request_for_answer", "token_limit"]

Thoughts: TypeAlias = int | Literal["answer"]
"""The free text that comes first: a maximum number of tokens, or a complete answer."""
THINK_INSTRUCTION: Final = (
    "Before you answer, think about it in a few short sentences. Write only your thoughts now. You will be asked for "
    "the answer afterwards."
)
_SEED_STEP: Final = 0x9E3779B97F4A7C15  # large, because the samples of a request have adjacent seeds
_ANSWER: Final = "Now write only the answer."
_REWRITE: Final = "Write this answer again, in the required form and with nothing else. Do not change its content."


class ThinkFirst(StagedOutput):
    """An output that begins with free text.

    Args:
        make_answer: makes the sequence of the answer. Its arguments are the ids between the prompt and the answer, and
            how many of these count towards the budget.
        limit: the maximum number of tokens of the free text.
        bridge: the ids between the free text and the answer.
        context_left: how many tokens still fit into the model's context after the prompt.

    Raises:
        BudgetError: no answer fits. GuidedError: as for the sequence of the answer.
    """

    def __init__(
        self, make_answer: Callable[[list[int], int], Output], limit: int, bridge: list[int], context_left: int
    ) -> None:
        self._make_answer, self._bridge = make_answer, bridge
        answer = make_answer([], 0)  # raises the errors of the request before anything is written
        self._answer_without_thoughts = answer
        while isinstance(answer, StagedOutput):
            answer = answer.current
        self._matcher, self._parse = cast(Matcher, answer.matcher), answer.parse
        shortest_length = self._matcher.min_tokens_to_finish() - 1
        tokens_left = min(answer.max_tokens, context_left - len(bridge)) - shortest_length
        thoughts = Sequence(
            answer.vocabulary,
            answer.prompt,
            None,
            _thinking_params(answer.params),
            max_tokens=max(0, min(limit, tokens_left)),
            stops=_control_token_stops(answer.vocabulary),
            logprobs=answer.logprob_params,
        )
        super().__init__(thoughts)

    @property
    def matcher(self) -> Matcher:
        """The matcher of the answer."""
        return self._matcher

    @property
    def parse(self) -> ValueParser | None:
        """The parser of the answer."""
        return self._parse

    def steps(self) -> Steps:
        """Run the sequence of the free text, then the sequence of the answer. Raises like `Sequence.steps`."""
        cached_tokens = list[int]()
        thoughts = yield from self._think(cached_tokens)
        answer = self._answer_without_thoughts
        if tokens := thoughts.tokens:
            answer = self._make_answer([*tokens, *self._bridge], len(tokens))
        answer.timings.include(thoughts.timings)
        self.current = answer
        yield from self._write(answer, thoughts, cached_tokens)

    def _think(self, cached_tokens: list[int]) -> Generator[Request, Reply, Result]:
        """Run the free sequence and return its result. Record the tokens that the model reads in `cached_tokens`."""
        reply: Reply = None
        with closing(self.current.steps()) as steps:
            while True:
                request = steps.send(reply)
                reply = None
                if not isinstance(request, StreamEvent):
                    if isinstance(request, Forward):
                        del cached_tokens[len(cached_tokens) - request.forget :]
                        cached_tokens += request.tokens
                    reply = yield request
                    continue
                if request.tokens or request.text:
                    yield replace(request, result=None, reasoning=True)
                if request.result is not None:
                    return request.result

    def _write(self, answer: Output, thoughts: Result, cached_tokens: list[int]) -> Steps:
        """Run the sequence of the answer. Its first pass skips the tokens that the model has already read."""
        reply: Reply = None
        is_first = True
        with closing(answer.steps()) as steps:
            while True:
                request = steps.send(reply)
                reply = None
                if not isinstance(request, StreamEvent):
                    if isinstance(request, Forward) and is_first:
                        request, is_first = forward_to(request.tokens, request.keep, cached_tokens), False
                    reply = yield request
                elif request.result is None:
                    yield request
                else:
                    yield replace(request, result=_join_results(thoughts, request.result))
                    return


def _join_results(thoughts: Result, answer: Result) -> Result:
    """Join both results into the result of the complete output.

    Omits the choice that ended the free text, since `tokens` does not contain it.
    """
    sampled_count = sum(thoughts.token_masks)
    logprobs = None if answer.logprobs is None else [*(thoughts.logprobs or ()), *answer.logprobs]
    return replace(
        answer,
        reasoning=thoughts.text,
        reasoning_tokens=len(thoughts.tokens),
        tokens=thoughts.tokens + answer.tokens,
        token_masks=thoughts.token_masks + answer.token_masks,
        removed_log_masses=thoughts.removed_log_masses[:sampled_count] + answer.removed_log_masses,
        logprobs=logprobs,
        prompt_logprobs=thoughts.prompt_logprobs,
        prompt_tokens=thoughts.prompt_tokens,
        record=None if answer.record is None else answer.record.with_tokens_before(thoughts.token_masks),
    )


def _thinking_params(params: SamplingParams) -> SamplingParams:
    """The parameters of the free text. They have another seed, so the answer does not use the same random numbers."""
    return replace(params, min_tokens=0, seed=(params.seed + _SEED_STEP) % (1 << 64))


def _control_token_stops(vocabulary: Vocabulary) -> Stops:
    """Stops that end the free text at any control token, since the free text is a single turn of the conversation."""
    return Stops(token_ids=tuple(id for id in vocabulary.special_tokens if not vocabulary.token_bytes(id)))


def check_thoughts(thoughts: object, *, has_reasoning_end: bool) -> None:
    """Check the option `think_first`.

    Raises:
        OptionError: the value is neither None nor one of `Thoughts`, or "answer" is combined with `reasoning_end`.
    """
    is_number = isinstance(thoughts, int) and not isinstance(thoughts, bool) and thoughts > 0
    if not (thoughts is None or thoughts == "answer" or is_number):
        message = f'think_first is {brief(thoughts)}, but must be a positive number of tokens or "answer"'
        raise OptionError(message, option="think_first")
    if thoughts == "answer" and has_reasoning_end:
        raise OptionError(
            'think_first="answer" and reasoning_end exclude each other: give a number of tokens to limit the reasoning',
            option="think_first",
        )


def token_limit(thoughts: Thoughts, max_tokens: int) -> int:
    """The maximum number of tokens of the free text: for "answer", half of the budget."""
    return max_tokens // 2 if thoughts == "answer" else thoughts


def request_for_answer(thoughts: Thoughts, description: str) -> str:
    """The message of the user between the free text and the answer."""
    request = _REWRITE if thoughts == "answer" else _ANSWER
    return f"{request}\n\n{description}" if description else request
