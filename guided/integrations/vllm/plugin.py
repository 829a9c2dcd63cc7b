"""Replaces one of vLLM's backends by guided: the entry point `guided` of the group `vllm.general_plugins`.

    VLLM_PLUGINS=guided vllm serve MODEL --structured-outputs-config '{"backend": "outlines"}'

vLLM's list of backends is closed: the configuration accepts five names, and an `if` chooses among them. So guided
replaces one of them, "outlines", which vLLM looks up for each engine and each request. Four objects are replaced:

| name | replacement |
|---|---|
| `backend_outlines.OutlinesBackend` | `GuidedBackend` |
| `backend_outlines.validate_structured_output_request_outlines` | guided's `validate_and_pack` (backend.py) |
| `SamplingParams._validate_structured_outputs` | a wrapper that records the tokenizer for the check |
| `StructuredOutputManager.accept_tokens` | a wrapper that reports the number of written tokens to the grammar |

This happens only if VLLM_PLUGINS names guided, so installing the package does not change a server. vLLM then refuses to
start if its version is not tested, or if its interface differs from the expected one.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import fields
from importlib import import_module
from typing import Any, Final

from guided.errors import GuidedError
from guided.integrations.vllm.backend import GuidedBackend, validate_and_pack
from guided.integrations.vllm.compilers import compilers_of
from guided.integrations.vllm.grammar import GuidedGrammar
from guided.integrations.vllm.settings import VARIABLE, Settings
from guided.integrations.vllm.specification import KINDS, OPTIONS

__all__ = ["KNOWN_VERSIONS", "differences", "install", "register"]

KNOWN_VERSIONS: Final = ("0.32.0",)
"""The versions of vLLM that were tested end to end."""
NAME: Final = "guided"
_SAMPLING: Final = "vllm.sampling_params"
_TYPES: Final = "vllm.v1.structured_output.backend_types"
_OUTLINES: Final = "vllm.v1.structured_output.backend_outlines"
_MANAGER: Final = "vllm.v1.structured_output"
_REQUEST: Final = "vllm.v1.request"
_VALIDATE: Final = "validate_structured_output_request_outlines"
_METHOD: Final = "_validate_structured_outputs"
_ACCEPT: Final = "accept_tokens"
_MARK: Final = "__guided__"

_serving: ContextVar[tuple[Any, int]] = ContextVar("guided_vllm_serving")
"""The tokenizer and the number of logits of the model whose request is being checked."""


def register() -> None:
    """Install guided if VLLM_PLUGINS names it. vLLM calls this in each of its processes.

    Raises:
        GuidedError: this version of vLLM is not supported.
    """
    if NAME in os.environ.get("VLLM_PLUGINS", "").split(","):
        install(Settings.from_environment())


def install(settings: Settings) -> None:
    """Replace the backend "outlines" in this process. A second call does nothing.

    Raises:
        GuidedError: this version of vLLM is not supported, or its interface differs from the expected one.
    """
    sampling, outlines = import_module(_SAMPLING), import_module(_OUTLINES)
    if hasattr(outlines, _MARK):
        return
    _check_version(import_module("vllm").__version__, settings)
    if unexpected := differences():
        raise GuidedError(f"guided does not fit this version of vLLM: {'; '.join(unexpected)}")
    outlines.OutlinesBackend = GuidedBackend  # type: ignore[attr-defined]
    setattr(outlines, _VALIDATE, _make_check(settings))
    setattr(sampling.SamplingParams, _METHOD, _record_tokenizer(getattr(sampling.SamplingParams, _METHOD)))
    manager = import_module(_MANAGER).StructuredOutputManager
    setattr(manager, _ACCEPT, _report_tokens(getattr(manager, _ACCEPT)))
    setattr(outlines, _MARK, True)
    types = import_module(_TYPES)
    types.StructuredOutputBackend.register(GuidedBackend)
    types.StructuredOutputGrammar.register(GuidedGrammar)
    import_module("vllm.logger").init_logger("vllm.plugins.guided").info(
        "guided replaces the structured-output backend 'outlines'; the other backends are unchanged"
    )


def _check_version(version: str, settings: Settings) -> None:
    if version.split("+")[0] in KNOWN_VERSIONS or settings.any_version:
        return
    raise GuidedError(
        f"guided was tested with vLLM {', '.join(KNOWN_VERSIONS)}, but this is {version}: install a tested version, "
        f"remove guided from VLLM_PLUGINS, or set {VARIABLE}='{{\"any_version\": true}}' to check only the signatures "
        "of the objects that guided replaces"
    )


def _record_tokenizer(validate: Callable[..., None]) -> Callable[..., None]:
    """Wrap vLLM's own check of a request to record the tokenizer and the number of logits while it runs."""

    def checked(self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any) -> None:
        if self.structured_outputs is None or tokenizer is None:
            return validate(self, model_config, structured_outputs_config, tokenizer)
        before = _serving.set((tokenizer, model_config.get_vocab_size()))
        try:
            return validate(self, model_config, structured_outputs_config, tokenizer)
        finally:
            _serving.reset(before)

    return checked


