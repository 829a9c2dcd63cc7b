"""The tokens of a GBNF text. In: the text. Out: a list of tokens with their locations; the last one is the end.

A token is a name, a literal, a character class, a token of the model's vocabulary (`<name>`, `<[id]>`, `!<name>`), or
punctuation such as `::=` or `{`. Blanks, line ends and comments separate them. The content of literals and classes is
read on use (`characters.py`). Cost: one pass.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from guided.errors import BEYOND_LIMITS, SpecError
from guided.meter import spend

__all__ = ["MOST_DIGITS", "Token", "number_of", "tokens_of"]


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        kind: "name", "literal", "class", "vocabulary", "end", or the punctuation itself.
        start, end: its span in the text.
        text: its source text.
        first: whether it is the first on its line.
    """

    kind: str
    start: int
    end: int
    text: str
    first: bool

    @property
    def span(self) -> tuple[int, int]:
        """The span in the text."""
        return self.start, self.end


_BLANK: Final = re.compile(r"[ \t\r\n]+|#[^\r\n]*")
_TOKEN: Final = re.compile(
    r"""(?P<name>[A-Za-z0-9_.-]+)
    | (?P<literal>"(?:[^"\\]|\\.)*")
    | (?P<class>\[(?:[^\]\\]|\\.)*\])
    | (?P<vocabulary>!?<[^>\x00]*>)
    | (?P<mark>::=|\(=|[(){}|,*+?=])""",
    re.DOTALL | re.VERBOSE,
)
_UNCLOSED: Final = {
    '"': ("the literal is never closed", 'end it with "; inside of it a quotation mark is \\"'),
    "[": ("the character class is never closed", "end it with ]; inside of it a bracket is \\]"),
    "<": ("the token is never closed", "write <name> or <[id]>"),
    "!": ("! stands before a token", "write !<name> or !<[id]>"),
}
MOST_DIGITS: Final = 40
_HINTS: Final = {
    "'": 'literals stand in double quotes, as "text"',
    "/": 'a comment begins with #, and a regular expression is written Regex("...")',
    ";": "a rule ends where the next one begins, without a mark",
    ":": "a rule is defined with ::=",
    "%": "directives are of Lark; GBNF has none",
    ">": "a rule is defined with ::=",
    "~": "a repetition is written {2,3}",
    "]": 'the character class is not open; as a literal it is "]"',
    "\\": "escapes stand inside of literals and classes",
    "\ufeff": "this is a byte order mark: open the file with encoding='utf-8-sig'",
}


def tokens_of(text: str) -> list[Token]:
    """The tokens of a grammar.

    Raises:
        SpecError: a character that begins no token, or a literal or class that is not closed.
    """
    out: list[Token] = []
    at, first = 0, True
    while at < len(text):
        spend()
        if blank := _BLANK.match(text, at):
            first = first or "\n" in blank[0] or "\r" in blank[0]
            at = blank.end()
            continue
        found = _TOKEN.match(text, at)
        if found is None:
            raise _unknown(text, at)
        kind = found.lastgroup or ""
        out.append(Token(found[0] if kind == "mark" else kind, at, found.end(), found[0], first))
        at, first = found.end(), False
    out.append(Token("end", at, at, "", first))
    return out


def number_of(digits: str) -> int:
    """The value of digits. `BEYOND_LIMITS` for very long numbers, whose conversion would take quadratic time."""
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= MOST_DIGITS else BEYOND_LIMITS


def _unknown(text: str, at: int) -> SpecError:
    char = text[at]
    if char in _UNCLOSED:
        message, hint = _UNCLOSED[char]
        return SpecError(message, text=text, span=(at, at + 1), hint=hint)
    return SpecError(f"{char!r} begins nothing in a grammar", text=text, span=(at, at + 1), hint=_HINTS.get(char, ""))
