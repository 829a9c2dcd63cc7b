"""The extraction tasks of the benchmarks: every answer is valid under its schema, and the scoring is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.quality.extraction_tasks import TASKS, right_fields


def _choose(answer: Any, at: int) -> Any:
    """The answer with alternative `at` of each tuple, or the last one if the tuple is shorter."""
    if isinstance(answer, dict):
        return {name: _choose(value, at) for name, value in answer.items()}
    if isinstance(answer, list):
        return [_choose(value, at) for value in answer]
    return answer[min(at, len(answer) - 1)] if isinstance(answer, tuple) else answer


def _count_alternatives(answer: Any) -> int:
    """The length of the longest tuple."""
    if isinstance(answer, tuple):
        return len(answer)
    values = answer.values() if isinstance(answer, dict) else answer if isinstance(answer, list) else ()
    return max(map(_count_alternatives, values), default=1)


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema of an object in `schema`."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from _objects(value)


def test_there_are_forty_tasks_with_unique_names_and_texts():
    assert len(TASKS) == len({task.name for task in TASKS}) == len({task.text for task in TASKS}) == 40


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_alternative_satisfies_the_schema_and_is_right(task):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    validator = jsonschema.Draft202012Validator
    validator.check_schema(task.schema)
    judge = validator(task.schema, format_checker=validator.FORMAT_CHECKER)
    for at in range(_count_alternatives(task.answer)):
        given = _choose(task.answer, at)
        judge.validate(given)
        assert all(right_fields(task.answer, given).values())


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_texts_are_short_and_objects_are_closed(task):
    assert 20 <= len(task.text.split()) <= 120
    assert 3 <= len(task.schema["properties"]) <= 8
    for schema in _objects(task.schema):
        assert schema["required"] == list(schema["properties"]) and schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("answer", "given", "fields"),
    [
        ({"a": "Oak Table"}, {"a": " oak table. "}, {"/a": True}),
        ({"a": ("oak table", "oak tables")}, {"a": "Oak tables"}, {"/a": True}),
        ({"a": "oak"}, {"a": "oak.."}, {"/a": False}),
        ({"a": 5, "b": 2.5}, {"a": 5.0, "b": 2.5, "c": 1}, {"/a": True, "/b": True}),
        ({"a": 1, "b": True, "c": False}, {"a": True, "b": 1, "c": False}, {"/a": False, "/b": False, "/c": True}),
        ({"a": 5, "b": "5"}, {"a": "5", "b": 5}, {"/a": False, "/b": False}),
        ({"a": None, "b": None, "c": ""}, {"a": None, "c": None}, {"/a": True, "/b": False, "/c": False}),
        ({"a": [1, 2]}, {"a": [1, 2]}, {"/a/0": True, "/a/1": True}),
        ({"a": [1, 2]}, {"a": [2]}, {"/a/0": False, "/a/1": False}),
        ({"a": [{"b": 1, "c": 2}]}, {"a": []}, {"/a/0/b": False, "/a/0/c": False}),
        (
            {"a": [{"b": 1, "c": 2}]},
            {"a": [{"b": 1, "c": 3}, {"b": 1, "c": 2}]},
            {"/a/0/b": True, "/a/0/c": False, "/a/1": False},
        ),
        ({"a": []}, {"a": []}, {"/a": True}),
        ({"a": []}, {"a": [1, 2]}, {"/a/0": False, "/a/1": False}),
        ({"a": []}, {}, {"/a": False}),
        ({"a": {"b/c~": 1}}, {"a": {"b/c~": 1}}, {"/a/b~1c~0": True}),
        ({"a": {"b": 1}, "c": [1]}, None, {"/a/b": False, "/c/0": False}),
        ({"a": {"b": 1}, "c": [1]}, {"a": [1], "c": {"0": 1}}, {"/a/b": False, "/c/0": False}),
        (("x", "y"), "Y", {"": True}),
    ],
)
def test_right_fields_judges_each_leaf(answer, given, fields):
    assert right_fields(answer, given) == fields
