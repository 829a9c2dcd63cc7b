"""Requests to /v1/completions. In: JSON. Out: engine requests. requests.py defines most of the fields.

A completion may begin with its prompt (`echo`, see echo.py), and may include the log probabilities of its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, cast

from pydantic import Field

from guided.engine.request import Options, Request
from guided.server.http.errors import RequestError
from guided.server.openai.requests import Count, Counts, TextRequest, remove_stops
from guided.server.openai.structured import StructuredOutput

__all__ = ["CompletionRequest"]

_MAX_PROMPTS = 1 << 16


class CompletionRequest(TextRequest):
    """A request to /v1/completions. `prompt`: a string, token ids, or a list of either."""

    prompt: (
        str
        | Annotated[list[str], Field(max_length=_MAX_PROMPTS, fail_fast=True)]
        | Counts
        | Annotated[list[Counts], Field(max_length=_MAX_PROMPTS, fail_fast=True)]
    )
    max_tokens: Count | None = None
    logprobs: Annotated[int, Field(ge=0, le=20, strict=True)] | None = None
    echo: bool | None = None
    suffix: None = None
    heal_prompt: bool | None = None
    best_of: Annotated[int, Field(ge=1, strict=True)] | None = None

    def prompts(self) -> Sequence[str | list[int]]:
        """All prompts of the request."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        ids = [item for item in self.prompt if isinstance(item, int)]
        return [ids] if ids else [item for item in self.prompt if not isinstance(item, int)]

    @property
    def top(self) -> int | None:
        """For each token, the number of other tokens whose log probabilities are reported; None: report none at all."""
        return self.logprobs

    @property
    def scores_prompts(self) -> bool:
        """Whether the engine computes log probabilities of the prompts. With `max_tokens` 0, it does nothing else."""
        return bool(self.echo) and (self.logprobs is not None or self.max_tokens == 0)

    def requests(self, structured: StructuredOutput, max_tokens: int) -> list[Request]:
        """One engine request for each prompt."""
        if self.best_of not in (None, self.n):
            raise RequestError("choosing the best of several answers is not supported: use n instead", param="best_of")
        if self.max_tokens == 0 and not self.echo:
            raise RequestError("max_tokens is 0, so there is no answer without echo=true", param="max_tokens")
        if self.echo and (self.heal_prompt or self.return_fields):
            name = "heal_prompt" if self.heal_prompt else "return_fields"
            message = (
                f"{name} cannot be combined with echo, because its positions do not count the prompt: omit one of them"
            )
            raise RequestError(message, param=name)
        if not self.prompts() or [] in self.prompts():
            raise RequestError("the prompt is empty: the model needs at least one token", param="prompt")
        token_limit = max_tokens if self.max_tokens is None else self.max_tokens
        options = self.options() | dict(structured.options) | {"max_tokens": token_limit, "raw": True}
        if structured.constraint is not None:
            options = remove_stops(options)
        if self.logprobs is not None:
            options |= {"logprobs": self.logprobs, "score_forced": True}
        if self.scores_prompts:
            options |= {"prompt_logprobs": self.logprobs or 0}
        if self.heal_prompt:
            if self.logprobs is not None:
                message = "heal_prompt cannot be combined with logprobs: the first tokens repeat the end of the prompt"
                raise RequestError(message, param="heal_prompt")
            options |= {"heal_prompt": True}
        engine_options = cast(Options, options)
        return [Request(prompt, structured.constraint, n=self.n, options=engine_options) for prompt in self.prompts()]
