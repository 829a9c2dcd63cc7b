"""The tool calls of the benchmarks: the tools are valid, and the scoring agrees with BFCL's own checker."""

from __future__ import annotations

import importlib
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from benchmarks.quality.bfcl import (
    CATEGORIES,
    Call,
    ToolTask,
    is_right,
    load,
    load_all,
    right_calls,
    violates_own_schema,
)
from benchmarks.quality.bfcl_rules import are_right_calls, standardize
from benchmarks.quality.package_data import data_path

INSTALL = "bfcl-eval is not installed: pip install --no-deps bfcl-eval"
needs_bfcl = pytest.mark.skipif(find_spec("bfcl_eval") is None, reason=INSTALL)
JSON_TYPES = {"object", "array", "string", "integer", "number", "boolean"}
STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
OBJECT = {"type": "object"}


def array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def task_of(*answers: tuple[str, dict[str, list[Any]]], required: tuple[str, ...] = (), **properties: Any) -> ToolTask:
    """A task with two tools, `f` and `g`, that have the same parameters."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    tools = [{"type": "function", "function": {"name": name, "description": "", "parameters": schema}} for name in "fg"]
    return ToolTask("made", "simple", [{"role": "user", "content": "?"}], tools, list(answers))


VALUES: list[tuple[dict[str, Any], list[Any], Any, bool]] = [
    (STRING, ["New York, NY"], "new york NY", True),
    (STRING, ["a-b_c*d^e./"], "ABCDE", True),
    (STRING, ["it's"], 'it"s', True),
    (STRING, ["New York"], "York", False),
    (STRING, ["a", ""], "", True),
    (STRING, ["a"], "", False),
    (STRING, ["5"], 5, False),
    (STRING, [5], 5, True),
    (STRING, [5], "5", False),
    ({}, ["a b"], "A-B", True),
    ({}, [3], 3, True),
    (INTEGER, [5, 6], 6, True),
    (INTEGER, [5], 7, False),
    (INTEGER, [5], 5.0, False),
    (INTEGER, [1], True, False),
    (INTEGER, [5], "5", False),
    (INTEGER, ["n"], "n", True),
    (INTEGER, ["n"], "N", False),
    (NUMBER, [5.0], 5, True),
    (NUMBER, [5], 5, True),
    (NUMBER, [5.5], 5.25, False),
    (NUMBER, [5.5], None, False),
    ({"type": "boolean"}, [True], True, True),
    ({"type": "boolean"}, [True], 1, False),
    (array(STRING), [["a b", "c"]], ["A.B", "C"], True),
    (array(STRING), [["a", "b"]], ["b", "a"], False),
    (array(STRING), [["a"], ["b"]], ["b"], True),
    (array(STRING), [["a"]], "a", False),
    (array(STRING), [["a"], ""], [], True),
    (array(STRING), [["a"]], [], False),
    (array(INTEGER), [[1, 2]], [1, 2], True),
    (array(INTEGER), [[1, 2]], [1, 2.0], False),
    (array(INTEGER), [[1]], [True], False),
    (array(NUMBER), [[1, 3]], [1, 3], True),
    (array(NUMBER), [[1.0, 3.0]], [1, 3], False),
    (array(array(STRING)), [[["a"]]], [["a"]], True),
    (array(array(STRING)), [[["a"]]], [["A"]], False),
    (OBJECT, [{"a": [1, 2], "b": ["x y"]}], {"b": "X-Y", "a": 2}, True),
    (OBJECT, [{"a": [1], "b": ["x", ""]}], {"a": 1}, True),
    (OBJECT, [{"a": [1], "b": ["x"]}], {"a": 1}, False),
    (OBJECT, [{"a": [1]}], {"a": 1, "c": 1}, False),
    (OBJECT, [{"a": [1]}, {"a": [2]}], {"a": 2}, True),
    (OBJECT, ["", {"a": [1]}], {}, False),
    (OBJECT, [{"a": [1]}], [1], False),
    (array(OBJECT), [[{"a": ["x"]}, {"a": ["y"]}]], [{"a": "X"}, {"a": "Y"}], True),
    (array(OBJECT), [[{"a": ["x"]}, {"a": ["y"]}]], [{"a": "y"}, {"a": "x"}], False),
    (array(OBJECT), [[{"a": ["x"]}]], [{"a": "x"}, {"a": "x"}], False),
    (array(OBJECT), [[{"a": ["x"]}], ""], [], True),
    (array(OBJECT), [[{"a": ["x"]}], ""], ["x"], False),
]
"""Schema of a parameter, its allowed values, a given value, and whether the value is right."""


@pytest.mark.parametrize(("schema", "allowed", "value", "expected"), VALUES)
def test_values_are_right_by_the_rules(schema: Any, allowed: list[Any], value: Any, expected: bool) -> None:
    task = task_of(("f", {"p": allowed}), p=schema)
    assert is_right(task, [("f", {"p": value})]) is expected


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([("f", {"p": 1})], True),
        ([("f", {"p": 1, "q": "x"})], True),
        ([("f", {"p": 1, "r": 3})], True),
        ([("f", {"p": 1, "q": "y"})], False),
        ([("f", {"q": "x"})], False),
        ([("f", {"p": 1, "s": 1})], False),
        ([("f", {"p": 1, "unknown": 1})], False),
        ([("g", {"p": 1})], False),
        ([("f", {"p": 1}), ("f", {"p": 1})], False),
        ([], False),
    ],
)
def test_a_call_needs_its_parameters_and_no_others(calls: list[Call], expected: bool) -> None:
    answer = ("f", {"p": [1], "q": ["x", ""], "r": ["", 3]})
    assert is_right(task_of(answer, required=("p",), p=INTEGER, q=STRING, r=INTEGER, s=INTEGER), calls) is expected


def test_an_answer_may_need_a_parameter_that_the_schema_does_not_require() -> None:
    task = task_of(("f", {"p": [1]}), p=INTEGER)
    assert not is_right(task, [("f", {})])
    task = task_of(("f", {"p": [1, ""]}), required=("p",), p=INTEGER)
    assert not is_right(task, [("f", {})])


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [((1, 2), True), ((2, 1), True), ((1, 1), False), ((2, 2), False), ((1,), False), ((1, 2, 1), False)],
)
def test_each_parallel_answer_is_matched_once_in_any_order(numbers: tuple[int, ...], expected: bool) -> None:
    task = task_of(("f", {"p": [1]}), ("f", {"p": [2]}), p=INTEGER)
    assert is_right(task, [("f", {"p": number}) for number in numbers]) is expected


def test_a_task_without_answers_wants_no_call() -> None:
    assert is_right(task_of(p=INTEGER), [])
    assert not is_right(task_of(p=INTEGER), [("f", {"p": 1})])
    assert not violates_own_schema(task_of(p=INTEGER))


@pytest.mark.parametrize(
    ("schema", "allowed", "violates"),
    [
        (INTEGER, [1], False),
        (INTEGER, ["one"], True),
        (INTEGER, ["one", 1], False),
        (INTEGER, ["one", ""], True),
        (NUMBER, [2], False),
        ({}, [[1]], False),
        (STRING, [""], False),
        ({"type": "string", "enum": ["low", "high"]}, ["medium"], True),
        ({"type": "string", "enum": ["low", "high"]}, ["High"], False),
        (array({"type": "string", "enum": ["a b"]}), [["A-B"]], False),
        (array({"type": "string", "enum": ["a b"]}), [["ab", "c"]], True),
        ({**array(STRING), "enum": ["a", "b"]}, [["a"]], True),
        ({**OBJECT, "properties": {"a": INTEGER}, "required": ["a"]}, [{"a": ["x", 1]}], False),
        ({**OBJECT, "properties": {"a": INTEGER}, "required": ["a"]}, [{"a": ["x"]}], True),
        ({**OBJECT, "required": ["a"]}, [{"b": ["x"]}], True),
        ({**OBJECT, "properties": {"a": INTEGER, "b": INTEGER}}, [{"b": [1], "a": [2]}], False),
    ],
)
def test_tasks_that_no_valid_call_solves_are_found(schema: Any, allowed: list[Any], violates: bool) -> None:
    task = task_of(("f", {"p": allowed}), required=("p",), p=schema)
    assert violates_own_schema(task) is violates
    assert is_right(task, right_calls(task))


def test_a_missing_package_is_named_with_its_installation() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"no_such_package is not installed.*pip install --no-deps no-such"):
        data_path("no_such_package", "data/file.json", "no-such")
    with pytest.raises(FileNotFoundError, match=r"no_such_file\.json does not exist"):
        data_path("benchmarks", "no_such_file.json", "benchmarks")


def test_unknown_categories_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown category 'complex'\. The categories are simple, multiple"):
        load(["complex"], 1, 0)


@needs_bfcl
def test_samples_are_repeatable() -> None:
    with pytest.raises(ValueError, match="241 tasks cannot be drawn from 240 tasks"):
        load(["irrelevance"], 241, 0)
    tasks = load(CATEGORIES, 40, 7)
    assert tasks == load(CATEGORIES, 40, 7) != load(CATEGORIES, 40, 8)
    assert len({task.name for task in tasks}) == 40
    assert {task.category for task in tasks} == set(CATEGORIES)


@needs_bfcl
@pytest.mark.parametrize(("category", "count"), list(zip(CATEGORIES, (400, 200, 200, 240), strict=True)))
def test_every_tool_is_valid_and_every_answer_is_right(category: str, count: int) -> None:
    tasks = load_all(category)
    assert len(tasks) == len({task.name for task in tasks}) == count
    for task in tasks:
        names = [tool["function"]["name"] for tool in task.tools]
        assert len(set(names)) == len(names) and all(name.replace("_", "").isalnum() for name in names)
        assert {name for name, _ in task.answers} <= set(names)
        assert all(set(types_in(tool["function"]["parameters"])) <= JSON_TYPES for tool in task.tools)
        assert [message["role"] for message in task.messages] == ["user"]
        assert is_right(task, right_calls(task))


def types_in(schema: dict[str, Any]) -> Iterator[str]:
    """The types in a schema and its subschemas."""
    if "type" in schema:
        yield schema["type"]
    for member in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
        assert "optional" not in member
        yield from types_in(member)


@needs_bfcl
def test_schemas_and_violations_agree_with_jsonschema() -> None:
    validator = pytest.importorskip("jsonschema", reason="jsonschema is not installed").Draft202012Validator
    for task in load(CATEGORIES, 60, 3):
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in task.tools}
        for schema in schemas.values():
            validator.check_schema(schema)
        is_valid = all(validator(schemas[name]).is_valid(arguments) for name, arguments in right_calls(task))
        assert violates_own_schema(task) is not is_valid


@needs_bfcl
@pytest.mark.parametrize("category", CATEGORIES)
def test_wrong_calls_are_wrong(category: str) -> None:
    for task in load([category], 30, 5):
        calls = right_calls(task)
        assert not is_right(task, [*calls, (task.tools[0]["function"]["name"], {})])
        assert not calls or not is_right(task, calls[1:])
        for at, (name, arguments) in enumerate(calls):
            others = [(f"{name}_", arguments), (name, {**arguments, "no_such_parameter": 1})]
            others += [(name, {**arguments, key: {"no such member": value}}) for key, value in arguments.items()]
            others += [(name, {**arguments, key: None}) for key in arguments]
            for other in others:
                assert not is_right(task, [*calls[:at], other, *calls[at + 1 :]])


@pytest.fixture
def checker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """BFCL's checker with a stand-in for its list of models, which would import a client of each service."""
    models = ModuleType("bfcl_eval.constants.model_config")
    models.MODEL_CONFIG_MAPPING = defaultdict(lambda: SimpleNamespace(underscore_to_dot=True))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, models.__name__, models)
    name = "bfcl_eval.eval_checker.ast_eval.ast_checker"
    module = importlib.import_module(name)
    yield module
    del sys.modules[name]


