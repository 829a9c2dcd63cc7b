"""Realistic tools: functions with eight to twelve arguments, about one kilobyte of JSON Schema each.

In: the number of tools, and a seed. Out: OpenAI's list of tools. All schemas are different. The names of arguments come
from one list of words, since the tools of one service share names.
"""

from __future__ import annotations

import json
import random
from typing import Any

__all__ = ["tools_of"]

_WORDS = [
    "account",
    "address",
    "amount",
    "author",
    "body",
    "branch",
    "category",
    "channel",
    "city",
    "client",
    "code",
    "color",
    "comment",
    "content",
    "country",
    "currency",
    "customer",
    "date",
    "delay",
    "depth",
    "description",
    "device",
    "direction",
    "duration",
    "email",
    "end",
    "event",
    "file",
    "filter",
    "folder",
    "format",
    "group",
    "height",
    "host",
    "id",
    "image",
    "index",
    "interval",
    "item",
    "key",
    "kind",
    "label",
    "language",
    "latitude",
    "level",
    "limit",
    "line",
    "list",
    "location",
    "longitude",
    "message",
    "method",
    "mode",
    "model",
    "month",
    "name",
    "note",
    "number",
    "object",
    "offset",
    "option",
    "order",
    "owner",
    "page",
    "parent",
    "path",
    "payload",
    "period",
    "phone",
    "port",
    "position",
    "price",
    "priority",
    "product",
    "project",
    "quantity",
    "query",
    "radius",
    "range",
    "rate",
    "reason",
    "recipient",
    "region",
    "repository",
    "role",
    "room",
    "rule",
    "scale",
    "schedule",
    "scope",
    "score",
    "section",
    "sender",
    "service",
    "size",
    "sort",
    "source",
    "start",
    "state",
    "status",
    "step",
    "street",
    "subject",
    "tag",
    "target",
    "team",
    "text",
    "threshold",
    "time",
    "title",
    "token",
    "topic",
    "type",
    "unit",
    "url",
    "user",
    "value",
    "version",
    "volume",
    "weight",
    "width",
    "window",
    "year",
    "zone",
]
_VERBS = [
    "get",
    "set",
    "list",
    "create",
    "delete",
    "update",
    "search",
    "send",
    "find",
    "check",
    "book",
    "cancel",
    "convert",
    "compute",
    "open",
    "close",
]


def tools_of(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """This number of tools."""
    source = random.Random(seed)
    out = []
    for number in range(count):
        name = f"{source.choice(_VERBS)}_{source.choice(_WORDS)}_{number}"
        function = {"name": name, "description": _sentence(source, 8), "parameters": _parameters(source)}
        out.append({"type": "function", "function": function})
    return out


def _parameters(source: random.Random) -> dict[str, Any]:
    names = _names(source, source.randint(8, 12))
    properties: dict[str, Any] = {}
    for name in names:
        properties[name] = _property(source, 1)
    schema = {
        "type": "object",
        "properties": properties,
        "required": source.sample(names, source.randint(2, 5)),
        "additionalProperties": False,
    }
    for name in names:  # descriptions fill the schema up to a kilobyte
        if len(json.dumps(schema)) < 1000:
            properties[name]["description"] = _sentence(source, 3)
    return schema


def _names(source: random.Random, count: int) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        names["_".join(source.sample(_WORDS, source.choice([1, 1, 2])))] = None
    return list(names)


def _property(source: random.Random, depth: int) -> dict[str, Any]:
    match source.randrange(11 if depth else 9):
        case 0 | 1 | 2:
            return {"type": "string"}
        case 3:
            return {"type": "string", "enum": source.sample(_WORDS, source.randint(2, 5))}
        case 4:
            return {"type": "string", **source.choice([{"maxLength": source.randint(10, 200)}, {"format": "date"}])}
        case 5:
            return {"type": "integer", "minimum": 0, "maximum": source.choice([10, 59, 100, 365, 1000])}
        case 6:
            return {"type": source.choice(["integer", "number"])}
        case 7:
            return {"type": "boolean", "default": False}
        case 8:
            return {"type": "array", "items": {"type": source.choice(["string", "number"])}}
        case 9:
            return {"type": "array", "items": _object(source), "maxItems": source.choice([5, 10, 20])}
    return _object(source)


def _object(source: random.Random) -> dict[str, Any]:
    names = _names(source, source.randint(2, 3))
    properties = {name: _property(source, 0) for name in names}
    return {"type": "object", "properties": properties, "required": names[:1], "additionalProperties": False}


def _sentence(source: random.Random, words: int) -> str:
    return " ".join(source.choice(_WORDS) for _ in range(words)).capitalize() + "."
