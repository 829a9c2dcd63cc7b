"""GGUF: files from an independent writer are read back, and every broken file is a clear error."""

from __future__ import annotations

import random
import struct
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import ModelFileError, VocabularyError
from guided.files.gguf import GGML_TYPES, GgufFile
from guided.vocabulary import Vocabulary
from guided.vocabulary.spelling import byte_alphabet
from tests.vocabulary_support import fuzz, gguf_file, gguf_string, gguf_value

plain_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), plain_text)
lists = st.one_of(
    st.lists(plain_text, max_size=5),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=5),
    st.lists(st.lists(plain_text, min_size=1, max_size=3), min_size=1, max_size=3),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("gguf") / "file.gguf"


@st.composite
def tensors(draw):
    out = []
    for name in draw(st.lists(plain_text, unique=True, max_size=4)):
        kind = draw(st.sampled_from(sorted(GGML_TYPES)))
        _, block, width = GGML_TYPES[kind]
        shape = (*draw(st.lists(st.integers(0, 3), max_size=3)), block * draw(st.integers(0, 2)))
        out.append((name, shape, kind, random.Random(0).randbytes(int(np.prod(shape)) // block * width)))
    return out


@given(st.dictionaries(plain_text, st.one_of(scalars, lists), max_size=6), tensors(), st.sampled_from([8, 32, 64]))
def test_round_trip(path, metadata, entries, alignment):
    metadata["general.alignment"] = alignment
    path.write_bytes(gguf_file(metadata, entries))
    with GgufFile(path) as file:
        assert list(file.metadata) == list(metadata)
        for key, value in metadata.items():
            found = file.metadata[key]
            assert (found.tolist() if isinstance(found, np.ndarray) else found) == value
            assert type(found) in (type(value), np.ndarray)
        assert list(file.tensors) == [name for name, *_ in entries]
        for name, shape, kind, data in entries:
            info = file.tensors[name]
            assert (info.shape, info.ggml_type, info.nbytes) == (shape, kind, len(data))
            assert info.is_quantised == (GGML_TYPES[kind][1] > 1)
            assert file.tensor_bytes(name).tobytes() == data


def test_views_outlive_the_file(path):
    path.write_bytes(gguf_file({}, [("w", (2, 4), 0, bytes(range(32)))]))
    file = GgufFile(path)
    view = file.tensor_bytes("w")
    file.close()
    file.close()
    assert view.tobytes() == bytes(range(32))
    view[0] = 9  # a private mapping: the file is not changed
    assert GgufFile(path).tensor_bytes("w")[0] == 0
    with pytest.raises(ValueError, match="closed"):
        file.tensor_bytes("w")


def test_bytes_that_were_forgotten_are_read_again(path):
    """The bytes of one tensor. Its neighbours share memory pages with it."""
    parts = [("a", (5000,), 0, b"a" * 20000), ("b", (9000,), 0, bytes(range(225)) * 160), ("c", (3,), 0, b"c" * 12)]
    path.write_bytes(gguf_file({}, parts))
    with GgufFile(path) as file:
        for name, _, _, data in parts:
            view = file.tensor_bytes(name)
            assert view.tobytes() == data
            file.forget(name)
            assert [file.tensor_bytes(other).tobytes() for other, *_ in parts] == [part[3] for part in parts]
            assert view.tobytes() == data


def test_every_truncation_is_an_error(path):
    data = gguf_file({"a": "text", "b": [1, 2, 3], "c": ["x", "yz"]}, [("w", (1, 4), 0, bytes(16))])
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ModelFileError), GgufFile(path) as file:
            assert file.tensors


def header(tensors: int, pairs: int) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are too few for a header"),
        (b"GGML" + bytes(40), "begins with b'GGML'"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian GGUF is not supported"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "GGUF version 1 is not supported"),
        (header(0, 1 << 60), "the metadata needs"),
        (header(1 << 60, 0), "the tensor directory needs"),
        (header(0, 1) + struct.pack("<Q", 1 << 62) + bytes(20), "a metadata key extends beyond the end"),
        (header(0, 1) + gguf_string(b"\xff") + bytes(20), "a metadata key is not UTF-8"),
        (header(0, 1) + gguf_string("k") + struct.pack("<I", 77) + bytes(9), "unknown value type 77"),
        (header(0, 1) + gguf_string("k") + struct.pack("<IIQ", 9, 8, 1 << 61) + bytes(9), "'k' needs"),
        (header(0, 1) + gguf_string("k") + struct.pack("<IIQ", 9, 0, 1 << 61) + bytes(9), "'k' needs"),
        (
            header(0, 1) + gguf_string("k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5 + bytes(64),
            "deeper than 4",
        ),
        (header(0, 1) + gguf_string("k") + struct.pack("<IB", 7, 2) + bytes(9), "neither 0 nor 1"),
        (header(0, 2) + (gguf_string("k") + gguf_value("v")) * 2, "'k' occurs twice"),
        (gguf_file({"general.alignment": 24}, [("w", (4,), 0, bytes(16))]), "not a power of two"),
        (gguf_file({"general.alignment": "x"}), "not a power of two"),
        (gguf_file({}, [("w", (1, 1, 1, 1, 4), 0, bytes(16))]), "5 dimensions"),
        (gguf_file({}, [("w", (4,), 5, bytes(16))]), "ggml type 5"),
        (gguf_file({}, [("w", (31,), 2, bytes(18))]), "not a multiple of 32"),
        (gguf_file({}, [("w", (1 << 62, 1 << 62), 0, bytes(16))]), "'w' extends beyond the end"),
        (gguf_file({}, [("w", (4,), 0, bytes(16))] * 2), "'w' is listed twice"),
    ],
)
def test_broken_files(path, data, message):
    path.write_bytes(data if len(data) >= 24 or not data else data + bytes(24 - len(data)))
    with pytest.raises(ModelFileError, match=message), GgufFile(path) as file:
        assert file.tensors is None


def test_hostile_counts_cost_no_memory(path):
    path.write_bytes(header(0, 1) + gguf_string("k") + struct.pack("<IIQ", 9, 8, 1 << 40) + bytes(1000))
    tracemalloc.start()
    with pytest.raises(ModelFileError):
        GgufFile(path)
    assert tracemalloc.get_traced_memory()[1] < 200_000
    tracemalloc.stop()


# --- the tokenizer inside


def byte_level_file(**changes) -> bytes:
    alphabet = byte_alphabet()
    tokens = ["<|endoftext|>", "<|im_end|>", *alphabet, "Ġa", "aa", "aaa", "<think>", "[PAD1]"]
    metadata = {
        "general.architecture": "llama",
        "llama.vocab_size": len(tokens) + 3,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3] + [1] * 259 + [4, 5],
        "tokenizer.ggml.merges": ["Ġ a", "a a", "aa a"],
        "tokenizer.ggml.eos_token_id": 1,
    } | changes
    return gguf_file({key: value for key, value in metadata.items() if value is not None})


def pieces_file(**changes) -> bytes:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁a", "b", "ab"]
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * 259 + [-4.0, -5.0, -1.0, -6.0, -2.0],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * 5,
        "tokenizer.ggml.eos_token_id": 2,
    } | changes
    return gguf_file(metadata)


