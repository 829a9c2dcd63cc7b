"""The grammar IR, which every front end produces and the core consumes. Frozen nodes without methods that compute.

A node denotes a set of strings of Unicode code points, without surrogates. `Special` denotes one control token.
*Regular* nodes are those built without `Special`, `OtherTokens`, `MaxTokens`, `Permutation`, `Dispatch` and recursion.
`And`, `Not`, `Length`, `Encoded` and `MaxTokens` only accept regular items; a `Ref` in them is expanded if it is not
recursive.

Nodes are compared by content. Caches distinguish them by identity (`serial.py`).

The ranges of `Chars` are sorted, disjoint and not adjacent, within 0..0x10FFFF, without surrogates (`ranges.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from guided.ir.ranges import ALL_CHARS, Ranges, charset, complement, intersect
from guided.ir.serial import Numbered

if TYPE_CHECKING:
    from guided.ir.deferred_rule import DeferredRule
    from guided.ir.embedded import Embedded
    from guided.ir.lexer import Lexer
    from guided.ir.regions import Region

__all__ = [
    "ALL_CHARS",
    "ANY_CHAR",
    "EMPTY",
    "EPSILON",
    "UTF8",
    "AllOf",
    "Alt",
    "And",
    "AnyOf",
    "Automaton",
    "Chars",
    "Condition",
    "Dispatch",
    "Distinct",
    "Encoded",
    "Encoding",
    "Entry",
    "Form",
    "Grammar",
    "Length",
    "Lexed",
    "MaxTokens",
    "Member",
    "Node",
    "NoneOf",
    "Not",
    "OtherTokens",
    "Permutation",
    "Ranges",
    "Ref",
    "Repeat",
    "Seq",
    "Span",
    "Special",
    "Text",
    "Written",
    "charset",
    "complement",
    "intersect",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chars(Numbered):
    """One code point of `ranges`, which are inclusive pairs."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Text(Numbered):
    """Exactly this text. Contains no surrogates."""

    text: str


@dataclass(frozen=True, slots=True)
class Seq(Numbered):
    """Concatenation; `Seq(())` is the empty string."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alt(Numbered):
    """Union; `Alt(())` is the empty language."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat(Numbered):
    """`item` concatenated `min` to `max` times (None: unbounded)."""

    item: Node
    min: int
    max: int | None


@dataclass(frozen=True, slots=True)
class And(Numbered):
    """Intersection of regular items; `And(())` is every string."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not(Numbered):
    """Every string of code points outside the regular `item`."""

    item: Node


@dataclass(frozen=True, slots=True)
class Automaton(Numbered):
    """The strings of code points that a deterministic automaton accepts, starting in state `start`.

    `states[i]`: whether state i accepts, and its edges (low, high, to), sorted and disjoint. A regular node.
    """

    states: tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...]
    start: int = 0


@dataclass(frozen=True, slots=True)
class Dispatch(Numbered):
    """A choice that depends on the text: a string of `automaton`, or a string that leads it into the state `exits[i]`,
    followed by `items[i]`.

    Several items may follow one state. It is never a regular node, regardless of the items.
    """

    automaton: Automaton
    exits: tuple[int, ...]
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Length(Numbered):
    """The strings of the regular `item` that have `min` to `max` code points (None: unbounded)."""

    item: Node
    min: int
    max: int | None


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes `low`..`high`; byte b contributes `value + (b - low) * step` to the code point."""

    low: int
    high: int
    value: int
    step: int


@dataclass(frozen=True, slots=True)
class Form:
    """One way to spell code points: one byte for each digit in turn. The code point is the sum of their contributions.

    Only code points in `ranges` are spelled this way. Digits are positional: all later digits together add less than
    one step of a digit.
    """

    ranges: Ranges
    digits: tuple[tuple[Span, ...], ...]


