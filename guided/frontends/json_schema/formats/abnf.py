"""Short names for IR nodes, so that a format reads like the ABNF on which it is based. In: strings and nodes. Out:
nodes.
"""

from __future__ import annotations

from guided.ir.nodes import Alt, And, Chars, Node, Not, Repeat, Seq, Text
from guided.ir.ranges import Ranges, charset

__all__ = [
    "ALNUM",
    "ALPHA",
    "DIGIT",
    "HEX",
    "alt",
    "any_case",
    "chars",
    "charset_of",
    "exclude",
    "many",
    "optional",
    "seq",
]


def charset_of(*classes: str) -> Ranges:
    """The characters of each argument. Three characters with a hyphen in the middle, as in `"a-z"`, are a range."""
    ranges: list[tuple[int, int]] = []
    for text in classes:
        if len(text) == 3 and text[1] == "-":
            ranges.append((ord(text[0]), ord(text[2])))
        else:
            ranges += [(ord(char), ord(char)) for char in text]
    return charset(ranges)


def chars(*classes: str | Ranges) -> Chars:
    """One character out of the classes, which are written as for `charset_of` or given as ranges."""
    class_ranges = (charset_of(each) if isinstance(each, str) else each for each in classes)
    return Chars(charset(pair for ranges in class_ranges for pair in ranges))


def _node(item: Node | str) -> Node:
    return Text(item) if isinstance(item, str) else item


def seq(*items: Node | str) -> Node:
    """Concatenation."""
    return Seq(tuple(map(_node, items)))


def alt(*items: Node | str) -> Node:
    """Union."""
    return Alt(tuple(map(_node, items)))


def many(item: Node | str, low: int = 0, high: int | None = None) -> Node:
    """Repetition, `low` to `high` times."""
    return Repeat(_node(item), low, high)


def optional(*items: Node | str) -> Node:
    """All items in order, or nothing."""
    return Repeat(_node(items[0]) if len(items) == 1 else seq(*items), 0, 1)


def exclude(item: Node, *others: Node) -> Node:
    """The strings of `item` that none of `others` contains."""
    return And((item, *map(Not, others)))


def any_case(text: str) -> Node:
    """An ABNF string, whose letters match both cases (RFC 5234, section 2.3)."""
    return seq(*(chars(char.lower() + char.upper()) if char.isalpha() else char for char in text))


ALPHA = chars("A-Z", "a-z")
DIGIT = chars("0-9")
ALNUM = chars("A-Z", "a-z", "0-9")
HEX = chars("0-9", "A-F", "a-f")
