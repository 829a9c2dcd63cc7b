"""Writes the arguments of calls as literals (literal_forms.py): Python's keyword arguments, and similar notations.

In: the interpreted schema from `frontends/json_schema/`, so all of its keywords have the same meaning here. Out: IR.
A string has one of the style's delimiters. In Python's notation, it may contain any of Python's escapes except octal
numbers, names of characters and escaped line breaks (Python's language reference, section 2.4.1). Numbers are written
as in JSON. Python and the other notations read them as the same numbers.

Levels (see `Notation`): -1 are the arguments without braces, -3 are the arguments in braces, and -2 is any other value.
If arguments are in braces, a schema that allows no object describes one value, as in `element_text.py`.

Undeclared names without delimiters may occur twice, and the reader keeps the last value. So schemas that count such
members are refused. In Python's dicts, undeclared names are JSON strings without unnecessary escapes, and may not be
repeated. The names of more than 64 optional members in a row are written in the same way. Items that must differ are
refused.
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
from guided.frontends.json_schema.text.spelling import MINIMAL_STRING, QUOTE, Layout, layout_of
from guided.frontends.regex import parse_regex
from guided.frontends.structural_tag.argument_types import (
    ArgumentsNarrowing,
    allows_object,
    arguments_goal,
    refuse_counted,
    refuse_unique,
)
from guided.frontends.structural_tag.literal_forms import LiteralForm
from guided.ir.encodings import UTF8, Encoding, Form, Span, hex_digit
from guided.ir.nodes import EPSILON, And, Encoded, Node, Not, Seq, Text
from guided.ir.ranges import charset, complement, intersect
from guided.ir.serial import serial

__all__ = ["LiteralNotation", "python_string"]

_ROOT: Final = -1
_VALUE: Final = -2
_IN_BRACES: Final = -3
_SHORT_ESCAPES: Final = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "\\": 0x5C, "'": 0x27, '"': 0x22}
_MINIMAL_ESCAPES: Final = "tnr\\"
_CHARACTERS: Final = ((0, 0xD7FF), (0xE000, 0x10FFFF))


def _byte_span(char: str) -> tuple[Span, ...]:
    return (Span(ord(char), ord(char), 0, 1),)


@cache
def python_string(quote: str, *, minimal: bool) -> Encoding:
    r"""The content of Python's strings with this quotation mark: characters, and escapes such as \n, \x1b and \u00e9.

    `minimal`: escape only the characters that need it. Control characters are always escaped.
    """
    controls = charset(((0, 0x1F), (0x7F, 0x7F)))
    unescaped = complement(charset((*controls, (0x5C, 0x5C), (ord(quote), ord(quote)))))
    forms = [
        Form(common_ranges, form.digits) for form in UTF8.forms if (common_ranges := intersect(form.ranges, unescaped))
    ]
    short_escapes = {
        char: code for char, code in _SHORT_ESCAPES.items() if not minimal or char in _MINIMAL_ESCAPES + quote
    }
    escapes = tuple(Span(ord(char), ord(char), code, 1) for char, code in short_escapes.items())
    forms.append(Form(charset((code, code) for code in short_escapes.values()), (_byte_span("\\"), escapes)))
    hex_escaped = intersect(controls, complement(charset((code, code) for code in short_escapes.values())))
    forms.append(
        Form(
            hex_escaped if minimal else ((0, 0xFF),),
            (_byte_span("\\"), _byte_span("x"), hex_digit(16), hex_digit(1)),
        )
    )
    if not minimal:
        four_digits = tuple(hex_digit(1 << shift) for shift in (12, 8, 4, 0))
        forms.append(Form(intersect(_CHARACTERS, ((0, 0xFFFF),)), (_byte_span("\\"), _byte_span("u"), *four_digits)))
        plane_digits = ((Span(0x30, 0x31, 0, 1 << 20),), hex_digit(1 << 16))
        forms.append(
            Form(
                _CHARACTERS,
                (_byte_span("\\"), _byte_span("U"), _byte_span("0"), _byte_span("0"), *plane_digits, *four_digits),
            )
        )
    return Encoding(f"python-string in {quote}{' minimal' if minimal else ''}", tuple(forms))


class LiteralNotation(Notation):
    """The notation of one style. `spell` returns the node for a delimiter of strings."""

    def __init__(
        self, lowering: Lowering, form: LiteralForm, spell: Callable[[str], Node], excluded_strings: Sequence[str]
    ) -> None:
        super().__init__(lowering, excluded_strings, form.forbidden_texts)
        options, self._form = lowering.options, form
        minimal = options.escapes == "minimal"
        self._quotes_with_encodings = [
            (spell(quote), python_string(quote, minimal=minimal) if form.escapes else UTF8) for quote in form.quotes
        ]
        self.encoding = self.constant_encoding = MINIMAL_STRING  # of names that are JSON strings
        self._gap = layout_of(options).inside_brackets
        self.layout = Layout(self._separator_node(form.comma), self._separator_node(form.colon), self._gap, EPSILON)
        self._assign = self._separator_node(form.assign)
        self._arguments_narrowing = ArgumentsNarrowing(lowering.expander, options.additional_properties)

    def _separator_node(self, text: str) -> Node:
        """A separator. If the options allow whitespace, there may be any around it."""
        return Text(text) if self._gap == EPSILON else Seq((self._gap, Text(text.strip()), self._gap))

    def _is_bare(self, level: int) -> bool:
        """Whether names at this level have no delimiters."""
        return level == _ROOT or self._form.bare

    # --- levels

    def whole_output(self, goal: Goal) -> Node:
        """The arguments, or a value."""
        expander, root = self.lowering.expander, self.lowering.root
        arguments = arguments_goal(expander, root)
        if not self._form.braces:
            return self.lowering.value(arguments, _ROOT)
        if allows_object(expander, arguments):
            return self.lowering.value(arguments, _IN_BRACES)
        return self.lowering.value(expander.goal((root,)), _VALUE)

    def text_level(self, level: int) -> int:
        """See `Notation`."""
        return level

    def inner_level(self, level: int, step: str | int) -> int:
        """See `Notation`."""
        return _VALUE

    def additional_levels(
        self, level: int, goal: Goal, declared_names: Collection[str]
    ) -> list[tuple[tuple[Node, ...], int]]:
        """See `Notation`."""
        return [((), _VALUE)]

    def narrowing_at(self, level: int) -> Narrowing:
        """See `Notation`."""
        return self.narrowing if level == _VALUE else self._arguments_narrowing

    # --- values

    def constant(self, value: bool | None) -> Node:
        """See `Notation`."""
        return union_of([Text(spelling) for spelling in self._form.constant(value)])

    def string(self, key: object, label: str, location: str, content: Callable[[], Node], level: int) -> Node:
        """See `Notation`."""
        return self.lowering.rule((key, _VALUE), label, location, lambda: self._quoted(content()))

    def quoted(self, content: Node, encoding: Encoding, level: int) -> Node:
        """See `Notation`."""
        return self._quoted(content)

    def quoted_text(self, text: str, level: int) -> Node:
        """See `Notation`."""
        return self._quoted(Text(text))

    def _quoted(self, content: Node) -> Node:
        return union_of(
            [Seq((quote, Encoded(content, encoding), quote)) for quote, encoding in self._quotes_with_encodings]
        )

    # --- containers

    def wrap(self, brackets: str, body: Node | None, may_be_empty: bool, level: int) -> Node:
        """See `Notation`."""
        if level != _ROOT:
            return self.layout.wrap(brackets, body, may_be_empty, 0)
        cases = [self._gap] if may_be_empty else []
        return union_of(cases if body is None else [*cases, Seq((self._gap, body, self._gap))])

    def check_unique(self, schema: Schema, level: int) -> None:
        """See `Notation`."""
        refuse_unique(schema)

    def field(self, name: str, value: Node, is_required: bool, level: int, location: str | None = None) -> Field:
        """See `Notation`."""
        if not self._is_bare(level):
            return Field(name, self.value_after_key(value), is_required, self._quoted(Text(name)))
        if not self._form.can_write_name(name):
            raise UnsupportedError(
                f"the name {brief(name)} cannot be written in this style", hint="use ASCII letters, digits and _",
                pointer=f"{location}/properties/{escape(name)}" if location is not None else "",
            )  # fmt: skip
        return Field(name, self._after_name(value, level), is_required, Text(name))

    def _after_name(self, value: Node, level: int) -> Node:
        return Seq((self._assign, value)) if level == _ROOT else self.value_after_key(value)

    def name_spelling(self, level: int) -> tuple[Callable[[str], Node], tuple[Node, Node]]:
        """See `Notation`."""
        if self._is_bare(level):
            return Text, (EPSILON, EPSILON)
        return lambda text: Encoded(Text(text), MINIMAL_STRING), (QUOTE, QUOTE)

    def write_many_optional(self, fields: Sequence[Field], window: Window, level: int) -> Node | None:
        """See `Notation`."""
        return None

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
        if not self._is_bare(level):
            return super().additional_member(names, declared_names, value, level, location, in_place)
        undeclared = Not(union_of([Text(name) for name in declared_names]))
        content = And((*names, parse_regex(self._form.name_pattern), undeclared))
        key = ("bare name", *map(serial, names), *declared_names)
        name: Node = Encoded(with_length(content, 0, self.lowering.options.max_string), UTF8)
        name_node = name if in_place else self.lowering.rule(key, f"other name of #{location}", location, lambda: name)
        return Seq((name_node, self._after_name(value, level)))

    def with_distinct_names(
        self, text: Node, declared_names: Collection[str], level: int, counted_at: str | None
    ) -> Node:
        """See `Notation`."""
        if not self._is_bare(level):
            return super().with_distinct_names(text, declared_names, level, counted_at)
        if counted_at is not None:
            refuse_counted(counted_at)
        return text