@needs_bfcl
@pytest.mark.parametrize("category", [category for category in CATEGORIES if category != "irrelevance"])
def test_scoring_agrees_with_the_checker_of_bfcl(checker: Any, category: str) -> None:
    drawn = random.Random(11)
    verdicts = [0, 0]
    for task in load([category], 120, 9):
        calls = right_calls(task)
        for changed in (calls, calls[::-1], [*calls, calls[0]], calls[:-1], *changed_calls(calls, drawn)):
            verdict = is_right(task, changed)
            assert verdict is bfcl_verdict(checker, task, changed), (task, changed)
            verdicts[verdict] += 1
    assert min(verdicts) > 200


@needs_bfcl
def test_expected_verdicts_agree_with_the_checker_of_bfcl(checker: Any) -> None:
    for schema, allowed, value, expected in VALUES:
        task = task_of(("f", {"p": allowed}), p=schema)
        assert bfcl_verdict(checker, task, [("f", {"p": value})]) is expected, (schema, allowed, value)


def bfcl_verdict(checker: Any, task: ToolTask, calls: list[Call]) -> bool:
    """The checker's verdict. A call that it cannot read is wrong."""
    functions = [{**tool["function"], "parameters": with_python_types(tool["function"])} for tool in task.tools]
    answers = [{name: allowed} for name, allowed in task.answers]
    outputs = [{name: arguments} for name, arguments in calls]
    python = checker.Language.PYTHON
    try:
        return checker.ast_checker(functions, outputs, answers, python, task.category, "any")["valid"]
    except (AttributeError, TypeError):
        return False


