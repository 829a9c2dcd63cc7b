"""Lets the model write free text before a constrained answer, because a mask can spoil an answer without thought.

In: the maker of the constrained sequence, a limit, and the ids between the free text and the answer. Out: one output,
which the scheduler runs like any other. Its reasoning is the free text.

How: two sequences on one cache. The first is unconstrained and is the assistant's turn. The second begins where the
first has ended: the model reads the end of the turn and the user's request for the answer in its required form, and
writes the answer under the mask. The free text may only use what the shortest answer leaves of the budget and of the
context; if nothing is left, there is none.

Source: draft-conditioned constrained decoding (arXiv 2603.03305).
Cost: the free text, and the request for the answer, whose tokens the model reads in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from typing import Final, Literal, TypeAlias, cast

from guided.engine.masks import Masks
from guided.engine.result import Result, StreamEvent, Timings
from guided.engine.sequence import Sequence
from guided.engine.step_requests import Draft, Forward, LogitRows, Steps
from guided.engine.stopping import Stops
from guided.errors import OptionError, brief
from guided.matching.protocol import Matcher
from guided.sampling.choice import Answer, Choose
from guided.sampling.params import SamplingParams
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["THINK", "Output", "ThinkFirst", "Thoughts", "check_thoughts", "request_for_answer", "token_limit"]

Request: TypeAlias = Forward | Choose | Draft | StreamEvent
Reply: TypeAlias = LogitRows | Answer | None
Thoughts: TypeAlias = int | Literal["answer"]
"""The free text that comes first: at most a number of tokens, or a complete answer."""
THINK: Final = (
    "Before you answer, think about it in a few short sentences. Write only your thoughts now. You will be asked for "
    "the answer afterwards."
)
_SEED_STEP: Final = 0x9E3779B97F4A7C15  # the samples of a request have adjacent seeds
_ANSWER: Final = "Now write only the answer."
_REWRITE: Final = "Write this answer again, in the required form and with nothing else. Do not change its content."


class ThinkFirst:
    """An output that begins with free text.

    Args:
        make_answer: makes the sequence of the answer, from the ids between the prompt and the answer, and how many of
            them count towards the budget.
        limit: the maximum number of tokens of the free text.
        bridge: the ids between the free text and the answer.
        context_left: how many tokens still fit into the model's context after the prompt.

    Raises:
        BudgetError: no answer fits. GuidedError: as for the sequence of the answer.
    """

    def __init__(
        self, make_answer: Callable[[list[int], int], Sequence], limit: int, bridge: list[int], context_left: int
    ) -> None:
        self._make_answer, self._bridge = make_answer, bridge
        self._answer_alone = answer = make_answer([], 0)  # raises the errors of the request before anything is written
        self.matcher: Matcher = cast(Matcher, answer.matcher)
        shortest = self.matcher.min_tokens_to_finish() - 1
        room = min(answer.max_tokens, context_left - len(bridge)) - shortest
        vocabulary = answer.vocabulary
        self.current = Sequence(
            vocabulary,
            answer.prompt,
            None,
            _thinking_params(answer.params),
            max_tokens=max(0, min(limit, room)),
            stops=_control_tokens(vocabulary),
            logprobs=answer.logprob_params,
        )

    @property
    def timings(self) -> Timings:
        """The times of the output. This and the properties below are those of the sequence that runs now."""
        return self.current.timings

    @property
    def prompt_is_read(self) -> bool:
        """See `timings`."""
        return self.current.prompt_is_read

    @property
    def left(self) -> int:
        """See `timings`."""
        return self.current.left

    @property
    def can_run_ahead(self) -> bool:
        """See `timings`."""
        return self.current.can_run_ahead

    @property
    def is_choosing(self) -> bool:
        """See `timings`."""
        return self.current.is_choosing

    @property
    def masks(self) -> Masks | None:
        """See `timings`."""
        return self.current.masks

    def budget(self, ahead: int) -> int:
        """See `Sequence.budget`."""
        return self.current.budget(ahead)

    def fill_mask(self) -> None:
        """See `Sequence.fill_mask`."""
        self.current.fill_mask()

    def steps(self) -> Steps:
        """Run the free sequence, then that of the answer. Raises as `Sequence.steps`."""
        read = list[int]()
        thoughts = yield from self._think(read)
        answer = self._answer_alone
        if tokens := thoughts.tokens:
            answer = self._make_answer([*tokens, *self._bridge], len(tokens))
        answer.timings.include(thoughts.timings)
        self.current = answer
        yield from self._write(answer, thoughts, read)

    def _think(self, read: list[int]) -> Generator[Request, Reply, Result]:
        """Run the free sequence and return its result. Append to `read` what the model reads."""
        reply: Reply = None
        with closing(self.current.steps()) as steps:
            while True:
                request = steps.send(reply)
                reply = None
                if not isinstance(request, StreamEvent):
                    if isinstance(request, Forward):
                        del read[len(read) - request.forget :]
                        read += request.tokens
                    reply = yield request
                    continue
                if request.tokens or request.text:
                    yield replace(request, result=None, reasoning=True)
                if request.result is not None:
                    return request.result

    def _write(self, answer: Sequence, thoughts: Result, read: list[int]) -> Steps:
        """Run the sequence of the answer. Its first pass continues after what the model has read."""
        reply: Reply = None
        is_first = True
        with closing(answer.steps()) as steps:
            while True:
                request = steps.send(reply)
                reply = None
                if not isinstance(request, StreamEvent):
                    if isinstance(request, Forward) and is_first:
                        request, is_first = _continued(request, read), False
                    reply = yield request
                elif request.result is None:
                    yield request
                else:
                    yield replace(request, result=_joined(thoughts, request.result))
                    return


def _continued(forward: Forward, read: list[int]) -> Forward:
    """A pass over tokens of which the model has read the beginning, without this beginning."""
    most = min(len(read), len(forward.tokens) - forward.keep)
    shared = next((at for at in range(most) if read[at] != forward.tokens[at]), most)
    return Forward(forward.tokens[shared:], forward.keep, len(read) - shared)


def _joined(thoughts: Result, answer: Result) -> Result:
    """The result of the complete output. The choice that ended the free text is left out: it is none of the tokens."""
    chosen = sum(thoughts.token_masks)
    logprobs = None if answer.logprobs is None else [*(thoughts.logprobs or ()), *answer.logprobs]
    return replace(
        answer,
        reasoning=thoughts.text,
        reasoning_tokens=len(thoughts.tokens),
        tokens=thoughts.tokens + answer.tokens,
        token_masks=thoughts.token_masks + answer.token_masks,
        removed_log_masses=thoughts.removed_log_masses[:chosen] + answer.removed_log_masses,
        logprobs=logprobs,
        prompt_logprobs=thoughts.prompt_logprobs,
        prompt_tokens=thoughts.prompt_tokens,
        record=None if answer.record is None else answer.record.after(thoughts.token_masks),
    )


def _thinking_params(params: SamplingParams) -> SamplingParams:
    """The parameters of the free text. Its seed differs, so that its random numbers are not those of the answer."""
    return replace(params, min_tokens=0, seed=(params.seed + _SEED_STEP) % (1 << 64))


def _control_tokens(vocabulary: Vocabulary) -> Stops:
    """Stops that end the free text at any control token: it is a turn of the conversation, and begins no other."""
    return Stops(token_ids=tuple(id for id in vocabulary.special_tokens if not vocabulary.token_bytes(id)))


def check_thoughts(given: object, *, has_reasoning_end: bool) -> None:
    """Check the option `think_first`.

    Raises:
        OptionError: it is neither None nor one of `Thoughts`, or it is "answer" for a model that reasons anyway.
    """
    is_number = isinstance(given, int) and not isinstance(given, bool) and given > 0
    if not (given is None or given == "answer" or is_number):
        needed = 'must be a positive number of tokens or "answer"'
        raise OptionError(f"think_first is {brief(given)}, but {needed}", option="think_first")
    if given == "answer" and has_reasoning_end:
        raise OptionError(
            'think_first="answer" and reasoning_end exclude each other: give a number of tokens to limit the reasoning',
            option="think_first",
        )


def token_limit(thoughts: Thoughts, max_tokens: int) -> int:
    """The maximum number of tokens of the free text: of an answer, half the budget."""
    return max_tokens // 2 if thoughts == "answer" else thoughts


def request_for_answer(thoughts: Thoughts, description: str) -> str:
    """The message of the user between the free text and the answer."""
    request = _REWRITE if thoughts == "answer" else _ANSWER
    return f"{request}\n\n{description}" if description else request


Output: TypeAlias = Sequence | ThinkFirst
"""What the scheduler runs."""
