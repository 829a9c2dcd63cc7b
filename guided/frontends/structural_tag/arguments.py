"""Writes the arguments of a call in styles other than JSON: as elements, which some styles nest, or as literals.

In: a schema, and a form of `argument_forms.py`. Out: a part of a specification. All keywords of JSON Schema are
enforced as in JSON, since the same code interprets them. `element_text.py` and `literal_text.py` write the values, and
list what cannot be written.

In an element, a string is written literally, without quotation marks and escapes, and ends where the element ends. So
it cannot contain the closing tag. Neither can strings inside JSON. Any other value is JSON. If the schema allows
strings and other values, an attribute shows the type in some styles. In the other styles, a text is not a string if it
looks like JSON of a type that the schema allows there (`argument_types.py`).

If an XML style's schema allows no object, it describes one value, which is written like the value of an element.

Properties are written in the order of the schema, or with `any_order` in any order. Required properties are present,
and no property is repeated. If the schema declares properties and does not mention others, there are no others. A
schema without any requirements allows any properties.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from guided.errors import Finding, SpecError, UnsupportedError, brief
from guided.frontends.combinators import Expr, ReadPart
from guided.frontends.json_schema.compile import json_schema_to_grammar
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.json_schema.simple import shortest_text_bound
from guided.frontends.json_schema.text.lower import Lowering as Writer
from guided.frontends.json_schema.text.notation import Notation
from guided.frontends.json_schema.text.spelling import GAP
from guided.frontends.regex import parse_regex
from guided.frontends.structural_tag.argument_forms import ArgumentForm
from guided.frontends.structural_tag.element_forms import FORMS
from guided.frontends.structural_tag.element_text import ElementNotation
from guided.frontends.structural_tag.excluded import without_strings
from guided.frontends.structural_tag.formats import Format, relocate_error
from guided.frontends.structural_tag.literal_forms import LiteralForm
from guided.frontends.structural_tag.literal_text import LiteralNotation
from guided.ir.embedded import EmbeddedSchema
from guided.ir.nodes import And, Grammar, Node, Seq, Special, Text
from guided.limits import Limits

if TYPE_CHECKING:
    from guided.frontends.structural_tag.lower import Lowering

__all__ = ["lower_arguments", "shortest_arguments_bound"]

_NAME: Final = re.compile("[A-Za-z0-9_]+")
_REFERENCE: Final = re.compile(r'"\$(ref|dynamicRef|recursiveRef|id|schema)"')


def lower_arguments(fmt: Format, form: ArgumentForm, lowering: Lowering, changes: dict[str, Any]) -> Expr:
    """A part for the arguments that satisfy a schema. `changes`: JSON options that override the caller's."""
    schema, schema_pointer = fmt["json_schema"], f"{fmt.pointer}/json_schema"
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if isinstance(form, LiteralForm) and not form.braces and isinstance(kind, str) and kind != "object":
        raise SpecError(
            f"arguments must be an object, not {brief(kind)}", pointer=f"{schema_pointer}/type", hint='write "object"'
        )
    excludes: Sequence[str] = fmt.fields.get("excludes", ())
    excluded_strings = (*form.forbidden_texts, *excludes)
    gap = And((parse_regex(changes["whitespace"], dialect="ecma"), GAP)) if "whitespace" in changes else GAP

    def spell(text: str) -> Node:
        """A string of the style. Its quotation marks are separate nodes, so it does not look like a JSON string."""
        nodes: list[Node] = []
        for piece in lowering.pieces(text, schema_pointer):
            nodes += [piece] if isinstance(piece, Special) else map(Text, filter(None, re.split('(")', piece)))
        return Seq(tuple(nodes))

    for text in _delimiters(form):
        spell(text)  # raises SpecError if a control token is not allowed

    def read(limits: Limits, caller_options: JsonSchemaOptions, findings: list[Finding]) -> Grammar:
        own_findings: list[Finding] = []
        options = caller_options.with_changes(**changes, surrounding_whitespace=False)
        notations: list[ElementNotation] = []

        def make_notation(writer: Writer) -> Notation:
            if isinstance(form, LiteralForm):
                return LiteralNotation(writer, form, spell, excludes)
            notations.append(ElementNotation(writer, form, spell, gap, excludes))
            return notations[-1]

        try:
            grammar = json_schema_to_grammar(
                schema, options, limits=limits, findings=own_findings, notation=make_notation
            )
            grammar = without_strings(grammar, excluded_strings, limits) if excluded_strings else grammar
        except (SpecError, UnsupportedError) as error:
            raise relocate_error(error, schema_pointer) from None
        findings += [replace(finding, pointer=schema_pointer + finding.pointer) for finding in own_findings]
        embedded = {
            name: EmbeddedSchema(inner, options, {}, {}, schema_pointer + pointer)
            for element_notation in notations
            for name, pointer in element_notation.json_rules.items()
            if (inner := _schema_at(schema, pointer)) is not None
        }
        origins = {name: schema_pointer + pointer for name, pointer in grammar.origins.items()}
        return replace(grammar, origins=origins, schemas=embedded)

    return ReadPart(read, "json_schema", schema)


