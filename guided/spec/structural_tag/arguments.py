"""The arguments of a call in the XML styles: one element for each property of the schema.

    {"city": "Oslo", "days": 3}        in the style qwen_xml
    <parameter=city>
    Oslo
    </parameter>

    <parameter=days>
    3
    </parameter>

A string stands as it is, without quotation marks and escapes, and ends where the element ends, so it cannot contain the
closing tag. Any other value is JSON. Where the schema allows both, both may be written. The style may say in an
attribute which of them it is. If it does not, what looks like JSON of a type that the schema allows is no string.

The schema must be an object with `properties`; a property is any schema. Properties stand in their order, or with
`any_order` in any; required ones are there, and none is there twice. What cannot be written this way is refused:
keywords about the object as a whole but for `minProperties` and `maxProperties`, and names that cannot stand in an
element.

Without a keyword for additional properties there are none. Where the schema allows them, they follow the others, or
stand among them with `any_order`. Their names are letters, digits and _, and none of those in `properties`. That one of
them is there once is not enforced. A schema that says nothing at all allows any of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from guided.errors import Finding, GuidedError, SpecError, UnsupportedError, brief
from guided.ir.nodes import ANY_CHAR, EMPTY, And, Encoded, Grammar, Node, Not, Ref, Repeat, Seq, Text
from guided.ir.nodes import Alt as AltNode
from guided.limits import Limits
from guided.spec.aho_corasick import free_text
from guided.spec.combinators import Expr, ReadPart, choice, optional, regex, repeat, sequence, text
from guided.spec.json_schema.compile import json_schema_to_grammar
from guided.spec.json_schema.documents.places import escape
from guided.spec.json_schema.options import JsonSchemaOptions
from guided.spec.json_schema.simple import least_text
from guided.spec.regex import parse_regex
from guided.spec.structural_tag.property_counts import COUNTS, NOTHING, counted, property_counts

if TYPE_CHECKING:
    from guided.spec.structural_tag.formats import Format
    from guided.spec.structural_tag.lower import Lowering

__all__ = [
    "ELEMENTS",
    "OTHER_NAME",
    "WRAPPED",
    "Element",
    "Values",
    "any_order",
    "arguments",
    "is_json",
    "kinds_of",
    "least_arguments",
    "looks",
    "object_members",
    "other_members",
    "raw",
    "shared_definitions",
]  # fmt: skip


class Element(NamedTuple):
    """How a style writes one argument.

    Attributes:
        begin: before the name.
        string: after the name, if a string follows.
        other: after the name, if JSON follows. {type} stands for the type of the value. In both, {gap} is white space.
        end: after the value.
        framed: whether a string may stand on lines of its own, after a line end and before one.
    """

    begin: str
    string: str
    other: str
    end: str
    framed: bool = False


class Values(NamedTuple):
    """How the values of arguments are written.

    Attributes:
        options: of JSON, as changes to those of the whole.
        excludes: what strings do not contain.
        gap: white space around elements, and around JSON in them.
    """

    lowering: Lowering
    options: Mapping[str, Any]
    excludes: tuple[str, ...]
    gap: Expr

    def json(self, schema: Any, at: str, own: str) -> Expr:
        """As JSON. `own`: where in it the schema that the author gave stands."""
        return self.lowering.json(schema, at, self.options, self.excludes, own)


ELEMENTS: Final[Mapping[str, Element]] = {
    "qwen_xml": Element("<parameter=", ">", ">", "</parameter>", framed=True),
    "minimax_xml": Element('<parameter name="', '">', '">', "</parameter>"),
    "glm_xml": Element("<arg_key>", "</arg_key>{gap}<arg_value>", "</arg_key>{gap}<arg_value>", "</arg_value>"),
    "deepseek_xml": Element(
        '<｜DSML｜parameter name="', '" string="true">', '" string="false">', "</｜DSML｜parameter>"
    ),
    "deepseek_v4_1_xml": Element(
        '<｜DSML｜ parameter name="', '" string="true">', '" string="false">', "</｜DSML｜ parameter>"
    ),
    "kimi_k3_xml": Element(
        '<|open|>argument key="', '" type="string"<|sep|>', '" type="{type}"<|sep|>', "<|close|>argument<|sep|>"
    ),
}
_TYPES: Final = ("object", "array", "number", "boolean", "null")
_ABOUT: Final = ("title", "description", "$comment", "examples", "$schema", "default", "deprecated")
_READ: Final = ("type", "properties", "required", "additionalProperties", "$defs", "definitions", *_ABOUT)
WRAPPED: Final = "/allOf/0"
"""Where a schema stands in one that narrows it."""
_GAP: Final = regex(r"[ \t\r\n]*")
_BEGINS_A_LINE: Final = Seq((Text("\n"), Repeat(ANY_CHAR, 0, None)))
_LOOKS: Final = {
    "object": r"[ \t\r\n]*\{(?s:.*)",
    "array": r"[ \t\r\n]*\[(?s:.*)",
    "number": r"[ \t\r\n]*-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?[ \t\r\n]*",
    "boolean": r"[ \t\r\n]*(true|false)[ \t\r\n]*",
    "null": r"[ \t\r\n]*null[ \t\r\n]*",
}
_NAME: Final = re.compile("[A-Za-z0-9_]+")
OTHER_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
"""What an additional property may be called."""
_JSON: Final = '"<>&'


def arguments(it: Format, style: str, lowering: Lowering, changes: dict[str, Any]) -> Expr:
    """The elements of a schema's properties, with white space around each."""
    schema, at = it["json_schema"], f"{it.pointer}/json_schema"
    in_any_order = changes.get("property_order") == "any"
    gap = regex(changes["whitespace"]) if "whitespace" in changes else _GAP
    values = Values(lowering, changes, it.fields.get("excludes", ()), gap)
    if style not in ELEMENTS:
        from guided.spec.structural_tag.nested_arguments import NESTED, nested_arguments

        return nested_arguments(schema, at, NESTED[style], values, in_any_order)
    properties, required = object_members(schema, at, others=True)
    shared = shared_definitions(schema)
    elements: dict[str, Expr] = {}
    others = sequence()
    least, most = property_counts(schema, at, others=other_members(schema) is not None, named=len(properties))
    if (allowed := other_members(schema)) is not None:
        place = f"{at}/additionalProperties" if isinstance(schema, dict) and schema else at
        one = _element(_other_name(properties), allowed, place, ELEMENTS[style], shared, values)
        others = repeat(sequence(one, gap))
    for name, value in properties.items():
        if not isinstance(name, str):
            raise SpecError(f"the key {brief(name)} is not a string", pointer=f"{at}/properties", hint='write "name"')
        place = f"{at}/properties/{escape(name)}"
        if not name or any(c in _JSON or c.isspace() for c in name):
            raise UnsupportedError(
                f"the name {brief(name)} cannot stand in an element", pointer=place, hint="use letters, digits and _"
            )
        elements[name] = sequence(_element(text(name), value, place, ELEMENTS[style], shared, values), gap)
    if in_any_order:
        if len(elements) > 6:
            raise UnsupportedError(
                f"{len(elements)} properties in any order are too many in this style",
                pointer=f"{it.pointer}/any_order",
                hint="leave any_order out: properties stand in the order of the schema",
            )  # fmt: skip
        among = {name: sequence(part, others) for name, part in elements.items()}
        return sequence(gap, others, any_order(tuple(elements), among, required, least, most))
    if least or most < len(elements):
        return sequence(gap, counted(elements, required, least, most, at))
    return sequence(gap, *[part if name in required else optional(part) for name, part in elements.items()], others)


