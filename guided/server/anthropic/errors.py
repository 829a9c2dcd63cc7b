"""Errors in the format of Anthropic's API. In: an error in OpenAI's format (http/errors.py). Out: the status and body.

    {"type": "error", "error": {"type", "message", "details": {"error_code", "param"}}, "request_id"}

| status | type | status in OpenAI's format, if different |
|---|---|---|
| 400, other 4xx | invalid_request_error | |
| 401 | authentication_error | |
| 403 | permission_error | |
| 404 | not_found_error | |
| 413 | request_too_large | |
| 429 | rate_limit_error | |
| 500, 503 | api_error | |
| 504 | timeout_error | 503 with the code request_timeout |
| 529 | overloaded_error | 503 with the code overloaded or queue_timeout |

`error_code` and `param` are `code` and `param` in OpenAI's format. The message begins with `param`, since most programs
show only the message. Source: the list of errors in Anthropic's documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["ERROR_SCHEMA", "anthropic_error", "is_messages_route"]

_PATH: Final = "/v1/messages"
_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STATUSES: Final = {"request_timeout": 504, "overloaded": 529, "queue_timeout": 529}
"""Code -> status, for codes whose status differs between the two formats."""

_OPTIONAL: Final = {"type": ["string", "null"]}
ERROR_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["type", "error", "request_id"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message", "details"],
            "properties": {
                "type": {"type": "string"},
                "message": {"type": "string"},
                "details": {"type": "object", "properties": {"error_code": _OPTIONAL, "param": _OPTIONAL}},
            },
        },
        "request_id": {"type": "string"},
    },
}
"""The JSON Schema of an error body."""


def is_messages_route(path: str) -> bool:
    """Whether a path belongs to Anthropic's API, so that its errors have this format."""
    return path == _PATH or path.startswith(f"{_PATH}/")


def anthropic_error(status: int, body: Mapping[str, Any], request_id: str) -> tuple[int, dict[str, Any]]:
    """The status and the body of an error; see the module docstring.

    Args:
        status: the status in OpenAI's format.
        body: the body in OpenAI's format.
        request_id: the id of the request.
    """
    error = body["error"]
    status = _STATUSES.get(error["code"], status)
    message, param = error["message"], error["param"]
    if param and not message.startswith(param):
        message = f"{param}: {message}"
    type = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    details = {"error_code": error["code"], "param": param}
    return status, {
        "type": "error",
        "error": {"type": type, "message": message, "details": details},
        "request_id": request_id,
    }
