"""The cases of the quality benchmark: prompts with specifications, and programs that judge the answers.

In: the tasks of this folder. Out: `Case`s, which the runner (runs.py) gives to a model in several modes. A case has
*units*, each of which is right or wrong: the fields of an extraction, the calls of a tool task, the rows of a query,
the tests of a function.

| task | units | the specification | valid |
|---|---|---|---|
| extraction | fields | the JSON Schema | it is JSON that satisfies the schema |
| tools | one for each case | the tools; calls are required, but in irrelevance optional | the calls can be read |
| sql | one for each case | SQL's grammar | SQLite prepares it |
| sql-names | one for each case | SELECT with the names of the database, where they are in scope | SQLite prepares it |
| code | one for each case | a fenced block of Python | Python parses it |
| gsm8k | one for each case | a schema with steps and a number | it is JSON that satisfies the schema |

For free text, the prompt describes what the specification requires, and the answer is read leniently: the first JSON
value, the first fenced block, calls in any of the usual forms.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import guided
from benchmarks.extraction import ANSWERS, INSTRUCTIONS
from benchmarks.extraction import TASKS as FIRST_TASKS
from benchmarks.quality import bfcl, humaneval
from benchmarks.quality.extraction_tasks import TASKS, right_fields
from benchmarks.quality.sql_databases import catalog, connect, create_statements
from benchmarks.quality.sql_grammar import sql_grammar
from benchmarks.quality.sql_tasks import SQL_TASKS, SqlTask, prepares, right_rows
from guided.chat import Conversation
from guided.describe import describe
from guided.frontends.structural_tag.tool_styles import ToolStyle
from guided.testing.language import BYTES

__all__ = ["TASK_NAMES", "Case", "Verdict", "cases_of"]

_SQL: Final = (
    "You write queries for SQLite. Answer the question about the database with one SELECT statement and nothing else. "
    "Return the columns that the question asks for, in its order."
)
_CODE: Final = "Complete the Python function. Answer with the whole function, including its imports, and nothing else."
_MATH: Final = "Solve the problem. Answer with JSON: the steps of the calculation, and then the result as a number."
_MATH_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "steps": {"type": "array", "items": {"type": "string", "maxLength": 120}, "minItems": 1, "maxItems": 8},
        "result": {"type": "number"},
    },
    "required": ["steps", "result"],
    "additionalProperties": False,
}


class Verdict(NamedTuple):
    """The judgement of an answer.

    Attributes:
        units: for each unit of the case whether it is right. Its name is that of the field in `Result.fields`, if any.
        valid: whether the answer satisfies the specification.
        parts: for each argument of a call whether it is right, if this is known.
    """

    units: Mapping[str, bool]
    valid: bool
    parts: Mapping[str, bool] = {}


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt, the specification of the answer, and what judges it.

    Attributes:
        name: a unique name.
        messages: the conversation.
        constraint: makes the specification, for a compiler.
        judge: judges the text of an answer. For calls, this is the text with the names of control tokens.
        max_tokens: the budget of the answer.
        tools: the tools that the chat template describes.
        reader: makes a reader of calls, for tool tasks.
        is_told: whether the messages already say what the specification requires.
        schema: the JSON Schema, if the specification is one.
    """

    name: str
    messages: Sequence[dict[str, Any]]
    constraint: Callable[[guided.GrammarCompiler], guided.CompiledGrammar]
    judge: Callable[[str], Verdict]
    max_tokens: int
    tools: Sequence[dict[str, Any]] = ()
    reader: Callable[[], Any] | None = None
    is_told: bool = False
    schema: dict[str, Any] | None = None

    def conversation(self) -> Conversation:
        """The prompt for a constrained answer."""
        return Conversation(list(self.messages), self.tools)

    def free_conversation(self, grammar: guided.CompiledGrammar) -> Conversation:
        """The prompt for free text. The system message describes the form of the answer."""
        first, *others = self.messages
        described = None if self.is_told else describe(grammar)
        content = first["content"] if described is None else f"{first['content']}\n\n{described.text}"
        return Conversation([{**first, "content": content}, *others], self.tools)


def cases_of(task: str, *, gsm8k: Path | None = None) -> list[Case]:
    """The cases of a task of `TASK_NAMES`.

    Raises:
        ModuleNotFoundError: the package with the data is not installed; the error says how to install it.
        ValueError: the task is unknown, or `gsm8k`, the folder of its questions, is not given.
    """
    match task:
        case "extraction":
            return list(_extraction())
        case "tools":
            return list(_tools())
        case "sql" | "sql-names":
            return [_sql(one, restricted=task == "sql-names") for one in SQL_TASKS]
        case "code":
            return [_code(one) for one in humaneval.load_all()]
        case "gsm8k" if gsm8k is not None:
            return list(_math(gsm8k))
    raise ValueError(f"unknown task {task!r}, or a task without data: the tasks are {', '.join(TASK_NAMES)}")


TASK_NAMES: Final = ("extraction", "tools", "sql", "sql-names", "code", "gsm8k")


# ---- extraction
def _extraction() -> Iterator[Case]:
    first = [(f"first {at}", *task, answer) for at, (task, answer) in enumerate(zip(FIRST_TASKS, ANSWERS, strict=True))]
    for name, text, schema, answer in [*first, *((one.name, one.text, one.schema, one.answer) for one in TASKS)]:
        messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": text}]
        judge = partial(_judge_extraction, schema, answer)
        yield Case(name, messages, partial(_schema, schema), judge, 300, schema=schema)


