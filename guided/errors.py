"""The errors and the warning of guided. Every error that guided raises on purpose is a `GuidedError`.

A program reads the attributes of an error. A person reads `str(error)`: the message, the line of the specification with
carets under the part that is meant, and a hint.
"""

from __future__ import annotations

import sys
import unicodedata
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

__all__ = [
    "BEYOND_LIMITS",
    "BudgetError",
    "ContextError",
    "Finding",
    "GuidedError",
    "GuidedWarning",
    "LimitExceeded",
    "ModelFileError",
    "OptionError",
    "SpecError",
    "ToolError",
    "UnsupportedError",
    "VocabularyError",
    "brief",
    "fields_of",
    "marked_line",
    "short",
    "warn_of",
]


class GuidedError(Exception):
    """Base of all errors raised by guided.

    Attributes:
        text: the source text that the error is in; "" where there is none, as for a Python dict, or it is not known.
        span: (start, end) offsets into `text`, in characters.
        file: the file of that text, if the text that was given imports it; "" otherwise.
        hint: what to write instead ("" if there is nothing to say).
    """

    text: str = ""
    span: tuple[int, int] = (0, 0)
    file: str = ""
    hint: str = ""

    def located(self, text: str, span: tuple[int, int], file: str = "", *, hint: str = "") -> Self:
        """This error, at a place of a text; `hint` is for an error that has none."""
        self.text, self.span, self.file, self.hint = text, span, file, self.hint or hint
        return self

    def __str__(self) -> str:
        return self._shown(super().__str__())

    def _shown(self, message: str, *, is_placed: bool = False, after: str | None = None) -> str:
        """The message with its line and column, if it does not say them (`is_placed`), the line with carets, the hint.

        `after`: what follows the line and column instead of a hint below it.
        """
        parts = [message]
        if self.text:
            line = self.text.count("\n", 0, self.span[0]) + 1
            column = self.span[0] - (self.text.rfind("\n", 0, self.span[0]) + 1) + 1
            parts[0] += "" if is_placed else f" ({self.file}{', ' * bool(self.file)}line {line}, column {column})"
            parts.append(marked_line(self.text, self.span))
        parts[0] += after or ""
        if self.hint and after is None:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


def short(text: str, most: int = 40) -> str:
    """A text in quotes for a `repr`: its beginning, where it is long."""
    return repr(text if len(text) <= most else text[: most - 3] + "...")


def brief(value: object, most: int = 60) -> str:
    """A value of the caller for the text of an error: at most so many characters of its `repr`, which may also fail."""
    try:
        return repr(value)[:most]
    except Exception:  # it nests too deeply, has too many digits, or is of a class whose repr fails
        return f"a {type(value).__name__} that cannot be shown"


def marked_line(text: str, span: tuple[int, int]) -> str:
    """The line of `text` that holds `span` (in characters), and below it carets under the span (clipped to that line).

    What cannot be printed is shown as U+FFFD. The carets stand right on a terminal: below a tab there is a tab, and a
    wide character (as those of Chinese) takes two columns. Of a long line the neighbourhood of the span is shown.
    """
    start, end = max(0, min(span[0], len(text))), max(0, min(span[1], len(text)))
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    left = max(line_start, start - 60)
    end = min(end, start + 120)
    right = min(line_end, max(end, start) + 40)
    before, marked = text[left:start], text[start : min(end, right)]
    prefix = "..." if left > line_start else ""
    suffix = "..." if right < line_end else ""
    shown = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text[left:right].rstrip("\r"))
    indent = "".join("\t" if c == "\t" else " " * _columns(c) for c in before)
    carets = "^" * max(1, sum(map(_columns, marked)))
    return f"    {prefix}{shown}{suffix}\n    {' ' * len(prefix)}{indent}{carets}"


def _columns(character: str) -> int:
    """How many columns of a terminal a character takes."""
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


class SpecError(GuidedError):
    """The specification is invalid.

    Attributes:
        text: the specification's source text ("" where there is none, as for a Python dict).
        span: (start, end) offsets into `text`, in characters.
        message: what is wrong.
        hint: what to write instead ("" if there is nothing to say).
        pointer: JSON Pointer of the place, for specifications that are JSON ("" otherwise).
    """

    def __init__(
        self, message: str, *, text: str = "", span: tuple[int, int] = (0, 0), hint: str = "", pointer: str = ""
    ) -> None:
        self.text, self.span, self.message, self.hint, self.pointer = text, span, message, hint, pointer
        super().__init__(message)

    def __str__(self) -> str:
        return self._shown(self.message + (f" (at {self.pointer})" if self.pointer else ""))


class UnsupportedError(GuidedError):
    """The specification is valid, but a part of it is not enforced (yet): refused, never ignored.

    Attributes:
        pointer: the place (a JSON Pointer for schemas, else a description such as "offset 3").
        reason: why it is refused.
        hint: what to write instead.
        text, span: the source and the place in it, where there is a source text.
    """

    def __init__(
        self, reason: str, *, pointer: str = "", hint: str = "", text: str = "", span: tuple[int, int] = (0, 0)
    ) -> None:
        self.pointer, self.reason, self.hint, self.text, self.span = pointer, reason, hint, text, span
        super().__init__(reason)

    def __str__(self) -> str:
        where = f" (at {self.pointer})" if self.pointer else ""
        return self._shown(self.reason + where, is_placed=bool(where))


_FIXED = {
    "depth": "nest less in one rule: a part that is a rule of its own begins anew",
    "states": "make the specification smaller: fewer alternatives, lower counts",
    "nodes": "make the specification smaller",
}
"""The hints for bounds that no field of `Limits` raises, where whoever reaches one has none of its own."""


