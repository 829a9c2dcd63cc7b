"""Runs the engine on any causal transformers model: `guided.from_transformers(model, tokenizer)`.

In: a model and its tokenizer, as loaded by transformers. Out: an `Engine`, with its `generate`, `stream`, budgets,
forced tokens, tools and values. The model runs as in transformers: one sequence after another, each with a cache that
the model creates. So every decoder-only architecture works. If `Engine.from_pretrained` can load a model, prefer it:
there, sequences share forward passes and common prefixes.

Cost: a forward pass of transformers for each sequence of a step. A model that returns no cache (such as a state-space
model, whose cache cannot be passed in) reads its whole sequence again each time. Rolling tokens back (rejected drafts)
drops the cache of the sequence.
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
from guided.engine.runner import Chunk, ModelRunner, TokensAhead
from guided.errors import GuidedError
from guided.integrations.transformers import vocabulary_of
from guided.kv.cache import Lease, Plan, SegmentedPlan
from guided.models.model import Attend

__all__ = ["from_transformers"]

_DEFAULT_CONTEXT = 4096  # positions, if the model's configuration does not specify them
_CONTEXT_FIELDS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")


def from_transformers(model: Any, tokenizer: Any) -> Engine:
    """Create an engine that runs a causal transformers model; see the module docstring.

    Args:
        model: a model from `AutoModelForCausalLM.from_pretrained`, on any device, of any dtype. It is put into
            `eval()` mode.
        tokenizer: the model's fast tokenizer.

    Raises:
        VocabularyError: the tokenizer cannot be read. GuidedError: the model does not compute next-token logits, or it
            reads its prompt with an encoder.
    """
    can_generate = getattr(model, "can_generate", None)
    if can_generate is None or not can_generate() or model.get_output_embeddings() is None:
        raise GuidedError(f"{type(model).__name__} does not compute next-token logits: load it as a causal model")
    if getattr(model.config, "is_encoder_decoder", False):
        reason = "reads its prompt with an encoder, which the engine does not run"
        raise GuidedError(f"{type(model).__name__} {reason}: pass a GuidedLogitsProcessor to its generate()")
    vocabulary = vocabulary_of(tokenizer, model)
    model.eval()
    wrapped_model = _TransformersModel(model)
    special_tokens = {name: text for name, text in tokenizer.special_tokens_map.items() if isinstance(text, str)}
    chat = ChatTemplate.from_metadata(vocabulary, getattr(tokenizer, "chat_template", None), special_tokens)
    return Engine(
        wrapped_model,
        vocabulary,
        chat=chat,
        bos=_find_ids_before_text(tokenizer),
        runner=_TransformersRunner(wrapped_model),
    )


def _find_ids_before_text(tokenizer: Any) -> list[int]:
    """The ids of the special tokens that the tokenizer puts before a text."""
    text_ids: list[int] = tokenizer("a", add_special_tokens=False)["input_ids"]
    all_ids: list[int] = tokenizer("a")["input_ids"]
    starts = (start for start in range(len(all_ids)) if all_ids[start : start + len(text_ids)] == text_ids)
    return all_ids[: next(starts, 0)]


@dataclass(frozen=True, slots=True)
class _Config:
    """See `guided.models.model.ModelConfig`. The fields for guided's own cache are placeholders."""

    vocab_size: int
    context: int
    layers: int = 0
    dim: int = 0
    heads: int = 1
    kv_heads: int = 1
    head_dim: int = 1


