"""Tokenizers with added tokens for which the model has no logits, as those of text-only Gemma 3 models."""

from __future__ import annotations

import json
import re

import pytest
import torch

import guided
from guided.engine.engine import Engine
from guided.errors import GuidedError, SpecError, VocabularyError
from guided.vocabulary import Vocabulary
from guided.vocabulary.bounded import fit_to_logits

transformers = pytest.importorskip("transformers", reason="transformers is the judge of its checkpoints")
tokenizers = pytest.importorskip("tokenizers")

from guided.integrations.transformers import GuidedLogitsProcessor  # noqa: E402 - needs transformers

torch.set_num_threads(1)
LOGITS = 260  # bytes, two merges, and two end tokens
CHAT = "{% for m in messages %}{{ m.content }}<end_of_turn>{% endfor %}"


def make_tokenizer(*, special=("<image_soft_token>",), text=()):
    """A byte-level tokenizer with `LOGITS` tokens and some more."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {piece: number for number, piece in enumerate([*alphabet, "ab", "abc"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, [("a", "b"), ("ab", "c")]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<eos>", "<end_of_turn>", *special])
    tokenizer.add_tokens(list(text))
    return tokenizer


def make_model(logits=LOGITS):
    torch.manual_seed(3)
    config = transformers.Gemma3TextConfig(
        vocab_size=logits, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=96, sliding_window=8, bos_token_id=None,
        eos_token_id=258, pad_token_id=None,
    )  # fmt: skip
    return transformers.Gemma3ForCausalLM(config).eval()


def save(path, tokenizer, model):
    model.save_pretrained(path)
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<eos>", "chat_template": CHAT}))
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": [258, 259]}))
    return path


def wrapped(tokenizer):
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>", chat_template=CHAT
    )


@pytest.fixture(params=["a folder", "a model of transformers"])
def make_engine(request, tmp_path):
    def make(tokenizer, model):
        if request.param == "a folder":
            return Engine.from_pretrained(save(tmp_path, tokenizer, model), dtype="float32")
        return guided.from_transformers(model, wrapped(tokenizer))

    return make


def test_such_models_load_and_never_write_these_tokens(make_engine):
    tokenizer, model = make_tokenizer(text=["<foo>"]), make_model()
    assert tokenizer.get_vocab_size() == LOGITS + 2
    engine = make_engine(tokenizer, model)
    assert engine.vocabulary.size == LOGITS and 258 in engine.vocabulary.eos_token_ids
    assert engine.encode_prompt("xabcab", raw=True) == tokenizer.encode("xabcab").ids  # not the fewest tokens
    for seed in range(5):
        result = engine.generate("abc", "(<foo>|<image_soft_token>){2}", seed=seed, temperature=2.0, max_tokens=64)
        assert re.fullmatch("(<foo>|<image_soft_token>){2}", result.text)
        assert max(result.tokens) < LOGITS
    with pytest.raises(SpecError, match="image_soft_token"):
        engine.generate("abc", guided.lark("start: <image_soft_token>"))


def test_prompts_with_these_tokens_are_refused(make_engine):
    engine = make_engine(make_tokenizer(text=["<foo>"]), make_model())
    with pytest.raises(VocabularyError, match=r"'<image_soft_token>' \(id 260\), but the model has only 260 logits"):
        engine.vocabulary.encode_with_special("a<image_soft_token>")
    with pytest.raises(VocabularyError, match=r"contains the token '<foo>' \(id 261\)"):
        engine.generate([{"role": "user", "content": "a<foo>"}], "a", max_tokens=4)
    with pytest.raises(VocabularyError, match=r"contains the token '<foo>' \(id 261\)"):
        engine.generate("a<foo>", "a", max_tokens=4)
    with pytest.raises(GuidedError, match="260"):
        engine.generate([97, 260], "a", max_tokens=4)
    with pytest.raises(VocabularyError, match=r"contains the token '<image_soft_token>' \(id 260\)"):
        engine.generate([{"role": "user", "content": "a<image_soft_token>"}], "a", max_tokens=4)
    assert engine.generate([{"role": "user", "content": "abc"}], "ab?c", max_tokens=8).text in ("abc", "ac")


def test_the_processor_masks_as_the_engine(make_engine):
    tokenizer, model = make_tokenizer(text=["<foo>"]), make_model()
    constraint = "(<foo>|abc|x){3}"
    wanted = make_engine(tokenizer, model).generate("abcab", constraint, temperature=0.0, max_tokens=20)
    inputs = wrapped(tokenizer)(["abcab"], return_tensors="pt")
    for source in (wrapped(tokenizer), Vocabulary.from_huggingface(tokenizer)):
        processor = GuidedLogitsProcessor(constraint, source, max_new_tokens=20)
        for _ in range(2):
            ids = model.generate(
                input_ids=inputs["input_ids"], logits_processor=[processor], max_new_tokens=20, do_sample=False,
                pad_token_id=258,
            )[0, inputs["input_ids"].shape[1] :].tolist()  # fmt: skip
            assert [id for id in ids if id < 258] == [id for id in wanted.tokens if id < 258]
            processor.reset()


def test_budgets_count_only_tokens_with_logits():
    """`<foo>` would be one token, but the model cannot write it."""
    tokenizer, model = make_tokenizer(text=["<foo>"]), make_model()
    ids = torch.tensor([[97]])
    with pytest.raises(guided.BudgetError):
        processor = GuidedLogitsProcessor("<foo>", wrapped(tokenizer), max_new_tokens=4)
        model.generate(input_ids=ids, logits_processor=[processor], max_new_tokens=4, pad_token_id=258)
    processor = GuidedLogitsProcessor("<foo>", wrapped(tokenizer), max_new_tokens=6)
    out = model.generate(input_ids=ids, logits_processor=[processor], max_new_tokens=6, pad_token_id=258)
    assert tokenizer.decode(out[0, 1:].tolist()) == "<foo>"


def test_canonical_texts(make_engine):
    engine = make_engine(make_tokenizer(), make_model())
    result = engine.generate("x", "(abc){3}", canonical=True, max_tokens=12)
    assert [id for id in result.tokens if id < 258] == [257] * 3


def test_a_tokenizer_of_another_model_is_refused(make_engine):
    tokenizer = make_tokenizer(special=[])
    with pytest.raises(VocabularyError, match=r"260 tokens, but .* only 257, and token 257 \(b'abc'\) is not an added"):
        make_engine(tokenizer, make_model(257))
    with pytest.raises(VocabularyError, match=r"none for the end tokens \[258.*\]: the tokenizer belongs to another"):
        make_engine(tokenizer, make_model(258))


def test_the_processor_refuses_a_tokenizer_of_another_model():
    processor = GuidedLogitsProcessor("abc", wrapped(make_tokenizer(special=[])))
    with pytest.raises(VocabularyError, match="is not an added token: the tokenizer belongs to another model"):
        processor(torch.tensor([[1]]), torch.zeros(1, 257))


def test_fit_to_logits():
    vocabulary = Vocabulary.from_huggingface(make_tokenizer(text=["<foo>"]))
    assert fit_to_logits(vocabulary, 262) is vocabulary and fit_to_logits(vocabulary, 300) is vocabulary
    smaller = fit_to_logits(vocabulary, 261)
    assert (smaller.size, smaller.special_tokens[260], smaller.text_markers) == (261, "<image_soft_token>", ())
    assert smaller.encode_with_special("<image_soft_token>abc") == [260, 257]
    smallest = fit_to_logits(vocabulary, 259)
    assert smallest.eos_token_ids == {258} and dict(smallest.special_tokens) == {258: "<eos>"}
    assert smallest.encode("<end_of_turn>") == vocabulary.encode("<end_of_turn>")  # names are text
    with pytest.raises(VocabularyError, match=r"'<end_of_turn>' \(id 259\), but the model has only 259 logits"):
        smallest.encode_with_special("a<end_of_turn>")
