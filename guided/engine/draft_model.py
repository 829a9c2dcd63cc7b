"""A second, smaller model drafts tokens for the engine's model. Each accepted draft saves a pass of the large model.

In: for each task, the ids so far (prompt, output, drafts). Out: the logits of the small model after these ids. The
draft model has its own cache, with a lease for each task. It compares ids to find the prefix that it has already read,
so callers need not report rejected drafts.

The draft model reads a long prompt in chunks of `PIECE` tokens, one per round. It drafts nothing while it is still
reading the prompt, when its cache is full, or when the ids exceed its context. All requests of a batch share one
forward pass. Cost of a round of k drafts: k passes of the small model, and one pass of the large model over k + 1
tokens of each sequence.

Source: "Fast Inference from Transformers via Speculative Decoding" (arXiv 2211.17192). The paper accepts a draft with
some probability. Here every token is chosen as it would be without drafts, so drafts do not change the output. The
small model chooses with the same uniform random number as the large one, so both often choose the same token.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

from guided.engine.runner import Chunk, ModelRunner
from guided.engine.step_requests import LogitRows
from guided.errors import GuidedError
from guided.kv.cache import Lease
from guided.models.model import Model
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["DEFAULT_DRAFTS", "DraftModel", "check_same_tokens"]

DEFAULT_DRAFTS: Final = 4  # the default number of tokens to draft for each pass of the large model
PIECE: Final = 256  # tokens
_Key = TypeVar("_Key", bound=Hashable)


def check_same_tokens(vocabulary: Vocabulary, model: Model, other: Vocabulary | None = None) -> None:
    """Check that the draft model `model` can draft tokens of `vocabulary`. `other`: the draft model's own vocabulary,
    if known.

    Raises:
        GuidedError: the draft model has different tokens, or too few logits.
    """
    hint = "both models must have the same tokens, such as a smaller and a larger model of the same family"
    if vocabulary.size > model.config.vocab_size:
        raise GuidedError(
            f"the draft model has {model.config.vocab_size} logits, but there are {vocabulary.size} tokens: {hint}"
        )
    for id in range(vocabulary.size if other is not None else 0):
        ours, theirs = _token_content(vocabulary, id), _token_content(other, id)
        if ours != theirs:
            raise GuidedError(f"token {id} is {ours!r} in the model, but {theirs!r} in the draft model: {hint}")


def _token_content(vocabulary: Vocabulary | None, id: int) -> bytes | str | None:
    if vocabulary is None or id >= vocabulary.size:
        return None
    return vocabulary.special_tokens.get(id, vocabulary.token_bytes(id))


class DraftModel(Generic[_Key]):
    """See the module docstring.

    Args:
        runner: the small model and its cache.
    """

    def __init__(self, runner: ModelRunner) -> None:
        self._runner, self._cache = runner, runner.cache
        self._leases: dict[_Key, Lease] = {}

    def logits(self, requests: Mapping[_Key, list[int]]) -> dict[_Key, LogitRows]:
        """For each request whose ids have been read completely: the logits after the last id, one row."""
        chunks = dict[_Key, Chunk]()
        for key, ids in requests.items():
            chunk = self._next_chunk(key, ids)
            if chunk is not None:
                chunks[key] = chunk
        if not chunks:
            return {}
        rows = self._runner.step(list(chunks.values()))
        complete_keys = [key for key, chunk in chunks.items() if chunk.keep]
        return {key: LogitRows(rows, index, 1) for index, key in enumerate(complete_keys)}

    def close(self, key: _Key) -> None:
        """Release a task's lease of the cache."""
        lease = self._leases.pop(key, None)
        if lease is not None:
            self._cache.close(lease)

    def _next_chunk(self, key: _Key, ids: list[int]) -> Chunk | None:
        """The next chunk of these ids to read; None if the cache is full or the ids exceed the context."""
        if len(ids) > self._runner.model.config.context:
            self.close(key)
            return None
        lease = self._leases.get(key)
        if lease is None:
            lease = self._leases[key] = self._cache.open(ids)
        common_length = _common_prefix_length(lease.tokens, ids)
        self._cache.truncate(lease, min(common_length, len(ids) - 1))  # read the last id again: its logits are needed
        new_ids = ids[lease.length : lease.length + PIECE]
        if not self._cache.reserve(lease, len(new_ids)):
            self.close(key)
            return None
        return Chunk(lease, new_ids, keep=int(lease.length + len(new_ids) == len(ids)))


def _common_prefix_length(a: list[int], b: list[int]) -> int:
    """The length of the common prefix. Lists usually differ only in their last items, so all items before the last 128
    are compared in one operation."""
    size = min(len(a), len(b))
    tail_begin = max(0, size - 128)
    begin = tail_begin if a[:tail_begin] == b[:tail_begin] else 0
    return next((i for i in range(begin, size) if a[i] != b[i]), size)
