"""Stops compared with their definition, and outputs of a small model that are stopped."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.engine.engine import Engine
from guided.engine.stopping import StopMatch, Stops, StopSearch
from guided.errors import GuidedError, OptionError, SpecError
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.vocabulary.vocabulary import Vocabulary
from tests.effort import examples

torch.set_num_threads(1)
LETTERS = [b"a", b"b", b"c", b"ab", b"ba", b"abc", b"\xc3", b"\xa9", b"\xc3\xa9", b" "]
EOS, OTHER = 10, 11
VOCABULARY = Vocabulary(LETTERS, eos_token_ids=[EOS], special_tokens={OTHER: "<x>"})
CONFIG = LlamaConfig(layers=1, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=14, context=128)
ENGINE = Engine(Llama.random(CONFIG, seed=3), VOCABULARY)
PATTERNS = ["a+b", "[ab]c", "(ab|ba){2}", "a.*c", "é?a ", "b(a|c)*b", "aa|aab|ba"]
PIECES = st.lists(st.text("abcé ", max_size=5), max_size=8)
STOPS = st.lists(st.text("abcé ", min_size=1, max_size=4), max_size=4)


def first_stop(text: str, texts: list[str], patterns: list[str], after: int = 0) -> StopMatch | None:
    """By definition: of all stops that end after `after`, the one that ends first, and among these the one that begins
    first.
    """
    for end in range(after + 1, len(text) + 1):
        for begin in range(end):
            piece = text[begin:end]
            for stop in sorted(texts + patterns):
                if (stop in texts and piece == stop) or (stop in patterns and re.fullmatch(stop, piece)):
                    return StopMatch(end, begin, stop)
    return None


@examples(100, many=250)
@given(PIECES, STOPS, st.lists(st.sampled_from(PATTERNS), max_size=2), st.integers(0, 5))
def test_the_first_stop_whatever_the_borders(pieces, texts, patterns, silent):
    search, whole, handed, after = StopSearch(Stops(texts, (), patterns)), "", 0, len("".join(pieces[:silent]))
    for number, piece in enumerate(pieces):
        whole += piece
        found = search.read(piece, may_stop=number >= silent)
        assert found == first_stop(whole, texts, patterns, after)
        if found is not None:
            assert handed <= found.begin, "what was handed out is not taken back"
            return
        assert handed <= search.decided_length <= len(whole)
        handed = search.decided_length
    assert not any(t != whole[b:] and t.startswith(whole[b:]) for t in texts for b in range(handed))
    if handed < len(whole) and not patterns:
        assert any(t != whole[handed:] and t.startswith(whole[handed:]) for t in texts)


def test_a_pattern_holds_back_only_what_may_become_a_match():
    search = StopSearch(Stops(patterns=["x[0-9]{2}y"]))
    for piece, decided in (("ab x1", 3), ("x", 5), ("12", 5), ("zz", 10), ("x", 10)):
        assert search.read(piece) is None
        assert search.decided_length == decided
    assert search.read("12y!") == StopMatch(14, 10, "x[0-9]{2}y")


def test_candidates_in_one_state_are_one():
    search = StopSearch(Stops(patterns=["a.*c"]))
    search.read("a" * 500)
    (finder,) = search._finders
    assert len(finder.candidates) == 1


def test_a_pattern_that_follows_too_many_places_fails(monkeypatch):
    monkeypatch.setattr("guided.engine.stopping._MAX_CANDIDATES", 200)
    search = StopSearch(Stops(patterns=["a{1,9999}b"]))
    with pytest.raises(GuidedError, match="has more than 200 unfinished matches"):
        search.read("a" * 300)


def plain(seed: int, **options):
    """Enough tokens of the same output without stops."""
    return ENGINE.generate("ab", temperature=3.0, seed=seed, max_tokens=60, **options)


@examples(40, many=120)
@given(st.integers(0, 500), STOPS, st.lists(st.sampled_from(PATTERNS), max_size=1), st.booleans(), st.integers(0, 8))
def test_outputs_stop_where_the_definition_stops(seed, texts, patterns, included, least):
    options = {"ignore_eos": True, "min_tokens": least}
    whole = plain(seed, **options)
    assert (len(whole.tokens), whole.finish_reason) == (60, "length")
    stops = {"stop": texts, "stop_regex": patterns, "include_stop_str_in_output": included}
    events = list(ENGINE.stream("ab", temperature=3.0, seed=seed, max_tokens=60, **options, **stops))
    result = events[-1].result
    known = [len(decoded(whole.tokens[:n])) for n in range(61)]  # whole characters after n tokens
    found = first_stop(decoded(whole.tokens), texts, patterns, known[least])
    assert "".join(e.text for e in events) == result.text
    assert [t for e in events for t in e.tokens] == result.tokens
    assert events[-1].tokens == ()
    assert len(result.token_masks) == len(result.tokens)
    if found is None:
        assert (result.tokens, result.text, result.stop) == (whole.tokens, whole.text, None)
        return
    cut = found.end if included else found.begin
    assert (result.text, result.stop, result.finish_reason) == (decoded(whole.tokens)[:cut], found.stop, "stop")
    assert result.tokens == whole.tokens[: sum(start < cut for start in known[:60])][: known_end(known, found.end)]


def decoded(tokens: list[int]) -> str:
    """The complete characters of the tokens. A broken character becomes U+FFFD once it is known to be broken."""
    import codecs

    return codecs.getincrementaldecoder("utf-8")("replace").decode(VOCABULARY.decode(tokens))


def known_end(known: list[int], end: int) -> int:
    """The number of tokens chosen when the text first reached `end`."""
    return next(n for n, length in enumerate(known) if length >= end)


def test_stop_tokens():
    for seed in range(12):
        whole = plain(seed, ignore_eos=True).tokens
        at = min((whole.index(t) for t in (2, EOS) if t in whole), default=None)
        result = plain(seed, stop_token_ids=[2])
        if at is not None:
            assert (result.tokens, result.finish_reason) == (whole[:at], "stop")
            assert result.stop == (2 if whole[at] == 2 else None)
            kept = plain(seed, stop_token_ids=[2], include_stop_str_in_output=True)
            assert kept.tokens == (whole[: at + 1] if whole[at] == 2 else whole[:at])
            late = plain(seed, stop_token_ids=[2], min_tokens=30)
            assert len(late.tokens) >= 30 and not {2, EOS} & set(late.tokens)
        else:
            assert (result.tokens, result.stop) == (whole, None)


def test_samples_and_batches_equal_single_outputs():
    options = {"temperature": 3.0, "max_tokens": 40, "stop": ["ab c", "c"], "stop_regex": "b+ ", "min_tokens": 3}
    options |= {"repetition_penalty": 1.2, "min_p": 0.01}
    group = ENGINE.generate("ab", n=5, seed=3, **options)
    alone = [ENGINE.generate("ab", seed=3 + i, **options) for i in range(5)]
    assert [(r.tokens, r.text, r.stop) for r in group] == [(r.tokens, r.text, r.stop) for r in alone]
    batch = ENGINE.generate_batch(["ab", "c", "ba"], seed=7, **options)
    assert [r.text for r in batch] == [ENGINE.generate(p, seed=7, **options).text for p in ("ab", "c", "ba")]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"stop": ""}, ValueError, "stop contains an empty string"),
        ({"stop": ["a", 1]}, ValueError, "stop is"),
        ({"stop_regex": [""]}, ValueError, "stop_regex contains an empty string"),
        ({"stop_regex": ["a"] * 33}, ValueError, "33 patterns, but at most 32"),
        ({"stop_regex": "a" * 257}, ValueError, "257 characters, but at most 256"),
        ({"stop_regex": "a*"}, SpecError, "matches the empty text"),
        ({"stop_regex": "(a"}, SpecError, "line 1"),
        ({"stop_token_ids": [12]}, ValueError, "stop_token_ids contains 12"),
        ({"stop_token_ids": [True]}, ValueError, "stop_token_ids contains True"),
        ({"min_tokens": 61}, ValueError, "min_tokens is 61"),
    ],
)
def test_refusals(options, error, message):
    with pytest.raises(error, match=message):
        plain(0, **options)


@pytest.mark.parametrize("options", [{"stop": "a"}, {"stop_token_ids": [1]}, {"stop_regex": "a"}, {"ignore_eos": True}])
def test_stops_under_a_constraint_are_refused(options):
    with pytest.raises(OptionError, match="a constraint determines where its output ends") as caught:
        ENGINE.generate("ab", "a{3}", **options)
    assert caught.value.option == next(iter(options))
    with pytest.raises(OptionError) as caught:
        ENGINE.generate("ab", "a{3}", stop="b", stop_token_ids=[1])
    assert caught.value.option is None
    assert ENGINE.generate("ab", "a{3}", **dict.fromkeys(options)).text == "aaa"
    assert replace(Stops(), includes_stop=True) != Stops()
