"""Constraints in TensorRT-LLM: a logits processor for `SamplingParams`, and a batched one for `LLM`.

    from guided.integrations.tensorrt_llm import GuidedLogitsProcessor

    processor = GuidedLogitsProcessor({"type": "object", ...}, "path/of/the/model/tokenizer.json", max_tokens=200)
    llm.generate(prompts, SamplingParams(logits_processor=processor, max_tokens=200))

In: a constraint as `Engine.generate` takes it, and the tokenizer. Out: callables with the signatures that
`tensorrt_llm.sampling_params` documents, which set logits in place. They recognize requests by their ids, and the beams
of a request by their tokens (rows.py), so one processor serves any number of requests. TensorRT-LLM accepts any
callable, so this module does not import it.

Limits. TensorRT-LLM may send processors to other processes, where they compile their constraint again. Its
deserialization must accept the processor: approve the class there, or run the engine in one process. TensorRT-LLM does
not report the end of a request, so only the state of the latest 1,024 requests is kept. The tests call the processors
on a CPU, with the arguments that TensorRT-LLM documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np

from guided.errors import GuidedError
from guided.integrations.lru_cache import LruCache
from guided.integrations.rows import RowMatchers
from guided.integrations.sequence_mask import check_width, compile_required, compiler_of, spelling_or_none
from guided.keywords import check_integer
from guided.logits import apply_token_bitmask_inplace
from guided.matching.constraint import Constraint, ConstraintOptions
from guided.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch

__all__ = ["GuidedBatchedLogitsProcessor", "GuidedLogitsProcessor"]

_MAX_REQUESTS: Final = 1024


class GuidedLogitsProcessor:
    """Masks the logits of requests, which it recognizes by their `req_id`.

    Args:
        constraint: what `Engine.generate` takes.
        tokenizer: a transformers tokenizer, the path of a tokenizer.json, a `Vocabulary`, or a `GrammarCompiler`, which
            caches compiled grammars but cannot be sent to other processes.
        max_tokens: the token limit of the requests. Their outputs are then complete within this limit.
        canonical: allow only tokens that the tokenizer itself would produce, see `Engine.generate`.
        **options: fields of `ConstraintOptions`, such as `whitespace="compact"`.

    Raises:
        SpecError, UnsupportedError, VocabularyError: see `Engine.generate`. OptionError: an option has a wrong value.
    """

    def __init__(
        self,
        constraint: Constraint,
        tokenizer: Any,
        *,
        max_tokens: int | None = None,
        canonical: bool = False,
        **options: Unpack[ConstraintOptions],
    ) -> None:
        check_integer("max_tokens", max_tokens, minimum=1, optional=True)
        constructor = partial(type(self), max_tokens=max_tokens, canonical=canonical, **options)
        self._constructor_and_arguments = (constructor, (constraint, tokenizer))
        compiler = compiler_of(tokenizer, Vocabulary.from_huggingface)
        self.vocabulary = compiler.vocabulary
        self._grammar, self._max_tokens = compile_required(compiler, constraint, options), max_tokens
        self._spelling = spelling_or_none(canonical, compiler.vocabulary)
        self._requests = LruCache[int, RowMatchers](_MAX_REQUESTS)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """The constructor and the arguments with which another process creates the processor again."""
        return self._constructor_and_arguments

    def __call__(
        self,
        req_id: int,
        logits: torch.Tensor,
        token_ids: list[list[int]],
        stream_ptr: int | None,
        client_id: int | None,
    ) -> None:
        """Set the logits of forbidden tokens to -inf, in place.

        Args:
            req_id: the id of the request.
            logits: (..., beams, vocabulary), on any device.
            token_ids: the ids of each beam so far, all of the same length. The prompt may be passed once, before the
                beams.
            stream_ptr: the CUDA stream of the logits; None: the current one.
            client_id: not used.

        Raises:
            GuidedError: the logits do not fit the vocabulary or the beams.
            BudgetError: no output of the constraint fits the budget.
        """
        rows = logits.view(-1, logits.shape[-1])
        check_width(rows.shape[1], self.vocabulary)
        if len(rows) != len(token_ids):
            raise GuidedError(f"there are logits for {len(rows)} beams, but ids for {len(token_ids)}")
        matchers = self._get_matchers(req_id)
        masks = matchers.mask_rows(np.array(token_ids, np.int64))
        with _use_stream(logits, stream_ptr):
            apply_token_bitmask_inplace(rows, masks.bitmask)

    def _get_matchers(self, req_id: int) -> RowMatchers:
        """The matchers of a request's beams, created on the first call for a request."""
        matchers: RowMatchers | None = self._requests.get(req_id)
        if matchers is None:
            matchers = RowMatchers([self._grammar], self._max_tokens, self._spelling, one_request=True)
            self._requests[req_id] = matchers
        return matchers


class GuidedBatchedLogitsProcessor(GuidedLogitsProcessor):
    """A `GuidedLogitsProcessor` for `LLM(batched_logits_processor=...)`. It masks the requests that set
    `apply_batched_logits_processor` in their `SamplingParams`."""

    def __call__(  # type: ignore[override]  # the signature that TensorRT-LLM requires
        self,
        req_ids: Sequence[int],
        logits: Sequence[torch.Tensor],
        token_ids: Sequence[list[list[int]]],
        stream_ptr: int | None,
        client_ids: Sequence[int | None],
    ) -> None:
        """Mask the logits of each request in place; see `GuidedLogitsProcessor.__call__`."""
        for req_id, request_logits, ids, client_id in zip(req_ids, logits, token_ids, client_ids, strict=True):
            super().__call__(req_id, request_logits, ids, stream_ptr, client_id)


def _use_stream(logits: torch.Tensor, stream_ptr: int | None) -> Any:
    if stream_ptr is None or not logits.is_cuda:
        return nullcontext()
    import torch

    return torch.cuda.stream(torch.cuda.ExternalStream(stream_ptr))  # type: ignore[no-untyped-call]