def least_arguments(it: Format, lowering: Lowering) -> int | None:
    """No less than the bytes of the shortest elements, if the schema is one of which all is known; else None.

    Of strings only those without bounds, or a few words, are known not to look like something else.
    """
    if it.type not in ("json_schema", "qwen_xml_parameter"):
        return None
    style, schema = it.fields.get("style", "qwen_xml"), it["json_schema"]
    if style not in ELEMENTS or any(it.fields.get(name) for name in ("any_order", "max_whitespace_cnt", "excludes")):
        return None
    least = least_text(schema, lowering.options) if isinstance(schema, dict) else None
    if least is None or schema.get("type") != "object" or schema.get("additionalProperties", False) is not False:
        return None
    properties = schema["properties"]
    if not all(_NAME.fullmatch(name) and _is_sure(value) for name, value in properties.items()):
        return None
    form = ELEMENTS[style]
    for part in (form.begin, form.string, form.other, form.end):
        lowering.pieces(part, f"{it.pointer}/style")  # control tokens need permission
    return least + len(schema.get("required", [])) * sum(len(part.encode()) for part in form if isinstance(part, str))


def _is_sure(schema: Any) -> bool:
    """Whether a value of a schema that `least_text` knows can stand in an element."""
    kind = schema.get("type")
    if kind != "string":
        return isinstance(kind, str)
    words = schema.get("enum", ())
    return "minLength" not in schema and all(map(_NAME.fullmatch, words))


