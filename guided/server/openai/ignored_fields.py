"""Fields whose only accepted values describe what the server does anyway.

OpenAI's clients, vLLM's clients and frameworks send these fields with each request. Null is also accepted. Any other
value requests an unsupported feature, and is refused with the reason and a hint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from guided.errors import brief

__all__ = ["AllowedValues", "IgnoredFields", "IgnoredInConversations"]


@dataclass(frozen=True, slots=True)
class AllowedValues:
    """The values, in addition to null, that a field may have, and the reason why other values are refused."""

    values: tuple[Any, ...]
    reason: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"enum": [*self.values, None]}

    def _check(self, value: Any) -> Any:
        if value is None or any(
            type(value) is type(allowed_value) and value == allowed_value for allowed_value in self.values
        ):
            return value
        advice = " or ".join(["; leave it out", *(f"write {brief(allowed_value)}" for allowed_value in self.values)])
        raise ValueError(f"{brief(value)} is not supported: {self.reason}{advice}")


_NO_TEMPLATE = "only the operator of the server chooses the chat template"
_NO_BEAMS = "there is no beam search"


class IgnoredFields(BaseModel):
    """Fields of all requests that generate text."""

    skip_special_tokens: Annotated[Any, AllowedValues((True,), "control tokens are not part of the text")] = None
    spaces_between_special_tokens: Annotated[Any, AllowedValues((True, False), "the text has no control tokens")] = None
    use_beam_search: Annotated[Any, AllowedValues((False,), _NO_BEAMS)] = None
    length_penalty: Annotated[Any, AllowedValues((1, 1.0), _NO_BEAMS)] = None
    early_stopping: Annotated[Any, AllowedValues((False,), _NO_BEAMS)] = None
    bad_words: Annotated[
        Any, AllowedValues(([],), "logit_bias with -100 forbids tokens, and a regex forbids words")
    ] = None
    prompt_logprobs: Annotated[
        Any, AllowedValues((0, False), "echo=true with logprobs scores the prompt of a completion")
    ] = None
    truncate_prompt_tokens: Annotated[
        Any, AllowedValues((-1,), "a prompt that is too long is refused, not truncated")
    ] = None
    return_tokens_as_token_ids: Annotated[Any, AllowedValues((False,), "return_token_ids=true gives the ids")] = None
    logits_processors: Annotated[Any, AllowedValues(([],), "requests cannot run code on the server")] = None


class IgnoredInConversations(IgnoredFields):
    """Fields of chat requests."""

    modalities: Annotated[Any, AllowedValues((["text"],), "answers are text only")] = None
    audio: Annotated[Any, AllowedValues((), "answers are text only")] = None
    prediction: Annotated[Any, AllowedValues((), "drafts come from the prompt")] = None
    web_search_options: Annotated[Any, AllowedValues((), "the server does not search the web")] = None
    moderation: Annotated[Any, AllowedValues((), "the server does not moderate text")] = None
    verbosity: Annotated[Any, AllowedValues(("medium",), "max_tokens limits the length of an answer")] = None
    functions: Annotated[Any, AllowedValues(([],), 'write tools=[{"type": "function", "function": {...}}]')] = None
    function_call: Annotated[
        Any,
        AllowedValues(("none",), 'write tool_choice="none", "auto" or {"type": "function", "function": {"name": ...}}'),
    ] = None
    echo: Annotated[Any, AllowedValues((False,), "answers do not repeat the prompt")] = None
    add_special_tokens: Annotated[Any, AllowedValues((False,), "the chat template adds the special tokens")] = None
    chat_template: Annotated[Any, AllowedValues((), _NO_TEMPLATE)] = None
    mm_processor_kwargs: Annotated[Any, AllowedValues(({},), "messages are text only")] = None
