"""Shows parts of a grammar as their author would write them, for messages: `"," pair`, `[a-z]+`.

In: nodes of the IR. Out: a string in EBNF; long strings are cut.
"""

from __future__ import annotations

import re
from typing import Final

from guided.ir.nodes import (
    Alt,
    And,
    Automaton,
    Chars,
    Dispatch,
    Encoded,
    Grammar,
    Length,
    MaxTokens,
    Node,
    Not,
    OtherTokens,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Special,
    Substrings,
    Text,
)
from guided.ir.ranges import ALL_CHARS

__all__ = ["Names", "format_node", "is_helper"]

_MAX_LENGTH: Final = 40
_LINE_SUFFIX: Final = re.compile(r" \(line \d+\)$")


class Names:
    """The names of the rules and terminals of a grammar.

    `has_gaps`: repetitions between the parts of a rule are ignored terminals, which the author did not write.
    """

    def __init__(self, grammar: Grammar, *, has_gaps: bool = False) -> None:
        self.has_gaps = has_gaps
        self.rules = {name: _LINE_SUFFIX.sub("", origin) for name, origin in grammar.origins.items()}
        self.helpers = {name: node for name, node in grammar.rules.items() if is_helper(name)}
        lexer = grammar.lexer
        self.terminals = (
            {} if lexer is None else {each.name: _LINE_SUFFIX.sub("", each.origin) for each in lexer.terminals}
        )

    def format_part(self, node: Node) -> str:
        """Format a part in EBNF, in at most 40 characters."""
        return _truncate(format_node(node, self, nested=False))


def format_node(node: Node, names: Names, *, nested: bool = True) -> str:
    """Format a node in EBNF; `nested`: in parentheses if it has several parts."""
    match node:
        case Text(text):
            return _quote(text)
        case Chars(ranges):
            return _format_characters(ranges)
        case Ref(name):
            if name in names.helpers:
                return _format_repetition(name, names.helpers[name], names)
            return names.rules.get(name, name) or "another specification"
        case Special(token):
            return names.terminals.get(str(token), f"<{token}>")
        case Repeat(item, low, high):
            count = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
            if count is None:
                count = f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"
            return format_node(item, names) + count
        case Seq(items) | Alt(items) if items:
            separator = " " if isinstance(node, Seq) else " | "
            if names.has_gaps:
                items = tuple(item for item in items if not isinstance(item, Repeat))
            text = separator.join(format_node(item, names, nested=len(items) > 1) for item in items[:9])
            return f"({text})" if nested and len(items) > 1 else text
        case Seq():
            return '""'
        case Automaton() | And() | Not() | Length() | MaxTokens():
            return "some text"
        case Substrings(texts):
            return f"a part of {_quote(texts[0])}" if len(texts) == 1 else f"a part of one of {len(texts)} texts"
        case Dispatch(items=items):
            text = f"some text {format_node(Alt(items), names, nested=True)}"
            return f"({text})" if nested else text
        case Encoded(item):
            return format_node(item, names, nested=nested)
        case OtherTokens():
            return "other tokens"
        case Permutation():
            return "members in any order"
    return "something else"


def is_helper(name: str) -> bool:
    """Whether Lark generated the rule, for a repetition or a template."""
    return name.removeprefix("rule ").startswith("__")


def _format_repetition(name: str, node: Node, names: Names) -> str:
    """Format a rule that Lark generated for a repetition as "x+". x consists of the alternatives that do not begin with
    the rule itself."""
    items = node.items if isinstance(node, Alt) else (node,)
    others = [item for item in items if not (isinstance(item, Seq) and item.items[:1] == (Ref(name),))]
    if len(others) == len(items) or any(_refers_to_helper(item) for item in others):
        return "a repetition"
    return format_node(others[0] if len(others) == 1 else Alt(tuple(others)), names) + "+"


def _refers_to_helper(node: Node) -> bool:
    items = node.items if isinstance(node, Seq) else (node,)
    return any(isinstance(item, Ref) and is_helper(item.name) for item in items)


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 4]} ..."


def _quote(text: str) -> str:
    return '"' + "".join(_escape(char, '"\\') for char in text[: 2 * _MAX_LENGTH]) + '"'


def _format_characters(ranges: tuple[tuple[int, int], ...]) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _quote(chr(ranges[0][0]))
    if ranges == ALL_CHARS:
        return "."
    pieces = []
    for low, high in ranges[:9]:
        first, last = _escape(chr(low), "]\\-^"), _escape(chr(high), "]\\-^")
        pieces.append(first if low == high else f"{first}{last}" if high == low + 1 else f"{first}-{last}")
    return f"[{''.join(pieces)}{' ...' if len(ranges) > 9 else ''}]"


def _escape(char: str, special: str) -> str:
    if char in special:
        return "\\" + char
    return char if char.isprintable() else char.encode("unicode_escape").decode()
