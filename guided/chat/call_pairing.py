"""Pairs tool results with their calls, for chat templates.

In: plain messages (conversation.py). Out: messages whose results are in the order of their calls, and whose ids have
the form that the template or the model needs.

- Templates such as Qwen 3's show no ids, so only the order says which result belongs to which call.
- Mistral's templates refuse ids other than nine letters and digits. Kimi K2 often stops calling tools after ids of
  another form than `functions.f:0`. Clients send other ids if another server or model made them.

A new id depends only on earlier calls, so the prompt of a conversation does not change when messages are added. Cost:
linear in the messages, except for sorting.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from guided.frontends.structural_tag.call_ids import CallIds
from guided.frontends.structural_tag.markup import Pattern

__all__ = ["rewrite_ids", "sort_results"]

_Json = dict[str, Any]


def sort_results(messages: Sequence[_Json]) -> list[_Json]:
    """Sort the results that follow a message with calls into the order of the calls.

    Results without an id, or with an id that none of these calls has, stay at their positions.
    """
    out, start = list(messages), 0
    while start < len(out):
        order: dict[str, int] = {}
        for number, call in enumerate(out[start].get("tool_calls") or ()):
            order.setdefault(_get_id(call, "id"), number)
        order.pop("", None)
        start += 1
        stop = start
        while stop < len(out) and out[stop]["role"] == "tool":
            stop += 1
        positions = [i for i in range(start, stop) if _get_id(out[i], "tool_call_id") in order]
        results = sorted((out[i] for i in positions), key=lambda result: order[result["tool_call_id"]])
        for position, result in zip(positions, results, strict=True):
            out[position] = result
        start = max(start, stop)
    return out


def rewrite_ids(messages: Sequence[_Json], form: Pattern, *, restarts: bool = False) -> list[_Json]:
    """Give calls and their results ids of this form. Ids that have the form are kept.

    Args:
        form: the form of ids.
        restarts: number the calls of each message from the first number again, and ignore the caller's ids.

    A result without an id belongs to the next unanswered call of the message before it, if possible to one without an
    id. If the call of a result is missing, an id that has the form is kept. Any other id is replaced if the result's
    `name`, or the form alone, determines the new id.
    """
    writer, out = _IdWriter(form, restarts), list[_Json]()
    for message in messages:
        if calls := message.get("tool_calls"):
            message = {**message, "tool_calls": writer.write_calls(calls)}
        elif message["role"] == "tool":
            message = writer.write_result(message)
        out.append(message)
    return out


class _IdWriter:
    def __init__(self, form: Pattern, restarts: bool) -> None:
        self._form, self._restarts, self._ids = form, restarts, CallIds(form)
        self._made_ids = set[str]()
        self._new_ids: dict[str, deque[str]] = {}  # the caller's id -> ids of the latest message with this id
        # The ids of the latest calls that have no result yet. Calls to which the caller gave no id come first.
        self._unanswered = OrderedDict[str, None]()

    def write_calls(self, calls: Sequence[Mapping[str, Any]]) -> list[_Json]:
        ids = CallIds(self._form) if self._restarts else self._ids
        new_ids: dict[str, deque[str]] = {}
        out = list[_Json]()
        for call in calls:
            id, name = _get_id(call, "id"), call["function"]["name"]
            new_id = ids.make(name) if self._restarts else self._choose(id, name)
            new_ids.setdefault(id, deque()).append(new_id)
            out.append({**call, "id": new_id})
        self._new_ids |= new_ids
        numbers = sorted(range(len(out)), key=lambda number: bool(_get_id(calls[number], "id")))
        self._unanswered = OrderedDict((out[number]["id"], None) for number in numbers)
        return out

    def write_result(self, message: _Json) -> _Json:
        id, name = _get_id(message, "tool_call_id"), message.get("name")
        if not id:
            new_id = next(iter(self._unanswered), "")
        elif id in self._new_ids:  # calls of one message with the same id have their results in the same order
            ids = self._new_ids[id]
            new_id = ids.popleft() if len(ids) > 1 else ids[0]
        elif isinstance(name, str) or "{name}" not in self._form.text:
            new_id = self._choose(id, name if isinstance(name, str) else "")
            self._new_ids[id] = deque((new_id,))
        else:
            new_id = ""
        self._unanswered.pop(new_id, None)
        return {**message, "tool_call_id": new_id} if new_id else message

    def _choose(self, id: str, name: str) -> str:
        if self._ids.fits(id, name) and id not in self._made_ids:
            return self._ids.keep(id)
        new_id = self._ids.make(name)
        self._made_ids.add(new_id)
        return new_id


def _get_id(value: Mapping[str, Any], key: str) -> str:
    """An id; "" if there is none."""
    id = value.get(key)
    return id if isinstance(id, str) else ""
