"""Prompt healing: brute force over small vocabularies, and the engine with a small random model."""

from __future__ import annotations

import itertools
import json
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided import BudgetError, GrammarCompiler, GrammarMatcher, GuidedError, Vocabulary
from guided.chat import ChatTemplate
from guided.chat.template import CHATML
from guided.engine.engine import Engine
from guided.errors import OptionError
from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.healing import HealingMatcher, count_unstable_tokens
from guided.matching.protocol import ForkingMatcher
from guided.models.architectures.llama import Llama, LlamaConfig
from tests.canonical_support import huggingface
from tests.effort import examples

torch.set_num_threads(1)
TOKENS = [b"a", b"b", b"c", b"ab", b"bc", b"abc", b"ca", b"bca"]
SMALL = Vocabulary(TOKENS, eos_token_ids=[8])
COMPILER = GrammarCompiler(SMALL)


def outputs(text: str) -> set[tuple[int, ...]]:
    """All spellings of a text."""
    if not text:
        return {()}
    heads = [(id, data.decode()) for id, data in enumerate(TOKENS) if text.startswith(data.decode())]
    return {(id, *rest) for id, head in heads for rest in outputs(text[len(head) :])}


@examples(60)
@given(st.text("abc", min_size=1, max_size=4), st.sampled_from(["c?a(bc)?", "(ab|c){1,2}", "b*", "[abc]{0,2}"]))
def test_outputs_are_the_spellings_of_the_prefix_and_a_text(prefix, pattern):
    most = 4
    texts = ("".join(chars) for n in range(most + 1) for chars in itertools.product("abc", repeat=n))
    wanted = {ids for text in texts if re.fullmatch(pattern, text) for ids in outputs(prefix + text)}
    grammar, bitmask = COMPILER.compile_regex(pattern), allocate_token_bitmask(1, SMALL.size)
    found, todo = set(), [((), HealingMatcher(GrammarMatcher(grammar), prefix.encode(), SMALL))]
    while todo:
        ids, matcher = todo.pop()
        assert isinstance(matcher, ForkingMatcher)
        matcher.fill_next_token_bitmask(bitmask)
        mask = {token for token in allowed_tokens(bitmask) if token < SMALL.size}
        for token in range(SMALL.size):
            after = matcher.fork()
            accepted = after.accept_token(token)
            assert accepted == (token in mask), (ids, token)
            if accepted and token == 8:
                assert matcher.is_accepting()
                found.add(ids)
            elif accepted and len(SMALL.decode([*ids, token])) <= len(prefix) + most:
                todo.append(((*ids, token), after))
                back = after.fork()
                back.rollback(1)
                masks = allocate_token_bitmask(1, SMALL.size)
                back.fill_next_token_bitmask(masks)
                assert {t for t in allowed_tokens(masks) if t < SMALL.size} == mask
    assert found == wanted


@examples(60)
@given(st.text("abc", min_size=1, max_size=5), st.randoms(use_true_random=False), st.integers(0, 4))
def test_outputs_are_complete_within_their_budget(prefix, rng, spare):
    matcher = HealingMatcher(GrammarMatcher(COMPILER.compile_regex("(ab|c){1,3}")), prefix.encode(), SMALL)
    bitmask, out = allocate_token_bitmask(1, SMALL.size), []
    with pytest.raises(BudgetError):
        matcher.fill_next_token_bitmask(bitmask, max_tokens=1)
    left = matcher.min_tokens_to_finish() + spare
    while not matcher.is_terminated():
        matcher.fill_next_token_bitmask(bitmask, max_tokens=left)
        out.append(rng.choice([token for token in allowed_tokens(bitmask) if token < SMALL.size]))
        assert matcher.accept_token(out[-1])
        left -= 1
    assert left >= 0
    assert re.fullmatch(f"{prefix}(ab|c){{1,3}}", SMALL.decode(out).decode())


def test_removed_tokens():
    control = Vocabulary([*TOKENS, b"x"], eos_token_ids=[9], special_tokens={10: "<|s|>"})
    assert count_unstable_tokens(control, [8, 2, 1]) == 1  # no token begins with "cb", but some begin with "b"
    assert count_unstable_tokens(control, [0, 8]) == 0
    assert count_unstable_tokens(control, [8, 0, 1]) == 2
    assert count_unstable_tokens(control, [10, 0]) == 1
    assert count_unstable_tokens(control, [0]) == 0  # the model needs a token
    assert count_unstable_tokens(control, [0, 10]) == 0


# --- the engine


MERGES = [
    (b"h", b"t"),
    (b"t", b"p"),
    (b"ht", b"tp"),
    (b":", b"/"),
    (b":/", b"/"),
    (b"1", b"2"),
    (b'"', b":"),
    (b'"', b","),
]
VOCABULARY = huggingface(MERGES)
CONFIG = LlamaConfig(layers=1, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=272, context=160)
ENGINE = Engine(Llama.random(CONFIG, seed=7), VOCABULARY)
COLON = VOCABULARY.encode("http:")


