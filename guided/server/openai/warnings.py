"""What a client is told beside its answer: names that are old, and parts of its specification that are not enforced.

In: a request as it was read, and its streams, once they have begun. Out: `{"message", "param"}` for each; the answer
has them as `warnings`, and the header `Warning` has the first one. The server's log has none: they hold what clients
wrote.
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

_MOST: Final = 20  # that are told of one answer
_LONGEST: Final = 300  # characters of the header


def warnings_of(text: Structured, param: str, streams: Sequence[Stream] = ()) -> list[dict[str, Any]]:
    """See the head.

    Args:
        text: what the request says of the answer's text.
        param: the field that its specification is; "" where findings know their places.
        streams: the first of them has begun, so its specification is compiled; all have the same.
    """
    told: list[dict[str, Any]] = [{"message": message, "param": name} for name, message in text.warnings.items()]
    findings = _findings(streams[0]) if streams else ()
    told += [
        {"message": for_clients(f"not enforced: {each}"), "param": param + each.pointer} for each in findings[:_MOST]
    ]
    if len(findings) > _MOST:
        told.append({"message": f"and {len(findings) - _MOST} more are not enforced", "param": param or None})
    return told


def header_of(told: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The header `Warning` (299: for people, as vLLM's clients know it), in ASCII."""
    if not told:
        return {}
    text = str(told[0]["message"]).encode("ascii", "backslashreplace").decode()
    plain = "".join(each if each.isprintable() and each not in '"\\' else "?" for each in text)
    return {"Warning": f'299 - "{plain[:_LONGEST]}"'}


def _findings(stream: Stream) -> Sequence[Finding]:
    coming = stream.tasks[0].coming
    if coming is None or not coming.done() or coming.cancelled() or coming.exception() is not None:
        return ()
    matcher = coming.result()[0].sequence.matcher
    return next((part.grammar.findings for part in layers(matcher) if isinstance(part, GrammarMatcher)), ())
