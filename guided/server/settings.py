"""The settings that a server's operator chooses, and their checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from guided.errors import OptionError, brief
from guided.keywords import check_integer, is_number
from guided.limits import Limits
from guided.tools.tool import Tool

__all__ = ["Settings"]

_POSITIVE_INTEGERS: Final = (
    "max_running", "max_queued_requests", "grammar_memory", "max_header_bytes", "max_body", "max_messages", "max_depth",
    "stream_interval",
)  # fmt: skip
_INTEGERS: Final = (
    "default_max_tokens", "max_queued_tokens", "max_requests_per_key", "requests_per_minute", "retry_after",
)  # fmt: skip
_POSITIVE_SECONDS: Final = ("compile_timeout", "body_timeout", "keep_alive")
_SECONDS: Final = ("queue_timeout", "request_timeout")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a server.

    Attributes:
        model_name: the model's name in requests.
        api_keys: requests that use the engine need one of these keys; empty: no key is needed.
        allowed_origins: origins whose pages may send requests (CORS); "*": all.
        allowed_hosts: host names under which the server answers, in addition to IP addresses and localhost; "*": any.
            Empty: any host name; but if the server has no keys and listens on loopback, no other host name.
        allow_special_tokens: whether grammars in requests may name control tokens.
        default_max_tokens: the token limit for chat answers if the request sets none; 0: the model's whole context.
        max_running: the maximum number of outputs in a batch.
        max_queued_requests: the maximum number of outputs that wait to enter the batch; beyond that, 503.
        max_queued_tokens: the maximum number of tokens in queued prompts; beyond that, 503 (0: no limit).
        max_requests_per_key: the maximum number of concurrent requests per key; beyond that, 429 (0: no limit).
        requests_per_minute: the maximum number of requests per key and minute; beyond that, 429 (0: no limit).
        queue_timeout: seconds that a request may wait to enter the batch; then 503 (0: no limit).
        request_timeout: seconds for a whole request; then 503, or an error event in a stream (0: no limit).
        compile_timeout: seconds for one compilation; then 400.
        grammar_memory: the maximum bytes for the states of one grammar (`Limits.memory`); beyond that, states are
            recomputed.
        grammar_cache: the folder in which compiled grammars are stored; "": none (`GrammarCompiler(cache_dir=...)`).
        body_timeout: seconds for the headers of a request to arrive, and for its body; then 408.
        max_header_bytes: the maximum size of a request's path and headers together; beyond that, 400.
        max_body: the maximum size of a request's body, in bytes; beyond that, 413.
        max_messages: the maximum number of messages in a conversation, plus their parts and calls; beyond that, 400.
        max_depth: the maximum nesting depth of arrays and objects in a request's body; beyond that, 400.
        keep_alive: seconds without a token until a stream sends a comment, so that no proxy closes it.
        tool_style: how the model writes function calls (`guided.TOOL_STYLES`); None: the style of its chat template.
        tools: the server's own tools. Unconstrained chat answers may call them, and the server writes the
            results into the answer.
        reasoning_end: the text that ends the model's reasoning; "": the model does not reason.
        reasoning_begin: the text that begins the reasoning; the prompt ends with it.
        stream_interval: engine steps between two deliveries to a stream; each step produces a token. The first token
            and the end are delivered at once.
        retry_after: seconds that a refused client should wait, if the server cannot yet estimate how fast requests end.
        log_format: the format of the log line for each request on standard error, "json" or "text"; "none": no lines.
        log_requests: whether these lines include the requests, with their prompts.

    Raises:
        OptionError: a number is out of range.
    """

    model_name: str = "guided"
    api_keys: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    allow_special_tokens: bool = False
    default_max_tokens: int = 1024
    max_running: int = 256
    max_queued_requests: int = 256
    max_queued_tokens: int = 0
    max_requests_per_key: int = 0
    requests_per_minute: int = 0
    queue_timeout: float = 120.0
    request_timeout: float = 600.0
    compile_timeout: float = 10.0
    grammar_memory: int = Limits().memory
    grammar_cache: str = ""
    body_timeout: float = 30.0
    max_header_bytes: int = 64 << 10
    max_body: int = 4 << 20
    max_messages: int = 10_000
    max_depth: int = 256
    keep_alive: float = 15.0
    stream_interval: int = 1
    retry_after: int = 1
    tool_style: str | None = None
    tools: tuple[Tool, ...] = ()
    reasoning_end: str = ""
    reasoning_begin: str = "<think>"
    log_format: Literal["none", "json", "text"] = "none"
    log_requests: bool = False

    def __post_init__(self) -> None:
        for name in (*_INTEGERS, *_POSITIVE_INTEGERS):
            check_integer(name, getattr(self, name), minimum=int(name in _POSITIVE_INTEGERS))
        for name in (*_SECONDS, *_POSITIVE_SECONDS):
            is_positive, value = name in _POSITIVE_SECONDS, getattr(self, name)
            if not is_number(value) or value < 0 or (is_positive and value == 0):
                expected = "above 0" if is_positive else "of at least 0"
                raise OptionError(f"{name} is {brief(value)}, but must be a finite number {expected}", option=name)
