"""The grammar IR, which every front end produces and the core consumes. Frozen nodes without methods that compute.

A node denotes a set of strings of Unicode code points, without surrogates. `Special` denotes one control token.
*Regular* nodes are those built without `Special`, `OtherTokens`, `MaxTokens`, `Permutation`, `Dispatch` and recursion.
`And`, `Not`, `Length`, `Encoded` and `MaxTokens` only accept regular items; a `Ref` in them is expanded if it is not
recursive.

Nodes are compared by content. Caches distinguish them by identity (`serial.py`).

The ranges of `Chars` are sorted, disjoint and not adjacent, within 0..0x10FFFF, without surrogates (`ranges.py`).

Lexers, regions and grammars are defined here too, because nodes contain them and they contain nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from guided.ir.conditions import Condition
from guided.ir.embedded import Embedded
from guided.ir.encodings import Encoding
from guided.ir.indentation import Indentation
from guided.ir.ranges import ALL_CHARS, Ranges
from guided.ir.serial import Numbered

__all__ = [
    "ANY_CHAR", "EMPTY", "EPSILON", "Alt", "And", "Automaton", "Chars", "DeferredRule", "Dispatch", "Distinct",
    "Encoded", "Ending", "Entry", "Grammar", "Keyword", "Length", "Lexed", "Lexer", "MaxTokens", "Member", "Node",
    "Not", "OtherTokens", "Permutation", "Ref", "Region", "Repeat", "Seq", "Special", "Terminal", "Text",
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
class Keyword:
    """The terminal `name`, if the lexeme is in the regular `item`. `embedded`: it is not tried by itself."""

    name: str
    item: Node
    embedded: bool = True


@dataclass(frozen=True, slots=True)
class Terminal:
    """The strings of the regular `item`, none of them empty, and the keywords among them, in order of preference.

    `origin` is its location in the specification, for explanations.
    """

    name: str
    item: Node
    keywords: tuple[Keyword, ...] = ()
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Lexer:
    """How texts are split into lexemes before rules apply: terminals in the order in which they are tried.

    A grammar with a lexer denotes the texts that Lark's contextual lexer and its parser accept: at each position, the
    lexer tries only the terminals that some rule can take there, and chooses one of them without lookahead. In the
    rules of such a grammar, `Special(name)` is the terminal of that name.

    **Choice.** Terminals are tried in the order of `Lexer.terminals`. The first one that matches *some* prefix of the
    rest wins, like the first alternative in `re`, and takes its longest match. Patterns that prefer a shorter match,
    such as `".*?"`, need nothing else: `re.match` takes the longest match among the texts that it takes as a whole
    (`guided/frontends/regex/leftmost_match.py`).

        terminals: NAME = [a-z]+, NUMBER = [0-9]+, LESS_OR_EQUAL = "<=", LESS = "<"
        text:      count<=10        LESS_OR_EQUAL precedes LESS, so the text is split into  count  <=  10

    **Keywords.** A lexeme of a terminal becomes one of its keywords instead, if the keyword matches the whole lexeme
    and can be taken there. An `embedded` keyword is not tried as a separate terminal: `iffy` is one NAME.

    **Ignored** terminals may occur before, between and after all others.

    **Contexts.** Lark reads the possible terminals from its LALR(1) table. Here it is the exact set, for any
    context-free grammar; `Lexer.contexts` adds the further terminals of states in which Lark's table has more. A lexer
    that is not `contextual` tries all terminals everywhere, like Lark's basic lexer. So it may produce a lexeme that no
    rule can take.

    Source: lark/lexer.py, `BasicLexer`, `_create_unless` and `ContextualLexer`.

    Attributes:
        terminals: in the order in which they are tried.
        ignored: the names of ignored terminals.
        indentation: `indent` and `dedent` are not among the terminals, unless they also have a text.
        contexts: a set of marks -> the terminals that are tried, in addition to those that the parser can take, if the
            parser could take exactly these marks. In rules, `Special(mark)` is where its terminal has just been read,
            and may be left out. No text has a mark. A set may be missing, because Lark's table has resolved a conflict
            and an exact parser is in several of its states at once. Then all of the largest sets within it count.
        contextual: whether only terminals that some rule can take there are tried.
    """

    terminals: tuple[Terminal, ...]
    ignored: frozenset[str] = frozenset()
    indentation: Indentation | None = None
    contexts: Mapping[frozenset[str], frozenset[str]] = field(default_factory=dict)
    contextual: bool = True


@dataclass(frozen=True, slots=True)
class Ending:
    """A text of the regular `before`, followed by one of the regular `end`, which is as long as possible.

    `capture`: the name under which the end is captured; empty: none.
    """

    before: Node
    end: Node
    capture: str = ""


@dataclass(frozen=True, slots=True)
class Region:
    """Options for the text of one rule.

    Attributes:
        capture: the name under which the text is captured; empty: none. If there is an `ending`, its end is left out.
        ending: how the text ends, if that matters.
        temperature: the sampler's temperature within the text, instead of the temperature of the request.
        ignored: a parser skips the text, so captures do not include it at their start or end.
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
        read: returns its grammar, which generates something, but not the empty text. Called on any thread.
        content: identifies it: equal only for equal languages.
        least: an upper bound on the bytes of its shortest text.
    """

    read: Callable[[], Grammar]
    content: bytes
    least: int


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
    """Rule name -> the region of its texts."""
    later: Mapping[str, DeferredRule] = field(default_factory=dict)
    """Rules that are compiled when they are first entered. Until then, their nodes are placeholders: any short text."""
    composed: bool = False
    schemas: Mapping[str, Embedded] = field(default_factory=dict)
    """Rule name -> the schema whose JSON it is, for explanations."""


EPSILON = Seq(())
EMPTY = Alt(())
ANY_CHAR = Chars(ALL_CHARS)
