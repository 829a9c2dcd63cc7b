"""Iterable arguments: an endless iterator causes an error, not an endless loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, repeat
from typing import Any, TypeVar

import numpy as np
import pytest

import guided
from guided import keywords
from guided.errors import GuidedError, OptionError
from guided.frontends import pattern
from guided.keywords import read_items
from guided.vocabulary import source, vocabulary

T = TypeVar("T")
BYTES = [bytes([byte]) for byte in range(256)]
VOCABULARY = guided.Vocabulary(BYTES, eos_token_ids=[256])
COMPILER = guided.GrammarCompiler(VOCABULARY, limits=guided.Limits(spec_length=10_000, nodes=10_000))
MATCHER = guided.GrammarMatcher(COMPILER.compile_regex("a*"))
LOGITS, BITMASK = np.zeros((1, 257), np.float32), guided.allocate_token_bitmask(1, 257)
TAG = {"type": "structural_tag", "format": {"type": "any_text"}}
MAX_ITEMS = 20_000

CALLS: dict[str, tuple[object, Callable[[Any], object]]] = {
    "choice": ("a", COMPILER.compile_choice),
    "pattern": (("UPPER", "+"), COMPILER.compile_pattern),
    "characters": ("a", lambda items: COMPILER.compile_pattern([("V", "+")], {"V": items})),
    "part pattern": (("UPPER", "+"), guided.pattern),
    "part characters": ("a", lambda items: guided.pattern([("V", "+")], {"V": items})),
    "tokens": (b"a", lambda items: guided.Vocabulary(items, eos_token_ids=[1])),
    "end tokens": (1, lambda items: guided.Vocabulary([b"a"], eos_token_ids=items)),
    "decode": (97, VOCABULARY.decode),
    "import paths": ("/", lambda items: COMPILER.compile_lark('start: "a"', import_paths=items)),
    "special tokens": ("a", lambda items: guided.structural_tag(TAG, special_tokens=items)),
    "allowed ids": (1, lambda items: guided.SamplingParams(allowed_token_ids=items)),
    "bad words": ([1], lambda items: guided.SamplingParams(bad_words=items)),
    "a bad word": (1, lambda items: guided.SamplingParams(bad_words=[items])),
    "indices": (0, lambda items: guided.apply_token_bitmask_inplace(LOGITS, BITMASK, items)),
    "matchers": (MATCHER, lambda items: guided.fill_batch(items, BITMASK)),
    "rows": (0, lambda items: guided.fill_batch([MATCHER], BITMASK, items)),
}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small limits that are soon reached."""
    monkeypatch.setattr(keywords, "_MAX_ITEMS", 10_000)
    monkeypatch.setattr(pattern, "_DEFAULT_LIMITS", guided.Limits(nodes=10_000))
    monkeypatch.setattr(pattern, "_MAX_CHARACTERS", 10_000)
    for module in (source, vocabulary):
        monkeypatch.setattr(module, "MAX_SIZE", 10_000)


def counted(item: T) -> Iterator[T]:
    for number in count():
        assert number < MAX_ITEMS, "it is read on and on"
        yield item


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", CALLS)
def test_an_endless_iterator_is_an_error(name: str):
    item, call = CALLS[name]
    with pytest.raises(GuidedError, match=r"more than|exceeded"):
        call(counted(item))


@pytest.mark.usefixtures("few")
def test_long_texts_count_by_their_characters():
    read = 0

    def texts() -> Iterator[str]:
        nonlocal read
        for _ in repeat(None):
            read += 1
            yield str(read) * 1_000

    with pytest.raises(guided.LimitExceeded):
        COMPILER.compile_choice(texts())
    assert read < 100


def test_finite_iterators_are_read_as_lists_are():
    assert read_items("it", iter([1, 2, 3]), max_items=3) == [1, 2, 3] == read_items("it", (1, 2, 3), max_items=3)
    assert read_items("it", range(1_000), max_items=1_000) == read_items("it", iter(range(1_000)), max_items=1_000)
    for items in ([1, 2, 3, 4], iter([1, 2, 3, 4]), range(10**15), iter(["abcd"]), iter([(1, 2), (3, 4)])):
        with pytest.raises(OptionError, match="it has more than 3 items"):
            read_items("it", items, max_items=3)
    assert COMPILER.compile_choice(text for text in ("a", "b")) is COMPILER.compile_choice(["a", "b"])


def test_rows_that_an_iterator_names_are_masked():
    logits = np.zeros((2, 257), np.float32)
    bitmask = guided.allocate_token_bitmask(2, 257)
    bitmask[:] = 0
    guided.apply_token_bitmask_inplace(logits, bitmask, iter([1]))
    assert not np.isinf(logits[0]).any()
    assert np.isinf(logits[1]).all()
