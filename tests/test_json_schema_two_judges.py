"""Random JSON Schemas against two validators, jsonschema and ajv: a few here, many by `python -m tests.two_judges`."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterator

import pytest

from tests.ajv_judge import Ajv, why_no_ajv
from tests.json_schema_judge import Judge
from tests.random_schemas import draw_schema
from tests.two_judges import Run, check

FEW = 60


@pytest.fixture(scope="module")
def ajv() -> Iterator[Ajv]:
    if why := why_no_ajv():
        pytest.skip(why)
    with Ajv() as process:
        yield process


def test_random_schemas(ajv: Ajv) -> None:
    run = Run(ajv)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about keywords without effect are expected
        wrong = [one for number in range(FEW) for one in check(f"few.{number}", run)]
    assert wrong == []
    assert run.counts["verdicts"] > 10 * FEW and run.counts["set aside"] < run.counts["verdicts"] / 20


def test_both_judge_each_draft(ajv: Ajv) -> None:
    for draft, schema in [
        ("http://json-schema.org/draft-04/schema#", {"minimum": 1, "exclusiveMinimum": True}),
        ("http://json-schema.org/draft-06/schema#", {"exclusiveMinimum": 1}),
        ("http://json-schema.org/draft-07/schema#", {"if": {"const": 1}, "then": False}),
        ("https://json-schema.org/draft/2019-09/schema", {"items": [{"const": 2}], "not": {"const": 1}}),
        ("https://json-schema.org/draft/2020-12/schema", {"prefixItems": [{"const": 2}], "not": {"const": 1}}),
    ]:
        whole = {"$schema": draft, **schema}
        texts = ["1", "2", "[2]"]
        assert ajv.verdicts(whole, texts) == [Judge(whole)(text) for text in texts] == [False, True, True]
    assert ajv.verdicts({"$ref": "#/nowhere"}, ["1"]) is None


def test_wrong_verdicts_are_found(ajv: Ajv) -> None:
    """Verdicts that differ from both judges are failures. Texts on which the judges disagree are set aside."""
    run = Run(ajv)
    grammar = run.compiled({"type": "integer"}, {})
    assert [one["text"] for one in run.judged({"type": "string"}, grammar, ["1", '"a"', "null"])] == ["1", '"a"']
    assert run.judged({"required": [""]}, run.compiled({"required": [""]}, {}), ["{}"]) == []  # ajv's error
    assert run.counts["set aside"] == 1


def test_a_seed_determines_its_schemas() -> None:
    one, two = (json.dumps([draw_schema(random.Random(f"{n}")) for n in range(50)]) for _ in range(2))
    assert one == two
    for keyword in ("uniqueItems", "contains", "minContains", "unevaluatedItems", "allOf", "patternProperties"):
        assert f'"{keyword}"' in one


def test_the_judge_stays_exact_where_a_schema_refers_to_its_root() -> None:
    whole = {"$schema": "http://json-schema.org/draft-06/schema#"}
    judge = Judge({**whole, "anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "integer"}]})
    assert judge("[[1e1], 5e600]") and not judge("[1.5]")