def test_byte_level_tokenizer(path):
    path.write_bytes(byte_level_file())
    vocab = Vocabulary.from_gguf(path)
    assert vocab.size == 266 and vocab.eos_token_ids == {0, 1}
    assert vocab.special_tokens == {0: "<|endoftext|>", 1: "<|im_end|>"}
    assert [vocab.token_bytes(n) for n in (0, 1, 2, 258, 260, 261, 262, 265)] == [
        *(None, None, b"\0", b" a", b"aaa", b"<think>", None, None),
    ]
    assert vocab.encode("aaaaa<think> a<|im_end|>")[:4] == [259, 260, 261, 258]
    assert vocab.encode_with_special("a<|im_end|>") == [2 + ord("a"), 1]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_byte_level_round_trip(path, text):
    path.write_bytes(byte_level_file())
    vocab = Vocabulary.from_gguf(path)
    assert vocab.decode(vocab.encode(text)) == text.encode()


def test_sentencepiece_tokenizer(path):
    path.write_bytes(pieces_file())
    vocab = Vocabulary.from_gguf(path)
    assert vocab.token_bytes(261) == b" a" and vocab.token_bytes(3) == b"\0" and vocab.token_bytes(2) is None
    assert vocab.encode("ab é") == [261, 262, 259, 3 + 0xC3, 3 + 0xA9]
    assert vocab.encode("ab", continued=True) == [263]
    assert vocab.decode(vocab.encode("ab\n")) == b" ab\n"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer.ggml.model": None}, "contains no tokenizer"),
        ({"tokenizer.ggml.model": "bert"}, "'bert' is not supported"),
        ({"tokenizer.ggml.model": [1, 2]}, "the tokenizer model array.* is not supported"),
        ({"tokenizer.ggml.add_space_prefix": [1, 2]}, "add_space_prefix is array.*, not a boolean"),
        ({"tokenizer.ggml.add_space_prefix": "false"}, "add_space_prefix is 'false', not a boolean"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "not a list of strings"),
        ({"tokenizer.ggml.token_type": [1]}, "not a list of 263 numbers"),
        ({"tokenizer.ggml.token_type": [9] * 263}, "not 1 to 6"),
        ({"tokenizer.ggml.token_type": [6] * 263}, "a byte token but is spelled"),
        ({"tokenizer.ggml.eos_token_id": 263}, "is 263, which is not a token"),
        ({"llama.vocab_size": 1 << 40}, "the declared vocabulary size"),
        ({"tokenizer.ggml.token_type": [1] * 263, "tokenizer.ggml.eos_token_id": None}, r"pass eos_token_ids=\[...\]"),
    ],
)
def test_tokenizers_that_are_refused(path, changes, message):
    path.write_bytes(byte_level_file(**changes))
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.from_gguf(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer.ggml.pre": "mystery"}, "'mystery' is unknown; the known ones are a.x-4.0, codeshell"),
        ({"tokenizer.ggml.merges": None}, "no merge rules"),
        ({"tokenizer.ggml.merges": ["a"]}, "merge rule 0"),
    ],
)
def test_encoders_that_are_refused(path, changes, message):
    path.write_bytes(byte_level_file(**changes))
    vocab = Vocabulary.from_gguf(path)
    with pytest.raises(VocabularyError, match=message):
        vocab.encode("a")


