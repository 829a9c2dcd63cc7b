r"""How JSON is spelled: the encoding of string content, and the text between values. In: options. Out: IR nodes.

The content of strings is constrained as decoded characters and then spelled through `JSON_STRING` (RFC 8259, section
7). A character stands for itself unless it is a control character, a quotation mark or a backslash. Eight characters
have a short escape. Every character also has its `\uXXXX` escape, or a pair of them beyond U+FFFF. A lone surrogate
does not spell any character. `MINIMAL_STRING` has one spelling for each character, the one that
`json.dumps(ensure_ascii=False)` writes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema.algebra.strings import union_of
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.regex import parse_regex
from guided.ir.encodings import UTF8, Encoding, Form, Span, hex_digit
from guided.ir.nodes import EPSILON, And, Chars, Encoded, Node, Repeat, Seq, Text
from guided.ir.ranges import charset, complement, intersect

__all__ = [
    "GAP",
    "JSON_STRING",
    "MINIMAL_STRING",
    "QUOTE",
    "Layout",
    "comma_list",
    "encoding_of",
    "layout_of",
    "optional",
    "quoted",
    "quoted_text",
]

_SHORT_ESCAPES = {'"': 0x22, "\\": 0x5C, "/": 0x2F, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9}
_RAW_CHARACTERS = complement(charset(((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C))))


def _byte(char: str, value: int = 0) -> tuple[Span, ...]:
    return (Span(ord(char), ord(char), value, 1),)


def _letter(char: str) -> tuple[Span, ...]:
    return (*_byte(char.upper()), *_byte(char.lower()))


def _high_nibble(low: int, step: int) -> tuple[Span, ...]:
    """The hexadecimal digits `low` to `low + 3`. They contribute 0 to 3 times `step`."""
    spans = []
    for bits in range(4):
        for char in sorted({f"{low + bits:x}", f"{low + bits:X}"}):
            spans.append(Span(ord(char), ord(char), bits * step, step))
    return tuple(spans)


def _raw_forms() -> tuple[Form, ...]:
    return tuple(
        Form(common, form.digits) for form in UTF8.forms if (common := intersect(form.ranges, _RAW_CHARACTERS))
    )


def _short_form(letters: str) -> Form:
    escapes = {char: _SHORT_ESCAPES[char] for char in letters}
    return Form(
        charset((code, code) for code in escapes.values()),
        (_byte("\\"), tuple(Span(ord(char), ord(char), code, 1) for char, code in escapes.items())),
    )


def _string_forms() -> tuple[Form, ...]:
    return (*_raw_forms(), _short_form("".join(_SHORT_ESCAPES)), *_hex_forms())


def _hex_forms() -> tuple[Form, ...]:
    """Any character as `\\uXXXX`, or as two such escapes."""
    unit = Form(
        charset(((0, 0xFFFF),)),
        (_byte("\\"), _byte("u"), hex_digit(1 << 12), hex_digit(1 << 8), hex_digit(1 << 4), hex_digit(1)),
    )
    first = (
        _byte("\\", 0x10000),
        _byte("u"),
        _letter("d"),
        _high_nibble(8, 1 << 18),
        hex_digit(1 << 14),
        hex_digit(1 << 10),
    )
    second = (_byte("\\"), _byte("u"), _letter("d"), _high_nibble(12, 1 << 8), hex_digit(1 << 4), hex_digit(1))
    return unit, Form(((0x10000, 0x10FFFF),), first + second)


def _minimal_forms() -> tuple[Form, ...]:
    short = _short_form('"\\bfnrt')
    controls = intersect(complement(short.ranges), ((0, 0x1F),))
    digit = (Span(0x30, 0x39, 0, 1), Span(0x61, 0x66, 10, 1))
    unit = Form(controls, (*map(_byte, "\\u00"), (Span(0x30, 0x31, 0, 16),), digit))
    return (*_raw_forms(), short, unit)


@lru_cache(maxsize=64)
def _make_encoding(letters: str) -> Encoding:
    """The encoding with the escapes that these sorted letters select; see `JsonSchemaOptions.escapes`."""
    controls = charset(((0, 0x1F), (0x7F, 0x7F)))
    raw = tuple(
        Form(common, form.digits) for form in _raw_forms() if (common := intersect(form.ranges, complement(controls)))
    )
    short = letters.replace("u", "").replace("U", "")
    forms = [*raw, *([_short_form(short)] if short else [])]
    if "U" in letters:
        forms += _hex_forms()
    elif "u" in letters:
        forms += [
            Form(charset(((0, 0x1F),)), (*map(_byte, "\\u00"), (Span(0x30, 0x31, 0, 16),), hex_digit(1))),
            Form(charset(((0x7F, 0x7F),)), (*map(_byte, "\\u00"), _byte("7", 0x70), _byte("f", 15) + _byte("F", 15))),
        ]
    return Encoding(f"json-string with {letters}", tuple(forms))


def encoding_of(escapes: str) -> Encoding:
    """The encoding of strings that the option selects."""
    encodings = {"json": JSON_STRING, "minimal": MINIMAL_STRING}
    return encodings[escapes] if escapes in encodings else _make_encoding("".join(sorted(set(escapes))))


JSON_STRING = Encoding("json-string", _string_forms())
MINIMAL_STRING = Encoding("minimal-json-string", _minimal_forms())

QUOTE = Text('"')
_BRACKETS = {"[]": (Text("["), Text("]")), "{}": (Text("{"), Text("}"))}
GAP = Repeat(Chars(charset(((9, 10), (13, 13), (32, 32)))), 0, None)
"""Optional JSON whitespace."""


def quoted(content: Node, encoding: Encoding) -> Node:
    """A JSON string with this decoded content."""
    return Seq((QUOTE, Encoded(content, encoding), QUOTE))


def quoted_text(text: str, encoding: Encoding) -> Node:
    """A JSON string with exactly this decoded content."""
    if encoding is MINIMAL_STRING:
        return Text(_MINIMAL.encode(text))
    return (
        _quoted_cached(text)
        if len(text) <= _MAX_CACHED_LENGTH and encoding is JSON_STRING
        else quoted(Text(text), encoding)
    )


_MAX_CACHED_LENGTH = 64
_MINIMAL = json.JSONEncoder(ensure_ascii=False)


@lru_cache(maxsize=4096)
def _quoted_cached(text: str) -> Node:
    """A short string. It is cached, since member names recur in many schemas."""
    return quoted(Text(text), JSON_STRING)


def optional(node: Node) -> Node:
    """`node` or nothing."""
    return Repeat(node, 0, 1)


def comma_list(item: Node, comma: Node, low: int, high: int | None) -> Node:
    """`low` to `high` items, but at least one, separated by commas."""
    rest = Repeat(Seq((comma, item)), max(low, 1) - 1, None if high is None else high - 1)
    return item if high == 1 else Seq((item, rest))


@dataclass(frozen=True, slots=True)
class Layout:
    """The text between values. Without `indent`, it is equal at every depth."""

    comma: Node
    colon: Node
    inside_brackets: Node
    around_value: Node
    indent: str | None = None
    any_value_cache: dict[tuple[Node, ...], Node] = field(default_factory=dict, compare=False, repr=False)
    """Cache: the rules for numbers, strings and names -> the node of any value that uses them."""

    def separator_at(self, level: int) -> Node:
        """The text between two items of a container that is inside `level` others."""
        return self.comma if self.indent is None else Seq((self.comma, Text("\n" + self.indent * (level + 1))))

    def wrap(self, brackets: str, body: Node | None, may_be_empty: bool, level: int) -> Node:
        """A container: brackets around `body` (None: it has no content), or around nothing if `may_be_empty`. `body`
        never matches the empty text.
        """
        opening, closing = _BRACKETS[brackets]
        cases: list[Node] = []
        if may_be_empty:
            cases.append(Seq((opening, self.inside_brackets, closing)))
        if body is not None:
            before_body, after_body = self.inside_brackets, self.inside_brackets
            if self.indent is not None:
                before_body, after_body = Text("\n" + self.indent * (level + 1)), Text("\n" + self.indent * level)
            cases.append(Seq((opening, before_body, body, after_body, closing)))
        return union_of(cases)


@lru_cache(maxsize=64)
def layout_of(options: JsonSchemaOptions) -> Layout:
    """The layout that the options select."""
    if options.separators is not None or options.indent is not None:
        item, key = options.separators or ("," if options.indent is not None else ", ", ": ")
        indent = " " * options.indent if isinstance(options.indent, int) else options.indent
        inside_gap = EPSILON if options.whitespace == "json" else _gap(options.whitespace)
        comma, colon = _separator(item, ",", inside_gap), _separator(key, ":", inside_gap)
        return Layout(comma, colon, inside_gap, _outer_gap(options, GAP), indent)
    if options.whitespace == "single_space":
        return Layout(Text(", "), Text(": "), EPSILON, _outer_gap(options, GAP))
    if options.whitespace == "compact":
        return Layout(Text(","), Text(":"), EPSILON, _outer_gap(options, GAP))
    gap = GAP if options.whitespace == "json" else _gap(options.whitespace)
    return Layout(Seq((gap, Text(","), gap)), Seq((gap, Text(":"), gap)), gap, _outer_gap(options, gap))


def _outer_gap(options: JsonSchemaOptions, gap: Node) -> Node:
    return gap if options.surrounding_whitespace else EPSILON


def _gap(pattern: str) -> Node:
    return And((_parse_option_pattern(pattern, "whitespace"), GAP))


def _separator(separator: str, character: str, outer_gap: Node) -> Node:
    """The separator that the option allows: `character` with whitespace around it, between two gaps (`outer_gap`)."""
    if separator.strip(" \t\n\r") == character:
        node: Node = Text(separator)
    else:
        node = And((_parse_option_pattern(separator, "separators"), Seq((GAP, Text(character), GAP))))
    return node if outer_gap == EPSILON else Seq((outer_gap, node, outer_gap))


def _parse_option_pattern(pattern: str, option: str) -> Node:
    try:
        return parse_regex(pattern, dialect="ecma")
    except SpecError as error:
        raise SpecError(
            f"option {option}: {error.message}", text=error.text, span=error.span, hint=error.hint
        ) from None
    except UnsupportedError as error:
        raise UnsupportedError(
            f"option {option}: {error.reason}", text=error.text, span=error.span, hint=error.hint
        ) from None
