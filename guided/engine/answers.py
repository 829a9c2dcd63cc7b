"""Answers the requests of a batch's sequences for tokens and drafts: one call for all requests of a kind.

In: pairs of a task and its request. Out: an `Answer` for each. kernels/choose.py chooses tokens. For drafts, the draft
model first reads the new tokens of all its sequences in one pass (draft_model.py).
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

__all__ = ["Answers", "Flight"]

_Key = TypeVar("_Key", bound=Hashable)


class Answers(Generic[_Key]):
    """See the module. `draft`: the draft model and its cache, if there is one."""

    def __init__(self, draft: ModelRunner | None) -> None:
        self._draft_model = None if draft is None else DraftModel[_Key](draft)

    def answer_all(self, requests: Sequence[tuple[_Key, Choose | Draft]]) -> list[Answer | Exception]:
        """One answer for each request, in order. If the joint call fails, each request gets a call of its own.
        If that call fails too, its error is the answer. A draft request then gets no draft."""
        try:
            return list(self._answer_together(requests))
        except Exception:
            return [self._answer_alone(*one) for one in requests]

    def launch(self, requests: Sequence[tuple[_Key, Choose]]) -> Flight[_Key] | None:
        """Start choosing one token for each request, without waiting. None: it failed; `answer_all` has the error."""
        try:
            return Flight(requests, self, launch([request for _, request in requests]))
        except Exception:
            return None

    def _answer_alone(self, key: _Key, request: Choose | Draft) -> Answer | Exception:
        try:
            return self._answer_together([(key, request)])[0]
        except Exception as error:
            self.forget(key)
            return NO_DRAFTS if isinstance(request, Draft) else error

    def _answer_together(self, requests: Sequence[tuple[_Key, Choose | Draft]]) -> list[Answer]:
        choices = {at: request for at, (_, request) in enumerate(requests) if isinstance(request, Choose)}
        drafts = {key: (at, request) for at, (key, request) in enumerate(requests) if isinstance(request, Draft)}
        if self._draft_model is not None and drafts:
            read = self._draft_model.logits({key: draft.ids for key, (_, draft) in drafts.items()})
            for key, rows in read.items():
                at, draft = drafts[key]
                choices[at] = Choose(rows.logits, [draft.choice], rows.first)
        answers = dict(zip(choices, answer(list(choices.values())), strict=True))
        return [answers.get(at, NO_DRAFTS) for at in range(len(requests))]

    def forget(self, key: _Key) -> None:
        """Close a task that has ended or will read its text again."""
        if self._draft_model is not None:
            self._draft_model.close(key)


class Landed(NamedTuple, Generic[_Key]):
    """The outcome of a choice.

    Attributes:
        is_read: the token equals the one that `Flight.tokens` returned.
    """

    key: _Key
    answer: Answer | Exception
    is_read: bool


class Flight(Generic[_Key]):
    """Choices in flight: one token for each of several sequences."""

    def __init__(
        self, requests: Sequence[tuple[_Key, Choose]], answers: Answers[_Key], launched: LaunchedChoices
    ) -> None:
        self._requests, self._answers, self._launched = requests, answers, launched
        self._places = {key: at for at, (key, _) in enumerate(requests)}

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._places)

    def tokens(self, keys: Sequence[_Key]) -> Tensor:
        """The tokens of these sequences, int64 (keys,), on their device. `land` may replace a few of them."""
        tokens = self._launched.tokens
        return tokens[send([self._places[key] for key in keys], torch.int64, tokens.device)]

    def land(self) -> list[Landed[_Key]]:
        """Wait for the answers. If the joint call failed, each request gets a call of its own."""
        try:
            answers, repeated = self._launched.wait(), self._launched.repeated
        except Exception:
            separate = self._answers.answer_all(self._requests)
            return [Landed(key, answer, False) for (key, _), answer in zip(self._requests, separate, strict=True)]
        return [
            Landed(key, answer, at not in repeated)
            for at, ((key, _), answer) in enumerate(zip(self._requests, answers, strict=True))
        ]
