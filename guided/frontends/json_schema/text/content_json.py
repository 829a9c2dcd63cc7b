"""JSON text inside a string: `contentMediaType` of draft 7. In: a function that adds rules, and the encoding of
strings. Out: IR.

The text is any JSON text of RFC 8259. It has the rules of a JSON value, but each terminal may be spelled in every way
that its characters can be spelled inside a string. JSON texts nest, so their language is not regular, and cannot be
intersected with other constraints on the string.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from guided.frontends.json_schema.text.number_text import ANY_NUMBER
from guided.frontends.json_schema.text.spelling import GAP, comma_list
from guided.frontends.regex import parse_regex
from guided.ir.encodings import Encoding
from guided.ir.nodes import Alt, Encoded, Node, Ref, Seq, Text

__all__ = ["json_string"]

_AddRule = Callable[[object, str, str, Callable[[], Node]], Ref]


def json_string(add_rule: _AddRule, encoding: Encoding) -> Node:
    """A JSON string that contains a JSON text."""

    def encode(*parts: Node) -> Node:
        return Encoded(Seq(parts), encoding)

    def container(brackets: str, item: Node) -> Node:
        opening, closing = Text(brackets[0]), Text(brackets[1])
        items = comma_list(item, encode(GAP, Text(","), GAP), 1, None)
        nonempty = Seq((encode(opening, GAP), items, encode(GAP, closing)))
        return Alt((encode(opening, GAP, closing), nonempty))

    def make() -> Node:
        scalar = Alt((_string(), ANY_NUMBER, *map(Text, ("true", "false", "null"))))
        member = Seq((encode(_string(), GAP, Text(":"), GAP), value))
        return Alt((encode(scalar), container("[]", value), container("{}", member)))

    value = add_rule("json value in a string", "json value in a string", "", make)
    return Seq((Text('"'), encode(GAP), value, encode(GAP), Text('"')))


@cache
def _string() -> Node:
    """The text of a JSON string, including strings with lone surrogates."""
    return parse_regex(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*"', dialect="ecma")
