"""Builds regular IR nodes, and restricts them by their first or last character.

In: IR nodes without `Ref`. Out: IR nodes for the result of each operation.

The constructors keep nodes small. They apply only simplifications that take constant time for each part: neutral and
absorbing elements, joining literal text, joining character sets. They flatten a nested sequence only if it has at most
`_MAX_FLATTENED` items, so building a pattern bottom-up stays linear. `EndCharacters.restrict` returns the strings of a
node whose first (or last) character is in a set. It rewrites the node if it can do so exactly, and otherwise intersects
it (`And`).

All functions here that walk an IR tree are generators that `run` drives, so depth costs memory but no Python stack.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, TypeVar

from guided.ir.nodes import ANY_CHAR, EMPTY, EPSILON, Alt, And, Chars, Length, Node, Not, Repeat, Seq, Text
from guided.ir.ranges import ALL_CHARS, Ranges, charset, complement, has_surrogate, intersect, union
from guided.ir.serial import serial
from guided.meter import spend

__all__ = [
    "ANY_TEXT",
    "EndCharacters",
    "alt",
    "as_chars",
    "chars",
    "conj",
    "is_any_text",
    "measure",
    "negate",
    "repeat",
    "run",
    "seq",
    "text",
]

T = TypeVar("T")
ANY_TEXT = Repeat(ANY_CHAR, 0, None)
_MAX_FLATTENED = 16


def run(task: Generator[Any, Any, T]) -> T:
    """Drive a generator that yields the generators whose results it needs: recursion without the Python stack."""
    stack: list[Generator[Any, Any, Any]] = [task]
    value: Any = None
    while True:
        try:
            child = stack[-1].send(value)
        except StopIteration as stop:
            stack.pop()
            value = stop.value
            if not stack:
                result: T = value
                return result
        else:
            spend()
            stack.append(child)
            value = None


def is_any_text(node: Node) -> bool:
    """Whether `node` is written as "any text", like `ANY_TEXT`. Other nodes may have the same meaning."""
    return node is ANY_TEXT or (
        isinstance(node, Repeat) and node.min == 0 and node.max is None and node.item == ANY_CHAR
    )


def text(value: str) -> Node:
    """The literal text `value`. If it contains a surrogate, it matches nothing."""
    if has_surrogate(value):
        return EMPTY
    return Text(value) if value else EPSILON


def chars(ranges: Ranges) -> Node:
    """One character of `ranges`. A set of one character becomes a `Text`."""
    if not ranges:
        return EMPTY
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return Text(chr(ranges[0][0]))
    return Chars(ranges)


def as_chars(node: object) -> Ranges | None:
    """The character set of a `Chars` or of a `Text` of length 1; None for other nodes."""
    if isinstance(node, Chars):
        return node.ranges
    if isinstance(node, Text) and len(node.text) == 1:
        return ((ord(node.text), ord(node.text)),)
    return None


def seq(parts: Iterable[Node]) -> Node:
    """Concatenation."""
    flat: list[Node] = []
    for part in parts:
        if part is EMPTY or (isinstance(part, Alt) and not part.items):
            return EMPTY
        if isinstance(part, Seq) and len(part.items) <= _MAX_FLATTENED:
            flat.extend(part.items)
        else:
            flat.append(part)
    out: list[Node] = []
    literal: list[str] = []
    for part in flat:
        if isinstance(part, Text):
            literal.append(part.text)
            continue
        if literal:
            out.append(Text("".join(literal)))
            literal.clear()
        out.append(part)
    if literal:
        out.append(Text("".join(literal)))
    return out[0] if len(out) == 1 else Seq(tuple(out)) if out else EPSILON


def alt(branches: Iterable[Node]) -> Node:
    """Union. Character sets are joined into one set. An empty string among the branches makes the result optional."""
    out: list[Node] = []
    seen: set[int] = set()
    sets: list[Ranges] = []
    chars_index = -1  # the index in `out` of the joined character set
    nullable = False
    flat: list[Node] = []
    for branch in branches:
        if isinstance(branch, Alt) and len(branch.items) <= _MAX_FLATTENED:
            flat.extend(branch.items)
        else:
            flat.append(branch)
    for branch in flat:
        ranges = as_chars(branch)
        if ranges is not None:
            sets.append(ranges)
            if chars_index < 0:
                chars_index = len(out)
                out.append(branch)
        elif isinstance(branch, Seq) and not branch.items:
            nullable = True
        elif serial(branch) not in seen:
            seen.add(serial(branch))
            out.append(branch)
    if chars_index >= 0:
        out[chars_index] = chars(union(sets))
    result: Node = out[0] if len(out) == 1 else Alt(tuple(out)) if out else EMPTY
    return repeat(result, 0, 1) if nullable else result


def repeat(item: Node, low: int, high: int | None) -> Node:
    """`item`, `low` to `high` times. If `item` is a star, a plus or optional itself, both are merged into one
    repetition where this is exact."""
    if high == 0 or item == EPSILON:
        return EPSILON
    if isinstance(item, Alt) and not item.items:
        return EPSILON if low == 0 else EMPTY
    if low == 1 and high == 1:
        return item
    if isinstance(item, Repeat) and item.max is None and item.min <= 1:
        return Repeat(item.item, item.min * low, None)
    if isinstance(item, Repeat) and item.min == 0 and item.max == 1 and (low == 0 or high is None):
        return Repeat(item.item, 0, high)
    ranges = as_chars(item)
    return Repeat(item if ranges is None else Chars(ranges), low, high)


def conj(a: Node, b: Node) -> Node:
    """Intersection."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Alt) and not one.items:
            return EMPTY
        if is_any_text(one):
            return other
        if isinstance(one, Seq) and not one.items:
            return EPSILON if EndCharacters().is_nullable(other) else EMPTY
    if a is b:
        return a
    left = a.items if isinstance(a, And) and len(a.items) <= _MAX_FLATTENED else (a,)
    right = b.items if isinstance(b, And) and len(b.items) <= _MAX_FLATTENED else (b,)
    return And((*left, *right))


