"""Builds the bodies of answers, as OpenAI's client reads them. In: deltas, and `SampleReader`s. Out: dicts for JSON.

Fields in addition to OpenAI's:

    answer          `warnings` (warnings.py)
    choice          `stop_reason`: what ended it, as in vLLM; `budget_bound`, if the budget affected it; `captures`
                    `healed`: the end of the prompt that its first tokens repeat
                    `partial` in chunks, if requested (`SampleReader.partial`)
                    `token_ids`, as in vLLM, and `tokens`, with `return_token_ids`
                    `fields`, with `return_fields`: how sure the model was of each value (`guided.engine.fields.Field`)
    message, delta  `reasoning`, and the same text in `reasoning_content`, the name that older clients use
                    `tool_results`: the results of the server's own tools

`tokens` contains each token's text, its bytes, and whether it was forced. `token_ids` and `tokens` cover the text, and
the reasoning if the answer shows it, but not an echoed prompt (echo.py). Log probabilities cover only the text.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, Literal

from guided.engine.result import Result, StreamEvent
from guided.server.openai.attribution import ShownToken
from guided.server.openai.deltas import (
    CallArguments,
    CallBegin,
    Delta,
    ReasoningDelta,
    SampleReader,
    TextDelta,
    ToolResult,
)
from guided.server.openai.scores import format_chat_logprobs, format_text_logprobs, token_fields
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Answer", "count_usage", "make_extension_fields"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The data that all chunks of an answer share.

    Attributes:
        is_chat: whether the answer is a chat message, not a completion.
        model: the model's name.
        vocabulary: decodes tokens.
        top: for each token, the number of other tokens whose log probabilities are reported; None if not requested.
        has_token_ids: whether the answer includes the tokens.
        has_fields: whether the answer includes the fields of the text or of the calls (`Result.fields`,
            `Result.call_fields`).
    """

    is_chat: bool
    model: str
    vocabulary: Vocabulary
    top: int | None = None
    has_token_ids: bool = False
    has_fields: bool = False
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    def body(self, groups: Sequence[Sequence[SampleReader]]) -> dict[str, Any]:
        """The whole answer. `groups`: the samples of each prompt."""
        choices = [self._format_choice(number, reader) for number, reader in enumerate(chain.from_iterable(groups))]
        return self._make_response_fields("") | {"choices": choices, "usage": count_usage(groups)}

    def begin(self, number: int, reader: SampleReader) -> dict[str, Any]:
        """The first chunk of a chat answer, with the role. With tools, the content is null, since it may stay empty."""
        delta = {"role": "assistant", "content": "" if reader.options.make_call_reader is None else None}
        choice = {"index": number, "delta": delta, "logprobs": None, "finish_reason": None}
        return self._make_response_fields("chunk") | {"choices": [choice]}

    def chunks(
        self, number: int, event: StreamEvent, deltas: Sequence[Delta], reader: SampleReader
    ) -> Iterable[dict[str, Any]]:
        """The chunks for one event. Its last chunk has the finish reason and the log probabilities."""
        parts = [_format_delta(delta) if self.is_chat else {"text": _get_delta_text(delta)} for delta in deltas]
        tokens = reader.new_tokens
        has_tokens = tokens and (self.top is not None or self.has_token_ids)
        if not parts and (event.result is not None or has_tokens):
            parts = [{"text": ""} if not self.is_chat else {"content": ""} if reader.is_empty else {}]
        for part_number, part in enumerate(parts):
            is_last = part_number == len(parts) - 1
            choice: dict[str, Any] = {"index": number, "logprobs": None, "finish_reason": None}
            choice |= {"delta": part} if self.is_chat else part
            if is_last:
                choice["logprobs"] = self._format_logprobs(tokens, reader)
                choice |= self._format_tokens(tokens)
                choice |= self._make_end_fields(reader)
                if reader.partial is not None:
                    choice["partial"] = reader.partial
            yield self._make_response_fields("chunk") | {"choices": [choice]}

    def usage(self, groups: Sequence[Sequence[SampleReader]]) -> dict[str, Any]:
        """The last chunk of a stream, if usage is requested."""
        return self._make_response_fields("chunk") | {"choices": [], "usage": count_usage(groups)}

    def _make_response_fields(self, suffix: Literal["", "chunk"]) -> dict[str, Any]:
        kind = "chat.completion" + (".chunk" if suffix else "") if self.is_chat else "text_completion"
        prefix = "chatcmpl" if self.is_chat else "cmpl"
        return {"id": f"{prefix}-{self.id}", "object": kind, "created": self.created, "model": self.model}

    def _format_choice(self, number: int, reader: SampleReader) -> dict[str, Any]:
        result = reader.result
        assert result is not None
        choice = {
            "index": number,
            "logprobs": self._format_logprobs(reader.tokens, reader),
            **self._make_end_fields(reader),
        }
        choice |= self._format_tokens(reader.tokens)
        if not self.is_chat:
            return choice | {"text": reader.text}
        message: dict[str, Any] = {"role": "assistant", "content": reader.text, "refusal": None}
        if reader.reasoning:
            message |= {"reasoning": reader.reasoning, "reasoning_content": reader.reasoning}
        if reader.calls:
            message["content"] = reader.text or None
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in reader.calls
            ]
        if reader.tool_results:
            message["tool_results"] = [_format_result(result) for result in reader.tool_results]
        return choice | {"message": message}

    def _format_tokens(self, tokens: Sequence[ShownToken]) -> dict[str, Any]:
        if not self.has_token_ids:
            return {}
        tokens = [token for token in tokens if not token.is_prompt]
        fields = [token_fields(token.id, self.vocabulary) | {"forced": token.is_forced} for token in tokens]
        return {"token_ids": [token.id for token in tokens], "tokens": fields}

    def _format_logprobs(self, tokens: Sequence[ShownToken], reader: SampleReader) -> dict[str, Any] | None:
        if self.top is None:
            return None
        text_tokens = [token for token in tokens if token.is_text]
        if self.is_chat:
            return format_chat_logprobs(text_tokens, self.vocabulary)
        return format_text_logprobs(text_tokens, reader.offsets, self.vocabulary)

    def _make_end_fields(self, reader: SampleReader) -> dict[str, Any]:
        result: Result | None = reader.result
        end_fields: dict[str, Any] = {"finish_reason": reader.finish_reason}
        if result is None:
            return end_fields
        if self.has_fields:
            make_call_reader = reader.options.make_call_reader if reader.calls else None
            fields = result.fields if make_call_reader is None else result.call_fields(make_call_reader())
            end_fields["fields"] = {name: asdict(field) for name, field in fields.items()}
        return end_fields | make_extension_fields(result)


