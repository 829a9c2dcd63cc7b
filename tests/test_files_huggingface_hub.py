"""Models of the hub over HTTP: downloads, revisions, GGUF files by quantisation, and all refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from guided.errors import ModelFileError, VocabularyError
from guided.files.hub import find_model
from guided.vocabulary import Vocabulary
from tests.hub_support import COMMITS, Hub, library_asks

library = pytest.importorskip("huggingface_hub", reason="names of the hub need the package huggingface_hub")

TOKENIZER = json.dumps({
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
    "decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
    "added_tokens": [{"id": 2, "content": "<|im_end|>", "special": True}],
}).encode()  # fmt: skip
TEXTS = {
    "config.json": b"{}",
    "tokenizer.json": TOKENIZER,
    "tokenizer_config.json": b'{"eos_token": "<|im_end|>"}',
    "generation_config.json": b"{}",
    "chat_template.jinja": b"{{ messages }}",
    "additional_chat_templates/tool_use.jinja": b"{{ messages }}{{ tools }}",
}
OTHERS = {
    "README.md": b"x",
    "pytorch_model.bin": b"a pickle",
    "modeling.py": b"import os",
    "original/params.json": b"{}",
    "consolidated.safetensors": b"the same again",
    "onnx/model.onnx": b"x",
}
INDEX = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
PARTS = {
    "model.safetensors.index.json": json.dumps(INDEX).encode(),
    **{name: name.encode() for name in INDEX["weight_map"].values()},
}
GGUF = {f"model-{kind}.gguf": kind.encode() for kind in ("Q4_K_M", "Q4_K_S", "Q8_0", "BF16")}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    one = TEXTS | OTHERS | {"model.safetensors": b"weights"}
    hub = Hub(
        {
            "org/model": {"main": one, "v1": one | {"config.json": b'{"old": 1}'}, "refs/pr/1": one},
            "org/parts": {"main": TEXTS | OTHERS | PARTS},
            "org/pickle": {"main": {**TEXTS, "pytorch_model.bin": b"a pickle"}},
            "org/slow": {"main": {"config.json": b"{}", "model.safetensors": b"x", "vocab.txt": b"x"}},
            "org/model-GGUF": {"main": GGUF | {"mmproj-Q4_K_M.gguf": b"x", "README.md": b"x"}},
            "org/split-GGUF": {"main": {f"m-Q4_K_M-0000{n}-of-00002.gguf": b"x" for n in (1, 2)}},
            "org/wild": {"main": {**TEXTS, "model.safetensors.index.json": b'{"weight_map": {"a": "*"}}'}},
            "org/empty": {"main": {"README.md": b"x"}},
        }
    )
    monkeypatch.chdir(tmp_path)
    with library_asks(hub, tmp_path, monkeypatch):
        yield hub


def files(path: Path) -> dict[str, bytes]:
    return {one.relative_to(path).as_posix(): one.read_bytes() for one in path.rglob("*") if one.is_file()}


def test_only_what_is_read_is_fetched(hub: Hub):
    assert files(find_model("org/model")) == TEXTS | {"model.safetensors": b"weights"}
    assert files(find_model("org/parts")) == TEXTS | PARTS


def test_a_model_that_was_fetched_needs_no_network(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    first = [find_model(name) for name in ("org/model", "org/parts", "org/model-GGUF:Q8_0", "org/model-GGUF")]
    hub.asked.clear()
    assert [find_model(name) for name in ("org/model", "org/parts", "org/model-GGUF:Q8_0", "org/model-GGUF")] == first
    assert hub.asked == []
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert find_model("org/model") == first[0]
    with pytest.raises(ModelFileError, match=r"not in the cache, and HF_HUB_OFFLINE is set\nhint: fetch it once"):
        find_model("org/slow")
    with pytest.raises(ModelFileError, match="HF_HUB_OFFLINE is set"):
        find_model("org/model-GGUF:Q4_K_S")


@pytest.mark.parametrize("revision", ["v1", COMMITS["v1"]])
def test_a_revision(hub: Hub, revision: str):
    path = find_model("org/model", revision)
    assert path.name == COMMITS["v1"] and (path / "config.json").read_bytes() == b'{"old": 1}'
    assert find_model(f"org/model@{revision}") == find_model(f"org/model@{revision}", revision) == path
    assert find_model("org/model").name == COMMITS["main"]
    assert find_model("org/model@refs/pr/1").name == COMMITS["refs/pr/1"]
    with pytest.raises(ModelFileError, match="names a revision, but revision='main' is a different one"):
        find_model(f"org/model@{revision}", "main")


def test_a_revision_for_a_source_without_revisions(tmp_path: Path):
    with pytest.raises(ModelFileError, match="is not a model on the Hugging Face hub: it has no revision 'v1'"):
        find_model(str(tmp_path), "v1")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("org/model-GGUF:Q4_K_M", b"Q4_K_M"),
        ("org/model-GGUF:q4_k_s", b"Q4_K_S"),
        ("org/model-GGUF:Q8_0@main", b"Q8_0"),
        ("org/model-GGUF", b"Q4_K_M"),
        ("org/model-GGUF/model-BF16.gguf", b"BF16"),
    ],
)
def test_a_gguf_file_by_its_quantisation(hub: Hub, name: str, content: bytes):
    path = find_model(name)
    assert path.read_bytes() == content and path.suffix == ".gguf"
    assert len(list(path.parent.iterdir())) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("org/nothing", r"the hub has no model org/nothing\nhint: check the name; .* HF_TOKEN"),
        ("org/gated", r"only after you accept their terms\nhint: accept them at http://.*/org/gated, and log in"),
        ("org/model@v9", r"the model has no revision 'v9'\nhint: its branches and tags are listed at http"),
        ("org/model-GGUF/none.gguf", r"the model has no file none.gguf\nhint: its files are listed at"),
        ("org/model-GGUF:Q2_K", r"has no GGUF file of Q2_K; it has model-BF16.*\nhint: name a file, such as org/model"),
        ("org/split-GGUF", r"has 2 GGUF files \(split files are not supported\) of Q4_K_M"),
        ("org/pickle", r"has no model.safetensors\nhint: pytorch_model.bin is a pickle.*@refs/pr/1"),
        ("org/slow", r"has no tokenizer.json\nhint: transformers' AutoTokenizer"),
        ("org/wild", r"names '\*', which is not a safetensors file"),
        ("org/empty", r"has no config.json, and no GGUF file"),
    ],
)  # fmt: skip
def test_every_refusal_has_its_reason_and_what_helps(hub: Hub, name: str, message: str):
    hub.repositories["org/gated"] = hub.repositories["org/model"]
    hub.gated.add("org/gated")
    with pytest.raises(ModelFileError, match=f"(?s){message}"):
        find_model(name)
    assert not any(path.endswith((".bin", ".py", ".md")) for path in hub.asked)


def test_a_hub_that_cannot_be_reached(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelFileError, match=r"http://127.0.0.1:9 cannot be reached.*\nhint: .*HF_ENDPOINT"):
        find_model("org/model")


def test_a_vocabulary_by_name_fetches_only_the_tokenizer(hub: Hub, tmp_path: Path):
    vocabulary = Vocabulary.from_huggingface("org/model@v1")
    assert vocabulary.eos_token_ids == {2} and vocabulary.token_bytes(0) == b"a"
    found = {one.name for one in (tmp_path / "hub").rglob("*") if one.is_symlink()}
    assert found == {"tokenizer.json", "tokenizer_config.json", "generation_config.json", "config.json"}
    with pytest.raises(VocabularyError, match=r"has no tokenizer.json"):
        Vocabulary.from_huggingface("org/slow")


def test_the_environment_names_the_hub(hub: Hub, tmp_path: Path):
    """As users set it: HF_ENDPOINT and HF_HUB_OFFLINE, in another process."""
    code = "from guided.files.hub import find_model; print(find_model('org/model'))"
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    out = [
        subprocess.run([sys.executable, "-c", code], env=environment | more, capture_output=True, text=True, check=True)
        for more in ({}, {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"})
    ]
    assert out[0].stdout == out[1].stdout and COMMITS["main"] in out[0].stdout