def negate(node: Node) -> Node:
    """Complement."""
    if isinstance(node, Alt) and not node.items:
        return ANY_TEXT
    if is_any_text(node):
        return EMPTY
    return node.item if isinstance(node, Not) else Not(node)


def measure(node: Node) -> tuple[int, int]:
    """(nodes, depth) of an IR node if it is written out as a tree. Shared nodes are visited only once."""
    sizes: dict[int, tuple[int, int]] = {}

    def visit(node: Node) -> Generator[Any, Any, tuple[int, int]]:
        if serial(node) in sizes:
            return sizes[serial(node)]
        items: tuple[Node, ...] = ()
        if isinstance(node, (Seq, Alt, And)):
            items = node.items
        elif isinstance(node, (Repeat, Not, Length)):
            items = (node.item,)
        nodes, depth = 1, 0
        for item in items:
            item_nodes, item_depth = yield visit(item)
            nodes, depth = nodes + item_nodes, max(depth, item_depth)
        sizes[serial(node)] = (nodes, depth + 1)
        return sizes[serial(node)]

    return run(visit(node))


End = tuple[bool, Ranges]
"""(whether the language contains the empty string, a superset of the characters with which its strings begin or end)"""


class EndCharacters:
    """Computes the first and last characters of IR nodes, and all of their characters. Results are cached by node."""

    def __init__(self) -> None:
        self._characters: dict[int, Ranges] = {}
        self._ends: dict[tuple[int, bool], End] = {}
        self._restrictions: dict[tuple[int, Ranges, bool, bool], Node] = {}

    def is_nullable(self, node: Node) -> bool:
        """Whether the empty string is in the language of `node`. The answer is exact."""
        return self.find_end(node, False)[0]

    def find_end(self, node: Node, last: bool) -> End:
        """(nullable, first characters) of a node; with `last`, (nullable, last characters)."""
        cached = self._ends.get((serial(node), last))
        return run(self._find_end(node, last)) if cached is None else cached

    def _find_end(self, node: Node, last: bool) -> Generator[Any, Any, End]:
        key = (serial(node), last)
        if key in self._ends:
            return self._ends[key]
        result: End
        match node:
            case Chars(ranges):
                result = (False, ranges)
            case Text(value):
                code = ord(value[-1 if last else 0])
                result = (False, ((code, code),))
            case Seq(items):
                parts: list[tuple[int, int]] = []
                nullable = True
                for item in reversed(items) if last else items:
                    nullable, end_chars = yield self._find_end(item, last)
                    parts.extend(end_chars)
                    if not nullable:
                        break
                result = (nullable, charset(parts))
            case Alt(items):
                ends = []
                for item in items:
                    ends.append((yield self._find_end(item, last)))
                result = (any(e[0] for e in ends), charset(r for e in ends for r in e[1]))
            case Repeat(item, low, _):
                nullable, end_chars = yield self._find_end(item, last)
                result = (low == 0 or nullable, end_chars)
            case And(items):
                result = (True, ALL_CHARS)
                for item in items:
                    nullable, end_chars = yield self._find_end(item, last)
                    result = (result[0] and nullable, intersect(result[1], end_chars))
            case Not(item):
                result = (not (yield self._find_end(item, last))[0], ALL_CHARS)
            case Length(item, low, high):
                nullable, end_chars = yield self._find_end(item, last)
                result = (low == 0 and nullable, end_chars if high != 0 else ())
            case _:
                raise TypeError(f"not a regular node of a regex: {type(node).__name__}")
        self._ends[key] = result
        return result

    def exclude(self, node: Node, language: Node) -> Node:
        """The strings of `node` that are not in `language`.

        `(?!.{256,})` excludes the strings whose first 256 characters match `.`. If `node` has no other characters,
        these are its strings of at least 256 characters. A bound on the length needs far fewer states than a
        complement.
        """
        match language:
            case Seq((Repeat(item, count, _), rest)) if is_any_text(rest):
                ranges = as_chars(item)
            case Repeat(item, count, None):
                ranges = as_chars(item)
            case _:
                ranges, count = None, 0
        if count > 0 and ranges is not None and not intersect(self.find_characters(node), complement(ranges)):
            return Length(node, 0, count - 1)
        return conj(node, negate(language))

    def find_characters(self, node: Node) -> Ranges:
        """A superset of the characters that occur in the strings of a node."""
        cached = self._characters.get(serial(node))
        return run(self._find_characters(node)) if cached is None else cached

    def _find_characters(self, node: Node) -> Generator[Any, Any, Ranges]:
        if serial(node) in self._characters:
            return self._characters[serial(node)]
        result = ALL_CHARS
        match node:
            case Chars(ranges):
                result = ranges
            case Text(value):
                result = charset((code, code) for code in map(ord, value))
            case Seq(items) | Alt(items):
                parts: list[tuple[int, int]] = []
                for item in items:
                    parts.extend((yield self._find_characters(item)))
                result = charset(parts)
            case And(items):
                for item in items:
                    result = intersect(result, (yield self._find_characters(item)))
            case Repeat(item, _, _) | Length(item, _, _):
                result = yield self._find_characters(item)
            case _:  # a complement
                pass
        self._characters[serial(node)] = result
        return result

    def restrict(self, node: Node, ranges: Ranges, allow_empty: bool, last: bool) -> Node:
        """The strings of `node` whose first character is in `ranges`. With `last`: whose last character is in `ranges`.

        With `allow_empty`, the result also contains the empty string if `node` does.
        """
        return run(self._restrict(node, ranges, allow_empty, last))

    def _restrict(self, node: Node, ranges: Ranges, allow_empty: bool, last: bool) -> Generator[Any, Any, Node]:
        key = (serial(node), ranges, allow_empty, last)
        if key not in self._restrictions:
            self._restrictions[key] = yield self._compute_restriction(node, ranges, allow_empty, last)
        return self._restrictions[key]

    def _compute_restriction(
        self, node: Node, ranges: Ranges, allow_empty: bool, last: bool
    ) -> Generator[Any, Any, Node]:
        nullable, end_chars = yield self._find_end(node, last)
        allowed_chars = intersect(end_chars, ranges)
        if not allowed_chars:
            return EPSILON if nullable and allow_empty else EMPTY
        if allowed_chars == end_chars and (allow_empty or not nullable):
            return node
        match node:
            case Chars(_):
                return chars(allowed_chars)
            case Seq(items):
                outer_item, other_items = (items[-1], items[:-1]) if last else (items[0], items[1:])
                outer_nullable = (yield self._find_end(outer_item, last))[0]
                if not outer_nullable or len(items) <= 3:
                    restricted_part = yield self._restrict(outer_item, ranges, False, last)
                    result = seq((*other_items, restricted_part) if last else (restricted_part, *other_items))
                    if not outer_nullable:
                        return result
                    return alt((result, (yield self._restrict(seq(other_items), ranges, allow_empty, last))))
            case Alt(items):
                branches = []
                for item in items:
                    branches.append((yield self._restrict(item, ranges, allow_empty, last)))
                return alt(branches)
            case Repeat(item, low, high):
                if not (yield self._find_end(item, last))[0]:
                    restricted_part = yield self._restrict(item, ranges, False, last)
                    remaining = repeat(item, max(low - 1, 0), None if high is None else high - 1)
                    result = seq((remaining, restricted_part) if last else (restricted_part, remaining))
                    return alt((EPSILON, result)) if low == 0 and allow_empty else result
            case _:
                pass
        condition = seq((ANY_TEXT, chars(ranges)) if last else (chars(ranges), ANY_TEXT))
        return conj(node, alt((EPSILON, condition)) if allow_empty else condition)
