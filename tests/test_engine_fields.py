"""The fields of a result: spans are compared with Python's JSON parser, numbers with a full recomputation."""

from __future__ import annotations

import json
from math import exp, inf, prod

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.engine.engine import Engine
from guided.frontends.json_schema.documents.source_spans import escape, scalar_spans
from guided.matching.constraint import compile_constraint
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.vocabulary.vocabulary import Vocabulary
from tests.effort import examples
from tests.engine_support import Reader

torch.set_num_threads(1)
BYTES = [bytes([byte]) for byte in range(32, 127)]
TOKENS = [*BYTES, b'":"', b'","', b"12", b"1,", b'"a', b"true,", "é".encode()[:1], "é".encode()[1:], None, None]
THINK, END = len(TOKENS) - 2, len(TOKENS) - 1
VOCABULARY = Vocabulary(TOKENS, eos_token_ids=[END], special_tokens={THINK: "</think>", END: "<end>"})
CONFIG = LlamaConfig(layers=1, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=128, context=512)
MODEL = Llama.random(CONFIG, seed=5)
ENGINE = Engine(MODEL, VOCABULARY)
PROMPT = [40, 7, 9]
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "maxLength": 8},
        "b": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 999}, "maxItems": 3},
        "c/~": {"type": "object", "properties": {"d": {"type": ["boolean", "null"]}}, "required": ["d"]},
        "e": {"const": "fixed"},
        "f": {"type": "string", "pattern": "^[aé]{2,4}$"},
    },
    "required": ["a", "b", "c/~", "e", "f"],
    "additionalProperties": False,
}

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def leaves(value: object, pointer: str = "") -> dict[str, object]:
    """Pointer -> value, for scalars and empty containers."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {at: leaf for key, one in items for at, leaf in leaves(one, f"{pointer}/{escape(str(key))}").items()}
    return {pointer: value}


@given(values, st.sampled_from([None, 0, 3]), st.booleans())
def test_spans_of_values_match_the_parser(value, indent, ascii_only) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    found = [(pointer, json.loads(text[start:end])) for pointer, start, end in scalar_spans(text)]
    assert found == list(leaves(value).items())
    assert all(text[start:end] == text[start:end].strip(" \n") for _, start, end in scalar_spans(text))


def rows(result: guided.Result) -> np.ndarray:
    """The model's log probabilities before each token of the output and after the last one, without the mask."""
    read = Reader(MODEL).forward([*PROMPT, *result.tokens], len(result.tokens) + 1)
    return read[:, :].double().log_softmax(1).numpy()


def check(result: guided.Result, name: str, start: int, end: int, until: int) -> None:
    """Compare the field with its choices, which are found from the bytes of the tokens."""
    field, scores = result.fields[name], rows(result)
    assert field.text == result.text[start:end] and (field.start, field.end) == (start, end)
    inside, at = [], 0
    written = b""
    for position, token in enumerate(result.tokens):
        begin = len(written.decode(errors="ignore"))
        written += VOCABULARY.token_bytes(token) or b""
        after = len(written.decode(errors="ignore"))
        if result.token_masks[position]:
            if after > start and begin < until:
                inside.append((position, token, result.removed_log_masses[at]))
            at += 1
    assert field.choices == len(inside)
    assert field.logprob == pytest.approx(sum(scores[position][token] for position, token, _ in inside), abs=1e-4)
    assert field.removed == pytest.approx(sum(removed for *_, removed in inside), abs=1e-6)
    likelihoods = [exp(scores[position][token] + removed) for position, token, removed in inside]
    assert field.confidence == pytest.approx(prod(likelihoods), abs=1e-4)
    if not inside:
        assert (field.position, field.preferred) == (None, "")
        return
    worst = max(inside, key=lambda one: one[2])
    assert field.position == worst[0]
    best = int(scores[worst[0]][: VOCABULARY.size].argmax())
    names = VOCABULARY.special_tokens
    text = (VOCABULARY.token_bytes(best) or names.get(best, "").encode()).decode(errors="replace")
    if field.preferred:
        assert field.preferred == text and best != worst[1]
    else:  # the mask allowed it
        matcher = guided.GrammarMatcher(compile_constraint(ENGINE.compiler, SCHEMA))
        assert best == worst[1] or all(map(matcher.accept_token, [*result.tokens[: worst[0]], best]))


@examples(12)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 1.0, 3.0]))
def test_fields_of_json(seed, temperature) -> None:
    options = {"max_tokens": 200, "temperature": temperature, "seed": seed, "budget_ramp": 0.0}
    result = ENGINE.generate(PROMPT, SCHEMA, **options)
    assert list(result.fields) == list(leaves(result.value))
    for pointer, start, end in scalar_spans(result.text):
        number = result.text[start] not in '"[{'
        check(result, pointer, start, end, end + number)
    assert result.fields["/e"].choices == 0 and result.fields["/e"].confidence == 1
    assert result.fields["/c~1~0/d"].text in ("true", "false", "null")


def test_doubtful_fields_come_least_confident_first() -> None:
    result = ENGINE.generate(PROMPT, SCHEMA, max_tokens=200, temperature=1.0, seed=3)
    doubtful = result.doubtful(0.9)
    assert doubtful and [one.confidence for one in doubtful.values()] == sorted(
        one.confidence for one in result.fields.values() if one.confidence < 0.9
    )
    assert result.doubtful(0.0) == {} and result.doubtful(inf).keys() == result.fields.keys()
    with pytest.raises(TypeError, match="threshold must be a number, not a str"):
        result.doubtful("high")  # type: ignore[arg-type]


def test_texts_that_are_not_json() -> None:
    result = ENGINE.generate(PROMPT, "[a-z ]{3,10}", max_tokens=20, temperature=1.0, seed=1)
    assert list(result.fields) == [""] and result.fields[""].text == result.text
    assert result.fields[""].choices == sum(result.token_masks)
    result = ENGINE.generate(PROMPT, max_tokens=5)
    assert result.fields == {} and result.doubtful() == {}


def test_captures_are_numbered() -> None:
    number = guided.capture("n", guided.regex("[0-9]{2}"))
    pairs = guided.regex("é: ") + number + guided.regex(",") + number + guided.regex(",") + number
    result = ENGINE.generate(PROMPT, pairs, max_tokens=40, temperature=1.0, seed=2)
    assert list(result.fields) == ["n", "n/1", "n/2"]
    assert [field.text for field in result.fields.values()] == result.captures["n"]
    for field in result.fields.values():
        assert result.text[field.start : field.end] == field.text and field.choices >= 1


def test_a_temperature_is_not_a_capture() -> None:
    warm = guided.lark("start: word\nword[temperature=0.5]: /[a-z]{3}/")
    result = ENGINE.generate(PROMPT, warm, max_tokens=20, seed=1)
    assert list(result.fields) == [""] and result.fields[""].text == result.text


def test_reasoning_does_not_count() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 50}}, "required": ["n"]}
    options = {"max_tokens": 60, "temperature": 1.0, "seed": 4, "reasoning_end": "</think>"}
    result = ENGINE.generate(PROMPT, schema, **options)
    assert result.reasoning and list(result.fields) == ["/n"]
    field = result.fields["/n"]
    assert result.text[field.start : field.end] == field.text == str(result.value["n"])
    assert field.position is not None and field.position >= result.tokens.index(THINK)
