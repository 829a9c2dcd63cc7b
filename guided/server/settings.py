"""What the operator of a server decides. It computes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from guided.tools.tool import Tool

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator of a server decides.

    Attributes:
        model_name: how requests name the model.
        api_keys: one of them is needed for what begins with /v1; none: nobody is asked.
        max_queued_requests: requests that have no answer yet; past them 503.
        max_body: bytes of a request.
        allow_special_tokens: whether grammars of requests may name control tokens.
        keep_alive: seconds without a token after which a stream has a comment, so that nothing in between closes it.
        tool_style: how the model writes calls of functions (`guided.TOOL_STYLES`); None: as its chat template says.
        tools: of the server itself: free answers of conversations may call them, and their results are forced.
        reasoning_end: what ends the reasoning of a model that reasons before it answers; "" for one that does not.
        reasoning_begin: what begins it; it ends the prompt.
        retry_after: seconds that a refused client is asked to wait.
    """

    model_name: str = "guided"
    api_keys: tuple[str, ...] = ()
    max_queued_requests: int = 256
    max_body: int = 4 << 20
    allow_special_tokens: bool = False
    keep_alive: float = 15.0
    retry_after: int = 1
    tool_style: str | None = None
    tools: tuple[Tool, ...] = ()
    reasoning_end: str = ""
    reasoning_begin: str = "<think>"
