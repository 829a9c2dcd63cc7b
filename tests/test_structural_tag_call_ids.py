"""Ids of calls: the reader returns those that the model writes, and new ones are unique."""

from __future__ import annotations

import pytest

import guided
from guided.frontends.structural_tag.call_ids import CallIds
from guided.frontends.structural_tag.markup import Markup, Pattern

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("look", "find")
]
WRITTEN = {
    "kimi": ("<|tool_calls_section_begin|><|tool_call_begin|>functions.look:3<|tool_call_argument_begin|>{}"
             "<|tool_call_end|><|tool_call_begin|>functions.find:12<|tool_call_argument_begin|>{}<|tool_call_end|>"
             "<|tool_calls_section_end|>", ["functions.look:3", "functions.find:12"]),
    "mistral": ("[TOOL_CALLS]look[CALL_ID]VvODy9mT1[ARGS]{}[TOOL_CALLS]find[ARGS]{}", ["VvODy9mT1", ""]),
    "mistral_v3": ('[TOOL_CALLS][{"name": "look", "arguments": {}, "id": "VvODy9mT1"}, '
                   '{"name": "find", "arguments": {}}]', ["VvODy9mT1", ""]),
    "qwen_3": ('<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>\n'
               '<tool_call>\n{"name": "find", "arguments": {}}\n</tool_call>', ["", ""]),
    "cohere": ('<cofl:tool_calls><cofl:tool_call id="0" name="look"></cofl:tool_call>'
               '<cofl:tool_call id="1" name="find"></cofl:tool_call></cofl:tool_calls>', ["", ""]),
}  # fmt: skip


@pytest.mark.parametrize("style", WRITTEN)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_reader_returns_the_ids_that_the_model_writes(style: str, size: int) -> None:
    text, ids = WRITTEN[style]
    reader = guided.tool_style(style).reader(TOOLS)
    parts = [part for at in range(0, len(text), size) for part in reader.parts(text[at : at + size])]
    assert [(call.name, call.id) for call in reader.calls] == list(zip(("look", "find"), ids, strict=True))
    ends = [part for part in parts if getattr(part, "ends", False)]
    assert [part.id for part in ends] == ids
    begins = [part for part in parts if getattr(part, "begins", False)]
    assert [part.id for part in begins] == ([""] * 2 if style == "mistral_v3" else ids)


def test_a_derived_style_has_ids_if_the_template_shows_them() -> None:
    pytest.importorskip("jinja2", minversion="3.1.6")
    source = (
        "{%- for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}<call {{ c.id }}>"
        "{{ c.function.name }}: {{ c.function.arguments | tojson }}</call>{% endfor %}{% endfor %}"
    )
    reader = guided.derive_tool_style(source).reader(TOOLS)
    reader.read("<call call_12-b>look: {}</call>")
    assert [(call.name, call.id) for call in reader.calls] == [("look", "call_12-b")]


@pytest.mark.parametrize("text", ["functions.{name}:{index}", "{id}", "{id}.{name}", "a{id}b{id}"])
def test_patterns_read_what_they_write(text: str) -> None:
    pattern, values = Pattern(text), {"name": "f.g:1\n", "index": "12", "id": "VvODy9mT1"}
    written = pattern.write(values)
    read = pattern.read(written)
    assert read is not None and read.items() <= values.items()
    assert pattern.read(f"!{written}") is None and pattern.write({}) == ""


def test_many_ids_cost_linear_time() -> None:
    """Ids that are the next numbers are skipped once, and not once for each call."""
    size = 100_000
    taken = [f"functions.f:{number}" for number in range(size, 2 * size)]
    form = Markup.from_style(guided.tool_style("kimi").data).id_form
    assert form is not None
    ids = CallIds(form, taken)
    assert len({ids.make("f") for _ in range(size)} | set(taken)) == 2 * size