def with_python_types(function: dict[str, Any]) -> dict[str, Any]:
    """The schema of the parameters with the type names that the checker reads, as in its own data."""

    def read(schema: dict[str, Any]) -> dict[str, Any]:
        names = {"object": "dict", "number": "float"}
        kind = schema.get("type", "any")
        items = {"items": read(schema["items"])} if "items" in schema else {}
        return {**schema, "type": names.get(kind, kind), **items}

    parameters = function["parameters"]
    return {**parameters, "properties": {name: read(value) for name, value in parameters["properties"].items()}}


def changed_calls(calls: list[Call], drawn: random.Random) -> Iterator[list[Call]]:
    """Calls that differ in one argument from `calls`; some of them are right."""
    for at, (name, arguments) in enumerate(calls):
        before, after = calls[:at], calls[at + 1 :]
        yield [*before, (name, {**arguments, "no_such_parameter": 1}), *after]
        for key, value in arguments.items():
            yield [*before, (name, {other: arguments[other] for other in arguments if other != key}), *after]
            for changed in changed_values(value, drawn):
                yield [*before, (name, {**arguments, key: changed}), *after]


def changed_values(value: Any, drawn: random.Random) -> Iterator[Any]:
    yield from (None, "", [], {}, 0, str(value), [value], {"a": value})
    match value:
        case str():
            yield from (value.upper(), f" {value}.", value.replace(" ", "_"), value[1:], f"{value}s")
        case bool():
            yield from (not value, int(value))
        case int() | float():
            yield from (value + 1, float(value), int(value), -value, value == 1)
        case list() if value:
            at = drawn.randrange(len(value))
            yield from (value[::-1], value[1:], [*value, value[0]], [str(item) for item in value])
            for item in changed_values(value[at], drawn):
                yield [*value[:at], item, *value[at + 1 :]]
        case dict() if value:
            key = drawn.choice(list(value))
            yield from ({**value, "b": 1}, {name: value[name] for name in value if name != key})
            for member in changed_values(value[key], drawn):
                yield {**value, key: member}


def test_strings_are_standardized() -> None:
    assert standardize("April 1, 2024") == standardize("april 1 2024") == "april12024"
    assert are_right_calls([], [], {})
