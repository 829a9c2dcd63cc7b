"""The lexer of a grammar, which splits a text into lexemes before rules apply. Frozen descriptions that compute
nothing.

A grammar with a lexer denotes the texts that Lark's contextual lexer and its parser accept: at each position, the lexer
tries only the terminals that some rule can take there, and chooses one of them without lookahead. In the rules of such
a grammar, `Special(name)` is the terminal of that name.

**Choice.** Terminals are tried in the order of `Lexer.terminals`. The first one that matches *some* prefix of the rest
wins, like the first alternative in `re`, and takes its longest match. Patterns that prefer a shorter match, such as
`".*?"`, need nothing else: `re.match` takes the longest match among the texts that it takes as a whole
(`guided/frontends/regex/leftmost_match.py`).

    terminals: NAME = [a-z]+, NUMBER = [0-9]+, LESS_OR_EQUAL = "<=", LESS = "<"
    text:      count<=10        LESS_OR_EQUAL precedes LESS, so the text is split into  count  <=  10

**Keywords.** A lexeme of a terminal becomes one of its keywords instead, if the keyword matches the whole lexeme and
can be taken there. An `embedded` keyword is not tried as a separate terminal: `iffy` is one NAME.

**Ignored** terminals may occur before, between and after all others.

**Indentation.** See `Indentation`.

**Contexts.** Lark reads the possible terminals from its LALR(1) table. Here it is the exact set, for any context-free
grammar; `Lexer.contexts` adds the further terminals of states in which Lark's table has more. A lexer that is not
`contextual` tries all terminals everywhere, like Lark's basic lexer. So it may produce a lexeme that no rule can take.

Source: lark/lexer.py, `BasicLexer`, `_create_unless` and `ContextualLexer`, and lark/indenter.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from guided.ir.nodes import Node

__all__ = ["Indentation", "Keyword", "Lexer", "Terminal"]


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
class Indentation:
    """The terminals `indent` and `dedent`, which have no text: the indentation of lines determines them.

    A stack of widths begins with 0. After a lexeme of the terminal `newline`, the text after its last line feed has a
    width: 1 for each space, `tab` for each tab, 0 for other characters. If the width is larger than the top of the
    stack, it is pushed, and `indent` follows. If it is smaller, widths are popped, with one `dedent` each, until the
    top is no larger; if the top is then not equal, the text is refused. At the end of the text, one `dedent` follows
    for each remaining width except the first.

    Between terminals of `opening` and `closing`, lexemes of `newline` are dropped. A text with more closing than
    opening ones is refused, and so are other lexemes of `newline` without a line feed. The lexer tries `newline`
    everywhere, so that it can be dropped; it may shadow other terminals.

    The stack holds at most `most_levels` widths, including the first, and no width above `most_width`. Deeper
    indentation is refused. Python has the same limit on levels.
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
    """Terminals in the order in which they are tried, the names of ignored terminals, and the indentation.

    `indent` and `dedent` of the indentation are not among the terminals, unless they also have a text.

    `contexts`: a set of marks -> the terminals that are tried, in addition to those that the parser can take, if the
    parser could take exactly these marks. In rules, `Special(mark)` is where its terminal has just been read, and may
    be left out. No text has a mark. A set may be missing, because Lark's table has resolved a conflict and an exact
    parser is in several of its states at once. Then all of the largest sets within it count.

    `contextual`: whether only terminals that some rule can take there are tried, see the module's docstring.
    """

    terminals: tuple[Terminal, ...]
    ignored: frozenset[str] = frozenset()
    indentation: Indentation | None = None
    contexts: Mapping[frozenset[str], frozenset[str]] = field(default_factory=dict)
    contextual: bool = True
