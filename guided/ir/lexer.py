"""The lexer of a grammar: how a text is cut into lexemes before rules apply. Frozen descriptions that compute nothing.

A grammar with a lexer denotes the texts that are cut and parsed as Lark's contextual lexer does it: at each position,
only the terminals that some rule can take there are tried, and one of them is chosen without looking at what follows.
In the rules of such a grammar, `Special(name)` is the terminal of that name.

**Choice.** Terminals are tried in the order of `Lexer.terminals`. The first one that matches *some* beginning of the
rest wins, as the first alternative does in `re`, and takes its longest match. Patterns that prefer a shorter match, as
`".*?"`, need nothing else: the longest match among the texts that `re.match` takes as a whole is the one that it takes
(`guided/frontends/regex/leftmost_match.py`).

    terminals: NAME = [a-z]+, NUMBER = [0-9]+, LESS_OR_EQUAL = "<=", LESS = "<"
    text:      count<=10        LESS_OR_EQUAL stands before LESS, so the text is cut into  count  <=  10

**Keywords.** A lexeme that a terminal matched is a keyword of it instead, if the keyword matches all of the lexeme and
can be taken there. A keyword that is `embedded` is not tried as a terminal beside that one: `iffy` is one NAME.

**Ignored** terminals may stand before, between and after all others.

**Indentation.** See `Indentation`.

**Contexts.** Lark reads from its LALR(1) table which terminals can be taken. For any context-free grammar, this is the
exact set, and more in states in which the table has more: `Lexer.contexts`. A lexer that is not `contextual` tries all
terminals everywhere, as Lark's basic lexer does, so a lexeme may be one that no rule can take there.

Source: lark/lexer.py, `BasicLexer`, `_create_unless` and `ContextualLexer`, and lark/indenter.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from guided.ir.nodes import Node

__all__ = ["Indentation", "Keyword", "Lexer", "Terminal"]


@dataclass(frozen=True, slots=True)
class Keyword:
    """The terminal `name`, if the lexeme is in the regular `item`. `embedded`: it is then not tried by itself."""

    name: str
    item: Node
    embedded: bool = True


@dataclass(frozen=True, slots=True)
class Terminal:
    """The strings of the regular `item`, none of them empty, and the keywords among them, in order of preference.

    `origin` is the part of the specification that it stands for, for explanations.
    """

    name: str
    item: Node
    keywords: tuple[Keyword, ...] = ()
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Indentation:
    """The terminals `indent` and `dedent`, which have no text: they come from the width of the lines' beginnings.

    A stack of widths begins with 0. After a lexeme of the terminal `newline`, the width of what follows its last line
    feed counts: 1 for each space, `tab` for each tab, 0 for other characters. A larger width than the top of the stack
    is pushed, and `indent` follows. For a smaller one, widths are popped, with one `dedent` each, until the top is no
    larger; if it is then not equal, the text is refused. At the end of the text, one `dedent` follows for each width
    that is left but the first.

    Between terminals of `opening` and `closing`, lexemes of `newline` are dropped. More closing than opening ones are
    refused, and so are other lexemes of `newline` without a line feed. The lexer tries `newline` everywhere, so that it
    can be dropped, and may shadow other terminals.

    The stack holds at most `most_levels` widths, the first one counted, and none that is larger than `most_width`: what
    is indented further is refused. Python has no more levels either.
    """

    newline: str
    indent: str
    dedent: str
    opening: frozenset[str] = frozenset()
    closing: frozenset[str] = frozenset()
    tab: int = 8
    most_levels: int = 100
    most_width: int = 400


@dataclass(frozen=True, slots=True)
class Lexer:
    """Terminals in the order in which they are tried, the names of those that are ignored, and what lines begin with.

    `indent` and `dedent` of the indentation are not among the terminals, unless they have a text as well.

    `contexts`: a set of marks -> the terminals that are tried where a parser of the grammar could take these marks, and
    no other one, besides those that it can take. In rules, `Special(mark)` stands where its terminal has just been
    read, and may be left out. No text has a mark. Where a set is not there, since Lark's table has resolved a conflict
    and an exact parser stands in several of its states at once, the largest sets within it count, all of them.

    `contextual`: whether only those are tried that some rule can take there, see the head.
    """

    terminals: tuple[Terminal, ...]
    ignored: frozenset[str] = frozenset()
    indentation: Indentation | None = None
    contexts: Mapping[frozenset[str], frozenset[str]] = field(default_factory=dict)
    contextual: bool = True
