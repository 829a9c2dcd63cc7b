"""Random requests for a server under load, each with a judge of its answer.

They cover every kind of specification, with and without streaming, greedy and sampled; clients that read slowly or
disconnect early; and requests that the server must refuse. The judges are independent of the library: jsonschema, `re`,
lark.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema
from lark import Lark

from benchmarks.extraction import INSTRUCTIONS, TASKS
from benchmarks.server_client import Reply

__all__ = ["LoadRequest", "draw", "schema_request"]

_PATTERN = r"[A-Z][a-z]{2,12}( [A-Z][a-z]{2,12}){1,3}"
_CHOICES = ["positive", "negative", "neutral", "mixed"]
_LARK = 'start: term ("+" term)~1..4\nterm: NUMBER | "(" NUMBER "-" NUMBER ")"\nNUMBER: /[1-9][0-9]{0,3}/\n'
_GBNF = 'root ::= pair (", " pair){0,3}\npair ::= [a-z]{3,8} "=" ("on" | "off")\n'
_PAIRS = r"[a-z]{3,8}=(on|off)(, [a-z]{3,8}=(on|off)){0,3}"
_TAG = ("<answer>", "</answer>")
_REFUSED: list[tuple[dict[str, Any] | bytes, int]] = [
    ({"regex": "(a"}, 400),
    ({"lark": "start: nowhere"}, 400),
    ({"gbnf": "root ::= ("}, 400),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "robot"}}}}, 400),
    ({"regex": "a{300}", "max_tokens": 20}, 400),
    ({"regex": "a", "gbnf": 'root ::= "a"'}, 400),
    ({"temprature": 1}, 400),
    ({"model": "another"}, 404),
    (b'{"messages": [', 400),
    (b'{"messages": "' + b"x" * (5 << 20) + b'"}', 413),
]


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A request.

    Attributes:
        kind: its kind in the report.
        body: its body.
        judge: returns what is wrong with a text, or "". If the request must be refused, there is no text.
        status: the expected status. 503, too many requests, is always allowed.
        pause, leave_after: see `ask`.
    """

    kind: str
    body: dict[str, Any] | bytes
    judge: Callable[[str], str] = lambda text: ""
    status: int = 200
    pause: float = 0.0
    leave_after: int | None = None

    def verdict(self, reply: Reply) -> str:
        """The outcome: "ok", "refused", "overloaded", "left", or "WRONG: ..." and "LOST: ..."."""
        if reply.status == 503:
            return "overloaded"
        if reply.status != self.status:
            return f"LOST: status {reply.status} instead of {self.status}: {reply.body[:200]!r}"
        if self.status != 200:
            error = reply.json().get("error", {})
            return "refused" if error.get("message") else f"WRONG: an error without a message: {reply.body[:200]!r}"
        if self.leave_after is not None:
            return "left" if not reply.whole else "ok"
        if not reply.whole:
            return "LOST: the answer is cut off"
        try:
            text = _text(reply, stream=isinstance(self.body, dict) and bool(self.body.get("stream")))
        except (ValueError, KeyError, IndexError) as error:
            return f"WRONG: {error}"
        wrong = self.judge(text)
        return f"WRONG: {wrong}" if wrong else "ok"


def draw(rng: random.Random) -> LoadRequest:
    """A random request of the mix."""
    chance = rng.random()
    message, schema = rng.choice(TASKS)
    if chance < 0.08:
        extra, status = rng.choice(_REFUSED)
        body = extra if isinstance(extra, bytes) else _body(message, rng) | extra
        return LoadRequest("refused", body, status=status)
    kind, field, judge = _constraint(schema, rng)
    body = _body(message, rng) | field
    if rng.random() < 0.6 or chance < 0.2:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if chance < 0.14:
        return LoadRequest(f"{kind}, slow", body, judge, pause=0.1)
    if chance < 0.2:
        return LoadRequest(f"{kind}, leaves", body, judge, leave_after=rng.randint(1, 8))
    return LoadRequest(f"{kind}, {'stream' if 'stream' in body else 'whole'}", body, judge)