@examples(20)
@given(st.integers(0, 1000), st.booleans())
def test_the_text_follows_the_prompt(seed, canonical):
    result = ENGINE.generate(
        "http:", "//[a-z]{2}|12", max_tokens=9, temperature=3.0, seed=seed, heal_prompt=True, canonical=canonical
    )
    assert re.fullmatch("//[a-z]{2}|12", result.text)
    assert result.value == result.text
    assert result.healed == ":"
    assert VOCABULARY.decode(result.tokens).decode() == result.healed + result.text
    assert result.prompt_tokens == len(COLON) - 1
    assert len(result.token_masks) == len(result.tokens)
    if canonical:
        assert result.non_canonical == 0
        assert result.tokens == VOCABULARY.encode(result.healed + result.text)


def test_a_token_reaches_over_the_end_of_the_prompt():
    bias = {VOCABULARY.encode("://")[0]: 100.0}
    result = ENGINE.generate("http:", "//[a-z]{2}", max_tokens=9, heal_prompt=True, logit_bias=bias)
    assert VOCABULARY.token_bytes(result.tokens[0]) == b"://"
    assert result.text.startswith("//")
    assert ENGINE.generate(COLON, "//[a-z]{2}", max_tokens=9, heal_prompt=True, logit_bias=bias).tokens == result.tokens


def test_without_an_end_that_could_go_on_nothing_changes():
    plain = ENGINE.generate("http:/x", "[a-z]{3}", max_tokens=9, seed=1)
    healed = ENGINE.generate("http:/x", "[a-z]{3}", max_tokens=9, seed=1, heal_prompt=True)
    assert (plain.text, plain.tokens, healed.healed) == (healed.text, healed.tokens, "")


def test_free_text_and_stops():
    pieces = [event.text for event in ENGINE.stream("http:", max_tokens=30, temperature=2.0, seed=3, heal_prompt=True)]
    result = ENGINE.generate("http:", max_tokens=30, temperature=2.0, seed=3, heal_prompt=True)
    assert "".join(pieces) == result.text
    assert VOCABULARY.decode(result.tokens).decode(errors="replace") == ":" + result.text
    stop = result.text[3]
    cut = ENGINE.generate("http:", max_tokens=30, temperature=2.0, seed=3, heal_prompt=True, stop=stop)
    assert cut.text == result.text[: result.text.index(stop)]
    assert cut.stop == stop


def test_canonical_free_text_and_json():
    result = ENGINE.generate("x", max_tokens=40, temperature=1.5, seed=5, canonical=True)
    assert VOCABULARY.encode(result.text) == result.tokens
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}, "b": {"enum": [12, 1]}}}
    counted = 0
    for seed in range(12):
        one = ENGINE.generate("x", schema, max_tokens=60, temperature=2.0, seed=seed, canonical=True, drafts=seed % 3)
        assert json.loads(one.text) == one.value
        assert (VOCABULARY.encode(one.text) == one.tokens) == (one.non_canonical == 0)
        counted += one.non_canonical == 0
    assert counted >= 11


def test_canonical_answers_after_reasoning():
    result = ENGINE.generate("x", 'http[s"]://,12', max_tokens=40, temperature=2.0, seed=3, reasoning_end="</a>",
                             canonical=True)  # fmt: skip
    answer = result.tokens[len(VOCABULARY.encode(result.text)) * -1 :]
    assert answer == VOCABULARY.encode(result.text)
    assert result.non_canonical == 0


def test_samples_and_forced_tokens_are_canonical():
    constraint = guided.regex("[ab]{2}") + 'http://",":12:'
    for result in ENGINE.generate("x", constraint, n=3, max_tokens=40, temperature=2.0, seed=3, canonical=True):
        assert result.tokens == VOCABULARY.encode(result.text)
        assert 0 in result.token_masks


def test_off_is_as_before():
    for constraint in (None, "[a-z]{3}"):
        plain = ENGINE.generate("x", constraint, max_tokens=9, seed=1, temperature=1.0)
        off = ENGINE.generate(
            "x", constraint, max_tokens=9, seed=1, temperature=1.0, canonical=False, heal_prompt=False
        )
        assert (plain.tokens, plain.text, plain.removed_log_masses) == (off.tokens, off.text, off.removed_log_masses)


def test_options_that_exclude_each_other():
    chat = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[257],
                      special_tokens={256: "<|im_start|>", 257: "<|im_end|>"})  # fmt: skip
    engine = Engine(Llama.random(CONFIG, seed=7), chat, chat=ChatTemplate(chat, CHATML))
    for prompt in ("a", [{"role": "user", "content": "a"}]):
        with pytest.raises(OptionError, match="template"):
            engine.generate(prompt, heal_prompt=True)
    with pytest.raises(GuidedError, match="list of tokens"):
        engine.generate("a", canonical=True)
    with pytest.raises(OptionError, match="reasoning_end"):
        ENGINE.generate("http:", heal_prompt=True, reasoning_end="x")
    with pytest.raises(OptionError, match="canonical is 1"):
        ENGINE.generate("a", canonical=1)
    with pytest.raises(GuidedError, match="stops"):
        ENGINE.generate("a", "b", canonical=True, stop="c")
    with pytest.raises(GuidedError, match="stops"):
        ENGINE.generate("a", canonical=True, stop_token_ids=[5])
