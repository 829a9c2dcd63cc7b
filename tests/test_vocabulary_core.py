"""`Vocabulary` itself, and the encoders of vocabularies without a tokenizer."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import VocabularyError
from guided.matching import GrammarCompiler, GrammarMatcher, allocate_token_bitmask, allowed_tokens
from guided.vocabulary import Vocabulary

token_lists = st.lists(st.one_of(st.none(), st.text("abé", min_size=1, max_size=4).map(str.encode)), max_size=12)


@given(
    token_lists,
    st.sets(st.integers(0, 15), min_size=1, max_size=3),
    st.dictionaries(st.integers(0, 15), st.text(max_size=3)),
)
def test_stated_semantics(tokens, ends, special):
    vocab = Vocabulary(tokens, eos_token_ids=ends, special_tokens=special)
    assert vocab.size == max([len(tokens), *(number + 1 for number in ends | set(special))])
    for number in range(vocab.size):
        plain = number < len(tokens) and number not in ends and number not in special
        assert vocab.token_bytes(number) == ((tokens[number] or None) if plain else None)
    assert vocab.eos_token_ids == ends and dict(vocab.special_tokens) == special
    assert vocab.decode(range(vocab.size)) == b"".join(vocab.token_bytes(n) or b"" for n in range(vocab.size))
    padded = Vocabulary(tokens, eos_token_ids=ends, special_tokens=special, size=vocab.size + 7)
    assert padded.size == vocab.size + 7 and padded.token_bytes(vocab.size + 6) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": ["a"], "eos_token_ids": [0]}, "token 0 is 'a': tokens are bytes"),
        ({"tokens": b"ab", "eos_token_ids": [0]}, "not one string"),
        ({"tokens": [b"a", 3], "eos_token_ids": [0]}, "token 1 is 3"),
        ({"tokens": [b"a"], "eos_token_ids": [-1]}, "-1 is not an id"),
        ({"tokens": [b"a"], "eos_token_ids": [1 << 40]}, "is not an id"),
        ({"tokens": [b"a"], "eos_token_ids": "12"}, "eos_token_ids are integers"),
        ({"tokens": [b"a"], "eos_token_ids": 0}, "a collection of integers"),
        ({"tokens": [b"a"], "eos_token_ids": [1], "size": 1}, "size 1 does not cover the ids"),
        ({"tokens": [b"a"], "eos_token_ids": [1], "size": 1 << 30}, "must be from 2 to"),
        ({"tokens": [b"a"], "eos_token_ids": [1], "special_tokens": {"x": 1}}, "special_tokens"),
        ({"tokens": [b"a", b"", None], "eos_token_ids": [3]}, "token 1 is empty: write None"),
        ({"tokens": [b"a", None, b"x" * 65_536], "eos_token_ids": [3]}, "token 2 has 65,536 bytes, at most 65,535"),
        ({"tokens": [b"x" * 65_535] * 257, "eos_token_ids": [257]}, "have 16,842,495 bytes together, at most 16,777"),
        ({"tokens": [b"a"], "eos_token_ids": []}, r"eos_token_ids is empty: .* Vocabulary.without_end\(tokens\)"),
        ({"tokens": [b"a"], "eos_token_ids": [True]}, "a collection of integers"),
        ({"tokens": [b"a"], "eos_token_ids": [0], "size": 0}, "size 0 does not cover the ids"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(VocabularyError, match=message):
        Vocabulary(arguments.pop("tokens"), **arguments)


@pytest.mark.parametrize("number", [-1, 2])
def test_ids_out_of_range(number):
    vocab = Vocabulary([b"a"], eos_token_ids=[1])
    with pytest.raises(VocabularyError, match="not a token id"):
        vocab.token_bytes(number)
    with pytest.raises(VocabularyError, match="not a token id"):
        vocab.decode([0, number])


def fewest(data: bytes, tokens: set[bytes]) -> int | None:
    """The smallest number of tokens, by exhaustive search."""
    level, steps = {data}, 0
    while level:
        if b"" in level:
            return steps
        level = {rest[len(token) :] for rest in level for token in tokens if rest.startswith(token)}
        steps += 1
    return None


def test_tokens_as_long_as_can_be():
    text = b"ab" * 32_767 + b"c"
    vocabulary = Vocabulary([b"a", b"b", b"c", text, text[:-1], text[:-1] + b"d"], eos_token_ids=[6])
    matcher = GrammarMatcher(GrammarCompiler(vocabulary).compile_regex("(ab)*c"))
    bitmask = allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask)
    assert allowed_tokens(bitmask) == [0, 2, 3, 4]


def test_a_program_may_end_outputs_itself():
    vocabulary = Vocabulary.without_end([b"a", None, b"b"], special_tokens={1: "<x>"}, size=5)
    assert (vocabulary.size, vocabulary.eos_token_ids, dict(vocabulary.special_tokens)) == (5, frozenset(), {1: "<x>"})
    assert vocabulary.copy_with(size=7).eos_token_ids == frozenset()
    assert vocabulary.copy_with(eos_token_ids=[4]).eos_token_ids == {4}
    matcher = GrammarMatcher(GrammarCompiler(vocabulary).compile_regex("ab?"))
    assert matcher.accept_token(0)
    assert matcher.is_accepting()
    for wrong in (lambda: vocabulary.copy_with(eos_token_ids=[]), lambda: Vocabulary.without_end([])):
        with pytest.raises(VocabularyError, match=r"eos_token_ids is empty|the vocabulary has no tokens"):
            wrong()


@given(token_lists, st.text("abé", max_size=8))
def test_fewest_tokens(tokens, text):
    vocab = Vocabulary(tokens, eos_token_ids=[20])
    expected = fewest(text.encode(), {token for token in tokens if token})
    if expected is None:
        with pytest.raises(VocabularyError, match="spell the bytes 0x"):
            vocab.encode(text)
    else:
        ids = vocab.encode(text)
        assert vocab.decode(ids) == text.encode() and len(ids) == expected
        assert all(tokens.index(tokens[number]) == number for number in ids)


def test_fewest_tokens_names_the_bytes():
    with pytest.raises(VocabularyError, match="0xC3 0xA9 at byte 1"):
        Vocabulary([b"a"], eos_token_ids=[1]).encode("aé")


def test_lone_surrogates_are_refused():
    with pytest.raises(VocabularyError, match="lone surrogate at character 1"):
        Vocabulary([b"a"], eos_token_ids=[1]).encode("a\ud800")
    with pytest.raises(VocabularyError, match="lone surrogate"):
        Vocabulary.from_characters("\ud800")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_characters(text):
    vocab = Vocabulary.from_characters(text)
    chars = sorted(set(text))
    assert vocab.size == len(chars) + 1 and vocab.eos_token_ids == {len(chars)}
    assert vocab.tokens == tuple(char.encode() for char in chars)
    assert vocab.encode(text) == [chars.index(char) for char in text]
    assert vocab.decode(vocab.encode(text)) == text.encode()


def test_character_that_is_missing():
    with pytest.raises(VocabularyError, match=r"spells 'z' \(0x7A\)"):
        Vocabulary.from_characters("abc").encode("az")


def test_special_tokens_in_text():
    vocab = Vocabulary([b"<", b"e", b">", b"<e>"], eos_token_ids=[4], special_tokens={4: "<e>"})
    assert vocab.encode("<e><e") == [3, 0, 1]
    assert vocab.encode_with_special("<e><e>e<") == [4, 4, 1, 0]


def test_import_is_light():
    code = (
        "import sys, guided.vocabulary; print([m for m in ('torch', 'transformers', 'tiktoken') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_copies_are_the_same_object_and_pickles_are_refused():
    vocabulary = Vocabulary([b"a"], eos_token_ids=[1])
    assert copy.copy(vocabulary) is vocabulary and copy.deepcopy({"a": [vocabulary]})["a"][0] is vocabulary
    with pytest.raises(TypeError, match="read the tokenizer"):
        pickle.dumps(vocabulary)
