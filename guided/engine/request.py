"""A request to the engine: a prompt, a constraint, and options."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from guided.chat import Conversation, Message
from guided.errors import OptionError, brief
from guided.keywords import check_keywords, keywords_checked_class, read_items
from guided.matching.constraint import Constraint, ConstraintOptions
from guided.sampling.logprobs import LogprobsMode
from guided.tools.tool import Tool

__all__ = ["OTHERS_KEYWORDS", "Options", "Prompt", "Request", "check_numbers", "texts_of"]

_MOST_DRAFTS = 64

Prompt: TypeAlias = str | Sequence[Message] | Sequence[int] | Conversation


class Options(ConstraintOptions, total=False):
    r"""The options of a request, by keyword. Defaults are in parentheses.

    Attributes:
        raw: the model continues the text of the prompt itself (False: if the model has a chat template, a text is a
            message).
        max_tokens: of the output's text, including forced tokens, without its end (256); fewer if the context is full.
        temperature (0: greedy), top_k, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty,
            logit_bias, allowed_token_ids, bad_words, min_tokens: see `SamplingParams`.
        dialect, search, classes: of a constraint that is a regular expression, see `GrammarCompiler.compile_regex`.
        registry: of a constraint that is a JSON Schema or a type: URI -> schema, for references to other documents.
        whitespace, separators, indent, surrounding_whitespace, property_order, additional_properties, numbers, escapes,
            classes, format, unknown_format, strict, max_string, max_items, max_digits, draft: of a constraint that is a
            JSON Schema, a type or a function, or that has such parts, see `JsonSchemaOptions`. Defaults are those of
            `JsonSchemaOptions.for_generation()`: one space after `,` and `:`, the plainest spellings, and no members
            that the schema does not name.
        stop: texts that end the output, see `Stops`. All stop options are refused under a constraint.
        stop_token_ids, stop_regex, ignore_eos: see `Stops`.
        include_stop_str_in_output: cut the text after the stop, not before it.
        seed: None (the default) draws a fresh one, which the result reports. Output i of n has the seed + i.
        score_forced: count the model's probability of forced tokens too, see `Result.removed_log_mass`. This costs one
            more forward pass per output.
        logprobs, prompt_logprobs, logprobs_mode: see `LogprobParams` and `Result.logprobs`.
        budget_ramp: the largest penalty (1.0). Once less is left of max_tokens than twice the shortest completion, it
            lowers the logits of tokens that make the completion longer; it grows as the budget shrinks. So strings,
            arrays and optional members end before they are cut. 0: they are only cut. See `Result.budget_bound`.
        drafts: the most tokens to draft for a forward pass. They come from the draft model, if the engine has one (4),
            else from an earlier occurrence of the last tokens in prompt or output (0). Drafts never change the output;
            correct drafts make it faster.
        reasoning_end: the control tokens, or text, that end the thinking of a reasoning model, such as "</think>". The
            constraint begins after it, and `Result.reasoning` holds the thinking. None: the constraint begins at once.
            Without a constraint, the answer is then constrained to UTF-8 without control tokens.
        canonical: allow only tokens that the tokenizer itself would write (False): the output's tokens are the encoding
            of its text. If the specification or the budget leaves no such token, others are allowed, see
            `Result.non_canonical`. The first use takes some seconds for a large vocabulary.
        heal_prompt: remove the last tokens of the prompt if a longer token could extend over its end, and begin the
            output with their text (False), see `Result.healed`. For prompts that the model continues: `raw`. The new
            tokens count as output. With `canonical` or `heal_prompt`, an answer without a constraint is as under
            `reasoning_end`, but allows `stop` and `stop_regex`.
        tools: the tools that may be called, see `Tool`. They may be called anywhere in free text (which is then
            constrained to UTF-8 without other control tokens), or where a composed constraint has `tool.segment`. Their
            results count as output.
    """

    raw: bool
    max_tokens: int
    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    allowed_token_ids: Collection[int] | None
    bad_words: Sequence[Sequence[int]]
    min_tokens: int
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    stop_regex: str | Sequence[str] | None
    include_stop_str_in_output: bool
    ignore_eos: bool
    seed: int | None
    score_forced: bool
    logprobs: int | None
    prompt_logprobs: int | None
    logprobs_mode: LogprobsMode
    budget_ramp: float
    drafts: int | None
    reasoning_end: str | None
    canonical: bool
    heal_prompt: bool
    tools: Sequence[Tool]


_CONSTRAINT: Final = "the constraint is the second argument, as in generate(prompt, constraint)"
OTHERS_KEYWORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("max_new_tokens", "max_length", "max_completion_tokens", "max_output_tokens"), "max_tokens"),
    **dict.fromkeys(("stop_sequences", "stop_strings", "stop_words"), "stop"),
    **dict.fromkeys(
        ("schema", "json_schema", "guided_json", "json_object", "response_format"), f"{_CONSTRAINT}: a dict"
    ),
    **dict.fromkeys(("response_model", "output_type", "type"), f"{_CONSTRAINT}: the type itself"),
    **dict.fromkeys(("regex", "guided_regex"), f"{_CONSTRAINT}: a string is a regular expression"),
    **dict.fromkeys(("choice", "choices", "guided_choice"), f"{_CONSTRAINT}: a list of strings"),
    **dict.fromkeys(("grammar", "guided_grammar"), f"{_CONSTRAINT}: what a GrammarCompiler made"),
    "messages": "messages are the first argument, as in generate(messages)",
    "prompt_token_ids": "token ids are the first argument, as in generate(ids)",
    "stream": "engine.stream(prompt) gives the text as it comes",
    "do_sample": "temperature above 0 samples, 0 is greedy",
    "num_return_sequences": "n",
    "add_generation_prompt": "the chat template is applied to a text, unless raw=True",
}
"""Keywords of other libraries: what they are called here, or how what they mean is given."""


@keywords_checked_class({"schema": _CONSTRAINT})
@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """One of many requests, see `Engine.generate_each`. For the fields, see the arguments of `Engine.generate`."""

    prompt: Prompt
    constraint: Constraint = None
    n: int = 1
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        check_keywords("Request", self.options, Options.__annotations__, OTHERS_KEYWORDS)

    def __repr__(self) -> str:
        parts = [brief(self.prompt, 30)]
        parts += [] if self.constraint is None else [f"constraint={brief(self.constraint, 25)}"]
        parts += [] if self.n == 1 else [f"n={self.n}"]
        parts += [f"options={sorted(self.options)}"] if self.options else []
        return f"Request({', '.join(parts)})"


def check_numbers(n: object, max_tokens: object, drafts: object, budget_ramp: object, **flags: object) -> None:
    """Check the options of a request that no other class checks.

    Raises:
        OptionError: an option is out of range; the message names it.
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise OptionError(f"n is {brief(n)}, at least one output is needed", option="n")
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
        raise OptionError(f"max_tokens is {brief(max_tokens)}, at least one token is needed", option="max_tokens")
    drafts = 0 if drafts is None else drafts
    if not isinstance(drafts, int) or isinstance(drafts, bool) or not 0 <= drafts <= _MOST_DRAFTS:
        raise OptionError(f"drafts is {brief(drafts)}, it must be 0 to {_MOST_DRAFTS}", option="drafts")
    if isinstance(budget_ramp, bool) or not isinstance(budget_ramp, int | float) or not 0 <= budget_ramp <= 100:
        raise OptionError(f"budget_ramp is {brief(budget_ramp)}, it must be 0 to 100", option="budget_ramp")
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise OptionError(f"{name} is {brief(flag)}, it must be True or False", option=name)


def texts_of(name: str, given: str | Sequence[str] | None) -> tuple[str, ...]:
    """The texts of an option that takes one or several."""
    return (given,) if isinstance(given, str) else tuple(read_items(name, given or ()))
