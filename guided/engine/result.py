"""What an engine hands back: events while it runs, a result at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, Literal

from guided.errors import short
from guided.sampling.logprobs import TokenLogprobs

__all__ = ["BudgetBound", "FinishReason", "Result", "StreamEvent", "Timings", "ToolCall"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ValueT_co = TypeVar("ValueT_co", covariant=True, default=object)
else:
    from typing import TypeVar

    ValueT_co = TypeVar("ValueT_co", covariant=True)

FinishReason = Literal["stop", "length"]


@dataclass(slots=True)
class Timings:
    """Seconds, by perf_counter. On an accelerator a forward pass is counted when it is launched, and the waiting in
    `sample`.

    Attributes:
        prefill: the forward passes over the prompt and what is forced after it (0 where a sample shares it).
        forward: each later forward pass, the whole of it where others took part.
        mask: the matcher's filling of each mask that is applied. Other work for a step counts in `total` alone.
        sample: each step's masking of logits and choice of a token.
        drafted: tokens that were drafted, and read with others in one pass.
        held: those of them that were chosen, too.
        total: of all rounds in which the output took part, others' share of them included.
    """

    prefill: float = 0.0
    forward: list[float] = field(default_factory=list)
    mask: list[float] = field(default_factory=list)
    sample: list[float] = field(default_factory=list)
    drafted: int = 0
    held: int = 0
    total: float = 0.0

    def add_forward(self, seconds: float, *, prompt: bool) -> None:
        """Count a forward pass, over the prompt or after it."""
        if prompt:
            self.prefill += seconds
        else:
            self.forward.append(seconds)

    @property
    def mask_us(self) -> list[float]:
        """`mask` in microseconds."""
        return [1e6 * seconds for seconds in self.mask]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call in an output.

    Attributes:
        tool: its name.
        text: the arguments, as the model wrote them.
        result: what stands in the output after it; empty where the budget had no room for it.
    """

    tool: str
    text: str
    result: str


@dataclass(frozen=True, slots=True)
class BudgetBound:
    """What the budget alone took from an output: tokens that the specification allows, and after which nothing complete
    would have fitted any more; and some of the probability of tokens that make the output longer, where little is left
    (see `Options.budget_ramp`).

    Attributes:
        steps: the choices at which it took something.
        mass: the model's probability (temperature 1) that it took, summed over these choices: 0 to `steps`.
    """

    steps: int = 0
    mass: float = 0.0

    def with_step(self, mass: float) -> BudgetBound:
        """One choice more."""
        return BudgetBound(self.steps + 1, self.mass + mass)


_UNBOUND: Final = BudgetBound()


