"""Tokenizes a GBNF grammar. In: the text. Out: a list of tokens with their spans; the last one has the kind "end".

A token is a name, a literal, a character class, a token of the model's vocabulary (`<name>`, `<[id]>`, `!<name>`), or
punctuation such as `::=` or `{`. Blanks, line ends and comments separate tokens. `characters.py` reads the contents of
literals and classes later. Cost: one pass.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from guided.errors import BEYOND_LIMITS, SpecError
from guided.meter import spend

__all__ = ["MAX_DIGITS", "Token", "parse_number", "tokenize"]


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        kind: "name", "literal", "class", "vocabulary", "end", or the punctuation itself.
        start, end: its span in the grammar.
        text: its source text.
        begins_line: whether it is the first token on its line.
    """

    kind: str
    start: int
    end: int
    text: str
    begins_line: bool

    @property
    def span(self) -> tuple[int, int]:
        """The span in the grammar."""
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
_UNCLOSED_ERRORS: Final = {
    '"': ("the literal is never closed", 'end it with "; write a quotation mark inside it as \\"'),
    "[": ("the character class is never closed", "end it with ]; write a bracket inside it as \\]"),
    "<": ("the token is never closed", "write <name> or <[id]>"),
    "!": ("! must precede a token", "write !<name> or !<[id]>"),
}
MAX_DIGITS: Final = 40
"""The maximum number of digits of a bound. Bounds with more digits exceed the length of any output."""
_HINTS: Final = {
    "'": 'write literals in double quotes: "text"',
    "/": 'a comment begins with #, and a regular expression is written Regex("...")',
    ";": "a rule ends where the next one begins, without a terminator",
    ":": "define a rule with ::=",
    "%": "directives belong to Lark; GBNF has none",
    ">": "define a rule with ::=",
    "~": "write a repetition as {2,3}",
    "]": 'no character class is open; write "]" to match it literally',
    "\\": "escapes are allowed only in literals and classes",
    "\ufeff": "this is a byte order mark: open the file with encoding='utf-8-sig'",
}


def tokenize(text: str) -> list[Token]:
    """The tokens of a grammar.

    Raises:
        SpecError: a character cannot begin a token, or a literal or class is not closed.
    """
    out: list[Token] = []
    pos, begins_line = 0, True
    while pos < len(text):
        spend()
        if blank := _BLANK.match(text, pos):
            begins_line = begins_line or "\n" in blank[0] or "\r" in blank[0]
            pos = blank.end()
            continue
        match = _TOKEN.match(text, pos)
        if match is None:
            raise _make_unexpected_error(text, pos)
        kind = match.lastgroup or ""
        out.append(Token(match[0] if kind == "mark" else kind, pos, match.end(), match[0], begins_line))
        pos, begins_line = match.end(), False
    out.append(Token("end", pos, pos, "", begins_line))
    return out


def parse_number(digits: str) -> int:
    """The value of decimal digits. Very long numbers become `BEYOND_LIMITS`, because `int` takes quadratic time."""
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= MAX_DIGITS else BEYOND_LIMITS


def _make_unexpected_error(text: str, pos: int) -> SpecError:
    char = text[pos]
    if char in _UNCLOSED_ERRORS:
        message, hint = _UNCLOSED_ERRORS[char]
        return SpecError(message, text=text, span=(pos, pos + 1), hint=hint)
    return SpecError(f"{char!r} is unexpected here", text=text, span=(pos, pos + 1), hint=_HINTS.get(char, ""))
