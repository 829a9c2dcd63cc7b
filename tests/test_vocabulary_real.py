"""Vocabularies of real models compared with their own tokenizers. Skipped if files or packages are missing."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from guided.errors import VocabularyError
from guided.files.gguf import GgufFile
from guided.vocabulary import Vocabulary
from guided.vocabulary.pretokenizers import PATTERNS
from tests.vocabulary_support import asset
from tests.weights import SMOLLM2, weights_of

RNG = random.Random(11)
LETTERS = [chr(RNG.randrange(0x20, 0x3000)) for _ in range(300)]
COMMON = [*"abcSLl'sdmt 12\n\t\r/{}\":,", "😀", "漢", "\x1c", "  ", "12345", "e\u0301", "ſ", "\x85", "\u3000"]
PROSE = Path(__file__).read_text(encoding="utf-8")


def texts(count: int, seed: int) -> list[str]:
    """Mixtures of common and rare characters, and stretches of prose."""
    rng = random.Random(seed)
    out = ["", " ", "  a", "\n", PROSE]
    for _ in range(count):
        start = rng.randrange(len(PROSE))
        mixed = "".join(rng.choice(rng.choice((LETTERS, COMMON, COMMON))) for _ in range(rng.randint(1, 30)))
        out += [mixed, PROSE[start : start + rng.randint(1, 80)]]
    return out


def agree(vocab: Vocabulary, encode, prefix: str = "", seed: int = 0) -> None:
    """Check that `vocab` encodes as `encode` does, and that its ids decode to the text after `prefix`."""
    refused = 0
    for text in texts(400, seed):
        try:
            ids = vocab.encode(text)
        except VocabularyError as error:
            assert "spells" in str(error)
            refused += 1
            continue
        assert ids == encode(text), text
        assert vocab.decode(ids) == (prefix + text if text else "").encode()
        if prefix:
            assert vocab.decode(vocab.encode(text, continued=True)) == text.encode()
    assert refused < 80


def test_smollm2():
    vocab = Vocabulary.from_gguf(weights_of(SMOLLM2))
    assert vocab.size == 49152 and vocab.eos_token_ids == {0, 2} and len(vocab.special_tokens) == 17
    assert vocab.special_tokens[1] == "<|im_start|>" and vocab.token_bytes(1) is None
    present = set(b"".join(token for token in vocab.tokens if token))
    assert sorted(set(range(256)) - present) == [
        *(0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2, *range(0xF5, 0x100)),
    ]
    with pytest.raises(VocabularyError, match="0xF1"):
        vocab.encode("\U00040000")
    assert vocab.encode_with_special("<|im_start|>user\nHi<|im_end|>\n") == [1, *vocab.encode("user\nHi"), 2, 198]


def test_smollm2_encodes_as_tokenizers_does():
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    path = weights_of(SMOLLM2)
    metadata = GgufFile(path).metadata
    ids = {token: number for number, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [tuple(rule.split(" ")) for rule in metadata["tokenizer.ggml.merges"]]
    oracle = tokenizers.Tokenizer(tokenizers.models.BPE(ids, merges))
    cut = tokenizers.pre_tokenizers
    oracle.pre_tokenizer = cut.Sequence([cut.Digits(individual_digits=True), cut.ByteLevel(add_prefix_space=False)])
    oracle.decoder = tokenizers.decoders.ByteLevel()
    agree(Vocabulary.from_gguf(path), lambda text: oracle.encode(text).ids)
    agree(Vocabulary.from_huggingface(oracle, eos_token_ids=[2]), lambda text: oracle.encode(text).ids, seed=1)


def ranks(path: Path) -> dict[bytes, int]:
    load = pytest.importorskip("tiktoken.load", reason="tiktoken is not installed")
    return load.load_tiktoken_bpe(str(path))


def encoding(path: Path, pattern: str, special: dict[str, int]):
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    return tiktoken.Encoding(path.name, pat_str=pattern, mergeable_ranks=ranks(path), special_tokens=special)


@pytest.mark.parametrize(
    ("name", "pattern", "ends", "size"),
    [("llama3.tiktoken", "llama3", {128009}, 128256), ("qwen.tiktoken", "qwen2", {151645}, 151936)],
)
def test_tiktoken_files(name, pattern, ends, size):
    path = asset(name)
    special = {"<|eot_id|>": 128009} if "llama" in name else {"<|endoftext|>": 151643, "<|im_end|>": 151645}
    oracle = encoding(path, PATTERNS[pattern][0], special)
    vocab = Vocabulary.from_tiktoken(path, eos_token_ids=ends, special_tokens=special, pattern=pattern, size=size)
    assert vocab.size == size and vocab.eos_token_ids == ends
    agree(vocab, lambda text: oracle.encode(text, disallowed_special=()))
    assert Vocabulary.from_tiktoken(oracle, eos_token_ids=ends).tokens == vocab.tokens


@pytest.mark.parametrize("name", ["cl100k_base.js", "o200k_base.js"])
def test_openai_ranks_keep_their_holes(name):
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    from base64 import b64decode

    text = asset(name).read_text()
    string = r'"?%s"?:\s*("(?:[^"\\]|\\.)*")'
    found: dict[bytes, int] = {}
    for line in json.loads(re.search(string % "bpe_ranks", text)[1]).splitlines():
        _, first, *tokens = line.split(" ")
        found |= {b64decode(token): int(first) + k for k, token in enumerate(tokens)}
    special = json.loads(re.search(r'"?special_tokens"?:\s*(\{[^}]*\})', text)[1])
    for pattern in (json.loads(re.search(string % "pat_str", text)[1]), PATTERNS[name.partition("_")[0]][0]):
        oracle = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=found, special_tokens=special)
        vocab = Vocabulary.from_tiktoken(oracle)
        assert vocab.size == oracle.n_vocab and vocab.eos_token_ids == {oracle.eot_token}
        agree(vocab, lambda text, oracle=oracle: oracle.encode(text, disallowed_special=()))
    used = set(found.values()) | set(special.values())
    assert all(vocab.token_bytes(number) is None for number in range(vocab.size) if number not in used)


def test_tekken():
    path = asset("tekken_240911.json")
    vocab = Vocabulary.from_tekken(path)
    assert vocab.size == 131072 and vocab.eos_token_ids == {2} and vocab.special_tokens[3] == "[INST]"
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    data = json.loads(path.read_text())
    plain = {token: number - 1000 for number, token in enumerate(vocab.tokens) if token is not None}
    oracle = tiktoken.Encoding("tekken", pat_str=data["config"]["pattern"], mergeable_ranks=plain, special_tokens={})
    agree(vocab, lambda text: [rank + 1000 for rank in oracle.encode(text)])


@pytest.mark.parametrize("name", ["tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3"])
def test_sentencepiece(name):
    path = asset(name)
    vocab = Vocabulary.from_sentencepiece(path)
    assert vocab.size in (32000, 32768) and vocab.eos_token_ids == {2} and vocab.special_tokens[1] == "<s>"
    spelled = [token for token in vocab.tokens if token is not None]
    assert len(spelled) - len(set(spelled)) == 125  # a byte piece and a piece of one ASCII character
    sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    agree(vocab, sentencepiece.SentencePieceProcessor(model_file=str(path)).encode, prefix=" ")


TRAINED = [
    (kind, rule, options)
    for kind in ("unigram", "bpe", "char", "word")
    for rule in ("identity", "nmt_nfkc")
    for options in (
        {"byte_fallback": kind in ("unigram", "bpe")},
        {"treat_whitespace_as_suffix": True, "user_defined_symbols": ["ab", "abc"]},
        {"remove_extra_whitespaces": False, "add_dummy_prefix": False},
    )
]


@pytest.mark.parametrize(("kind", "rule", "options"), TRAINED)
def test_trained_models(tmp_path, kind, rule, options):
    sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    (tmp_path / "text").write_text(PROSE)
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(tmp_path / "m"),
        vocab_size=420,
        model_type=kind,
        normalization_rule_name=rule,
        hard_vocab_limit=False,
        minloglevel=9,
        **options,
    )
    oracle = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    vocab = Vocabulary.from_sentencepiece(tmp_path / "m.model")
    for text in texts(150, 3):
        expected = oracle.encode(text)
        if oracle.unk_id() in expected:
            with pytest.raises(VocabularyError, match="spells"):
                vocab.encode(text)
        else:
            assert vocab.encode(text) == expected, text


def test_transformers_object():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    vocab = {"Ġ": 0, "a": 1, "b": 2, "ab": 3, "</s>": 4}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, [("a", "b")]))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")
    ours = Vocabulary.from_huggingface(fast)
    assert ours.eos_token_ids == {4} and ours.special_tokens == {4: "</s>"}
    assert ours.tokens == (b" ", b"a", b"b", b"ab", None) and ours.encode("ab a") == fast.encode("ab a") == [3, 0, 1]
