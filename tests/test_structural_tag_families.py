"""The structural tags of all model families compared with those of xgrammar, both in a normal form."""

from __future__ import annotations

from typing import Any

import pytest

import guided
from tests.test_structural_tag_calls import TOOLS, XGRAMMARS
from tests.xgrammar_version import XGRAMMAR

xgrammar = pytest.importorskip("xgrammar", reason="xgrammar is not installed")
families = pytest.importorskip("xgrammar.builtin_structural_tag", reason="xgrammar is not installed")

NAMED = {"type": "function", "function": {"name": "pick"}}
SAID_OTHERWISE = {"harmony"}
"""Messages are put together in another way; `test_structural_tag_calls.py` compares the texts."""
SPACELESS_ENDS = ("qwen_3_5", "qwen_3_coder")
"""A call without arguments may end without the newline that ends the arguments, as in the chat templates."""
TYPED = '{"type": "function", "name": '
"""Calls of Llama 3.3 may begin like this."""
NOT_SAID = ("max_tokens", "max_chars", "at_least_one", "stop_after_first")
"""Members that mean nothing where they are null or false."""


def without_additions(style: str, form: Any) -> Any:
    """Our format without the forms of calls that xgrammar does not have."""
    if isinstance(form, list):
        return [without_additions(style, item) for item in form]
    if not isinstance(form, dict):
        return form
    form = {name: without_additions(style, value) for name, value in form.items()}
    if style in SPACELESS_ENDS and form.get("type") == "tag" and isinstance(form["end"], list):
        end, spaceless_end = form["end"]
        assert end == "\n" + spaceless_end
        form["end"] = end
    if style == "llama":
        for name in ("begin", "triggers"):
            if len(texts := form.get(name, ())) == 2:
                assert texts[1].startswith(TYPED)
                form[name] = texts[0] if name == "begin" else texts[:1]
        if form.get("type") == "any_text":
            form["excludes"] = [text for text in form["excludes"] if text != TYPED]
    return form


def in_one_form(form: Any) -> Any:
    """The normal form of a format. Formats with the same meaning have the same form."""
    if isinstance(form, list | tuple):
        return [in_one_form(item) for item in form]
    if not isinstance(form, dict):
        return form
    if form.get("type") == "json_schema":
        kept = {name: form[name] for name in ("type", "json_schema", "style")}
        return {**kept, "excludes": sorted(form.get("excludes", ()))}
    if form.get("type") == "regex":
        return {"type": "regex", "pattern": form["pattern"].replace("\\d", "[0-9]")}
    out = {
        name: in_one_form(value) for name, value in form.items() if name not in NOT_SAID or value not in (None, False)
    }
    if "excludes" in out:
        out["excludes"] = sorted(set(out["excludes"]))
    match out.get("type"):
        case "sequence":
            return joined(out["elements"])
        case "tags_with_separator" if out.get("at_least_one") and out.get("stop_after_first"):
            return out["tags"][0] if len(out["tags"]) == 1 else {"type": "or", "elements": out["tags"]}
        case "tag":
            end = out["end"][0] if isinstance(out["end"], list) and len(out["end"]) == 1 else out["end"]
            if out["content"]["type"] == "any_text" or not isinstance(end, str):
                return {**out, "end": end}
            return joined([text(out["begin"]), out["content"], text(end)])
    return out


def text(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}


def joined(elements: list[Any]) -> Any:
    """A sequence without nested sequences and without adjacent constants."""
    out: list[Any] = []
    for element in elements:
        for one in element["elements"] if element["type"] == "sequence" else [element]:
            if one["type"] == "const_string" and out and out[-1]["type"] == "const_string":
                out[-1] = text(out[-1]["value"] + one["value"])
            elif one != text(""):
                out.append(one)
    return out[0] if len(out) == 1 else {"type": "sequence", "elements": out}


def test_all_families_are_there() -> None:
    assert set(families._structural_tag_registry) == set(XGRAMMARS) < set(guided.TOOL_STYLES)


@pytest.mark.parametrize("style", sorted(set(XGRAMMARS) - SAID_OTHERWISE))
@pytest.mark.parametrize("reasoning", ["enabled", "disabled", "auto"])
def test_the_structural_tag_is_xgrammars(style: str, reasoning: Any) -> None:
    if XGRAMMAR < (0, 2, 9) and style.startswith("deepseek_v4"):
        pytest.skip("xgrammar 0.2.8 allows text after the calls")
    for choice in ("auto", "none", "required", NAMED):
        for parallel in (True, False):
            options: Any = {"tool_choice": choice, "parallel_tool_calls": parallel, "reasoning": reasoning}
            ours = guided.tool_style(style).structural_tag(TOOLS, **options)["format"]
            theirs = xgrammar.get_model_structural_tag(style, TOOLS, **options).model_dump()["format"]
            assert in_one_form(without_additions(style, ours)) == in_one_form(theirs), (choice, parallel)
