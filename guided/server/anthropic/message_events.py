"""Builds the answers of /v1/messages. In: the stream of a request. Out: events in Anthropic's order, or the message.

    message_start
    for each block:  content_block_start, content_block_delta ..., content_block_stop
        text              text_delta
        thinking          thinking_delta, at its end signature_delta
        tool_use          input_json_delta
    message_delta, with the stop reason and the usage
    message_stop; or error if the request fails; ping while no token arrives

| stop_reason | when |
|---|---|
| `tool_use` | the answer contains calls, and all of them are complete |
| `max_tokens` | the budget ended an answer that could have continued |
| `stop_sequence` | one of the `stop_sequences` ended the text; the field `stop_sequence` says which |
| `end_turn` | otherwise |

The message is built from the same events, so a stream and a whole answer have the same content. Inputs of calls are
copied as the model wrote them: parsing would change numbers that Python's floats cannot represent. Thinking is not
signed, but clients need a signature to send it back, so the signature is always "unsigned". In addition to Anthropic's
fields, a message may have `warnings` (warnings.py). Cached tokens are reported as 0.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from guided.engine.result import StreamEvent
from guided.server.anthropic.errors import anthropic_error
from guided.server.http.errors import find_status, make_error_body
from guided.server.openai.attribution import ShownToken
from guided.server.openai.deltas import CallArguments, CallBegin, Delta, ReasoningDelta, SampleReader, TextDelta
from guided.server.openai.streaming import format_sse

__all__ = ["MessageEvents"]

_Json = dict[str, Any]
_SIGNATURE: Final = "unsigned"
_BLOCK_ID: Final = re.compile("[a-zA-Z0-9_-]+")
_EMPTY: Final[Mapping[str, _Json]] = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}
"""Type of a block -> the members of an empty block."""
_DELTAS: Final = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}
"""Type of a block -> the type of its deltas, and the name of the member that contains the text."""


class MessageEvents:
    """The events of one message.

    Attributes:
        message: the message so far. In its content, the input of a call is JSON text.
        keep_alive: what a stream sends while no token arrives.
    """

    keep_alive = format_sse({"type": "ping"}, "ping")

    def __init__(
        self,
        model: str,
        prompt_tokens: int,
        *,
        request_id: str,
        shows_thinking: bool = True,
        warnings: Sequence[_Json] = (),
    ) -> None:
        """
        Args:
            model: the model's name.
            prompt_tokens: the number of tokens of the prompt.
            request_id: the request's id, for errors.
            shows_thinking: whether thinking blocks contain the text of the reasoning.
            warnings: the warnings in the answer.
        """
        self._request_id, self._shows_thinking = request_id, shows_thinking
        self._content = list[_Json]()
        self._pieces = list[str]()  # the pieces of the open block's text
        self._kind = ""  # the type of the open block; "": no block is open
        self.message: _Json = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _make_usage(prompt_tokens, 0) | {"service_tier": "standard"},
            **({"warnings": list(warnings)} if warnings else {}),
        }

    def begin(self) -> Iterator[_Json]:
        """The events before the first token."""
        yield {"type": "message_start", "message": dict(self.message)}
        self.message["content"] = self._content

    def read(self, event: StreamEvent, deltas: Sequence[Delta], tokens: Sequence[ShownToken]) -> Iterator[_Json]:
        """The events for one engine event, which a `SampleReader` has turned into `deltas`. `tokens` is not used."""
        if event.reasoning and event.result is None and not self._shows_thinking and self._kind != "thinking":
            yield from self._begin_block("thinking", **_EMPTY["thinking"])
        for delta in deltas:
            match delta:
                case ReasoningDelta(text):
                    yield from self._extend_block("thinking", text)
                case TextDelta(text):
                    yield from self._extend_block("text", text)
                case CallBegin(_, id, name):
                    yield from self._begin_block("tool_use", id=_make_block_id(id), name=name, input={})
                case CallArguments(_, text):
                    yield from self._extend_block("tool_use", text)

    def end(self, reader: SampleReader) -> Iterator[_Json]:
        """The events after the last token."""
        result = reader.result
        assert result is not None
        yield from self._end_block()
        reason = _find_stop_reason(reader)
        delta = {"stop_reason": reason, "stop_sequence": result.stop if reason == "stop_sequence" else None}
        usage = _make_usage(result.prompt_tokens, len(result.tokens))
        if reader.options.begins_with_reasoning:
            usage["output_tokens_details"] = {"thinking_tokens": reader.reasoning_tokens}
        self.message |= delta | {"usage": self.message["usage"] | usage}
        yield {"type": "message_delta", "delta": delta, "usage": usage}
        yield {"type": "message_stop"}

    def fail(self, error: Exception) -> Iterator[_Json]:
        """The event for an error."""
        yield anthropic_error(find_status(error), make_error_body(error), self._request_id)[1]

    def text(self) -> str:
        """The complete message as JSON text. Call it after the last event."""
        return _dump_with_member(self.message, "content", f"[{','.join(map(_dump_block, self._content))}]")

    # ---- blocks
    def _extend_block(self, kind: str, text: str) -> Iterator[_Json]:
        if self._kind != kind:
            yield from self._begin_block(kind, **_EMPTY[kind])
        self._pieces.append(text)
        type, member = _DELTAS[kind]
        yield self._make_delta({"type": type, member: text})

    def _begin_block(self, kind: str, **members: Any) -> Iterator[_Json]:
        """End the open block, if there is one, and begin a new one."""
        yield from self._end_block()
        self._content.append({"type": kind, **members})
        self._kind, self._pieces = kind, []
        block = dict(self._content[-1])
        yield {"type": "content_block_start", "index": len(self._content) - 1, "content_block": block}

    def _end_block(self) -> Iterator[_Json]:
        """End the open block, if there is one."""
        if not self._kind:
            return
        text, block = "".join(self._pieces), self._content[-1]
        if self._kind == "tool_use":
            block["input"] = text
        else:
            block[self._kind] = text
        if self._kind == "thinking":
            block["signature"] = _SIGNATURE
            yield self._make_delta({"type": "signature_delta", "signature": _SIGNATURE})
        self._kind = ""
        yield {"type": "content_block_stop", "index": len(self._content) - 1}

    def _make_delta(self, delta: _Json) -> _Json:
        return {"type": "content_block_delta", "index": len(self._content) - 1, "delta": delta}


def _make_block_id(id: str) -> str:
    """The id of a call for Anthropic's clients.

    Their API takes letters, digits, _ and - only, so a conversation with other ids, such as `functions.f:0`, could not
    continue there. The chat template's ids do not depend on the new id (call_pairing.py).
    """
    if _BLOCK_ID.fullmatch(id):
        return f"toolu_{id.removeprefix('call_')}" if id.startswith("call_") else id
    return f"toolu_{secrets.token_hex(12)}"


def _find_stop_reason(reader: SampleReader) -> str:
    """See the module docstring."""
    assert reader.result is not None
    if reader.finish_reason == "length":
        return "max_tokens"
    if reader.calls:
        return "tool_use"
    return "stop_sequence" if isinstance(reader.result.stop, str) else "end_turn"


def _make_usage(prompt_tokens: int, output_tokens: int) -> _Json:
    cache_usage = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {"input_tokens": prompt_tokens, **cache_usage, "output_tokens": output_tokens}


def _dump_block(block: _Json) -> str:
    return _dump_with_member(block, "input", block["input"]) if block["type"] == "tool_use" else _dump(block)


def _dump_with_member(value: _Json, name: str, text: str) -> str:
    """The JSON text of an object in which the member `name` has the JSON text `text`."""
    other_members = _dump({key: inner for key, inner in value.items() if key != name})
    return f'{other_members[:-1]},"{name}":{text}}}'


def _dump(value: _Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
