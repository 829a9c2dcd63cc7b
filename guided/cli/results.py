"""Writes a result of the engine as JSON, and its statistics in one line."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from guided.engine.result import Result
    from guided.sampling.logprobs import TokenLogprobs

__all__ = ["describe_shortening", "describe_speed", "is_shortened", "result_to_json"]


_NOTABLE_MASS: Final = 0.01  # total removed probability; less than this changes at most one answer in a hundred


def result_to_json(result: Result) -> dict[str, Any]:
    """A result as JSON, without optional fields that are not set."""
    try:
        value, value_error = result.value, None
    except (ValueError, RecursionError) as error:
        value, value_error = None, str(error)
    timings = result.timings
    return {
        "text": result.text,
        "value": value,
        **({"value_error": value_error} if value_error is not None else {}),
        "tokens": result.tokens,
        "token_masks": result.token_masks,
        "finish_reason": result.finish_reason,
        **({"stop": result.stop} if result.stop is not None else {}),
        **({"cut": True} if result.cut else {}),
        **_reasoning_to_json(result),
        **({"captures": result.captures} if result.captures else {}),
        **({"fields": {name: asdict(field) for name, field in result.fields.items()}} if result.fields else {}),
        **({"tool_calls": list(map(asdict, result.tool_calls))} if result.tool_calls else {}),
        **({"logprobs": _logprobs_to_json(result.logprobs)} if result.logprobs is not None else {}),
        **(
            {"prompt_logprobs": _logprobs_to_json(result.prompt_logprobs)} if result.prompt_logprobs is not None else {}
        ),
        "prompt_tokens": result.prompt_tokens,
        "seed": result.seed,
        "removed_log_mass": result.removed_log_mass,
        "budget_bound": asdict(result.budget_bound),
        "seconds": timings.total,
        "tokens_per_second": result.tokens_per_second,
        "mask_us": {"median": statistics.median(timings.mask_us), "max": max(timings.mask_us)}
        if timings.mask
        else None,
    }


def _reasoning_to_json(result: Result) -> dict[str, Any]:
    if result.reasoning is None:
        return {}
    return {"reasoning": result.reasoning, "reasoning_tokens": result.reasoning_tokens}


def _logprobs_to_json(scores: Sequence[TokenLogprobs | None]) -> list[dict[str, Any] | None]:
    return [None if score is None else asdict(score) for score in scores]


def is_shortened(result: Result) -> bool:
    """Whether the budget removed tokens with notable probability."""
    return result.budget_bound.mass >= _NOTABLE_MASS


def describe_shortening(result: Result) -> str:
    """How much probability the budget removed, in one line."""
    bound, choice_count = result.budget_bound, len(result.removed_log_masses)
    steps = f"at {bound.steps} of {choice_count} choices"
    excluded = f"{steps} the budget excluded or penalized tokens that the specification allows"
    share = f"{bound.mass / bound.steps:.0%} of the probability there"
    return f"shortened to fit --max-tokens: {excluded} ({share}); raise --max-tokens for a longer answer"


def describe_speed(result: Result) -> str:
    """The number of tokens and the speed, in one line."""
    forced_count = len(result.tokens) - sum(result.token_masks)
    phrases = [f"{len(result.tokens)} tokens, {forced_count} of them forced", f"{result.timings.total:.1f} s"]
    phrases += [f"{result.tokens_per_second:.1f} tokens/s", f"seed {result.seed}"]
    if result.timings.drafted_tokens:
        phrases.append(f"{result.timings.accepted_drafts} of {result.timings.drafted_tokens} drafted tokens accepted")
    if result.timings.mask:
        phrases.append(f"mask {statistics.median(result.timings.mask_us):.0f} us")
    return "; ".join(phrases)
