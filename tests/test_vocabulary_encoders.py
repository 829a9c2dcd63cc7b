"""Text to token ids: the packages' results compared with slow and simple definitions, and additions to them."""

from __future__ import annotations

import base64
import random
import re
import sys
import threading
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import VocabularyError
from guided.vocabulary import Vocabulary
from guided.vocabulary.encoders import (
    make_byte_level_encoder,
    make_huggingface_encoder,
    make_ranks_encoder,
    make_sentencepiece_encoder,
)
from guided.vocabulary.pretokenizers import PATTERNS
from guided.vocabulary.sentencepiece import model_proto
from guided.vocabulary.spelling import byte_alphabet, byte_piece, from_byte_alphabet
from guided.vocabulary.text_growth import compute_growth

ALPHABET = byte_alphabet()
BYTES = {char: byte for byte, char in enumerate(ALPHABET)}
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def test_byte_alphabet():
    assert len(set(ALPHABET)) == 256 and ALPHABET[0x20] == "Ġ" and ALPHABET[0x0A] == "Ċ" and ALPHABET[0x41] == "A"
    assert all(from_byte_alphabet(ALPHABET[byte]) == bytes((byte,)) for byte in range(256))
    assert from_byte_alphabet("a b") is None and from_byte_alphabet("漢") is None and from_byte_alphabet("") == b""
    assert byte_piece("<0x0A>") == 10 and byte_piece("<0x0>") is None and byte_piece("<0xZZ>") is None


# --- byte pairs


def merged(symbols, rank) -> list:
    """Joins the leftmost pair of lowest rank, found by checking all pairs, until no pair has a rank."""
    symbols = list(symbols)
    while ranked := [(rank(a, b), k) for k, (a, b) in enumerate(pairwise(symbols)) if rank(a, b) is not None]:
        position = min(ranked)[1]
        symbols[position : position + 2] = [symbols[position] + symbols[position + 1]]
    return symbols


@st.composite
def merge_rules(draw):
    """Merge rules over a, b and the space. Each side is a letter or the result of an earlier rule."""
    symbols, rules = ["a", "b", "Ġ"], []
    for _ in range(draw(st.integers(0, 8))):
        rule = draw(st.sampled_from(symbols)), draw(st.sampled_from(symbols))
        if rule not in rules:
            rules.append(rule)
        if "".join(rule) not in symbols:
            symbols.append("".join(rule))
    return rules, symbols[3:]


def chunks(text: str) -> list[str]:
    """The pre-tokenizer of GPT-2 on letters and spaces."""
    return re.findall(r" ?[ab]+|\s+(?!\S)|\s+", text)


@given(merge_rules(), st.text("ab ", max_size=20), st.booleans())
def test_merges(rules_and_symbols, text, ignores_merges):
    rules, symbols = rules_and_symbols
    vocab = BYTES | {symbol: 256 + k for k, symbol in enumerate(symbols)}
    encoder = make_byte_level_encoder(
        vocab,
        [" ".join(rule) for rule in rules],
        patterns=PATTERNS["gpt2"],
        ignores_merges=ignores_merges,
        added_tokens={},
        prefix_space=False,
    )
    expected = []
    for chunk in chunks(text):
        spelled = chunk.replace(" ", "Ġ")
        ranks = {rule: rank for rank, rule in enumerate(rules)}
        whole = ignores_merges and spelled in vocab
        parts = [spelled] if whole else merged(spelled, lambda a, b, ranks=ranks: ranks.get((a, b)))
        expected += [vocab[part] for part in parts]
    assert encoder.encode(text) == encoder.encode(text, continued=True) == expected


