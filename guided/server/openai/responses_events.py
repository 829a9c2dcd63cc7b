"""Builds the answers of /v1/responses. In: the stream of a request. Out: events in OpenAI's order.

    created, in_progress
    for each item:  output_item.added
        message         content_part.added, output_text.delta ..., output_text.done, content_part.done
        reasoning       content_part.added, reasoning_text.delta ..., reasoning_text.done, content_part.done
        function_call   function_call_arguments.delta ..., function_call_arguments.done
    output_item.done
    completed; or incomplete if max_output_tokens cut the response off; or error and failed

The last event of a stream contains the whole response, so a stream and a whole response have the same content. In
addition to OpenAI's fields, a response has `store`, which is false, and the fields of `make_extension_fields`
(answers.py). `cached_tokens` is always 0, because cached tokens are not counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from guided.engine.result import Result, StreamEvent
from guided.server.http.errors import find_status, make_error_body
from guided.server.openai.answers import Answer, make_extension_fields
from guided.server.openai.attribution import ShownToken
from guided.server.openai.deltas import CallArguments, CallBegin, Delta, ReasoningDelta, SampleReader, TextDelta
from guided.server.openai.scores import format_chat_logprobs
from guided.server.openai.streaming import KEEP_ALIVE

__all__ = ["ResponseEvents"]

_Json = dict[str, Any]
_PREFIXES: Final = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_PARTS: Final = {"message": "output_text", "reasoning": "reasoning_text", "function_call": "function_call_arguments"}


class ResponseEvents:
    """The events of one response.

    Attributes:
        answer: a chat answer; the response has its model, id and time.
        echoed_fields: the fields of the request that the response repeats.
        output: the items so far.
        keep_alive: what a stream sends while no token arrives.
    """

    keep_alive = KEEP_ALIVE

    def __init__(self, answer: Answer, echoed_fields: Mapping[str, Any]) -> None:
        self.answer, self.echoed_fields, self.output = answer, echoed_fields, list[_Json]()
        self._number = 0  # the number of the next event
        self._kind = ""  # the kind of the open item; "": no item is open
        self._pieces = list[str]()  # the pieces of the open item's text
        self._call = -1  # the number of the open call
        self._waiting_tokens = list[ShownToken]()  # text tokens that are not in a delta yet
        self._scored_tokens = list[ShownToken]()  # text tokens of the open message
        self._reasoning_tokens = 0

    def begin(self) -> Iterator[_Json]:
        """The events before the first token."""
        yield self._make_event("response.created", response=self._make_response("in_progress"))
        yield self._make_event("response.in_progress", response=self._make_response("in_progress"))

    def read(self, event: StreamEvent, deltas: Sequence[Delta], tokens: Sequence[ShownToken]) -> Iterator[_Json]:
        """The events for one engine event, which a `SampleReader` has turned into `deltas` and new `tokens`."""
        if event.reasoning and event.result is None:
            self._reasoning_tokens += len(event.tokens)
        self._waiting_tokens += [token for token in tokens if token.is_text]
        last_text = next((delta for delta in reversed(deltas) if isinstance(delta, TextDelta)), None)
        for delta in deltas:
            match delta:
                case ReasoningDelta(text):
                    yield from self._extend_item("reasoning", text)
                case TextDelta(text):
                    if self._kind != "message":
                        yield from self._begin_item("message")
                    scored_tokens = self._take_waiting_tokens() if delta is last_text else []
                    yield from self._extend_item("message", text, logprobs=self._format_logprobs(scored_tokens))
                case CallBegin(index, id, name):
                    yield from self._begin_item("function_call", call_id=id, name=name, arguments="")
                    self._call = index
                case CallArguments(index, text):
                    assert self._kind == "function_call" and self._call == index, "calls are written one by one"
                    yield from self._extend_item("function_call", text)

    def end(self, reader: SampleReader) -> Iterator[_Json]:
        """The events after the last token."""
        result = reader.result
        assert result is not None
        is_cut = reader.finish_reason == "length"
        status = "incomplete" if is_cut else "completed"
        if not self.output:
            yield from self._begin_item("message")
        self._take_waiting_tokens()
        yield from self._end_item(status)
        response = self._make_response(status) | make_extension_fields(result) | {"usage": self._make_usage(result)}
        if is_cut:
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        else:
            response["completed_at"] = int(time.time())
        yield self._make_event(f"response.{status}", response=response)

    def fail(self, error: Exception) -> Iterator[_Json]:
        """The events for an error, after the events of `begin`."""
        error_fields = make_error_body(error)["error"]
        yield self._make_event(
            "error", code=error_fields["code"], message=error_fields["message"], param=error_fields["param"]
        )
        response_error = {
            "code": "server_error" if find_status(error) >= 500 else "invalid_prompt",
            "message": error_fields["message"],
        }
        yield self._make_event("response.failed", response=self._make_response("failed") | {"error": response_error})

    # ---- items
    def _extend_item(self, kind: str, text: str, **fields: Any) -> Iterator[_Json]:
        if self._kind != kind:
            yield from self._begin_item(kind)
        self._pieces.append(text)
        yield self._make_part_event("delta", delta=text, **fields)

    def _begin_item(self, kind: str, **fields: Any) -> Iterator[_Json]:
        """End the open item, if there is one, and begin a new one."""
        yield from self._end_item("completed")
        id = f"{_PREFIXES[kind]}_{self.answer.id}{len(self.output)}"
        item: _Json = {"id": id, "type": kind, "status": "in_progress", **fields}
        if kind == "message":
            item |= {"role": "assistant", "content": []}
        elif kind == "reasoning":
            item |= {"summary": [], "content": []}
        self.output.append(item)
        self._kind, self._pieces = kind, []
        yield self._make_event("response.output_item.added", output_index=len(self.output) - 1, item=dict(item))
        if kind != "function_call":
            yield self._make_content_event("added", self._make_part("", []))

    def _take_waiting_tokens(self) -> list[ShownToken]:
        """Move the waiting tokens to the open message, and return them."""
        tokens, self._waiting_tokens = self._waiting_tokens, []
        self._scored_tokens += tokens
        return tokens

    def _end_item(self, status: str) -> Iterator[_Json]:
        """End the open item, if there is one."""
        if not self._kind:
            return
        text, item = "".join(self._pieces), self.output[-1]
        if self._kind == "function_call":
            item["arguments"] = text
            yield self._make_part_event("done", arguments=text, name=item["name"])
        else:
            logprobs = self._format_logprobs(self._scored_tokens) if self._kind == "message" else []
            part = self._make_part(text, logprobs)
            yield self._make_part_event(
                "done", text=text, **({"logprobs": logprobs} if self._kind == "message" else {})
            )
            yield self._make_content_event("done", part)
            item["content"] = [part]
        item["status"] = status
        self._kind, self._scored_tokens = "", []
        yield self._make_event("response.output_item.done", output_index=len(self.output) - 1, item=dict(item))

    def _make_part(self, text: str, logprobs: list[_Json]) -> _Json:
        fields: _Json = {"annotations": [], "logprobs": logprobs} if self._kind == "message" else {}
        return {"type": _PARTS[self._kind], "text": text, **fields}

    def _make_part_event(self, action: str, **fields: Any) -> _Json:
        if self._kind != "function_call":
            fields["content_index"] = 0
        return self._make_item_event(f"response.{_PARTS[self._kind]}.{action}", **fields)

    def _make_content_event(self, action: str, part: _Json) -> _Json:
        return self._make_item_event(f"response.content_part.{action}", content_index=0, part=part)

    def _make_item_event(self, type: str, **fields: Any) -> _Json:
        index = len(self.output) - 1
        return self._make_event(type, item_id=self.output[index]["id"], output_index=index, **fields)

    def _make_event(self, type: str, **fields: Any) -> _Json:
        self._number += 1
        return {"type": type, "sequence_number": self._number - 1, **fields}

    # ---- the response
    def _make_response(self, status: str) -> _Json:
        return {
            "id": f"resp_{self.answer.id}",
            "object": "response",
            "created_at": self.answer.created,
            "completed_at": None,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self.answer.model,
            "output": list(self.output),
            "usage": None,
            **self.echoed_fields,
        }

    def _make_usage(self, result: Result) -> _Json:
        return {
            "input_tokens": result.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": len(result.tokens),
            "output_tokens_details": {"reasoning_tokens": self._reasoning_tokens},
            "total_tokens": result.prompt_tokens + len(result.tokens),
        }

    def _format_logprobs(self, tokens: Sequence[ShownToken]) -> list[_Json]:
        if self.answer.top is None:
            return []
        scores: list[_Json] = format_chat_logprobs(tokens, self.answer.vocabulary)["content"]
        return scores
