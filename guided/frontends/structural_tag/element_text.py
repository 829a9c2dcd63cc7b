"""Writes the arguments of calls in the XML styles: members, items and strings that are not JSON.

In: the interpreted schema from `frontends/json_schema/`, so all of its keywords have the same meaning here. Out: IR.
Each member of the arguments is an element. A string is written literally, without quotation marks and escapes. Any
other value is JSON; in the styles that nest, objects and arrays consist of elements. `arguments.py` ensures that no
string contains the text that ends its element.

A schema that allows no object describes one value, not arguments. This *bare* value is written like the value of an
element, without the texts around it: the caller writes those.

Levels (see `Notation`): from 0 on, values are JSON. Each set of goals (`argument_types.py`) has an even negative level
for the value of an element, and the odd level below it for the members or items of this value. In styles that write the
types of values, all elements share one even level. Level -1 are the arguments, and -2 is a bare value.

The module refuses names that the style cannot write; members without a declared name, if the end repeats the name;
items that must differ, if they are elements; an object and an array as alternatives, if types are not written.

Names of additional members differ if the style writes them in quotation marks. In other styles a name may be repeated,
and the reader keeps the last value. So schemas that count such members are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Final

from guided.errors import UnsupportedError, brief
from guided.frontends.json_schema.algebra.expand import Goal
from guided.frontends.json_schema.algebra.shape import Window
from guided.frontends.json_schema.algebra.strings import union_of, with_length
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.source_spans import escape
from guided.frontends.json_schema.text.lower import Lowering
from guided.frontends.json_schema.text.member_tries import Field
from guided.frontends.json_schema.text.narrow import Narrowing
from guided.frontends.json_schema.text.notation import Notation
from guided.frontends.json_schema.text.spelling import QUOTE
from guided.frontends.regex import parse_regex
from guided.frontends.structural_tag.argument_types import (
    ArgumentsNarrowing,
    ArgumentTypes,
    Goals,
    allows_object,
    arguments_goal,
    non_string_pattern,
    refuse_counted,
    refuse_unique,
)
from guided.frontends.structural_tag.element_forms import ElementForm
from guided.ir.encodings import UTF8, Encoding, Form, Span
from guided.ir.nodes import ANY_CHAR, EPSILON, Alt, And, Distinct, Encoded, Entry, Node, Not, Repeat, Seq, Text
from guided.ir.ranges import charset, complement, intersect
from guided.ir.serial import serial

__all__ = ["ElementNotation"]

_ROOT: Final = -1
_BARE: Final = -2
_LABELLED: Final = -4  # the level of all elements in styles that write the types of values
_BEGINS_WITH_LINE_END: Final = Seq((Text("\n"), Repeat(ANY_CHAR, 0, None)))
_NAME_PATTERNS: Final = {
    "plain": r'[^"&<>\s\x00-\x20\x7f-\xa0]+',
    "quoted": r'[^"&<>\\\s\x00-\x20\x7f-\xa0]+',
    "escaped": r"[^\\\x00-\x1f]+",
}
"""The allowed names of additional members. A name in quotation marks must also be a JSON string without escapes."""


@cache
def _name_encoding(escapes: tuple[tuple[str, str], ...]) -> Encoding:
    """The encoding of names. `escapes`: (character, how the style writes it), such as ("<", "&lt;")."""
    unescaped = complement(charset((ord(char), ord(char)) for char, _ in escapes))
    forms = [
        Form(common_ranges, form.digits) for form in UTF8.forms if (common_ranges := intersect(form.ranges, unescaped))
    ]
    for char, escape_text in escapes:
        first_byte, *later_bytes = escape_text.encode()
        digits = ((Span(first_byte, first_byte, ord(char), 1),), *((Span(byte, byte, 0, 1),) for byte in later_bytes))
        forms.append(Form(((ord(char), ord(char)),), digits))
    return Encoding(f"xml-attribute without {''.join(char for char, _ in escapes)}", tuple(forms))


class ElementNotation(Notation):
    """The notation of one style. `spell` writes a string of its form; `gap` is the whitespace around elements.

    Attributes:
        json_rules: the rules for JSON in an element, with the locations of their schemas.
    """

    def __init__(
        self,
        lowering: Lowering,
        form: ElementForm,
        spell: Callable[[str], Node],
        gap: Node,
        excluded_strings: Sequence[str],
    ) -> None:
        super().__init__(lowering, excluded_strings, form.forbidden_texts)
        self._form, self._gap, self._spell_string = form, gap, spell
        self._spellings: dict[str, Node] = {}
        self._elements = ArgumentsNarrowing(
            lowering.expander, lowering.options.additional_properties, closes_plain_objects=form.repeats_names
        )
        self.json_rules: dict[str, str] = {}
        root = lowering.root
        arguments = arguments_goal(lowering.expander, root)
        self._types = ArgumentTypes(lowering.expander, arguments, self._elements)
        self._is_bare = not allows_object(lowering.expander, arguments)
        self._root = lowering.expander.goal((root,)) if self._is_bare else arguments
        self._goals_by_number: list[Goals] = [frozenset([self._root])] * 2  # index n: for levels -2n and -2n - 1
        self._schema_locations = [root.location] * 2  # by the same index, for messages
        self._goal_numbers: dict[Goals, int] = {}

    def _spell(self, text: str) -> Node:
        if text not in self._spellings:
            first, *later_parts = [self._spell_string(part) for part in text.split("{gap}")]
            self._spellings[text] = Seq((first, *[node for part in later_parts for node in (self._gap, part)]))
        return self._spellings[text]

    # --- levels

    def whole_output(self, goal: Goal) -> Node:
        """The elements of the arguments, or a bare value."""
        return self.lowering.value(self._root, _BARE if self._is_bare else _ROOT)

    def text_level(self, level: int) -> int:
        """See `Notation`."""
        return level if level < 0 else super().text_level(level)

    def inner_level(self, level: int, step: str | int) -> int:
        """See `Notation`."""
        if level >= 0:
            return level + 1
        if self._form.is_typed:
            return _LABELLED
        types, container, location = (
            self._types,
            self._goals_by_number[-level // 2],
            self._schema_locations[-level // 2],
        )
        if isinstance(step, int):
            return self._level_of(types.item(container, step), f"{location}/items")
        return self._level_of(types.member(container, step), f"{location}/properties/{escape(step)}")

    def additional_levels(
        self, level: int, goal: Goal, declared_names: Collection[str]
    ) -> list[tuple[tuple[Node, ...], int]]:
        """See `Notation`. If several alternatives constrain other members, their names are grouped by the allowed
        types.
        """
        if level >= 0:
            return super().additional_levels(level, goal, declared_names)
        if self._form.is_typed:
            return [((), _LABELLED)]
        types, container, location = (
            self._types,
            self._goals_by_number[-level // 2],
            self._schema_locations[-level // 2],
        )
        if self._form.repeats_names:
            raise UnsupportedError(
                "undeclared properties cannot be written in this style, which repeats the name at the end",
                pointer=goal[0].location if goal else location,
                hint='write "additionalProperties": false, and name the properties',
            )  # fmt: skip
        only_goal = frozenset([goal])
        if types.has_one_shape(container) or "string" not in types.kinds(only_goal):
            return [((), self._level_of(only_goal, location))]
        languages_by_kinds: dict[frozenset[str], list[Node]] = {}
        levels_by_kinds: dict[frozenset[str], int] = {}
        for language, goals in types.other_members(container, declared_names):
            kinds = types.kinds(goals)
            languages_by_kinds.setdefault(kinds, []).append(language)
            levels_by_kinds[kinds] = self._level_of(goals, location)
        return [((union_of(languages),), levels_by_kinds[kinds]) for kinds, languages in languages_by_kinds.items()]

    def _level_of(self, goals: Goals, location: str) -> int:
        if goals not in self._goal_numbers:
            if self._form.has_nested_elements and {"object", "array"} <= self._types.kinds(goals):
                raise UnsupportedError(
                    "an object and an array cannot be distinguished in this style",
                    pointer=min((goal[0].location for goal in goals if goal), default=location),
                    hint="put them into two properties",
                )
            self._goal_numbers[goals] = len(self._goals_by_number)
            self._goals_by_number.append(goals)
            self._schema_locations.append(location)
        return -2 * self._goal_numbers[goals]

    def content_level(self, level: int) -> int:
        """See `Notation`."""
        if not _is_element(level):
            return level
        return level - 1 if self._form.has_nested_elements else 0

    def narrowing_at(self, level: int) -> Narrowing:
        """See `Notation`."""
        return self._elements if level < 0 else self.narrowing

    # --- values

    def text_of(self, kind: str, make: Callable[[int], Node], location: str, level: int) -> Node:
        """See `Notation`."""
        content_level = self.content_level(level) if kind in ("object", "array") else level
        if level < 0 <= content_level:
            json = self.lowering.rule(object(), f"json of #{location}", location, lambda: make(content_level))
            self.json_rules[json.name] = location
            return self.add_frame(kind, json, level)
        return self.add_frame(kind, make(content_level), level)

    def names_integers(self, level: int) -> bool:
        """See `Notation`."""
        return _has_frame(level) and self._form.names_integers

    def add_frame(self, kind: str, text: Node, level: int) -> Node:
        """See `Notation`."""
        if not _has_frame(level):
            return text
        head, form = self._spell(self._form.value_prefix(kind)), self._form
        allows_gaps = (
            kind != "string" and form.around and not (form.has_nested_elements and kind in ("object", "array"))
        )
        return Seq((head, self._gap, text, self._gap)) if allows_gaps else Seq((head, text))

    def string(self, key: object, label: str, location: str, content: Callable[[], Node], level: int) -> Node:
        """See `Notation`."""
        if level >= 0:
            return super().string(key, label, location, content, level)
        return self.lowering.rule(
            (key, level), f"text of {label}", location, lambda: self._literal_string(content(), level)
        )

    def quoted(self, content: Node, encoding: Encoding, level: int) -> Node:
        """See `Notation`."""
        return self._literal_string(content, level) if level < 0 else super().quoted(content, encoding, level)

    def quoted_text(self, text: str, level: int) -> Node:
        """See `Notation`."""
        return self._literal_string(Text(text), level) if level < 0 else super().quoted_text(text, level)

    def _literal_string(self, content: Node, level: int) -> Node:
        """Strings, written literally. If line ends may frame a string, a string that begins with a line end is always
        framed. So the first character shows whether a string is framed, and it is read back unchanged.
        """
        if level == _BARE or not self._form.is_typed:
            kinds = self._types.kinds(self._goals_by_number[-level // 2])
            if other_values := non_string_pattern(kinds, nests=self._form.has_nested_elements):
                content = And((content, Not(parse_regex(other_values))))
        if level == _BARE or not self._form.lines:
            return Encoded(content, UTF8)
        unframed_text = Encoded(And((content, Not(_BEGINS_WITH_LINE_END))), UTF8)
        return Alt((unframed_text, Seq((Text("\n"), Encoded(content, UTF8), Text("\n")))))

    # --- containers

    def separator_at(self, level: int) -> Node:
        """See `Notation`."""
        return EPSILON if level < 0 else super().separator_at(level)

    def wrap(self, brackets: str, body: Node | None, may_be_empty: bool, level: int) -> Node:
        """See `Notation`."""
        if level >= 0:
            return super().wrap(brackets, body, may_be_empty, level)
        # Members, and items that whitespace may separate, include the gap after them.
        last_gap = self._gap if brackets == "[]" and not self._form.between else EPSILON
        cases = [self._gap] if may_be_empty else []
        return union_of(cases if body is None else [*cases, Seq((self._gap, body, last_gap))])

    def item(self, value: Node, level: int) -> Node:
        """See `Notation`."""
        if level >= 0:
            return value
        begin, end = self._spell(self._form.item), self._spell(self._form.item_end)
        return Seq((begin, value, end, self._gap if self._form.between else EPSILON))

    def check_unique(self, schema: Schema, level: int) -> None:
        """See `Notation`."""
        if level < 0:
            refuse_unique(schema)

    def field(self, name: str, value: Node, is_required: bool, level: int, location: str | None = None) -> Field:
        """See `Notation`."""
        if level >= 0:
            return super().field(name, value, is_required, level, location)
        if not self._form.can_write_name(name):
            raise UnsupportedError(
                f"the name {brief(name)} cannot be written in an element", hint="use letters, digits and _",
                pointer=f"{location}/properties/{escape(name)}" if location is not None else "",
            )  # fmt: skip
        name_text = self._form.encode_name(name)
        return Field(
            name, self._after_name(value, name_text), is_required, Seq((self._spell(self._form.begin), Text(name_text)))
        )

    def _after_name(self, value: Node, name_text: str) -> Node:
        """The text after the name of a member."""
        end = self._form.end.replace("{name}", name_text)
        return Seq((self._spell(self._form.after), value, self._spell(end), self._gap))

    def name_spelling(self, level: int) -> tuple[Callable[[str], Node], tuple[Node, Node]]:
        """See `Notation`."""
        if level >= 0:
            return super().name_spelling(level)
        return lambda text: Text(self._form.encode_name(text)), (self._spell(self._form.begin), EPSILON)

    def write_many_optional(self, fields: Sequence[Field], window: Window, level: int) -> Node | None:
        """See `Notation`."""
        return None if level < 0 else super().write_many_optional(fields, window, level)

    def additional_member(
        self,
        names: tuple[Node, ...],
        declared_names: Collection[str],
        value: Node,
        level: int,
        location: str,
        in_place: bool,
    ) -> Node:
        """See `Notation`."""
        if level >= 0:
            return super().additional_member(names, declared_names, value, level, location, in_place)
        form, max_string = self._form, self.lowering.options.max_string
        allowed_names = parse_regex(
            _NAME_PATTERNS["escaped" if form.escapes else "quoted" if form.has_quoted_names else "plain"]
        )
        exclusions = () if form.has_quoted_names else (Not(union_of([Text(name) for name in declared_names])),)
        content = with_length(And((*names, allowed_names, *exclusions)), 0, max_string)
        name: Node = Encoded(content, _name_encoding(tuple(form.escapes.items())) if form.escapes else UTF8)
        if form.has_quoted_names:
            name = Entry(Seq((QUOTE, name, QUOTE)))
        key = ("name", level, *map(serial, names), *declared_names)
        label = f"other name of #{location}" if names else "other name"
        name_node = name if in_place else self.lowering.rule(key, label, location, lambda: name)
        after_name = Seq((self._spell(form.after.removeprefix('"')), value, self._spell(form.end), self._gap))
        return Seq((self._spell(form.begin.removesuffix('"')), name_node, after_name))

    def with_distinct_names(
        self, text: Node, declared_names: Collection[str], level: int, counted_at: str | None
    ) -> Node:
        """See `Notation`."""
        if level >= 0:
            return super().with_distinct_names(text, declared_names, level, counted_at)
        if self._form.has_quoted_names:
            names = tuple(map(self._form.encode_name, declared_names))
            cases = text.items if isinstance(text, Alt) else (text,)  # the gap is not a member
            return union_of([case if case is self._gap else Distinct(case, names) for case in cases])
        if counted_at is not None:
            refuse_counted(counted_at)
        return text


def _is_element(level: int) -> bool:
    return level < 0 and level % 2 == 0


def _has_frame(level: int) -> bool:
    return _is_element(level) and level != _BARE
