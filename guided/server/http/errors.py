"""Errors in the format of OpenAI's API. In: an exception. Out: a status and `{"error": {message, type, param, code}}`.

| status | type | when |
|---|---|---|
| 400 | BadRequestError | the request is malformed, its specification is refused, or no output fits its budget |
| 401 | AuthenticationError | the API key is missing or invalid |
| 403 | PermissionDeniedError | a browser page of another origin sent the request, or the host is not allowed |
| 404 | NotFoundError | there is no such model or route |
| 405 | BadRequestError | the route does not support this method |
| 408 | RequestTimeoutError | the body did not arrive in time |
| 413 | BadRequestError | the body is too long |
| 415 | BadRequestError | the body has a Content-Encoding, or a charset other than UTF-8 |
| 429 | RateLimitError | this key has too many concurrent requests, or too many in this minute |
| 499 | ClientClosedRequest | the request was aborted, or its client disconnected |
| 500 | InternalServerError | a bug in the server, or not enough memory for this request alone |
| 503 | ServiceUnavailableError | the server is busy or shutting down, or the engine has stopped |

The client can fix the cause of a 4xx. 429 and 503 ask it to retry (`Retry-After`), which OpenAI's client does
automatically. As in vLLM and SGLang, the status is 429 if one client alone sends too many requests, and 503 if all
clients together do.

`param` is the faulty field of the request, followed by a JSON Pointer if the error is inside its specification. Each
`code` is in docs/guides/serving-errors.md. Any exception other than `RequestError`, `GuidedError` and `MemoryError` is
a bug in the server, whatever its class. It is never the client's fault, and the client does not see its message.
"""

from __future__ import annotations

import re
from typing import Any, Final

from guided.chat.conversation import MessageError
from guided.errors import (
    BudgetError,
    ContextError,
    GuidedError,
    LimitExceeded,
    OptionError,
    SpecError,
    UnsupportedError,
    VocabularyError,
)
from guided.server.engine_thread import EngineStopped
from guided.server.preparing import CompilerBusy, CompileTimeout

__all__ = ["RequestError", "find_status", "make_error_body", "reword_for_clients"]

_TYPES: Final = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    405: "BadRequestError",
    408: "RequestTimeoutError",
    413: "BadRequestError",
    415: "BadRequestError",
    429: "RateLimitError",
    499: "ClientClosedRequest",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}
_CODES: Final = {
    400: "invalid_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_long",
    415: "unsupported_media_type",
    499: "client_gone",
}
"""Status -> the code of errors without a code of their own."""


_MAX_PARAM: Final = 1000  # characters of `param`, which may contain names from a schema
_REWORDINGS: Final = (
    (re.compile(r",? or pass \w+=\S+"), ""),
    (re.compile(r"\bpass it in registry=\{uri: schema\}"), "add it to the schema under $defs"),
    (re.compile(r"\bpass its text in documents=\{[^}]*\}"), 'write {"documents": {name: text}} instead of the name'),
    (re.compile(r'"report", with documents=(\{"report": )text\}'), r'{"documents": \1"In May ..."}}'),
    (re.compile(r"\braise guided\.Limits\(\w+=\.\.\.\) to allow it"), "make the specification smaller or simpler"),
    (re.compile(r"\ballow_special_tokens=True\b"), "the server's option --allow-special-tokens"),
)
"""Parts of hints that name Python arguments -> replacements for clients."""


def reword_for_clients(text: str) -> str:
    """The text of an error or a finding, with its hint reworded for clients of the server."""
    for pattern, replacement in _REWORDINGS:
        text = pattern.sub(replacement, text)
    return text


class RequestError(Exception):
    """The server refuses a request.

    Attributes:
        status: the HTTP status.
        message: what is wrong, and what to do.
        param: the field of the request; None if the error concerns the request as a whole.
        code: the machine-readable error code; None: the status's default.
        retry_after: seconds after which the client should retry; None: unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        status: int = 400,
        retry_after: int | None = None,
    ) -> None:
        self.message, self.param, self.code, self.status = message, param, code, status
        self.retry_after = retry_after
        super().__init__(message)


def find_status(error: BaseException) -> int:
    """The HTTP status for an error."""
    match error:
        case RequestError():
            return error.status
        case EngineStopped() | CompilerBusy():
            return 503
        case GuidedError():
            return 400
    return 500


def make_error_body(error: BaseException, param: str | None = None) -> dict[str, Any]:
    """The body for an error; see the module docstring. `param`: the faulty field, if the error itself does not name it.

    The body for a bug contains no details, since the message of the exception may contain text from other users.
    """
    status, code = find_status(error), None
    if isinstance(error, RequestError):
        message, param, code = error.message, error.param, error.code
    elif status == 500:
        is_memory_error = isinstance(error, MemoryError)
        message = (
            f"not enough memory for this request: {error}" if is_memory_error else "internal error: a bug in the server"
        )
        param, code = None, "out_of_memory" if is_memory_error else "internal_error"
    else:
        message = reword_for_clients(str(error))
    match error:
        case SpecError() | UnsupportedError():
            code = "invalid_specification"
            pointer = "" if error.pointer.startswith("offset ") else error.pointer  # the message contains the offset
            param = (param or "") + pointer or None
        case VocabularyError() if error.concerns_specification:  # otherwise a text, such as the prompt, is at fault
            code = "invalid_specification"
        case LimitExceeded():
            code = "limit_exceeded"
        case MessageError():
            param = f"messages.{error.number}.{error.key}"
        case ContextError():
            code, param = "context_length_exceeded", None
        case BudgetError() if error.requested is not None:
            code, param = "context_length_exceeded", None
            message = f"{message}: shorten the prompt or the specification"
        case BudgetError():
            code, param = "max_tokens_too_small", "max_tokens"
            message = f"{message}: set max_tokens to {error.needed} or more"
        case OptionError():
            param = error.option  # the error concerns an option, not the specification
        case EngineStopped():
            code, message = "engine_stopped", "the engine has stopped"  # without the cause, which is a bug
        case CompileTimeout():
            code = "compile_timeout"
        case CompilerBusy():
            code = "overloaded"
    return {
        "error": {
            "message": message,
            "type": _TYPES.get(status, "BadRequestError" if status < 500 else "InternalServerError"),
            "param": param and param[:_MAX_PARAM],
            "code": code or _CODES.get(status),
        }
    }
