"""Joint requirements on the members of a `Permutation`: which of them must have been written at its end. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from guided.ir.serial import Numbered

__all__ = ["AllOf", "AnyOf", "Condition", "NoneOf", "Written"]


@dataclass(frozen=True, slots=True)
class Written(Numbered):
    """At least one of these members, given by their indices, was written."""

    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AllOf(Numbered):
    """All of these conditions hold."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(Numbered):
    """At least one of these conditions holds."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class NoneOf(Numbered):
    """None of these conditions holds."""

    items: tuple[Condition, ...]


Condition: TypeAlias = Written | AllOf | AnyOf | NoneOf
"""A joint requirement on the members of a permutation, checked at its end."""
