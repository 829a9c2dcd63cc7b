"""Tool calls of the Berkeley Function Calling Leaderboard (BFCL), whose right arguments are known.

    pip install --no-deps bfcl-eval

Each task has a message and one or more tools. In the category `simple` one tool is to be called once, in `multiple` one
of several tools, in `parallel` one tool several times, and in `irrelevance` none.

BFCL writes schemas with the types of Python. They become JSON Schema here: `dict` is `object`, `float` is `number`,
`tuple` is `array`, and a parameter of the type `any` has no type. The member `optional`, which JSON Schema does not
have, is removed. OpenAI allows no period in the name of a tool, so `math.factorial` is called `math_factorial`, as in
BFCL's own requests.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import guided
from benchmarks.quality.bfcl_rules import Allowed, are_right_calls, right_arguments, standardize
from benchmarks.quality.package_data import data_path
from guided.testing.language import BYTES

__all__ = [
    *("CATEGORIES", "Call", "ToolTask", "is_right", "judge_arguments", "load", "load_all", "right_calls"),
    "violates_own_schema",
]

Call = tuple[str, dict[str, Any]]
"""The name of a tool and its arguments."""
Schema = dict[str, Any]

_FILES: Final = {
    "simple": "BFCL_v4_simple_python.json",
    "multiple": "BFCL_v4_multiple.json",
    "parallel": "BFCL_v4_parallel.json",
    "irrelevance": "BFCL_v4_irrelevance.json",
}
CATEGORIES: Final = tuple(_FILES)
_JSON_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array"}
_NOT_JSON_SCHEMA: Final = {"optional"}


@dataclass(frozen=True, slots=True)
class ToolTask:
    """A conversation, the tools that may be called, and the right calls.

    Attributes:
        name: the unique name of the task in BFCL.
        category: one of `CATEGORIES`.
        messages: the conversation in OpenAI's format.
        tools: the tools in OpenAI's format.
        answers: for each call that is wanted, the name of the tool and the allowed values of each parameter. The value
            "" means that the parameter may be missing. Empty if no tool is to be called.
    """

    name: str
    category: str
    messages: list[dict[str, str]]
    tools: list[dict[str, Any]]
    answers: list[tuple[str, Allowed]]


def load(categories: Iterable[str], count: int, seed: int) -> list[ToolTask]:
    """Return `count` random tasks of all `categories` together, the same ones for the same arguments.

    Raises:
        ValueError: a category is unknown, or there are fewer tasks.
        ModuleNotFoundError: the package bfcl-eval is not installed.
    """
    tasks = [task for category in dict.fromkeys(categories) for task in load_all(category)]
    if not 0 <= count <= len(tasks):
        raise ValueError(f"{count} tasks cannot be drawn from {len(tasks)} tasks. Lower `count` or add categories.")
    return random.Random(seed).sample(tasks, count)


def load_all(category: str) -> list[ToolTask]:
    """Return all tasks of a category, in the order of BFCL.

    Raises:
        ValueError: the category is unknown.
        ModuleNotFoundError: the package bfcl-eval is not installed.
    """
    if category not in _FILES:
        raise ValueError(f"unknown category {category!r}. The categories are {', '.join(CATEGORIES)}.")
    rows = _read_lines(_data_path(_FILES[category]))
    answers: dict[str, list[dict[str, Allowed]]] = {}
    if category != "irrelevance":
        lines = _read_lines(_data_path(f"possible_answer/{_FILES[category]}"))
        answers = {line["id"]: line["ground_truth"] for line in lines}
    return [_read_task(category, row, answers.get(row["id"], [])) for row in rows]


def is_right(task: ToolTask, calls: list[Call]) -> bool:
    """Return whether `calls` are right by the rules of BFCL's checker; see `bfcl_rules`."""
    return are_right_calls(calls, task.answers, _parameters(task))


def judge_arguments(task: ToolTask, calls: list[Call]) -> dict[str, bool]:
    """Return for each argument of the only call whether it is right, if one call of this tool is wanted; else {}."""
    if len(calls) != 1 or [name for name, _ in task.answers] != [calls[0][0]]:
        return {}
    (name, arguments), (_, allowed) = calls[0], task.answers[0]
    return right_arguments(arguments, allowed, _parameters(task)[name])


