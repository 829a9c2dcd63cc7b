"""The vocabulary on the command line: bytes, a model's name, or a tokenizer file.

In: --vocabulary and --eos. Out: a `Vocabulary`. The file's name determines its format; the format's reader checks the
content.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from guided.cli.console import InputError, Progress
from guided.matching.sentences import byte_vocabulary
from guided.vocabulary import Vocabulary

__all__ = ["add_vocabulary", "load_vocabulary"]

_SUFFIXES: Final = (".gguf", ".json", ".tiktoken", ".model")


def add_vocabulary(parser: argparse.ArgumentParser) -> None:
    """Add --vocabulary and --eos."""
    group = parser.add_argument_group("vocabulary")
    group.add_argument(
        "--vocabulary",
        metavar="WHICH",
        default="bytes",
        help="bytes (the default: one token per byte); a model's name (see `guided models`), or "
        "org/model on the Hugging Face hub; or a file: *.gguf, tokenizer.json, *.model (SentencePiece), tekken*.json, "
        "*.tiktoken",
    )
    group.add_argument(
        "--eos", metavar="ID,ID", help="ids of the end tokens, for files that do not declare them (tiktoken)"
    )


def load_vocabulary(arguments: argparse.Namespace) -> Vocabulary:
    """The vocabulary on the command line.

    Raises:
        InputError: there is no such vocabulary, or --eos is malformed, missing, or has no effect. VocabularyError: the
            file cannot be read.
    """
    name: str = arguments.vocabulary
    end_ids = _parse_ids(arguments.eos)
    if name == "bytes":
        if end_ids is not None:
            raise InputError("--eos applies to tokenizer files, not to --vocabulary bytes")
        return byte_vocabulary()
    if not name:
        raise InputError("the name of the vocabulary is empty; see --vocabulary in --help")
    path = Path(name)
    if not path.exists():
        path = _find_model(name)
    with Progress(f"reading {path.name}"):
        return _read_file(path, end_ids)


def _read_file(path: Path, end_ids: list[int] | None) -> Vocabulary:
    lower_name = path.name.lower()
    if path.is_dir():
        path = path / "tokenizer.json"
        if not path.is_file():
            raise InputError(f"{path.parent} contains no tokenizer.json")
        return Vocabulary.from_huggingface(str(path), eos_token_ids=end_ids)
    if lower_name.endswith(".gguf"):
        return Vocabulary.from_gguf(path, eos_token_ids=end_ids)
    if lower_name.endswith(".json"):
        reader = Vocabulary.from_tekken if "tekken" in lower_name else Vocabulary.from_huggingface
        return reader(str(path), eos_token_ids=end_ids)
    if lower_name.endswith(".tiktoken"):
        if end_ids is None:
            raise InputError(f"{path.name} does not name the end tokens: give their ids with --eos ID,ID")
        return Vocabulary.from_tiktoken(path, eos_token_ids=end_ids)
    if lower_name.endswith(".model") or ".model." in lower_name:
        return Vocabulary.from_sentencepiece(path, eos_token_ids=end_ids)
    raise InputError(f"{path}: unknown kind of tokenizer file; see --vocabulary in --help")


def _find_model(name: str) -> Path:
    """The file from which the tokenizer of a model is read; downloads it if necessary."""
    try:
        from guided.files.hub import find_model, model_names
        from guided.files.huggingface import HubName, fetch_tokenizer
    except ModuleNotFoundError as error:
        hint = "pip install 'guided-decoding[engine]', or give the path of its GGUF file"
        raise InputError(f"{name!r} is not a file, and loading a model by name needs {error.name}: {hint}") from None
    if Path(name).suffix.lower() in _SUFFIXES:
        raise InputError(f"there is no file {name}")
    if (hub_name := HubName.read(name)) is not None and hub_name.file is None and hub_name.quantisation is None:
        return fetch_tokenizer(name)
    if name.lower() not in model_names():
        raise InputError(f"{name!r} is neither a file nor a known model ({', '.join(model_names())}) nor 'bytes'")
    return find_model(name)


def _parse_ids(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise InputError(f"--eos takes ids separated by commas, not {text!r}") from None
