"""An output of the engine: events while it is generated, and a result at the end.

In: the tokens, texts and times that a `Sequence` collects. Out: data for callers. Values that cost time are computed on
first access: the parsed value, the fields with their probabilities, and the value of an incomplete text. Cost of an
access: linear in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, cast

from guided.engine.fields import ChoiceRecord, Field
from guided.errors import short
from guided.frontends.structural_tag.calls import CallReader
from guided.keywords import accept_old_names
from guided.matching.constraint import ValueParser
from guided.sampling.logprobs import TokenLogprobs

__all__ = ["BudgetBound", "FinishReason", "GrowingText", "Result", "StreamEvent", "TextSoFar", "Timings", "ToolCall"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ValueT_co = TypeVar("ValueT_co", covariant=True, default=object)
else:
    from typing import TypeVar

    ValueT_co = TypeVar("ValueT_co", covariant=True)

FinishReason = Literal["stop", "length"]


@accept_old_names({"drafted": "drafted_tokens", "held": "accepted_drafts"})
@dataclass(slots=True)
class Timings:
    """Times in seconds, measured with `perf_counter`. On an accelerator `forward` is the time to launch a pass, and
    `sample` includes the time to wait for it.

    Attributes:
        prefill: the forward passes over the prompt and the forced tokens after it; 0 if another output of the request
            has read them.
        forward: each later forward pass, including its work for other sequences.
        mask: the matcher's time to fill each applied mask. Other work on masks counts only in `total`.
        sample: for each step, masking the logits and choosing a token.
        drafted_tokens: the number of drafted tokens.
        accepted_drafts: the number of accepted drafts.
        total: all steps in which the output took part, including their work for other sequences.
    """

    prefill: float = 0.0
    forward: list[float] = field(default_factory=list)
    mask: list[float] = field(default_factory=list)
    sample: list[float] = field(default_factory=list)
    drafted_tokens: int = 0
    accepted_drafts: int = 0
    total: float = 0.0

    def add_forward(self, seconds: float, *, is_prompt: bool) -> None:
        """Record a forward pass over the prompt, or a later one."""
        if is_prompt:
            self.prefill += seconds
        else:
            self.forward.append(seconds)

    def include(self, earlier: Timings) -> None:
        """Add the times of an earlier part of the same output."""
        self.prefill += earlier.prefill
        self.forward, self.sample = earlier.forward + self.forward, earlier.sample + self.sample
        self.mask[:0] = earlier.mask  # in place: the masks append to this list
        self.drafted_tokens += earlier.drafted_tokens
        self.accepted_drafts += earlier.accepted_drafts
        self.total += earlier.total

    @property
    def mask_us(self) -> list[float]:
        """`mask` in microseconds."""
        return [1e6 * seconds for seconds in self.mask]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call in an output.

    Attributes:
        tool: the name of the tool.
        text: the arguments, as the model wrote them.
        result: the result in the output; empty if it did not fit the budget.
    """

    tool: str
    text: str
    result: str


@dataclass(frozen=True, slots=True)
class BudgetBound:
    """The effect of the budget alone on an output. The budget removes tokens that the specification allows if no
    complete output would fit after them. When little of the budget is left, it also lowers the probability of tokens
    that make the output longer (see `Options.budget_ramp`).

    Attributes:
        steps: the number of choices that the budget affected.
        mass: the model's probability (temperature 1) that the budget removed, summed over these choices: 0 to `steps`.
    """

    steps: int = 0
    mass: float = 0.0

    def with_step(self, mass: float) -> BudgetBound:
        """Return a copy with one more affected choice."""
        return BudgetBound(self.steps + 1, self.mass + mass)


_NO_BUDGET_EFFECT: Final = BudgetBound()


