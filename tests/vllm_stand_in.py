"""The parts of vLLM that guided uses, with the same names and signatures, so that tests run without vLLM.

If vLLM is installed, `test_integration_vllm_plugin.py` compares every signature with it.
"""

from __future__ import annotations

import enum
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

MODULES = {
    "vllm": ["__version__"],
    "vllm.exceptions": ["VLLMValidationError"],
    "vllm.logger": ["init_logger"],
    "vllm.tokenizers": ["cached_tokenizer_from_config"],
    "vllm.sampling_params": ["BeamSearchParams", "SamplingParams", "StructuredOutputsParams"],
    "vllm.entrypoints": [],
    "vllm.entrypoints.generate": [],
    "vllm.entrypoints.generate.beam_search": [],
    "vllm.entrypoints.generate.beam_search.offline": ["BeamSearchOfflineMixin"],
    "vllm.v1": [],
    "vllm.v1.request": ["Request"],
    "vllm.v1.structured_output": ["StructuredOutputManager"],
    "vllm.v1.structured_output.backend_types": [
        "StructuredOutputBackend", "StructuredOutputGrammar", "StructuredOutputOptions",
    ],
    "vllm.v1.structured_output.backend_outlines": [
        "OutlinesBackend", "validate_structured_output_request_outlines",
    ],
    "vllm.v1.sample": [],
    "vllm.v1.sample.logits_processor": ["BatchUpdate", "LogitsProcessor", "MoveDirectionality"],
    "vllm.v1.worker": [],
    "vllm.v1.worker.gpu": [],
    "vllm.v1.worker.gpu.sample": [],
    "vllm.v1.worker.gpu.sample.logits_processor": ["LogitsContext", "LogitsProcRequestState"],
}  # fmt: skip
"""Module -> what guided or its tests use of it. The V2 runner's LogitsProcessor has the name of the V1 runner's."""

__version__ = "0.33.0+cpu"


def install_stand_in(monkeypatch: Any) -> None:
    """Put the stand-in into `sys.modules` until the test ends. Modules of guided that use vLLM are imported again."""
    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    for name, members in MODULES.items():
        module = ModuleType(name)
        for member in members:
            setattr(module, member, globals()[member])
        if name == "vllm.v1.worker.gpu.sample.logits_processor":
            module.LogitsProcessor = V2LogitsProcessor  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "guided.integrations.vllm.processor", raising=False)
    monkeypatch.setattr(SamplingParams, "_validate_structured_outputs", VALIDATE)
    monkeypatch.setattr(StructuredOutputManager, "accept_tokens", ACCEPT)
    monkeypatch.setattr(BeamSearchOfflineMixin, "beam_search", SEARCH)


class VLLMValidationError(Exception):
    def __init__(self, message: str, *, parameter: str | None = None, value: Any = None) -> None:
        super().__init__(message)
        self.parameter = parameter


def init_logger(name: str) -> logging.Logger:
    return logging.getLogger(name)


def cached_tokenizer_from_config(model_config: Any, **kwargs: Any) -> Any:
    return model_config.tokenizer


# ---- requests


@dataclass
class StructuredOutputsParams:
    json: str | dict | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None
    structural_tag: str | None = None
    _backend: str | None = field(default=None, init=False)
    _backend_was_auto: bool = field(default=False, init=False)


class SamplingParams:
    """Only the parts that are read. `verify` calls the check as vLLM does, which looks up the backend's check for each
    request.
    """

    def __init__(
        self,
        max_tokens: int | None = 16,
        stop_token_ids: list[int] | None = None,
        structured_outputs: StructuredOutputsParams | None = None,
        extra_args: dict[str, Any] | None = None,
    ) -> None:
        self.max_tokens, self.stop_token_ids = max_tokens, stop_token_ids
        self.structured_outputs, self.extra_args = structured_outputs, extra_args
        self.all_stop_token_ids = set(stop_token_ids or ())

    def verify(self, model_config: Any, tokenizer: Any) -> None:
        self._validate_structured_outputs(model_config, None, tokenizer)

    def _validate_structured_outputs(self, model_config: Any, structured_outputs_config: Any, tokenizer: Any) -> None:
        if self.structured_outputs is None:
            return
        self.structured_outputs._backend = "outlines"
        place = sys.modules["vllm.v1.structured_output.backend_outlines"]
        place.validate_structured_output_request_outlines(self)


VALIDATE = SamplingParams._validate_structured_outputs


# ---- backends


class StructuredOutputOptions(enum.Enum):
    JSON = enum.auto()
    JSON_OBJECT = enum.auto()
    REGEX = enum.auto()
    GRAMMAR = enum.auto()
    CHOICE = enum.auto()
    STRUCTURAL_TAG = enum.auto()


class StructuredOutputGrammar(ABC):
    @abstractmethod
    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool: ...

    @abstractmethod
    def validate_tokens(self, tokens: list[int]) -> list[int]: ...

    @abstractmethod
    def rollback(self, num_tokens: int) -> None: ...

    @abstractmethod
    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None: ...

    @abstractmethod
    def is_terminated(self) -> bool: ...

    @abstractmethod
    def reset(self): ...


