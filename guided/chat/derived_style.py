"""Derives how a model writes tool calls from its chat template.

    style = guided.derive_tool_style(template)
    tag, reader = style.structural_tag(tools), style.reader(tools)       # as with guided.tool_style

In: the text of a Jinja template. Out: a `ToolStyle`, or an error that says what could not be inferred. Steps:

    call_probes.py   renders conversations with made-up calls, and cuts out the text of the calls
    call_shapes.py   infers the form of the arguments: JSON, elements, or literals
    call_markup.py   infers the texts around calls
    this module      checks the style on other calls

The check uses calls with many kinds of values, one or several in a message. The style must write exactly the text that
the template renders, and its reader must read this text back as the same calls. The field `notes` of the style lists
the kinds of values that the template writes differently. For example, many templates write `True` although the other
values are JSON. Plain strings and integers must agree.

Cost: about 70 renderings. Not supported: inferring the markers of reasoning.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, Final

from guided.chat.call_markup import CallMarkup, infer_markup
from guided.chat.call_probes import HINT, CallRenderer, Calls, make_probe_tools
from guided.chat.call_shapes import infer_shape
from guided.chat.compiled import compile_template
from guided.chat.render_budget import limit_rendering
from guided.chat.sources import read_named_templates
from guided.errors import GuidedError, UnsupportedError, brief
from guided.frontends.structural_tag.argument_forms import argument_form, describe_form
from guided.frontends.structural_tag.tool_prompts import write_calls
from guided.frontends.structural_tag.tool_styles import ToolStyle

__all__ = ["derive_tool_style"]

_VALUES: Final[Mapping[str, Any]] = {
    "a text": "Oslo in May",
    "an integer": 12,
    "a negative number with a fraction": -1.5,
    "a large number": 1e30,
    "true": True,
    "false": False,
    "null": None,
    "an empty text": "",
    "a text with quotation marks": "say \"a\" or 'b'",
    "a text with line ends": "one\ntwo\n\nthree",
    "a text that begins with a line end": "\none",
    "a text with spaces around it": "  a ",
    "a text with backslashes": "C:\\dir\\new",
    "a text with markup": "<b> & </b> {x} [y] | é ｜ 漢",
    "a text that looks like JSON": '{"a": 1}',
    "a text that looks like a number": "12",
    "an empty list": [],
    "a list of texts": ["a", "b c"],
    "a list of numbers": [1, 2.5],
    "an empty object": {},
    "an object": {"lat": -1.5, "names": ["Oslo", "x"]},
    "an object in an object": {"at": {"on": {"y": "z"}, "x": 1}},
    "constants in a list": [True, None],
    "constants in an object": {"off": None, "on": True},
}
_REQUIRED: Final = ("a text", "an integer")
_TRIALS: Final = 12
# All renderings share the budget of one conversation of this size. Published templates need a twentieth of it.
_TOTAL_SIZE: Final = 500_000


def derive_tool_style(
    chat_template: str | Mapping[str, str], *, tokens: Mapping[str, str] | None = None, name: str = "derived"
) -> ToolStyle:
    """Derive a style of tool calls from a chat template.

    Args:
        chat_template: the text of a template, or a mapping from names to texts; "tool_use" is used if it exists,
            otherwise "default".
        tokens: values of `bos_token`, `eos_token` and similar variables of the template.
        name: the name of the style.

    Raises:
        UnsupportedError: the template is invalid or shows no calls, or their form cannot be inferred. The message
            states the reason. GuidedError: the template refuses the calls. LimitExceeded: rendering costs too much.
    """
    templates = read_named_templates(chat_template)
    source = templates.get("tool_use") or templates.get("default") or next(iter(templates.values()), None)
    if source is None:
        raise GuidedError("there is no chat template: pass its text, or a mapping from names to texts")
    variables = {"bos_token": "", "eos_token": "", **(tokens or {})}
    with limit_rendering(_TOTAL_SIZE):
        return _derive(CallRenderer(compile_template(source), source, variables), name)


def _derive(renderer: CallRenderer, name: str) -> ToolStyle:
    shape = infer_shape(renderer)
    markup = infer_markup(renderer, shape)
    call = {**markup.data["call"], "arguments": "json" if shape.form is None else describe_form(shape.form)}
    data = {"models": [], "source": "derived from a chat template", "excludes": [], **markup.data, "call": call}
    style = ToolStyle(name, data)
    argument_form(call["arguments"])  # checks the description
    exact_values, notes = _check_values(renderer, style, markup)
    _check_messages(renderer, style, markup, exact_values)
    if not markup.allows_several_calls:
        notes.append("the template does not write several calls in one message")
    return ToolStyle(name, data | ({"notes": notes} if notes else {}))


def _check_values(renderer: CallRenderer, style: ToolStyle, markup: CallMarkup) -> tuple[list[Any], list[str]]:
    """Compare how the style and the template write each value. Returns the equal values, and notes on the others."""
    exact_values, notes = list[Any](), list[str]()
    for kind, value in _VALUES.items():
        calls = [("probe", {"a": value, "b": "x"})]
        template_text, style_text = renderer.render_calls_or_empty(calls), _write_calls(style, markup, calls)
        if template_text.startswith(style_text) and _read_calls(style, style_text, calls) == list(calls):
            exact_values.append(value)
        elif kind in _REQUIRED:
            message = (
                f"the template writes {kind} as {brief(template_text)}, and the derived style as {brief(style_text)}"
            )
            if template_text.startswith(style_text):
                message = f"{brief(style_text)}, which the template writes, is not read back as the same call"
            raise UnsupportedError(message, hint=HINT)
        else:
            notes.append(f"the template does not write {kind} as this style does")
    return exact_values, notes


def _check_messages(renderer: CallRenderer, style: ToolStyle, markup: CallMarkup, values: list[Any]) -> None:
    """Compare messages with one to three calls and random arguments.

    Raises:
        UnsupportedError: the style does not write what the template renders, or does not read it back.
    """
    rng = random.Random(0)
    for trial in range(_TRIALS):
        calls = []
        for number in range(1 + trial % 3 if markup.allows_several_calls else 1):
            names = sorted(rng.sample(["a", "at_place", "b2", "city", "zone"], rng.randint(0, 3)))
            calls.append((f"probe_{number}", {key: rng.choice(values) for key in names}))
        template_text, style_text = renderer.render_calls(calls), _write_calls(style, markup, calls)
        if not template_text.startswith(style_text):
            message = (
                f"the template writes calls as {brief(template_text)}, and the derived style as {brief(style_text)}"
            )
            raise UnsupportedError(message, hint=HINT)
        read_back = _read_calls(style, style_text, calls)
        if read_back != calls:
            raise UnsupportedError(f"{brief(style_text)} is read back as the calls {brief(read_back)}", hint=HINT)


def _write_calls(style: ToolStyle, markup: CallMarkup, calls: Calls) -> str:
    """The text that the style writes."""
    calls_as_text = [(name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls]
    return markup.lead + "".join(piece.text for piece in write_calls(style, calls_as_text))


def _read_calls(style: ToolStyle, text: str, calls: Calls) -> list[tuple[str, Any]]:
    """The calls in a text. Empty if the text contains anything else, or if a call is incomplete."""
    reader = style.reader(make_probe_tools(calls))
    for char in text:
        reader.read(char)
    reader.finish()
    if reader.text.strip() or not all(call.complete for call in reader.calls):
        return []
    try:
        return [(call.name, json.loads(call.arguments)) for call in reader.calls]
    except ValueError:
        return []
