"""Chat templates by the style of their calls, and small templates with the same markup for models whose template is
missing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from guided.frontends.structural_tag.tool_prompts import write_calls
from guided.frontends.structural_tag.tool_styles import ToolStyle

Calls = list[tuple[str, dict[str, Any]]]
_FOLDERS = (Path(__file__).parent / "chat_templates", Path(__file__).parent / "call_templates")
PUBLISHED = {path.stem: path.read_text("utf-8") for folder in _FOLDERS for path in sorted(folder.glob("*.jinja"))}

_ELEMENTS = """
{%- macro member(o) %}{% for k, v in o.items() -%}
<cofl:value name="{{ k|replace('&', '&amp;')|replace('"', '&quot;')|replace('<', '&lt;')|replace('>', '&gt;') }}"
{{- value(v) }}</cofl:value>{% endfor %}{% endmacro %}
{%- macro value(v) %}
{%- if v is string %} type="raw">{{ v }}
{%- elif v is mapping %} type="dict">{{ member(v) }}
{%- elif v is sequence %} type="list">{% for i in v %}<cofl:value{{ value(i) }}</cofl:value>{% endfor %}
{%- else %} type="json">{{ v|tojson }}{% endif %}{% endmacro -%}
"""
_DSML = """
{%- for k, v in c.function.arguments.items() -%}
<｜DSML｜ parameter name="{{ k }}" string="{{ 'true' if v is string else 'false' }}">
{{- v if v is string else v|tojson }}</｜DSML｜ parameter>{{ '\\n' }}{% endfor %}"""
_QWEN = """
{%- for k, v in c.function.arguments.items() -%}
<parameter={{ k }}>{{ '\\n' }}{{ v if v is string else v|tojson }}{{ '\\n' }}</parameter>
{{- '\\n' if not loop.last }}{% endfor %}"""


def template(opening: str, call: str, closing: str, separator: str = "", macros: str = "") -> str:
    """A template that writes calls in this form. `call` is Jinja text about `c`."""
    calls = (
        f"{{% for c in m.tool_calls %}}{call}{{% if not loop.last %}}{{{{ {separator!r} }}}}{{% endif %}}{{% endfor %}}"
    )
    texts = [f"{{{{ {text!r} }}}}" for text in (opening, closing)]
    message = f"{{{{ m.content }}}}{{% if m.tool_calls %}}{texts[0]}{calls}{texts[1]}{{% endif %}}"
    begin = "{% if tools %}<|tools|>{{ tools|tojson }}<|end|>{% endif %}"
    return f"{macros}{begin}{{% for m in messages %}}<|{{{{ m.role }}}}|>{message}<|end|>{{% endfor %}}"


_JSON = "{{ c.function.arguments|tojson }}"
SAME_MARKUP = {
    "cohere": template(
        "<cofl:tool_calls>",
        '<cofl:tool_call id="{{ loop.index0 }}" name="{{ c.function.name }}">'
        "{{ member(c.function.arguments) }}</cofl:tool_call>",
        "</cofl:tool_calls>", macros=_ELEMENTS,
    ),
    "deepseek_r1": template(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ c.function.name }}{{ '\\n' }}```json{{ '\\n' }}" + _JSON
        + "{{ '\\n' }}```<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>", "\n",
    ),
    "deepseek_v4_1": template(
        "\n\n<｜DSML｜ calls>\n",
        '<｜DSML｜ invoke name="{{ c.function.name }}">{{ \'\\n\' }}' + _DSML + "</｜DSML｜ invoke>{{ '\\n' }}",
        "</｜DSML｜ calls>",
    ),
    "exaone": template(
        "", '<tool_call>{"name": "{{ c.function.name }}", "arguments": ' + _JSON + "}</tool_call>", "", "\n"
    ),
    "kimi": template(
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>functions.{{ c.function.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>" + _JSON
        + "<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    ),
    "mimo": template(
        "", "<tool_call><function={{ c.function.name }}>" + _QWEN + "</function></tool_call>", "", "\n"
    ),
    "granite": template(
        "<|tool_call|>[", '{"name": "{{ c.function.name }}", "arguments": ' + _JSON + "}", "]", ", "
    ),
    "phi_4_mini": template(
        "functools[", '{"name": "{{ c.function.name }}", "arguments": ' + _JSON + "}", "]", ", "
    ),
    "olmo_3": template(
        "<function_calls>\n",
        "{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}="
        """{{ "'" + v + "'" if v is string else v|tojson }}{{ ', ' if not loop.last }}{% endfor %})""",
        "\n</function_calls>", "\n",
    ),
    "pythonic": template(
        "[",
        "{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}="
        """{{ '"' + v + '"' if v is string else v|string }}{{ ', ' if not loop.last }}{% endfor %})""",
        "]", ", ",
    ),
    "step_3": template(
        "<｜tool_calls_begin｜>\n",
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{{ c.function.name }}">{{ \'\\n\' }}'
        "{% for k, v in c.function.arguments.items() %}"
        '<steptml:parameter name="{{ k }}">{{ v if v is string else v|tojson }}</steptml:parameter>{{ \'\\n\' }}'
        "{% endfor %}</steptml:invoke><｜tool_call_end｜>",
        "\n<｜tool_calls_end｜>", "\n",
    ),
}  # fmt: skip
"""By the style. Templates of these models are not in llama.cpp, show no calls, or cannot be rendered in a sandbox."""

OF_STYLE = {
    "deepseek_v3_1": "deepseek-v3.1", "deepseek_v3_2": "deepseek-v3.2", "deepseek_v4": "deepseek-v4",
    "glm_4_7": "glm-4.6", "kimi_k3": "kimi-k3", "llama": "llama-3.2", "minimax": "minimax-m2",
    "minimax_m3": "minimax-m3", "qwen_3": "qwen-3", "qwen_3_5": "qwen-3.5", "qwen_3_coder": "qwen-3-coder",
    "gemma_4": "gemma-4", "lfm2": "lfm-2.5", "mistral": "ministral-3", "mistral_v3": "mistral-nemo",
    "nemotron": "nemotron-nano-2", "nemotron_3": "nemotron-3-nano", "step_3_5": "step-3.5",
}  # fmt: skip
TEMPLATES = {style: PUBLISHED[name] for style, name in OF_STYLE.items()} | SAME_MARKUP
"""A template for each style except harmony, whose messages have their own form."""


def text_of(style: ToolStyle, calls: Calls) -> str:
    """The text that a style writes."""
    named = [(name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls]
    return "".join(piece.text for piece in write_calls(style, named))
