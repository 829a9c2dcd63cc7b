"""Answers the token and draft requests of all sequences in a batch, with one call for each kind of request.

In: pairs of a task and its request. Out: an `Answer` for each. kernels/choose.py chooses the tokens. For drafts, the
draft model first reads the new tokens of all its sequences in one pass (draft_model.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from guided.engine.draft_model import DraftModel
from guided.engine.runner import ModelRunner
from guided.engine.step_requests import NO_DRAFTS, Draft
from guided.kernels.choose import LaunchedChoices, answer, launch
from guided.kernels.transfer import send
from guided.sampling.choice import Answer, Choose
from guided.sampling.prepared import PreparedChoices, PreparedTokens

__all__ = ["Answers", "PendingChoices"]

_Key = TypeVar("_Key", bound=Hashable)


class Answers(Generic[_Key]):
    """See the module docstring. `draft`: the draft model and its cache, if there is one."""

    def __init__(self, draft: ModelRunner | None) -> None:
        self._draft_model = None if draft is None else DraftModel[_Key](draft)

    def answer_all(self, requests: Sequence[tuple[_Key, Choose | Draft]]) -> list[Answer | Exception]:
        """Return one answer for each request, in order. If the joint call fails, retry each request on its own. If that
        fails too, return the error as the answer, or `NO_DRAFTS` for a `Draft` request."""
        try:
            return list(self._answer_together(requests))
        except Exception:
            return [self._answer_alone(*request) for request in requests]

    def launch(
        self, requests: Sequence[tuple[_Key, Choose]], prepared: PreparedChoices | None = None
    ) -> PendingChoices[_Key] | None:
        """Start choosing one token for each request and each prepared choice, without waiting.

        Return None if this fails; `answer_all` then returns the error.
        """
        try:
            return PendingChoices(requests, self, launch([request for _, request in requests], prepared))
        except Exception:
            return None

    def _answer_alone(self, key: _Key, request: Choose | Draft) -> Answer | Exception:
        try:
            return self._answer_together([(key, request)])[0]
        except Exception as error:
            self.forget(key)
            return NO_DRAFTS if isinstance(request, Draft) else error

    def _answer_together(self, requests: Sequence[tuple[_Key, Choose | Draft]]) -> list[Answer]:
        choices = {index: request for index, (_, request) in enumerate(requests) if isinstance(request, Choose)}
        drafts = {key: (index, request) for index, (key, request) in enumerate(requests) if isinstance(request, Draft)}
        if self._draft_model is not None and drafts:
            logits_by_key = self._draft_model.logits({key: request.ids for key, (_, request) in drafts.items()})
            for key, rows in logits_by_key.items():
                index, request = drafts[key]
                choices[index] = Choose(rows.logits, [request.choice], rows.first_row)
        answers = dict(zip(choices, answer(list(choices.values())), strict=True))
        return [answers.get(index, NO_DRAFTS) for index in range(len(requests))]

    def forget(self, key: _Key) -> None:
        """Release the draft model's cache for a task that has ended or will read its text again."""
        if self._draft_model is not None:
            self._draft_model.close(key)


class _ChoiceAnswer(NamedTuple, Generic[_Key]):
    """The answer to one of several pending requests.

    Attributes:
        was_read: whether the token equals the one that `PendingChoices.tokens` returned, which the model has read.
    """

    key: _Key
    answer: Answer | Exception
    was_read: bool


class PendingChoices(Generic[_Key]):
    """Choices that the device is still computing: one token for each of several sequences, and prepared choices.

    Attributes:
        prepared_tokens: after `wait`, the tokens of the prepared choices; None without prepared choices, and if the
            joint call failed.
        seconds_per_row: after `wait`, the mean computation time of a choice.
    """

    def __init__(
        self, requests: Sequence[tuple[_Key, Choose]], answers: Answers[_Key], launched_choices: LaunchedChoices
    ) -> None:
        self._requests, self._answers, self._launched_choices = requests, answers, launched_choices
        self._rows = {key: index for index, (key, _) in enumerate(requests)}
        self.prepared_tokens: PreparedTokens | None = None
        self.seconds_per_row = 0.0

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._rows)

    def tokens(self, keys: Sequence[_Key], indices: Sequence[int] = ()) -> Tensor:
        """The tokens of these sequences, then those of the prepared choices `indices`: int64 (keys + indices,), on
        their device. `wait` may return other tokens for a few."""
        tokens, first = self._launched_choices.tokens, len(self._requests)
        rows = [*(self._rows[key] for key in keys), *(first + index for index in indices)]
        return tokens[send(rows, torch.int64, tokens.device)]

    def wait(self) -> list[_ChoiceAnswer[_Key]]:
        """Wait for the answers to the requests. If the joint call failed, retry each request on its own."""
        launched_choices = self._launched_choices
        try:
            answers, rechosen_rows = launched_choices.wait(), launched_choices.rechosen_rows
        except Exception:
            retried = self._answers.answer_all(self._requests)
            return [_ChoiceAnswer(key, reply, False) for (key, _), reply in zip(self._requests, retried, strict=True)]
        self.prepared_tokens, self.seconds_per_row = launched_choices.prepared_tokens, launched_choices.seconds_per_row
        return [
            _ChoiceAnswer(key, reply, index not in rechosen_rows)
            for index, ((key, _), reply) in enumerate(zip(self._requests, answers, strict=True))
        ]
