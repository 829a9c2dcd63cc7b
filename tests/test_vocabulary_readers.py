"""tiktoken, tekken, SentencePiece and Hugging Face: small files, broken files, fuzzed files."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from itertools import combinations, pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import VocabularyError
from guided.vocabulary import Vocabulary
from guided.vocabulary.spelling import byte_alphabet
from tests.vocabulary_support import field, fuzz, ranks_file, sentencepiece_file, tekken_file

BYTES = [bytes((byte,)) for byte in range(256)]
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("files") / "file"


# --- tiktoken


@given(any_text)
def test_tiktoken_encoding(text):
    ranks = {token: rank for rank, token in enumerate([*BYTES, b"ab", b"abc"])} | {b"bc": 300}
    encoding = SimpleNamespace(
        _mergeable_ranks=ranks, _special_tokens={"<|endoftext|>": 310}, _pat_str=r"\p{L}+|\P{L}+"
    )
    vocab = Vocabulary.from_tiktoken(encoding)
    assert vocab.size == 311 and vocab.eos_token_ids == {310} and vocab.special_tokens == {310: "<|endoftext|>"}
    assert vocab.token_bytes(299) is None and vocab.token_bytes(300) == b"bc" and len(vocab.tokens) == 301
    assert vocab.decode(vocab.encode(text)) == text.encode()
    assert vocab.encode("abcab1bc") == [257, 256, ord("1"), 300]


def test_ranks_file(path):
    path.write_bytes(ranks_file([*BYTES, b"ab"]))
    for special in ({300: "<x>"}, {"<x>": 300}):
        vocab = Vocabulary.from_tiktoken(path, eos_token_ids=[300], special_tokens=special, pattern="llama3", size=512)
        assert vocab.size == 512 and vocab.special_tokens == {300: "<x>"} and vocab.encode("abab") == [256, 256]
    with pytest.raises(VocabularyError, match=r"pass eos_token_ids=\[...\]"):
        Vocabulary.from_tiktoken(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "lists no tokens"),
        (b"YQ== 0\nYg==\n", r"line 2: b'Yg==' is not a base64 token and its rank"),
        (b"YQ== 0\n\nYg==\n", "line 3"),
        (b"Y 0\n", "line 1"),
        (b"YQ== x\n", "line 1: .* invalid rank b'x'"),
        (b"YQ== -1\n", "invalid rank b'-1'"),
        (b"YQ== 99999999\n", "has the rank 99999999, but there are 1 tokens"),
        (b"YQ== 0\nYQ== 1\n", "listed twice"),
        (b"YQ== 0\nYg== 0\n", "two tokens have the same rank"),
    ],
)
def test_broken_ranks_files(path, data, message):
    path.write_bytes(data)
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.from_tiktoken(path, eos_token_ids=[5])


def test_empty_lines_of_ranks_files_are_skipped(path):
    """As tiktoken does."""
    path.write_bytes(b"YQ== 0\n\nYg== 1\n\n")
    assert Vocabulary.from_tiktoken(path, eos_token_ids=[2]).tokens[:2] == (b"a", b"b")


def test_a_name_that_is_too_long_for_a_file_does_not_exist():
    with pytest.raises(VocabularyError, match="does not exist"):
        Vocabulary.from_huggingface("x" * 300)


def test_not_an_encoding():
    with pytest.raises(VocabularyError, match="not dict"):
        Vocabulary.from_tiktoken({})


# --- tekken


def test_tekken(path):
    path.write_bytes(tekken_file([*BYTES, b"ab", b" a"]))
    vocab = Vocabulary.from_tekken(path)
    assert vocab.size == 278 and vocab.eos_token_ids == {2} and vocab.special_tokens[3] == "[INST]"
    assert vocab.token_bytes(20) == b"\0" and vocab.token_bytes(19) is None
    assert vocab.encode("ab é") == [276, 20 + 0x20, 20 + 0xC3, 20 + 0xA9]


def test_tekken_lists_more_than_it_uses(path):
    data = json.loads(tekken_file([*BYTES, b"ab", b"abc"]))
    data["config"]["default_vocab_size"] -= 1
    data["special_tokens"] = [{"rank": 2, "token_str": "</s>", "is_control": True}]
    path.write_text(json.dumps(data))
    vocab = Vocabulary.from_tekken(path)
    assert (
        vocab.size == 277 and vocab.encode("abc") == [276, 20 + ord("c")] and vocab.special_tokens[7] == "<SPECIAL_7>"
    )


def tekken_with(**changes) -> bytes:
    data = json.loads(tekken_file(BYTES))
    for key, value in changes.items():
        (data["config"] if key in data["config"] else data)[key] = value
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not a JSON file"),
        (b"[" * 100_000, "not a JSON file"),
        (b"[]", "not a tekken file"),
        (b"{}", "KeyError 'config'"),
        (tekken_with(default_vocab_size="x"), "the sizes 'x' and 20"),
        (tekken_with(default_vocab_size=1 << 60), "the sizes"),
        (tekken_with(default_vocab_size=300), "declares 280 tokens"),
        (tekken_with(version="v99"), "version 'v99' must list its special tokens"),
        (tekken_with(pattern=3), "invalid pattern 3"),
        (tekken_with(vocab=[{"rank": 0, "token_bytes": "YQ=="}] * 300), "same rank"),
        (tekken_with(vocab=[{"rank": -1, "token_bytes": "YQ=="}] * 300), "invalid rank -1"),
        (tekken_with(vocab=[{"rank": 0, "token_bytes": "?"}] * 300), "not a valid tekken file"),
        (tekken_with(special_tokens=[{"rank": 99, "token_str": "x"}]), "has the rank 99"),
    ],
)
def test_broken_tekken_files(path, data, message):
    path.write_bytes(data)
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.from_tekken(path)


def test_an_invalid_pattern(path):
    path.write_bytes(tekken_with(pattern=r"\p{Han"))
    vocab = Vocabulary.from_tekken(path)
    with pytest.raises(VocabularyError, match="tiktoken cannot read this tokenizer"):
        vocab.encode("a")


# --- SentencePiece

HEAD = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
BYTE_PIECES = [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]


def test_sentencepiece(path):
    pieces = [
        *HEAD,
        *BYTE_PIECES,
        ("▁", -3.0, 1),
        ("a", -2.0, 1),
        ("▁a", -1.0, 1),
        ("old", 0.0, 5),
        ("<xy>", 0.0, 4),
        ("\n", -1.0, 1),
    ]
    path.write_bytes(sentencepiece_file(pieces, dummy_prefix=True))
    vocab = Vocabulary.from_sentencepiece(path)
    assert vocab.eos_token_ids == {2} and vocab.special_tokens == {0: "<unk>", 1: "<s>", 2: "</s>"}
    assert [vocab.token_bytes(n) for n in (2, 3, 13, 259, 261, 262, 263, 264)] == [
        *(None, b"\0", b"\n", b" ", b" a", None, b"<xy>", b"\n"),
    ]
    assert vocab.encode("a<xy>aé") == [261, 263, 260, 3 + 0xC3, 3 + 0xA9]
    assert vocab.encode("a", continued=True) == [260] and vocab.encode("") == []


pieces_of_ab = st.dictionaries(st.text("ab▁", min_size=1, max_size=4), st.floats(-9, 0, width=32), max_size=10)


@given(pieces_of_ab, st.text("ab ", max_size=7))
def test_unigram_takes_the_best_sum(path, pieces, text):
    pieces = {"a": -20.0, "b": -20.0, "▁": -20.0} | pieces
    path.write_bytes(sentencepiece_file([*HEAD, *((piece, score, 1) for piece, score in pieces.items())], algorithm=1))
    vocab = Vocabulary.from_sentencepiece(path)
    ids = vocab.encode(text)
    assert vocab.decode(ids) == text.encode()
    scores = dict(zip(range(3, 99), pieces.values(), strict=False))
    normal = text.replace(" ", "▁")
    sums = []
    for count in range(len(normal)):
        for cuts in combinations(range(1, len(normal)), count):
            parts = [normal[low:high] for low, high in zip((0, *cuts), (*cuts, len(normal)), strict=True)]
            if all(part in pieces for part in parts):
                sums.append(sum(pieces[part] for part in parts))
    assert sum(scores[number] for number in ids) == pytest.approx(max(sums, default=0.0), rel=1e-5)


@given(pieces_of_ab, st.text("ab ", max_size=16))
def test_bpe_joins_the_best_pair(path, pieces, text):
    pieces = {"a": -20.0, "b": -20.0, "▁": -20.0} | pieces
    path.write_bytes(sentencepiece_file([*HEAD, *((piece, score, 1) for piece, score in pieces.items())]))
    symbols = list(text.replace(" ", "▁"))
    while ranked := [(-pieces[a + b], k) for k, (a, b) in enumerate(pairwise(symbols)) if a + b in pieces]:
        place = min(ranked)[1]
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
    order = list(pieces)
    assert Vocabulary.from_sentencepiece(path).encode(text) == [3 + order.index(symbol) for symbol in symbols]


def test_no_unknown_token_is_given(path):
    path.write_bytes(sentencepiece_file([*HEAD, ("a", -1.0, 1)]))
    for algorithm in (1, 2, 3, 4):
        path.write_bytes(sentencepiece_file([*HEAD, ("a", -1.0, 1)], algorithm=algorithm))
        with pytest.raises(VocabularyError, match="no token of this vocabulary spells"):
            Vocabulary.from_sentencepiece(path).encode("aé")


def test_the_end_token_matches_the_model(path):
    path.write_bytes(sentencepiece_file([*HEAD, ("a", -1.0, 1)], trainer=field(42, 1)))
    assert Vocabulary.from_sentencepiece(path).eos_token_ids == {1}
    path.write_bytes(sentencepiece_file([*HEAD, ("a", -1.0, 1)], trainer=field(42, 3)))
    with pytest.raises(VocabularyError, match="pass eos_token_ids"):
        Vocabulary.from_sentencepiece(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "there are no pieces"),
        (b"\xff" * 20, "is cut off"),
        (field(1, b"\x0a\x7fab"), "extends beyond its message"),
        (sentencepiece_file([("a", 0.0, 1)]), "no piece has the type unknown"),
        (sentencepiece_file([*HEAD, ("a", 0.0, 7)]), "no valid score and type"),
        (sentencepiece_file([*HEAD, ("a", float("nan"), 1)]), "no valid score and type"),
        (sentencepiece_file([*HEAD, ("ab", 0.0, 6)]), "a byte piece but is spelled 'ab'"),
        (sentencepiece_file(HEAD, algorithm=9), "model type 9"),
        (field(1, 5), "stored as a number"),
        (field(1, field(1, b"\xff")), "utf-8"),
        (b"\x0b", "wire type 3"),
    ],
)
def test_broken_models(path, data, message):
    path.write_bytes(data)
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.from_sentencepiece(path)


@pytest.mark.parametrize("charsmap", [b"abc", b"\x08\0\0\0abcd", b"\x03\0\0\0abcdefgh", b"\0\0\0\0abcdefgh"])
def test_broken_charsmap(path, charsmap):
    path.write_bytes(sentencepiece_file([*HEAD, ("a", 0.0, 1)], charsmap=charsmap))
    with pytest.raises(VocabularyError, match="sentencepiece cannot read this model"):
        Vocabulary.from_sentencepiece(path).encode("a")


# --- Hugging Face


def added(number: int, content: str, **flags: bool) -> dict:
    names = ("special", "normalized", "single_word", "lstrip", "rstrip")
    return {"id": number, "content": content} | dict.fromkeys(names, False) | flags


def byte_level_json(**changes) -> dict:
    alphabet = byte_alphabet()
    vocab = {char: byte for byte, char in enumerate(alphabet)} | {"Ġa": 256, "ab": 257, "<|im_end|>": 258}
    model = {"type": "BPE", "vocab": vocab, "merges": ["Ġ a", ["a", "b"]], "unk_token": None}
    return {
        "added_tokens": [added(258, "<|im_end|>", special=True, lstrip=True), added(259, "<think>")],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            ],
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": model | changes.pop("model", {}),
    } | changes


def pieces_json(**changes) -> dict:
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁a"]
    names = [added(k, pieces[k], special=True) for k in range(3)]
    vocab = {piece: number for number, piece in enumerate(pieces)}
    model = {"type": "BPE", "vocab": vocab, "merges": ["▁ a"], "unk_token": "<unk>", "byte_fallback": True}
    return {
        "added_tokens": names,
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": model | changes.pop("model", {}),
    } | changes


def from_json(path, data) -> Vocabulary:
    path.write_text(json.dumps(data))
    return Vocabulary.from_huggingface(path)


def test_byte_level_json(path):
    vocab = from_json(path, byte_level_json())
    assert vocab.size == 260 and vocab.eos_token_ids == {258} and vocab.special_tokens == {258: "<|im_end|>"}
    assert vocab.token_bytes(256) == b" a" and vocab.token_bytes(259) == b"<think>" and vocab.token_bytes(258) is None
    assert vocab.encode_with_special("a  <|im_end|> a") == [ord("a"), 258, 256]  # it strips the space on its left
    assert vocab.decode(vocab.encode("a  <|im_end|> a")) == b"a  <|im_end|> a"
    assert vocab.encode("ab a12<think>e\u0301") == [257, 256, ord("1"), ord("2"), 259, 0xC3, 0xA9]
    backend = SimpleNamespace(to_str=lambda: json.dumps(byte_level_json()))
    assert Vocabulary.from_huggingface(SimpleNamespace(backend_tokenizer=backend, eos_token_id=5)).eos_token_ids == {5}
    assert Vocabulary.from_huggingface(backend).tokens == vocab.tokens


def test_pieces_json(path):
    vocab = from_json(path, pieces_json())
    assert vocab.eos_token_ids == {2} and vocab.token_bytes(261) == b" a" and vocab.token_bytes(3) == b"\0"
    assert vocab.encode("a a\n") == [261, 261, 13] and vocab.encode("a", continued=True) == [260]
    marks = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    vocab = from_json(path, pieces_json(normalizer=None, pre_tokenizer=marks, decoder=marks))
    assert vocab.encode("a a") == [261, 261] and vocab.encode("a", continued=True) == [260]


def test_end_tokens_in_addition_to_the_file(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(byte_level_json()))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 8]}')
    assert Vocabulary.from_huggingface(tmp_path).eos_token_ids == {7, 8}
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": {"content": "<|im_end|>"}}')
    assert Vocabulary.from_huggingface(tmp_path).eos_token_ids == {7, 8, 258}
    (tmp_path / "config.json").write_text('{"eos_token_id": 9}')
    assert Vocabulary.from_huggingface(tmp_path).eos_token_ids == {7, 8, 258}
    (tmp_path / "generation_config.json").unlink()
    assert Vocabulary.from_huggingface(tmp_path).eos_token_ids == {9, 258}
    (tmp_path / "config.json").write_text('{"eos_token_id": [9, true]}')
    with pytest.raises(VocabularyError, match=r"eos_token_id of .*config\.json are a collection of integers"):
        Vocabulary.from_huggingface(tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "not a tokenizer.json"),
        ({}, "KeyError 'model'"),
        (byte_level_json(model={"type": "WordPiece"}), "models of type WordPiece are not supported"),
        (byte_level_json(model={"type": "WordLevel"}), "models of type WordLevel are not supported"),
        (byte_level_json(model={"end_of_word_suffix": "</w>"}), "end_of_word_suffix is '</w>'"),
        (byte_level_json(model={"vocab": {"a": -1}}), "an id is not a number"),
        (byte_level_json(model={"vocab": {"a": 1 << 40}}), "has the id 1099511627776"),
        (byte_level_json(decoder=None), "cannot be determined from its decoders"),
        (byte_level_json(decoder={"type": "WordPiece"}), r"from its decoders \(WordPiece\)"),
        (pieces_json(decoder={"type": "Replace", "pattern": {"Regex": "x"}, "content": ""}), "its decoder replaces"),
    ],
)
def test_tokenizers_that_are_refused(path, data, message):
    with pytest.raises(VocabularyError, match=message):
        from_json(path, data)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"dropout": 0.1}}, "dropped at random"),
        ({"model": {"merges": 3}}, "cannot be read"),
        ({"model": {"merges": ["a"]}}, "merge rule 0 is 'a': two symbols are needed"),
        ({"model": {"merges": ["a a"]}}, "merge rule 0 needs the token 'aa', which does not exist"),
        ({"added_tokens": [added(300, "xyz")]}, "'xyz' has the id 300, but tokenizers gives it 259"),
        ({"normalizer": {"type": "Mystery"}}, "the package tokenizers cannot read this tokenizer"),
        ({"normalizer": {"type": "Sequence", "normalizers": [None]}}, "the package tokenizers cannot read"),
    ],
)
def test_encoders_that_are_refused(path, changes, message):
    path.write_text(json.dumps(byte_level_json(**changes)))
    vocab = Vocabulary.from_huggingface(path, eos_token_ids=[258])
    with pytest.raises(VocabularyError, match=message):
        vocab.encode("a")


def test_steps_are_done_as_the_package_does_them(path):
    vocab = from_json(path, byte_level_json(normalizer={"type": "Lowercase"}))
    assert vocab.encode("A") == [ord("a")]
    cut = {"type": "Split", "pattern": {"String": "-"}, "behavior": "Removed", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    vocab = from_json(path, byte_level_json(pre_tokenizer={"type": "Sequence", "pretokenizers": [cut, byte_level]}))
    assert vocab.encode("a-b") == [ord("a"), ord("b")]


def test_not_a_tokenizer():
    with pytest.raises(VocabularyError, match="use from_sentencepiece"):
        Vocabulary.from_huggingface(object())


# --- fuzzing


def encoded(read):
    def run(path):
        vocab = read(path, eos_token_ids=[1])
        for text in ("ab", " a b1\n", "é漢"):
            with suppress(VocabularyError):
                vocab.decode(vocab.encode(text))

    return run


SOME = [b"a", b"b", b" ", b"ab", b"\xc3", b"\xa9"]
PIECES = [*HEAD, *BYTE_PIECES[:9], ("▁", -2.0, 1), ("a", -2.5, 1), ("b", -3.0, 4), ("ab", -1.0, 5)]
MODELS = [sentencepiece_file(PIECES, algorithm=k, dummy_prefix=True, collapse=k % 2 == 0) for k in (1, 2, 3, 4)]
MAPPED = sentencepiece_file([*HEAD, ("a", -1.0, 1)], charsmap=b"\x10\0\0\0" + random.Random(0).randbytes(40))
SMALL_JSON = [
    byte_level_json(model={"vocab": {"a": 0, "b": 1, "ab": 2}}),
    pieces_json(model={"vocab": {"<unk>": 0, "a": 1, "▁": 2}}),
]
READERS = {
    "tiktoken": (Vocabulary.from_tiktoken, [ranks_file([*BYTES[:40], *SOME[3:]]), ranks_file(SOME)]),
    "tekken": (Vocabulary.from_tekken, [tekken_file(SOME, specials=3), tekken_file(BYTES[:20])]),
    "sentencepiece": (Vocabulary.from_sentencepiece, [*MODELS, MAPPED]),
    "huggingface": (Vocabulary.from_huggingface, [json.dumps(data).encode() for data in SMALL_JSON]),
}


@pytest.mark.parametrize("name", READERS)
def test_fuzz(path, name):
    read, seeds = READERS[name]
    accepted, refused = fuzz(encoded(read), seeds, path, 300_000, seed=3)
    assert accepted > 10 and refused > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_fuzz_long(path, name):
    read, seeds = READERS[name]
    fuzz(encoded(read), seeds, path, 10_000_000, seed=4)