@dataclass(repr=False)
class Result(Generic[ValueT_co]):
    """One output.

    The type parameter tells type checkers the type of the value: `Result[Person]` if the constraint is the class
    `Person`, `Result[str]` for a regular expression or a choice, and `Result[object]` for other specifications.

    Attributes:
        text: the decoded output, without the end token. It contains the stop string only with
            `include_stop_str_in_output`.
        reasoning: the model's reasoning before the text, if `reasoning_end` or `think_first` was given.
        reasoning_tokens: how many of `tokens` belong to the reasoning, with its end marker.
        tokens: the ids of reasoning and text, in order. A stop string may end the text within the last token.
        token_masks: for each of `tokens`, 1 if it was sampled, 0 if the grammar or a tool forced it.
        finish_reason: "stop": the model, the grammar or a stop ended the text. "length": the budget ended it; only
            without a constraint. If the budget ended the text of a constraint, `finish_reason` is "stop" and `cut` is
            True; the server reports "length" in both cases.
        record: the data from which `fields` is computed; None without a constraint. It refers to the vocabulary, so a
            result with a record cannot be pickled; its text, value and fields can.
        is_exact: whether this is an exact sample (`sampling="exact"`).
        cut: whether the budget ended a text that could have continued: free text, or the text of a constraint that
            never has to end, such as "[a-z ]+". The text satisfies the constraint even then.
        timings: see `Timings`.
        removed_log_masses: for each choice, -log of the model's probability (temperature 1) of all allowed tokens; 0 if
            no likely token was masked. The penalty that the budget ramp applied to the chosen token
            (`Options.budget_ramp`) is subtracted. The entries belong to the tokens with a 1 in `token_masks`, in order;
            a last entry may belong to the end token, or to a token that a stop condition removed.
        removed_log_mass: the sum of `removed_log_masses`. With `score_forced` it includes -log of the model's
            probability of each forced token (except those of tool results), and exp(-removed_log_mass) is the
            importance weight.
        budget_bound: the effect of the budget alone; see `BudgetBound`.
        captures: the captures of the grammar: name -> texts, in the order in which they begin.
        seed: reproduces this output (with n=1 and the same arguments).
        prompt_tokens: the number of tokens before the output.
        parse: parses the text into `value`; None: the text has no value.
        stop: the stop string, stop pattern or stop token that ended the text.
        logprobs: for each of `tokens`, its log probabilities; None for a forced token without `score_forced`. None if
            they were not requested.
        prompt_logprobs: for each token of the prompt, its log probabilities; None for the first token. None if they
            were not requested.
        tool_calls: the tool calls, in order.
        prefill: the last message of the conversation, if the output continues it (`continue_final_message`) under a
            constraint. The constraint, the value and the fields then refer to `prefill + text`.
        healed: the end of the prompt, which the first `tokens` spell again (`heal_prompt`). It is not part of `text`.
        non_canonical: how many of `tokens` the tokenizer would not have produced (`canonical`), including the tokens of
            tool results. 0: `tokens` are the encoding of `healed + text`.
    """

    text: str
    tokens: list[int]
    token_masks: list[int]
    finish_reason: FinishReason
    timings: Timings
    removed_log_masses: list[float]
    removed_log_mass: float
    seed: int
    prompt_tokens: int
    parse: ValueParser | None = field(default=None, repr=False, compare=False)
    stop: str | int | None = None
    logprobs: list[TokenLogprobs | None] | None = None
    prompt_logprobs: list[TokenLogprobs | None] | None = None
    reasoning: str | None = None
    reasoning_tokens: int = 0
    tool_calls: list[ToolCall] = field(default_factory=list)
    budget_bound: BudgetBound = _NO_BUDGET_EFFECT
    captures: dict[str, list[str]] = field(default_factory=dict)
    prefill: str = ""
    healed: str = ""
    non_canonical: int = 0
    cut: bool = False
    record: ChoiceRecord | None = field(default=None, repr=False, compare=False)
    is_exact: bool = False

    def __repr__(self) -> str:
        return f"Result({short(self.text)}, {len(self.tokens)} tokens, finish_reason={self.finish_reason!r})"

    @cached_property
    def value(self) -> ValueT_co:
        """The parsed text if the constraint is JSON or a type; the text itself for a regular expression or a choice;
        None without a constraint.

        For a type it is an instance of the type (see `guided.frontends.python_types.value_readers`): a dataclass or
        pydantic model, a member of an Enum, a set, a date. For a function it is the arguments, as
        `inspect.BoundArguments`.

        The text is parsed on first access. Errors of Python's own parsers are not caught: ValueError for an integer
        with more digits than `sys.set_int_max_str_digits` allows, RecursionError for very deep nesting, pydantic's
        ValidationError if a model checks more than its schema says. SpecError, with the location: a class inside the
        type rejects its values (`__post_init__`), or the value nests deeper than `value_readers.MAX_DEPTH`.
        """
        if self.parse is None or self.finish_reason != "stop":  # "length" is only possible without a constraint
            return None  # type: ignore[return-value]
        return cast(ValueT_co, self.parse(self.prefill + self.text))

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The values in the text, and how sure the model was of each; see `Field`.

        The keys are JSON Pointers if the constraint is JSON or a type (non-empty containers have no entry of their
        own), names of captures if the grammar has captures, and otherwise "" for the whole text. Empty without a
        constraint.
        """
        if self.record is None:
            return {}
        is_json = self.parse is not None and self.parse.is_json
        return self.record.fields(
            self.text, self.token_masks, self.removed_log_masses, is_json=is_json, prefill=self.prefill
        )

    def call_fields(self, reader: CallReader) -> dict[str, Field]:
        """Like `fields`, for the names and arguments of the tool calls in the text, if the constraint is a structural
        tag.

        The keys are JSON Pointers in the list of calls, such as `/0/name` and `/0/arguments/city`. `Field.start` and
        `end` refer to the text that includes the names of control tokens, which `text` omits.

        Args:
            reader: a new reader for the tag's style and tools: `guided.tool_style(name).reader(tools)`.
        """
        if self.record is None:
            return {}
        return self.record.call_fields(
            self.tokens,
            self.token_masks,
            self.removed_log_masses,
            reader,
            reasoning_tokens=self.reasoning_tokens,
        )

    def doubtful(self, threshold: float = 0.5) -> dict[str, Field]:
        """The fields with a `confidence` below the threshold, the least confident first.

        Raises:
            TypeError: the threshold is not a number.
        """
        if not isinstance(threshold, int | float):
            raise TypeError(f"threshold must be a number, not a {type(threshold).__name__}")
        doubtful = [item for item in self.fields.items() if item[1].confidence < threshold]
        return dict(sorted(doubtful, key=lambda item: item[1].confidence))

    @property
    def log_weight(self) -> float:
        """log of the sample's importance weight for the model's distribution, conditioned on the constraint.

        0 for an exact sample. Otherwise -removed_log_mass, which is the weight of samples with temperature 1, without
        other parameters that change probabilities, with `budget_ramp=0`, and with `score_forced` if the constraint
        forces tokens.
        """
        return 0.0 if self.is_exact else -self.removed_log_mass

    @property
    def tokens_per_second(self) -> float:
        """Output tokens per second, including forced tokens and the time of prefill."""
        return len(self.tokens) / self.timings.total if self.timings.total > 0 else 0.0


@dataclass(frozen=True, slots=True, repr=False)
class StreamEvent(Generic[ValueT_co]):
    """Some new tokens of an output.

    Attributes:
        tokens: the ids of the new tokens; empty in the last event.
        text: the text that they add. Incomplete characters and possible beginnings of a stop string are withheld.
        forced: whether the grammar or a tool forced all tokens of this event.
        result: in the last event, the complete result.
        logprobs: the log probabilities of each token, as in the result.
        reasoning: whether the text is reasoning instead of the answer. Reasoning is not part of `result.text`.
        budget_bound: the effect of the budget alone on the output so far.
        captures: the captures so far, including incomplete texts; see `Result.captures`. They may change with later
            text if the grammar is ambiguous.
        prompt_logprobs: in the first event, the log probabilities of the prompt, as in the result; otherwise empty.
    """

    tokens: tuple[int, ...]
    text: str
    forced: bool = False
    result: Result[ValueT_co] | None = None
    logprobs: tuple[TokenLogprobs | None, ...] = ()
    reasoning: bool = False
    budget_bound: BudgetBound = _NO_BUDGET_EFFECT
    captures: dict[str, list[str]] = field(default_factory=dict)
    prompt_logprobs: tuple[TokenLogprobs | None, ...] = ()
    so_far: TextSoFar | None = field(default=None, repr=False, compare=False)

    @property
    def partial(self) -> Any:
        """The value so far; None: nothing is certain yet, or there is no constraint.

        For a JSON Schema it is the JSON value, including an unfinished string. For a type it has this type if possible:
        a pydantic model with its complete fields, a list with its complete items; see
        `guided.frontends.python_types.partial_values`. If the grammar has captures, it is `captures`. Otherwise it is
        the text so far. In the last event it equals the result's value, unless there are captures.

        Each access takes time linear in the text so far.
        """
        if self.result is not None and self.result.parse is not None and not self.result.captures:
            return self.result.value
        if self.captures or self.so_far is None:
            return self.captures or None
        return self.so_far.value

    def __repr__(self) -> str:
        details = ", forced" if self.forced else ""
        details += ", reasoning" if self.reasoning else ""
        details += f", finish_reason={self.result.finish_reason!r}" if self.result is not None else ""
        return f"StreamEvent({short(self.text)}, {len(self.tokens)} tokens{details})"


class TextSoFar(NamedTuple):
    """The text of an output up to an event: the first `end` pieces of a list that the events share."""

    parser: ValueParser
    pieces: Sequence[str]
    end: int

    @property
    def value(self) -> Any:
        """The value so far."""
        return self.parser.partial("".join(self.pieces[: self.end]))


class GrowingText:
    """The text of a streamed output, for `StreamEvent.partial`. `parser`: None if there is no constraint."""

    def __init__(self, parser: ValueParser | None, prefill: str) -> None:
        self._parser, self._pieces = parser, [prefill]

    def add(self, event: StreamEvent) -> StreamEvent:
        """Return the event with the text so far."""
        if self._parser is None or event.reasoning:
            return event
        self._pieces.append(event.text)
        return replace(event, so_far=TextSoFar(self._parser, self._pieces, len(self._pieces)))
