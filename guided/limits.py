"""Bounds on what a specification may cost. Reaching one raises `LimitExceeded(limit, given, allowed)`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Every bound has a name, a default and a unit; specifications come from strangers.

    Attributes:
        spec_length: characters of source text.
        depth: nesting of groups, schemas or rules in the specification.
        nodes: IR nodes after reading.
        states: automaton states of one compiled grammar, and of any step in between.
        memory: bytes for the states of one grammar that are made while matching; past it they are rebuilt.
        seconds: wall time of one compilation.
    """

    spec_length: int = 4_000_000
    depth: int = 500
    nodes: int = 2_000_000
    states: int = 500_000
    memory: int = 128 * 1024 * 1024
    seconds: float = 20.0
