"""Models of the Hugging Face hub, through the package `huggingface_hub`: its names, cache, token and mirrors.

In: a name, and what is needed of the model. Out: the path of a directory, or of a GGUF file, in the hub's cache.

    organisation/model               safetensors; of a repository of GGUF files, that of `Q4_K_M`
    organisation/model:Q8_0          the GGUF file of this quantisation
    organisation/model/file.gguf     this file
    any of them, and @revision       a branch, a tag or a commit ("main")

What is in the cache already is used without asking the network, so a model that was fetched once works offline. Only
what is read is fetched: configuration, tokenizer, chat templates, and the safetensors that the index names. Weights as
pickles (`*.bin`) are never fetched, because to load one runs its code.

`fetch_hub_file` is for the models that guided knows by a short name: it fetches one file into a folder of the caller.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from guided.errors import ModelFileError
from guided.files.json_file import read_json
from guided.files.known_models import HubFile

__all__ = ["HubName", "fetch_from_hub", "fetch_hub_file", "fetch_tokenizer", "is_hub_name"]

_PART: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_NAME: Final = re.compile(
    rf"(?P<repository>{_PART}/(?!.*\.(?:gguf|safetensors)$){_PART})(?::(?P<quantisation>[A-Za-z0-9_]{{1,20}}))?"
    rf"|(?P<parent>{_PART}/{_PART})/(?P<file>.+\.gguf)"
)
_REVISION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
_NEEDED: Final = ("config.json", "tokenizer.json")
_TOKENIZER: Final = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
_TEXTS: Final = (
    *_TOKENIZER, "config.json", "special_tokens_map.json", "chat_template.json", "chat_template.jinja",
    "additional_chat_templates/*.jinja", "model.safetensors.index.json",
)  # fmt: skip
_WEIGHTS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*\.safetensors")
_USUAL: Final = "Q4_K_M"


@dataclass(frozen=True, slots=True)
class HubName:
    """A name in its parts; `file` and `quantisation` are None where it has none."""

    repository: str
    revision: str
    file: str | None = None
    quantisation: str | None = None

    @classmethod
    def read(cls, name: str, revision: str | None = None) -> HubName | None:
        """The parts of a name; None where it has not the form of one. `revision`: where the name has none.

        Raises:
            ModelFileError: two revisions.
        """
        base, _, own = name.partition("@")
        found = _NAME.fullmatch(base)
        if found is None or ".." in name or ("@" in name and not _REVISION.fullmatch(own)):
            return None
        if own and revision not in (None, own):
            raise ModelFileError(f"{name!r} names a revision, and revision={revision!r} is another one")
        part = found.groupdict()
        return cls(part["repository"] or part["parent"], own or revision or "main", part["file"], part["quantisation"])


def is_hub_name(name: str) -> bool:
    """Whether a name has the form of the hub's, see the module docstring."""
    return HubName.read(name) is not None


def fetch_from_hub(name: str, revision: str | None = None) -> Path:
    """The directory of a model, or a GGUF file, in the hub's cache; fetched if it is not there.

    Raises:
        ModelFileError: the package is missing, the hub has no such model, or it cannot be reached.
    """
    return _fetched(name, revision, _model)


def fetch_tokenizer(name: str, revision: str | None = None) -> Path:
    """As `fetch_from_hub`, of a tokenizer alone: its tokenizer.json."""
    return _fetched(name, revision, _tokenizer)


def fetch_hub_file(file: HubFile, folder: Path) -> Path:
    """Fetch one file of a repository into `folder`. The hub's cache is used only if the file is in it already.

    Raises:
        ModelFileError: the package is missing, the hub has no such file, or it cannot be reached. OSError: of the disk.
    """
    try:
        import huggingface_hub as hub
    except ModuleNotFoundError:
        raise ModelFileError(f"fetching {file} needs a package: pip install 'guided-decoding[hub]'") from None
    try:
        return Path(hub.hf_hub_download(file.repository, file.path, revision=file.revision, local_dir=folder))
    except Exception as error:  # of the package, of its HTTP client, of the operating system
        if type(error) in (OSError, PermissionError):  # others, of the network, are subclasses
            raise
        reason, hint = _why(hub, HubName(file.repository, file.revision, file.path), error)
        raise ModelFileError(f"cannot fetch {file}: {reason}").located("", (0, 0), hint=hint) from None


def _fetched(name: str, revision: str | None, fetch: Callable[[Any, HubName, bool], Path]) -> Path:
    asked = HubName.read(name, revision)
    if asked is None:
        raise ModelFileError(f"{name!r} is no name of the Hugging Face hub: write 'organisation/model'")
    try:
        import huggingface_hub as hub
    except ModuleNotFoundError:
        raise ModelFileError(
            f"there is no file or directory {name!r}; if it is a model of the Hugging Face hub, fetching it needs a "
            "package: pip install 'guided-decoding[hub]'"
        ) from None
    try:
        return fetch(hub, asked, True)
    except Exception:  # not in the cache, or not all of it
        pass
    try:
        return fetch(hub, asked, False)
    except Exception as error:  # of the package, of its HTTP client, of the operating system
        reason, hint = _why(hub, asked, error)
        told = f"there is no file or directory {name!r}, and the Hugging Face hub has not given it either: {reason}"
        raise ModelFileError(told).located("", (0, 0), hint=hint) from None


