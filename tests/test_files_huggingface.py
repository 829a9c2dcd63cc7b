"""Models of the Hugging Face hub: found in its cache without a network, otherwise refused with a reason."""

from __future__ import annotations

import builtins
import json
from pathlib import Path

import pytest

from guided.errors import ModelFileError
from guided.files.hub import find_model
from guided.files.huggingface import is_hub_name

hub = pytest.importorskip("huggingface_hub", reason="names of the hub need the package huggingface_hub")
COMPLETE = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, and no network."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


def put(cache: Path, repository: str, *files: str) -> Path:
    """Put files into the cache, as the package stores them."""
    folder = cache / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    snapshot = folder / "snapshots" / COMMIT
    for name in files:
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).write_text("{}")
    return snapshot


def test_a_model_in_the_cache_is_found_offline(cache: Path):
    snapshot = put(cache, "org/Model-1.5", *COMPLETE)
    assert find_model("org/Model-1.5") == snapshot


def test_one_gguf_file_of_a_model(cache: Path):
    snapshot = put(cache, "org/model-GGUF", "model.Q4_1.gguf", "folder/other.gguf")
    assert find_model("org/model-GGUF/model.Q4_1.gguf") == snapshot / "model.Q4_1.gguf"
    assert find_model("org/model-GGUF/folder/other.gguf") == snapshot / "folder" / "other.gguf"


def test_a_model_of_several_files_of_weights(cache: Path):
    names = ["model-1-of-2.safetensors", "model-2-of-2.safetensors"]
    index = json.dumps({"weight_map": {"a": names[0], "b": names[1]}})
    snapshot = put(cache, "org/model", *COMPLETE[:-1], "model.safetensors.index.json", names[0])
    (snapshot / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ModelFileError, match="downloading it from the Hugging Face hub failed"):
        find_model("org/model")
    (snapshot / names[1]).touch()
    assert find_model("org/model") == snapshot


def test_an_error_of_the_network_is_a_reason(cache: Path, monkeypatch: pytest.MonkeyPatch):
    class ProxyError(Exception):
        pass

    def broken(*_: object, **__: object) -> str:
        raise ProxyError("the proxy says no")

    monkeypatch.setattr(hub, "snapshot_download", broken)
    with pytest.raises(ModelFileError, match="the proxy says no"):
        find_model("org/model")


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_half_a_model_in_the_cache_is_not_enough(cache: Path, missing: str):
    files = {*COMPLETE} - {missing}
    put(cache, "org/model", *files)
    with pytest.raises(ModelFileError, match="downloading it from the Hugging Face hub failed"):
        find_model("org/model")


@pytest.mark.parametrize(("files", "asked"), [(COMPLETE, [True]), (COMPLETE[:2] + COMPLETE[3:], [True, False, False])])
def test_the_network_is_used_if_a_file_may_be_missing(cache: Path, monkeypatch, files: list[str], asked: list[bool]):
    """A model may have no tokenizer_config.json, or the file, with the chat template, has not been downloaded yet."""
    snapshot, seen = put(cache, "org/model", *files), list[bool]()

    def recorded(*_: object, local_files_only: bool, **__: object) -> str:
        seen.append(local_files_only)
        return str(snapshot)

    monkeypatch.setattr(hub, "snapshot_download", recorded)
    assert find_model("org/model") == snapshot
    assert seen == asked


def test_a_model_that_is_not_there(cache: Path):
    with pytest.raises(ModelFileError, match="no file or directory 'org/model', and downloading"):
        find_model("org/model")


def test_a_path_comes_before_the_hub(cache: Path):
    put(cache, "org/model", *COMPLETE)
    here = Path("org/model")
    here.mkdir(parents=True)
    assert find_model("org/model") == here


def test_without_the_package_the_hint_names_the_extra(cache: Path, monkeypatch: pytest.MonkeyPatch):
    load = builtins.__import__

    def no_hub(name: str, *rest: object, **more: object) -> object:
        if name == "huggingface_hub":
            raise ModuleNotFoundError(name=name)
        return load(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", no_hub)
    with pytest.raises(ModelFileError, match=r"'org/model'; .* pip install 'guided-decoding\[hub\]'"):
        find_model("org/model")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("org/model", True),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", True),
        ("org/model/x.gguf", True),
        ("org/model@v1.0", True),
        ("org/model@refs/pr/1", True),
        ("org/model-GGUF:Q4_K_M", True),
        ("org/model-GGUF:Q4_K_M@main", True),
        ("org/model@", False),
        ("org/model@../x", False),
        ("org/model:", False),
        ("org/model:a/b", False),
        ("model", False),
        ("org/model/x", False),
        ("../model", False),
        ("./model", False),
        ("/org/model", False),
        ("org/model.gguf", False),
        ("org/..", False),
        ("org/model/../../x.gguf", False),
        ("org//model", False),
        ("", False),
    ],
)
def test_names(name: str, expected: bool):
    assert is_hub_name(name) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "the name of the model is empty"),
        ("smollm2", "did you mean 'smollm2-135m-instruct'"),
        ("nothing.gguf", "there is no file or directory 'nothing.gguf' in this folder; it contains mine.gguf"),
        ("models/nothing/x.gguf", "there is no file or directory 'models/nothing/x.gguf'"),
        ("/nowhere/at/all", "there is no file or directory '/nowhere/at/all' below /"),
    ],
)
def test_a_name_that_leads_nowhere(cache: Path, name: str, message: str):
    Path("mine.gguf").touch()
    with pytest.raises(ModelFileError, match=message):
        find_model(name)
