"""Errors as OpenAI's interface has them. In: an exception. Out: a status and `{"error": {message, type, param, code}}`.

| status | type | when |
|---|---|---|
| 400 | BadRequestError | the request is malformed, its specification is refused, or no output of it fits its budget |
| 401 | AuthenticationError | a key is needed |
| 403 | PermissionDeniedError | a page of another origin asks, in a browser, or by a name that is not allowed |
| 404 | NotFoundError | there is no such model or route |
| 408 | RequestTimeoutError | the body did not arrive in time |
| 413 | BadRequestError | the body is too long |
| 429 | RateLimitError | this key has too many requests at once, or in this minute |
| 499 | ClientClosedRequest | the request was aborted; whoever sent it has gone, or has asked for that |
| 500 | InternalServerError | a defect, or no memory for the request alone |
| 503 | ServiceUnavailableError | the server is busy with others, it ends, or the engine has stopped |

A client may change what leads to 4xx. It is asked to come again after 429 and 503 (`Retry-After`), which OpenAI's
client does by itself: 429 where it alone asks too much, and 503 where all together do, as vLLM and SGLang have it.

`param` is the field of the request, with a JSON Pointer into its specification where that is known. Each `code` is in
docs/guides/serving-errors.md. What is neither `RequestError` nor `GuidedError` is a defect, whatever its class: it is
never the client's fault, and its text is not told.
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
)
from guided.server.engine_thread import EngineStopped
from guided.server.preparing import CompilerBusy, CompileTimeout

__all__ = ["RequestError", "body_of", "for_clients", "status_of"]

_TYPES: Final = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    405: "NotFoundError",
    408: "RequestTimeoutError",
    413: "BadRequestError",
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
    499: "client_gone",
}
"""Of errors that have no code of their own."""


_LONGEST: Final = 1000  # characters of `param`, which may hold names of a schema
_HERE: Final = (
    (re.compile(r",? or pass \w+=\S+"), ""),
    (re.compile(r"\bpass it in registry=\{uri: schema\}"), "write it into the schema, below $defs"),
    (re.compile(r"\ballow_special_tokens=True\b"), "the server's option --allow-special-tokens"),
)
"""Hints name arguments in Python; what a client may do instead."""


def for_clients(text: str) -> str:
    """The text of an error or a finding, whose hint says what the sender of a request may do."""
    for argument, here in _HERE:
        text = argument.sub(here, text)
    return text


class RequestError(Exception):
    """What a request asks is refused.

    Attributes:
        status: of HTTP.
        message: what is wrong and what to write instead.
        param: the field of the request; None where it is the whole.
        code: a word for programs.
        retry_after: seconds after which it may be asked again; None: that is not known.
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


def status_of(error: BaseException) -> int:
    """The status of HTTP for an error."""
    match error:
        case RequestError():
            return error.status
        case EngineStopped() | CompilerBusy():
            return 503
        case GuidedError():
            return 400
    return 500


def body_of(error: BaseException, param: str | None = None) -> dict[str, Any]:
    """See the head. `param`: the field whose value was refused, where the error does not know it.

    Nothing is told of a defect but that there is one: its message may hold what others wrote.
    """
    status, code = status_of(error), None
    if isinstance(error, RequestError):
        message, param, code = error.message, error.param, error.code
    elif status == 500:
        memory = isinstance(error, MemoryError)
        message = f"there is no memory for this request: {error}" if memory else "a defect of the server"
        param, code = None, "out_of_memory" if memory else "internal_error"
    else:
        message = for_clients(str(error))
    match error:
        case SpecError() | UnsupportedError():
            code = "invalid_specification"
            place = "" if error.pointer.startswith("offset ") else error.pointer  # the message says where in a text
            param = (param or "") + place or None
        case LimitExceeded():
            code = "limit_exceeded"
        case MessageError():
            param = f"messages.{error.number}.{error.key}"
        case ContextError():
            code, param = "context_length_exceeded", None
        case BudgetError() if error.asked is not None:
            code, param = "context_length_exceeded", None
            message = f"{message}: shorten the prompt, or the specification"
        case BudgetError():
            code, param = "max_tokens_too_small", "max_tokens"
            message = f"{message}: give max_tokens={error.needed} at least"
        case OptionError():
            param = error.option  # it is not the specification that is wrong
        case EngineStopped():
            code, message = "engine_stopped", "the engine has stopped"  # why is a defect, see above
        case CompileTimeout():
            code = "compile_timeout"
        case CompilerBusy():
            code = "overloaded"
    return {
        "error": {
            "message": message,
            "type": _TYPES.get(status, "BadRequestError" if status < 500 else "InternalServerError"),
            "param": param and param[:_LONGEST],
            "code": code or _CODES.get(status),
        }
    }
