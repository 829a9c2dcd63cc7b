"""The sampling parameters of a request, and their checks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, Self

from guided.errors import OptionError, brief
from guided.keywords import check_integer, is_number, read_items, to_int

__all__ = ["REPETITION_PENALTIES", "SamplingParams"]

REPETITION_PENALTIES: Final = (1e-30, 1e30)
"""The smallest and the largest value of `repetition_penalty`: beyond them, logits could overflow float32."""
_SEEDS = 1 << 64
_RETRY_STEP = 0xD1B54A32D192ED03  # far from the seeds of the request's other samples, which are adjacent


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The sampling parameters of one request.

    Order of application, on raw logits: the constraint's mask; allowed_token_ids, bad_words, min_tokens; logit_bias;
    the penalties for repetition, frequency and presence; temperature; min-p; top-k; top-p. (As in vLLM.) A forbidden
    token stays forbidden in all later steps. At temperature 0, min-p, top-k and top-p have no effect.

    Attributes:
        temperature: at 0, the most likely token is chosen (among equals, the lowest id).
        top_k: choose among the k most likely tokens; None, 0 or -1: all.
        top_p: choose among the fewest remaining tokens whose probabilities (after the temperature) sum to at least
            this; None: all.
        seed: the choice at a position depends only on (seed, position, logits), not on other requests.
        min_p: choose among tokens that are at least `min_p` times as likely (after the temperature) as the most likely
            token; None: all.
        repetition_penalty: divides positive and multiplies negative logits of tokens in the prompt or output; 1: no
            penalty. In `REPETITION_PENALTIES`.
        presence_penalty: subtracted from the logit of each token in the output.
        frequency_penalty: subtracted from a token's logit for each occurrence in the output.
        logit_bias: id -> bias, from -100 to 100, which is added to the token's logit.
        allowed_token_ids: the only tokens that are allowed, including end tokens; None: all. Text that a constraint
            forces also uses only these tokens.
        bad_words: sequences of ids that must not occur in the output: the last id of a sequence is forbidden after the
            other ids.
        min_tokens: until the output has this many tokens, end tokens and stop tokens are forbidden if another token is
            allowed, and stop strings and stop patterns do not end it. If a constraint allows only the end, the output
            ends.
        shared: a cache that the samples of one request share, for results that are equal for all samples.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    min_p: float | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict, hash=False)
    allowed_token_ids: Collection[int] | None = None
    bad_words: Sequence[Sequence[int]] = ()
    min_tokens: int = 0
    shared: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("top_k", "seed", "min_tokens"):
            object.__setattr__(self, name, to_int(getattr(self, name)))
        self._check_numbers()
        self._check_ids()

    def sample(self, index: int) -> SamplingParams:
        """The parameters of sample `index` of the same request. The seeds are seed, seed + 1, ... modulo 2**64."""
        return self._copy_with("seed", (self.seed + index) % _SEEDS)

    def retry(self, number: int) -> SamplingParams:
        """The parameters of version `number` of a value: another seed, and a temperature of at least 1. For number 0,
        these parameters themselves."""
        seed = (self.seed + number * _RETRY_STEP) % _SEEDS if number else self.seed
        return self._copy_with("seed", seed).at(max(1.0, self.temperature)) if number else self

    def at(self, temperature: float) -> Self:
        """The same parameters at another temperature, a finite number of at least 0."""
        return self._copy_with("temperature", temperature)

    def _copy_with(self, name: str, value: float) -> Self:
        """An unchecked copy that shares all ids with this one: there may be many ids and many copies."""
        new_params = copy(self)
        object.__setattr__(new_params, name, value)
        return new_params

    @property
    def keeps_logits(self) -> bool:
        """Whether no parameter changes logits before the temperature."""
        return (
            self.repetition_penalty == 1
            and self.presence_penalty == self.frequency_penalty == 0
            and not (self.logit_bias or self.bad_words or self.min_tokens)
            and self.allowed_token_ids is None
        )

    def ids(self) -> dict[str, Collection[int]]:
        """The ids in each parameter, by the parameter's name."""
        bad_ids = {id for word in self.bad_words for id in word}
        return {"logit_bias": self.logit_bias, "allowed_token_ids": self.allowed_token_ids or (), "bad_words": bad_ids}

    def _check_numbers(self) -> None:
        if not is_number(self.temperature) or self.temperature < 0:
            raise OptionError(
                f"temperature is {brief(self.temperature)}, but must be a finite number of at least 0",
                option="temperature",
            )
        if self.top_k is not None and (not _is_integer(self.top_k) or self.top_k < -1):
            expected = "an integer of at least 1, or 0, -1 or None for all tokens"
            raise OptionError(f"top_k is {brief(self.top_k)}, but must be {expected}", option="top_k")
        if self.top_p is not None and not (is_number(self.top_p) and 0 < self.top_p <= 1):
            raise OptionError(f"top_p is {brief(self.top_p)}, but must lie in (0, 1]", option="top_p")
        if self.min_p is not None and not (is_number(self.min_p) and 0 <= self.min_p <= 1):
            raise OptionError(f"min_p is {brief(self.min_p)}, but must lie in [0, 1]", option="min_p")
        if not _is_integer(self.seed) or not 0 <= self.seed < _SEEDS:
            raise OptionError(f"seed is {brief(self.seed)}, but must be an integer in [0, 2**64)", option="seed")
        low, high = REPETITION_PENALTIES
        if not is_number(self.repetition_penalty) or not low <= self.repetition_penalty <= high:
            raise OptionError(
                f"repetition_penalty is {brief(self.repetition_penalty)}, but must lie in [{low:g}, {high:g}]",
                option="repetition_penalty",
            )
        for name in ("presence_penalty", "frequency_penalty"):
            if not is_number(value := getattr(self, name)) or not -2 <= value <= 2:
                raise OptionError(f"{name} is {brief(value)}, but must lie in [-2, 2]", option=name)
        check_integer("min_tokens", self.min_tokens, minimum=0)

    def _check_ids(self) -> None:
        """Copy and check the ids, so that later changes by the caller have no effect."""
        if not isinstance(self.logit_bias, Mapping):
            raise OptionError(
                f"logit_bias is {brief(self.logit_bias)}, but must map ids to numbers", option="logit_bias"
            )
        object.__setattr__(self, "logit_bias", {to_int(id): bias for id, bias in self.logit_bias.items()})
        words = _items("bad_words", self.bad_words, "sequences of ids")
        object.__setattr__(self, "bad_words", tuple(_items("bad_words", word, "ids") for word in words))
        given_ids = self.allowed_token_ids
        allowed = None if given_ids is None else _items("allowed_token_ids", given_ids, "ids")
        if allowed == ():
            raise OptionError(
                "allowed_token_ids is empty; give at least one id, or None to allow all", option="allowed_token_ids"
            )
        if not all(self.bad_words):
            raise OptionError("bad_words contains an empty sequence; give at least one id", option="bad_words")
        for name, ids in (
            ("logit_bias", self.logit_bias),
            ("allowed_token_ids", allowed or ()),
            ("bad_words", [id for word in self.bad_words for id in word]),
        ):
            for id in ids:
                if not _is_integer(id) or id < 0:
                    raise OptionError(f"{name} contains {brief(id)}, which is not a token id", option=name)
        for id, bias in self.logit_bias.items():
            if not is_number(bias) or not -100 <= bias <= 100:
                raise OptionError(
                    f"logit_bias of token {id} is {brief(bias)}, but must lie in [-100, 100]", option="logit_bias"
                )
        object.__setattr__(self, "allowed_token_ids", None if allowed is None else frozenset(allowed))


def _items(name: str, value: object, expected_items: str) -> tuple[Any, ...]:
    """The items of a value, as a tuple. numpy's integers become ints. Raises OptionError if `value` is not a list, or
    has too many items."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise OptionError(f"{name} must contain {expected_items}, not {brief(value)}", option=name)
    return tuple(map(to_int, read_items(name, value)))


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
