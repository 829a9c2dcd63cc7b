"""guided's exceptions and its warning. Apart from wrong arguments (TypeError, ValueError), errors are `GuidedError`s.

Programs read an error's attributes. People read `str(error)`: the message, the line of the specification with carets
under the faulty part, and a hint.
"""

from __future__ import annotations

import sys
import unicodedata
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
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
    "find_caller",
    "format_count",
    "marked_line",
    "short",
    "warn_about",
    "warn_caller",
]


class GuidedError(Exception):
    """Base of guided's own exceptions.

    Attributes:
        text: the source text that contains the error; "" if it is unknown, or if there is none (a Python dict).
        span: (start, end) offsets into `text`, in characters.
        file: the imported file that contains the error; "" if the error is in the caller's own text.
        hint: what to write instead; "" if there is no advice.
    """

    text: str = ""
    span: tuple[int, int] = (0, 0)
    file: str = ""
    hint: str = ""

    def with_location(self, text: str, span: tuple[int, int], file: str = "", *, hint: str = "") -> Self:
        """Set the location of this error, and return it. `hint` is used only if the error has no hint yet."""
        self.text, self.span, self.file, self.hint = text, span, file, self.hint or hint
        return self

    def located(self, text: str, span: tuple[int, int], file: str = "", *, hint: str = "") -> Self:
        """Deprecated: use `with_location`."""
        warnings.warn(
            "GuidedError.located is deprecated: use GuidedError.with_location", DeprecationWarning, stacklevel=2
        )
        return self.with_location(text, span, file, hint=hint)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the message and the attributes, since the constructors of subclasses take other arguments."""
        return _restore, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        return self._format(super().__str__())

    def _format(self, message: str, *, has_location: bool = False, first_line_suffix: str | None = None) -> str:
        """The message, the line with carets, and the hint.

        Args:
            has_location: whether the message already states a location. If not, line and column are added.
            first_line_suffix: text for the end of the first line; replaces the hint.
        """
        parts = [message]
        if self.text:
            line = self.text.count("\n", 0, self.span[0]) + 1
            column = self.span[0] - (self.text.rfind("\n", 0, self.span[0]) + 1) + 1
            parts[0] += "" if has_location else f" ({self.file}{', ' * bool(self.file)}line {line}, column {column})"
            parts.append(marked_line(self.text, self.span))
        parts[0] += first_line_suffix or ""
        if self.hint and first_line_suffix is None:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


def _restore(kind: type[GuidedError], args: tuple[Any, ...], attributes: dict[str, Any]) -> GuidedError:
    """Make a copy of an error without calling its constructor."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


def short(text: str, max_length: int = 40) -> str:
    """A string in quotes, for a `repr`. A string of more than `max_length` characters is cut, and ends with "..."."""
    return repr(text if len(text) <= max_length else text[: max_length - 3] + "...")


def format_count(count: int, noun: str) -> str:
    """A count with its noun, in the plural unless the count is 1: "1 token", "1,200 tokens"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def brief(value: object, max_length: int = 60) -> str:
    """The first `max_length` characters of a value's `repr`, for an error message. Never fails, even if `repr` does."""
    try:
        return repr(value)[:max_length]
    except Exception:  # nested too deeply, too many digits, or a class whose repr fails
        return f"a {type(value).__name__} that cannot be shown"


def marked_line(text: str, span: tuple[int, int]) -> str:
    """The line of `text` in which `span` (in characters) begins, and below it carets under the span, up to the end of
    the line.

    Unprintable characters are shown as U+FFFD. The carets align on a terminal: tabs stay tabs, and wide characters,
    such as Chinese ones, count as two columns. Of a long line, only the part around the span is shown.
    """
    start, end = max(0, min(span[0], len(text))), max(0, min(span[1], len(text)))
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    shown_start = max(line_start, start - 60)
    end = min(end, start + 120)
    shown_end = min(line_end, max(end, start) + 40)
    prefix_text, marked_text = text[shown_start:start], text[start : min(end, shown_end)]
    left_ellipsis = "..." if shown_start > line_start else ""
    right_ellipsis = "..." if shown_end < line_end else ""
    printable = "".join(
        c if c.isprintable() or c == "\t" else "\ufffd" for c in text[shown_start:shown_end].rstrip("\r")
    )
    indent = "".join("\t" if c == "\t" else " " * _column_width(c) for c in prefix_text)
    carets = "^" * max(1, sum(map(_column_width, marked_text)))
    return f"    {left_ellipsis}{printable}{right_ellipsis}\n    {' ' * len(left_ellipsis)}{indent}{carets}"


