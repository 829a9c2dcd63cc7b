"""Describes tools in a prompt: the available tools, how to call them, and earlier calls.

In: a style of tool calls, tools as in OpenAI's API, and calls with their arguments. Out: pieces of text. In the
style's own text, names of control tokens stand for the tokens. In text from the tools, they are plain text
(`Piece.literal`).

Source: the chat templates of the models. If a style's file contains no explanation (`instructions`), an example shows
the form of a call. Cost: linear in the tools and the arguments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from guided.errors import SpecError, UnsupportedError, brief
from guided.frontends.structural_tag.argument_forms import argument_form
from guided.frontends.structural_tag.element_forms import ElementForm
from guided.frontends.structural_tag.literal_forms import LiteralForm
from guided.frontends.structural_tag.markup import Markup, section_begins
from guided.frontends.structural_tag.tool_styles import TOOL_STYLES, ToolStyle, tool_style

__all__ = ["Piece", "check_style", "detect_style", "read_arguments", "tool_instructions", "write_calls"]

_TOOLS_HEADER: Final = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
_PYTHON_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {
    ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t",
}  # fmt: skip
_EXAMPLE: Final = ("example_function_name", '{"example_parameter": "value"}')


class Piece(NamedTuple):
    """A piece of text. `literal`: names of control tokens in it are plain text; otherwise they stand for the tokens."""

    text: str
    literal: bool = False


def check_style(style: ToolStyle) -> None:
    """Raise UnsupportedError if a style has a form of messages that ChatML cannot express."""
    if "channels" in style.data or "response" in style.data:
        message = f"messages of the style {style.name} have their own form, which ChatML cannot express"
        raise UnsupportedError(message, hint="use another style")


def tool_instructions(style: ToolStyle, tools: Sequence[Mapping[str, Any]]) -> list[Piece]:
    """The description of the tools in the system message."""
    tool_lines = "".join(f"\n{json.dumps(tool, ensure_ascii=False)}" for tool in tools)
    instructions = style.data.get("instructions")
    if instructions is not None:
        pieces = [Piece(instructions)]
    else:
        pieces = [Piece("For each function call, write this:\n"), *write_calls(style, [_EXAMPLE])]
    return [Piece(_TOOLS_HEADER), Piece(tool_lines, True), Piece("\n</tools>\n\n"), *pieces]


def write_calls(style: ToolStyle, calls: Sequence[tuple[str, str]]) -> list[Piece]:
    """Calls as a model of the style writes them. Each call is a name, and arguments as JSON text.

    Raises:
        SpecError: arguments nest too deeply. UnsupportedError: the style has its own form of messages.
    """
    check_style(style)
    markup = Markup.from_style(style.data)
    section, separator = style.data.get("section"), style.call_separator
    out = [] if section is None else [Piece(section.get("lead", "") + section_begins(section)[0])]
    try:
        for number, (name, arguments) in enumerate(calls):
            out += [Piece(separator)] if number else []
            out += _write_call(markup, name, arguments, number)
    except RecursionError:
        raise SpecError("the arguments of a call nest too deeply", hint="leave the call out") from None
    return [*out, *([] if section is None else [Piece(section["end"])])]


def _write_call(markup: Markup, name: str, text: str, number: int) -> list[Piece]:
    form, arguments = argument_form(markup.arguments), read_arguments(text)
    inner = [Piece(text if arguments else "{}", True)]
    if isinstance(form, ElementForm) and isinstance(arguments, dict):
        inner = _write_members(form, arguments)
    elif form is not None and not isinstance(form, ElementForm) and isinstance(arguments, dict):
        inner = _write_literal(form, arguments) if form.braces else _write_literals(form, arguments)
    number += markup.first_number
    head, _, tail = markup.begins[0].fill(number).partition("{name}")
    return [Piece(head), Piece(name, True), Piece(tail), *inner, Piece(markup.ends[0].fill(number))]


def read_arguments(text: object) -> dict[str, Any] | str:
    """The arguments of a call, from their JSON text. A text that is not a JSON object is returned unchanged, since
    a model may have written it without a constraint. An empty text means no arguments.

    Raises:
        SpecError: the arguments are not a string.
    """
    if not isinstance(text, str):
        message = f"the arguments of a call are {brief(text)}, not the text of a JSON object"
        raise SpecError(message, hint='write "{...}"')
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _write_members(form: ElementForm, value: Mapping[str, Any]) -> list[Piece]:
    out: list[Piece] = []
    line_end = "\n" if form.lines else ""
    for number, (key, inner) in enumerate(value.items()):
        name = form.encode_name(key)
        head = f"{form.after}{form.value_prefix(_value_type(inner))}".replace("{gap}", "")
        end, name_placeholder, tail = form.end.partition("{name}")
        closing = (
            [Piece(line_end + end), Piece(name, True), Piece(tail)] if name_placeholder else [Piece(line_end + end)]
        )
        begin = [Piece((form.separator if number else "") + form.begin), Piece(name, True), Piece(head + line_end)]
        out += [*begin, *_write_value(form, inner), *closing]
    return [*out, Piece(form.last)] if value and form.last else out


def _write_value(form: ElementForm, value: Any) -> list[Piece]:
    if form.has_nested_elements and isinstance(value, dict):
        return _write_members(form, value)
    if form.has_nested_elements and isinstance(value, list):
        items = [(Piece(form.item + form.value_prefix(_value_type(item))), item) for item in value]
        return [piece for begin, item in items for piece in (begin, *_write_value(form, item), Piece(form.item_end))]
    return [Piece(_argument_text(value), True)]


def _write_literals(form: LiteralForm, value: Mapping[str, Any]) -> list[Piece]:
    """Arguments as literals, or the members of an object whose names have no delimiters."""
    out: list[Piece] = []
    for number, (key, inner) in enumerate(value.items()):
        out += [Piece(form.comma)] if number else []
        out += [Piece(key, True), Piece(form.assign), *_write_literal(form, inner)]
    return out


def _write_literal(form: LiteralForm, value: Any) -> list[Piece]:
    if isinstance(value, dict) and form.bare:
        members = _write_literals(form._replace(assign=form.colon), value)
        return [Piece("{"), *members, Piece("}")]
    if isinstance(value, dict | list):
        values = value.items() if isinstance(value, dict) else ((None, item) for item in value)
        out = [Piece("{" if isinstance(value, dict) else "[")]
        for number, (key, inner) in enumerate(values):
            out += [Piece(form.comma)] if number else []
            out += [] if key is None else [*_write_literal(form, key), Piece(form.colon)]
            out += _write_literal(form, inner)
        return [*out, Piece("}" if isinstance(value, dict) else "]")]
    if isinstance(value, str):
        quote = Piece(form.quotes[0])
        return [quote, Piece(_python_text(value, form.quotes[0]) if form.escapes else value, True), quote]
    if value is None or isinstance(value, bool):
        return [Piece(form.constant(value)[0])]
    return [Piece(json.dumps(value))]


def _python_text(text: str, quote: str) -> str:
    """The content of a Python string."""
    return text.translate(_PYTHON_ESCAPES).replace(quote, "\\" + quote)


def _argument_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _value_type(value: Any) -> str:
    kinds = {str: "string", dict: "object", list: "array", bool: "boolean", type(None): "null"}
    return kinds.get(type(value), "number")


def detect_style(template: str) -> str | None:
    """The style in which a chat template writes calls. None if it cannot be determined."""
    text, best = template.replace("\\n", "\n").replace('\\"', '"'), ("", "")
    for name in TOOL_STYLES:
        data = tool_style(name).data
        if (required_strings := data.get("shown")) is not None:
            if all(
                each in text if isinstance(each, str) else any(string in text for string in each)
                for each in required_strings
            ):
                return name
            continue
        head = Markup.from_style(data).begins[0].text.partition("{name}")[0]
        form = argument_form(data["call"]["arguments"])
        begin = form.begin if isinstance(form, ElementForm) and not form.has_nested_elements else ""
        matches = head.startswith(("<", "]")) and head in text and begin in text
        if matches and len(head) > len(best[0]):
            best = (head, name)
    return best[1] or None
