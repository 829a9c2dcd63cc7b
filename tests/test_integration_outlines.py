"""outlines with guided as its backend: the types of outlines, its generators, batches and streams."""

from __future__ import annotations

import json
import re
import warnings
from typing import Literal

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of outlines' dependencies
    outlines = pytest.importorskip("outlines", reason="outlines is not installed")

import guided  # noqa: E402
from guided.integrations.outlines import GuidedBackend, GuidedProcessor, generator, vocabulary_of  # noqa: E402
from tests.transformers_support import small_model, small_tokenizer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of outlines and transformers

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}, "required": ["a", "b"]}
BUDGET = 40


@pytest.fixture(scope="module")
def model():
    tokenizer = small_tokenizer()
    return outlines.from_transformers(small_model(tokenizer), tokenizer)


@pytest.mark.parametrize(
    ("output_type", "pattern"),
    [
        (Literal["yes", "no"], "yes|no"),
        (int, r"[+-]?(0|[1-9][0-9]*)"),
        (outlines.regex("[a-c]{3,5}x"), "[a-c]{3,5}x"),
        (outlines.types.CFG('start: "a" "b"* "c"'), "ab*c"),
        (outlines.types.CFG('root ::= "x" [0-9]'), "x[0-9]"),
    ],
)
def test_types_of_outlines(model, output_type, pattern):
    generate = generator(model, output_type, max_new_tokens=BUDGET)
    for seed in range(3):
        torch.manual_seed(seed)
        text = generate("x", max_new_tokens=BUDGET, do_sample=True)
        assert re.fullmatch(pattern, text), text


def test_a_schema_is_complete_within_the_budget_and_follows_the_options(model):
    schema = outlines.json_schema(SCHEMA)
    for options, gap in (({}, ": "), ({"whitespace": "compact"}, ":")):
        text = generator(model, schema, max_new_tokens=BUDGET, **options)("x", max_new_tokens=BUDGET)
        assert set(json.loads(text)) == {"a", "b"} and f'"a"{gap}' in text
    spaced = outlines.types.JsonSchema(SCHEMA, whitespace_pattern="[ ]{2}")
    assert '{  "a"  :  ' in generator(model, spaced, max_new_tokens=60)("x", max_new_tokens=60)


def test_keywords_that_outlines_core_does_not_read(model):
    schema = outlines.json_schema({"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "minItems": 3})
    torch.manual_seed(0)
    assert sorted(json.loads(generator(model, schema)("x", max_new_tokens=60, do_sample=True))) == [1, 2, 3]


def test_constraints_of_guided(model):
    part = guided.text("<") + guided.regex("[ab]+") + guided.text(">")
    for constraint in (part, GuidedBackend(model).compiler.compile_regex("<[ab]+>")):
        text = generator(model, constraint, max_new_tokens=12)("x", max_new_tokens=12)
        assert re.fullmatch("<[ab]+>", text)


def test_batches_and_a_second_call(model):
    generate = generator(model, outlines.regex("[0-9]{4}"), max_new_tokens=8)
    for _ in range(2):
        texts = generate.batch(["x", "abc true 12"], max_new_tokens=8)
        assert len(texts) == 2 and all(re.fullmatch("[0-9]{4}", text) for text in texts)


def test_a_constraint_wins_over_a_least_number_of_tokens(model):
    generate = generator(model, outlines.regex("[ab]{2,3}"), max_new_tokens=9, canonical=True)
    for number in (3, 5, 9):
        assert re.fullmatch("[ab]{3}", generate("x", max_new_tokens=9, min_new_tokens=number)), number


def test_the_methods_of_a_backend(model):
    backend = GuidedBackend(model, max_new_tokens=BUDGET)
    assert isinstance(backend, outlines.backends.BaseBackend)
    made = {
        '{"a": 1}': backend.get_json_schema_logits_processor('{"const": {"a": 1}}'),
        '{"a":1}': backend.get_json_schema_logits_processor('{"const": {"a": 1}}', ""),
        "ab": backend.get_regex_logits_processor("ab"),
        "q": backend.get_cfg_logits_processor('start: "q"'),
    }
    for text, processor in made.items():
        assert isinstance(processor, GuidedProcessor)
        assert outlines.Generator(model, processor=processor)("x", max_new_tokens=BUDGET) == text


def test_arrays_of_one_row_of_numpy_stay_as_they_are(model):
    import numpy as np

    processor = GuidedBackend(model).get_regex_logits_processor("a")
    logits = np.zeros(vocabulary_of(model).size, np.float32)
    masked = processor(np.array([1, 2]), logits)
    allowed = [number for number, score in enumerate(masked) if np.isfinite(score)]
    assert [processor.grammar.vocabulary.token_bytes(number) for number in allowed] == [b"a"]
    assert np.isfinite(logits).all()


def test_unsupported_features_are_reported():
    with pytest.raises(guided.GuidedError, match="Transformers and LlamaCpp are"):
        vocabulary_of(object())
