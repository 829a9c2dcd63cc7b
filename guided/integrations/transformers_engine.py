"""The engine on any causal model of transformers: `guided.from_transformers(model, tokenizer)`.

In: a model and its tokenizer, as transformers has loaded them. Out: an `Engine`, with its `generate`, `stream`,
budgets, forced tokens, tools and values. The model runs as transformers runs it: each sequence with a cache of its own,
as the model makes it, so every architecture works, one sequence after the other. What `Engine.from_pretrained` can load
itself is faster there: its sequences share forward passes, and what they have in common.

Cost: a forward pass of transformers for each sequence of a step. A model that gives no cache (a state-space model has
none that can be handed over) reads its whole sequence again each time. Tokens that are taken back, as drafts are, drop
the cache of their sequence.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from guided.chat import ChatTemplate
from guided.engine.engine import Engine
from guided.engine.runner import Ahead, Chunk, ModelRunner
from guided.errors import GuidedError
from guided.integrations.transformers import vocabulary_of
from guided.kv.cache import Lease, Plan, SegmentedPlan
from guided.models.model import Attend

__all__ = ["from_transformers"]

_CONTEXT = 4096  # positions, where the model's configuration says nothing
_NAMES = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")


def from_transformers(model: Any, tokenizer: Any) -> Engine:
    """An engine that runs a causal model of transformers; see the head.

    Args:
        model: what `AutoModelForCausalLM.from_pretrained` gives, on any device, of any dtype. It is put into `eval()`.
        tokenizer: its tokenizer, a fast one.

    Raises:
        VocabularyError: the tokenizer cannot be read. GuidedError: the model gives no logits of next tokens, or reads
            its prompt with an encoder.
    """
    can_generate = getattr(model, "can_generate", None)
    if can_generate is None or not can_generate() or model.get_output_embeddings() is None:
        raise GuidedError(f"{type(model).__name__} has no head that scores next tokens: load it as a causal model")
    if getattr(model.config, "is_encoder_decoder", False):
        why = "reads its prompt with an encoder, which the engine does not run"
        raise GuidedError(f"{type(model).__name__} {why}: give a GuidedLogitsProcessor to its generate()")
    vocabulary = vocabulary_of(tokenizer, model)
    model.eval()
    there = _TransformersModel(model)
    tokens = {name: text for name, text in tokenizer.special_tokens_map.items() if isinstance(text, str)}
    chat = ChatTemplate.found(vocabulary, getattr(tokenizer, "chat_template", None), tokens)
    return Engine(there, vocabulary, chat=chat, bos=_before_text(tokenizer), runner=_TransformersRunner(there))


def _before_text(tokenizer: Any) -> list[int]:
    """The ids that the tokenizer puts before a text."""
    alone: list[int] = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole: list[int] = tokenizer("a")["input_ids"]
    starts = (at for at in range(len(whole)) if whole[at : at + len(alone)] == alone)
    return whole[: next(starts, 0)]


@dataclass(frozen=True, slots=True)
class _Config:
    """See `guided.models.model.ModelConfig`; what a cache of ours would hold is not asked for."""

    vocab_size: int
    context: int
    layers: int = 0
    dim: int = 0
    heads: int = 1
    kv_heads: int = 1
    head_dim: int = 1


class _TransformersModel:
    """The model as the engine sees it. It is run by `_TransformersRunner` alone."""

    def __init__(self, model: Any) -> None:
        self.model = model
        numbers = model.config.get_text_config(decoder=True)
        context = next((value for name in _NAMES if isinstance(value := getattr(numbers, name, None), int)), _CONTEXT)
        self.config = _Config(int(model.get_output_embeddings().weight.shape[0]), context)
        takes = inspect.signature(model.forward).parameters
        self.keeps = "logits_to_keep" in takes
        self.cache_name = "cache" if "cache" in takes else "past_key_values"  # its name before transformers 5.24

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return self.model.dtype  # type: ignore[no-any-return]

    @property
    def device(self) -> torch.device:
        """Of the embeddings."""
        return self.model.get_input_embeddings().weight.device  # type: ignore[no-any-return]

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Not used: transformers' models hold their keys and values themselves."""
        raise GuidedError("a model of transformers runs whole sequences: use its runner")

    def logits(self, hidden: Tensor) -> Tensor:
        """Not used, either."""
        raise GuidedError("a model of transformers runs whole sequences: use its runner")