class _TransformersModel:
    """The model with the interface that the engine expects. Only `_TransformersRunner` runs it."""

    def __init__(self, model: Any) -> None:
        self.model = model
        text_config = model.config.get_text_config(decoder=True)
        values = (getattr(text_config, name, None) for name in _CONTEXT_FIELDS)
        context = next((value for value in values if isinstance(value, int)), _DEFAULT_CONTEXT)
        self.config = _Config(int(model.get_output_embeddings().weight.shape[0]), context)
        parameters = inspect.signature(model.forward).parameters
        self.has_logits_to_keep = "logits_to_keep" in parameters
        self.cache_name = (
            "cache" if "cache" in parameters else "past_key_values"
        )  # the old name, before transformers 5.24

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return self.model.dtype  # type: ignore[no-any-return]

    @property
    def device(self) -> torch.device:
        """The device of the embeddings."""
        return self.model.get_input_embeddings().weight.device  # type: ignore[no-any-return]

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Not used: transformers models store their keys and values themselves."""
        raise GuidedError("a transformers model runs whole sequences: use its runner")

    def logits(self, hidden: Tensor) -> Tensor:
        """Not used, for the same reason."""
        raise GuidedError("a transformers model runs whole sequences: use its runner")


class _Sequence(Lease):
    cache: Any = None  # the model's cache, with `length` positions


class _Sequences:
    """The sequences of an engine, each with the model's own cache; see `guided.kv.cache.KVCache`."""

    def __init__(self, capacity: int) -> None:
        self._capacity, self._used_positions = capacity, 0

    @property
    def capacity(self) -> int:
        """The total number of positions."""
        return self._capacity

    @property
    def available(self) -> int:
        """The number of free positions."""
        return self._capacity - self._used_positions

    def touch(self) -> None:
        """Does nothing: the model allocates memory."""

    def open(self, tokens: Sequence[int], *, keep: int = 1, salt: str = "") -> Lease:
        """Open an empty sequence. Nothing is shared."""
        return _Sequence(salt=salt)

    def reserve(self, lease: Lease, new: int) -> bool:
        """Whether there are enough free positions. `advance` takes them."""
        return new <= self.available

    def fork(self, lease: Lease) -> Lease:
        """Copy a sequence with its cache."""
        assert isinstance(lease, _Sequence)
        if lease.length > self.available:
            raise MemoryError(f"only {self.available} positions are free, but a copy takes {lease.length}")
        fork = _Sequence(tokens=list(lease.tokens), salt=lease.salt)
        fork.cache = copy.deepcopy(lease.cache)
        self._used_positions += fork.length
        return fork

    def truncate(self, lease: Lease, length: int) -> None:
        """Drop the whole cache, since not every transformers cache can be truncated."""
        assert isinstance(lease, _Sequence)
        if length < lease.length:
            self._used_positions -= lease.length
            lease.forget(0)
            lease.cache = None

    def plan(self, leases: Sequence[Lease], counts: Sequence[int]) -> Plan | SegmentedPlan:
        """Not used: the model stores its keys and values itself."""
        raise GuidedError("a transformers model stores its keys and values itself")

    def advance(self, lease: Lease, tokens: Sequence[int]) -> None:
        """Record that the new positions hold these tokens."""
        lease.tokens += tokens
        self._used_positions += len(tokens)

    def close(self, lease: Lease) -> None:
        """Free the memory."""
        assert isinstance(lease, _Sequence)
        if not lease.closed:
            lease.closed, lease.cache = True, None
            self._used_positions -= lease.length
            lease.tokens = []


class _TransformersRunner(ModelRunner):
    """Runs one sequence after another."""

    can_run_ahead = False

    def __init__(self, model: _TransformersModel) -> None:
        super().__init__(model, _Sequences(max(2 * model.config.context, _DEFAULT_CONTEXT)))
        self._model = model

    @torch.inference_mode()
    def step(self, chunks: Sequence[Chunk], ahead: TokensAhead | None = None) -> Tensor:
        """See `ModelRunner.step`."""
        assert ahead is None
        logits = [self._compute_logits(chunk) for chunk in chunks]
        for chunk in chunks:
            self.cache.advance(chunk.lease, chunk.tokens)
        return torch.cat(logits)

    def _compute_logits(self, chunk: Chunk) -> Tensor:
        lease, model = chunk.lease, self._model
        assert isinstance(lease, _Sequence)
        must_read_all = lease.cache is None  # nothing has been read, or the model returns no cache
        ids = [*lease.tokens, *chunk.tokens] if must_read_all else list(chunk.tokens)
        options = {"logits_to_keep": max(1, chunk.keep)} if model.has_logits_to_keep else {}
        tokens = torch.tensor([ids], dtype=torch.int64, device=model.device)
        output = model.model(input_ids=tokens, use_cache=True, **{model.cache_name: lease.cache}, **options)
        lease.cache = getattr(output, model.cache_name, None)
        logits: Tensor = output.logits[0]
        return logits[len(logits) - chunk.keep :].float()
