"""The arguments of a call in the XML styles whose elements nest: a member and an item are elements of their own.

    {"city": "Oslo", "at": {"lat": 1.5}, "tags": ["a"]}        in the style cohere_xml, without the line ends
    <cofl:value name="city" type="raw">Oslo</cofl:value>
    <cofl:value name="at" type="dict"><cofl:value name="lat" type="json">1.5</cofl:value></cofl:value>
    <cofl:value name="tags" type="list"><cofl:value type="raw">a</cofl:value></cofl:value>

In: the schema of the arguments. Out: a part of a specification. A string stands as it is; numbers, booleans and null
are JSON. Objects have the members that `properties` names, in their order, or with `any_order` in any. Arrays have
`prefixItems`, `items`, `minItems` and `maxItems`. A value may be one of several (`anyOf`, `enum`, several types), and
definitions may be recursive. What else a schema says of objects and arrays is refused.

Where the style does not write the type (minimax_m3_xml), the reader infers it: what looks like JSON of a type that the
schema allows *there* is no string, and what has elements is the object or the array, of which a schema allows one.
Which schemas are "there" the reader cannot always tell: of {"anyOf": [A, B]} it does not know whether A was written. So
each schema is written with the `rivals` in mind that may stand at the same place.

Source: xgrammar 0.2.8, what its grammars for these styles accept. Cost: linear in the schema; where several objects may
stand at one place, in the pairs of them.
"""

from __future__ import annotations

import html
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from guided.errors import LimitExceeded, SpecError, UnsupportedError, brief
from guided.ir.nodes import EMPTY
from guided.spec.combinators import Expr, ReadPart, choice, optional, repeat, rule, rules, sequence
from guided.spec.json_schema.documents.places import escape
from guided.spec.structural_tag.arguments import WRAPPED, Values, any_order, object_members, raw, shared_definitions
from guided.spec.structural_tag.nested_shapes import OF_OBJECTS, Place, Shapes, arrays, item_at, member_of

__all__ = ["NESTED", "NestedElement", "looks", "nested_arguments"]


class NestedElement(NamedTuple):
    """How a style writes one value.

    Attributes:
        member, item: before the value. {name} stands for the name of the member, {type} for the type of the value.
        end, item_end: after the value.
        never: what a string does not contain.
        around: whether white space may stand around a number, a boolean and null.
        between: whether white space may stand between items.
        escapes: whether names are written with &lt; and the like.
    """

    member: str
    item: str
    end: str
    item_end: str
    never: str
    around: bool
    between: bool
    escapes: bool

    @property
    def is_typed(self) -> bool:
        """Whether the type of a value is written."""
        return "{type}" in self.item

    def name(self, name: str) -> str:
        """A name as it is written."""
        return html.escape(name).replace("&#x27;", "'") if self.escapes else name


_MARK: Final = "]<]minimax[>["
NESTED: Final[Mapping[str, NestedElement]] = {
    "cohere_xml": NestedElement(
        '<cofl:value name="{name}" type="{type}">', '<cofl:value type="{type}">', "</cofl:value>", "</cofl:value>",
        "</cofl:value>", around=True, between=False, escapes=True,
    ),
    "minimax_m3_xml": NestedElement(
        _MARK + "<{name}>", _MARK + "<item>", _MARK + "</{name}>", _MARK + "</item>",
        _MARK, around=False, between=True, escapes=False,
    ),
}  # fmt: skip
TYPES: Final = {"string": "raw", "number": "json", "boolean": "json", "null": "json", "object": "dict", "array": "list"}
"""How `cohere_xml` calls the types."""
_SCALARS: Final = ("number", "boolean", "null")
_LOOKS: Final = {
    "object": r"[ \t\r\n]*",
    "array": r"[ \t\r\n]*",
    "number": r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    "boolean": "true|false",
    "null": "null",
}
_MOST_IN_ANY_ORDER: Final = 6


def looks(kinds: Collection[str]) -> str:
    """A pattern of what is JSON of one of these types, or has no elements where elements may be."""
    return "|".join(f"(?:{_LOOKS[kind]})" for kind in _LOOKS if kind in kinds)


def nested_arguments(schema: Any, at: str, form: NestedElement, values: Values, in_any_order: bool) -> Expr:
    """The elements of an object.

    Raises:
        SpecError, UnsupportedError: the schema is malformed, or says what is not read.
        LimitExceeded: the schema is too large, or many objects may stand at the same places.
    """
    from guided.spec.structural_tag.lower import placed

    object_members(schema, at)
    try:
        root = Place({name: schema[name] for name in OF_OBJECTS if name in schema}, "")
        writer = _Writer(form, shared_definitions(schema), at, values, in_any_order)
        start = writer.write_object(root, [root])
    except (SpecError, UnsupportedError) as error:
        raise placed(error, at) from None
    return rules(start, **writer.rules)


