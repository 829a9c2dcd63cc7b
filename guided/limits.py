"""Limits on the cost of a specification. Exceeding one raises `LimitExceeded`."""

from __future__ import annotations

from dataclasses import dataclass, fields

from guided.errors import brief
from guided.keywords import keywords_checked_class, to_int

__all__ = ["Limits"]

_MAX_VALUE = 2**62


@keywords_checked_class()
@dataclass(frozen=True, slots=True, repr=False)
class Limits:
    """Limits on time, memory and size, since specifications may be untrusted.

    Attributes:
        spec_length: the length of the source text, in characters.
        depth: how deeply groups, schemas or rules may nest.
        nodes: the number of IR nodes after reading.
        states: the number of automaton states of a compiled grammar, and of each intermediate automaton.
        memory: the memory for states that matching creates, in bytes per grammar. Beyond it, states are discarded and
            rebuilt. A single call may use the same amount in addition, or 64 MiB if that is more.
        seconds: the wall time of one compilation.
        work: the steps of a compilation. The limit applies once to reading a schema or a Lark grammar, and once to
            building automata. A step takes about 10 ns. Steps are counted, not timed, so the limit is reached at the
            same point on any machine.
        call_work: the steps of one call on a compiled grammar, such as filling a mask or accepting a token.
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
    def are_at_least_default(self) -> bool:
        """Whether every limit on compilation is at least its default."""
        return all(
            getattr(self, field.name) >= getattr(_DEFAULTS, field.name)
            for field in fields(self)
            if field.name not in ("memory", "call_work")
        )

    def __repr__(self) -> str:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return f"Limits({', '.join(f'{name}={value}' for name, value in values if value != getattr(_DEFAULTS, name))})"

    def __post_init__(self) -> None:
        for name in ("spec_length", "depth", "nodes", "states", "memory", "work", "call_work"):
            value = to_int(getattr(self, name))
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_VALUE:
                raise ValueError(f"Limits({name}={brief(value)}): it must be an integer from 0 to 2**62")
            object.__setattr__(self, name, value)
        seconds = self.seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
            raise ValueError(f"Limits(seconds={brief(seconds)}): it must be a number of at least 0")


_DEFAULTS = Limits()
