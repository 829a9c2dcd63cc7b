"""Runs the engine on any causal transformers model: `guided.from_transformers(model, tokenizer)`.

In: a model and its tokenizer, as loaded by transformers. Out: an `Engine`, with its `generate`, `stream`, budgets,
forced tokens, tools and values. The model runs as in transformers: one sequence after another, each with a cache that
the model creates. So every decoder-only architecture works. If `Engine.from_pretrained` can load a model, prefer it:
there, sequences share forward passes and common prefixes.

Cost: a forward pass of transformers for each sequence of a step. A model that returns no cache reads its whole sequence
again each time. Rolling tokens back (rejected drafts) drops the cache of the sequence.

Not every model can read several tokens after its cache: Mamba's code for CPUs then ignores the state, without an error.
So unless all layers of the cache are ordinary attention, the engine compares once whether the model computes the same
for several tokens at once and for one after another. If not, it reads a prompt in one pass, and later tokens one by one
(forced tokens are then as slow as chosen ones).
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

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
_PROBE_LENGTHS: Final = (16, 3)  # tokens in the cache, and tokens read after it
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

    @torch.inference_mode()
    def read(self, ids: Sequence[int], cache: Any, keep: int) -> tuple[Tensor, Any]:
        """The float32 logits of the last `keep` of these tokens, which follow the tokens in a cache, and the cache with
        all of them. `cache` None: the tokens are the whole sequence. It is also returned as None by models without a
        cache."""
        options = {"logits_to_keep": max(1, keep)} if self.has_logits_to_keep else {}
        tokens = torch.tensor([list(ids)], dtype=torch.int64, device=self.device)
        output = self.model(input_ids=tokens, use_cache=True, **{self.cache_name: cache}, **options)
        logits: Tensor = output.logits[0]
        return logits[len(logits) - keep :].float(), getattr(output, self.cache_name, None)

    @cached_property
    def reads_chunks(self) -> bool:
        """Whether the model can read several tokens after its cache; see the module docstring."""
        size, (prefix, count) = self.config.vocab_size, _PROBE_LENGTHS
        ids = [(number * 7919 + 1) % size for number in range(prefix + count)]
        _, cache = self.read(ids[:prefix], None, 1)
        if cache is None or _is_attention(cache):
            return cache is not None
        other_cache = copy.deepcopy(cache)
        try:
            logits, cache = self.read(ids[prefix:], cache, count)
        except Exception:  # whatever it is, the model cannot do this
            return False
        rows = []
        for id in ids[prefix:]:
            row, other_cache = self.read([id], other_cache, 1)
            rows.append(row)
        pairs = zip([logits, *_tensors(cache)], [torch.cat(rows), *_tensors(other_cache)], strict=True)
        tolerance = max(1e-3, 16 * torch.finfo(self.dtype).eps)
        return all(_is_close(found, wanted, tolerance) for found, wanted in pairs)

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Not used: transformers models store their keys and values themselves."""
        raise GuidedError("a transformers model runs whole sequences: use its runner")

    def logits(self, hidden: Tensor) -> Tensor:
        """Not used, for the same reason."""
        raise GuidedError("a transformers model runs whole sequences: use its runner")


def _is_attention(cache: Any) -> bool:
    """Whether all layers of a cache store only keys and values. Caches of other classes, even derived ones, may store
    anything."""
    from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

    return type(cache) is DynamicCache and {type(layer) for layer in cache.layers} <= {
        DynamicLayer,
        DynamicSlidingWindowLayer,
    }


def _tensors(value: Any) -> Iterator[Tensor]:
    """The floating-point tensors in a cache."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(item)
    elif hasattr(value, "__dict__"):
        yield from _tensors(vars(value))


def _is_close(found: Tensor, wanted: Tensor, tolerance: float) -> bool:
    """Whether two tensors differ by rounding only, relative to the largest number."""
    if found.shape != wanted.shape:
        return False
    return found.numel() == 0 or bool((found - wanted).abs().max() <= tolerance * wanted.abs().max())


class _Sequence(Lease):
    cache: Any = None  # the model's cache, with `length` positions; None: the model must read all tokens


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

    def step(self, chunks: Sequence[Chunk], ahead: TokensAhead | None = None) -> Tensor:
        """See `ModelRunner.step`."""
        assert ahead is None
        rows = [row for chunk in chunks for row in self._read_chunk(chunk)]
        for chunk in chunks:
            self.cache.advance(chunk.lease, chunk.tokens)
        size = self._model.config.vocab_size
        return torch.cat(rows) if rows else torch.empty((0, size), dtype=torch.float32, device=self._model.device)

    def _read_chunk(self, chunk: Chunk) -> list[Tensor]:
        """Read a chunk. Return the logits of its last `keep` tokens, in one or several parts."""
        lease, model, count = chunk.lease, self._model, len(chunk.tokens)
        assert isinstance(lease, _Sequence)
        if lease.cache is None:  # nothing has been read, or the model has no cache
            if chunk.keep == 0 and not model.reads_chunks:
                return []  # read these tokens together with the next ones
            logits, lease.cache = model.read([*lease.tokens, *chunk.tokens], None, chunk.keep)
            return [logits]
        if count == 1 or model.reads_chunks:
            logits, lease.cache = model.read(chunk.tokens, lease.cache, chunk.keep)
            return [logits]
        rows = []
        for number, token in enumerate(chunk.tokens):
            row, lease.cache = model.read([token], lease.cache, int(number >= count - chunk.keep))
            rows.append(row)
        return rows