class _Writer:
    """Writes the values of one schema. `rules`: those of the objects and arrays so far."""

    def __init__(
        self, form: NestedElement, shared: Mapping[str, Any], at: str, values: Values, in_any_order: bool
    ) -> None:
        self.form, self.shared, self.at, self.values, self.in_any_order = form, shared, at, values, in_any_order
        self.lowering = values.lowering
        self.shapes = Shapes(shared)
        self.rules: dict[str, Expr] = {}
        self._names: dict[tuple[str, ...], str] = {}
        self._elements = 0

    def _container(self, place: Place, rivals: list[Place], kind: str) -> Expr:
        """A rule for the object or array, since it may contain itself."""
        key = (kind, place.at, *sorted(one.at for one in rivals))
        if key not in self._names:
            name = self._names[key] = f"{self.at}{place.at} {len(self._names)}"
            self.rules[name] = self.write_object(place, rivals) if kind == "object" else self.write_array(place, rivals)
        return rule(self._names[key])

    def write_object(self, place: Place, rivals: list[Place]) -> Expr:
        """The members, with white space around each."""
        properties, required = object_members(place.schema, place.at)
        parts = {}
        for name in properties:
            same = [member_of(one, name) for one in rivals if name in one.schema.get("properties", {})]
            begin = self.form.member.replace("{name}", self._name(name, place.at))
            element = self.element(member_of(place, name), same, begin, self.form.end.replace("{name}", name))
            parts[name] = sequence(element, self.values.gap)
        if self.in_any_order:
            if len(parts) > _MOST_IN_ANY_ORDER:
                raise UnsupportedError(
                    f"{len(parts)} properties in any order are too many in this style", pointer=place.at,
                    hint="leave any_order out: properties stand in the order of the schema",
                )  # fmt: skip
            return sequence(self.values.gap, any_order(tuple(parts), parts, required))
        return sequence(
            self.values.gap, *[part if name in required else optional(part) for name, part in parts.items()]
        )

    def _name(self, name: object, at: str) -> str:
        if not isinstance(name, str):
            raise SpecError(f"the key {brief(name)} is not a string", pointer=f"{at}/properties", hint='write "name"')
        wrong = "\0" if self.form.escapes else '\0<>&"' + " \t\r\n"
        if not name or any(c in wrong for c in name):
            raise UnsupportedError(
                f"the name {brief(name)} cannot stand in an element", hint="use letters, digits and _",
                pointer=f"{at}/properties/{escape(name)}",
            )  # fmt: skip
        return self.form.name(name)

    def write_array(self, place: Place, rivals: list[Place]) -> Expr:
        """The items, one after the other."""
        prefix, _, low, high = arrays(place)
        first = len(prefix) if high is None else min(len(prefix), high)
        out = sequence()
        if high is None or high > first:
            out = self._repeated(place, rivals, max(0, low - first), None if high is None else high - first)
        elif low > first:
            out = _nothing()
        for number in range(first - 1, -1, -1):
            same = [item_at(one, number) for one in rivals]
            out = sequence(self._item(item_at(place, number), same), out)
            out = out if number < low else optional(out)
        return sequence(self.values.gap, out, self.values.gap)

    def _repeated(self, place: Place, rivals: list[Place], low: int, high: int | None) -> Expr:
        """The items behind `prefixItems`; a rival's may still be among its own."""
        number = len(arrays(place)[0])
        own = item_at(place, number)
        if own.schema is False or (high is not None and high < low):
            return sequence() if not low else _nothing()
        longest = max((len(arrays(one)[0]) for one in rivals), default=0)
        later = range(number, max(number, longest) + 1)
        same = [item_at(one, other) for one in rivals for other in later]
        return repeat(self._item(own, list({it.at: it for it in same}.values())), low, high)

    def _item(self, place: Place, rivals: list[Place]) -> Expr:
        element = self.element(place, rivals, self.form.item, self.form.item_end)
        return sequence(element, self.values.gap) if self.form.between else element

    def element(self, place: Place, rivals: list[Place], begin: str, end: str) -> Expr:
        """A value with its element."""
        self._elements += 1 + len(rivals)
        if self._elements > self.lowering.limits.nodes:
            raise LimitExceeded("nodes", self._elements, self.lowering.limits.nodes)
        kinds = self.shapes.kinds(place)
        seen = frozenset[str]().union(*map(self.shapes.kinds, [] if self.form.is_typed else rivals))
        if {"object", "array"} <= seen:
            raise UnsupportedError(
                "an object and an array cannot be told apart in this style", pointer=place.at,
                hint="put them into two properties",
            )  # fmt: skip
        contents: dict[str, list[Expr]] = {}  # by the type that is written
        for kind, content in self._values(place, rivals, kinds, looks(seen)):
            contents.setdefault(TYPES[kind] if self.form.is_typed else "", []).append(content)
        ways = [
            sequence(self.lowering.spelled(begin.replace("{type}", written), place.at), choice(*some))
            for written, some in contents.items()
        ]
        return sequence(choice(*ways), self.lowering.spelled(end, place.at)) if ways else _nothing()

    def _values(
        self, place: Place, rivals: list[Place], kinds: frozenset[str], not_these: str
    ) -> Iterator[tuple[str, Expr]]:
        pointer = f"{self.at}{place.at}"  # of what is read when the whole is compiled
        if "string" in kinds:
            alone = {**self.shared, "allOf": [place.schema, {"type": "string"}]}
            yield "string", raw(alone, pointer, (self.form.never, *self.values.excludes), not_these)
        if others := [kind for kind in _SCALARS if kind in kinds]:
            whole = {**self.shared, "allOf": [place.schema, {"type": others}]}
            value = self.values.json(whole, pointer, WRAPPED)
            yield others[0], sequence(self.values.gap, value, self.values.gap) if self.form.around else value
        for kind in ("object", "array"):
            if kind in kinds:
                found = [] if self.form.is_typed else [one for each in rivals for one in self.shapes.leaves(each, kind)]
                same = list({one.at: one for one in found}.values())
                for leaf in self.shapes.leaves(place, kind):
                    yield kind, self._container(leaf, same, kind)


def _nothing() -> Expr:
    return ReadPart(lambda *_: EMPTY)
