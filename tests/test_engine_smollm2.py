"""The decode loop with SmolLM2-135M-Instruct. Skipped if its weights are neither cached nor in GUIDED_ASSETS."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import torch

from guided.engine.engine import Engine
from guided.engine.runner import cache_shape
from guided.files.gguf import GgufFile
from guided.kv.dense import DenseCache
from guided.kv.offload.cache import OffloadCache
from guided.kv.paged import PagedCache
from guided.kv.quantised import QuantisedCache, packed_shape
from guided.kv.radix import RadixCache
from guided.models.block_matrix import BlockMatrix
from guided.models.decoder import Decoder
from tests.effort import draws
from tests.engine_support import Reader
from tests.weights import SMOLLM2, weights_of

pytestmark = pytest.mark.model
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 48},
        "age": {"type": "integer", "minimum": 0, "maximum": 9999},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 4},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
TEXT = "Extract as JSON (name, age, tags): Maria Silva, 34 years old, likes hiking, jazz and cooking."
MESSAGES = [{"role": "user", "content": TEXT}]


@pytest.fixture(scope="module")
def path() -> Path:
    return weights_of(SMOLLM2)


@pytest.fixture(scope="module", params=["auto", "bfloat16", pytest.param("float32", marks=pytest.mark.slow)])
def engine(request, path):
    torch.set_num_threads(1)
    return Engine.from_pretrained(path, dtype=request.param)


def test_it_answers(engine):
    question = [{"role": "user", "content": "What is the capital of France?"}]
    result = engine.generate(question, ["The capital of France is " + c for c in ("London.", "Paris.", "Rome.")])
    assert "Paris" in result.text
    if isinstance(engine.model.head, torch.Tensor):  # with rounded activations, the text may differ
        free = engine.generate(question, max_tokens=40)
        assert (free.text, free.finish_reason, free.removed_log_mass) == (result.text, "stop", 0)


def test_the_template_is_the_models_own(engine, path):
    jinja2 = pytest.importorskip("jinja2")
    with GgufFile(path) as file:
        template = file.metadata["tokenizer.chat_template"]
    for turns in (MESSAGES, [{"role": "system", "content": "be brief"}, *MESSAGES]):
        text = jinja2.Environment().from_string(template).render(messages=turns, add_generation_prompt=True)
        assert engine.encode_prompt(turns) == engine.vocabulary.encode_with_special(text)


def test_a_record_is_valid_with_a_wide_and_with_the_narrowest_budget(engine):
    wide = engine.generate(MESSAGES, SCHEMA)
    jsonschema.validate(wide.value, SCHEMA)
    assert wide.value["name"] == "Maria Silva"
    assert wide.value["age"] == 34
    for budget in (30, 20):
        narrow = engine.generate(MESSAGES, SCHEMA, max_tokens=budget)
        jsonschema.validate(narrow.value, SCHEMA)
        assert len(narrow.tokens) <= budget
    assert wide.removed_log_mass <= engine.generate(MESSAGES, SCHEMA, score_forced=True).removed_log_mass + 0.1


def test_cached_is_full_recompute(engine):
    ids = engine.encode_prompt(MESSAGES)
    result = engine.generate(ids, max_tokens=24, ignore_eos=True)
    whole = Reader(engine.model, 400).forward([*ids, *result.tokens], len(result.tokens) + 1)
    assert [int(row.argmax()) for row in whole[:-1]] == result.tokens
    reader = Reader(engine.model, 400)
    single = torch.cat([reader.forward([token]) for token in [*ids, *result.tokens]])
    assert torch.equal(single[len(ids) - 1 :], whole)


def same_again(engine, prompts, **options):
    """Each prompt with a cold and a warm cache, in one piece and in chunks: tokens and all log probabilities."""

    def fresh(token_budget=512):
        kind = "int8" if isinstance(engine.scheduler.runner.cache, QuantisedCache) else "auto"
        return Engine(
            engine.model,
            engine.vocabulary,
            chat=engine.chat_template,
            bos=engine.bos,
            kv_dtype=kind,
            token_budget=token_budget,
        )

    options |= {"max_tokens": 14, "logprobs": 2}
    runs = fresh()
    cold = [runs.generate(prompt, **options) for prompt in prompts]
    warm = [runs.generate(prompt, **options) for prompt in prompts]
    others = fresh(token_budget=11).generate_batch(prompts, drafts=4, **options)
    for one, *more in zip(cold, warm, others, strict=True):
        for other in more:
            assert (one.tokens, one.logprobs) == (other.tokens, other.logprobs)


QUESTIONS = [
    [{"role": "user", "content": f"Name {count} things about {place}."}]
    for place in ("Lisbon", "Oslo", "Rome", "Turin", "Paris", "Berlin", "Madrid", "Vienna", "Prague", "Athens")
    for count in ("one", "two", "three", "four", "five", "six")
]
each_choice = pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 1}], ids=["greedy", "sampled"])


@each_choice
@pytest.mark.parametrize("engine", ["auto"], indirect=True)
def test_the_same_request_has_the_same_answer(engine, options):
    """For some questions. Slow tests below use all of them, and other types."""
    same_again(engine, QUESTIONS[::24], **options)


@pytest.mark.slow
@each_choice
@pytest.mark.parametrize(
    ("dtype", "kv_dtype"), [("auto", "auto"), ("auto", "int8"), ("bfloat16", "auto"), ("float32", "auto")]
)
def test_sixty_requests_have_the_same_answers(path, dtype, kv_dtype, options):
    same_again(Engine.from_pretrained(path, dtype=dtype, kv_dtype=kv_dtype), QUESTIONS, **options)


def test_samples_and_a_stream(engine):
    results = engine.generate(MESSAGES, r"[A-Z][a-z]{2,9} [A-Z][a-z]{2,9}", n=3, temperature=1.0, top_p=0.9, seed=4)
    assert all(r.text.istitle() for r in results)
    events = list(engine.stream(MESSAGES, ["é", "ü", "日本"], temperature=2.0, seed=1))
    assert "".join(e.text for e in events) in ("é", "ü", "日本")


PLACES = ["Lisbon, where Ana lives", "Oslo, 12 degrees, rain", "Rome: Rome, Rome", "a farm near Turin"]
PROMPTS = [[{"role": "user", "content": f"Extract as JSON (name, age, tags): {place}."}] for place in PLACES]
CONSTRAINTS = [SCHEMA, None, r"[A-Z][a-z]+( [a-z]+){2,8}\.", ["yes", "no", "maybe not"]]


def tokens(engine, cache=None, budget=512, **options):
    """The tokens of the four prompts in one batch with an empty cache: mixed constraints, greedy."""
    runs = Engine(
        engine.model, engine.vocabulary, chat=engine.chat_template, bos=engine.bos, cache=cache, token_budget=budget
    )
    return [r.tokens for r in runs.generate_batch(PROMPTS, constraints=CONSTRAINTS, max_tokens=28, **options)]


@pytest.mark.parametrize(
    "engine",
    ["auto", *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("bfloat16", "float32"))],
    indirect=True,
)
def test_batch_composition_caches_chunks_and_drafts_change_nothing(engine):
    """Batch = single requests; constrained rows never change others; paged = dense = radix = offloaded; chunked =
    whole.
    """
    shape = cache_shape(engine.model)
    want = tokens(engine)
    for prompt, constraint, together in zip(PROMPTS, CONSTRAINTS, want, strict=True):
        assert engine.generate(prompt, constraint, max_tokens=28).tokens == together
    offloaded = OffloadCache(shape, blocks=64, ring_slots=4, block_size=16)
    for cache in (DenseCache(shape, 4096), RadixCache(shape, 4096), PagedCache(shape, 16), offloaded):
        assert tokens(engine, cache) == want
    assert tokens(engine, budget=9) == want
    assert tokens(engine, drafts=4) == want


def test_quantised_caches_agree(path):
    """The same with quantised weights. The scores are hardly further from exact ones than without such a cache."""
    engine = Engine.from_pretrained(path, kv_dtype="int8")
    shape = cache_shape(engine.model)
    inner = packed_shape(shape)
    want = tokens(engine, QuantisedCache(DenseCache(inner, 4096), shape))
    offloaded = OffloadCache(inner, blocks=64, ring_slots=4, block_size=16)
    for cache in (RadixCache(inner, 4096), PagedCache(inner, 16), offloaded):
        assert tokens(engine, QuantisedCache(cache, shape), budget=9, drafts=4) == want
    assert engine.generate(PROMPTS[2], CONSTRAINTS[2], max_tokens=28).tokens == want[2]
    text = (Path(__file__).parents[1] / "docs" / "levels.md").read_text(encoding="utf-8")
    ids = list(engine.vocabulary.encode(text[:5000]))[: draws(1000)]
    packed = engine.logits(ids, len(ids)).log_softmax(-1)
    exact = Engine.from_pretrained(path, dtype="float32").logits(ids, len(ids)).log_softmax(-1)
    plain = Reader(engine.model, 1100).forward(ids, len(ids)).log_softmax(-1)
    distances = [float((exact.exp() * (exact - other)).sum(-1).mean()) for other in (plain, packed)]
    assert 0 < distances[0] < 0.008 and 0 < distances[1] < 0.01 and distances[0] != distances[1]
    assert (exact.argmax(-1) == packed.argmax(-1)).float().mean() > 0.95


def test_a_model_that_is_compiled_has_plain_weights(path, monkeypatch):
    """torch.compile cannot trace the products of quantised weights, and silently produced wrong results."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    compiled, own = (Engine.from_pretrained(path, compile=compile).model for compile in (True, False))
    assert isinstance(compiled, Decoder) and isinstance(own, Decoder)
    assert isinstance(own.layers[0].qkv, BlockMatrix) and isinstance(compiled.layers[0].qkv, torch.Tensor)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="cannot multiply"):
        Reader(own.compile(backend="eager"), 8).forward([1, 2], 1)
