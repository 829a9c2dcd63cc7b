"""Warnings in an answer: deprecated names, and parts of the specification that are not enforced.

In: a parsed request, and its streams once they have begun. Out: `{"message", "param"}` for each warning. The answer
lists them in `warnings`, and the header `Warning` has the first. The server does not log them, since they contain
clients' text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from guided.engine.matchers import layers
from guided.errors import Finding
from guided.matching import GrammarMatcher
from guided.server.engine_thread import Stream
from guided.server.http.errors import for_clients
from guided.server.openai.structured import Structured

__all__ = ["header_of", "warnings_of"]

_MOST: Final = 20  # warnings in one answer
_LONGEST: Final = 300  # characters of the header


def warnings_of(text: Structured, param: str, streams: Sequence[Stream] = ()) -> list[dict[str, Any]]:
    """See the module docstring.

    Args:
        text: the request's constraint on the text.
        param: the field of its specification; "" if findings have their own locations.
        streams: of the request. The first has begun, so its specification is compiled; all share it.
    """
    warnings: list[dict[str, Any]] = [{"message": message, "param": name} for name, message in text.warnings.items()]
    findings = _findings(streams[0]) if streams else ()
    warnings += [
        {"message": for_clients(f"not enforced: {each}"), "param": param + each.pointer} for each in findings[:_MOST]
    ]
    if len(findings) > _MOST:
        warnings.append({"message": f"and {len(findings) - _MOST} more are not enforced", "param": param or None})
    return warnings


def header_of(warnings: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The header `Warning` in ASCII (code 299, human-readable, as vLLM's clients expect)."""
    if not warnings:
        return {}
    text = str(warnings[0]["message"]).encode("ascii", "backslashreplace").decode()
    plain = "".join(each if each.isprintable() and each not in '"\\' else "?" for each in text)
    return {"Warning": f'299 - "{plain[:_LONGEST]}"'}


def _findings(stream: Stream) -> Sequence[Finding]:
    future = stream.tasks[0].future
    if future is None or not future.done() or future.cancelled() or future.exception() is not None:
        return ()
    matcher = future.result()[0].sequence.matcher
    return next((part.grammar.findings for part in layers(matcher) if isinstance(part, GrammarMatcher)), ())
