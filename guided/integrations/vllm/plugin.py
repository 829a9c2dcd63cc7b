"""Replaces one of vLLM's backends with guided: the entry point `guided` in the group `vllm.general_plugins`.

    VLLM_PLUGINS=guided vllm serve MODEL --structured-outputs-config '{"backend": "outlines"}'

vLLM's list of backends is closed: the configuration accepts five names, and an `if` chooses among them. So guided
replaces one of them, "outlines", whose classes and functions vLLM looks up for each engine and each request. Five
objects are replaced:

| name | replacement |
|---|---|
| `backend_outlines.OutlinesBackend` | `GuidedBackend` |
| `backend_outlines.validate_structured_output_request_outlines` | guided's `validate_and_pack` (backend.py) |
| `SamplingParams._validate_structured_outputs` | a wrapper that records the tokenizer for the check |
| `StructuredOutputManager.accept_tokens` | a wrapper that reports the number of written tokens to the grammar |
| `BeamSearchOfflineMixin.beam_search` | a wrapper that checks the constraint, which vLLM does not |

This happens only if VLLM_PLUGINS names guided, so installing the package does not change a server. vLLM then refuses to
start if its interface differs from the expected interface. If only its version is newer than the tested versions, the
log contains a warning.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from contextvars import ContextVar
from copy import copy
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

KNOWN_VERSIONS: Final = ("0.32.0", "0.33.0")
"""The versions of vLLM with which guided was tested, in ascending order."""
NAME: Final = "guided"
_REPLACED_BACKEND: Final = "outlines"
_SAMPLING_MODULE: Final = "vllm.sampling_params"
_TYPES_MODULE: Final = "vllm.v1.structured_output.backend_types"
_OUTLINES_MODULE: Final = "vllm.v1.structured_output.backend_outlines"
_MANAGER_MODULE: Final = "vllm.v1.structured_output"
_REQUEST_MODULE: Final = "vllm.v1.request"
_BEAM_MODULE: Final = "vllm.entrypoints.generate.beam_search.offline"
_VALIDATE_FUNCTION: Final = "validate_structured_output_request_outlines"
_VALIDATE_METHOD: Final = "_validate_structured_outputs"
_ACCEPT_METHOD: Final = "accept_tokens"
_BEAM_METHOD: Final = "beam_search"
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
    vllm = import_module("vllm")
    if hasattr(vllm, _INSTALLED_MARK):
        return
    logger = import_module("vllm.logger").init_logger("vllm.plugins.guided")
    _check_vllm(vllm.__version__, settings, logger)
    outlines, sampling = import_module(_OUTLINES_MODULE), import_module(_SAMPLING_MODULE)
    outlines.OutlinesBackend = GuidedBackend  # type: ignore[attr-defined]
    setattr(outlines, _VALIDATE_FUNCTION, _make_check(settings))
    for cls, method, wrap in (
        (sampling.SamplingParams, _VALIDATE_METHOD, _record_tokenizer),
        (import_module(_MANAGER_MODULE).StructuredOutputManager, _ACCEPT_METHOD, _report_tokens),
        (import_module(_BEAM_MODULE).BeamSearchOfflineMixin, _BEAM_METHOD, _check_beams),
    ):
        setattr(cls, method, wrap(getattr(cls, method)))
    setattr(vllm, _INSTALLED_MARK, True)
    types = import_module(_TYPES_MODULE)
    types.StructuredOutputBackend.register(GuidedBackend)
    types.StructuredOutputGrammar.register(GuidedGrammar)
    logger.info("guided replaces the structured-output backend 'outlines'; the other backends are unchanged")


def _check_vllm(version: str, settings: Settings, logger: Any) -> None:
    """Refuse a vLLM that is too old or has another interface. Warn if it is newer than the tested versions.

    A change that keeps all names and signatures does not pass in silence: if vLLM no longer applied the masks, the
    grammars would refuse the sampled tokens, and the requests would end with errors.
    """
    tested_versions = ", ".join(KNOWN_VERSIONS)
    is_known = version.split("+")[0] in KNOWN_VERSIONS
    if not (is_known or settings.any_version) and _release_of(version) < _release_of(KNOWN_VERSIONS[0]):
        raise GuidedError(
            f"guided was tested with vLLM {tested_versions}, but this is {version}: install a tested version, remove "
            f"guided from VLLM_PLUGINS, or set {VARIABLE}='{{\"any_version\": true}}' to check only the signatures "
            "of the objects that guided replaces"
        )
    try:
        messages = differences()
    except (ImportError, AttributeError) as error:
        messages = [f"a name is missing: {error}"]
    if messages:
        raise GuidedError(
            f"guided does not fit this version of vLLM, {version}: {'; '.join(messages)}. Install a tested version "
            f"({tested_versions}), or remove guided from VLLM_PLUGINS"
        )
    if not (is_known or settings.any_version):
        logger.warning(
            "guided was tested with vLLM %s, but this is %s; everything that guided uses has the expected signature",
            tested_versions,
            version,
        )


def _release_of(version: str) -> list[int]:
    """The numbers of a version: [0, 33, 1] for "0.33.1rc1+cpu"."""
    release = re.match(r"[0-9.]*", version)
    return [int(number) for number in (release[0] if release else "").split(".") if number]


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


def _check_beams(search: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap vLLM's offline beam search. It does not check the constraint, and a backend gets only the text of one field:
    neither the options nor the budget. So check the constraint like that of a request, and pass the packed one on.
    """
    sampling_params_class = import_module(_SAMPLING_MODULE).SamplingParams

    def check_and_search(self: Any, prompts: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        outputs, config = params.structured_outputs, self.llm_engine.vllm_config.structured_outputs_config
        if outputs is not None and (outputs._backend or config.backend) == _REPLACED_BACKEND:
            request = sampling_params_class(max_tokens=params.max_tokens, structured_outputs=outputs)
            getattr(request, _VALIDATE_METHOD)(self.model_config, config, self.renderer.get_tokenizer())
            params = copy(params)  # the caller may reuse its parameters
            params.structured_outputs = request.structured_outputs
        return search(self, prompts, params, *args, **kwargs)

    return check_and_search


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
            f"the first parameters of {_BEAM_METHOD}",
            _list_parameters(getattr(import_module(_BEAM_MODULE).BeamSearchOfflineMixin, _BEAM_METHOD))[:3],
            ["self", "prompts", "params"],
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
    for cls, name in (
        (import_module(_REQUEST_MODULE).Request, "num_output_tokens"),
        (sampling.BeamSearchParams, "max_tokens"),
        (sampling.BeamSearchParams, "structured_outputs"),
    ):
        if not hasattr(cls, name):
            messages.append(f"{cls.__name__} has no {name}")
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
