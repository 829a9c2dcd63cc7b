"""Models of the Hugging Face hub, through the package `huggingface_hub`: its names, cache, token and mirrors.

In: `organisation/model` for a model of safetensors, or `organisation/model/file.gguf` for one file of it. Out: the path
in the hub's cache. What is in the cache already is used without asking the network, so a model that was fetched once
works offline. Only configuration, tokenizer and safetensors are fetched: other files may hold code.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from guided.errors import ModelFileError
from guided.files.json_file import read_json

__all__ = ["fetch_from_hub", "is_hub_name"]

_PART: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_NAME: Final = re.compile(rf"{_PART}/(?!.*\.(?:gguf|safetensors)$){_PART}|{_PART}/{_PART}/.+\.gguf")
_FILES: Final = ("*.json", "*.safetensors", "chat_template.jinja")
_NEEDED: Final = ("config.json", "tokenizer.json")


def is_hub_name(name: str) -> bool:
    """Whether a name has the form of the hub's: organisation/model, or organisation/model/file.gguf."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def fetch_from_hub(name: str) -> Path:
    """The directory of a model, or a GGUF file, in the hub's cache; fetched if it is not there.

    Raises:
        ModelFileError: the package is missing, the hub has no such model, or it cannot be reached.
    """
    try:
        import huggingface_hub as hub
    except ModuleNotFoundError:
        raise ModelFileError(
            f"there is no file or directory {name!r}; if it is a model of the Hugging Face hub, fetching it needs a "
            "package: pip install 'guided-decoding[hub]'"
        ) from None
    organisation, model, *file = name.split("/", 2)
    repository = f"{organisation}/{model}"
    try:
        return _fetch(hub, repository, file[0] if file else None, offline=True)
    except Exception:  # not in the cache, or not all of it
        pass
    try:
        return _fetch(hub, repository, file[0] if file else None, offline=False)
    except Exception as error:  # of the package, of its HTTP client, of the operating system
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0] if lines else type(error).__name__
        raise ModelFileError(
            f"there is no file or directory {name!r}, and the Hugging Face hub has not given it either: {reason[:300]}"
        ) from None


def _fetch(hub: Any, repository: str, file: str | None, *, offline: bool) -> Path:
    """A file, or a directory with all that a model needs; OSError where something is missing."""
    if file is not None:
        return Path(hub.hf_hub_download(repository, file, local_files_only=offline))
    path = Path(hub.snapshot_download(repository, allow_patterns=list(_FILES), local_files_only=offline))
    missing = [needed for needed in (*_NEEDED, *_weight_files(path)) if not (path / needed).is_file()]
    if missing:
        raise OSError(f"the model has no {', '.join(missing)}")
    if offline and not (path / "tokenizer_config.json").is_file():
        raise OSError("the chat template may not have been fetched yet")
    return path


def _weight_files(path: Path) -> list[str]:
    """The files that hold the weights: those that the index names, or the only one."""
    index = path / "model.safetensors.index.json"
    if not index.is_file():
        return ["model.safetensors"]
    data = read_json(index)
    places = data.get("weight_map") if isinstance(data, dict) else None
    return sorted({str(name) for name in places.values()}) if isinstance(places, dict) else []
