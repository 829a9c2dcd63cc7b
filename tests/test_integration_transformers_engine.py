"""The engine with models of transformers: its outputs equal those of `generate` with the processor."""

from __future__ import annotations

import re

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import guided  # noqa: E402
from guided.integrations.transformers import GuidedLogitsProcessor, vocabulary_of  # noqa: E402
from tests.transformers_support import small_model, small_tokenizer  # noqa: E402

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "maximum": 99}, "b": {"enum": ["x", "yes"]}},
    "required": ["a"],
}
PROMPTS = ["x", "abc true 12", "tell me of it"]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2}


def other_models(tokenizer):
    """Architectures with other kinds of caches: learned positions, a sliding window, a state space."""
    size, ends = len(tokenizer), {"eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    attention = {**SIZES, **ends, "num_attention_heads": 4, "num_key_value_heads": 2}
    attention |= {"intermediate_size": 48, "max_position_embeddings": 256}
    mamba = transformers.MambaConfig(vocab_size=size, state_size=4, **SIZES, **ends)
    torch.manual_seed(2)
    return {
        "gpt2": transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=size, n_embd=32, n_layer=2, n_head=4, n_positions=256, **ends)
        ),
        "mistral": transformers.MistralForCausalLM(
            transformers.MistralConfig(vocab_size=size, sliding_window=8, **attention)
        ),
        "gemma2": transformers.Gemma2ForCausalLM(
            transformers.Gemma2Config(vocab_size=size, sliding_window=8, head_dim=8, pad_token_id=None, **attention)
        ),
        "mamba": transformers.MambaForCausalLM(mamba),
    }


@pytest.fixture(scope="module")
def tokenizer():
    return small_tokenizer()


def alone(model, tokenizer, prompt, constraint, max_tokens):
    """The output of transformers alone, greedily."""
    inputs = tokenizer([prompt], return_tensors="pt")
    processor = [] if constraint is None else [
        GuidedLogitsProcessor(constraint, vocabulary_of(tokenizer, model), max_new_tokens=max_tokens)
    ]  # fmt: skip
    out = model.generate(**inputs, logits_processor=processor, max_new_tokens=max_tokens, do_sample=False)
    return tokenizer.decode(out[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral", "gemma2", "mamba"])
def test_outputs_match_generate(tokenizer, name):
    model = (small_model(tokenizer) if name == "llama" else other_models(tokenizer)[name]).eval()
    engine = guided.from_transformers(model, tokenizer)
    for constraint in (None, "[ab]{3,30}"):
        wanted = [alone(model, tokenizer, prompt, constraint, 24) for prompt in PROMPTS]
        found = engine.generate_batch(PROMPTS, constraint, max_tokens=24, budget_ramp=0.0)
        assert [result.text for result in found] == wanted
        drafted = engine.generate_batch(PROMPTS, constraint, max_tokens=24, budget_ramp=0.0, drafts=4)
        assert [result.text for result in drafted] == wanted


def test_values_streams_and_samples(tokenizer):
    engine = guided.from_transformers(small_model(tokenizer), tokenizer)
    result = engine.generate("x", SCHEMA, max_tokens=40, temperature=1.0, seed=3)
    assert 0 in result.token_masks and result.value["a"] <= 99
    pieces = list(engine.stream("x", SCHEMA, max_tokens=40, temperature=1.0, seed=3))
    assert "".join(event.text for event in pieces) == result.text == pieces[-1].result.text
    samples = engine.generate("x", "[ab]{4}", n=5, max_tokens=8, temperature=2.0, seed=1)
    assert all(re.fullmatch("[ab]{4}", sample.text) for sample in samples) and len({s.text for s in samples}) > 1
    assert engine.scheduler.runner.cache.available == engine.scheduler.runner.cache.capacity


def test_conversations_are_rendered_with_the_template(tokenizer):
    tokenizer = small_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = (
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
        "{{ '<|im_start|>assistant\n' }}"
    )
    engine = guided.from_transformers(small_model(tokenizer), tokenizer)
    messages = [{"role": "system", "content": "Be."}, {"role": "user", "content": "x ab"}]
    ids = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False)
    assert engine.encode_prompt(messages) == ids


def test_models_without_logits_are_refused(tokenizer):
    model = transformers.LlamaModel(small_model(tokenizer).config)
    with pytest.raises(guided.GuidedError, match="load it as a causal model"):
        guided.from_transformers(model, tokenizer)


def test_models_that_read_prompts_differently_are_refused(tokenizer):
    sizes = {"vocab_size": len(tokenizer), "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    with pytest.raises(guided.GuidedError, match="reads its prompt with an encoder"):
        guided.from_transformers(transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes)), tokenizer)
    sizes = {"vocab_size": len(tokenizer), "num_hidden_layers": 1, "intermediate_size": 16}
    masked = transformers.BertForMaskedLM(transformers.BertConfig(**sizes, hidden_size=16, num_attention_heads=2))
    with pytest.raises(guided.GuidedError, match="load it as a causal model"):
        guided.from_transformers(masked, tokenizer)


@pytest.mark.parametrize("template", ["<pad> $A", "<pad> $A <eos>", "<pad> <eos> $A", "$A <eos>", "$A"])
def test_texts_begin_as_the_tokenizer_has_them(template):
    """Its post-processor adds control tokens, as Llama 3's does, whatever `add_bos_token` says."""
    tokenizer = small_tokenizer()
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in ("<pad>", "<eos>")}
    processing = tokenizers.processors.TemplateProcessing
    tokenizer.backend_tokenizer.post_processor = processing(single=template, special_tokens=list(ids.items()))
    before = [ids[name] for name in template.partition("$A")[0].split()]
    for text in ("a", "x ab"):
        whole = tokenizer(text)["input_ids"]
        found = guided.from_transformers(small_model(tokenizer), tokenizer).encode_prompt(text)
        assert found == whole[: len(found)] and found[: len(before)] == before
        assert whole[len(found) :] in ([], [ids["<eos>"]])  # a text to continue has no end token


def test_objects_that_are_not_tokenizers_are_refused(tokenizer):
    with pytest.raises(guided.VocabularyError, match="NoneType"):
        guided.from_transformers(small_model(tokenizer), None)
