"""A JSON text in a string, `contentMediaType` of draft 7. In: a way to make rules. Out: IR, and membership.

The text stands there as it is, or in base64 (content_base64.py).

The text is any of RFC 8259, a pushdown: its rules are those of a JSON value, with each terminal written in all
spellings that the characters of a string have. So nothing else that constrains the string can be intersected with it.
"""

from __future__ import annotations

import base64
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

__all__ = ["asked_content", "content_fits", "json_string", "refusal", "refuse_content"]

_SHORTEST = 4  # letters that a JSON text takes in base64

_Rule = Callable[[object, str, str, Callable[[], Node]], Ref]


def asked_content(shape: Shape) -> Schema | None:
    """A schema that asks for a JSON text, or for none."""
    return shape.json_text or shape.json_base64 or shape.no_json_text or shape.no_json_base64


def content_fits(text: str, shape: Shape) -> bool:
    """Whether a string is a JSON text, in base64 or not, or none, where the shape asks for that."""
    if (asked := asked_content(shape)) is None:
        return True
    judged = ((shape.json_text, shape.no_json_text, _is_json), (shape.json_base64, shape.no_json_base64, _is_base64))
    try:
        for wanted, unwanted, judge in judged:
            if (wanted or unwanted) is not None and (found := judge(text)) != (wanted is not None):
                return False
            if wanted is not None and unwanted is not None and found:
                return False
    except RecursionError:
        raise refusal(asked, "a string in enum or const nests too deeply to be read as JSON", "leave it out") from None
    return True


def refuse_content(shape: Shape, length: Window) -> None:
    """Raises UnsupportedError where a string must hold a JSON text and satisfy something else, or hold none."""
    if (unwanted := shape.no_json_text or shape.no_json_base64) is not None:
        raise refusal(unwanted, "a string that must not hold a JSON text is not enforced",
                       "drop the not, oneOf or if that asks for the complement of contentMediaType")  # fmt: skip
    wanted, shortest = shape.json_text or shape.json_base64, 1 if shape.json_base64 is None else _SHORTEST
    several = shape.json_text is not None and shape.json_base64 is not None
    if wanted is not None and (several or shape.patterns or length.low > shortest or length.high is not None):
        raise refusal(wanted, "a JSON text next to another constraint on the same string is not enforced",
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


def _is_base64(text: str) -> bool:
    """Whether it is a JSON text in base64."""
    try:
        return len(text) % 4 == 0 and _is_json(base64.b64decode(text.encode("ascii"), validate=True).decode("utf-8"))
    except ValueError:
        return False


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    except ValueError:
        return False
    return True


def _no_constant(name: str) -> None:
    raise ValueError(name)