@dataclass(frozen=True, slots=True)
class Encoding(Numbered):
    """How code points become bytes: the union of its forms. A code point may have several spellings."""

    name: str
    forms: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Encoded(Numbered):
    """The strings of the regular `item`, with each code point spelled by `encoding` instead of UTF-8.

    An encoding produces bytes, while `And`, `Not` and `Length` are about code points. So `Encoded` must be outside
    them; inside them, or inside another `Encoded`, it is refused.
    """

    item: Node
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class Ref(Numbered):
    """A rule of the grammar, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Special(Numbered):
    """One control token, by id or by name in the vocabulary. Its name as text does not match."""

    token: int | str


@dataclass(frozen=True, slots=True)
class OtherTokens(Numbered):
    """`min` to `max` tokens that have text and are not among `but`, each given by id or by name (None: unbounded).

    The restriction is on tokens, not on text: the same text may be allowed with some tokens and refused with others.
    Only if the tokens in `but` have no text, `min` is 0 or 1 and `max` is None, it is any text of at least `min`
    characters. Then, as everywhere, tokens that are parts of characters must form complete characters.
    """

    but: tuple[int | str, ...]
    min: int = 1
    max: int | None = 1


@dataclass(frozen=True, slots=True)
class MaxTokens(Numbered):
    """The strings of the regular `item`, written in at most `max` tokens.

    A token counts if some of its text belongs to the string, even if it begins before the string or ends after it.
    After each token that ends within the string, there must be enough tokens left to write the rest of it, where the
    last of them ends with the string.

    The restriction is on tokens, not on text, as in `OtherTokens`. It must not occur in regular nodes.
    """

    item: Node
    max: int


@dataclass(frozen=True, slots=True)
class Member:
    """An item of a `Permutation`. `item` is not nullable. A repeatable member may occur any number of times."""

    item: Node
    required: bool = False
    repeatable: bool = False


@dataclass(frozen=True, slots=True)
class Written(Numbered):
    """At least one of these members, given by index, was written."""

    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AllOf(Numbered):
    """All of these conditions hold."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(Numbered):
    """At least one of these conditions holds."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class NoneOf(Numbered):
    """None of these conditions holds."""

    items: tuple[Condition, ...]


Condition: TypeAlias = Written | AllOf | AnyOf | NoneOf
"""A joint requirement on the members of a permutation, checked at its end."""


@dataclass(frozen=True, slots=True)
class Permutation(Numbered):
    """`min` to `max` members in any order, separated by `separator`. Each member occurs at most once unless repeatable.

    The languages of the members should be disjoint. A text that is in two of them may count as either.

    `slots`: for each member its slot, a number below the number of members. Members of one slot exclude each other, and
    a repeatable member has a slot of its own. If empty, each member has its own slot. `ordered`: members come in the
    order of their slots, and repeatable ones last, in any order. `condition`: must hold at the end. With any of these
    three, `min` is at least 1.
    """

    members: tuple[Member, ...]
    separator: Node
    min: int = 0
    max: int | None = None
    slots: tuple[int, ...] = ()
    ordered: bool = False
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Distinct(Numbered):
    """A uniqueness scope: `item`, in which the JSON values of all `Entry` parts differ from one another.

    They also differ from the strings in `known`. An entry belongs to the innermost surrounding `Distinct`, even across
    calls of rules. Neither may be empty, or be inside `And`, `Not`, `Length` or `Encoded`. Entries of one `Distinct` do
    not nest.

    An entry is refused as soon as every value that it may still become has been seen. Whether the *next* entry will
    find an unseen value is not checked: if values are few, the author of the grammar must bound the number of entries.
    """

    item: Node
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry(Numbered):
    """`item`, the text of one JSON value without control tokens, as an entry of a `Distinct`.

    Values are compared as JSON: strings after decoding, 1 equals 1.0, and the order of object members does not matter.
    """

    item: Node


@dataclass(frozen=True, slots=True)
class Lexed(Numbered):
    """The texts of a grammar with a lexer, whose longest match ends where the text of the part ends.

    It may occur in `Seq`, `Alt` and `Repeat`, and in non-recursive rules.
    """

    grammar: Grammar


Node: TypeAlias = (
    Chars
    | Text
    | Automaton
    | Dispatch
    | Seq
    | Alt
    | Repeat
    | And
    | Not
    | Length
    | Encoded
    | MaxTokens
    | Ref
    | Special
    | OtherTokens
    | Permutation
    | Distinct
    | Entry
    | Lexed
)


@dataclass(frozen=True, slots=True)
class Grammar:
    """Named rules and the start rule's name. Rules may be recursive in any way, including left recursion.

    With a `lexer`, texts are first split into lexemes, and `Special(name)` in a rule is the terminal of that name.
    `composed` says whether some rule has `Lexed` parts.
    """

    rules: Mapping[str, Node]
    start: str = "start"
    origins: Mapping[str, str] = field(default_factory=dict)
    """Rule name -> its location in the specification (a JSON Pointer, a line), for explanations."""
    lexer: Lexer | None = None
    regions: Mapping[str, Region] = field(default_factory=dict)
    """Rule name -> the region of its texts, see `regions.py`."""
    later: Mapping[str, DeferredRule] = field(default_factory=dict)
    """Rules that are compiled when they are first entered. Until then, their nodes are placeholders: any short text."""
    composed: bool = False
    schemas: Mapping[str, Embedded] = field(default_factory=dict)
    """Rule name -> the schema whose JSON it is, for explanations."""


_CONTINUATION = Span(0x80, 0xBF, 0, 1)
UTF8 = Encoding(
    "utf-8",
    (
        Form(((0, 0x7F),), ((Span(0, 0x7F, 0, 1),),)),
        Form(((0x80, 0x7FF),), ((Span(0xC2, 0xDF, 2 << 6, 1 << 6),), (_CONTINUATION,))),
        Form(
            ((0x800, 0xD7FF), (0xE000, 0xFFFF)),
            ((Span(0xE0, 0xEF, 0, 1 << 12),), (Span(0x80, 0xBF, 0, 1 << 6),), (_CONTINUATION,)),
        ),
        Form(
            ((0x10000, 0x10FFFF),),
            (
                (Span(0xF0, 0xF4, 0, 1 << 18),),
                (Span(0x80, 0xBF, 0, 1 << 12),),
                (Span(0x80, 0xBF, 0, 1 << 6),),
                (_CONTINUATION,),
            ),
        ),
    ),
)

EPSILON = Seq(())
EMPTY = Alt(())
ANY_CHAR = Chars(ALL_CHARS)