def right_calls(task: ToolTask) -> list[Call]:
    """Return right calls that satisfy the schemas of the tools if there are such calls.

    Each parameter gets its first allowed value that satisfies its schema, or its first allowed value if none does. An
    allowed string is spelled like the member of the schema's `enum` that `is_right` considers equal. Parameters that
    may be missing are left out.
    """
    parameters = _parameters(task)
    return [(name, _choose_members(parameters[name], allowed)) for name, allowed in task.answers]


def violates_own_schema(task: ToolTask) -> bool:
    """Return whether no right calls satisfy the schemas of the tools.

    A model whose calls always satisfy the schemas cannot solve such a task.
    """
    parameters = _parameters(task)
    return not all(_satisfies(arguments, parameters[name]) for name, arguments in right_calls(task))


def _data_path(file: str) -> Path:
    return data_path("bfcl_eval", f"data/{file}", "bfcl-eval")


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _read_task(category: str, row: dict[str, Any], answers: Sequence[dict[str, Allowed]]) -> ToolTask:
    return ToolTask(
        name=row["id"],
        category=category,
        messages=[message for turn in row["question"] for message in turn],
        tools=[_read_tool(function) for function in row["function"]],
        answers=[(_tool_name(name), allowed) for answer in answers for name, allowed in answer.items()],
    )


def _read_tool(function: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": _tool_name(function["name"]),
            "description": function["description"],
            "parameters": _read_schema(function["parameters"]),
        },
    }


def _tool_name(name: str) -> str:
    return name.replace(".", "_")


def _read_schema(schema: Schema) -> Schema:
    """The JSON Schema of a schema with the types of Python."""
    result: Schema = {}
    for keyword, value in schema.items():
        if keyword == "properties":
            result[keyword] = {name: _read_schema(member) for name, member in value.items()}
        elif keyword == "items":
            result[keyword] = _read_schema(value)
        elif keyword == "type":
            if value != "any":
                result[keyword] = _JSON_TYPES.get(value, value)
        elif keyword not in _NOT_JSON_SCHEMA:
            result[keyword] = value
    return result


def _parameters(task: ToolTask) -> dict[str, Schema]:
    """The schema of the parameters of each tool."""
    return {tool["function"]["name"]: tool["function"]["parameters"] for tool in task.tools}


def _choose_members(schema: Schema, allowed: Allowed) -> dict[str, Any]:
    """An object with a right value for each required member."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    return {
        name: _choose_value(properties.get(name, {}), values)
        for name, values in allowed.items()
        if name in required or "" not in values
    }


def _choose_value(schema: Schema, allowed: list[Any]) -> Any:
    values = [_to_value(schema, value) for value in allowed if value != ""] or [""]
    return next((value for value in values if _satisfies(value, schema)), values[0])


def _to_value(schema: Schema, allowed: Any) -> Any:
    """The value of the allowed value `allowed`, whose objects list the allowed values of each member."""
    if isinstance(allowed, dict):
        return _choose_members(schema, allowed)
    if isinstance(allowed, list):
        return [_to_value(schema.get("items", {}), item) for item in allowed]
    if isinstance(allowed, str):
        same = (member for member in schema.get("enum", ()) if _is_same_string(member, allowed))
        return next(same, allowed)
    return allowed


def _is_same_string(member: Any, text: str) -> bool:
    return isinstance(member, str) and standardize(member) == standardize(text)


def _satisfies(value: Any, schema: Schema) -> bool:
    grammar = _compile(json.dumps(schema))
    if grammar is None:
        return False
    matcher = guided.GrammarMatcher(grammar)
    return matcher.accept_string(json.dumps(value, ensure_ascii=False)) and matcher.is_accepting()


@lru_cache(maxsize=4096)
def _compile(schema: str) -> guided.CompiledGrammar | None:
    """The grammar of a schema over bytes; None if no value satisfies the schema."""
    try:
        return guided.GrammarCompiler(BYTES).compile_json_schema(schema, property_order="any")
    except guided.SpecError:
        return None
