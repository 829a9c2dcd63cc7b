"""Packed weights that are stored beside a model: mapped they are the same model, and anything odd is made anew."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from guided.files.dequantise import Grouped
from guided.files.gguf import GgufFile
from guided.models import packed
from guided.models.gguf_loader import load_gguf
from guided.models.int4 import LAYOUT, Int4Matrix
from guided.models.llama import Llama
from tests.engine_support import Reader
from tests.test_models_gguf import CONFIG, Q8_0, metadata_of, tensors_of, write_gguf

CPU = torch.device("cpu")


@pytest.fixture
def model_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model file of matrices in 8 bits, in the cache directory; as small as it is, its weights are stored."""
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(packed, "_LEAST_SIZE", 0)
    (tmp_path / "cache").mkdir()
    path = tmp_path / "cache" / "model.gguf"
    model = Llama.random(CONFIG, seed=5)
    write_gguf(path, metadata_of(CONFIG), tensors_of(model, Q8_0))
    return path


def load(path: Path, dtype: torch.dtype = torch.bfloat16) -> Llama:
    with GgufFile(path) as file:
        model = load_gguf(file, dtype=dtype, device=CPU)
    assert isinstance(model, Llama)
    return model


def logits(model: Llama) -> torch.Tensor:
    return Reader(model, 8).forward([3, 1, 4, 1, 5, 9, 2, 6], 8)


def stored(path: Path) -> Path:
    return path.with_name(f"{path.name}.packed")


def test_mapped_weights_are_the_same_model_bit_for_bit(model_file: Path):
    fresh = load(model_file)
    assert isinstance(fresh.layers[0].qkv, Int4Matrix)
    mapped = load(model_file)
    assert mapped is not fresh and mapped.config == fresh.config
    for (name, one), (other, two) in zip(packed._weights(fresh), packed._weights(mapped), strict=True):
        assert (name, packed._form(one)) == (other, packed._form(two))
        assert np.array_equal(packed._bytes(one), packed._bytes(two)), name
    assert torch.equal(logits(fresh), logits(mapped))


def test_the_second_load_reads_no_tensor(model_file: Path, monkeypatch: pytest.MonkeyPatch):
    load(model_file)
    monkeypatch.setattr(GgufFile, "tensor_bytes", lambda *_: pytest.fail("a tensor was read"))
    load(model_file)


def test_writing_to_the_model_does_not_reach_the_file(model_file: Path):
    load(model_file)
    before = stored(model_file).read_bytes()
    load(model_file).embedding.zero_()
    assert stored(model_file).read_bytes() == before


