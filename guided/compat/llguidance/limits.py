"""`LLParserLimits`, and its translation to guided's `Limits`.

Compilation limits are scaled: half of llguidance's default becomes half of guided's default. guided bounds the cost of
a step differently, so `max_items_in_row`, `step_lexer_fuel` and `step_max_items` have no effect.
`precompute_large_lexemes` and `verbose_errors` do not change the output.
"""

from __future__ import annotations

from typing import Final

from guided.limits import Limits

__all__ = ["LLParserLimits", "to_guided_limits"]

_GUIDED_DEFAULTS: Final = Limits()
_DEFAULT_FUEL: Final = 1_000_000
_DEFAULT_LEXER_STATES: Final = 250_000
_DEFAULT_GRAMMAR_SIZE: Final = 500_000


class LLParserLimits:
    """Bounds on the cost of a grammar, in llguidance's units; None means llguidance's default. See the module
    docstring."""

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
        self.initial_lexer_fuel = _DEFAULT_FUEL if initial_lexer_fuel is None else initial_lexer_fuel
        self.step_lexer_fuel = 200_000 if step_lexer_fuel is None else step_lexer_fuel
        self.step_max_items = 50_000 if step_max_items is None else step_max_items
        self.max_lexer_states = _DEFAULT_LEXER_STATES if max_lexer_states is None else max_lexer_states
        self.max_grammar_size = _DEFAULT_GRAMMAR_SIZE if max_grammar_size is None else max_grammar_size
        self.precompute_large_lexemes = True if precompute_large_lexemes is None else precompute_large_lexemes
        self.verbose_errors = True if verbose_errors is None else verbose_errors

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {str(value).lower()}" for name, value in vars(self).items())
        return f"ParserLimits {{ {fields} }}"


def to_guided_limits(limits: LLParserLimits | None) -> Limits:
    """Translate limits to guided's limits."""
    if limits is None:
        return _GUIDED_DEFAULTS
    fuel = limits.initial_lexer_fuel
    states = _scale(_GUIDED_DEFAULTS.states, limits.max_lexer_states, _DEFAULT_LEXER_STATES)
    if fuel < _DEFAULT_FUEL:  # `work` does not include small expressions, so a lower fuel also limits their states
        states = min(states, _scale(_GUIDED_DEFAULTS.states, fuel, _DEFAULT_FUEL))
    return Limits(
        work=_scale(_GUIDED_DEFAULTS.work, fuel, _DEFAULT_FUEL),
        states=states,
        nodes=_scale(_GUIDED_DEFAULTS.nodes, limits.max_grammar_size, _DEFAULT_GRAMMAR_SIZE),
    )


def _scale(guided_default: int, llguidance_value: int, llguidance_default: int) -> int:
    return max(1, guided_default * llguidance_value // llguidance_default)
