"""`minProperties` and `maxProperties` of arguments in XML styles, compared with counting combinations of elements."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import pytest

import guided
from guided.frontends.structural_tag.element_forms import FORMS
from tests.structural_tag_support import accepts, byte_compiler, ids_of, of_format

NAMES = ("a", "b", "c", "d")


def written(style: str, name: str) -> str:
    form = FORMS[style]
    after = f"{form.after}{form.value_prefix('number')}".replace("{gap}", "")
    return f"{form.begin}{name}{after}1{form.end}".replace("{name}", name)


def arguments(
    style: str, any_order: bool = False, names: tuple[str, ...] = NAMES, **more: Any
) -> guided.CompiledGrammar:
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names},
        "additionalProperties": False,
        **more,
    }
    form = {"type": "json_schema", "json_schema": schema, "style": style, "any_order": any_order}
    return byte_compiler().compile_structural_tag(of_format(form))


def takes(compiled: guided.CompiledGrammar, text: str) -> bool:
    return accepts(compiled, ids_of(byte_compiler(), text))


@pytest.mark.parametrize("style", sorted(FORMS))
@pytest.mark.parametrize("any_order", [False, True])
@pytest.mark.parametrize(("least", "most"), [(0, 2), (2, 3), (3, None), (1, 9), (4, 4)])
@pytest.mark.parametrize("required", [(), ("c",)])
def test_the_number_of_elements_follows_the_schema(
    style: str, any_order: bool, least: int, most: int | None, required: tuple[str, ...]
) -> None:
    bounds = {"minProperties": least, **({} if most is None else {"maxProperties": most})}
    compiled = arguments(style, any_order, required=list(required), **bounds)
    top = len(NAMES) if most is None else most
    for count in range(len(NAMES) + 1):
        for names in permutations(NAMES, count) if any_order else combinations(NAMES, count):
            expected = least <= count <= top and set(required) <= set(names)
            assert takes(compiled, "".join(written(style, name) for name in names)) is expected, names


def test_many_elements_are_counted() -> None:
    names = tuple(f"n{number}" for number in range(40))
    compiled = arguments("qwen_xml", names=names, minProperties=18, maxProperties=20)
    for count, expected in ((17, False), (18, True), (20, True), (21, False)):
        assert takes(compiled, "".join(written("qwen_xml", name) for name in names[::-1][:count][::-1])) is expected


@pytest.mark.parametrize("bounds", [{"minProperties": 5}, {"maxProperties": 0, "required": ["a"]}])
def test_counts_that_no_call_has(bounds: dict[str, Any]) -> None:
    with pytest.raises(guided.GuidedError):
        arguments("qwen_xml", **bounds)


@pytest.mark.parametrize("bound", [-1, 1.5, "2", True])
def test_invalid_bounds(bound: Any) -> None:
    with pytest.raises(guided.SpecError, match="non-negative integer"):
        arguments("qwen_xml", maxProperties=bound)


def test_other_properties_are_counted_if_no_name_repeats() -> None:
    others = {"type": "integer"}
    compiled = arguments("minimax_xml", additionalProperties=others, minProperties=3, maxProperties=3)
    for names, expected in (
        ("axy", True),
        ("abx", True),
        ("xyz", True),
        ("ax", False),
        ("axyz", False),
        ("axx", False),
    ):
        assert takes(compiled, "".join(written("minimax_xml", name) for name in names)) is expected, names
    compiled = arguments("qwen_xml", additionalProperties=others, minProperties=1, maxProperties=2)
    for names, expected in (("", False), ("a", True), ("x", True), ("xy", True), ("axy", False)):
        assert takes(compiled, "".join(written("qwen_xml", name) for name in names)) is expected, names
    with pytest.raises(guided.UnsupportedError, match="twice in this style"):
        arguments("qwen_xml", additionalProperties=others, minProperties=2)


def test_two_schemas_with_bounds_are_counted_apart() -> None:
    forms = []
    for least, name in ((1, "a"), (2, "b")):
        properties = {f"{name}{number}": {"type": "integer"} for number in range(2)}
        schema = {"type": "object", "properties": properties, "additionalProperties": False, "minProperties": least}
        forms.append({"type": "json_schema", "json_schema": schema, "style": "qwen_xml"})
    compiled = byte_compiler().compile_structural_tag(of_format({"type": "sequence", "elements": forms}))
    a, b, c = (written("qwen_xml", name) for name in ("a1", "b0", "b1"))
    assert takes(compiled, a + b + c)
    assert not takes(compiled, a + b)
    assert not takes(compiled, b + c)


def test_no_properties_are_counted() -> None:
    assert takes(arguments("qwen_xml", names=(), maxProperties=0), "")
    with pytest.raises(guided.GuidedError):
        arguments("qwen_xml", names=(), minProperties=1)
