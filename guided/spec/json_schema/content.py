"""A JSON text in a string, `contentMediaType` of draft 7. In: a way to make rules. Out: IR, and membership.

The text is any of RFC 8259, a pushdown: its rules are those of a JSON value, with each terminal written in all
spellings that the characters of a string have. So nothing else that constrains the string can be intersected with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

from guided.errors import UnsupportedError
from guided.grammar.ir import Alt, Encoded, Encoding, Node, Ref, Seq, Text
from guided.spec.json_schema.number_text import ANY_NUMBER
from guided.spec.json_schema.resolve import Schema
from guided.spec.json_schema.shape import Shape, Window
from guided.spec.json_schema.spelling import GAP, comma_list
from guided.spec.regex import parse_regex

__all__ = ["content_fits", "json_string", "refusal", "refuse_content"]

_Rule = Callable[[object, str, str, Callable[[], Node]], Ref]


def content_fits(text: str, shape: Shape) -> bool:
    """Whether a string is a JSON text, or none, where the shape asks for that."""
    asked = shape.json_text or shape.no_json_text
    if asked is None:
        return True
    try:
        found = _is_json(text)
    except RecursionError:
        raise refusal(asked, "a string in enum or const nests too deeply to be read as JSON", "leave it out") from None
    return (found or shape.json_text is None) and not (found and shape.no_json_text is not None)


def refuse_content(shape: Shape, length: Window) -> None:
    """Raises UnsupportedError where a string must hold a JSON text and satisfy something else, or hold none."""
    if shape.no_json_text is not None:
        raise refusal(shape.no_json_text, "a string that must not hold a JSON text is not enforced",
                       "drop the not, oneOf or if that asks for the complement of contentMediaType")  # fmt: skip
    if shape.json_text is not None and (shape.patterns or length.low > 1 or length.high is not None):
        raise refusal(shape.json_text, "a JSON text next to another constraint on the same string is not enforced",
                       "drop its pattern, format or length (or the option max_string)")  # fmt: skip


def refusal(schema: Schema, reason: str, hint: str) -> UnsupportedError:
    """The error for what a schema with `contentMediaType` asks."""
    instead = f"{hint}, or pass format='annotate'"
    return UnsupportedError(reason, pointer=schema.at("contentMediaType"), hint=instead)


def json_string(rule: _Rule, encoding: Encoding) -> Node:
    """A JSON string that holds a JSON text."""

    def written(*parts: Node) -> Node:
        return Encoded(Seq(parts), encoding)

    def container(brackets: str, item: Node) -> Node:
        opening, closing = Text(brackets[0]), Text(brackets[1])
        items = comma_list(item, written(GAP, Text(","), GAP), 1, None)
        filled = Seq((written(opening, GAP), items, written(GAP, closing)))
        return Alt((written(opening, GAP, closing), filled))

    def make() -> Node:
        scalar = Alt((_string(), ANY_NUMBER, *map(Text, ("true", "false", "null"))))
        member = Seq((written(_string(), GAP, Text(":"), GAP), value))
        return Alt((written(scalar), container("[]", value), container("{}", member)))

    value = rule("json value in a string", "json value in a string", "", make)
    return Seq((Text('"'), written(GAP), value, written(GAP), Text('"')))


@cache
def _string() -> Node:
    """The text of a JSON string, of whatever UTF-16 units."""
    return parse_regex(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*"', dialect="ecma")


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except ValueError:
        return False
    return True


def _no_constant(name: str) -> None:
    raise ValueError(name)
