"""Bounds on what a specification may cost. Reaching one raises `LimitExceeded(limit, given, allowed)`."""

from __future__ import annotations

from dataclasses import dataclass, fields

from guided.errors import brief
from guided.keywords import keywords_checked_class

__all__ = ["Limits"]

_LARGEST = 2**62


@keywords_checked_class()
@dataclass(frozen=True, slots=True, repr=False)
class Limits:
    """Every bound has a name, a default and a unit; specifications come from strangers.

    Attributes:
        spec_length: characters of source text.
        depth: nesting of groups, schemas or rules in the specification.
        nodes: IR nodes after reading.
        states: automaton states of one compiled grammar, and of any step in between.
        memory: bytes for the states of one grammar that are made while matching; past it they are rebuilt. One call may
            add as many again, and at least 64 MiB.
        seconds: wall time of one compilation.
        work: steps of a compilation, while a schema is read and again while automata are built. Each takes some 10 ns,
            but they are counted, not measured: where this is reached does not depend on the machine.
        call_work: steps of one call on a compiled grammar, such as a mask or a token; counted in the same way.
    """

    spec_length: int = 4_000_000
    depth: int = 500
    nodes: int = 2_000_000
    states: int = 1_500_000
    memory: int = 128 * 1024 * 1024
    seconds: float = 20.0
    work: int = 80_000_000
    call_work: int = 25_000_000

    @property
    def are_usual(self) -> bool:
        """Whether no bound on a compilation is less than its default."""
        return all(
            getattr(self, field.name) >= getattr(_DEFAULTS, field.name)
            for field in fields(self)
            if field.name not in ("memory", "call_work")
        )

    def __repr__(self) -> str:
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        return f"Limits({', '.join(f'{name}={value}' for name, value in given if value != getattr(_DEFAULTS, name))})"

    def __post_init__(self) -> None:
        for name in ("spec_length", "depth", "nodes", "states", "memory", "work", "call_work"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
                raise ValueError(f"Limits({name}={brief(value)}): an integer from 0 to 2**62 is needed")
        seconds = self.seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
            raise ValueError(f"Limits(seconds={brief(seconds)}): a number of at least 0 is needed")


_DEFAULTS = Limits()
