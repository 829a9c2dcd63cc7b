"""Constraints as a logits processor of vLLM, for both of its model runners.

    vllm serve MODEL --logits-processors guided.integrations.vllm:GuidedLogitsProcessor

In: requests with `extra_args={"guided": {"json": {...}}}`, or over HTTP `"vllm_xargs": {"guided": "..."}` with the same
object as JSON text. Its fields are the fields of vLLM's `structured_outputs`. Out: the masked logits of these requests.
Other requests are not affected.

Prefer the backend (backend.py) if you can: it computes masks while the model runs, and reports errors. This processor
uses only a documented interface of vLLM. It also knows the length of a prompt, so its budget is the smaller of
`max_tokens` and the rest of the context.

vLLM has two interfaces with the same name. Its V1 runner calls `update_state` and `apply(logits)`. Its V2 runner calls
`add_request` and `apply(logits, ctx)`. Each runner checks for its own base class, so this class has both bases.

Cost: a mask takes microseconds, but the engine waits for it, and on the V2 runner also for the tokens of the previous
step. With speculative decoding, the V1 runner refuses all custom processors.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any

from vllm.v1.sample.logits_processor import LogitsProcessor as LogitsProcessorV1
from vllm.v1.sample.logits_processor import MoveDirectionality
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as LogitsProcessorV2

from guided.errors import GuidedError
from guided.integrations.vllm.compilers import Compilers, compilers_of
from guided.integrations.vllm.rows import MaskedRequests, check_request
from guided.integrations.vllm.settings import Settings

__all__ = ["GuidedLogitsProcessor"]


class GuidedLogitsProcessor(LogitsProcessorV1, LogitsProcessorV2):  # type: ignore[misc]
    """See the module docstring.

    Args:
        vllm_config: the engine's configuration.
        state: V1: the device. V2: the requests' tokens.
        is_pin_memory: passed by V1 only.
    """

    def __init__(self, vllm_config: Any, state: Any, is_pin_memory: bool | None = None) -> None:
        self._config, self._state = vllm_config.model_config, state
        self._settings = Settings.from_environment()
        self._requests = MaskedRequests(lambda: self._compilers, self._settings)

    @cached_property
    def _compilers(self) -> Compilers:
        from vllm.tokenizers import cached_tokenizer_from_config

        tokenizer = cached_tokenizer_from_config(model_config=self._config)
        return compilers_of(tokenizer, self._config.get_vocab_size(), self._settings.limits)

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raise ValueError if the request's specification is invalid. vLLM then answers with status 400."""
        try:
            check_request(sampling_params, Settings.from_environment())
        except GuidedError as error:
            raise ValueError(str(error)) from error

    # ---- the V1 runner

    def is_argmax_invariant(self) -> bool:
        """False: a mask can change which token is the most likely."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Remove, add and move requests, in this order."""
        if batch_update is None:
            return
        for position in batch_update.removed:
            self._requests.by_position.pop(position, None)
        for position, params, prompt_ids, output in batch_update.added:
            context_left = None if prompt_ids is None else self._config.max_model_len - len(prompt_ids)
            if self._requests.add(position, params, context_left):
                self._requests.by_position[position].output = output
        for start, target, direction in batch_update.moved:
            self._requests.move(start, target, direction is MoveDirectionality.SWAP)

    # ---- the V2 runner

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Put a request into a slot."""
        prompt_length = int(self._state.prompt_len.np[req_idx])
        return self._requests.add(req_idx, sampling_params, self._config.max_model_len - prompt_length)

    # ---- both

    def apply(self, logits: Any, ctx: Any = None) -> Any:
        """Mask the logits, (rows, vocabulary), in place. V1: rows are batch positions. V2: `ctx` maps rows to slots."""
        if self._requests.by_position:
            self._apply_v1(logits) if ctx is None else self._apply_v2(logits, ctx)
        return logits

    def _apply_v1(self, logits: Any) -> None:
        positions = sorted(self._requests.by_position)

        def fill(bitmask: Any) -> None:
            for row, position in enumerate(positions):
                request = self._requests.by_position[position]
                if -1 in request.output[-1:]:
                    raise GuidedError(
                        "vLLM does not pass the written tokens: load the processor with --logits-processors (or "
                        "LLM(logits_processors=...)), not through an entry point"
                    )
                request.follow(request.output)
                request.fill(bitmask, row)

        self._requests.apply(logits, positions, fill)

    def _apply_v2(self, logits: Any, ctx: Any) -> None:
        slots, local_positions, inputs, token_positions = (
            tensor.tolist() for tensor in (ctx.expanded_idx_mapping, ctx.expanded_local_pos, ctx.input_ids, ctx.pos)
        )
        rows_of_slot: dict[int, list[int]] = defaultdict(list)
        for row in sorted(range(len(slots)), key=lambda row: local_positions[row]):
            if slots[row] in self._requests.by_position:
                rows_of_slot[slots[row]].append(row)
        lengths = {  # slot -> the length of the prompt, and of prompt and output together
            slot: (int(self._state.prompt_len.np[slot]), token_positions[rows[0]] + 1)
            for slot, rows in rows_of_slot.items()
        }
        # vLLM does not sample from a row whose chunked prompt has not been read completely.
        rows_of_slot = {slot: rows for slot, rows in rows_of_slot.items() if lengths[slot][1] >= lengths[slot][0]}
        if not rows_of_slot:
            return
        all_rows = [row for rows in rows_of_slot.values() for row in rows]
        bitmask_rows = {row: number for number, row in enumerate(all_rows)}

        def fill(bitmask: Any) -> None:
            for slot, rows in rows_of_slot.items():
                prompt_length, length = lengths[slot]
                request = self._requests.by_position[slot]
                start = prompt_length + request.output_length
                request.accept(self._state.all_token_ids.gpu[slot, start:length].tolist())
                drafts = [inputs[row] for row in rows[1:]]
                request.fill_with_drafts(drafts, bitmask, [bitmask_rows[row] for row in rows])

        self._requests.apply(logits, all_rows, fill)
