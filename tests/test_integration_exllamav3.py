"""The filter for ExLlamaV3, called as by its generator; a stand-in replaces ExLlamaV3 if it is not installed."""

from __future__ import annotations

import importlib.util
import random
import re
from inspect import signature
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import guided  # noqa: E402
from tests import exllamav3_standin  # noqa: E402

REAL = importlib.util.find_spec("exllamav3") is not None
if not REAL:
    exllamav3_standin.install()
from exllamav3.generator.filter import Filter  # noqa: E402

from guided.integrations import exllamav3 as plugin  # noqa: E402
from guided.integrations.exllamav3 import GuidedFilter, vocabulary_of  # noqa: E402

VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
END, TRIGGER = 256, ord("!")
JOB = SimpleNamespace(generator=SimpleNamespace(padded_vocab_size=264))


def made(constraint, **options):
    filter = GuidedFilter(constraint, None, vocabulary=VOCABULARY, **options)
    filter.attach(JOB)
    filter.reset()
    return filter


def allowed(filter) -> set[int]:
    mask = filter.get_next_logit_mask()
    assert mask.dtype == torch.int32 and mask.shape == (1, 9)
    return set(guided.allowed_tokens(mask.numpy()))


def write(filter, rng, most=200) -> tuple[list[int], bool]:
    """The generator's samples, and whether the filter ended the output. Some tokens are removed and sampled again."""
    ids = list[int]()
    while len(ids) < most:
        choices = sorted(allowed(filter)) if filter.is_active else [ord("?"), TRIGGER]
        token = rng.choice(choices)
        ends = filter.feed(token)
        ids.append(token)
        if rng.random() < 0.3:
            back = rng.randrange(1, len(ids) + 1)
            filter.rewind(back)
            del ids[len(ids) - back :]
        elif ends or token == END:
            return ids, ends
    return ids, False


@pytest.mark.parametrize("pattern", ["[ab]{2,6}", "a[0-9]+", "(x|yy|zzz)"])
def test_outputs_match_after_any_rollback(pattern):
    rng = random.Random(5)
    for _ in range(40):
        filter = made(pattern)
        ids, ended = write(filter, rng)
        assert ended and re.fullmatch(pattern, bytes(id for id in ids if id != END).decode())


def test_an_output_that_cannot_go_on_is_completed_and_others_need_an_end():
    filter = made("ab?")
    assert not filter.feed(ord("a")) and allowed(filter) == {ord("b"), END}
    assert filter.feed(ord("b")) and not filter.is_active
    filter.rewind(1)
    assert filter.is_active and allowed(filter) == {ord("b"), END}
    assert filter.feed(END) and filter.is_completed()
    filter.rewind(2)
    assert allowed(filter) == {ord("a")} and filter.use_background_worker()


def test_a_filter_begins_at_its_trigger_and_again_at_the_next():
    filter = made("[ab]c", trigger_token=TRIGGER, eos_after_completed=False)
    for text in (b"xx!ac", b"..!bc"):
        for token in text:
            if filter.is_active:
                assert token in allowed(filter)
            assert not filter.feed(token)
        assert not filter.is_active
    filter.rewind(1)
    assert filter.is_active and allowed(filter) == {ord("c")}
    filter.rewind(2)
    assert not filter.is_active


def test_a_prefix_is_part_of_the_output():
    filter = made("abc|xyz", prefix_str="ab")
    assert allowed(filter) == {ord("c")}
    filter.feed(ord("c"))
    filter.reset()
    assert allowed(filter) == {ord("c")}
    with pytest.raises(guided.GuidedError, match="does not allow the prefix"):
        made("abc", prefix_str="q")


def test_an_output_is_complete_within_its_budget():
    rng = random.Random(3)
    for most in (4, 7):
        for _ in range(20):
            ids, _ = write(made("a[0-9]*b", max_tokens=most), rng, most + 1)
            assert re.fullmatch("a[0-9]*b", bytes(id for id in ids if id != END).decode()) and len(ids) <= most + 1
    with pytest.raises(guided.BudgetError):
        made("a{9}", max_tokens=3).get_next_logit_mask()


def test_tokens_before_the_trigger_count_towards_the_budget():
    rng = random.Random(4)
    for most in (8, 12):
        filter = made("a[0-9]*b", trigger_token=TRIGGER, max_tokens=most)
        for _ in range(20):
            filter.attach(JOB)
            filter.reset()
            filter.is_active = False
            ids, _ = write(filter, rng, most + 1)
            text = bytes(id for id in ids if id != END).decode()
            before, _, answer = text.partition("!")
            if len(before) + 3 <= most:
                assert re.fullmatch("a[0-9]*b", answer) and len(text) <= most, text
            assert re.fullmatch("(a[0-9]*b?)?", answer)


def test_a_late_trigger_leaves_the_constraint():
    filter = made("a{3}", trigger_token=TRIGGER, max_tokens=4)
    for token in b"??!a":
        filter.feed(token)
    assert allowed(filter) == {ord("a")}


def test_error_messages(monkeypatch):
    with pytest.raises(guided.GuidedError, match="token 122 is not allowed"):
        made("ab").feed(ord("z"))
    with pytest.raises(guided.GuidedError, match="263 is not a token id"):
        made("ab").feed(263)  # padding of the model's logits
    with pytest.raises(guided.GuidedError, match="there is no constraint"):
        made(None)
    monkeypatch.setattr(Filter, "rollback_tokens", lambda self: False)
    with pytest.raises(guided.GuidedError, match=r"rollback_tokens.*install"):
        made("ab")


def test_the_vocabulary_is_read_from_its_tokenizer():
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    backend = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1}, []))
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens(["</s>", "<other>"])
    config = SimpleNamespace(eos_token_id_list=[2, 3])
    assert vocabulary_of(SimpleNamespace(config=config, tokenizer=backend, eos_token_id=2)).eos_token_ids == {2, 3}
    none = SimpleNamespace(config=SimpleNamespace(), tokenizer=backend, eos_token_id=3)
    assert vocabulary_of(none).eos_token_ids == {3}


def test_the_stand_in_has_the_signatures_that_guided_expects():
    for name, parameters in plugin.EXPECTED.items():
        for each in {Filter, exllamav3_standin.Filter}:
            assert tuple(signature(getattr(each, name)).parameters) == parameters
