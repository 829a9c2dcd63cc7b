"""Fields that are accepted only with the value that describes what the server does anyway.

OpenAI's clients, frameworks and vLLM's clients send these fields with each request. That value and null are accepted.
Any other value asks for an unsupported feature, and is refused with the reason and a hint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from guided.errors import brief

__all__ = ["IgnoredFields", "IgnoredInConversations"]


@dataclass(frozen=True, slots=True)
class _Only:
    """The values that a field may have, and why other values are refused."""

    values: tuple[Any, ...]
    why: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"enum": [*self.values, None]}

    def _checked(self, value: Any) -> Any:
        if any(type(value) is type(known) and value == known for known in self.values):
            return value
        known = " or ".join(brief(known) for known in self.values)
        raise ValueError(f"{brief(value)} is not done: {self.why}; leave it out, or write {known}")


_NO_TEMPLATE = "the operator of the server has chosen how conversations are written"


class IgnoredFields(BaseModel):
    """Fields of all requests for text."""

    skip_special_tokens: Annotated[Any, _Only((True,), "control tokens are no part of a text")] = None
    spaces_between_special_tokens: Annotated[Any, _Only((True, False), "a text has no control tokens")] = None
    use_beam_search: Annotated[Any, _Only((False,), "tokens are sampled, or the most likely ones taken")] = None
    length_penalty: Annotated[Any, _Only((1, 1.0), "it belongs to beams, which are not searched")] = None
    early_stopping: Annotated[Any, _Only((False,), "it belongs to beams, which are not searched")] = None
    bad_words: Annotated[Any, _Only(([],), "logit_bias with -100 bars tokens, and a regex bars words")] = None
    prompt_logprobs: Annotated[Any, _Only((0, False), "the prompt is not scored")] = None
    truncate_prompt_tokens: Annotated[Any, _Only((-1,), "a prompt that is too long is refused, and never cut")] = None
    return_tokens_as_token_ids: Annotated[Any, _Only((False,), "return_token_ids=true gives the ids")] = None
    logits_processors: Annotated[Any, _Only(([],), "a request runs no code of its own")] = None


class IgnoredInConversations(IgnoredFields):
    """Fields of chat requests."""

    modalities: Annotated[Any, _Only((["text"],), "an answer is a text")] = None
    audio: Annotated[Any, _Only((), "an answer is a text")] = None
    prediction: Annotated[Any, _Only((), "no text can be foretold; drafts come from the prompt")] = None
    web_search_options: Annotated[Any, _Only((), "nothing is searched")] = None
    moderation: Annotated[Any, _Only((), "no text is judged")] = None
    verbosity: Annotated[Any, _Only(("medium",), "max_tokens bounds how long an answer is")] = None
    functions: Annotated[Any, _Only(([],), 'write tools=[{"type": "function", "function": {...}}]')] = None
    function_call: Annotated[
        Any, _Only(("none",), 'write tool_choice="none", "auto" or {"type": "function", "function": {"name": ...}}')
    ] = None
    echo: Annotated[Any, _Only((False,), "the prompt is not given back")] = None
    add_special_tokens: Annotated[Any, _Only((False,), "the template of conversations has those that belong there")] = (
        None
    )
    chat_template: Annotated[Any, _Only((), _NO_TEMPLATE)] = None
    mm_processor_kwargs: Annotated[Any, _Only(({},), "messages are text")] = None
