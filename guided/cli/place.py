"""Where a text stops being allowed: the line with a caret, what was expected, and who asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from guided.matching import CompiledGrammar, Explanation, GrammarMatcher

__all__ = ["Place", "place_of", "show_bytes"]

_CONTEXT: Final = 60


@dataclass(frozen=True)
class Place:
    """A place in a text.

    Attributes:
        text: all of it.
        offset: bytes before the place; all of them where the text only ends too early.
        expected: the bytes that could have stood there.
        expected_tokens: the control tokens that could.
        may_end: the text could have ended there.
        places: the parts of the specification that were open.
        completion: what would have completed the text up to there.
    """

    text: bytes
    offset: int
    expected: bytes
    expected_tokens: tuple[str, ...]
    may_end: bool
    places: tuple[str, ...]
    completion: bytes

    @property
    def line(self) -> int:
        """Its line, from 1."""
        return self.text.count(b"\n", 0, self.offset) + 1

    @property
    def column(self) -> int:
        """Its column in characters, from 1."""
        start = self.text.rfind(b"\n", 0, self.offset) + 1
        return len(self.text[start : self.offset].decode(errors="replace")) + 1

    @property
    def wanted(self) -> str:
        """What could have stood there, readable."""
        parts = [show_bytes(self.expected)] if self.expected else []
        parts += [*self.expected_tokens, *(["the end"] if self.may_end else [])]
        return " or ".join(parts) or "nothing"

    def __str__(self) -> str:
        start = self.text.rfind(b"\n", 0, self.offset) + 1
        end = self.text.find(b"\n", self.offset)
        line = self.text[start : len(self.text) if end < 0 else end].decode(errors="replace")
        at = self.column - 1
        left = max(0, at - _CONTEXT)
        before, after = line[left:at], line[at : at + _CONTEXT // 2]
        shown = "".join(c if c.isprintable() else "\ufffd" for c in before + after)
        dots = "..." if left else ""
        what = "ends too early" if self.offset == len(self.text) else "not allowed here"
        lines = [f"    {dots}{shown}", f"    {' ' * (len(dots) + len(before))}^"]
        lines.append(f"line {self.line}, column {self.column}: {what}; expected {self.wanted}")
        return "\n".join(lines) + self.asked_by

    @property
    def asked_by(self) -> str:
        """A line that names the parts of the specification, where there are names."""
        return f"\nasked for by {', '.join(self.places)}" if self.places else ""

    def fields(self) -> dict[str, Any]:
        """As data."""
        return {
            "offset": self.offset,
            "line": self.line,
            "column": self.column,
            "expected": self.wanted,
            "expected_bytes": list(self.expected),
            "may_end": self.may_end,
            "places": list(self.places),
            "completion": self.completion.decode(errors="backslashreplace"),
        }


def place_of(grammar: CompiledGrammar, text: bytes) -> Place:
    """Where `text` dies, or its end where it is only incomplete."""
    matcher = GrammarMatcher(grammar)
    # Rules of a grammar have names that say something; the one rule of a regular expression has not.
    names_say_something = grammar.kind not in ("regex", "choice", "pattern")
    offset = matcher.explain(text).read
    accepted = matcher.accept_string(text[:offset])
    assert accepted, "what was read is allowed"
    here: Explanation = matcher.explain()
    places = tuple(dict.fromkeys(name or "(root)" for name in here.places)) if names_say_something else ()
    return Place(text, offset, here.expected, here.expected_tokens, matcher.is_accepting(), places, here.completion)


def show_bytes(values: bytes) -> str:
    """Byte values as ranges: 'a'-'z', '"', 0xc3-0xf4."""
    parts: list[str] = []
    at = 0
    while at < len(values):
        end = at
        while end + 1 < len(values) and values[end + 1] == values[end] + 1:
            end += 1
        names = [repr(chr(b)) if 32 <= b < 127 or b in b"\t\n\r" else f"{b:#04x}" for b in (values[at], values[end])]
        parts.append(names[0] if at == end else "-".join(names))
        at = end + 1
    return ", ".join(parts)