def _why(hub: Any, asked: HubName, error: Exception) -> tuple[str, str]:
    """The reason of an error, and what helps."""
    errors, page = hub.errors, f"{hub.constants.ENDPOINT}/{asked.repository}"
    log_in = "log in with `hf auth login`, or set HF_TOKEN"
    if isinstance(error, errors.GatedRepoError):
        return "its authors give it to those who accept their terms", f"accept them at {page}, and {log_in}"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"it has no model {asked.repository}", f"look at the name; if the model is private, {log_in}"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"the model has no revision {asked.revision!r}", f"its branches and tags are listed at {page}"
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return f"the model has no file {asked.file}", f"its files are listed at {page}/tree/{asked.revision}"
    if hub.constants.HF_HUB_OFFLINE and isinstance(error, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled):
        return "it is not in the cache, and HF_HUB_OFFLINE is set", "fetch it once without HF_HUB_OFFLINE"
    if isinstance(error, errors.LocalEntryNotFoundError | ConnectionError):
        hint = "look at the network and its proxy; HF_ENDPOINT names a mirror; a path needs no network"
        return f"{hub.constants.ENDPOINT} cannot be reached, and it is not in the cache", hint
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300], getattr(error, "hint", "")


def _model(hub: Any, asked: HubName, offline: bool) -> Path:
    """A GGUF file, or a directory with all that a model needs; OSError where something is missing."""
    file = asked.file
    if file is None and asked.quantisation is None:
        path = _snapshot(hub, asked, offline, *_TEXTS)
        if (path / "config.json").is_file():
            return _with_weights(hub, asked, offline, path)
    if file is None:
        file = _file_of(asked, _files(hub, asked, offline))
    return Path(hub.hf_hub_download(asked.repository, file, revision=asked.revision, local_files_only=offline))


def _tokenizer(hub: Any, asked: HubName, offline: bool) -> Path:
    path = _snapshot(hub, asked, offline, *_TOKENIZER) / "tokenizer.json"
    if not path.is_file():
        raise _missing(hub, asked, offline, ["tokenizer.json"])
    return path


def _snapshot(hub: Any, asked: HubName, offline: bool, *patterns: str) -> Path:
    found = hub.snapshot_download(
        asked.repository, revision=asked.revision, allow_patterns=list(patterns), local_files_only=offline
    )
    return Path(found)


def _with_weights(hub: Any, asked: HubName, offline: bool, path: Path) -> Path:
    if not offline:
        path = _snapshot(hub, asked, offline, *_weight_files(path))
    missing = [needed for needed in (*_NEEDED, *_weight_files(path)) if not (path / needed).is_file()]
    if missing:
        raise _missing(hub, asked, offline, missing)
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
    names = sorted({str(name) for name in places.values()}) if isinstance(places, dict) else []
    if wrong := [name for name in names if not _WEIGHTS.fullmatch(name) or ".." in name]:
        raise ModelFileError(f"{index.name} names {wrong[0][:100]!r}, which is no file of safetensors")
    return names


def _missing(hub: Any, asked: HubName, offline: bool, missing: list[str]) -> Exception:
    """Why files are missing: a repository may have them in another form."""
    if offline:
        return OSError(f"the model has no {', '.join(missing)}")
    there = _files(hub, asked, offline)
    pickles = [name for name in there if name.endswith((".bin", ".pt", ".pth", ".ckpt")) and "/" not in name]
    hint = ""
    if pickles and any(name.endswith(".safetensors") for name in missing):
        hint = (
            f"{pickles[0]} is a pickle, and to load one runs its code: it is not read. Take a revision of safetensors, "
            f"which may be a pull request ({asked.repository}@refs/pr/1), or convert it where you trust it"
        )
    elif "tokenizer.json" in missing:
        hint = "transformers' AutoTokenizer.from_pretrained(...).save_pretrained(folder) writes a tokenizer.json"
    return ModelFileError(f"the model has no {', '.join(missing)}").located("", (0, 0), hint=hint)


def _files(hub: Any, asked: HubName, offline: bool) -> list[str]:
    """The names of a repository's files; offline of those in the cache."""
    if not offline:
        return sorted(hub.HfApi().list_repo_files(asked.repository, revision=asked.revision))
    folder = Path(hub.constants.HF_HUB_CACHE) / f"models--{asked.repository.replace('/', '--')}"
    ref = folder / "refs" / asked.revision
    path = folder / "snapshots" / (ref.read_text("utf-8").strip() if ref.is_file() else asked.revision)
    return sorted(found.relative_to(path).as_posix() for found in path.rglob("*.gguf"))


def _file_of(asked: HubName, there: list[str]) -> str:
    """The GGUF file of a quantisation.

    Raises:
        ModelFileError: there is none, or it is in several files.
    """
    files = [name for name in there if name.endswith(".gguf") and "mmproj" not in name.lower()]
    wanted = re.compile(rf"(?i:(?:^|[-._/]){asked.quantisation or _USUAL}(?:[-._/]|$))")
    found = [name for name in files if wanted.search(name.removesuffix(".gguf"))]
    if len(found) == 1:
        return found[0]
    if not files:
        raise ModelFileError(f"the model has no {_NEEDED[0]}, and no GGUF file")
    what = f"{len(found)} GGUF files" if found else "no GGUF file"
    if any(re.search(r"-\d{5}-of-\d{5}\.gguf$", name) for name in found):
        what += " (in parts, which are not read)"
    names = ", ".join((found or files)[:12])
    told = f"the model has {what} of {asked.quantisation or _USUAL}; it has {names}"
    raise ModelFileError(told).located("", (0, 0), hint=f"name one, as {asked.repository}/{files[0]}")
