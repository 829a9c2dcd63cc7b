"""The grammar IR, which every front end produces and the core consumes. Data only: the nodes are frozen dataclasses.

A node denotes a set of strings of Unicode code points, without surrogates. `Special` denotes one control token.
*Regular* nodes are built without `Special`, `OtherTokens`, `MaxTokens`, `Permutation`, `Dispatch`, `Distinct`, `Entry`,
`Lexed` and recursion. `And`, `Not`, `Length`, `Encoded` and `MaxTokens` only accept regular items; a `Ref` in them is
expanded if it is not recursive.

Nodes are compared by content. Caches distinguish them by identity (`serial.py`).

The ranges of `Chars` are sorted, disjoint and not adjacent, within 0..0x10FFFF, without surrogates (`ranges.py`).

Lexers, regions and grammars are defined here, too, because nodes contain them and they contain nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from guided.ir.conditions import Condition
from guided.ir.embedded import EmbeddedSchema
from guided.ir.encodings import Encoding
from guided.ir.indentation import Indentation
from guided.ir.ranges import ALL_CHARS, Ranges
from guided.ir.serial import Numbered

__all__ = [
    "ANY_CHAR", "EMPTY", "EPSILON", "Alt", "And", "Automaton", "Chars", "DeferredRule", "Dispatch", "Distinct",
    "Encoded", "Ending", "Entry", "Grammar", "Keyword", "Length", "Lexed", "Lexer", "MaxTokens", "Member", "Node",
    "Not", "OtherTokens", "Permutation", "Ref", "Region", "Repeat", "Seq", "Special", "Substrings", "Terminal", "Text",
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
    """Every string of code points that is not in the regular `item`."""

    item: Node


@dataclass(frozen=True, slots=True)
class Automaton(Numbered):
    """The strings of code points that a deterministic automaton accepts, starting in state `start`.

    `states[i]`: whether state i accepts, and its edges (low, high, to), sorted and disjoint. A regular node.
    """

    states: tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...]
    start: int = 0


@dataclass(frozen=True, slots=True)
class Substrings(Numbered):
    """A substring of one of the texts, of at least one character.

    `whole_words`: the substring neither begins nor ends with whitespace or inside a word, that is, between two
    letters, digits or `_`. A regular node. The core builds its automaton, about 1.5 states for each character.
    """

    texts: tuple[str, ...]
    whole_words: bool = False


@dataclass(frozen=True, slots=True)
class Dispatch(Numbered):
    """Either a string that `automaton` accepts, or a string that leads it into the state `exits[i]`, followed by a
    string of `items[i]`.

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
class Encoded(Numbered):
    """The strings of the regular `item`, with each code point spelled by `encoding` instead of UTF-8.

    An encoding produces bytes, while `And`, `Not` and `Length` work on code points. So `Encoded` must be outside them.
    Inside them, or inside another `Encoded`, it is refused.
    """

    item: Node
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class Ref(Numbered):
    """A rule of the grammar, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Special(Numbered):
    """One control token, by id or by name in the vocabulary. Text that spells the name does not match."""

    token: int | str


@dataclass(frozen=True, slots=True)
class OtherTokens(Numbered):
    """`min` to `max` tokens (None: unbounded) that have text and are not in `but`, which has ids or names.

    The restriction is on tokens, not on text: the same text may be allowed with some tokens and refused with others.
    There is one exception: if the tokens in `but` have no text, `min` is 0 or 1, and `max` is None, the node means any
    text of at least `min` characters. Then, as everywhere, tokens that contain parts of characters must form complete
    characters.
    """

    but: tuple[int | str, ...]
    min: int = 1
    max: int | None = 1


@dataclass(frozen=True, slots=True)
class MaxTokens(Numbered):
    """The strings of the regular `item`, written in at most `max` tokens.

    A token counts if some of its text belongs to the string, even if it begins before the string or ends after it.
    After each token that ends within the string, the tokens left must be enough to write the rest of the string and end
    exactly with it.

    The restriction is on tokens, not on text, as in `OtherTokens`. The node must not occur in regular nodes.
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
class Permutation(Numbered):
    """`min` to `max` members in any order, separated by `separator`. Each member occurs at most once unless repeatable.

    The languages of the members should be disjoint. A text in two of them may count as either member.

    `slots`: the slot of each member, a number below the number of members. Members of one slot exclude each other, and
    no other member shares the slot of a repeatable member. If `slots` is empty, each member has its own slot.
    `ordered`: members come in the order of their slots, followed by repeatable members in any order. `condition`: must
    hold at the end. If any of these three is given, `min` is at least 1.
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
    calls of rules. Neither a `Distinct` nor an `Entry` may generate the empty text, or be inside `And`, `Not`, `Length`
    or `Encoded`. Entries of one `Distinct` do not nest.

    An entry is refused as soon as every value that it may still become has been seen. The core does not check whether
    an unseen value is left for the *next* entry: if there are few values, the author of the grammar must bound the
    number of entries.
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
    """The texts of a grammar with a lexer, as a part of a specification. No lexeme extends past the end of the part.

    It may occur in `Seq`, `Alt` and `Repeat`, and in non-recursive rules.
    """

    grammar: Grammar


Node: TypeAlias = (
    Chars
    | Text
    | Automaton
    | Substrings
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
class Keyword:
    """The terminal `name`, if the lexeme is in the regular `item`. `embedded`: it is not tried separately."""

    name: str
    item: Node
    embedded: bool = True


@dataclass(frozen=True, slots=True)
class Terminal:
    """The strings of the regular `item`, none of which is empty, and the keywords among them, in order of preference.

    `origin` is its location in the specification, for explanations.
    """

    name: str
    item: Node
    keywords: tuple[Keyword, ...] = ()
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Lexer:
    """Describes how a text is split into lexemes before rules apply.

    A grammar with a lexer denotes the texts that Lark's contextual lexer and its parser accept: at each position, the
    lexer tries only the terminals that some rule can take there, and chooses one of them without lookahead. In the
    rules of such a grammar, `Special(name)` is the terminal of that name.

    **Choice.** Terminals are tried in the order of `Lexer.terminals`. The first one that matches *some* prefix of the
    rest wins, like the first alternative in `re`, and takes its longest match. Patterns that prefer a shorter match,
    such as `".*?"`, need no special treatment: their front end reduces them to the texts that `re.match` matches as a
    whole (`guided/frontends/regex/leftmost_match.py`).

        terminals: NAME = [a-z]+, NUMBER = [0-9]+, LESS_OR_EQUAL = "<=", LESS = "<"
        text:      count<=10        LESS_OR_EQUAL precedes LESS, so the text is split into  count  <=  10

    **Keywords.** A lexeme of a terminal becomes one of its keywords instead, if the keyword matches the whole lexeme
    and the parser can accept it there. An `embedded` keyword is not tried as a separate terminal: `iffy` is one NAME.
    **Ignored** terminals may occur before, between and after all others.

    **Contexts.** Lark reads the possible terminals from its LALR(1) table. Here the set is exact, for any context-free
    grammar; `Lexer.contexts` adds terminals in states for which Lark's table has more. A lexer that is not `contextual`
    tries all terminals everywhere, like Lark's basic lexer. So it may produce a lexeme that no rule can accept.

    Source: lark/lexer.py, `BasicLexer`, `_create_unless` and `ContextualLexer`.

    Attributes:
        terminals: in the order in which they are tried.
        ignored: the names of ignored terminals.
        indentation: its `indent` and `dedent` are not among the terminals, unless they also have a text.
        contexts: the set of marks that the parser can accept -> terminals that are tried in addition. In rules, an
            optional `Special(mark)` follows the terminal that has just been read; no text contains a mark. If Lark's
            table resolves a conflict, an exact parser may be in several states of the table at once, and accept a set
            of marks that is not a key. Then the terminals of the largest keys that are subsets of it are tried.
        contextual: whether to try only terminals that some rule can accept at the current position.
        rows: a row of Lark's table for these rules -> the terminals after which it applies. Empty: unknown.
    """

    terminals: tuple[Terminal, ...]
    ignored: frozenset[str] = frozenset()
    indentation: Indentation | None = None
    contexts: Mapping[frozenset[str], frozenset[str]] = field(default_factory=dict)
    contextual: bool = True
    rows: Mapping[frozenset[str], frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ending:
    """A text of the regular `before`, followed by a text of the regular `end` that is as long as possible.

    `capture`: the name under which the end is captured; empty if it is not captured.
    """

    before: Node
    end: Node
    capture: str = ""


@dataclass(frozen=True, slots=True)
class Region:
    """Options for the text of one rule.

    Attributes:
        capture: the name under which the text is captured; empty if it is not captured. The captured text excludes the
            end of `ending`.
        ending: how the text is divided into its content and its end, if this matters.
        temperature: the sampling temperature within the text; None: the temperature of the request.
        ignored: whether a parser skips the text. Captures then exclude it at their start and end.
    """

    capture: str = ""
    ending: Ending | None = None
    temperature: float | None = None
    ignored: bool = False

    @property
    def captures(self) -> tuple[str, ...]:
        """The names under which texts are captured here."""
        return tuple(name for name in (self.capture, self.ending.capture if self.ending else "") if name)


@dataclass(frozen=True, slots=True)
class DeferredRule:
    """A rule that is compiled when it is first entered, as a separate grammar.

    Attributes:
        read: returns its grammar, which generates texts, but not the empty one. It may be called on any thread.
        content: identifies the rule: equal only for equal languages.
        shortest_bound: an upper bound on the bytes of its shortest text.
    """

    read: Callable[[], Grammar]
    content: bytes
    shortest_bound: int


@dataclass(frozen=True, slots=True)
class Grammar:
    """Named rules and the start rule's name. Rules may be recursive in any way, including left recursion.

    With a `lexer`, texts are first split into lexemes, and `Special(name)` in a rule is the terminal of that name.
    `composed` says whether some rule contains `Lexed` parts.
    """

    rules: Mapping[str, Node]
    start: str = "start"
    origins: Mapping[str, str] = field(default_factory=dict)
    """Rule name -> its location in the specification (a JSON Pointer, a line), for explanations."""
    lexer: Lexer | None = None
    regions: Mapping[str, Region] = field(default_factory=dict)
    """Rule name -> the region of its texts."""
    later: Mapping[str, DeferredRule] = field(default_factory=dict)
    """Rules that are compiled when they are first entered. Their nodes are placeholders: any short text."""
    composed: bool = False
    schemas: Mapping[str, EmbeddedSchema] = field(default_factory=dict)
    """Rule name -> the schema from which the rule was made, for explanations."""


EPSILON = Seq(())
EMPTY = Alt(())
ANY_CHAR = Chars(ALL_CHARS)
