"""The engine returns values of Python types, in whatever way the type was passed."""

from __future__ import annotations

import pathlib
from typing import Annotated, Any

import pydantic
import pytest
import torch

import guided
from guided.engine.engine import Engine
from guided.models.architectures.llama import Llama, LlamaConfig

torch.set_num_threads(1)
SIZES = {"layers": 1, "dim": 16, "heads": 2, "kv_heads": 1, "head_dim": 8, "hidden": 24}
VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
ENGINE = Engine(Llama.random(LlamaConfig(**SIZES, vocab_size=257, context=400), seed=7), VOCABULARY)


class Page(pydantic.BaseModel):
    link: pydantic.HttpUrl
    number: pydantic.PositiveInt


@pytest.mark.parametrize(
    ("tp", "kind"),
    [
        (Page, Page),
        (pydantic.HttpUrl, pydantic.HttpUrl),
        (Annotated[int, pydantic.Field(ge=3, le=4)], int),
        (pathlib.PurePath, pathlib.PurePath),
        (bytes, bytes),
        (pydantic.SecretStr, pydantic.SecretStr),
        (list[pydantic.UUID4], list),
    ],
)
def test_values_come_back_on_every_way(tp: Any, kind: type):
    options = {"max_tokens": 120, "temperature": 1.0, "seed": 5}
    results = [ENGINE.generate("abc", constraint, **options) for constraint in (tp, guided.python_type(tp))]
    assert all(isinstance(result.value, kind) for result in results)
    assert results[0].text == results[1].text
    assert isinstance(ENGINE.generate("abc", ENGINE.compiler.compile_type(tp), max_tokens=400).value, kind)


def test_a_quotation_occurs_in_its_document():
    document = 'The cat "sat".\nOn the mat.'
    quote = guided.Quote(document)
    schema = {"type": "object", "properties": {"q": {"x-guided-quote": "d", "type": "string"}}, "required": ["q"]}
    for seed in range(4):
        options: Any = {"max_tokens": 40, "temperature": 1.0, "seed": seed}
        whole = ENGINE.generate("abc", quote, **options)
        field = ENGINE.generate("abc", schema, documents={"d": document}, **options).value["q"]
        for text in (whole.value, field):
            places = quote.find(text)
            assert places and all(document[place.start : place.end] == text for place in places)
        assert whole.value == whole.text


@pytest.mark.parametrize("compiled", [False, True])
def test_the_value_of_a_structural_tag_is_its_text(compiled: bool):
    content = {"type": "const_string", "value": "3"}
    tag = {"type": "structural_tag", "format": {"type": "tag", "begin": "<a>", "content": content, "end": "</a>"}}
    constraint = ENGINE.compiler.compile_structural_tag(tag) if compiled else guided.structural_tag(tag)
    assert ENGINE.generate("abc", constraint, max_tokens=40).value == "<a>3</a>"
