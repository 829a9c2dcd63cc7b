"""Loads the model, vocabulary, chat template and BOS ids from a model's file or directory.

In: a GGUF file, or a directory as written by transformers (config.json, safetensors, tokenizer.json,
tokenizer_config.json and chat template files). Out: `Pretrained`, the arguments of an `Engine`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch

from guided.chat import ChatTemplate
from guided.chat.sources import templates_in_folder, templates_in_gguf, token_variables
from guided.errors import ModelFileError, VocabularyError, brief
from guided.files.gguf import GgufFile
from guided.files.json_file import read_json_object
from guided.models.loading.gguf_loader import load_gguf
from guided.models.loading.huggingface_loader import load_huggingface
from guided.models.model import Model
from guided.models.parallel import WHOLE, Parallel
from guided.vocabulary.bounded import fit_to_logits
from guided.vocabulary.gguf_tokenizer import read_bos_ids
from guided.vocabulary.source import check_ids
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Pretrained", "load_model", "load_pretrained"]


@dataclass(frozen=True, slots=True)
class Pretrained:
    """The arguments of an `Engine`."""

    model: Model
    vocabulary: Vocabulary
    chat: ChatTemplate | None
    bos: list[int]


def load_pretrained(
    path: Path,
    *,
    dtype: torch.dtype | None,
    device: torch.device,
    keep_format: bool = True,
    parallel: Parallel = WHOLE,
) -> Pretrained:
    """Load the model in a GGUF file or a directory, or this process's part of it. `dtype`: None selects the fastest
    dtype.

    `keep_format`: on a CPU, matrices of a GGUF file may stay quantised. Not for `torch.compile`, which cannot trace
        products with quantised matrices.

    Raises:
        ModelFileError: a file is missing or corrupt. VocabularyError: the tokenizer cannot be used.
        UnsupportedError: the architecture is not supported.
    """
    if path.is_dir():
        vocabulary = _read_directory_vocabulary(path)  # report its errors before loading the model
        model = _load_directory_model(path, dtype, device, parallel)
        return Pretrained(model, *_load_directory_tokenizer(path, fit_to_logits(vocabulary, model.config.vocab_size)))
    with GgufFile(path) as file:
        model = _load_gguf_model(file, dtype, device, keep_format, parallel)
        return Pretrained(model, *_load_gguf_tokenizer(file, model.config.vocab_size))


def load_model(path: Path, *, dtype: torch.dtype | None, device: torch.device, parallel: Parallel = WHOLE) -> Model:
    """Like `load_pretrained`, but load only the model."""
    if path.is_dir():
        return _load_directory_model(path, dtype, device, parallel)
    with GgufFile(path) as file:
        return _load_gguf_model(file, dtype, device, True, parallel)


def _load_gguf_model(
    file: GgufFile, dtype: torch.dtype | None, device: torch.device, keep_format: bool, parallel: Parallel
) -> Model:
    keep_format = keep_format and device.type == "cpu" and dtype != torch.float32  # float32 applies to all matrices
    if dtype is None:
        dtype = torch.float32 if keep_format else _native_dtype(device)
    return load_gguf(file, dtype=dtype, device=device, keep_format=keep_format, parallel=parallel)


def _load_directory_model(path: Path, dtype: torch.dtype | None, device: torch.device, parallel: Parallel) -> Model:
    dtype = _native_dtype(device) if dtype is None else dtype
    return load_huggingface(path, dtype=dtype, device=device, parallel=parallel)


def _load_gguf_tokenizer(file: GgufFile, logits: int) -> tuple[Vocabulary, ChatTemplate | None, list[int]]:
    """Load the vocabulary, the chat template, and the BOS ids, which precede a string prompt. `logits`: the number
    of the model's logits."""
    vocabulary = fit_to_logits(Vocabulary.from_gguf(file), logits)
    chat = ChatTemplate.from_metadata(vocabulary, *templates_in_gguf(file.metadata, vocabulary))
    try:
        bos = read_bos_ids(file.metadata, vocabulary.size)
    except VocabularyError as error:
        raise ModelFileError(f"{file.path}: {error}") from None
    return vocabulary, chat, bos


def _read_directory_vocabulary(path: Path) -> Vocabulary:
    if not (path / "tokenizer.json").is_file():
        raise ModelFileError(f"{path} contains no tokenizer.json, so the model's tokens are unknown")
    return Vocabulary.from_huggingface(path)


def _load_directory_tokenizer(path: Path, vocabulary: Vocabulary) -> tuple[Vocabulary, ChatTemplate | None, list[int]]:
    """Load the chat template and the BOS ids for a directory's vocabulary."""
    settings = read_json_object(path / "tokenizer_config.json") if (path / "tokenizer_config.json").is_file() else {}
    chat = ChatTemplate.from_metadata(vocabulary, templates_in_folder(path, settings), token_variables(settings))
    return vocabulary, chat, _read_bos_ids(read_json_object(path / "tokenizer.json"))


def _native_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 if the hardware can multiply it. Otherwise float32, which is then faster and more exact."""
    if device.type == "cuda":
        is_native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        probe = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
        is_native = device.type == "cpu" and probe is not None and bool(probe())
    return torch.bfloat16 if is_native else torch.float32


def _read_bos_ids(tokenizer: dict[str, Any]) -> list[int]:
    """The ids that the post-processor of tokenizer.json puts before a text. As in transformers, `add_bos_token` of
    tokenizer_config.json has no effect if there is a tokenizer.json."""
    try:
        step = tokenizer.get("post_processor") or {}
        steps = step["processors"] if step.get("type") == "Sequence" else [step]
        ids = [id for step in steps for id in _leading_ids(step)]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise VocabularyError(f"the post_processor of tokenizer.json cannot be read: {brief(error, 200)}") from None
    return check_ids(ids, "the tokens before a text in the post_processor of tokenizer.json")


def _leading_ids(step: dict[str, Any]) -> list[Any]:
    """The ids that a step of the post-processor puts before a text."""
    if step.get("type") in ("RobertaProcessing", "BertProcessing"):
        return [step["cls"][1]]
    if step.get("type") != "TemplateProcessing":
        return []
    parts = takewhile(lambda part: "SpecialToken" in part, step["single"])
    return [id for part in parts for id in step["special_tokens"][part["SpecialToken"]["id"]]["ids"]]