@dataclass
class StructuredOutputBackend(ABC):
    vllm_config: Any
    tokenizer: Any
    vocab_size: int

    @abstractmethod
    def compile_grammar(
        self, request_type: StructuredOutputOptions, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> StructuredOutputGrammar: ...

    @abstractmethod
    def allocate_token_bitmask(self, max_num_seqs: int) -> Any: ...

    @abstractmethod
    def destroy(self): ...


class StructuredOutputRequest:
    """A request's data about its structured output. `grammar` is None until it is compiled."""

    def __init__(self, grammar: Any) -> None:
        self.grammar = grammar


class Request:
    """A request in the engine. Only the parts that are read."""

    def __init__(self, structured_output_request: StructuredOutputRequest | None) -> None:
        self.structured_output_request = structured_output_request
        self.output_token_ids = list[int]()

    @property
    def num_output_tokens(self) -> int:
        return len(self.output_token_ids)


class StructuredOutputManager:
    """The grammar begins after the token that ends the reasoning, or with a token that ends it implicitly."""

    def __init__(self, end_of_reasoning: int | None = None, implicit_ends: Sequence[int] = ()) -> None:
        self.end_of_reasoning, self.implicit_ends = end_of_reasoning, implicit_ends

    def accept_tokens(self, request: Request, new_token_ids: list[int]) -> bool:
        """Called after the request has got these tokens."""
        if request.structured_output_request is None:
            return True
        before = request.output_token_ids[: -len(new_token_ids)]
        if self._is_reasoning(before):
            if self._is_reasoning(new_token_ids):
                return True
            start = next(index for index, token in enumerate(new_token_ids) if not self._is_reasoning([token]))
            new_token_ids = new_token_ids[start + (new_token_ids[start] == self.end_of_reasoning) :]
        return bool(request.structured_output_request.grammar.accept_tokens("r", new_token_ids))

    def fill_bitmask(self, requests: list[Request], drafts: list[list[int]], bitmask: Any) -> None:
        """Fill `len(bitmask) // len(requests)` rows for each request, one for each draft token and one more.

        A draft may be padded with -1. While a request reasons, only those implicit ends are masked with which the
        grammar cannot begin.
        """
        stride = len(bitmask) // len(requests)
        for number, (request, draft) in enumerate(zip(requests, drafts, strict=True)):
            grammar, accepted = request.structured_output_request.grammar, 0
            for index, token in enumerate([*draft, -1]):
                row = number * stride + index
                if self._is_reasoning(request.output_token_ids):
                    bitmask[row] = -1
                    for id in self.implicit_ends:
                        if not grammar.validate_tokens([id]):
                            bitmask[row, id // 32] &= ~(1 << id % 32)
                    continue
                grammar.fill_bitmask(bitmask, row)
                if token == -1:
                    break
                assert grammar.accept_tokens("r", [token])
                accepted += 1
            grammar.rollback(accepted)

    def _is_reasoning(self, tokens: list[int]) -> bool:
        return self.end_of_reasoning is not None and not {self.end_of_reasoning, *self.implicit_ends} & set(tokens)


ACCEPT = StructuredOutputManager.accept_tokens


@dataclass
class OutlinesBackend(StructuredOutputBackend):
    """The backend that guided replaces."""

    def compile_grammar(
        self, request_type: StructuredOutputOptions, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> StructuredOutputGrammar:
        raise AssertionError("outlines was asked")

    def allocate_token_bitmask(self, max_num_seqs: int) -> Any:
        raise AssertionError("outlines was asked")

    def destroy(self):
        raise AssertionError("outlines was asked")


def validate_structured_output_request_outlines(params: SamplingParams):
    raise AssertionError("outlines was asked")


# ---- beam search


@dataclass
class BeamSearchParams:
    """Only the parts that are read."""

    beam_width: int
    max_tokens: int = 16
    structured_outputs: StructuredOutputsParams | None = None


class BeamSearchOfflineMixin:
    """vLLM's `LLM`, with a search that only returns the text of the constraint, as a backend gets it."""

    def __init__(self, model_config: Any, structured_outputs_config: Any, tokenizer: Any) -> None:
        self.model_config = model_config
        vllm_config = SimpleNamespace(structured_outputs_config=structured_outputs_config)
        self.llm_engine = SimpleNamespace(vllm_config=vllm_config)
        self.renderer = SimpleNamespace(get_tokenizer=lambda: tokenizer)

    def beam_search(self, prompts: Any, params: BeamSearchParams, use_tqdm: bool = False) -> Any:
        outputs = params.structured_outputs
        return outputs and next(text for text in (outputs.grammar, outputs.json, outputs.regex) if text is not None)


SEARCH = BeamSearchOfflineMixin.beam_search


# ---- logits processors


class MoveDirectionality(enum.Enum):
    UNIDIRECTIONAL = enum.auto()
    SWAP = enum.auto()


@dataclass(frozen=True)
class BatchUpdate:
    batch_size: int
    removed: Any
    added: Any
    moved: Any


class LogitsProcessor(ABC):
    @classmethod
    def validate_params(cls, sampling_params: SamplingParams):
        return None

    @abstractmethod
    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None: ...

    @abstractmethod
    def apply(self, logits: Any) -> Any: ...

    @abstractmethod
    def is_argmax_invariant(self) -> bool: ...

    @abstractmethod
    def update_state(self, batch_update: BatchUpdate | None) -> None: ...


@dataclass(frozen=True)
class LogitsProcRequestState:
    device: Any
    max_num_reqs: int
    vocab_size: int
    all_token_ids: Any
    prompt_len: Any
    prefill_len: Any
    total_len: Any


@dataclass(frozen=True)
class LogitsContext:
    expanded_idx_mapping: Any
    idx_mapping: Any
    idx_mapping_np: Any
    expanded_local_pos: Any
    input_ids: Any
    pos: Any
    seq_lens_upper_bound_np: Any


class V2LogitsProcessor(ABC):
    def __init__(self, vllm_config: Any, req_states: LogitsProcRequestState):  # noqa: B027
        pass

    @classmethod  # noqa: B027
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        pass

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        return True

    def apply_staged_writes(self) -> None:  # noqa: B027
        pass

    @abstractmethod
    def apply(self, logits: Any, ctx: LogitsContext) -> Any: ...
