"""A finding of `guided lint`, for any kind of specification. Data only."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LintFinding"]


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One finding.

    Attributes:
        kind: "unbounded", "long", "recursion", "ambiguous", "collision", "keyword", "not-compared", "empty-rule",
            "unused", "cycle", "set" (a character set that other engines read differently), or "limit" (a mask exceeds
            a limit; only from the command).
        place: the part of the specification, as a name with a line, or a JSON Pointer; "": all of it.
        message: the finding and its effect.
        hint: what to write instead ("" if there is no advice).
        example: a text that shows it ("" if there is none).
        matters: whether it can degrade the output; otherwise it is informational.
    """

    kind: str
    place: str
    message: str
    hint: str = ""
    example: str = ""
    matters: bool = True