def _column_width(character: str) -> int:
    """The width of a character on a terminal, in columns: 0, 1 or 2."""
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


class SpecError(GuidedError):
    """The specification is invalid.

    Attributes:
        text: the specification's source text; "" if there is none (a Python dict).
        span: (start, end) offsets into `text`, in characters.
        message: what is wrong.
        hint: what to write instead; "" if there is no advice.
        pointer: the JSON Pointer of the error if the specification is JSON, otherwise "".
    """

    def __init__(
        self, message: str, *, text: str = "", span: tuple[int, int] = (0, 0), hint: str = "", pointer: str = ""
    ) -> None:
        self.text, self.span, self.message, self.hint, self.pointer = text, span, message, hint, pointer
        super().__init__(message)

    def __str__(self) -> str:
        return self._format(self.message + (f" (at {self.pointer})" if self.pointer else ""))


class UnsupportedError(GuidedError):
    """The specification is valid, but guided cannot enforce part of it. It rejects the whole specification instead of
    ignoring that part.

    Attributes:
        pointer: the location: a JSON Pointer in a schema, otherwise a description such as "offset 3".
        reason: why the part is not supported.
        hint: what to write instead.
        text, span: the source text, if there is one, and the part's (start, end) offsets in it, in characters.
    """

    def __init__(
        self, reason: str, *, pointer: str = "", hint: str = "", text: str = "", span: tuple[int, int] = (0, 0)
    ) -> None:
        self.pointer, self.reason, self.hint, self.text, self.span = pointer, reason, hint, text, span
        super().__init__(reason)

    def __str__(self) -> str:
        where = f" (at {self.pointer})" if self.pointer else ""
        return self._format(self.reason + where, has_location=bool(where))


_FIXED_LIMIT_HINTS = {
    "depth": "reduce the nesting, or move a part into another rule: the depth of each rule is counted separately",
    "states": "make the specification smaller: fewer alternatives, lower counts",
    "nodes": "make the specification smaller",
}
"""Default hints for fixed limits, which no field of `Limits` raises."""


BEYOND_LIMITS = 10**41
"""Represents counts that are too large to write out."""


class LimitExceeded(GuidedError):
    """A limit was exceeded: a field of `guided.Limits`, or a fixed limit.

    Attributes:
        limit: the field of `Limits`; for a fixed limit, what it counts.
        given: how much the input needs, as far as it was counted; for time and memory, how much was used.
        allowed: the limit's value.
        fixed: whether the limit is fixed, so that no field of `Limits` raises it.
        hint: what to do about it.
        place: the rule or JSON Pointer at which the limit was reached; "" if unknown.
    """

    def __init__(
        self, limit: str, given: float, allowed: float, fixed: bool = False, hint: str = "", place: str = ""
    ) -> None:
        self.limit, self.given, self.allowed, self.fixed, self.place = limit, given, allowed, fixed, place
        self.hint = hint or (_FIXED_LIMIT_HINTS[limit] if fixed else f"raise guided.Limits({limit}=...) to allow it")
        super().__init__(limit, given, allowed)

    def __str__(self) -> str:
        where = f" (at {self.place})" if self.place else ""
        fixed_note = "this limit is fixed; " if self.fixed else ""
        comparison = f"{_format_number(self.given)} > {_format_number(self.allowed)}"
        return self._format(
            f"limit {self.limit!r} exceeded: {comparison}{where}", first_line_suffix=f"; {fixed_note}{self.hint}"
        )


def _format_number(number: float) -> str:
    """A count with all its digits (up to 10**40) and separators of thousands, or a time with three digits."""
    if number > 10**40:
        return "more than 10**40"
    return f"{int(number):,}" if number == int(number) else f"{number:.3g}"


class ModelFileError(GuidedError):
    """A model cannot be found or downloaded, or one of its files is missing, corrupt or of the wrong kind."""


class VocabularyError(GuidedError):
    """A tokenizer's file cannot be read, or a vocabulary lacks the tokens that a specification needs.

    Attributes:
        token: the token that the specification names, if the vocabulary lacks it or uses it for another purpose;
            otherwise None.
        concerns_specification: whether a specification is at fault: it needs text or a token that the vocabulary lacks.
    """

    def __init__(self, message: str, *, token: int | str | None = None, hint: str = "") -> None:
        self.token, self.hint = token, hint
        self.concerns_specification = False  # set where a specification is compiled
        super().__init__(message)


