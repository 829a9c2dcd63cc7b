"""Fields that are accepted only with the value that describes what the server does anyway.

OpenAI's clients, frameworks and vLLM's clients send these fields with each request. That value and null are accepted.
Any other value requests an unsupported feature, and is refused with the reason and a hint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from guided.errors import brief

__all__ = ["IgnoredFields", "IgnoredInConversations", "Only"]


@dataclass(frozen=True, slots=True)
class Only:
    """The values that a field may have in addition to null, and the reason why other values are refused."""

    values: tuple[Any, ...]
    why: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"enum": [*self.values, None]}

    def _check(self, value: Any) -> Any:
        if value is None or any(type(value) is type(accepted) and value == accepted for accepted in self.values):
            return value
        advice = " or ".join(["; leave it out", *(f"write {brief(advice)}" for advice in self.values)])
        raise ValueError(f"{brief(value)} is not supported: {self.why}{advice}")


_NO_TEMPLATE = "only the operator of the server chooses the chat template"
_NO_BEAMS = "there is no beam search"


class IgnoredFields(BaseModel):
    """Fields of all requests for text."""

    skip_special_tokens: Annotated[Any, Only((True,), "control tokens are not part of the text")] = None
    spaces_between_special_tokens: Annotated[Any, Only((True, False), "the text has no control tokens")] = None
    use_beam_search: Annotated[Any, Only((False,), _NO_BEAMS)] = None
    length_penalty: Annotated[Any, Only((1, 1.0), _NO_BEAMS)] = None
    early_stopping: Annotated[Any, Only((False,), _NO_BEAMS)] = None
    bad_words: Annotated[Any, Only(([],), "logit_bias with -100 forbids tokens, and a regex forbids words")] = None
    prompt_logprobs: Annotated[Any, Only((0, False), "echo=true with logprobs scores the prompt of a completion")] = (
        None
    )
    truncate_prompt_tokens: Annotated[Any, Only((-1,), "a prompt that is too long is refused, not truncated")] = None
    return_tokens_as_token_ids: Annotated[Any, Only((False,), "return_token_ids=true gives the ids")] = None
    logits_processors: Annotated[Any, Only(([],), "requests cannot run code on the server")] = None


class IgnoredInConversations(IgnoredFields):
    """Fields of chat requests."""

    modalities: Annotated[Any, Only((["text"],), "answers are text only")] = None
    audio: Annotated[Any, Only((), "answers are text only")] = None
    prediction: Annotated[Any, Only((), "drafts come from the prompt")] = None
    web_search_options: Annotated[Any, Only((), "the server does not search the web")] = None
    moderation: Annotated[Any, Only((), "the server does not moderate text")] = None
    verbosity: Annotated[Any, Only(("medium",), "max_tokens limits the length of an answer")] = None
    functions: Annotated[Any, Only(([],), 'write tools=[{"type": "function", "function": {...}}]')] = None
    function_call: Annotated[
        Any, Only(("none",), 'write tool_choice="none", "auto" or {"type": "function", "function": {"name": ...}}')
    ] = None
    echo: Annotated[Any, Only((False,), "answers do not repeat the prompt")] = None
    add_special_tokens: Annotated[Any, Only((False,), "the chat template adds the special tokens")] = None
    chat_template: Annotated[Any, Only((), _NO_TEMPLATE)] = None
    mm_processor_kwargs: Annotated[Any, Only(({},), "messages are text only")] = None
