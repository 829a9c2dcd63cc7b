"""Excludes strings from JSON: `excludes` of the format json_schema.

In: the grammar of a schema, and strings. Out: the grammar of the texts in which no string, and no name of a member,
contains one of the excluded strings, in any escaped spelling. How: the front end writes a JSON string as `Encoded`
between quotation marks, or as a `Text` that includes its quotation marks. An `Encoded` is intersected with the language
without the excluded strings; a `Text` is dropped if it contains one. The front end itself leaves out the names in the
schema (`Notation.member`), which may be written in pieces or without quotation marks. Cost: linear in the grammar. In
addition, each `Encoded` costs time linear in the characters of the excluded strings.

Other nodes are not changed. A grammar is refused if a `Chars` or an `Automaton` outside of strings can write a
quotation mark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from guided.errors import UnsupportedError
from guided.frontends.common.aho_corasick import free_text
from guided.frontends.common.rule_table import replace_nodes
from guided.ir.nodes import EMPTY, And, Automaton, Chars, Encoded, Grammar, Node, Text
from guided.limits import Limits

__all__ = ["without_strings"]

_QUOTE = ord('"')


def without_strings(grammar: Grammar, excluded_strings: Sequence[str], limits: Limits) -> Grammar:
    """The grammar without the excluded strings; see the module's docstring.

    Raises:
        LimitExceeded: the strings have too many characters.
        UnsupportedError: strings cannot be distinguished from other text.
    """
    allowed_text = free_text([], excluded_strings, limits=limits).without_markers

    def exclude(node: Any) -> Node | None:
        match node:
            case Encoded(item, encoding):
                return Encoded(And((item, allowed_text)), encoding)
            case Text(text) if len(text) > 1 and '"' in text:
                return EMPTY if any(string in json.loads(text) for string in excluded_strings) else node
            case Chars(ranges) if any(low <= _QUOTE <= high for low, high in ranges):
                raise UnsupportedError("strings of this schema cannot be distinguished from other text")
            case Automaton(states) if any(low <= _QUOTE <= high for _, edges in states for low, high, _ in edges):
                raise UnsupportedError("strings of this schema cannot be distinguished from other text")
        return None

    return replace_nodes(grammar, exclude)
