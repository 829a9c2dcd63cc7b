"""Answers what the sequences of a batch ask for besides forward passes of the model, each kind in one call for all.

In: pairs of a task and its request. Out: an `Answer` for each. Tokens are chosen by kernels/choose.py. For drafts the
draft model first reads what is new in each of its sequences, in one pass (draft_model.py).
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
        """One answer for each request, in order. If the call for all of them fails, each request gets a call to itself.
        A request whose own call fails gets the error as its answer; a request for a draft then gets no draft."""
        try:
            return list(self._together(asking))
        except Exception:
            return [self._alone(*one) for one in asking]

    def launch(self, asking: Sequence[tuple[_Key, Choose]]) -> Flight[_Key] | None:
        """Begin to choose one token for each, and do not wait; None: that failed, and `to` says of what."""
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
            requests |= {drafts[key][0]: Choose(logits, [drafts[key][1].choice]) for key, logits in read.items()}
        found = dict(zip(requests, answer(list(requests.values())), strict=True))
        return [found.get(at, NO_DRAFTS) for at in range(len(asking))]

    def forget(self, key: _Key) -> None:
        """A task has ended, or reads its text again."""
        if self._draft_model is not None:
            self._draft_model.close(key)


class Landed(NamedTuple, Generic[_Key]):
    """What came of a choice.

    Attributes:
        is_read: the token is the one that `Flight.tokens` had.
    """

    key: _Key
    answer: Answer | Exception
    is_read: bool


class Flight(Generic[_Key]):
    """Choices of a batch that nobody has waited for: one token of each of some sequences."""

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
        """The tokens of these sequences, int64 (keys,), on their device. A few may turn out to be others."""
        tokens = self._launched.tokens
        return tokens[send([self._places[key] for key in keys], torch.int64, tokens.device)]

    def land(self) -> list[Landed[_Key]]:
        """Wait for the answers. If that fails, each request gets a call to itself."""
        try:
            answers, repeated = self._launched.wait(), self._launched.repeated
        except Exception:
            found = self._answers.to(self._asking)
            return [Landed(key, answer, False) for (key, _), answer in zip(self._asking, found, strict=True)]
        return [
            Landed(key, answer, at not in repeated)
            for at, ((key, _), answer) in enumerate(zip(self._asking, answers, strict=True))
        ]
