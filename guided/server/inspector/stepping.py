"""Analyses one step of an output. In: a prompt, a specification, and the tokens written so far. Out: the mask and the
budget of the next token, and the most likely tokens before and after masking.

Nothing is kept between two requests: the matcher reads the tokens again. For a prompt that was just answered, the
model's keys and values are still in the cache. What is not in the cache is prefilled in chunks, and other requests run
in between.

The engine's own code computes the mask (`guided/engine/masks.py`), so it equals the mask with which the token was
chosen. Not taken into account: bias, penalties and temperature, which the sampler applies after the mask; reasoning;
tools.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf
from typing import Annotated, Any, Final, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from guided.engine import Engine
from guided.engine.masks import Masks
from guided.engine.request import Prompt
from guided.errors import BudgetError
from guided.matching import GrammarMatcher
from guided.sampling.choice import Choice
from guided.sampling.params import SamplingParams
from guided.sampling.reference_choice import apply_mask
from guided.sampling.sampler import log_mass
from guided.server.http.errors import RequestError
from guided.server.inspector.inspection import MAX_LENGTH, accept_prefix, compile_or_refuse
from guided.server.openai.requests import ConstraintFields, Message
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["CHUNK_TOKENS", "Step", "StepRequest", "token_fields"]

CHUNK_TOKENS: Final = 512
"""The number of tokens that the model reads in one call, while other requests wait."""
_RAMP: Final = 1.0  # the default of `Options.budget_ramp`
_Id = Annotated[int, Field(ge=0, strict=True)]


class StepRequest(ConstraintFields):
    """A prompt (a string or ids) or messages, a specification, and the tokens that were written after the prompt.

    `max_tokens`: the limit of the request that wrote these tokens; null: the rest of the model's context. `top`: the
    number of most likely tokens to list. `most`: the number of allowed tokens to list, in the order of their ids.
    """

    model: str | None = None
    prompt: str | Annotated[list[_Id], Field(fail_fast=True)] | None = None
    messages: Annotated[list[Message], Field(min_length=1, fail_fast=True)] | None = None
    tokens: Annotated[list[_Id], Field(fail_fast=True)] = Field(default_factory=list, max_length=MAX_LENGTH)
    max_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    top: Annotated[int, Field(ge=0, le=100, strict=True)] = 20
    most: Annotated[int, Field(ge=0, le=1000, strict=True)] = 100

    @model_validator(mode="after")
    def _check_prompt(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either a prompt or messages")
        return self


@dataclass(slots=True)
class Step:
    """A step whose input is ready for the model.

    Attributes:
        ids: the model's input: the prompt and the tokens after it.
        matcher: the matcher after the tokens; None: any text is allowed.
        max_tokens, tokens_left: the budget, and the rest of it.
        top, max_listed: see `top` and `most` of `StepRequest`.
    """

    ids: list[int]
    matcher: GrammarMatcher | None
    max_tokens: int
    tokens_left: int
    top: int
    max_listed: int

    @classmethod
    def prepare(cls, engine: Engine, request: StepRequest, *, allow_special_tokens: bool, seconds: float) -> Step:
        """Tokenize the prompt, compile the specification, and match the tokens. This blocks.

        Raises:
            RequestError, GuidedError: the prompt, the specification or the tokens are invalid.
        """
        specification = request.structured_output(allow_special_tokens=allow_special_tokens)
        grammar = compile_or_refuse(engine.compiler, specification, seconds)
        if request.messages is not None:
            messages: Prompt = [message.to_engine_message() for message in request.messages]
            ids = engine.encode_prompt(engine.describe_prompt(messages, grammar))
        else:
            ids = engine.encode_prompt(request.prompt or "", raw=True)
        context_left = engine.context - len(ids)
        token_limit = min(request.max_tokens or context_left, context_left)
        tokens_left = token_limit - len(request.tokens)
        if tokens_left < 0:
            message = f"{len(request.tokens)} tokens are written, but max_tokens allows only {token_limit}"
            raise RequestError(message, param="tokens")
        if grammar is None:
            size = engine.vocabulary.size
            if invalid_ids := [id for id in request.tokens if id >= size]:
                raise RequestError(f"tokens contains {invalid_ids[0]}, but ids are 0 to {size - 1}", param="tokens")
            return cls([*ids, *request.tokens], None, token_limit, tokens_left, request.top, request.most)
        if (min_tokens := GrammarMatcher(grammar).min_tokens_to_finish() - 1) > token_limit:
            raise (
                BudgetError(min_tokens, context_left, request.max_tokens or context_left)
                if context_left < min_tokens
                else BudgetError(min_tokens, token_limit)
            )
        matcher = accept_prefix(grammar, request.tokens, "tokens")
        return cls([*ids, *request.tokens], matcher, token_limit, tokens_left, request.top, request.most)

    @torch.inference_mode()
    def fields(self, logits: Tensor, vocabulary: Vocabulary) -> dict[str, Any]:
        """The JSON fields of the answer. `logits`: the logits after all ids, (vocab_size,).

        Raises:
            GuidedError: the tokens do not fit the budget.
        """
        raw_logits = logits.float().clone()
        fields: dict[str, Any] = {
            "ids": len(self.ids),
            "budget": {"max_tokens": self.max_tokens, "left": self.tokens_left},
        }
        if self.matcher is None:
            top = _list_most_likely_tokens(raw_logits, raw_logits, self.top, vocabulary)
            mask = {"allowed": vocabulary.size, "of": vocabulary.size, "tokens": [], "forced": []}
            removed_fields = {"mass": 0.0, "by_budget": 0.0}
            return fields | {"mask": mask, "before": top, "after": top, "removed": removed_fields, "state": None}
        masked_logits = logits.float().clone()
        masks = Masks(self.matcher, vocabulary, 1, [], ramp=_RAMP)
        masks.fill(self.tokens_left + 1)
        choice = Choice(SamplingParams(), 0, vocabulary.size, *masks.row())
        removed_mass, budget_mass = apply_mask(masked_logits, choice)
        allowed_ids: list[int] = (masked_logits[: vocabulary.size] > -inf).nonzero().flatten().tolist()
        fields["mask"] = {
            "allowed": len(allowed_ids),
            "of": vocabulary.size,
            "tokens": [token_fields(vocabulary, token) for token in allowed_ids[: self.max_listed]],
            "forced": [token_fields(vocabulary, token) for token in self.matcher.forced_tokens()],
        }
        fields["before"] = _list_most_likely_tokens(raw_logits, masked_logits, self.top, vocabulary)
        fields["after"] = _list_most_likely_tokens(masked_logits, masked_logits, self.top, vocabulary)
        fields["removed"] = {"mass": 1 - exp(-removed_mass), "by_budget": budget_mass or 0.0}
        min_tokens = max(0, self.matcher.min_tokens_to_finish() - 1)
        fields["budget"] |= {"needed": min_tokens, "bound": budget_mass is not None}
        fields["state"] = _describe_state(self.matcher)
        return fields


def token_fields(vocabulary: Vocabulary, token: int) -> dict[str, Any]:
    """A token for display: its id, its text, its bytes (null for a control token), and whether it ends the output."""
    data = vocabulary.token_bytes(token)
    name = vocabulary.special_tokens.get(token, f"id {token}")
    return {
        "id": token,
        "token": name if data is None else data.decode("utf-8", "replace"),
        "bytes": None if data is None else list(data),
        "end": token in vocabulary.eos_token_ids,
    }


def _list_most_likely_tokens(
    logits: Tensor, masked_logits: Tensor, count: int, vocabulary: Vocabulary
) -> list[dict[str, Any]]:
    """The most likely tokens by `logits`, and whether the mask of `masked_logits` allows them."""
    mass = log_mass(logits)
    values, ids = torch.topk(logits[: vocabulary.size], min(count, vocabulary.size))
    return [
        token_fields(vocabulary, id) | {"probability": exp(value - mass), "allowed": bool(masked_logits[id] > -inf)}
        for id, value in zip(ids.tolist(), values.tolist(), strict=True)
        if value > -inf
    ]


def _describe_state(matcher: GrammarMatcher) -> dict[str, Any]:
    """Describe the matcher's state: what may follow, and where in the specification it is."""
    explanation = matcher.explain()
    return {
        "expected": str(explanation.expected),
        "may_end": matcher.is_accepting(),
        "ended": matcher.is_terminated(),
        "places": [place or "(root)" for place in explanation.places],
        "positions": [position._asdict() for position in explanation.positions],
        "completion": explanation.completion.decode(errors="backslashreplace"),
    }