def _schema(schema: dict[str, Any], compiler: guided.GrammarCompiler) -> guided.CompiledGrammar:
    options = guided.JsonSchemaOptions.for_generation()
    return compiler.compile_json_schema(schema, **options.non_defaults())


def _judge_extraction(schema: dict[str, Any], answer: Any, text: str) -> Verdict:
    value = first_json(text)
    return Verdict(right_fields(answer, value), _satisfies(schema, value))


def first_json(text: str) -> Any:
    """The first object or array in a text; None if there is none."""
    for match in re.finditer(r"[{\[]", text):
        try:
            return json.JSONDecoder().raw_decode(text, match.start())[0]
        except (ValueError, RecursionError):
            continue
    return None


def _satisfies(schema: dict[str, Any], value: Any) -> bool:
    grammar = guided.GrammarCompiler(BYTES, warn=False).compile_json_schema(schema, property_order="any")
    matcher = guided.GrammarMatcher(grammar)
    return matcher.accept_string(json.dumps(value)) and matcher.is_accepting()


# ---- tools
def _tools() -> Iterator[Case]:
    for category in bfcl.CATEGORIES:
        for task in bfcl.load_all(category):
            choice = "auto" if category == "irrelevance" else "required"
            yield Case(
                task.name,
                task.messages,
                partial(_tag, task.tools, choice),
                partial(_judge_calls, task),
                300,
                task.tools,
                partial(_style().reader, task.tools),
            )


def _style() -> ToolStyle:
    """The style as `guided serve` uses it: calls without a marker are calls, too."""
    return guided.tool_style("qwen_3").with_bare_calls()


def _tag(tools: list[dict[str, Any]], choice: str, compiler: guided.GrammarCompiler) -> guided.CompiledGrammar:
    tag = _style().structural_tag(tools, tool_choice=choice, mixed=choice == "auto")
    options = guided.JsonSchemaOptions.for_generation().non_defaults()
    return compiler.compile_structural_tag(tag, allow_special_tokens=True, **options)


def _judge_calls(task: bfcl.ToolTask, text: str) -> Verdict:
    calls = _lenient_calls(text, {tool["function"]["name"] for tool in task.tools})
    if task.category == "irrelevance":
        return Verdict({"": not calls}, True)
    return Verdict({"": bfcl.is_right(task, calls)}, bool(calls), bfcl.judge_arguments(task, calls))


def _lenient_calls(text: str, names: set[str]) -> list[bfcl.Call]:
    """The calls in a text: JSON objects with the name of a tool, wherever they stand, also inside an array."""
    calls, at = list[bfcl.Call](), 0
    while (match := re.compile(r"[{\[]").search(text, at)) is not None:
        try:
            value, at = json.JSONDecoder().raw_decode(text, match.start())
        except (ValueError, RecursionError):
            at = match.end()
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict) and isinstance(one.get("function"), dict):
                one = one["function"]
            arguments = one.get("arguments", one.get("parameters")) if isinstance(one, dict) else None
            name = one.get("name") if isinstance(one, dict) else None
            if isinstance(arguments, dict) and isinstance(name, str) and name in names:
                calls.append((name, arguments))
    return calls


# ---- SQL, code, mathematics
def _sql(task: SqlTask, *, restricted: bool) -> Case:
    messages = [
        {"role": "system", "content": _SQL},
        {"role": "user", "content": f"{create_statements(task.database)}\n{task.question}"},
    ]
    text = sql_grammar(catalog(task.database)) if restricted else guided.library()["sql"].text
    return Case(task.name, messages, partial(_lark, text), partial(_judge_sql, task), 120, is_told=True)


def _lark(text: str, compiler: guided.GrammarCompiler) -> guided.CompiledGrammar:
    return compiler.compile_lark(text, lexer="basic")


def _judge_sql(task: SqlTask, text: str) -> Verdict:
    connection, query = connect(task.database), humaneval.free_text_code(text).strip()
    try:
        right = right_rows(connection, task.sql, query, ordered=task.ordered)
        return Verdict({"": right}, prepares(connection, query))
    finally:
        connection.close()


def _code(task: humaneval.CodeTask) -> Case:
    messages = [{"role": "system", "content": _CODE}, {"role": "user", "content": task.prompt}]
    return Case(task.name, messages, _fenced_python, partial(_judge_code, task), 400, is_told=True)


def _fenced_python(compiler: guided.GrammarCompiler) -> guided.CompiledGrammar:
    """Python in a fenced block: without the fence, a chat model writes a sentence that Python can just about parse."""
    python = guided.library()["python"]
    block = guided.sequence("```python\n", guided.lark(python.text, **python.options), "```")
    return compiler.compile(block)


def _judge_code(task: humaneval.CodeTask, text: str) -> Verdict:
    program = humaneval.free_text_code(text)
    try:
        ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Verdict({"": False}, False)
    return Verdict({"": humaneval.passes(task, f"\n    pass\n\n{program}")}, True)


def _math(folder: Path) -> Iterator[Case]:
    lines = (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    for number, row in enumerate(map(json.loads, lines)):
        messages = [{"role": "system", "content": _MATH}, {"role": "user", "content": row["question"]}]
        judge = partial(_judge_math, row["answer"])
        yield Case(f"gsm8k {number}", messages, partial(_schema, _MATH_SCHEMA), judge, 400)


def _judge_math(answer: float, text: str) -> Verdict:
    value = first_json(text)
    result = value.get("result") if isinstance(value, dict) else None
    return Verdict({"/result": result == answer}, _satisfies(_MATH_SCHEMA, value))
