"""Answers the requests of a batch's sequences for tokens and drafts: one call for all requests of a kind.

In: pairs of a task and its request. Out: an `Answer` for each. kernels/choose.py chooses tokens. For drafts, the draft
model first reads the new tokens of all its sequences in one pass (draft_model.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from guided.engine.asking import NO_DRAFTS, Draft
from guided.engine.draft_model import DraftModel
from guided.engine.runner import ModelRunner
from guided.kernels.choose import LaunchedChoices, answer, launch
from guided.kernels.transfer import send
from guided.sampling.choice import Answer, Choose

__all__ = ["Answers", "Flight"]

_Key = TypeVar("_Key", bound=Hashable)


class Answers(Generic[_Key]):
    """See the module. `draft`: the draft model and its cache, if there is one."""

    def __init__(self, draft: ModelRunner | None) -> None:
        self._draft_model = None if draft is None else DraftModel[_Key](draft)

    def to(self, asking: Sequence[tuple[_Key, Choose | Draft]]) -> list[Answer | Exception]:
        """One answer for each request, in order. If the joint call fails, each request gets a call of its own.
        If that call fails too, its error is the answer. A draft request then gets no draft."""
        try:
            return list(self._together(asking))
        except Exception:
            return [self._alone(*one) for one in asking]

    def launch(self, asking: Sequence[tuple[_Key, Choose]]) -> Flight[_Key] | None:
        """Start choosing one token for each request, without waiting. None: this failed, and `to` returns the error."""
        try:
            return Flight(asking, self, launch([request for _, request in asking]))
        except Exception:
            return None

    def _alone(self, key: _Key, request: Choose | Draft) -> Answer | Exception:
        try:
            return self._together([(key, request)])[0]
        except Exception as error:
            self.forget(key)
            return NO_DRAFTS if isinstance(request, Draft) else error

    def _together(self, asking: Sequence[tuple[_Key, Choose | Draft]]) -> list[Answer]:
        requests = {at: request for at, (_, request) in enumerate(asking) if isinstance(request, Choose)}
        drafts = {key: (at, request) for at, (key, request) in enumerate(asking) if isinstance(request, Draft)}
        if self._draft_model is not None and drafts:
            read = self._draft_model.logits({key: draft.ids for key, (_, draft) in drafts.items()})
            for key, rows in read.items():
                at, draft = drafts[key]
                requests[at] = Choose(rows.logits, [draft.choice], rows.first)
        found = dict(zip(requests, answer(list(requests.values())), strict=True))
        return [found.get(at, NO_DRAFTS) for at in range(len(asking))]

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
        self, asking: Sequence[tuple[_Key, Choose]], answers: Answers[_Key], launched: LaunchedChoices
    ) -> None:
        self._asking, self._answers, self._launched = asking, answers, launched
        self._places = {key: at for at, (key, _) in enumerate(asking)}

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
            found = self._answers.to(self._asking)
            return [Landed(key, answer, False) for (key, _), answer in zip(self._asking, found, strict=True)]
        return [
            Landed(key, answer, at not in repeated)
            for at, ((key, _), answer) in enumerate(zip(self._asking, answers, strict=True))
        ]
