"""A finding of `guided lint`, of any kind of specification. It computes nothing."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LintFinding"]


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One finding.

    Attributes:
        kind: "unbounded", "long", "recursion", "ambiguous", "collision", "keyword", "not-compared", "empty-rule",
            "unused" or "cycle".
        place: the part of the specification, as a name with a line, or a JSON Pointer.
        message: what is there, and what it does.
        hint: what to write instead ("" if there is nothing to say).
        example: a text that shows it ("" if there is none).
        matters: whether output may get worse by it; else it is worth knowing only.
    """

    kind: str
    place: str
    message: str
    hint: str = ""
    example: str = ""
    matters: bool = True
