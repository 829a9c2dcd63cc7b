"""Finds character sets that other regular expression engines read differently. In: a pattern. Out: the sets.

- `[[:alpha:]]` and `[:alpha:]` look like POSIX classes, but in `re` and ECMA-262 their characters stand for themselves.
- `[[`, `--`, `&&`, `||` and `~~` in a set are operations on sets in other engines. `re` warns of the same sets
  (`FutureWarning`), since it may support these operations one day.

Patterns with the flag `x` are skipped, because their comments may contain brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from guided.frontends.common.lint_finding import LintFinding

__all__ = ["DoubtfulSet", "find_doubtful_sets", "lint_pattern"]

_POSIX_RANGES: Final = {
    "alnum": "A-Za-z0-9", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\x20\t", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": r"\x20-~", "punct": r"!-/:-@\[-`{-~",
    "space": r"\x20\t-\r", "upper": "A-Z", "word": r"\w", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_POSIX: Final = re.compile(rf"\[:\^?({'|'.join(_POSIX_RANGES)}):\]")
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z]*x")
_OPERATORS: Final = {"-": "difference", "&": "intersection", "~": "symmetric difference", "|": "union"}


@dataclass(frozen=True, slots=True)
class DoubtfulSet:
    """A set that other engines read differently.

    Attributes:
        position: where the set begins, in characters.
        name: what it looks like, such as "POSIX class [:alpha:]", "nested set" or "set difference".
        hint: what to write instead.
        is_posix: whether it looks like a POSIX class. Then it is most likely a mistake.
    """

    position: int
    name: str
    hint: str
    is_posix: bool = False

    @property
    def message(self) -> str:
        """The problem as a sentence."""
        return f"the set at position {self.position} looks like a {self.name}, but its characters stand for themselves"


def find_doubtful_sets(pattern: str) -> Iterator[DoubtfulSet]:
    """The sets of a valid pattern that other engines read differently, in order. At most one result for each set."""
    if _VERBOSE.search(pattern):
        return
    position = 0
    while position < len(pattern):
        if pattern.startswith("(?#", position):
            position = pattern.find(")", position) % (len(pattern) + 1)
        elif pattern[position] == "[":
            end, found = _read_set(pattern, position)
            if found is not None:
                yield found
            position = end
        else:
            position += 2 if pattern[position] == "\\" else 1


def lint_pattern(pattern: str, place: str) -> list[LintFinding]:
    """A finding for each doubtful set. `place`: the location of the pattern in the specification."""
    sets = find_doubtful_sets(pattern)
    return [LintFinding("set", place, found.message, found.hint, matters=found.is_posix) for found in sets]


def _read_set(pattern: str, start: int) -> tuple[int, DoubtfulSet | None]:
    """The position after a set, and whether it is doubtful."""
    if (match := _POSIX.match(pattern, start)) and not match[0].startswith("[:^"):  # without the outer brackets
        return match.end(), DoubtfulSet(start, f"POSIX class {match[0]}", f"write [{_POSIX_RANGES[match[1]]}]", True)
    found = None
    if pattern.startswith("[", start + 1):
        found = DoubtfulSet(start, "nested set", r"write \[ for the character")
    position = first = start + (2 if pattern.startswith("^", start + 1) else 1)
    while position < len(pattern) and (pattern[position] != "]" or position == first):
        if (match := _POSIX.match(pattern, position)) and (found is None or not found.is_posix):
            ranges = _POSIX_RANGES[match[1]]
            hint = f"write [^{ranges}]" if "^" in match[0] else f"write {ranges} instead of {match[0]}"
            found = DoubtfulSet(start, f"POSIX class {match[0]}", hint, True)
        sign, is_range_end = pattern[position], False
        next_position = position + (2 if sign == "\\" else 1)
        if sign in _OPERATORS and position > first and pattern.startswith(sign, next_position):
            found = found or _make_operation(start, sign)
        if pattern.startswith("-", next_position) and not pattern.startswith("]", next_position + 1):
            next_position += 1  # a range, whose end follows
            is_range_end = pattern.startswith("-", next_position)
            next_position += 2 if pattern.startswith("\\", next_position) else 1
        if is_range_end:
            found = found or _make_operation(start, "-")
        position = next_position
    return position + 1, found


def _make_operation(start: int, sign: str) -> DoubtfulSet:
    return DoubtfulSet(start, f"set {_OPERATORS[sign]}", rf"write \{sign} for the character, and only once")
