"""`Tool`: what a model may call while it writes, and how it is called: with a deadline, never with an error.

    lookup = Tool("capitals", guided.python_type(Literal["France", "Peru"]), lambda text: CAPITALS[json.loads(text)])
    engine.generate("Where is ...?", tools=[lookup])

A call stands in the output as a *segment*: begin token, arguments, end token, and then the result between two tokens
of its own. What the arguments may be, the tool's grammar says; the engine runs the tool when the end token comes, and
forces the result. In: the arguments' text. Out: the result's text, or "error: ..." with the reason why there is none.
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

__all__ = ["NANOCHAT", "Tool", "ToolTokens", "answer_with"]

_MOST_RUNNING: Final = 32  # calls at once in the process, those included that nobody waits for any more
_running = threading.BoundedSemaphore(_MOST_RUNNING)


class ToolTokens(NamedTuple):
    """The control tokens of a segment, by name or by id."""

    begin: str | int
    end: str | int
    result_begin: str | int
    result_end: str | int


NANOCHAT: Final = ToolTokens("<|python_start|>", "<|python_end|>", "<|output_start|>", "<|output_end|>")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tool:
    """Something that a model may call.

    Attributes:
        name: tells it from others.
        arguments: what a call may say between its begin and its end token; a part as those of `guided.sequence`.
        call: makes the result of that text. What it raises is the result, as "error: ...". It runs while the batch of
            the engine waits, and must not call the engine itself.
        tokens: of the segment; the begin token tells which tool is meant.
        seconds: the deadline. The call runs on a thread of its own, which cannot be stopped: past the deadline nobody
            waits for it. None: it ends soon whatever its text, and is called directly.
        longest: characters of a result; a longer one is refused.
        room: tokens that a call leaves for its result, where the budget has them when the call begins. (A result for
            which there is no room is left empty.)
        segment: a whole call and its result, as a part of a grammar, to be placed inside of a constraint.
    """

    name: str
    arguments: Part
    call: Callable[[str], str]
    tokens: ToolTokens = NANOCHAT
    seconds: float | None = 3.0
    longest: int = 1000
    room: int = 24
    segment: Expr = field(init=False, repr=False)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0 < self.seconds < threading.TIMEOUT_MAX:
            raise ValueError(
                f"seconds is {brief(self.seconds)}: a time above 0, or None for a call that always ends soon"
            )
        if not math.inf > self.longest >= 1:
            raise ValueError(f"longest is {brief(self.longest)}: at least one character is needed")
        if self.room < 0:
            raise ValueError(f"room is {brief(self.room)}: a number of tokens is needed")
        begin, end, result_begin, result_end = map(special, self.tokens)
        segment = sequence(begin, self.arguments, end, result_begin, _ANY_TEXT, result_end)
        object.__setattr__(self, "segment", segment)

    def answer(self, text: str) -> str:
        """The result of a call, or why there is none. Whatever the tool does, this returns, and in time."""
        said, result = self._within_deadline(text) if self.seconds is not None else _outcome(self.call, text)
        if said and len(result) > self.longest:
            said, result = False, f"the result has {len(result)} characters, more than {self.longest}"
        # Lone surrogates cannot be written; whatever was refused is kept short, too.
        return (result if said else f"error: {result}"[: self.longest]).encode("utf-8", "replace").decode()

    def _within_deadline(self, text: str) -> tuple[bool, str]:
        outcome = list[tuple[bool, str]]()

        def run() -> None:
            try:
                outcome.append(_outcome(self.call, text))
            finally:
                _running.release()

        if not _running.acquire(blocking=False):
            return False, f"{_MOST_RUNNING} calls are still running"
        thread = threading.Thread(target=run, name=f"tool {self.name}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads
            _running.release()
            return False, "it could not be started"
        thread.join(self.seconds)
        return outcome[0] if outcome else (False, f"no result within {self.seconds:g} s")


_ANY_TEXT: Final = regex("(?s:.*)")
_ANY_CHARACTER: Final = regex("(?s:.)")


def _outcome(call: Callable[[str], str], text: str) -> tuple[bool, str]:
    """(True, result) or (False, reason)."""
    try:
        result = call(text)
        if isinstance(result, str):
            return True, result
        return False, f"the tool gave a {type(result).__name__}, not text"
    except (Exception, SystemExit) as error:
        try:
            return False, str(error) or type(error).__name__
        except Exception:
            return False, type(error).__name__


@lru_cache(maxsize=64)
def _answer_with(tools: tuple[Tool, ...]) -> Expr:
    return repeat(choice(_ANY_CHARACTER, *(tool.segment for tool in tools)))


def answer_with(tools: Sequence[Tool]) -> Expr:
    """Any text, in which the tools may be called anywhere; the same object for the same tools."""
    return _answer_with(tuple(tools))
