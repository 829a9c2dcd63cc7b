"""Lists the warnings in an answer: deprecated names, and parts of the specification that are not enforced.

In: a parsed request, and its streams once they have begun. Out: `{"message", "param"}` for each warning. The answer
lists them in `warnings`, and the header `Warning` contains the first. The server does not log them, since they contain
clients' text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from guided.engine.matchers import iterate_layers
from guided.errors import Finding
from guided.matching import GrammarMatcher
from guided.server.engine_thread import Stream
from guided.server.http.errors import reword_for_clients
from guided.server.openai.structured import StructuredOutput

__all__ = ["list_warnings", "make_warning_header"]

_MAX_FINDINGS: Final = 20  # in one answer
_MAX_HEADER: Final = 300  # characters of the header


def list_warnings(constraint: StructuredOutput, param: str, streams: Sequence[Stream] = ()) -> list[dict[str, Any]]:
    """See the module docstring.

    Args:
        constraint: the request's constraint on the text.
        param: the request field with the specification; it precedes the location of each finding. "" if findings have
            complete locations.
        streams: the request's streams. They share one specification, which is compiled once the first stream has begun.
    """
    warnings: list[dict[str, Any]] = [
        {"message": message, "param": name} for name, message in constraint.warnings.items()
    ]
    findings = _get_findings(streams[0]) if streams else ()
    warnings += [
        {"message": reword_for_clients(f"not enforced: {finding}"), "param": param + finding.pointer}
        for finding in findings[:_MAX_FINDINGS]
    ]
    if (omitted_count := len(findings) - _MAX_FINDINGS) > 0:
        warnings.append({"message": f"and {omitted_count} more parts are not enforced", "param": param or None})
    return warnings


def make_warning_header(warnings: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The header `Warning` in ASCII, with code 299 and a human-readable text, as vLLM's clients expect."""
    if not warnings:
        return {}
    text = str(warnings[0]["message"]).encode("ascii", "backslashreplace").decode()
    plain_text = "".join(character if character.isprintable() and character not in '"\\' else "?" for character in text)
    return {"Warning": f'299 - "{plain_text[:_MAX_HEADER]}"'}


def _get_findings(stream: Stream) -> Sequence[Finding]:
    future = stream.tasks[0].future
    if future is None or not future.done() or future.cancelled() or future.exception() is not None:
        return ()
    matcher = future.result()[0].sequence.matcher
    return next((part.grammar.findings for part in iterate_layers(matcher) if isinstance(part, GrammarMatcher)), ())
