"""The processor for llama-cpp-python, called as `Llama.generate` calls it: with the ids so far and logits."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from types import SimpleNamespace

import jsonschema
import numpy as np
import pytest

import guided
from guided.integrations.llama_cpp import GuidedLogitsProcessor, LlamaGrammar, LogitsProcessorList
from tests.canonical_support import huggingface

VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_token_ids=[256])
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": [1, "x"]}}, "required": ["a"]}


def write(processor, prompt: bytes, most: int, rng: random.Random) -> str:
    """A completion with random logits, in the manner of llama-cpp-python. An end token ends it."""
    ids = np.frombuffer(prompt, np.uint8).astype(np.intc)
    begin = len(ids)
    for _ in range(most):
        own = np.array([rng.gauss(0, 3) for _ in range(VOCABULARY.size)], np.single)
        before = own.copy()
        scores = processor(ids, own)
        assert (own == before).all() and scores.dtype == np.single
        token = int(scores.argmax())
        if token == 256:
            break
        ids = np.append(ids, np.intc(token))
    return bytes(ids[begin:].astype(np.uint8)).decode()


@pytest.mark.parametrize("most", [8, 20, 60])
def test_completions_are_complete_within_their_budget(most):
    processor, rng = GuidedLogitsProcessor(SCHEMA, VOCABULARY, max_tokens=most), random.Random(most)
    for number in range(20):
        jsonschema.validate(json.loads(write(processor, b"prompt %d" % number, most, rng)), SCHEMA)


def test_the_next_completion_begins_anew():
    processor, rng, prompt = GuidedLogitsProcessor("[ab]{3}", VOCABULARY, max_tokens=4), random.Random(1), b"x"
    for _ in range(5):
        text = write(processor, prompt, 4, rng)
        assert re.fullmatch("[ab]{3}", text)
        prompt += text.encode() + b" and "


@pytest.mark.parametrize("length", range(6))
def test_prompts_that_continue_the_previous_answer(length):
    """Its first characters begin a new completion. With the whole answer and one more token, `reset` is needed."""
    processor, rng = GuidedLogitsProcessor("[ab]{4}x*", VOCABULARY, max_tokens=6), random.Random(6)
    text = write(processor, b"x", 6, rng)
    if length > len(text) - 2:
        processor.reset()
    answer = write(processor, b"x" + (text + "xxx")[:length].encode(), 6, rng)
    assert re.fullmatch("[ab]{4}x*", answer)


def test_completions_of_several_prompts_at_a_time_are_reported():
    """llama-cpp-python ignores errors of a processor, so the text ends."""
    processor, scores = GuidedLogitsProcessor("[ab]{3}", VOCABULARY), np.zeros(257, np.single)
    for prompt in ([1], [2]):
        processor(np.array(prompt, np.intc), scores)
    with pytest.warns(RuntimeWarning, match="create a processor for each sequence"):
        masked = processor(np.array([1, ord("a")], np.intc), scores)
    assert np.flatnonzero(np.isfinite(masked)).tolist() == [256]


@pytest.mark.parametrize(("most", "context"), [(None, 30), (40, 30), (12, 300)])
def test_the_context_limits_the_completion(monkeypatch, most, context):
    """llama-cpp-python ends a text at the end of its context."""
    monkeypatch.setattr("guided.integrations.llama_cpp.vocabulary_of", lambda llama: VOCABULARY)
    processor = GuidedLogitsProcessor(SCHEMA, SimpleNamespace(n_ctx=lambda: context), max_tokens=most)
    rng = random.Random(3)
    for number in range(20):
        prompt = b"prompt %d" % number
        limit = min(context - len(prompt), most or context)
        jsonschema.validate(json.loads(write(processor, prompt, limit, rng)), SCHEMA)


def test_canonical_masks_admit_what_the_tokenizer_writes():
    vocabulary = huggingface([(b"a", b"b")])
    for canonical, allowed in ((False, [ord("a"), 256]), (True, [256])):
        processor = GuidedLogitsProcessor("(ab)+", vocabulary, max_tokens=9, canonical=canonical)
        for ids in ([1], [1, 256]):
            scores = processor(np.array(ids, np.intc), np.zeros(vocabulary.size, np.single))
            assert [id for id in np.flatnonzero(np.isfinite(scores)) if id not in vocabulary.eos_token_ids] == allowed


@pytest.mark.parametrize("options", [{"max_tokens": "3"}, {"max_tokens": 0}, {"max_tokens": 2.5}, {"canonical": 1}])
def test_options_are_checked_by_the_constructor(options):
    name, value = next(iter(options.items()))
    with pytest.raises(guided.OptionError, match=f"^{name} is {value!r}, but must be "):
        GuidedLogitsProcessor("[ab]", VOCABULARY, **options)


def test_grammars_by_the_names_of_llama_cpp(tmp_path):
    (tmp_path / "g.gbnf").write_text('root ::= "a"+ "b"')
    rng = random.Random(2)
    for grammar in (LlamaGrammar.from_string('root ::= "a"+ "b"'), LlamaGrammar.from_file(tmp_path / "g.gbnf")):
        assert re.fullmatch("a+b", write(grammar.processor(VOCABULARY, max_tokens=9), b"p", 9, rng))
    grammar = LlamaGrammar.from_json_schema(json.dumps(SCHEMA))
    jsonschema.validate(json.loads(write(grammar.processor(VOCABULARY, max_tokens=40), b"p", 40, rng)), SCHEMA)


def test_a_logit_bias_keeps_the_constraint():
    """As `Llama.create_completion` adds a `logit_bias`: it continues with the result of `extend`."""

    def bias(ids, scores):
        scores = scores.copy()
        scores[[ord("b"), ord("z")]] += 1000
        return scores

    processor, rng = GuidedLogitsProcessor("[ab]{9}", VOCABULARY, max_tokens=10), random.Random(3)
    processors = LogitsProcessorList([processor])
    for _ in range(3):
        biased = processors.extend(LogitsProcessorList([bias]))
        assert len(processors) == 1 and [processor is bias for processor in biased] == [False, True]
        assert write(biased, b"x", 10, rng) == "b" * 9
    assert set(write(processors, b"x", 10, rng)) == {"a", "b"}


def test_error_messages():
    scores = np.zeros(257, np.single)
    with pytest.raises(guided.BudgetError):
        GuidedLogitsProcessor("a{9}", VOCABULARY, max_tokens=3)  # llama-cpp-python would ignore the error later
    with pytest.raises(guided.GuidedError, match="leave the processor out"):
        GuidedLogitsProcessor(None, VOCABULARY)
    processor = GuidedLogitsProcessor("ab", VOCABULARY)
    processor(np.array([1], np.intc), scores)
    with pytest.warns(RuntimeWarning, match="the text ends here: .* another processor chose it"):
        masked = processor(np.array([1, ord("z")], np.intc), scores)
    assert np.flatnonzero(np.isfinite(masked)).tolist() == [256]
    with pytest.raises(guided.GuidedError, match="leave draft_model out"):
        GuidedLogitsProcessor("ab", SimpleNamespace(draft_model=len, model_path="model.gguf"))


def test_it_imports_neither_torch_nor_llama_cpp():
    code = "import sys, guided.integrations.llama_cpp; print({'torch', 'llama_cpp'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
