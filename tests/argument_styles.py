"""The XML styles, implemented a second time: writes arguments in each style, and splits texts into their elements.

The writer produces what the chat templates of the models write. The reader knows no schema. If a style does not say
whether a value is a string, only its text is known.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

MARK = "]<]minimax[>["
FLAT = {
    "qwen_xml": ("<parameter={name}>", "<parameter={name}>", "</parameter>"),
    "minimax_xml": ('<parameter name="{name}">', '<parameter name="{name}">', "</parameter>"),
    "glm_xml": ("<arg_key>{name}</arg_key><arg_value>", "<arg_key>{name}</arg_key><arg_value>", "</arg_value>"),
    "deepseek_xml": (
        '<｜DSML｜parameter name="{name}" string="true">',
        '<｜DSML｜parameter name="{name}" string="false">',
        "</｜DSML｜parameter>",
    ),
    "deepseek_v4_1_xml": (
        '<｜DSML｜ parameter name="{name}" string="true">',
        '<｜DSML｜ parameter name="{name}" string="false">',
        "</｜DSML｜ parameter>",
    ),
    "kimi_k3_xml": (
        '<|open|>argument key="{name}" type="string"<|sep|>',
        '<|open|>argument key="{name}" type="{type}"<|sep|>',
        "<|close|>argument<|sep|>",
    ),
}
TYPED = ("deepseek_xml", "deepseek_v4_1_xml", "kimi_k3_xml", "cohere_xml")
QUOTED = ("minimax_xml", *TYPED)
STYLES = (*FLAT, "cohere_xml", "minimax_m3_xml")
COHERE = {str: "raw", dict: "dict", list: "list"}
KIMI = {dict: "object", list: "array", bool: "boolean", type(None): "null"}


class Element(NamedTuple):
    """`kind`: "string", "json", "object" or "array" if the style says so, otherwise "". `value`: text, or elements."""

    name: str
    kind: str
    value: Any


def spelled(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def written(style: str, arguments: dict[str, Any]) -> str:
    """The arguments as the style writes them."""
    if style == "cohere_xml":
        return "".join(_cohere(value, name) for name, value in arguments.items())
    if style == "minimax_m3_xml":
        return "".join(_minimax(value, name) for name, value in arguments.items())
    string, other, end = FLAT[style]
    out = ""
    for name, value in arguments.items():
        begin = string if isinstance(value, str) else other
        called = name.replace("&", "&amp;").replace('"', "&quot;") if style == "kimi_k3_xml" else name
        out += begin.format(name=called, type=KIMI.get(type(value), "number"))
        framed = style == "qwen_xml" and isinstance(value, str) and value.startswith("\n")
        out += f"\n{value}\n" if framed else spelled(value)
        out += end
    return out


def _cohere(value: Any, name: str | None = None) -> str:
    inner = "".join(_cohere(item) for item in value) if isinstance(value, list) else spelled(value)
    if isinstance(value, dict):
        inner = "".join(_cohere(item, key) for key, item in value.items())
    called = "" if name is None else f' name="{_escaped(name)}"'
    return f'<cofl:value{called} type="{COHERE.get(type(value), "json")}">{inner}</cofl:value>'


def _escaped(name: str) -> str:
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _minimax(value: Any, name: str) -> str:
    inner = "".join(_minimax(item, "item") for item in value) if isinstance(value, list) else spelled(value)
    if isinstance(value, dict):
        inner = "".join(_minimax(item, key) for key, item in value.items())
    return f"{MARK}<{name}>{inner}{MARK}</{name}>"


def elements(style: str, text: str) -> list[Element]:
    """The elements of a text in one of the flat styles, or in Cohere's. Raises an error for other text."""
    if style == "cohere_xml":
        found, at = _cohere_elements(text, 0)
        assert at == len(text), text[at:]
        return found
    string, other, end = (
        re.escape(part).replace(r"\{name\}", '([^"]+)' if style in QUOTED else '([^"<>]+)', 1) for part in FLAT[style]
    )
    other = other.replace(r"\{type\}", "(?:object|array|number|integer|boolean|null)")
    out, at = [], len(text) - len(text.lstrip(" \t\r\n"))
    while at < len(text):
        for kind, begin in (("string" if string != other else "", string), ("json", other)):
            pattern = begin.replace("</arg_key><arg_value>", r"</arg_key>[ \t\r\n]*<arg_value>")
            if found_one := re.compile(f"{pattern}(.*?){end}[ \\t\\r\\n]*", re.DOTALL).match(text, at):
                name = (
                    found_one[1].replace("&quot;", '"').replace("&amp;", "&")
                    if style == "kimi_k3_xml"
                    else found_one[1]
                )
                out.append(Element(name, kind, found_one[2]))
                at = found_one.end()
                break
        else:
            raise AssertionError(text[at:])
    return out


def _cohere_elements(text: str, at: int) -> tuple[list[Element], int]:
    out: list[Element] = []
    head = re.compile(r'[ \t\r\n]*<cofl:value(?: name="([^"<>]*)")? type="(raw|json|dict|list)">')
    while found := head.match(text, at):
        name, kind, at = found[1] or "", found[2], found.end()
        if kind in ("dict", "list"):
            inner, at = _cohere_elements(text, at)
            value: Any = inner
        else:
            stop = text.index("</cofl:value>", at)
            value, at = text[at:stop], stop
        end = re.compile(r"[ \t\r\n]*</cofl:value>").match(text, at)
        assert end, text[at:]
        at = end.end()
        for char, escape in (('"', "&quot;"), (">", "&gt;"), ("<", "&lt;"), ("&", "&amp;")):
            name = name.replace(escape, char)
        out.append(Element(name, {"raw": "string", "json": "json", "dict": "object", "list": "array"}[kind], value))
    rest = re.compile(r"[ \t\r\n]*").match(text, at)
    return out, rest.end() if rest and rest.end() == len(text) else at


def value_of(element: Element) -> Any:
    """The value of an element whose style determines its kind."""
    match element.kind:
        case "string":
            return element.value
        case "json":
            return json.loads(element.value)
        case "object":
            return {one.name: value_of(one) for one in element.value}
        case "array":
            return [value_of(one) for one in element.value]
    raise AssertionError(element)
