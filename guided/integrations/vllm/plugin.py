"""Replaces one of vLLM's backends with guided: the entry point `guided` in the group `vllm.general_plugins`.

    VLLM_PLUGINS=guided vllm serve MODEL --structured-outputs-config '{"backend": "outlines"}'

vLLM's list of backends is closed: the configuration accepts five names, and an `if` chooses among them. So guided
replaces one of them, "outlines", whose classes and functions vLLM looks up for each engine and each request. Four
objects are replaced:

| name | replacement |
|---|---|
| `backend_outlines.OutlinesBackend` | `GuidedBackend` |
| `backend_outlines.validate_structured_output_request_outlines` | guided's `validate_and_pack` (backend.py) |
| `SamplingParams._validate_structured_outputs` | a wrapper that records the tokenizer for the check |
| `StructuredOutputManager.accept_tokens` | a wrapper that reports the number of written tokens to the grammar |

This happens only if VLLM_PLUGINS names guided, so installing the package does not change a server. vLLM then refuses to
start if its version is not tested, or if its interface differs from the expected interface.
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
"""The versions of vLLM with which guided was tested end to end."""
NAME: Final = "guided"
_SAMPLING_MODULE: Final = "vllm.sampling_params"
_TYPES_MODULE: Final = "vllm.v1.structured_output.backend_types"
_OUTLINES_MODULE: Final = "vllm.v1.structured_output.backend_outlines"
_MANAGER_MODULE: Final = "vllm.v1.structured_output"
_REQUEST_MODULE: Final = "vllm.v1.request"
_VALIDATE_FUNCTION: Final = "validate_structured_output_request_outlines"
_VALIDATE_METHOD: Final = "_validate_structured_outputs"
_ACCEPT_METHOD: Final = "accept_tokens"
_INSTALLED_MARK: Final = "__guided__"

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
    sampling, outlines = import_module(_SAMPLING_MODULE), import_module(_OUTLINES_MODULE)
    if hasattr(outlines, _INSTALLED_MARK):
        return
    _check_version(import_module("vllm").__version__, settings)
    if messages := differences():
        raise GuidedError(f"guided does not fit this version of vLLM: {'; '.join(messages)}")
    outlines.OutlinesBackend = GuidedBackend  # type: ignore[attr-defined]
    setattr(outlines, _VALIDATE_FUNCTION, _make_check(settings))
    setattr(
        sampling.SamplingParams, _VALIDATE_METHOD, _record_tokenizer(getattr(sampling.SamplingParams, _VALIDATE_METHOD))
    )
    manager = import_module(_MANAGER_MODULE).StructuredOutputManager
    setattr(manager, _ACCEPT_METHOD, _report_tokens(getattr(manager, _ACCEPT_METHOD)))
    setattr(outlines, _INSTALLED_MARK, True)
    types = import_module(_TYPES_MODULE)
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

    def validate_and_record(self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any) -> None:
        if self.structured_outputs is None or tokenizer is None:
            return validate(self, model_config, structured_outputs_config, tokenizer)
        reset_token = _serving.set((tokenizer, model_config.get_vocab_size()))
        try:
            return validate(self, model_config, structured_outputs_config, tokenizer)
        finally:
            _serving.reset(reset_token)

    return validate_and_record


def _report_tokens(accept: Callable[..., bool]) -> Callable[..., bool]:
    """Wrap vLLM's own `accept_tokens` to report the number of written tokens to the grammar."""

    def accept_and_report(self: Any, request: Any, new_token_ids: list[int]) -> bool:
        result = accept(self, request, new_token_ids)
        output_request = request.structured_output_request
        if output_request is not None and isinstance(grammar := output_request.grammar, GuidedGrammar):
            grammar.report_output_length(request.num_output_tokens)
        return result

    return accept_and_report