BEYOND_LIMITS = 10**41
"""Stands for counts of more digits, which are not worth reading."""


class LimitExceeded(GuidedError):
    """A bound of `guided.Limits` was reached.

    Attributes:
        limit: the field of `Limits`.
        given: what the input asked for (for time and memory: what had been used).
        allowed: the bound.
        fixed: whether it is a fixed bound, which no field of `Limits` raises.
        hint: what to do about it.
        place: where it was reached, a rule or a pointer; empty where that is not known.
    """

    def __init__(
        self, limit: str, given: float, allowed: float, fixed: bool = False, hint: str = "", place: str = ""
    ) -> None:
        self.limit, self.given, self.allowed, self.fixed, self.place = limit, given, allowed, fixed, place
        self.hint = hint or (_FIXED[limit] if fixed else f"raise guided.Limits({limit}=...) to allow it")
        super().__init__(limit, given, allowed)

    def __str__(self) -> str:
        where = f" (at {self.place})" if self.place else ""
        bound = "a fixed bound; " if self.fixed else ""
        found = f"{_exact(self.given)} > {_exact(self.allowed)}"
        return self._shown(f"limit {self.limit!r} exceeded: {found}{where}", after=f"; {bound}{self.hint}")


def _exact(number: float) -> str:
    """A count with all its digits, unless these are very many; a time with three."""
    if number > 10**40:
        return "more than 10**40"
    return str(int(number)) if number == int(number) else f"{number:.3g}"


class ModelFileError(GuidedError):
    """A model cannot be found or fetched, or one of its files is missing, corrupt, or not what it should be."""


class VocabularyError(GuidedError):
    """A tokenizer's file cannot be read, or a vocabulary cannot express what is asked of it.

    Attributes:
        token: the token that a specification names and the vocabulary lacks, or has for something else; None otherwise.
    """

    def __init__(self, message: str, *, token: int | str | None = None, hint: str = "") -> None:
        self.token, self.hint = token, hint
        super().__init__(message)


class BudgetError(GuidedError, ValueError):
    """Not even the shortest completion fits the token budget.

    Attributes:
        needed: the tokens of the shortest completion that is known, counted as the budget is: with the end token for
            the mask of a matcher, without it for an engine's `max_tokens`. Budgets from that number on are accepted.
        given: the budget.
        asked: what was asked for, where the model's context leaves less than is needed, which is `given`; else None.
        is_exact: whether surely no shorter completion exists.
    """

    def __init__(self, needed: int, given: int, asked: int | None = None, *, is_exact: bool = False) -> None:
        self.needed, self.given, self.asked = needed, given, asked
        budget = f"the budget is {given}" if asked is None else f"the model's context leaves {given} after the prompt"
        self.is_exact = is_exact or needed <= 1
        count = f"{'' if self.is_exact else 'at most '}{needed} {'token' if needed == 1 else 'tokens'}"
        super().__init__(f"the shortest completion needs {count}, {budget}")


class ContextError(GuidedError):
    """The prompt leaves no room in the model's context.

    Attributes:
        tokens: of the prompt.
        context: how many the model reads, the output's among them.
    """

    def __init__(self, tokens: int, context: int) -> None:
        self.tokens, self.context = tokens, context
        super().__init__(f"the prompt has {tokens} tokens, the model reads {context} with the output: shorten it")


class OptionError(GuidedError, ValueError):
    """An option of a request is not one of its values: it is out of its range, or does not go with another one.

    Attributes:
        option: its name; None where it is not known, or several are meant.
    """

    def __init__(self, message: str, *, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option


class ToolError(GuidedError):
    """A tool refuses a call, with the reason. In an engine's output the reason is the result of the call."""


def fields_of(error: GuidedError) -> dict[str, Any]:
    """An error as data: its type and message, and, where it has them, pointer, hint, span, limit and file."""
    fields: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, SpecError | UnsupportedError):
        fields["message"] = error.message if isinstance(error, SpecError) else error.reason
        fields |= {"pointer": error.pointer, "hint": error.hint, "span": None}
    if isinstance(error, LimitExceeded):
        fields |= {"limit": error.limit, "given": error.given, "allowed": error.allowed, "hint": error.hint}
    if error.text:
        fields |= {"span": list(error.span), "hint": error.hint}
    if error.file:
        fields["file"] = error.file
    return fields


@dataclass(frozen=True, slots=True)
class Finding:
    """A part of a specification that was read and is not enforced.

    Attributes:
        pointer: its place, a JSON Pointer.
        keyword: the keyword that stands there.
        reason: why it is not enforced.
        hint: what to write instead ("" if there is nothing to say).
    """

    pointer: str
    keyword: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.reason} (at {self.pointer})" + (f"; {self.hint}" if self.hint else "")


class GuidedWarning(UserWarning):
    """A specification has parts that are not enforced. There is at most one warning for each compilation.

    Attributes:
        findings: these parts; the text of the warning names the first ten.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(self.findings)

    def __str__(self) -> str:
        lines = [f"not enforced: {finding}" for finding in self.findings[:_MOST_NAMED]]
        more = len(self.findings) - _MOST_NAMED
        return "\n".join([*lines, f"and {more} more, which guided check lists"] if more > 0 else lines)


_MOST_NAMED = 10


def warn_of(findings: Sequence[Finding]) -> None:
    """Issue the warning if there are findings; it points to the line outside of guided that made the call."""
    if not findings:
        return
    package = __name__.partition(".")[0]
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    warnings.warn(GuidedWarning(findings), stacklevel=level)