def any_order(
    left: tuple[str, ...],
    elements: Mapping[str, Expr],
    required: frozenset[str],
    least: int = 0,
    most: int | None = None,
) -> Expr:
    """The elements that are left, each at most once; at least `least` of them, and at most `most`."""
    made: dict[tuple[str, ...], Expr] = {(): sequence() if len(left) >= least else NOTHING}

    def of(names: tuple[str, ...]) -> Expr:
        if names not in made:
            there = len(left) - len(names)
            more = names if most is None or there < most else ()
            parts = [sequence(elements[one], of(tuple(name for name in names if name != one))) for one in more]
            ways = parts if required & set(names) or there < least else [*parts, sequence()]
            made[names] = choice(*ways) if ways else NOTHING
        return made[names]

    return of(left)


def other_members(schema: Any) -> Any | None:
    """The schema of properties without a name; None: there are none."""
    if not isinstance(schema, dict) or not schema:
        return None if schema is False else True
    allowed = schema.get("additionalProperties", False)
    return None if allowed is False else allowed


def _other_name(properties: Collection[str]) -> Expr:
    """A name that is none of these."""
    names = And((parse_regex(OTHER_NAME), Not(AltNode(tuple(map(Text, properties))))))
    return ReadPart(lambda *_: names)


def object_members(schema: Any, at: str, *, others: bool = False) -> tuple[Mapping[str, Any], frozenset[str]]:
    """The properties, and which of them are required. `others`: whether there may be more than these."""
    if others and (schema is True or schema == {}):
        return {}, frozenset()
    if not isinstance(schema, dict):
        raise UnsupportedError(
            "arguments that no schema names cannot be told apart in this style", pointer=at,
            hint='write {"type": "object", "properties": {...}}',
        )  # fmt: skip
    for name in schema:
        if not isinstance(name, str):
            raise SpecError(f"the key {brief(name)} is not a string", pointer=at, hint="write it in quotation marks")
        if name not in _READ and not (others and name in COUNTS):
            raise UnsupportedError(
                f"{name!r} beside the properties of arguments is not enforced in this style",
                pointer=f"{at}/{escape(name)}",
                hint="write the properties out, and put it into the schema of a property",
            )  # fmt: skip
    if schema.get("type", "object") != "object":
        raise SpecError("arguments are an object", pointer=f"{at}/type", hint='write "type": "object"')
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict):
        raise SpecError('"properties" is not an object', pointer=f"{at}/properties", hint='write {"name": {...}}')
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise SpecError('"required" is not an array of names', pointer=f"{at}/required", hint='write ["name"]')
    if not others and schema.get("additionalProperties", False) is not False:
        raise UnsupportedError(
            "properties without a name are not enforced in this style", pointer=f"{at}/additionalProperties",
            hint='write "additionalProperties": false, and name the properties',
        )  # fmt: skip
    for number, name in enumerate(required):
        if name not in properties:
            raise SpecError(
                f"{brief(name)} is required, and is none of the properties", pointer=f"{at}/required/{number}",
                hint="add it to properties",
            )  # fmt: skip
    return properties, frozenset(required)