class BudgetError(GuidedError, ValueError):
    """Not even the shortest completion fits the token budget.

    Attributes:
        needed: the length of the shortest known completion, in tokens. It is counted like the budget: a matcher's
            budget includes the end token, an engine's `max_tokens` does not. Any budget of at least `needed` works.
        given: the budget, or the number of tokens that the model's context leaves if that is less.
        requested: the request's budget if the context leaves less, otherwise None.
        is_exact: whether `needed` is the minimum. If not, a shorter completion may exist.
    """

    def __init__(self, needed: int, given: int, requested: int | None = None, *, is_exact: bool = False) -> None:
        self.needed, self.given, self.requested = needed, given, requested
        budget = f"the budget is {given:,}"
        if requested is not None:
            budget = f"the model's context leaves {given:,} after the prompt"
        self.is_exact = is_exact or needed <= 1
        known = "" if self.is_exact else "known "
        super().__init__(f"the shortest {known}completion has {format_count(needed, 'token')}, but {budget}")

    @property
    def asked(self) -> int | None:
        """Deprecated: use `requested`."""
        warnings.warn("BudgetError.asked is deprecated: use BudgetError.requested", DeprecationWarning, stacklevel=2)
        return self.requested


class ContextError(GuidedError):
    """The prompt fills the model's context.

    Attributes:
        tokens: the length of the prompt.
        context: the length of the context, in tokens, which must also hold the output.
        model_context: the length of the model's context if the engine limits it to `context`, otherwise None.
    """

    def __init__(self, tokens: int, context: int, model_context: int | None = None) -> None:
        self.tokens, self.context, self.model_context = tokens, context, model_context
        owner, advice = "the model's context", "shorten the prompt"
        if model_context is not None:
            owner = "the engine's context"
            advice += f", or give the engine a larger `context` (the model's is {model_context})"
        super().__init__(f"the prompt has {tokens} tokens, but {owner} holds {context} including the output: {advice}")


class OptionError(GuidedError, ValueError):
    """An option has a value of the wrong type or out of range, or conflicts with another option.

    Attributes:
        option: the name of the option; None if unknown, or if several options are at fault.
        hint: which values are accepted; "" if the message says so, or if there is no advice.
    """

    def __init__(self, message: str, *, option: str | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.option, self.hint = option, hint


class ToolError(GuidedError):
    """A tool refuses a call. In an engine's output, the message becomes the result of the call."""


def fields_of(error: GuidedError) -> dict[str, Any]:
    """An error as data: its type and message, and its pointer, hint, span, limit and file if it has them."""
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
    """A part of a specification that is not enforced.

    Attributes:
        pointer: the JSON Pointer of the part.
        keyword: the keyword at that location.
        reason: why it is not enforced.
        hint: what to write instead; "" if there is no advice.
    """

    pointer: str
    keyword: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.reason} (at {self.pointer})" + (f"; {self.hint}" if self.hint else "")


class GuidedWarning(UserWarning):
    """Parts of a specification are not enforced. A compilation issues at most one warning.

    Attributes:
        findings: these parts. The text of the warning lists the first ten.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(self.findings)

    def __str__(self) -> str:
        lines = [f"not enforced: {finding}" for finding in self.findings[:_MAX_LISTED_FINDINGS]]
        omitted_count = len(self.findings) - _MAX_LISTED_FINDINGS
        return "\n".join(
            [*lines, f"and {omitted_count} more; `guided check` lists them all"] if omitted_count > 0 else lines
        )


_MAX_LISTED_FINDINGS = 10


def warn_about(findings: Sequence[Finding]) -> None:
    """Issue a warning if there are findings. It points to the caller's line, outside of guided."""
    if findings:
        warn_caller(GuidedWarning(findings))


def warn_caller(warning: Warning) -> None:
    """Issue a warning that points to the caller's line, outside of guided."""
    warnings.warn(warning, stacklevel=find_caller()[0])


def find_caller() -> tuple[int, FrameType]:
    """The innermost frame outside of guided, above the function that calls this one, and its `stacklevel` there."""
    package = __name__.partition(".")[0]
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    return level, frame