def _schema_at(schema: Any, pointer: str) -> Any:
    """The schema at a location, for explanations. None if it contains references, or is in another document."""
    try:
        for escaped_name in pointer.split("/")[1:]:
            name = escaped_name.replace("~1", "/").replace("~0", "~")
            schema = schema[int(name) if isinstance(schema, list) else name]
    except (LookupError, ValueError, TypeError):
        return None
    return schema if isinstance(schema, bool | dict) and not _REFERENCE.search(json.dumps(schema)) else None


def _delimiters(form: ArgumentForm) -> tuple[str, ...]:
    """The strings that a style writes around values."""
    if isinstance(form, LiteralForm):
        return form.quotes
    return form.begin, form.after, form.string, form.other, form.end


def shortest_arguments_bound(fmt: Format, lowering: Lowering) -> int | None:
    """An upper bound on the bytes of the shortest arguments, or None if the schema or the style is not simple enough.

    If values are elements, the shortest strings must not look like other values: they are empty, or are plain words of
    an enumeration.
    """
    if fmt.type not in ("json_schema", "qwen_xml_parameter"):
        return None
    form, schema = fmt.fields.get("style", FORMS["qwen_xml"]), fmt["json_schema"]
    if (
        form is None
        or lowering.has_end_token(*_delimiters(form))
        or (form.bare if isinstance(form, LiteralForm) else form.has_nested_elements)
        or any(fmt.fields.get(name) for name in ("any_order", "max_whitespace_cnt", "excludes"))
    ):
        return None
    shortest_bound = shortest_text_bound(schema, lowering.options) if isinstance(schema, dict) else None
    if (
        shortest_bound is None
        or schema.get("type") != "object"
        or schema.get("additionalProperties", False) is not False
    ):
        return None
    properties = schema["properties"]
    if isinstance(form, LiteralForm):  # literals are no longer than JSON
        return shortest_bound if all(map(form.can_write_name, properties)) else None
    if not all(_NAME.fullmatch(name) and _cannot_look_like_json(value) for name, value in properties.items()):
        return None
    for delimiter in _delimiters(form):
        lowering.pieces(delimiter, f"{fmt.pointer}/style")  # raises SpecError if a control token is not allowed
    delimiter_length = sum(len(delimiter.encode()) for delimiter in _delimiters(form))
    return shortest_bound + len(schema.get("required", [])) * delimiter_length


def _cannot_look_like_json(schema: Any) -> bool:
    """Whether texts of a schema that `shortest_text_bound` recognises are never taken for values of another type."""
    kind = schema.get("type")
    if kind != "string":
        return isinstance(kind, str)
    words = schema.get("enum", ())
    return "minLength" not in schema and all(map(_NAME.fullmatch, words))
