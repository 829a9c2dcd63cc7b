"""Builds the OpenAPI document of a server, on first use. In: its routes. Out: their requests and answers.

Routes parse the JSON of their requests themselves, so that all errors have the server's own format. Each route declares
its request classes with `takes`, and the document contains the schemas of these classes. A schema describes the form of
a request. It does not describe the content of a specification, or which fields may be combined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeVar

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from guided.server.anthropic.errors import ERROR_SCHEMA, is_messages_route

__all__ = ["add_document", "needs_key", "takes"]

_Route = TypeVar("_Route", bound=Callable[..., Any])
_Json = dict[str, Any]

_ERROR: Final[_Json] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"], "description": "the field of the request"},
                "code": {"type": ["string", "null"], "description": "the machine-readable error code"},
            },
        }
    },
}
_KEYS: Final[_Json] = {
    "key": {"type": "http", "scheme": "bearer"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
}
"""The ways to send an API key."""
_REF: Final = "#/components/schemas/{model}"
_DESCRIPTION_ATTRIBUTE: Final = "guided_described"


@dataclass(frozen=True, slots=True)
class _RouteDescription:
    kinds: tuple[type[BaseModel], ...]
    answer: Mapping[str, str] = field(default_factory=dict)
    events: bool = False


def takes(
    *kinds: type[BaseModel], answer: Mapping[str, str] | None = None, events: bool = False
) -> Callable[[_Route], _Route]:
    """Declare what a route reads and returns.

    Args:
        kinds: the request classes; the body is read as one of them.
        answer: the members that every answer has -> their JSON types.
        events: whether the route may also answer with server-sent events.
    """

    def describe_route(route: _Route) -> _Route:
        setattr(route, _DESCRIPTION_ATTRIBUTE, _RouteDescription(kinds, answer or {}, events))
        return route

    return describe_route


def needs_key(method: str, path: str) -> bool:
    """Whether a request needs a key on a server with keys; see access_middleware.py."""
    return method == "POST" or (method != "OPTIONS" and (path.startswith("/v1") or path == "/tokenizer_info"))


def add_document(app: FastAPI, *, keys: bool) -> None:
    """Build `/openapi.json` on first use. `keys`: whether the server has keys."""
    app.openapi = cache(lambda: _build_document(app, keys=keys))  # type: ignore[method-assign]


def _build_document(app: FastAPI, *, keys: bool) -> _Json:
    document: _Json = get_openapi(title=app.title, version=app.version, routes=app.routes)
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.include_in_schema]
    descriptions = {
        route.path_format: getattr(route.endpoint, _DESCRIPTION_ATTRIBUTE)
        for route in routes
        if hasattr(route.endpoint, _DESCRIPTION_ATTRIBUTE)
    }
    kinds = dict.fromkeys(kind for description in descriptions.values() for kind in description.kinds)
    _, definitions = models_json_schema([(kind, "validation") for kind in kinds], ref_template=_REF)
    schemas: _Json = definitions.get("$defs", {})
    components = document.setdefault("components", {})
    components["schemas"] = {**schemas, "Error": _ERROR, "AnthropicError": ERROR_SCHEMA}
    if keys:
        components["securitySchemes"] = _KEYS
    for path, operations in document["paths"].items():
        error = {"$ref": _make_ref("AnthropicError" if is_messages_route(path) else "Error")}
        error_response = {"description": "An error", "content": {"application/json": {"schema": error}}}
        for method, operation in operations.items():
            operation["responses"].pop("422", None)  # FastAPI adds 422; this server answers malformed requests with 400
            operation["responses"] |= {"4XX": error_response, "5XX": error_response}
            if keys and needs_key(method.upper(), path):
                operation["security"] = [{name: []} for name in _KEYS]
            if path in descriptions:
                _describe(operation, descriptions[path])
    return document


def _describe(operation: _Json, description: _RouteDescription) -> None:
    refs = [{"$ref": _make_ref(kind.__name__)} for kind in description.kinds]
    if refs:
        schema = refs[0] if len(refs) == 1 else {"anyOf": refs}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    members = {name: {"type": type} for name, type in description.answer.items()}
    answer = {"type": "object", "properties": members, "required": list(members)}
    content: _Json = {"application/json": {"schema": answer}}
    if description.events:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    operation["responses"]["200"] = {"description": "The answer", "content": content}


def _make_ref(name: str) -> str:
    return _REF.format(model=name)