def _report_tokens(accept: Callable[..., bool]) -> Callable[..., bool]:
    """Wrap vLLM's own `accept_tokens` to report the number of written tokens to the grammar."""

    def accept_and_report(self: Any, request: Any, new_token_ids: list[int]) -> bool:
        result = accept(self, request, new_token_ids)
        output_request = request.structured_output_request
        if output_request is not None and isinstance(grammar := output_request.grammar, GuidedGrammar):
            grammar.follow(request.num_output_tokens)
        return result

    return accept_and_report


def _make_check(settings: Settings) -> Callable[[Any], None]:
    """guided's check of a request. vLLM answers an invalid request with status 400 and guided's message."""
    validation_error = import_module("vllm.exceptions").VLLMValidationError
    structured = import_module(_SAMPLING).StructuredOutputsParams

    def check(params: Any) -> None:
        outputs = params.structured_outputs
        tokenizer, size = _serving.get()
        try:
            text = validate_and_pack(params, compilers_of(tokenizer, size, settings.limits), settings)
        except GuidedError as error:
            used_kind = next((kind for kind in KINDS if getattr(outputs, kind) is not None), "")
            raise validation_error(str(error), parameter=f"structured_outputs.{used_kind}".rstrip(".")) from error
        if text is not None and text != outputs.grammar:  # the caller may reuse its parameters, so do not change them
            params.structured_outputs = packed = structured(grammar=text)
            packed._backend, packed._backend_was_auto = outputs._backend, outputs._backend_was_auto

    return check


def differences() -> list[str]:
    """The differences between the installed vLLM and the one that `install` expects, as sentences."""
    types, sampling, outlines = import_module(_TYPES), import_module(_SAMPLING), import_module(_OUTLINES)
    unexpected = _methods(types.StructuredOutputGrammar, GuidedGrammar) + _methods(
        types.StructuredOutputBackend, GuidedBackend
    )
    expected: list[tuple[str, set[str] | list[str], set[str] | list[str]]] = [
        ("the fields of StructuredOutputBackend", _fields(types.StructuredOutputBackend), _parameters(GuidedBackend)),
        ("the parameters of OutlinesBackend", _parameters(outlines.OutlinesBackend), _parameters(GuidedBackend)),
        (f"the parameters of {_VALIDATE}", _parameters(getattr(outlines, _VALIDATE)), ["params"]),
        (
            f"the parameters of SamplingParams.{_METHOD}",
            _parameters(getattr(sampling.SamplingParams, _METHOD)),
            ["self", "model_config", "structured_outputs_config", "tokenizer"],
        ),
        (
            f"the parameters of StructuredOutputManager.{_ACCEPT}",
            _parameters(getattr(import_module(_MANAGER).StructuredOutputManager, _ACCEPT)),
            ["self", "request", "new_token_ids"],
        ),
        (
            "the fields of StructuredOutputsParams",
            set(_fields(sampling.StructuredOutputsParams)),
            {*KINDS, *OPTIONS, "_backend", "_backend_was_auto"},
        ),
        (
            "the members of StructuredOutputOptions",
            {option.name.lower() for option in types.StructuredOutputOptions},
            set(KINDS),
        ),
    ]
    if not hasattr(import_module(_REQUEST).Request, "num_output_tokens"):
        unexpected.append("Request has no num_output_tokens")
    for what, theirs, expected_names in expected:
        if theirs != expected_names:
            unexpected.append(
                f"{what} are {', '.join(sorted(theirs))}, but {', '.join(sorted(expected_names))} were expected"
            )
    return unexpected


def _methods(theirs: type, ours: type) -> list[str]:
    unexpected = []
    for name in sorted(getattr(theirs, "__abstractmethods__", ())):
        parameters = _parameters(getattr(theirs, name))
        if not hasattr(ours, name):
            unexpected.append(f"{theirs.__name__} has an unknown method {name}")
        elif parameters != (expected_parameters := _parameters(getattr(ours, name))):
            expected = ", ".join(expected_parameters)
            unexpected.append(f"{theirs.__name__}.{name} takes {', '.join(parameters)}, but {expected} were expected")
    return unexpected


def _parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def _fields(cls: Any) -> list[str]:
    return [field.name for field in fields(cls)]