def _element(
    name: Expr,
    schema: Any,
    at: str,
    form: Element,
    shared: Mapping[str, Any],
    values: Values,
) -> Expr:
    lowering = values.lowering

    def spelled(string: str) -> Expr:
        first, *more = [lowering.spelled(one, at) for one in string.split("{gap}")]
        return sequence(first, *[one for part in more for one in (values.gap, part)])

    kinds = kinds_of(schema, shared)
    parts = []
    if "string" in kinds:
        unsure = looks(kinds) if form.string == form.other else ""
        alone = {**shared, "allOf": [schema, {"type": "string"}]}
        plain = raw(alone, at, (form.end, *values.excludes), unsure, framed=form.framed)
        parts.append(sequence(spelled(form.string), plain))
    others = [kind for kind in _TYPES if kind in kinds]
    groups = [[kind] for kind in others] if "{type}" in form.other else [others] if others else []
    for group in groups:
        alone = schema if kinds == set(group) else {"allOf": [schema, {"type": group}]}
        whole = {**shared, "allOf": [alone]} if shared else alone
        value = values.json(whole, at, WRAPPED * ((alone is not schema) + bool(shared)))
        parts.append(sequence(spelled(form.other.replace("{type}", group[0])), values.gap, value, values.gap))
    return sequence(spelled(form.begin), name, choice(*parts), spelled(form.end))


def shared_definitions(schema: Any) -> dict[str, Any]:
    """What the properties of a schema may refer to."""
    if not isinstance(schema, dict):
        return {}
    return {name: schema[name] for name in ("$defs", "definitions", "$schema") if name in schema}


def kinds_of(schema: Any, shared: Mapping[str, Any]) -> set[str]:
    """The types that a value of the schema may have."""
    if isinstance(schema, dict):
        named = schema.get("type")
        if isinstance(named, str):
            return {"number" if named == "integer" else named}
        values = (
            schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
        )
        if isinstance(values, list) and values:
            return {_type_of(value) for value in values}
    return {kind for kind in ("string", *_TYPES) if _allows({**shared, "allOf": [schema, {"type": kind}]})}


def _allows(schema: dict[str, Any]) -> bool:
    """Whether the schema has a value; true if it is wrong, which is told where it is compiled."""
    try:
        grammar = json_schema_to_grammar(schema, found=[], ask_for_values=False)
    except (GuidedError, RecursionError):
        return True
    return grammar.rules[grammar.start] != EMPTY


def looks(kinds: Collection[str]) -> str:
    """A pattern of what is JSON of one of these types, where an argument may be a string or JSON; "" if none is."""
    return "|".join(f"(?:{_LOOKS[kind]})" for kind in _TYPES if kind in kinds)


def is_json(written: str, kinds: Collection[str]) -> bool:
    """Whether the text of an argument, which may be a string or JSON, is JSON of one of these types."""
    return bool(pattern := looks(kinds)) and re.fullmatch(pattern, written) is not None


def _type_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case None:
            return "null"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
    return "object"


def raw(schema: Any, at: str, never: Sequence[str], not_these: str = "", *, framed: bool = False) -> Expr:
    """The strings of a schema, as they are, but for those that contain one of `never`, or that `not_these` matches.

    If a string may be framed by line ends, one that begins with a line end itself is always framed, so that it is read
    back as it is, and a reader knows from its first character whether it is framed.
    """

    def read(limits: Limits, whole: JsonSchemaOptions, found: list[Finding]) -> Node:
        from guided.spec.structural_tag.lower import placed

        try:
            options = whole.changed(escapes="minimal", surrounding_whitespace=False)
            grammar = json_schema_to_grammar(schema, options, limits=limits, found=[], ask_for_values=False)
        except (SpecError, UnsupportedError) as error:
            error.pointer = error.pointer.removeprefix(WRAPPED)
            raise placed(error, at) from None
        strings = _strings(grammar, grammar.rules[grammar.start])
        written: Node = And((strings, free_text([], never, limits=limits).without))
        if not_these:
            written = And((written, Not(parse_regex(not_these))))
        if not framed:
            return written
        return AltNode((And((written, Not(_BEGINS_A_LINE))), Seq((Text("\n"), written, Text("\n")))))

    return ReadPart(read, "json_schema", schema)


def _strings(grammar: Grammar, node: Node) -> Node:
    """The contents of JSON strings: a constant is written as text, and any other string as an encoded language."""
    match node:
        case Ref(name):
            return _strings(grammar, grammar.rules[name])
        case AltNode(items):
            return AltNode(tuple([_strings(grammar, item) for item in items]))
        case Text(written):
            return Text(json.loads(written))
        case Seq((Text('"'), Encoded(item), Text('"'))):
            return item
    raise UnsupportedError("the strings of this schema cannot be written without quotation marks")