def edited(data: bytes, edit: str) -> bytes:
    """A stored file in which something is wrong."""
    (length,) = struct.unpack("<Q", data[16:24])
    header = json.loads(data[24 : 24 + length])
    match edit:
        case "magic":
            return b"guided-packed-0\n" + data[16:]
        case "length":
            return data[:16] + struct.pack("<Q", 1 << 62) + data[24:]
        case "json":
            return data[:24] + b"[" * length + data[24 + length :]
        case "weight":
            return data[:-70] + bytes([data[-70] ^ 1]) + data[-69:]
        case "shorter":
            return data[:-64]
        case "longer":
            return data + bytes(64)
        case "empty":
            return b""
        case "head only":
            return data[:20]
        case "shape":
            header["weights"][0][1][0] += 1
        case "negative shape":
            header["weights"][0][1] = [-1, -32]
        case "planes":
            header["weights"][0][2] = 2
        case "name":
            header["weights"][0][0] = "other"
        case "twice":
            header["weights"].append(header["weights"][0])
        case "layout":
            header["source"]["layout"] += 1
        case "not an object":
            header = [header]
        case "digest":
            header["digest"] = "0" * 32
    text = json.dumps(header).encode()
    head = data[:16] + struct.pack("<Q", len(text)) + text
    begin = -(-(24 + length) // 64) * 64
    return head.ljust(-(-len(head) // 64) * 64, b"\0") + data[begin:]


EDITS = [
    "magic", "length", "json", "weight", "shorter", "longer", "empty", "head only", "shape", "negative shape", "planes",
    "name", "twice", "layout", "not an object", "digest",
]  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_a_file_with_an_error_is_ignored_and_written_anew(model_file: Path, edit: str):
    expected = logits(load(model_file))
    good = stored(model_file).read_bytes()
    stored(model_file).write_bytes(edited(good, edit))
    with GgufFile(model_file) as file:
        mine = packed.PackedFile.of(file)
        assert mine is not None and mine.load(CONFIG) is None
    assert torch.equal(logits(load(model_file)), expected)
    assert stored(model_file).read_bytes() == good


def test_an_edit_that_changes_nothing_is_accepted(model_file: Path):
    """The other edits are refused for what they change, not for how this test writes them."""
    load(model_file)
    stored(model_file).write_bytes(edited(stored(model_file).read_bytes(), "nothing"))
    with GgufFile(model_file) as file:
        mine = packed.PackedFile.of(file)
        assert mine is not None and mine.load(CONFIG) is not None


@pytest.mark.parametrize("change", ["weights", "time", "metadata"])
def test_another_model_file_makes_the_stored_weights_stale(model_file: Path, change: str):
    load(model_file)
    times = os.stat(model_file)
    if change == "weights":
        write_gguf(model_file, metadata_of(CONFIG), tensors_of(Llama.random(CONFIG, seed=6), Q8_0))
    elif change == "metadata":
        metadata = metadata_of(CONFIG) | {"llama.rope.freq_base": 20000.0}
        write_gguf(model_file, metadata, tensors_of(Llama.random(CONFIG, seed=5), Q8_0))
    seconds = 5 if change == "time" else 0
    os.utime(model_file, ns=(times.st_atime_ns, times.st_mtime_ns + seconds * 10**9))
    with GgufFile(model_file) as file:
        mine = packed.PackedFile.of(file)
        assert mine is not None and mine.load(CONFIG) is None
    again = load(model_file)
    shutil.rmtree(model_file.parent / "packed", ignore_errors=True)
    stored(model_file).unlink()
    assert torch.equal(logits(load(model_file)), logits(again))


def test_other_code_makes_the_stored_weights_stale(model_file: Path, monkeypatch: pytest.MonkeyPatch):
    load(model_file)
    monkeypatch.setattr(packed, "_code", lambda: "other")
    with GgufFile(model_file) as file:
        mine = packed.PackedFile.of(file)
        assert mine is not None and mine.load(CONFIG) is None


def test_without_a_home_directory_nothing_is_stored(model_file: Path, monkeypatch: pytest.MonkeyPatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(packed, "cache_directory", homeless)
    load(model_file)
    assert os.listdir(model_file.parent) == ["model.gguf"]


def test_files_elsewhere_are_stored_in_the_cache(model_file: Path, tmp_path: Path):
    other = tmp_path / "mine" / "model.gguf"
    other.parent.mkdir()
    shutil.copy(model_file, other)
    load(other)
    assert os.listdir(other.parent) == ["model.gguf"]
    assert len(os.listdir(tmp_path / "cache" / "packed")) == 1
    third = tmp_path / "model.gguf"
    shutil.copy(model_file, third)
    load(third)
    assert len(os.listdir(tmp_path / "cache" / "packed")) == 2


def test_files_of_other_directories_are_stored_up_to_a_number(model_file: Path, tmp_path: Path):
    folder = tmp_path / "cache" / "packed"
    for number in range(packed._KEPT + 2):
        other = tmp_path / f"model{number}.gguf"
        shutil.copy(model_file, other)
        load(other)
        for path in folder.glob(f"model{number}-*"):
            os.utime(path, (1000 + number, 1000 + number))
        if number == 3:
            load(tmp_path / "model0.gguf")  # used again
    kept = {path.name.partition("-")[0] for path in folder.iterdir()}
    assert len(kept) == packed._KEPT and "model0" in kept and "model1" not in kept and f"model{number}" in kept


def test_what_was_left_half_written_is_removed(model_file: Path):
    old, new = (model_file.parent / f".packed-{name}" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    load(model_file)
    assert not old.exists() and new.exists() and stored(model_file).exists()


def test_a_stored_file_has_the_rights_of_the_users_files(model_file: Path):
    before = os.umask(0o027)
    try:
        load(model_file)
    finally:
        os.umask(before)
    assert stored(model_file).stat().st_mode & 0o777 == 0o640


def test_where_nothing_can_be_written_the_model_works(model_file: Path, tmp_path: Path, monkeypatch):
    (tmp_path / "file").touch()
    other = tmp_path / "model.gguf"
    shutil.copy(model_file, other)
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "file" / "cache"))
    assert torch.equal(logits(load(other)), logits(load(other)))


def test_a_disk_that_is_nearly_full_is_left_alone(model_file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**6, 10**6, 1000))
    load(model_file)
    assert os.listdir(model_file.parent) == ["model.gguf"]


def test_a_write_that_fails_leaves_nothing(model_file: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packed.PackedFile, "_write", full)
    load(model_file)
    assert os.listdir(model_file.parent) == ["model.gguf"]


def test_small_files_and_float32_are_not_stored(model_file: Path, monkeypatch: pytest.MonkeyPatch):
    load(model_file, torch.float32)
    monkeypatch.setattr(packed, "_LEAST_SIZE", 8 << 20)
    load(model_file)
    assert os.listdir(model_file.parent) == ["model.gguf"]


def test_another_layout_needs_another_number():
    """Stored weights name the layout by `LAYOUT`: whoever changes the layout must count it up, and this digest too."""
    digests = []
    for bits in (4, 5, 8):
        numbers = (np.arange(32 * 64) * 7919 % 251 % (1 << bits)).astype(np.uint8).reshape(32, 64)
        scale = (np.arange(64) * 37 % 101 / 64).astype(np.float32).reshape(32, 2)
        matrix = Int4Matrix.of([Grouped(numbers, scale, None, bits)])
        assert matrix.weights.numel() == Int4Matrix.size((32, 64), matrix.planes)
        digests.append(hashlib.sha256(matrix.weights.numpy().tobytes()).hexdigest()[:16])
    assert (LAYOUT, digests) == (1, ["307b53f3f722ce95", "4782a101b3c7033c", "301a72eb4349f044"])
