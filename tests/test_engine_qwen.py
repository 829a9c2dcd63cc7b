"""Qwen2.5-Coder-0.5B-Instruct, a model that follows instructions. Skipped if its weights are missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import torch

import guided
from guided.chat import Conversation
from guided.engine.engine import Engine
from guided.files.known_models import MODELS
from tests.weights import QWEN, weights_of

pytestmark = pytest.mark.real_model
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "hobbies": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 4},
    },
    "required": ["name", "age", "hobbies"],
    "additionalProperties": False,
}
EXTRACT = "Extract as JSON (name, age, hobbies): Maria Silva, 34 years old, likes hiking, jazz and cooking."
QUESTIONS = ["What is the capital of France?", "Name a colour of the rainbow.", "What is 17 + 25?", EXTRACT]
CONSTRAINTS = [None, ["red", "green", "blue", "pink"], r"\d{1,4}", PERSON]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 30}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def path() -> Path:
    return weights_of(QWEN)


@pytest.fixture(scope="module")
def engine(path) -> Engine:
    torch.set_num_threads(1)
    return Engine.from_pretrained(path)


def test_loading_takes_little_more_memory_than_the_file(path):
    """The quantised weights are multiplied without conversion: there is never a copy in float32."""
    code = """
import json, resource, sys
import torch
from guided.engine.engine import Engine
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
engine = Engine.from_pretrained(sys.argv[1])
print(json.dumps([before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    before, after = json.loads(done.stdout)
    unit = 1 if sys.platform == "darwin" else 1024
    assert (after - before) * unit < 1.5 * MODELS[QWEN].size


def test_simple_questions_have_sensible_answers(engine):
    free = engine.generate(QUESTIONS[0], max_tokens=40)
    assert "Paris" in free.text and (free.finish_reason, free.removed_log_mass) == ("stop", 0)
    assert engine.generate("What is 17 + 25? Answer with the number alone.", r"\d{1,4}").text == "42"
    assert (
        engine.generate(QUESTIONS[0], [f"The capital of France is {c}." for c in ("Rome", "Paris")]).text == free.text
    )


def test_extracted_values_are_valid_and_right(engine):
    result = engine.generate(EXTRACT, PERSON)
    jsonschema.validate(json.loads(result.text), PERSON)
    assert result.value == {"name": "Maria Silva", "age": 34, "hobbies": ["hiking", "jazz", "cooking"]}
    narrow = engine.generate(EXTRACT, PERSON, max_tokens=22)
    jsonschema.validate(narrow.value, PERSON)
    assert len(narrow.tokens) <= 22


def test_a_batch_of_four_has_the_tokens_of_four_singles(engine):
    """Constraints of several kinds and free text, and the same again with the prompts in the cache."""
    options = {"max_tokens": 30, "logprobs": 1}
    singles = [engine.generate(q, c, **options) for q, c in zip(QUESTIONS, CONSTRAINTS, strict=True)]
    for _ in range(2):
        batch = engine.generate_batch(QUESTIONS, constraints=CONSTRAINTS, **options)
        for one, other in zip(singles, batch, strict=True):
            assert (one.tokens, one.logprobs) == (other.tokens, other.logprobs)


def test_it_calls_a_tool_and_answers_with_the_result(engine):
    assert engine.chat_template is not None and engine.chat_template.tool_style is not None
    style = guided.tool_style(engine.chat_template.tool_style)
    tag = style.structural_tag([WEATHER], tool_choice="required", parallel_tool_calls=False)
    grammar = engine.compiler.compile_structural_tag(tag, allow_special_tokens=True)
    messages = [{"role": "user", "content": "What is the weather in Berlin now?"}]
    result = engine.generate(Conversation(messages, tools=[WEATHER]), grammar, max_tokens=80)
    (*_, call) = style.reader([WEATHER]).read(result.text)
    assert call.complete and call.name == "get_weather"
    assert json.loads(call.arguments) == {"city": "Berlin"}
    function = {"name": call.name, "arguments": call.arguments}
    messages += [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "1", "content": '{"sky": "rain", "celsius": 18}'},
    ]
    answer = engine.generate(Conversation(messages, tools=[WEATHER]), r"It is \d{1,2} degrees\.")
    assert answer.text == "It is 18 degrees."


def test_a_continued_conversation_is_read_from_the_cache(engine):
    """The tokens and log probabilities of the second turn equal those of an engine with an empty cache."""
    messages = [{"role": "user", "content": EXTRACT}]
    first = engine.generate(messages, PERSON)
    messages += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "How old is she?"}]
    fresh = Engine(engine.model, engine.vocabulary, chat=engine.chat_template, bos=engine.bos)
    warm, cold = (each.generate(messages, r"\d{1,3}", logprobs=2) for each in (engine, fresh))
    assert warm.text == "34"
    assert (warm.tokens, warm.logprobs) == (cold.tokens, cold.logprobs)