def read_all(path):
    with GgufFile(path) as file:
        for name in file.tensors:
            file.tensor_bytes(name)
    vocab = Vocabulary.from_gguf(path)
    for text in ("ab", " a b1\n", "é漢"):
        with suppress(VocabularyError):
            vocab.decode(vocab.encode(text))


SMALL = {
    "tokenizer.ggml.tokens": ["<|im_end|>", "a", "b", "ab", "Ġ", "Ã", "©", "1", "<think>"],
    "tokenizer.ggml.token_type": [3, 1, 1, 1, 1, 1, 1, 1, 4],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.eos_token_id": 0,
}
SEEDS = [
    byte_level_file(**SMALL),
    pieces_file(),
    gguf_file({"a": 1, "b": [1.5, 2.5], "c": [["x"]]}, [("w", (2, 32), 2, bytes(36)), ("v", (3,), 0, bytes(12))]),
]


def test_fuzz(path):
    assert min(fuzz(read_all, SEEDS, path, 1_500_000, seed=1)) > 10


@pytest.mark.slow
def test_fuzz_long(path):
    fuzz(read_all, SEEDS, path, 10_000_000, seed=2)


def test_a_broken_file_is_an_error_of_the_requested_vocabulary(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"nothing of the kind, but long enough")
    with pytest.raises(VocabularyError, match="not a GGUF file"):
        Vocabulary.from_gguf(tmp_path / "x.gguf")
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(VocabularyError, match="not a JSON file"):
        Vocabulary.from_huggingface(tmp_path)
