"""Writes values as JSON. In: IR of the parts of a value. Out: IR of the value.

`lower.py`, `objects.py`, `arrays.py` and `constants.py` decide what a schema allows, and call a `Notation` to write
members, items, strings and containers. Another notation is a subclass (`frontends/structural_tag/element_text.py`). It
may write a value differently depending on its *level*: the number of containers around the value, or a negative number,
whose meaning the subclass defines. `inner_level` returns the level of a value in a container.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from guided.errors import brief
from guided.frontends.json_schema.algebra.expand import Goal
from guided.frontends.json_schema.algebra.shape import Window
from guided.frontends.json_schema.algebra.strings import any_string
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.text.containers import write_many_optional
from guided.frontends.json_schema.text.member_tries import Field
from guided.frontends.json_schema.text.narrow import Narrowing
from guided.frontends.json_schema.text.spelling import QUOTE, encoding_of, layout_of, quoted, quoted_text
from guided.ir.encodings import Encoding
from guided.ir.nodes import EMPTY, And, Distinct, Encoded, Entry, Node, Ref, Seq, Text
from guided.ir.serial import serial

if TYPE_CHECKING:
    from guided.frontends.json_schema.text.lower import Lowering

__all__ = ["Notation"]


class Notation:
    """Writes JSON, for one `Lowering`.

    The caller removes strings that contain one of `excluded_strings` or `forbidden_texts` from the grammar. Names
    contain no `excluded_strings` either, and names that are JSON strings contain no `forbidden_texts`.
    """

    def __init__(
        self, lowering: Lowering, excluded_strings: Sequence[str] = (), forbidden_texts: Sequence[str] = ()
    ) -> None:
        self.lowering, options = lowering, lowering.options
        self._excluded_strings, self._forbidden_texts = excluded_strings, forbidden_texts
        self.layout = layout_of(options)
        self.encoding = encoding_of(options.escapes)
        one_spelling = options.escapes == "minimal" or options.constants == "plain"
        self.constant_encoding = (
            encoding_of("minimal") if one_spelling else self.encoding
        )  # also for names in the schema
        self.narrowing = Narrowing(lowering.expander, options.additional_properties)
        self._values_after_keys: dict[int, Node] = {}  # by the serial number of the value's node
        self._additional_keys: dict[object, Node] = {}

    def whole_output(self, goal: Goal) -> Node:
        """The text of the whole output."""
        text, outer_gap = self.lowering.value(goal, 0), self.layout.around_value
        return Seq((outer_gap, text, outer_gap)) if self.lowering.options.surrounding_whitespace else text

    # --- levels

    def text_level(self, level: int) -> int:
        """A number that is equal for levels at which a goal has the same text."""
        return 0 if self.layout.indent is None else level

    def inner_level(self, level: int, step: str | int) -> int:
        """The level of a value in a container.

        `step`: the name of a member; or the index n of an item, or ~n for item n and all later ones.
        """
        return level + 1

    def additional_levels(
        self, level: int, goal: Goal, declared_names: Collection[str]
    ) -> list[tuple[tuple[Node, ...], int]]:
        """The levels at which additional members may be written, each with the languages of their names.

        The names exclude the declared ones. `goal`: the goal of the values.
        """
        return [((), level + 1)]

    def content_level(self, level: int) -> int:
        """The level at which an array or object of this level is written inside its frame (`add_frame`)."""
        return level

    def narrowing_at(self, level: int) -> Narrowing:
        """The `Narrowing` that decides whether unmentioned members are left out at this level."""
        return self.narrowing

    # --- values

    def text_of(self, kind: str, make: Callable[[int], Node], location: str, level: int) -> Node:
        """The values of one type of the schema at `location`. `make` returns their text at a level."""
        return make(level)

    def constant(self, value: bool | None) -> Node:
        """`true`, `false` or `null`."""
        return Text({None: "null", True: "true", False: "false"}[value])

    def names_integers(self, level: int) -> bool:
        """Whether an unconstrained value may also be an "integer", with a separate text."""
        return False

    def add_frame(self, kind: str, text: Node, level: int) -> Node:
        """The text of values of one type, with the text that this notation writes around them."""
        return text

    def string(self, key: object, label: str, location: str, content: Callable[[], Node], level: int) -> Node:
        """A rule for the strings with this content."""
        return self.lowering.rule(key, label, location, lambda: quoted(content(), self.encoding))

    def quoted(self, content: Node, encoding: Encoding, level: int) -> Node:
        """The strings with this content, inlined."""
        return quoted(content, encoding)

    def quoted_text(self, text: str, level: int) -> Node:
        """A string that is a constant."""
        return quoted_text(text, self.constant_encoding)

    # --- containers

    def separator_at(self, level: int) -> Node:
        """The text between members, or items."""
        return self.layout.separator_at(level)

    def wrap(self, brackets: str, body: Node | None, may_be_empty: bool, level: int) -> Node:
        """A container. `body`: at least one member or item; None if there can be none."""
        return self.layout.wrap(brackets, body, may_be_empty, level)

    def item(self, value: Node, level: int) -> Node:
        """An item of an array, with the text of its value."""
        return value

    def check_unique(self, schema: Schema, level: int) -> None:
        """Raise UnsupportedError if this notation cannot enforce that items differ, as `schema` requires."""

    def member(self, name: str, value: Node, is_required: bool, level: int, location: str | None = None) -> Field:
        """A declared member, with the text of its value; no text if its name contains an excluded string."""
        field = self.field(name, value, is_required, level, location)
        is_json = self.name_spelling(level)[1][0] is QUOTE
        excluded = (*self._excluded_strings, *(self._forbidden_texts if is_json else ()))
        if not any(string in name for string in excluded):
            return field
        if is_required and location is not None:
            self.lowering.reasons.append((location, f"the required name {brief(name)} contains an excluded string"))
        return field._replace(value=EMPTY)

    def field(self, name: str, value: Node, is_required: bool, level: int, location: str | None = None) -> Field:
        """A declared member whose name is not excluded."""
        return Field(name, self.value_after_key(value), is_required, quoted_text(name, self.constant_encoding))

    def name_spelling(self, level: int) -> tuple[Callable[[str], Node], tuple[Node, Node]]:
        """A function that writes a part of a name, and the texts before and after a name."""
        return lambda text: Encoded(Text(text), self.constant_encoding), (QUOTE, QUOTE)

    def write_many_optional(self, fields: Sequence[Field], window: Window, level: int) -> Node | None:
        """See `containers.write_many_optional`."""
        return write_many_optional(fields, window)

    def additional_member(
        self,
        names: tuple[Node, ...],
        declared_names: Collection[str],
        value: Node,
        level: int,
        location: str,
        in_place: bool,
    ) -> Node:
        """An additional member. Its name is in all of the languages `names`, and is not declared."""
        return Seq((self.additional_key(names, location, in_place=in_place), self.value_after_key(value)))

    def with_distinct_names(
        self, text: Node, declared_names: Collection[str], level: int, count_location: str | None
    ) -> Node:
        """Objects with additional members, whose names differ from one another and from the declared names.

        `count_location`: the location of the object if it matters that the names differ (the schema counts members, or
        requires some of them).
        """
        return Distinct(text, tuple(declared_names))

    # --- parts of members

    def additional_key(self, names: tuple[Node, ...], location: str, *, in_place: bool = False) -> Node:
        """The key of an additional member, whose name is in all of the languages `names`."""
        key = ("key", in_place, *map(serial, names))
        node = self._additional_keys.get(key)
        if node is None:
            content = any_string(0, self.lowering.options.max_string)
            content = And((*names, content)) if names else content
            label = f"other key of #{location}" if names else "json key"
            make = partial(quoted, content, self.encoding)
            node = Entry(make() if in_place else self.lowering.rule(key, label, location, make))
            self._additional_keys[key] = node
        return node

    def value_after_key(self, value: Node) -> Node:
        """The text after a key: the colon and the value.

        Scalars get a rule here. Most schemas share these few rules, and their token tables. A constant is written in
        place: in a union of thousands of objects with a constant each, the automaton then has one state after the
        key, not a parser thread for each object.
        """
        key = serial(value)
        node = self._values_after_keys.get(key)
        if node is None:
            text = Seq((self.layout.colon, value))
            name = value.name if isinstance(value, Ref) else "value"
            in_place = self.lowering.is_goal_rule(name) or _is_constant(value)
            node = text if in_place else self.lowering.rule(("after", key), f"{name} of a member", "", lambda: text)
            self._values_after_keys[key] = node
        return node


def _is_constant(node: Node) -> bool:
    """Whether a node has only one text, apart from its escapes."""
    if isinstance(node, Seq):
        return all(map(_is_constant, node.items))
    return _is_constant(node.item) if isinstance(node, Encoded) else isinstance(node, Text)