def count_usage(groups: Sequence[Sequence[SampleReader]]) -> dict[str, Any]:
    """The numbers of tokens read and written, including reasoning. A prompt counts only once for all its samples."""
    results_by_prompt = [[reader.result for reader in group if reader.result is not None] for group in groups]
    prompt_tokens = sum(results[0].prompt_tokens for results in results_by_prompt if results)
    completion_tokens = sum(len(result.tokens) for result in chain.from_iterable(results_by_prompt))
    usage: dict[str, Any] = {
        "prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }  # fmt: skip
    readers = [reader for group in groups for reader in group]
    if any(reader.options.begins_with_reasoning for reader in readers):
        reasoning_tokens = sum(reader.reasoning_tokens for reader in readers)
        usage["completion_tokens_details"] = {"reasoning_tokens": reasoning_tokens}
    return usage


def _format_delta(delta: Delta) -> dict[str, Any]:
    match delta:
        case TextDelta(text):
            return {"content": text}
        case ReasoningDelta(text):
            return {"reasoning": text, "reasoning_content": text}
        case CallBegin(index, id, name):
            return {
                "tool_calls": [
                    {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
                ]
            }
        case CallArguments(index, text):
            return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
        case ToolResult():
            return {"tool_results": [_format_result(delta)]}


def _format_result(call: ToolResult) -> dict[str, Any]:
    return {"index": call.index, "name": call.name, "arguments": call.arguments, "result": call.result}


def _get_delta_text(delta: Delta) -> str:
    return delta.text if isinstance(delta, TextDelta) else ""


def make_extension_fields(result: Result) -> dict[str, Any]:
    """The fields at the end of an answer that OpenAI's API does not have; see the module docstring."""
    fields: dict[str, Any] = {"stop_reason": result.stop}
    if result.budget_bound.steps:
        fields["budget_bound"] = {"steps": result.budget_bound.steps, "mass": result.budget_bound.mass}
    if result.healed:
        fields["healed"] = result.healed
    if result.captures:
        fields["captures"] = result.captures
    return fields
