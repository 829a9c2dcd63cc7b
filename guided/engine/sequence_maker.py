"""Makes the sequences of a request: checks the options, compiles the constraint, encodes the prompt.

In: the arguments of `Engine.generate`. Out: a `Sequence` for each sample, not started yet.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import Any, cast

from guided.describe import describe as describe_specification
from guided.engine.draft_model import DRAFTS
from guided.engine.matchers import matcher_maker, prompt_ids
from guided.engine.prompts import PromptReader
from guided.engine.request import Prompt, check_numbers, texts_of
from guided.engine.sequence import Sequence
from guided.engine.stopping import Stops
from guided.engine.tool_calls import ToolCalls, with_tools
from guided.errors import OptionError
from guided.keywords import read_items
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import CompiledBy, Constraint, ConstraintOptions, compile_constraint, value_parser
from guided.sampling.logprobs import LogprobParams, LogprobsMode
from guided.sampling.params import SamplingParams
from guided.tools.tool import Tool
from guided.tools.toolbox import Toolbox
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["SequenceMaker"]


class SequenceMaker:
    """Makes the sequences of one model.

    Args:
        vocabulary: its tokens.
        context: the maximum number of tokens that it reads.
        compiler, prompts: functions that return the compiler and the prompt reader.
        drafts_by_model: whether a second model drafts for it.
        describes: whether specifications are described in the conversation by default.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        context: int,
        compiler: Callable[[], GrammarCompiler],
        prompts: Callable[[], PromptReader],
        *,
        drafts_by_model: bool,
        describes: bool = False,
    ) -> None:
        self._vocabulary, self._context = vocabulary, context
        self._compiler, self._prompts = compiler, prompts
        self._drafts_by_model, self.describes = drafts_by_model, describes

    def make(
        self,
        prompt: Prompt,
        constraint: Constraint,
        n: int,
        *,
        compiler: GrammarCompiler | None = None,
        raw: bool = False,
        max_tokens: int = 256,
        seed: int | None = None,
        score_forced: bool = False,
        stop: str | Items[str] | None = None,
        stop_token_ids: Items[int] | None = None,
        stop_regex: str | Items[str] | None = None,
        include_stop_str_in_output: bool = False,
        ignore_eos: bool = False,
        logprobs: int | None = None,
        prompt_logprobs: int | None = None,
        logprobs_mode: LogprobsMode = "raw",
        drafts: int | None = None,
        budget_ramp: float = 1.0,
        reasoning_end: str | None = None,
        canonical: bool = False,
        heal_prompt: bool = False,
        tools: Items[Tool] = (),
        describe: bool | None = None,
        **numbers: Any,
    ) -> list[Sequence]:
        """Make the samples of a request, see `Engine.generate`. `compiler`: for the constraint; None: the engine's.

        Raises:
            SpecError, UnsupportedError, BudgetError, GuidedError, OptionError: as `Engine.generate`.
        """
        check_numbers(n, max_tokens, drafts, budget_ramp, raw=raw, canonical=canonical, heal_prompt=heal_prompt)
        constraint_options = {name: numbers.pop(name) for name in ConstraintOptions.__annotations__ if name in numbers}
        params = SamplingParams(**numbers, seed=secrets.randbits(64) if seed is None else seed)
        if params.min_tokens > max_tokens:
            raise OptionError(f"min_tokens is {params.min_tokens}, but max_tokens is {max_tokens}", option="min_tokens")
        texts, patterns = texts_of("stop", stop), texts_of("stop_regex", stop_regex)
        ends = tuple(read_items("stop_token_ids", stop_token_ids or ()))
        stops = Stops(texts, ends, patterns, include_stop_str_in_output, ignore_eos)
        logprob_params = LogprobParams(logprobs, prompt_logprobs, logprobs_mode)
        toolbox = Toolbox(tools := read_items("tools", tools), self._vocabulary)
        answer = with_tools(constraint, tools, matched=reasoning_end is not None or canonical or heal_prompt)
        grammar = compile_constraint(compiler or self._compiler(), answer, cast(ConstraintOptions, constraint_options))
        prompt = self._describe(prompt, grammar, raw, describe)
        ids, prefix = prompt_ids(self._prompts(), prompt, raw=raw, heal=heal_prompt)
        make = matcher_maker(self._vocabulary, grammar, prefix, canonical=canonical, reasoning_end=reasoning_end)

        def output(index: int) -> Sequence:
            matcher = make()
            return Sequence(
                self._vocabulary,
                ids,
                matcher,
                params.sample(index),
                max_tokens=max_tokens,
                context_left=self._context - len(ids),
                score_forced=score_forced,
                stops=stops,
                logprobs=logprob_params,
                calls=ToolCalls(toolbox, matcher) if matcher is not None and tools else None,
                drafts=(DRAFTS if self._drafts_by_model else 0) if drafts is None else drafts,
                drafted_by_model=self._drafts_by_model,
                budget_ramp=float(budget_ramp),
                parse=None if constraint is None else value_parser(grammar),
                free=constraint is None or (isinstance(constraint, CompiledBy) and constraint.free),
            )

        return list(map(output, range(n)))

    def _describe(self, prompt: Prompt, grammar: CompiledGrammar | None, raw: bool, describe: bool | None) -> Prompt:
        """The prompt with a description of the specification, if the request or the engine's default asks for it.

        Raises:
            OptionError: the request asks for it, but there is nothing to describe, or no conversation.
        """
        if not (self.describes if describe is None else describe):
            return prompt
        description = None if grammar is None else describe_specification(grammar)
        if description is not None and self._prompts().is_templated(prompt, raw=raw):
            return self._prompts().with_description(prompt, description)
        if describe is None:
            return prompt
        reason = "the constraint cannot be described" if description is None else "no chat template renders the prompt"
        raise OptionError(f"describe=True adds the specification to the conversation, but {reason}", option="describe")