@given(st.sets(st.text("ab ", min_size=2, max_size=5), max_size=10), st.text("ab ", max_size=20), st.integers(0, 9))
def test_ranks(tokens, text, offset):
    ranks = {bytes((byte,)): byte for byte in range(256)}
    ranks |= {token.encode(): 300 + k for k, token in enumerate(sorted(tokens))}
    cut = make_ranks_encoder(ranks, PATTERNS["gpt2"][0], offset=offset)
    uncut = make_ranks_encoder(ranks, None, offset=offset)

    def expected(chunk: str) -> list[int]:
        data = chunk.encode()
        if data in ranks:
            return [ranks[data] + offset]
        singles = [data[k : k + 1] for k in range(len(data))]
        return [ranks[token] + offset for token in merged(singles, lambda a, b: ranks.get(a + b))]

    assert cut.encode(text) == [number for chunk in chunks(text) for number in expected(chunk)]
    assert uncut.encode(text) == (expected(text) if text else [])


@pytest.mark.parametrize("name", PATTERNS)
@given(text=ANY_TEXT)
def test_no_pattern_loses_text(name, text):
    options = {"ignores_merges": False, "added_tokens": {}, "prefix_space": False}
    encoder = make_byte_level_encoder(BYTES, [], patterns=PATTERNS[name], **options)
    assert bytes(encoder.encode(text)) == text.encode()
    if len(PATTERNS[name]) == 1:
        ranks = {bytes((byte,)): byte for byte in range(256)}
        assert bytes(make_ranks_encoder(ranks, PATTERNS[name][0]).encode(text)) == text.encode()


def test_tiktoken_refuses_a_pattern_of_two_steps(tmp_path):
    (tmp_path / "ranks").write_text("YQ== 0\n")
    with pytest.raises(VocabularyError, match="'smollm' splits in 2 steps"):
        Vocabulary.from_tiktoken(tmp_path / "ranks", eos_token_ids=[1], pattern="smollm")


def test_added_tokens_and_a_space_before_the_text():
    options = {"patterns": PATTERNS["gpt2"], "ignores_merges": False, "added_tokens": {"<x>": 300, "<x>y": 301}}
    encoder = make_byte_level_encoder(BYTES, [], prefix_space=True, **options)
    assert encoder.encode("a<x>y<x>") == [32, 97, 301, 300] and encoder.encode("") == []
    assert encoder.encode(" a") == [32, 97] and encoder.encode("a", continued=True) == [97]


# --- text that continues other text

STEPS = {
    "Prepend": {"normalizer": {"type": "Prepend", "prepend": "▁"}},
    "Sequence": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}]}},
    "Metaspace": {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}},
    "ByteLevel": {
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    },
}


@pytest.mark.parametrize("name", STEPS)
def test_continued_text_gets_no_space(name):
    vocab = {"a": 0, "▁": 1, "Ġ": 2, "b": 3, "ab": 4}
    model = {"type": "BPE", "vocab": vocab, "merges": ["a b"], "byte_fallback": False}
    data = {"version": "1.0", "model": model, "added_tokens": []} | STEPS[name]
    encoder = make_huggingface_encoder(data)
    space = 2 if name == "ByteLevel" else 1
    assert encoder.encode("ab") == [space, 4] and encoder.encode("ab", continued=True) == [4]


def test_continued_sentencepiece_keeps_every_space():
    pieces = ["<unk>", "▁", "a", "▁a"]
    proto = model_proto(pieces, [0.0, -3.0, -2.0, -1.0], [2, 1, 1, 1], dummy_prefix=True, collapse=True)
    encoder = make_sentencepiece_encoder(proto, len(pieces))
    assert encoder.encode("  a  a ") == [3, 3] and encoder.encode("a") == [3]
    assert encoder.encode("  a  a ", continued=True) == [1, 3, 1, 3, 1] and encoder.encode("a", continued=True) == [2]


# --- text that no token spells


def unigram(unknown: int | None) -> dict:
    model = {"type": "Unigram", "vocab": [["<unk>", 0.0], ["a", -1.0]], "unk_id": unknown, "byte_fallback": False}
    return {"version": "1.0", "model": model, "added_tokens": []}


