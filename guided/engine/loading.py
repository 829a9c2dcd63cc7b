"""Loads the parts of an `Engine`: finds or downloads the model, then loads it as the options specify.

In: a model's name or path; the options of `Engine.from_pretrained`. Out: `EngineParts`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch

from guided.engine.cache_size import CacheSize, check_context, choose_cache_size
from guided.engine.draft_model import check_same_tokens
from guided.engine.pretrained import Pretrained, load_pretrained
from guided.engine.runner import KVDtype, ModelRunner, bytes_per_token, check_kv_dtype, default_cache
from guided.engine.tensor_parallel.leader import Ranks
from guided.engine.threads import limit_threads
from guided.errors import GuidedError, OptionError, UnsupportedError, brief
from guided.files.hub import find_model
from guided.keywords import check_integer, check_path
from guided.kv.cache import KVCache
from guided.models.decoder import Decoder
from guided.models.loading.lora_config import read_lora_config
from guided.models.lora import with_adapter
from guided.models.model import Model

__all__ = ["EngineParts", "Runners", "load", "make_runners"]


@dataclass(frozen=True, slots=True)
class EngineParts:
    """The parts of an `Engine`.

    Attributes:
        parts: the model, its vocabulary, its chat template, and the ids that precede a string prompt.
        ranks: the processes that hold the other parts of the model; None if the model is not split.
        draft: the draft model, if there is one.
    """

    parts: Pretrained
    ranks: Ranks | None = None
    draft: Model | None = None


class Runners(NamedTuple):
    """The runners of an `Engine`.

    Attributes:
        runner: the runner of the model.
        draft: the runner of the draft model, if there is one.
        context: the maximum length of a sequence.
    """

    runner: ModelRunner
    draft: ModelRunner | None
    context: int


def load(
    name: str | os.PathLike[str],
    *,
    adapter: str | os.PathLike[str] | None,
    device: str | torch.device,
    dtype: str | torch.dtype,
    kv_dtype: KVDtype,
    tensor_parallel: int,
    pipeline_parallel: int,
    compile: bool,
    revision: str | None = None,
    draft_model: str | os.PathLike[str] | None = None,
    context: int | None = None,
) -> EngineParts:
    """See `Engine.from_pretrained`. Rejects conflicting options before anything is downloaded or loaded."""
    check_path("name", name, "the name of a model, or a path")
    target_device, weight_dtype = _resolve_device(device), _resolve_dtype(dtype)
    if target_device.type == "cpu":
        limit_threads()
    for option, count in (("tensor_parallel", tensor_parallel), ("pipeline_parallel", pipeline_parallel)):
        check_integer(option, count, minimum=1)
    check_kv_dtype(kv_dtype)
    check_integer("context", context, minimum=1, optional=True)
    if not isinstance(compile, bool):
        raise OptionError(f"compile is {brief(compile)}, but must be True or False", option="compile")
    if adapter is not None:
        _check_adapter(adapter)
    if draft_model is not None:
        check_path("draft_model", draft_model, "the name of a model, or a path")
    if tensor_parallel * pipeline_parallel > 1:
        for option, value in (
            ("adapter", adapter is not None), ("compile", compile), ("kv_dtype", kv_dtype != "auto"),
            ("draft_model", draft_model is not None),
        ):  # fmt: skip
            if value:
                hint = "leave this option out, or use one process"
                raise UnsupportedError(
                    "a model in several processes does not support this option", pointer=option, hint=hint
                )
        return _load_split(find_model(name, revision), weight_dtype, target_device, tensor_parallel, pipeline_parallel)
    config = None if adapter is None else read_lora_config(adapter)  # report its errors before loading the model
    model_path = find_model(name, revision)
    parts = load_pretrained(model_path, dtype=weight_dtype, device=target_device, keep_format=not compile)
    if adapter is not None:
        parts = replace(parts, model=with_adapter(parts.model, adapter, config))
    if compile:
        if not isinstance(parts.model, Decoder):
            reason = f"models of type {type(parts.model).__name__} cannot be compiled"
            raise UnsupportedError(reason, pointer="compile", hint="leave it out")
        parts = replace(parts, model=parts.model.compile(dynamic=True))
    if draft_model is None:
        return EngineParts(parts)
    drafter = load_pretrained(find_model(draft_model), dtype=weight_dtype, device=target_device)
    check_same_tokens(parts.vocabulary, drafter.model, drafter.vocabulary)
    return EngineParts(parts, draft=drafter.model)


def _check_adapter(adapter: str | os.PathLike[str]) -> None:
    expected = "the path of a directory"
    check_path("adapter", adapter, expected)
    if not os.fspath(adapter):
        raise OptionError(
            f"adapter is {brief(adapter)}, but must be {expected}; None means no adapter", option="adapter"
        )


def _load_split(
    path: Path, dtype: torch.dtype | None, device: torch.device, tensor_size: int, pipeline_size: int
) -> EngineParts:
    """Load one part of the model in this process, and each other part in a separate process."""
    ranks = Ranks(path, dtype=dtype, device=device, tensor_size=tensor_size, pipeline_size=pipeline_size)
    try:
        return EngineParts(load_pretrained(path, dtype=dtype, device=ranks.device, parallel=ranks.parallel), ranks)
    except BaseException:
        ranks.close()
        raise


def _resolve_device(device: str | torch.device) -> torch.device:
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        resolved_device = torch.device(device)
        torch.empty(0, device=resolved_device)  # fails without such a device
    except (RuntimeError, AssertionError) as error:
        raise OptionError(f"device {brief(str(device))} cannot be used: {str(error).splitlines()[0]}") from None
    return resolved_device


def _resolve_dtype(dtype: str | torch.dtype) -> torch.dtype | None:
    """The dtype; None for "auto"."""
    if isinstance(dtype, torch.dtype):
        return dtype
    dtypes = {"auto": None, "float32": torch.float32, "bfloat16": torch.bfloat16}
    if dtype not in dtypes:
        raise ValueError(f"dtype is {brief(dtype)}, but must be 'auto', 'float32' or 'bfloat16'")
    return dtypes[dtype]


def make_runners(
    model: Model,
    *,
    cache: KVCache | None,
    kv_dtype: KVDtype,
    ranks: Ranks | None,
    runner: ModelRunner | None,
    draft_model: Model | None,
    context: int | None,
) -> Runners:
    """Make the runners of an engine; see `Engine`. The default caches of model and draft model have the same capacity.

    Raises:
        ValueError: the cache, `kv_dtype` or `context` cannot be used. GuidedError: there is not enough memory, or the
            model is a part of a split model, but `ranks` is None.
    """
    model_context = model.config.context
    check_context(context, model_context)
    if runner is None:
        _check_cache_options(model, cache, kv_dtype, ranks)
    if runner is None and cache is not None:
        runner = ModelRunner(model, cache)
    draft_dtype: KVDtype = kv_dtype if cache is None else "auto"
    token_bytes = bytes_per_token(model, kv_dtype) if runner is None else 0
    if draft_model is not None:
        token_bytes += bytes_per_token(draft_model, draft_dtype)
    if not token_bytes:
        assert runner is not None
        return Runners(runner, None, context or model_context)
    processes = 1 if ranks is None else ranks.count
    size = choose_cache_size(token_bytes, model.device, model_context, context, processes=processes)
    max_length = size.context if runner is None else context or model_context
    runner = runner or _make_runner(model, kv_dtype, size, ranks)
    draft = None if draft_model is None else ModelRunner(draft_model, default_cache(draft_model, draft_dtype, size))
    return Runners(runner, draft, max_length)


def _check_cache_options(model: Model, cache: KVCache | None, kv_dtype: KVDtype, ranks: Ranks | None) -> None:
    check_kv_dtype(kv_dtype)
    if kv_dtype != "auto" and not (cache is None and ranks is None):
        raise ValueError("kv_dtype applies only to the default cache of one process: leave it out")
    if cache is not None and ranks is not None:
        raise ValueError("a model in several processes makes its own cache: leave cache out")
    if ranks is None and isinstance(model, Decoder) and model.parallel.is_split:
        raise GuidedError("this model is only a part of a split model: pass ranks as well")


def _make_runner(model: Model, kv_dtype: KVDtype, size: CacheSize, ranks: Ranks | None) -> ModelRunner:
    """Make the runner of a model with a default cache: in this process, or on all ranks of a split model."""
    if ranks is None:
        return ModelRunner(model, default_cache(model, kv_dtype, size))
    with size.allocation():
        return ranks.runner(model, *size.blocks)