class _Sequence(Lease):
    cache: Any = None  # the model's own; it holds `length` positions


class _Sequences:
    """The sequences of an engine, each with the model's own cache; see `guided.kv.cache.KVCache`."""

    def __init__(self, capacity: int) -> None:
        self._capacity, self._used = capacity, 0

    @property
    def capacity(self) -> int:
        """Positions that fit in all."""
        return self._capacity

    @property
    def available(self) -> int:
        """Positions that could still be stored."""
        return self._capacity - self._used

    def touch(self) -> None:
        """Nothing: the model allocates."""

    def open(self, tokens: Sequence[int], *, keep: int = 1, salt: str = "") -> Lease:
        """An empty sequence: nothing is shared."""
        return _Sequence(salt=salt)

    def reserve(self, lease: Lease, new: int) -> bool:
        """Whether there is room."""
        return new <= self.available

    def fork(self, lease: Lease) -> Lease:
        """A copy of the cache."""
        assert isinstance(lease, _Sequence)
        if lease.length > self.available:
            raise MemoryError(f"there is room for {self.available} positions, a copy takes {lease.length}")
        twin = _Sequence(tokens=list(lease.tokens), salt=lease.salt)
        twin.cache = copy.deepcopy(lease.cache)
        self._used += twin.length
        return twin

    def truncate(self, lease: Lease, length: int) -> None:
        """Forget all: caches of transformers differ in what they can take back."""
        assert isinstance(lease, _Sequence)
        if length < lease.length:
            self._used -= lease.length
            lease.forget(0)
            lease.cache = None

    def plan(self, leases: Sequence[Lease], counts: Sequence[int]) -> Plan | SegmentedPlan:
        """There is none: the model holds its keys and values itself."""
        raise GuidedError("a model of transformers holds its keys and values itself")

    def advance(self, lease: Lease, tokens: Sequence[int]) -> None:
        """The new positions hold these tokens."""
        lease.tokens += tokens
        self._used += len(tokens)

    def close(self, lease: Lease) -> None:
        """Give the memory back."""
        assert isinstance(lease, _Sequence)
        if not lease.closed:
            lease.closed, lease.cache = True, None
            self._used -= lease.length
            lease.tokens = []


class _TransformersRunner(ModelRunner):
    """Runs one sequence after the other."""

    can_run_ahead = False

    def __init__(self, model: _TransformersModel) -> None:
        super().__init__(model, _Sequences(max(2 * model.config.context, _CONTEXT)))
        self._model = model

    @torch.inference_mode()
    def step(self, chunks: Sequence[Chunk], ahead: Ahead | None = None) -> Tensor:
        """See `ModelRunner.step`."""
        assert ahead is None
        found = [self._logits(chunk) for chunk in chunks]
        for chunk in chunks:
            self.cache.advance(chunk.lease, chunk.tokens)
        return torch.cat(found)

    def _logits(self, chunk: Chunk) -> Tensor:
        lease, it = chunk.lease, self._model
        assert isinstance(lease, _Sequence)
        again = lease.cache is None  # nothing was read, or the model gives no cache
        ids = [*lease.tokens, *chunk.tokens] if again else list(chunk.tokens)
        options = {"logits_to_keep": max(1, chunk.keep)} if it.keeps else {}
        tokens = torch.tensor([ids], dtype=torch.int64, device=it.device)
        out = it.model(input_ids=tokens, use_cache=True, **{it.cache_name: lease.cache}, **options)
        lease.cache = getattr(out, it.cache_name, None)
        logits: Tensor = out.logits[0]
        return logits[len(logits) - chunk.keep :].float()
