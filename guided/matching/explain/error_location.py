"""Finds where a text stops being allowed, and describes the error: the line with a caret, what was expected, and the
parts of the specification.

In: a grammar, and bytes, normally UTF-8. Out: an `ErrorLocation`. Offsets and columns count characters; a byte that is
not UTF-8 counts as one character.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from guided.errors import marked_line
from guided.matching import CompiledGrammar, ExpectedText, Explanation, GrammarMatcher
from guided.matching.explain.explanation import explain, shortest_completion
from guided.matching.explain.pointers import format_open_parts, format_refusals
from guided.matching.explain.positions import describe_positions

__all__ = ["ErrorLocation", "error_location_of", "locate_error"]


@dataclass(frozen=True)
class ErrorLocation:
    """The location of an error in a text.

    Attributes:
        text: the whole text.
        offset: the number of characters before the error; the length of the text if it only ends too early.
        explanation: why the text is refused there.
        completion: a completion of the text before the error.
    """

    text: str
    offset: int
    explanation: Explanation
    completion: bytes

    @property
    def expected(self) -> ExpectedText:
        """What was expected there."""
        return self.explanation.expected

    @property
    def line(self) -> int:
        """The line, from 1."""
        return self.text.count("\n", 0, self.offset) + 1

    @property
    def column(self) -> int:
        """The column in characters, from 1."""
        return self.offset - self.text.rfind("\n", 0, self.offset)

    def __str__(self) -> str:
        problem = "ends too early" if self.offset == len(self.text) else "not allowed here"
        lines = [marked_line(self.text, (self.offset, self.offset))]
        lines.append(f"line {self.line}, column {self.column}: {problem}; expected {self.expected}")
        return "\n".join(lines) + self.details

    @property
    def details(self) -> str:
        """Lines that name the unfinished parts of the specification, if they have names, and say how the lexer split
        the text."""
        positions = self.explanation.positions
        open_parts = format_open_parts(self.explanation.places, positions)
        refusals = format_refusals(self.explanation.refusals)
        lines = [
            f"required by {open_parts}" if open_parts else "",
            f"refused by {refusals}" if refusals else "",
            describe_positions(positions),
            str(self.explanation.lexing or ""),
        ]
        return "".join(f"\n{line}" for line in lines if line)

    def fields(self) -> dict[str, Any]:
        """The location as JSON data. Sets of characters are lists of ranges [first, last]."""
        return {
            "offset": self.offset,
            "line": self.line,
            "column": self.column,
            "expected": str(self.expected),
            "expected_characters": [[chr(low), chr(high)] for low, high in self.expected.characters],
            "expected_control_tokens": list(self.expected.control_tokens),
            "may_end": self.expected.end,
            "places": [part or "(root)" for part in self.explanation.places],
            "refused_by": list(self.explanation.refused_by),
            "refusals": [list(group) for group in self.explanation.refusals],
            "partial": self.explanation.is_partial,
            "positions": [position._asdict() for position in self.explanation.positions],
            "lexing": _lexing_fields(self.explanation),
            "completion": self.completion.decode(errors="backslashreplace"),
        }


def _lexing_fields(explanation: Explanation) -> dict[str, Any] | None:
    lexing, names = explanation.lexing, ("lexeme", "may_be", "following", "refusal")
    return None if lexing is None else {name: value for name, value in lexing._asdict().items() if name in names}


def error_location_of(grammar: CompiledGrammar, data: bytes, *, must_end: bool = False) -> ErrorLocation:
    """Find where `data` stops being allowed, or its end if it is only incomplete. `must_end`: it must be a whole
    output."""
    matcher = GrammarMatcher(grammar)
    return locate_error(matcher, b"", explain(matcher, data, must_end=must_end))


def locate_error(matcher: GrammarMatcher, prefix: bytes, explanation: Explanation) -> ErrorLocation:
    """Find where the explained text stops being allowed. `matcher` has read `prefix`, which counts in the location."""
    text, allowed_bytes = (prefix + explanation.data).decode(errors="replace"), explanation.data[: explanation.read]
    offset = len((prefix + allowed_bytes).decode(errors="replace"))
    if explanation.expected.incomplete:  # the text ends inside a character
        offset = len(text)
    fork = matcher.fork()
    completion = shortest_completion(fork)[0] or b"" if fork.accept_string(allowed_bytes) else explanation.completion
    return ErrorLocation(text, offset, explanation, completion)