@dataclass(repr=False)
class Result(Generic[ValueT_co]):
    """One output.

    For type checkers it has the type of its value: `Result[Person]` where the class is the constraint, `Result[str]`
    for a regular expression or a choice, and `Result[object]` where only the specification knows.

    Attributes:
        text: the output, decoded; the end token is not part of it, nor is a stop, if it was not asked for.
        reasoning: what the model thought before it, where `reasoning_end` was given.
        tokens: the ids of reasoning and text, in order: those that begin before its end (a stop may cut the last one in
            two).
        token_masks: for each of `tokens` 1 where it was sampled, 0 where the grammar or a tool forced it.
        finish_reason: "stop": the model, the grammar or a stop ended it. "length": the budget did; only without a
            constraint.
        cut: whether the budget ended the text where it could have gone on: free text, or text of a constraint that has
            no end of its own, as "[a-z ]+" has none. What the constraint says is satisfied even then.
        timings: see `Timings`.
        removed_log_masses: for each choice, what the mask removed: -log of the model's probability (temperature 1) of
            all that was allowed; 0 where nothing likely was masked. Where the budget led (`Options.budget_ramp`), less
            what the choice itself was lowered by. The choice of an end token counts too.
        removed_log_mass: their sum. Where `score_forced` was asked for, -log of the model's probability of each forced
            token is in it (those of tools' results are not), and exp(-removed_log_mass) is the weight that importance
            sampling asks for.
        budget_bound: what the budget alone removed; see `BudgetBound`.
        captures: what the grammar captures: name -> its texts, in the order in which they begin.
        seed: gives this output again (with n=1 and the same arguments).
        prompt_tokens: how many tokens stood before the output.
        parse: makes the value of the text; None: it has none.
        stop: the stop text, stop pattern or stop token that ended it.
        logprobs: for each of `tokens` its log probabilities, None for a forced one unless `score_forced` was asked for;
            None: they were not asked for.
        prompt_logprobs: the same for the prompt's tokens; None for the first, which follows nothing.
        tool_calls: the calls of tools, in order.
        healed: the end of the prompt that the first of `tokens` spell again (`heal_prompt`); no part of `text`.
        non_canonical: how many of `tokens` the tokenizer would not have written (`canonical`); 0: they are the encoding
            of `healed` and `text`. It counts those of tools' results, and where nothing else was left.
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
    parse: Callable[[str], ValueT_co] | None = field(default=None, repr=False, compare=False)
    stop: str | int | None = None
    logprobs: list[TokenLogprobs | None] | None = None
    prompt_logprobs: list[TokenLogprobs | None] | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] = field(default_factory=list)
    budget_bound: BudgetBound = _UNBOUND
    captures: dict[str, list[str]] = field(default_factory=dict)
    healed: str = ""
    non_canonical: int = 0
    cut: bool = False

    def __repr__(self) -> str:
        return f"Result({short(self.text)}, {len(self.tokens)} tokens, finish_reason={self.finish_reason!r})"

    @cached_property
    def value(self) -> ValueT_co:
        """The parsed text where the constraint is JSON or a type; the text itself for a regular expression or a choice;
        None without a constraint.

        A value of the type where it is one (see `guided.frontends.python_types.value_readers`): an instance of a
        dataclass or a pydantic model, a member of an Enum, a set, a date; for a function its arguments, as
        `inspect.BoundArguments`.

        Parsed when it is first asked for. What Python's own readers refuse is theirs to raise: ValueError for an
        integer of more digits than `sys.set_int_max_str_digits` allows, RecursionError for very deep nesting,
        pydantic's ValidationError where a model checks more than its schema says. SpecError, with the place: a class
        inside the type does so (`__post_init__`), or the value nests deeper than `python_values.DEEPEST`.
        """
        if self.parse is None or self.finish_reason != "stop":  # never under a constraint: that ends complete
            return None  # type: ignore[return-value]
        return self.parse(self.text)

    @property
    def tokens_per_second(self) -> float:
        """Output tokens, forced ones included, by the whole time, prefill included."""
        return len(self.tokens) / self.timings.total if self.timings.total > 0 else 0.0


@dataclass(frozen=True, slots=True, repr=False)
class StreamEvent(Generic[ValueT_co]):
    """Some new tokens of an output.

    Attributes:
        tokens: their ids; none in the last event.
        text: what they add to the text. A character whose bytes are not complete is held back until they are, and so
            is what may be the beginning of a stop.
        forced: the grammar or a tool forced them (all of one event alike).
        result: in the last event, the whole.
        logprobs: of each token, as the result has them.
        reasoning: the text is thinking, not the answer: no part of `result.text`.
        budget_bound: what the budget alone has removed from the output so far.
        captures: what the grammar has captured so far, incomplete texts included; see `Result.captures`. Which texts
            these are may change with what follows, where the grammar leaves it open.
    """

    tokens: tuple[int, ...]
    text: str
    forced: bool = False
    result: Result[ValueT_co] | None = None
    logprobs: tuple[TokenLogprobs | None, ...] = ()
    reasoning: bool = False
    budget_bound: BudgetBound = _UNBOUND
    captures: dict[str, list[str]] = field(default_factory=dict)

    def __repr__(self) -> str:
        more = ", forced" if self.forced else ""
        more += ", reasoning" if self.reasoning else ""
        more += f", finish_reason={self.result.finish_reason!r}" if self.result is not None else ""
        return f"StreamEvent({short(self.text)}, {len(self.tokens)} tokens{more})"