NO_SECOND_LETTER = {
    "merges": lambda: make_byte_level_encoder(
        {"a": 0, " ": 1}, [], patterns=(), ignores_merges=False, added_tokens={}, prefix_space=False
    ),
    "ranks": lambda: make_ranks_encoder({b"a": 0, b" ": 1}, None),
    "unigram": lambda: make_huggingface_encoder(unigram(0)),
    "unigram without an unknown token": lambda: make_huggingface_encoder(unigram(None)),
    "bpe": lambda: make_huggingface_encoder(
        {"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0, "<unk>": 1}, "merges": [], "unk_token": "<unk>"}}
    ),
    "sentencepiece": lambda: make_sentencepiece_encoder(
        model_proto(["<unk>", "a"], [0.0, -1.0], [2, 1], dummy_prefix=False, collapse=False), 2
    ),
    "sentencepiece without an unknown piece": lambda: make_sentencepiece_encoder(
        model_proto(["a", "<0x01>"], [-1.0, 0.0], [1, 6], dummy_prefix=False, collapse=False), 2
    ),
}


@pytest.mark.parametrize("name", NO_SECOND_LETTER)
def test_characters_without_a_token_are_named(name):
    encoder = NO_SECOND_LETTER[name]()
    assert len(encoder.encode("aa")) == 2
    with pytest.raises(VocabularyError, match=r"no token of this vocabulary spells 'é' \(0xC3 0xA9\) of 'aé'"):
        encoder.encode("aéa"[:2])


def test_names_of_special_tokens_are_text_by_default():
    names = [{"id": 97, "content": "a", "special": True}, {"id": 256, "content": "<|x|>", "special": True}]
    flags = dict.fromkeys(("normalized", "single_word", "lstrip", "rstrip"), False)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    data = {
        "version": "1.0",
        "model": {"type": "BPE", "vocab": BYTES, "merges": []},
        "pre_tokenizer": byte_level,
        "added_tokens": [entry | flags for entry in names],
    }
    assert bytes(make_huggingface_encoder(data).encode("b<|x|>")) == b"b<|x|>"
    assert make_huggingface_encoder(data, special=True).encode("b<|x|>") == [98, 256]


# --- the packages themselves


@pytest.mark.parametrize("name", ["tokenizers", "tiktoken", "sentencepiece"])
def test_a_missing_package_is_named_with_what_installs_it(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(VocabularyError, match=rf"the package {name}: pip install 'guided-decoding\[tokenizers\]'"):
        {
            "tokenizers": lambda: make_huggingface_encoder(unigram(0)),
            "tiktoken": lambda: make_ranks_encoder({b"a": 0}, None),
            "sentencepiece": lambda: make_sentencepiece_encoder(b"", 1),
        }[name]()


def test_a_panic_becomes_an_error_and_an_interrupt_propagates(monkeypatch):
    panic = type("PanicException", (BaseException,), {})

    def package(error: BaseException) -> SimpleNamespace:
        def fail(text: str) -> list[int]:
            raise error

        return SimpleNamespace(Encoding=lambda *_, **__: SimpleNamespace(encode_ordinary=fail))

    monkeypatch.setitem(sys.modules, "tiktoken", package(panic("no entry found")))
    with pytest.raises(VocabularyError, match="this text cannot be encoded: PanicException no entry found"):
        make_ranks_encoder({b"a": 0}, None).encode("a")
    monkeypatch.setitem(sys.modules, "tiktoken", package(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        make_ranks_encoder({b"a": 0}, None).encode("a")


# --- long texts


def counted(encoder, calls):
    """The encoder, which records how many characters each call of the package gets."""
    inner = encoder._encode

    def encode(text):
        calls.append(len(text))
        return inner(text)

    encoder._encode = encode
    return encoder


@pytest.mark.parametrize("name", NO_SECOND_LETTER)
@pytest.mark.parametrize("spaces", [0, 7])
def test_unencodable_characters_are_found_in_a_long_text_by_bisection(name, spaces):
    calls = []
    encoder = counted(NO_SECOND_LETTER[name](), calls)
    text = ("a" * 20_000 + "é") if not spaces else ("aaaaaa " * 3_000 + "aéa " + "aaaaaa " * 3_000)
    with pytest.raises(VocabularyError, match=r"no token of this vocabulary spells ' '|spells 'é' \(0xC3 0xA9\) of 'a"):
        encoder.encode(text)
    assert sum(calls) < 6 * len(text) and len(calls) < 100


@pytest.mark.parametrize("special", [False, True])
def test_long_texts_have_the_ids_of_short_ones(special, monkeypatch):
    """The package's two functions give the same ids."""
    rng, vocab = random.Random(1), {char: at for at, char in enumerate("abcdĠ")}
    vocab |= {"ab": 5, "abc": 6, "Ġa": 7}
    model = {"type": "BPE", "vocab": vocab, "merges": ["a b", "ab c", "Ġ a"]}
    names = [{"id": 8, "content": "<|x|>", "special": True}]
    flags = dict.fromkeys(("normalized", "single_word", "lstrip", "rstrip"), False)
    data = {"version": "1.0", "model": model, "added_tokens": [name | flags for name in names]} | STEPS["ByteLevel"]
    encoder = make_huggingface_encoder(data, special=special)
    words = ["a", "ab ", "abcd", " ", "d a", *(["<|x|>"] if special else [])]
    for _ in range(20):
        text = "".join(rng.choices(words, k=400))
        monkeypatch.setattr("guided.vocabulary.encoders._LONG_TEXT", 1 << 30)
        whole = encoder.encode(text)
        monkeypatch.setattr("guided.vocabulary.encoders._LONG_TEXT", 0)
        assert encoder.encode(text) == whole and len(whole) > 100


def test_other_threads_go_on_while_a_long_text_is_encoded():
    """Another thread counts, which would be impossible if the package held Python's lock."""
    counts, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counts[0] += 1
            done.wait(0.0005)

    vocab = {"a": 0, "Ġ": 1, "aa": 2}
    data = {"version": "1.0", "model": {"type": "BPE", "vocab": vocab, "merges": ["a a"]}, "added_tokens": []}
    encoder = make_huggingface_encoder(data | STEPS["ByteLevel"])
    encoder.encode("a" * 5000)
    thread = threading.Thread(target=count)
    thread.start()
    before = counts[0]
    encoder.encode("a " * 300_000)
    after = counts[0]
    done.set()
    thread.join()
    assert after - before > 20


def replace(pattern: str, content: str, kind: str = "String") -> dict:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


@pytest.mark.parametrize(
    ("steps", "longest"),
    [
        ([replace("a", "a" * 10)] * 6, 268),
        ([replace("a", "a" * 10)] * 5_000, 0),
        ([replace("a", "b" * 1000), {"type": "Sequence", "normalizers": [replace("b", "c" * 1000)]}], 268),
        ([replace("()", "a" * 999, "Regex")] * 2, 268),
        ([{"type": "Prepend", "prepend": "a" * 999}] * 2, 268),
        ([{"type": "ByteLevel"}] * 20, 256),
        ([replace("ab", "c"), replace(" ", "\u2581"), {"type": "Prepend", "prepend": "\u2581"}], 1 << 27),
    ],
)
def test_steps_that_make_a_text_too_long_are_refused(steps: list[dict], longest: int):
    data = unigram(None) | {"normalizer": {"type": "Sequence", "normalizers": steps}}
    growth = compute_growth(data)
    assert (1 << 28) // growth == longest
    encoder = make_huggingface_encoder(data)
    with pytest.raises(VocabularyError, match="times longer"):
        encoder.encode("a" * (longest + 1))


@pytest.mark.parametrize("table", [b"", b"\xff\xff\xff\xff", b"\x08\0\0\0\0\0\0\0"])
def test_a_table_of_characters_is_as_long_as_it_says(table: bytes):
    """The package would allocate what the table says, and end the process if it cannot."""
    charsmap = base64.b64encode(table).decode()
    data = unigram(None) | {"normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap}}
    with pytest.raises(VocabularyError, match=r"table of characters|cannot read this tokenizer"):
        make_huggingface_encoder(data)


def test_the_longest_text_of_a_table_of_characters_counts():
    charsmap = base64.b64encode(b"\x04\0\0\0" + b"\0" * 4 + b"ab\0abcdef\0c\0").decode()
    assert compute_growth({"normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap}}) == 6
