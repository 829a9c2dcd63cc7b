"""What the operator of a server decides. It computes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from guided.limits import Limits
from guided.tools.tool import Tool

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator of a server decides. A number of 0 sets no bound, where that is said.

    Attributes:
        model_name: how requests name the model.
        api_keys: one of them is needed for whatever the engine works for; none: nobody is asked.
        allowed_origins: pages of these origins may ask, by CORS; "*": all.
        allowed_hosts: names by which the server may be asked, besides IP addresses and localhost; "*": any. None given:
            any, but on loopback without keys none.
        allow_special_tokens: whether grammars of requests may name control tokens.
        default_max_tokens: of an answer of a conversation whose request does not say; 0: the model's whole context.
        max_running: outputs in the batch at once.
        max_queued_requests: outputs that wait for a place in the batch; past them 503.
        max_queued_tokens: tokens of the prompts that wait; past them 503 (0: no bound).
        max_requests_per_key: requests of one key at once; past them 429 (0: no bound).
        requests_per_minute: of one key; past them 429 (0: no bound).
        queue_timeout: seconds that a request waits for a place in the batch; then 503 (0: no bound).
        request_timeout: seconds for a whole request; then 503, or an event of a stream (0: no bound).
        compile_timeout: seconds of one compilation; then 400.
        grammar_memory: bytes for the states of one grammar (`Limits.memory`); past it they are computed anew.
        body_timeout: seconds for the head of a request to arrive, and for its body; then 408.
        max_header_bytes: of a request, its path and its headers together; past them 400.
        max_body: bytes of a request.
        max_messages: of a conversation, with the parts and the calls of its messages; past them 400.
        max_depth: arrays and objects in one another, in the body of a request.
        keep_alive: seconds without a token after which a stream has a comment, so that nothing in between closes it.
        tool_style: how the model writes calls of functions (`guided.TOOL_STYLES`); None: as its chat template says.
        tools: of the server itself: free answers of conversations may call them, and their results are forced.
        reasoning_end: what ends the reasoning of a model that reasons before it answers; "" for one that does not.
        reasoning_begin: what begins it; it ends the prompt.
        stream_interval: steps of the engine, so tokens, after which a stream is told what came; the first token and the
            end are told at once.
        retry_after: seconds that a refused client is asked to wait, while it is not known how fast requests end.
        log_format: a line for each request on standard error, as JSON or as text; "none": no lines.
        log_requests: whether these lines hold the requests themselves, prompts included.
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
