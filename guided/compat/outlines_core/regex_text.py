"""Writes the grammar of a JSON Schema as a regular expression. In: a schema's grammar. Out: a pattern that means the
same in Python's `re` and Rust's `regex`, or None if there is none.

How: write the rules of the schema (`json_schema_to_grammar`) as one expression, with references expanded. There is no
expression for recursive rules, for values that must differ, or for members in any order. The result is also None if
the pattern would exceed `MAX_LENGTH` characters.
"""

from __future__ import annotations

from typing import Final

from guided.errors import LimitExceeded, UnsupportedError
from guided.frontends.lark.dialect.expressions import determinise
from guided.frontends.regex.budget import Budget
from guided.frontends.regex.state_elimination import eliminate
from guided.ir.nodes import Alt, And, Automaton, Chars, Encoded, Grammar, Length, Node, Not, Ref, Repeat, Seq, Text
from guided.ir.ranges import charset, complement, intersect
from guided.limits import Limits
from guided.meter import limit_compilation

__all__ = ["ESCAPES", "MAX_LENGTH", "write_pattern"]

ESCAPES: Final = '"\\/bfnrt'
"""The allowed escapes in strings, as in `JsonSchemaOptions.escapes`."""
MAX_LENGTH: Final = 200_000

_SHORT_ESCAPES: Final = {0x22: '"', 0x5C: "\\\\", 0x2F: "/", 8: "b", 12: "f", 10: "n", 13: "r", 9: "t"}
_UNESCAPED: Final = complement(charset(((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C), (0x7F, 0x7F))))
_METACHARACTERS: Final = frozenset("\\.+*?()|[]{}^$#&-~/")


class _NoPattern(Exception):
    """There is no equivalent expression, or it is too long."""


def write_pattern(grammar: Grammar) -> str | None:
    """See the module docstring. The strings of the grammar must use `ESCAPES`."""
    try:
        return _Writer(grammar).write_rule(grammar.start)
    except (_NoPattern, LimitExceeded, UnsupportedError, RecursionError):
        return None


class _Writer:
    def __init__(self, grammar: Grammar) -> None:
        self._rules, self._open_rules = grammar.rules, list[str]()
        self._rule_texts: dict[str, str] = {}

    def write_rule(self, name: str) -> str:
        """Write a rule as an expression."""
        if name in self._open_rules:
            raise _NoPattern
        if name not in self._rule_texts:
            self._open_rules.append(name)
            self._rule_texts[name] = self.write_node(self._rules[name])
            self._open_rules.pop()
        return self._rule_texts[name]

    def write_node(self, node: Node, in_string: bool = False) -> str:
        """Write a node as an expression; with `in_string`, as the content of a JSON string."""
        match node:
            case Text():
                out = "".join(self._write_char(ord(char), in_string) for char in node.text)
            case Chars():
                out = _format_string_set(node.ranges) if in_string else _format_set(node.ranges)
            case Seq():
                out = "".join(self.write_node(item, in_string) for item in node.items)
            case Alt():
                out = f"({'|'.join(self.write_node(item, in_string) for item in node.items)})"
            case Repeat():
                out = f"({self.write_node(node.item, in_string)}){_format_quantifier(node.min, node.max)}"
            case Ref() if not in_string:
                out = self.write_rule(node.name)
            case Encoded() if not in_string:
                out = self.write_node(node.item, in_string=True)
            case And() | Not() | Length() | Automaton():
                out = self.write_node(_eliminate_states(node), in_string)
            case _:
                raise _NoPattern
        if len(out) > MAX_LENGTH:
            raise _NoPattern
        return out

    def _write_char(self, code: int, in_string: bool) -> str:
        return _format_string_set(((code, code),)) if in_string else _escape(code)


def _eliminate_states(node: Node) -> Node:
    """Eliminate the states of a node's automaton, and return an equivalent node without intersections and
    complements."""
    automaton = determinise(node, "a part of the schema", 2_000)
    edges: dict[int, dict[int, Node]] = {}
    end = len(automaton.states)
    for state, (is_accepting, transitions) in enumerate(automaton.states):
        by_target: dict[int, list[tuple[int, int]]] = {}
        for low, high, target in transitions:
            by_target.setdefault(target, []).append((low, high))
        edges[state] = {target: Chars(charset(ranges)) for target, ranges in by_target.items()}
        if is_accepting:
            edges[state][end] = Text("")
    with limit_compilation(Limits()):
        paths = eliminate({end + 1: {automaton.start: Text("")}, **edges}, end + 1, {end}, Budget(Limits()))
    if end not in paths:
        raise _NoPattern
    return paths[end]


def _format_quantifier(low: int, high: int | None) -> str:
    quantifiers = {(0, 1): "?", (0, None): "*", (1, None): "+", (1, 1): ""}
    if (low, high) in quantifiers:
        return quantifiers[low, high]
    return f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"


def _escape(code: int) -> str:
    char = chr(code)
    if char in _METACHARACTERS:
        return "\\" + char
    if char.isprintable():
        return char
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _format_set(ranges: tuple[tuple[int, int], ...]) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _escape(ranges[0][0])
    pieces = [_escape(low) + (f"-{_escape(high)}" if high > low else "") for low, high in ranges]
    return f"[{''.join(pieces)}]" if pieces else r"[^\s\S]"


def _format_string_set(ranges: tuple[tuple[int, int], ...]) -> str:
    """Write a set of characters as an expression inside a JSON string, where each may be raw or escaped with a
    backslash."""
    options = [_format_set(raw)] if (raw := intersect(ranges, _UNESCAPED)) else []
    options += [
        rf"\\{letter}" for code, letter in _SHORT_ESCAPES.items() if any(low <= code <= high for low, high in ranges)
    ]
    if not options:
        return r"[^\s\S]"
    return options[0] if len(options) == 1 else f"({'|'.join(options)})"
