"""Makes the sequences of a request: checks the options, compiles the constraint, encodes the prompt.

In: the arguments of `Engine.generate`. Out: an `Output` for each sample, not started yet: a `Sequence`, or the stages
of `ThinkFirst` or `Retries`, which make their sequences themselves.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Items
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Final, cast

from guided.chat import Conversation
from guided.engine.draft_model import DEFAULT_DRAFTS
from guided.engine.exact_sampling import ExactSequence, Sampling, check_sampling
from guided.engine.instructions import Instructions
from guided.engine.matchers import continued_text, matcher_maker, prompt_ids
from guided.engine.prompts import PromptReader
from guided.engine.request import Prompt, as_string_tuple, as_tuple, check_options
from guided.engine.retries import DEFAULT_THRESHOLD, Retries, check_retries
from guided.engine.sequence import Sequence
from guided.engine.staged_output import Output
from guided.engine.stopping import Stops
from guided.engine.think_first import ThinkFirst, Thoughts, check_thoughts, token_limit
from guided.engine.tool_calls import ToolCalls, with_tools
from guided.errors import OptionError
from guided.keywords import read_items, to_int
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import (
    Constraint,
    ConstraintCompiler,
    ConstraintOptions,
    compile_constraint,
    value_parser,
)
from guided.matching.protocol import ForkingMatcher
from guided.sampling.logprobs import LogprobParams, LogprobsMode
from guided.sampling.params import SamplingParams
from guided.tools.tool import Tool
from guided.tools.toolbox import Toolbox
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["SequenceMaker"]

_INTEGER_OPTIONS: Final = ("max_tokens", "drafts", "think_first", "max_passes", "retries")
_STOP_OPTIONS: Final = ("stop", "stop_token_ids", "stop_regex", "include_stop_str_in_output", "ignore_eos")


@dataclass(frozen=True, slots=True, kw_only=True)
class _MakerOptions:
    """The options of a request whose defaults no other class defines; see `Options`."""

    raw: bool = False
    max_tokens: int = 256
    seed: int | None = None
    score_forced: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logprobs_mode: LogprobsMode = "raw"
    drafts: int | None = None
    budget_ramp: float = 1.0
    reasoning_end: str | None = None
    canonical: bool = False
    heal_prompt: bool = False
    tools: Items[Tool] = ()
    think_first: Thoughts | None = None
    describe: bool | None = None
    sampling: Sampling = "masked"
    max_passes: int = 1000
    retries: int = 0
    retry_below: float = DEFAULT_THRESHOLD

    def __post_init__(self) -> None:
        for name in _INTEGER_OPTIONS:
            object.__setattr__(self, name, to_int(getattr(self, name)))

    def check(self, prompt: Prompt, n: int, constraint: Constraint, params: SamplingParams) -> None:
        """Raise OptionError for values that no other class checks, and for options that exclude each other."""
        flags = {"raw": self.raw, "canonical": self.canonical, "heal_prompt": self.heal_prompt}
        optional_flags = {"score_forced": self.score_forced, "describe": self.describe}
        flags |= {name: flag for name, flag in optional_flags.items() if flag is not None}
        scores_prompt = self.prompt_logprobs is not None
        check_options(n, self.max_tokens, self.drafts, self.budget_ramp, scores_prompt=scores_prompt, **flags)
        check_thoughts(self.think_first, has_reasoning_end=self.reasoning_end is not None)
        if self.reasoning_end is not None and isinstance(prompt, Conversation) and prompt.continue_final_message:
            message = "reasoning_end cannot be combined with continue_final_message, which continues an answer: "
            hint = "leave one of them out, or pass the beginning of the reasoning as Conversation(begin=...)"
            raise OptionError(message + hint, option="reasoning_end")
        if params.min_tokens > self.max_tokens:
            message = f"min_tokens is {params.min_tokens}, but max_tokens is {self.max_tokens}"
            raise OptionError(message, option="min_tokens")
        features = {
            "free text": constraint is None,
            "tools": bool(self.tools),
            "reasoning_end": self.reasoning_end is not None,
            "drafts": bool(self.drafts),
            "score_forced": self.score_forced,
            "logprobs": (self.logprobs, self.prompt_logprobs) != (None, None),
        }
        check_sampling(self.sampling, params, self.max_passes, features)
        check_retries(self.retries, self.retry_below, {**features, 'sampling="exact"': self.sampling == "exact"})

    def check_prefill(self, prefill: str) -> str:
        """Check that the options allow an output to continue a message, and return the text of the message.

        Raises:
            OptionError: `retries` is set, and the text is not empty.
        """
        if prefill and self.retries:
            raise OptionError("retries cannot be combined with continue_final_message", option="retries")
        return prefill


_MAKER_OPTIONS: Final = frozenset(field.name for field in fields(_MakerOptions))


class SequenceMaker:
    """Makes the sequences of one model.

    Args:
        vocabulary: the model's tokens.
        context: the model's context length in tokens.
        compiler, prompts: functions that return the compiler and the prompt reader.
        drafts_by_model: whether a second model drafts tokens.
        describes_by_default: whether prompts describe the specification by default.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        context: int,
        compiler: Callable[[], GrammarCompiler],
        prompts: Callable[[], PromptReader],
        *,
        drafts_by_model: bool,
        describes_by_default: bool = False,
    ) -> None:
        self._vocabulary, self._context = vocabulary, context
        self._compiler, self._prompts = compiler, prompts
        self._drafts_by_model, self.describes_by_default = drafts_by_model, describes_by_default

    def make(
        self,
        prompt: Prompt,
        constraint: Constraint,
        n: int,
        *,
        ids: list[int] | None = None,
        compiler: GrammarCompiler | None = None,
        **options: Any,
    ) -> list[Output]:
        """Make the outputs of a request (`Engine.generate`). `ids`: the ids of the prompt, if the caller knows them.
        `compiler`: compiles the constraint; None: the engine's compiler.

        Raises:
            SpecError, UnsupportedError, BudgetError, GuidedError, OptionError: see `Engine.generate`.
        """
        settings = _MakerOptions(**_pop_options(options, _MAKER_OPTIONS))
        constraint_options = cast(ConstraintOptions, _pop_options(options, ConstraintOptions.__annotations__))
        stops = _make_stops(**_pop_options(options, _STOP_OPTIONS))
        params = SamplingParams(**options, seed=secrets.randbits(64) if settings.seed is None else settings.seed)
        settings.check(prompt, n := to_int(n), constraint, params)
        logprobs = LogprobParams(settings.logprobs, settings.prompt_logprobs, settings.logprobs_mode)
        tools = read_items("tools", settings.tools)
        toolbox = Toolbox(tools, self._vocabulary) if tools else None
        grammar = self._compile(compiler or self._compiler(), constraint, tools, settings, constraint_options)
        full_prompt, bridge = self._add_instructions(prompt, grammar, constraint, settings)
        known_ids = ids if full_prompt is prompt else None
        ids, prefix = prompt_ids(self._prompts(), full_prompt, known_ids, raw=settings.raw, heal=settings.heal_prompt)
        prefill = settings.check_prefill(continued_text(grammar, constraint, prompt, ids))
        make_matcher = self._matcher_maker(grammar, prefix, prefill, settings)
        is_exact, default_drafts = settings.sampling == "exact", DEFAULT_DRAFTS if self._drafts_by_model else 0
        drafts = default_drafts if settings.drafts is None else settings.drafts
        construct = partial(ExactSequence, max_passes=settings.max_passes) if is_exact else Sequence
        context_left, parse = self._context - len(ids), None if constraint is None else value_parser(grammar)

        def make_sequence(index: int, bridge_ids: Items[int], token_cost: int, retry: int = 0) -> Sequence:
            """`bridge_ids`: the ids between prompt and answer; `token_cost`: how many of them the budget counts."""
            matcher = make_matcher()
            return construct(
                self._vocabulary,
                [*ids, *bridge_ids],
                matcher,
                params.sample(index).retry(retry),
                max_tokens=settings.max_tokens - token_cost,
                context_left=context_left - len(bridge_ids),
                score_forced=settings.score_forced,
                stops=stops,
                logprobs=replace(logprobs, prompt=None) if bridge_ids else logprobs,
                calls=None if matcher is None or toolbox is None else ToolCalls(toolbox, matcher),
                drafts=0 if is_exact or settings.retries else drafts,
                drafted_by_model=self._drafts_by_model,
                budget_ramp=0.0 if is_exact else float(settings.budget_ramp),
                parse=parse,
                open_ended=constraint is None or (isinstance(constraint, ConstraintCompiler) and constraint.open_ended),
                has_calls=isinstance(constraint, ConstraintCompiler) and constraint.has_calls,
                prefill=prefill,
            )

        def make_output(index: int, bridge_ids: Items[int] = (), token_cost: int = 0) -> Output:
            if not settings.retries:
                return make_sequence(index, bridge_ids, token_cost)
            maker, is_json = partial(make_sequence, index, bridge_ids, token_cost), parse is not None and parse.is_json
            return Retries(maker, settings.retries, settings.retry_below, settings.max_passes, is_json=is_json)

        if settings.think_first is None or not bridge:
            return list(map(make_output, range(n)))
        limit = token_limit(settings.think_first, settings.max_tokens)
        return [ThinkFirst(partial(make_output, index), limit, bridge, context_left) for index in range(n)]

    def read_prompt(
        self, prompt: Prompt, constraint: Constraint, ids: list[int], compiler: GrammarCompiler, **options: Any
    ) -> list[int]:
        """The ids of a prompt as the model sees it, with all instructions. The constraint is compiled only if the
        instructions need it. Arguments and errors: see `make`.
        """
        settings = _MakerOptions(**_pop_options(options, _MAKER_OPTIONS))
        constraint_options = cast(ConstraintOptions, _pop_options(options, ConstraintOptions.__annotations__))
        describes = self.describes_by_default if settings.describe is None else settings.describe
        if not describes and settings.think_first is None:
            full_prompt = prompt
        else:
            tools = read_items("tools", settings.tools)
            grammar = self._compile(compiler, constraint, tools, settings, constraint_options)
            full_prompt, _ = self._add_instructions(prompt, grammar, constraint, settings)
        known_ids = ids if full_prompt is prompt else None
        return prompt_ids(self._prompts(), full_prompt, known_ids, raw=settings.raw, heal=settings.heal_prompt)[0]

    def _compile(
        self,
        compiler: GrammarCompiler,
        constraint: Constraint,
        tools: Items[Tool],
        settings: _MakerOptions,
        options: ConstraintOptions,
    ) -> CompiledGrammar | None:
        """The grammar of a request's constraint and tools."""
        needs_matcher = settings.reasoning_end is not None or settings.canonical or settings.heal_prompt
        return compile_constraint(compiler, with_tools(constraint, tools, needs_matcher=needs_matcher), options)

    def _matcher_maker(
        self, grammar: CompiledGrammar | None, prefix: bytes, prefill: str, settings: _MakerOptions
    ) -> Callable[[], ForkingMatcher | None]:
        return matcher_maker(
            self._vocabulary,
            grammar,
            prefix,
            canonical=settings.canonical,
            reasoning_end=settings.reasoning_end,
            reasoning_limit=settings.think_first if isinstance(settings.think_first, int) else None,
            prefill=prefill,
        )

    def _add_instructions(
        self, prompt: Prompt, grammar: CompiledGrammar | None, constraint: Constraint, settings: _MakerOptions
    ) -> tuple[Prompt, list[int]]:
        """Add the requested instructions to the prompt. Also return the ids between free text and answer; none without
        `think_first`."""
        omits_calls = isinstance(constraint, ConstraintCompiler) and constraint.omits_calls
        instructions = Instructions(
            self._prompts(), grammar, raw=settings.raw, is_free_text=constraint is None or omits_calls,
            has_tools=bool(settings.tools) or omits_calls,
        )  # fmt: skip
        describe, thoughts = settings.describe, settings.think_first
        if settings.reasoning_end is not None:
            thoughts = None  # they limit the model's own reasoning
        # After free text, the request for the answer describes the specification.
        if (self.describes_by_default and thoughts is None) if describe is None else describe:
            prompt = instructions.describe(prompt, is_required=describe is not None)
        if thoughts is None:
            return prompt, []
        return instructions.think_first(prompt, thoughts, may_describe=describe is not False)


def _pop_options(options: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Remove the options with these names, and return them."""
    return {name: options.pop(name) for name in names if name in options}


def _make_stops(
    stop: str | Items[str] | None = None,
    stop_token_ids: Items[int] | None = None,
    stop_regex: str | Items[str] | None = None,
    *,
    include_stop_str_in_output: bool = False,
    ignore_eos: bool = False,
) -> Stops:
    texts, patterns = as_string_tuple("stop", stop), as_string_tuple("stop_regex", stop_regex)
    token_ids = as_tuple("stop_token_ids", stop_token_ids, "a list of token ids")
    return Stops(texts, token_ids, patterns, include_stop_str_in_output, ignore_eos)
