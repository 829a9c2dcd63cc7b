"""A request to the engine: a prompt, a constraint, and options.

In: the arguments of `Engine.generate` and similar methods. Out: a `Request`, whose options have known names; functions
that check values, and raise an error that names the option. Cost: linear in the options. Not done: compiling the
constraint, and checking options that depend on the prompt or on other options; see sequence_maker.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, TypeVar

from guided.chat import Conversation, Message
from guided.errors import OptionError, brief
from guided.keywords import check_keywords, is_number, keywords_checked_class, read_items, to_int
from guided.matching.constraint import Constraint, ConstraintOptions
from guided.sampling.logprobs import LogprobsMode
from guided.tools.tool import Tool

__all__ = [
    "FOREIGN_KEYWORDS", "Options", "Prompt", "Request", "RequestOptions", "as_string_tuple", "as_tuple",
    "check_options",
]  # fmt: skip

_MAX_DRAFTS = 64
_T = TypeVar("_T")

Prompt: TypeAlias = str | Sequence[Message] | Sequence[int] | Conversation


class RequestOptions(ConstraintOptions, total=False):
    """The options of a request without its tools; see `Options`."""

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
    sampling: Literal["masked", "exact"]
    max_passes: int
    retries: int
    retry_below: float
    think_first: int | Literal["answer"] | None
    describe: bool | None


class Options(RequestOptions, total=False):
    r"""The options of a request, by keyword. Defaults are in parentheses.

    Attributes:
        raw: whether the model continues the prompt as it is (False). Otherwise a string prompt is sent as a user
            message, if the model has a chat template.
        max_tokens: the budget in tokens (256), including forced tokens but excluding the end token; fewer if the
            context has less space. 0 is possible with `prompt_logprobs`: the model reads the prompt and writes nothing.
        temperature (0: greedy), top_k, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty,
            logit_bias, allowed_token_ids, bad_words, min_tokens: see `SamplingParams`.
        dialect, search, classes: for a constraint that is a regular expression; see `GrammarCompiler.compile_regex`.
        registry: URI -> schema, for references to other documents in a constraint that is a JSON Schema or a type.
        documents: name -> text, for `x-guided-quote` in a constraint that is a JSON Schema or a type; see
            `guided.Quote`.
        whitespace, separators, indent, surrounding_whitespace, property_order, additional_properties, numbers, escapes,
            classes, format, unknown_format, strict, max_string, max_items, max_digits, draft: for a constraint that is
            a JSON Schema, a type or a function, or that has such parts; see `JsonSchemaOptions`. The defaults are those
            of `JsonSchemaOptions.for_generation()`: one space after `,` and `:`, the simplest spellings, and no other
            members in objects that declare members, unless the schema mentions them.
        stop: strings that end the output, see `Stops`. Stop options cannot be combined with a constraint.
        stop_token_ids, stop_regex, ignore_eos: see `Stops`.
        include_stop_str_in_output: cut the text after the stop string, not before it (False).
        seed: None (the default) draws a random seed, which the result reports. Output i of n uses seed + i.
        score_forced: also count the model's probability of forced tokens (False); see `Result.removed_log_mass`. Costs
            one more forward pass per output.
        logprobs, prompt_logprobs, logprobs_mode: see `LogprobParams` and `Result.logprobs`.
        budget_ramp: the largest penalty (1.0) for tokens that make the completion longer. It applies once fewer
            tokens remain than twice the shortest completion needs, and grows as the budget shrinks. So strings, arrays
            and optional members end before they are cut. 0 disables it. See `Result.budget_bound`.
        drafts: the maximum number of tokens to draft for each forward pass: by default 4 if the engine has a draft
            model, otherwise 0. Without a draft model, a positive value enables prompt-lookup drafting from the prompt
            and the output. Drafts never change the output; correct drafts make generation faster.
        reasoning_end: the control tokens or text that end the reasoning of a model, such as "</think>". The constraint
            applies to the text after them, and `Result.reasoning` contains the reasoning. None: the constraint applies
            from the beginning. Without any constraint, the answer is restricted to UTF-8 without control tokens.
        canonical: allow only tokens that the tokenizer itself would produce (False), so that the output's tokens are
            the encoding of its text. If the specification or the budget leaves no such token, other tokens are allowed;
            see `Result.non_canonical`. The first use takes a few seconds for a large vocabulary.
        heal_prompt: remove the last tokens of the prompt if a longer token could extend past its end, and begin the
            output with their text (False); see `Result.healed`. For prompts that the model continues (`raw`). The new
            tokens count as output. With `canonical` or `heal_prompt`, an answer without a constraint is restricted to
            UTF-8 without control tokens, but `stop` and `stop_regex` are allowed.
        sampling: "masked" (the default): choose each token among the tokens that the mask allows. "exact": sample the
            output from the model's distribution, conditioned on the constraint and on an end within max_tokens; see
            guided/engine/exact_sampling.py. This needs a temperature above 0, and one forward pass for each new prefix.
            The output is streamed when it is complete.
        retries: if the model is not sure of a value (`Field.confidence`), write it again up to this many times, and
            keep the version that the model prefers without the mask (0). The values are the entries of `Result.fields`;
            output that is not JSON is one value. A stream yields each value once it is final.
        retry_below: the confidence below which a value is written again (0.5).
        max_passes: the maximum number of forward passes (1000). With sampling="exact", exceeding it raises
            LimitExceeded. With `retries`, it is the maximum number of passes for other versions; after that, no value
            is written again.
        tools: the tools that the model may call, see `Tool`. Without a constraint, they may be called anywhere; the
            text is then restricted to UTF-8 without control tokens other than those of the tools. In a composed
            constraint, they may be called where it contains `tool.segment`. Their results count as output.
        think_first: let the model write free text before the constrained answer. An integer: the maximum number of
            tokens of thoughts. "answer": the model first answers freely in at most half of max_tokens, and then writes
            this answer again in the required form. The prompt must be a conversation. max_tokens covers both parts, and
            the free text always leaves enough for the shortest answer. The free text becomes `Result.reasoning`. With
            `reasoning_end`, the integer limits the model's own reasoning instead. (None)
        describe: add a description of the constraint to the system message: the structure of a schema or type, the
            choices, or examples for a regular expression or grammar. For a structural tag, the description only says
            that the model may make several calls, and only if there are tools. False: no description. None: the
            engine's default (`Engine(describe=...)`), without regular expressions and grammars, and only if a chat
            template renders the prompt. With `think_first`, None adds the description to the request for the answer,
            after the free text.
    """

    tools: Sequence[Tool]


_CONSTRAINT_HINT: Final = "the constraint is the second argument, as in generate(prompt, constraint)"
FOREIGN_KEYWORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("max_new_tokens", "max_length", "max_completion_tokens", "max_output_tokens"), "max_tokens"),
    **dict.fromkeys(("stop_sequences", "stop_strings", "stop_words"), "stop"),
    **dict.fromkeys(
        ("schema", "json_schema", "guided_json", "json_object", "response_format"), f"{_CONSTRAINT_HINT}: a dict"
    ),
    **dict.fromkeys(("response_model", "output_type", "type"), f"{_CONSTRAINT_HINT}: the type itself"),
    **dict.fromkeys(("regex", "guided_regex"), f"{_CONSTRAINT_HINT}: a string is a regular expression"),
    **dict.fromkeys(("choice", "choices", "guided_choice"), f"{_CONSTRAINT_HINT}: a list of strings"),
    **dict.fromkeys(("grammar", "guided_grammar"), f"{_CONSTRAINT_HINT}: a compiled grammar"),
    "messages": "messages are the first argument, as in generate(messages)",
    "prompt_token_ids": "token ids are the first argument, as in generate(ids)",
    "stream": "engine.stream(prompt) yields the text as it is generated",
    "do_sample": "use temperature: above 0 the engine samples, 0 is greedy",
    "num_return_sequences": "n",
    "add_generation_prompt": "the chat template is always applied to a string prompt, except with raw=True",
}
"""Keywords of other libraries -> the name of the same option here, or a hint on what to do instead."""


@keywords_checked_class({"schema": _CONSTRAINT_HINT})
@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """One of many requests for `Engine.generate_each`. The fields are the arguments of `Engine.generate`."""

    prompt: Prompt
    constraint: Constraint = None
    n: int = 1
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", to_int(self.n))
        check_keywords("Request", self.options, Options.__annotations__, FOREIGN_KEYWORDS)

    def __repr__(self) -> str:
        parts = [brief(self.prompt, 30)]
        parts += [] if self.constraint is None else [f"constraint={brief(self.constraint, 25)}"]
        parts += [] if self.n == 1 else [f"n={self.n}"]
        parts += [f"options={sorted(self.options)}"] if self.options else []
        return f"Request({', '.join(parts)})"


def check_options(
    n: object, max_tokens: object, drafts: object, budget_ramp: object, *, scores_prompt: bool, **flags: object
) -> None:
    """Check the options of a request that no other class checks. `scores_prompt`: whether max_tokens may be 0.

    Raises:
        OptionError: an option is out of range; the message names it.
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise OptionError(f"n is {brief(n)}, but must be a positive integer", option="n")
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < (0 if scores_prompt else 1):
        expected = "an integer of at least 0" if scores_prompt else "a positive integer"
        raise OptionError(f"max_tokens is {brief(max_tokens)}, but must be {expected}", option="max_tokens")
    drafts = 0 if drafts is None else drafts
    if not isinstance(drafts, int) or isinstance(drafts, bool) or not 0 <= drafts <= _MAX_DRAFTS:
        raise OptionError(f"drafts is {brief(drafts)}, but must be an integer from 0 to {_MAX_DRAFTS}", option="drafts")
    if not is_number(budget_ramp) or not 0 <= budget_ramp <= 100:
        raise OptionError(f"budget_ramp is {brief(budget_ramp)}, but must be from 0 to 100", option="budget_ramp")
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise OptionError(f"{name} is {brief(flag)}, but must be True or False", option=name)


def as_string_tuple(name: str, texts: str | Sequence[str] | None) -> tuple[str, ...]:
    """A tuple of the strings in an option: a string counts as one, None as none. Raises the errors of `as_tuple`."""
    return (texts,) if isinstance(texts, str) else as_tuple(name, texts, "a string or a list of strings")


def as_tuple(name: str, items: Iterable[_T] | None, expected: str) -> tuple[_T, ...]:
    """Convert an option that accepts a sequence or None into a tuple.

    Raises:
        OptionError: the value is not a sequence of items, or has too many; `expected` describes it.
    """
    if items is None:
        return ()
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise OptionError(f"{name} is {brief(items)}, but must be {expected}", option=name)
    return tuple(read_items(name, items))