def schema_request(number: int, max_tokens: int, *, dialect: str) -> LoadRequest:
    """A greedy request under a JSON Schema, without streaming. `dialect`: "guided" or "llama.cpp", which use different
    fields.
    """
    message, schema = TASKS[number % len(TASKS)]
    format: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "task", "schema": schema}}
    if dialect == "llama.cpp":
        format = {"type": "json_object", "schema": schema}
    body = {"messages": _messages(message), "temperature": 0, "max_tokens": max_tokens, "response_format": format}
    return LoadRequest("json_schema", body, lambda text: _judge_schema(text, schema))


def _messages(message: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": message}]


def _body(message: str, rng: random.Random) -> dict[str, Any]:
    return {
        "messages": _messages(message),
        "max_tokens": rng.choice([70, 100, 140]),
        "temperature": rng.choice([0, 0.8]),
        "seed": rng.randrange(1 << 30),
    }


def _constraint(schema: dict[str, Any], rng: random.Random) -> tuple[str, dict[str, Any], Callable[[str], str]]:
    """A random kind of specification, the field of the request for it, and its judge."""
    begin, end = _TAG
    tag = {"type": "tag", "begin": begin, "content": {"type": "json_schema", "json_schema": schema}, "end": end}
    format = {"type": "json_schema", "json_schema": {"name": "task", "schema": schema, "strict": True}}
    kinds: list[tuple[str, dict[str, Any], Callable[[str], str]]] = [
        ("json_schema", {"response_format": format}, lambda text: _judge_schema(text, schema)),
        ("regex", {"regex": _PATTERN}, lambda text: _judge_pattern(text, _PATTERN)),
        ("choice", {"structured_outputs": {"choice": _CHOICES}}, lambda text: _judge_pattern(text, "|".join(_CHOICES))),
        ("lark", {"lark": _LARK}, _judge_lark),
        ("gbnf", {"gbnf": _GBNF}, lambda text: _judge_pattern(text, _PAIRS)),
        (
            "structural tag",
            {"response_format": {"type": "structural_tag", "format": tag}},
            lambda text: _judge_tag(text, schema),
        ),
        ("free", {"max_tokens": 30}, lambda text: ""),
    ]
    return rng.choices(kinds, [4, 2, 2, 2, 2, 2, 1])[0]


def _text(reply: Reply, *, stream: bool) -> str:
    """The text of an answer.

    Raises:
        ValueError: its framing is wrong. KeyError, IndexError: fields are missing.
    """
    if not stream:
        choice = reply.json()["choices"][0]
        if choice["finish_reason"] not in ("stop", "length"):
            raise ValueError(f"finish_reason {choice['finish_reason']!r}")
        return str(choice["message"]["content"])
    events = reply.events()
    if errors := [event for event in events if "error" in event]:
        raise ValueError(f"an error in the stream: {errors[0]}")
    choices = [choice for event in events for choice in event["choices"]]
    if [choice["finish_reason"] is not None for choice in choices] != [False] * (len(choices) - 1) + [True]:
        raise ValueError("the finish_reason does not stand in the last chunk alone")
    if events[-1]["usage"]["completion_tokens"] < 1:
        raise ValueError("no tokens are counted")
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def _judge_schema(text: str, schema: dict[str, Any]) -> str:
    try:
        jsonschema.validate(json.loads(text), schema)
    except (ValueError, jsonschema.ValidationError) as error:
        return f"{str(error).splitlines()[0]}: {text!r}"
    return ""


def _judge_pattern(text: str, pattern: str) -> str:
    return "" if re.fullmatch(pattern, text) else f"not {pattern}: {text!r}"


def _judge_lark(text: str) -> str:
    try:
        Lark(_LARK).parse(text)
    except Exception as error:  # any exception
        return f"{str(error).splitlines()[0]}: {text!r}"
    return ""


def _judge_tag(text: str, schema: dict[str, Any]) -> str:
    begin, end = _TAG
    if not (text.startswith(begin) and text.endswith(end)):
        return f"without its tag: {text!r}"
    return _judge_schema(text[len(begin) : -len(end)], schema)
