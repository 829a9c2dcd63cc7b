"""`LLParserLimits`, and what of it guided has.

A compilation is bounded by `Limits`: a limit of llguidance that bounds one is taken in proportion to its default. What
a step may cost is bounded otherwise here: `max_items_in_row`, `step_lexer_fuel` and `step_max_items` are not reached.
`precompute_large_lexemes` and `verbose_errors` change no output.
"""

from __future__ import annotations

from typing import Final

from guided.limits import Limits

__all__ = ["LLParserLimits", "limits_of"]

_DEFAULTS: Final = Limits()
_INITIAL_FUEL: Final = 1_000_000
_LEXER_STATES: Final = 250_000
_GRAMMAR_SIZE: Final = 500_000


class LLParserLimits:
    """Bounds on what a grammar may cost, in the units of llguidance; None is its default. See the head."""

    def __init__(
        self,
        max_items_in_row: int | None = None,
        initial_lexer_fuel: int | None = None,
        step_lexer_fuel: int | None = None,
        step_max_items: int | None = None,
        max_lexer_states: int | None = None,
        max_grammar_size: int | None = None,
        precompute_large_lexemes: bool | None = None,
        verbose_errors: bool | None = None,
    ) -> None:
        self.max_items_in_row = 2000 if max_items_in_row is None else max_items_in_row
        self.initial_lexer_fuel = _INITIAL_FUEL if initial_lexer_fuel is None else initial_lexer_fuel
        self.step_lexer_fuel = 200_000 if step_lexer_fuel is None else step_lexer_fuel
        self.step_max_items = 50_000 if step_max_items is None else step_max_items
        self.max_lexer_states = _LEXER_STATES if max_lexer_states is None else max_lexer_states
        self.max_grammar_size = _GRAMMAR_SIZE if max_grammar_size is None else max_grammar_size
        self.precompute_large_lexemes = True if precompute_large_lexemes is None else precompute_large_lexemes
        self.verbose_errors = True if verbose_errors is None else verbose_errors

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {str(value).lower()}" for name, value in vars(self).items())
        return f"ParserLimits {{ {fields} }}"


def limits_of(limits: LLParserLimits | None) -> Limits:
    """The bounds of a compilation."""
    if limits is None:
        return _DEFAULTS
    fuel = limits.initial_lexer_fuel
    states = _part(_DEFAULTS.states, limits.max_lexer_states, _LEXER_STATES)
    if fuel < _INITIAL_FUEL:  # small expressions take no work that is counted, but states
        states = min(states, _part(_DEFAULTS.states, fuel, _INITIAL_FUEL))
    return Limits(
        work=_part(_DEFAULTS.work, fuel, _INITIAL_FUEL),
        states=states,
        nodes=_part(_DEFAULTS.nodes, limits.max_grammar_size, _GRAMMAR_SIZE),
    )


def _part(whole: int, given: int, default: int) -> int:
    return max(1, whole * given // default)
