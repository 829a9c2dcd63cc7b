"""`Tool`: a function that a model may call during generation. A call has a deadline and never raises an error.

    lookup = Tool("capitals", guided.python_type(Literal["France", "Peru"]), lambda text: CAPITALS[json.loads(text)])
    engine.generate("Where is ...?", tools=[lookup])

A call is a *segment* of the output: begin token, arguments, end token, and then the result between two more tokens. The
tool's grammar constrains the arguments. At the end token, the engine runs the tool and forces the result. In: the text
of the arguments. Out: the text of the result, or "error: ..." with the reason why there is none.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from guided.errors import brief
from guided.frontends.combinators import Expr, Part, choice, regex, repeat, sequence, special
from guided.keywords import accept_old_names

__all__ = ["NANOCHAT", "Tool", "ToolTokens", "answer_with"]

_MAX_RUNNING: Final = 32  # concurrent calls in the process, including abandoned ones
_running_calls = threading.BoundedSemaphore(_MAX_RUNNING)


class ToolTokens(NamedTuple):
    """The control tokens of a segment, by name or by id."""

    begin: str | int
    end: str | int
    result_begin: str | int
    result_end: str | int


NANOCHAT: Final = ToolTokens("<|python_start|>", "<|python_end|>", "<|output_start|>", "<|output_end|>")


@accept_old_names({"longest": "max_characters", "room": "reserved_tokens"})
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tool:
    """A function that a model may call.

    Attributes:
        name: unique among the tools.
        arguments: the grammar of the text between begin and end token; a part, as for `guided.sequence`.
        call: computes the result from this text. If it raises an error, the result is "error: ..." with the message. It
            runs while the engine's batch waits, and must not call the engine itself.
        tokens: the control tokens of the segment; the begin token identifies the tool.
        seconds: the deadline. The call runs on its own thread, which cannot be stopped: after the deadline, the engine
            stops waiting for it. None: the call is fast for every text, and runs directly.
        max_characters: the maximum number of characters of a result; a longer result is refused.
        reserved_tokens: the tokens that a call reserves for its result, if the budget has them when the call begins.
            (A result that does not fit is left empty.)
        segment: a whole call and its result, as a part of a grammar for use inside a constraint.
    """

    name: str
    arguments: Part
    call: Callable[[str], str]
    tokens: ToolTokens = NANOCHAT
    seconds: float | None = 3.0
    max_characters: int = 1000
    reserved_tokens: int = 24
    segment: Expr = field(init=False, repr=False)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0 < self.seconds < threading.TIMEOUT_MAX:
            allowed = f"greater than 0 and less than {threading.TIMEOUT_MAX:.0f}"
            problem = f"must be {allowed}, or None for a call that is always fast"
            raise ValueError(f"seconds is {brief(self.seconds)}, but {problem}")
        if not math.inf > self.max_characters >= 1:
            raise ValueError(f"max_characters is {brief(self.max_characters)}, but must be finite and at least 1")
        if self.reserved_tokens < 0:
            raise ValueError(f"reserved_tokens is {brief(self.reserved_tokens)}, but must not be negative")
        begin, end, result_begin, result_end = map(special, self.tokens)
        segment = sequence(begin, self.arguments, end, result_begin, _ANY_TEXT, result_end)
        object.__setattr__(self, "segment", segment)

    def answer(self, text: str) -> str:
        """The result of a call, or the reason why there is none. Returns by the deadline and never raises."""
        succeeded, result = (
            self._call_with_deadline(text) if self.seconds is not None else _call_safely(self.call, text)
        )
        if succeeded and len(result) > self.max_characters:
            succeeded, result = False, f"the result has {len(result)} characters, more than {self.max_characters}"
        # Lone surrogates cannot be encoded. Error messages are shortened.
        return (result if succeeded else f"error: {result}"[: self.max_characters]).encode("utf-8", "replace").decode()

    def _call_with_deadline(self, text: str) -> tuple[bool, str]:
        outcome = list[tuple[bool, str]]()

        def run() -> None:
            try:
                outcome.append(_call_safely(self.call, text))
            finally:
                _running_calls.release()

        if not _running_calls.acquire(blocking=False):
            return False, f"{_MAX_RUNNING} calls are still running"
        thread = threading.Thread(target=run, name=f"tool {self.name}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system cannot start another thread
            _running_calls.release()
            return False, "the call could not be started"
        thread.join(self.seconds)
        return outcome[0] if outcome else (False, f"no result within {self.seconds:g} s")


_ANY_TEXT: Final = regex("(?s:.*)")
_ANY_CHARACTER: Final = regex("(?s:.)")


def _call_safely(call: Callable[[str], str], text: str) -> tuple[bool, str]:
    """Return (True, result), or (False, reason) if there is no result."""
    try:
        result = call(text)
        if isinstance(result, str):
            return True, result
        return False, f"the tool returned a {type(result).__name__}, not text"
    except (Exception, SystemExit) as error:
        try:
            return False, str(error) or type(error).__name__
        except Exception:
            return False, type(error).__name__


@lru_cache(maxsize=64)
def _cached_answer_with(tools: tuple[Tool, ...]) -> Expr:
    return repeat(choice(_ANY_CHARACTER, *(tool.segment for tool in tools)))


def answer_with(tools: Sequence[Tool]) -> Expr:
    """Any text in which the tools may be called anywhere. Returns the same object for the same tools."""
    return _cached_answer_with(tuple(tools))