def _make_check(settings: Settings) -> Callable[[Any], None]:
    """Make guided's check of a request. vLLM answers an invalid request with status 400 and guided's message."""
    validation_error = import_module("vllm.exceptions").VLLMValidationError
    params_class = import_module(_SAMPLING_MODULE).StructuredOutputsParams

    def check(params: Any) -> None:
        outputs = params.structured_outputs
        tokenizer, size = _serving.get()
        try:
            text = validate_and_pack(params, compilers_of(tokenizer, size, settings.limits), settings)
        except GuidedError as error:
            used_kind = next((kind for kind in KINDS if getattr(outputs, kind) is not None), "")
            raise validation_error(str(error), parameter=f"structured_outputs.{used_kind}".rstrip(".")) from error
        if text is not None and text != outputs.grammar:  # the caller may reuse its parameters, so do not change them
            params.structured_outputs = packed_outputs = params_class(grammar=text)
            packed_outputs._backend, packed_outputs._backend_was_auto = outputs._backend, outputs._backend_was_auto

    return check


def differences() -> list[str]:
    """List the differences between the installed vLLM and the interface that `install` expects, as sentences."""
    types, sampling, outlines = (
        import_module(_TYPES_MODULE),
        import_module(_SAMPLING_MODULE),
        import_module(_OUTLINES_MODULE),
    )
    messages = _compare_methods(types.StructuredOutputGrammar, GuidedGrammar) + _compare_methods(
        types.StructuredOutputBackend, GuidedBackend
    )
    comparisons: list[tuple[str, set[str] | list[str], set[str] | list[str]]] = [
        (
            "the fields of StructuredOutputBackend",
            _list_fields(types.StructuredOutputBackend),
            _list_parameters(GuidedBackend),
        ),
        (
            "the parameters of OutlinesBackend",
            _list_parameters(outlines.OutlinesBackend),
            _list_parameters(GuidedBackend),
        ),
        (
            f"the parameters of {_VALIDATE_FUNCTION}",
            _list_parameters(getattr(outlines, _VALIDATE_FUNCTION)),
            ["params"],
        ),
        (
            f"the parameters of SamplingParams.{_VALIDATE_METHOD}",
            _list_parameters(getattr(sampling.SamplingParams, _VALIDATE_METHOD)),
            ["self", "model_config", "structured_outputs_config", "tokenizer"],
        ),
        (
            f"the parameters of StructuredOutputManager.{_ACCEPT_METHOD}",
            _list_parameters(getattr(import_module(_MANAGER_MODULE).StructuredOutputManager, _ACCEPT_METHOD)),
            ["self", "request", "new_token_ids"],
        ),
        (
            "the fields of StructuredOutputsParams",
            set(_list_fields(sampling.StructuredOutputsParams)),
            {*KINDS, *OPTIONS, "_backend", "_backend_was_auto"},
        ),
        (
            "the members of StructuredOutputOptions",
            {option.name.lower() for option in types.StructuredOutputOptions},
            set(KINDS),
        ),
    ]
    if not hasattr(import_module(_REQUEST_MODULE).Request, "num_output_tokens"):
        messages.append("Request has no num_output_tokens")
    for subject, names, expected_names in comparisons:
        if names != expected_names:
            messages.append(
                f"{subject} are {', '.join(sorted(names))}, but {', '.join(sorted(expected_names))} were expected"
            )
    return messages


def _compare_methods(theirs: type, ours: type) -> list[str]:
    messages = []
    for name in sorted(getattr(theirs, "__abstractmethods__", ())):
        parameters = _list_parameters(getattr(theirs, name))
        if not hasattr(ours, name):
            messages.append(f"{theirs.__name__} has an unknown method {name}")
        elif parameters != (expected_parameters := _list_parameters(getattr(ours, name))):
            expected_text = ", ".join(expected_parameters)
            messages.append(
                f"{theirs.__name__}.{name} takes {', '.join(parameters)}, but {expected_text} were expected"
            )
    return messages


def _list_parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def _list_fields(cls: Any) -> list[str]:
    return [field.name for field in fields(cls)]
