"""Downloads models from the Hugging Face hub, with the names, cache, token and mirrors of `huggingface_hub`.

In: a name. Out: the path of a directory, or of a GGUF file, in the hub's cache.

    organisation/model               safetensors; for a repository of GGUF files, its `Q4_K_M` file
    organisation/model:Q8_0          the GGUF file of this quantisation
    organisation/model/file.gguf     this file
    NAME@revision                    any of these names at a branch, a tag or a commit (default: "main")

Cached files are used without network access, so a model that was downloaded once works offline. Only the files that
guided reads are downloaded: configuration, tokenizer, chat templates, and the safetensors that the index names. Weights
in pickles (`*.bin`) are never downloaded, because loading a pickle runs its code.

`fetch_hub_file` is for the models that guided knows by a short name. It downloads one file into the caller's folder.
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

_NAME_PART: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_NAME: Final = re.compile(
    rf"(?P<repository>{_NAME_PART}/(?!.*\.(?:gguf|safetensors)$){_NAME_PART})(?::(?P<quantisation>[A-Za-z0-9_]{{1,20}}))?"
    rf"|(?P<parent>{_NAME_PART}/{_NAME_PART})/(?P<file>.+\.gguf)"
)
_REVISION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
_REQUIRED_FILES: Final = ("config.json", "tokenizer.json")
_TOKENIZER_FILES: Final = ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "config.json")
_MODEL_FILES: Final = (
    *_TOKENIZER_FILES, "special_tokens_map.json", "chat_template.json", "chat_template.jinja",
    "additional_chat_templates/*.jinja", "model.safetensors.index.json",
)  # fmt: skip
_WEIGHT_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*\.safetensors")
_DEFAULT_QUANTISATION: Final = "Q4_K_M"


@dataclass(frozen=True, slots=True)
class HubName:
    """A parsed name. `file` and `quantisation` are None if the name does not contain them."""

    repository: str
    revision: str
    file: str | None = None
    quantisation: str | None = None

    @classmethod
    def read(cls, name: str, revision: str | None = None) -> HubName | None:
        """Parse a name; None if it does not have the form of a hub name. `revision` applies if the name contains none.

        Raises:
            ModelFileError: `revision` differs from the revision in the name.
        """
        base, _, name_revision = name.partition("@")
        match = _NAME.fullmatch(base)
        if match is None or ".." in name or ("@" in name and not _REVISION.fullmatch(name_revision)):
            return None
        if name_revision and revision not in (None, name_revision):
            raise ModelFileError(f"{name!r} names a revision, but revision={revision!r} is a different one")
        groups, revision = match.groupdict(), name_revision or revision or "main"
        return cls(groups["repository"] or groups["parent"], revision, groups["file"], groups["quantisation"])


def is_hub_name(name: str) -> bool:
    """Whether a name has the form of a hub name, see the module docstring."""
    return HubName.read(name) is not None


def fetch_from_hub(name: str, revision: str | None = None) -> Path:
    """The directory of a model, or a GGUF file, in the hub's cache; downloaded if it is not there.

    Raises:
        ModelFileError: the package is missing, the hub has no such model, or it cannot be reached.
    """
    return _fetch(name, revision, _fetch_model)


def fetch_tokenizer(name: str, revision: str | None = None) -> Path:
    """Like `fetch_from_hub`, but fetches only the tokenizer. Returns the path of tokenizer.json."""
    return _fetch(name, revision, _fetch_tokenizer_file)


def fetch_hub_file(file: HubFile, folder: Path) -> Path:
    """Download one file of a repository into `folder`. The hub's cache is used only if it already has the file.

    Raises:
        ModelFileError: the package is missing, the hub has no such file, or it cannot be reached. OSError: disk errors.
    """
    try:
        import huggingface_hub as hub
    except ModuleNotFoundError:
        raise ModelFileError(f"fetching {file} needs a package: pip install 'guided-decoding[hub]'") from None
    try:
        return Path(hub.hf_hub_download(file.repository, file.path, revision=file.revision, local_dir=folder))
    except Exception as error:  # from the package, its HTTP client or the operating system
        if type(error) in (OSError, PermissionError):  # disk errors; network errors are other subclasses
            raise
        reason, hint = _explain_error(hub, HubName(file.repository, file.revision, file.path), error)
        raise ModelFileError(f"cannot fetch {file}: {reason}").with_location("", (0, 0), hint=hint) from None


def _fetch(name: str, revision: str | None, fetch: Callable[[Any, HubName, bool], Path]) -> Path:
    hub_name = HubName.read(name, revision)
    if hub_name is None:
        raise ModelFileError(f"{name!r} is not the name of a model on the Hugging Face hub: write 'organisation/model'")
    try:
        import huggingface_hub as hub
    except ModuleNotFoundError:
        raise ModelFileError(
            f"there is no file or directory {name!r}; if it is a model on the Hugging Face hub, downloading it needs a "
            "package: pip install 'guided-decoding[hub]'"
        ) from None
    try:
        return fetch(hub, hub_name, True)
    except Exception:  # not in the cache, or incomplete
        pass
    try:
        return fetch(hub, hub_name, False)
    except Exception as error:  # from the package, its HTTP client or the operating system
        reason, hint = _explain_error(hub, hub_name, error)
        failure = f"downloading it from the Hugging Face hub failed: {reason}"
        message = f"there is no file or directory {name!r}, and {failure}"
        raise ModelFileError(message).with_location("", (0, 0), hint=hint) from None


def _explain_error(hub: Any, hub_name: HubName, error: Exception) -> tuple[str, str]:
    """The reason for a download error, and a hint."""
    errors, page = hub.errors, f"{hub.constants.ENDPOINT}/{hub_name.repository}"
    login_hint = "log in with `hf auth login`, or set HF_TOKEN"
    if isinstance(error, errors.GatedRepoError):
        return "its authors grant access only after you accept their terms", f"accept them at {page}, and {login_hint}"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"the hub has no model {hub_name.repository}", f"check the name; if the model is private, {login_hint}"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"the model has no revision {hub_name.revision!r}", f"its branches and tags are listed at {page}"
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return f"the model has no file {hub_name.file}", f"its files are listed at {page}/tree/{hub_name.revision}"
    if hub.constants.HF_HUB_OFFLINE and isinstance(error, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled):
        return "it is not in the cache, and HF_HUB_OFFLINE is set", "fetch it once without HF_HUB_OFFLINE"
    if isinstance(error, errors.LocalEntryNotFoundError | ConnectionError):
        hint = "check the network and its proxy, set HF_ENDPOINT to a mirror, or pass a local path"
        return f"{hub.constants.ENDPOINT} cannot be reached, and the model is not in the cache", hint
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300], getattr(error, "hint", "")


def _fetch_model(hub: Any, hub_name: HubName, offline: bool) -> Path:
    """The path of a GGUF file, or of a directory with all files that the model needs.

    Raises:
        OSError: a file is missing from the cache (with `offline`). ModelFileError: a file is missing on the hub.
    """
    file = hub_name.file
    if file is None and hub_name.quantisation is None:
        path = _download_snapshot(hub, hub_name, offline, *_MODEL_FILES)
        if (path / "config.json").is_file():
            return _fetch_weights(hub, hub_name, offline, path)
    if file is None:
        file = _find_gguf(hub_name, _list_files(hub, hub_name, offline))
    return Path(hub.hf_hub_download(hub_name.repository, file, revision=hub_name.revision, local_files_only=offline))


def _fetch_tokenizer_file(hub: Any, hub_name: HubName, offline: bool) -> Path:
    path = _download_snapshot(hub, hub_name, offline, *_TOKENIZER_FILES) / "tokenizer.json"
    if not path.is_file():
        raise _make_missing_files_error(hub, hub_name, offline, ["tokenizer.json"])
    return path


def _download_snapshot(hub: Any, hub_name: HubName, offline: bool, *patterns: str) -> Path:
    snapshot = hub.snapshot_download(
        hub_name.repository, revision=hub_name.revision, allow_patterns=list(patterns), local_files_only=offline
    )
    return Path(snapshot)


def _fetch_weights(hub: Any, hub_name: HubName, offline: bool, path: Path) -> Path:
    if not offline:
        path = _download_snapshot(hub, hub_name, offline, *_list_weight_files(path))
    missing_files = [name for name in (*_REQUIRED_FILES, *_list_weight_files(path)) if not (path / name).is_file()]
    if missing_files:
        raise _make_missing_files_error(hub, hub_name, offline, missing_files)
    if offline and not (path / "tokenizer_config.json").is_file():
        raise OSError("the chat template may not have been fetched yet")
    return path


def _list_weight_files(path: Path) -> list[str]:
    """The names of the weight files: those in the index, or the single file if there is no index."""
    index = path / "model.safetensors.index.json"
    if not index.is_file():
        return ["model.safetensors"]
    data = read_json(index)
    file_by_tensor = data.get("weight_map") if isinstance(data, dict) else None
    names = sorted({str(name) for name in file_by_tensor.values()}) if isinstance(file_by_tensor, dict) else []
    if invalid_names := [name for name in names if not _WEIGHT_FILE.fullmatch(name) or ".." in name]:
        raise ModelFileError(f"{index.name} names {invalid_names[0][:100]!r}, which is not a safetensors file")
    return names


def _make_missing_files_error(hub: Any, hub_name: HubName, offline: bool, missing_files: list[str]) -> Exception:
    """The error for missing files, with a hint if the repository has them in another form."""
    if offline:
        return OSError(f"the model has no {', '.join(missing_files)}")
    files = _list_files(hub, hub_name, offline)
    pickles = [name for name in files if name.endswith((".bin", ".pt", ".pth", ".ckpt")) and "/" not in name]
    hint = ""
    if pickles and any(name.endswith(".safetensors") for name in missing_files):
        hint = (
            f"{pickles[0]} is a pickle, which is not read, since loading it runs its code. Use a revision with "
            f"safetensors, which may be a pull request ({hub_name.repository}@refs/pr/1), or convert the file yourself"
        )
    elif "tokenizer.json" in missing_files:
        hint = "transformers' AutoTokenizer.from_pretrained(...).save_pretrained(folder) writes a tokenizer.json"
    return ModelFileError(f"the model has no {', '.join(missing_files)}").with_location("", (0, 0), hint=hint)


def _list_files(hub: Any, hub_name: HubName, offline: bool) -> list[str]:
    """The names of all files in a repository, or with `offline` of its GGUF files in the cache."""
    if not offline:
        return sorted(hub.HfApi().list_repo_files(hub_name.repository, revision=hub_name.revision))
    folder = Path(hub.constants.HF_HUB_CACHE) / f"models--{hub_name.repository.replace('/', '--')}"
    ref = folder / "refs" / hub_name.revision
    path = folder / "snapshots" / (ref.read_text("utf-8").strip() if ref.is_file() else hub_name.revision)
    return sorted(file.relative_to(path).as_posix() for file in path.rglob("*.gguf"))


def _find_gguf(hub_name: HubName, names: list[str]) -> str:
    """The GGUF file of a quantisation.

    Raises:
        ModelFileError: no file matches the quantisation, or several do.
    """
    files = [name for name in names if name.endswith(".gguf") and "mmproj" not in name.lower()]
    pattern = re.compile(rf"(?i:(?:^|[-._/]){hub_name.quantisation or _DEFAULT_QUANTISATION}(?:[-._/]|$))")
    candidates = [name for name in files if pattern.search(name.removesuffix(".gguf"))]
    if len(candidates) == 1:
        return candidates[0]
    if not files:
        raise ModelFileError(f"the model has no {_REQUIRED_FILES[0]}, and no GGUF file")
    found_files = f"{len(candidates)} GGUF files" if candidates else "no GGUF file"
    if any(re.search(r"-\d{5}-of-\d{5}\.gguf$", name) for name in candidates):
        found_files += " (split files are not supported)"
    file_list = ", ".join((candidates or files)[:12])
    message = f"the model has {found_files} of {hub_name.quantisation or _DEFAULT_QUANTISATION}; it has {file_list}"
    raise ModelFileError(message).with_location(
        "", (0, 0), hint=f"name a file, such as {hub_name.repository}/{files[0]}"
    )
