"""The tokens of a GBNF text. In: the text. Out: a list of tokens with their locations; the last one is the end.

A token is a name, a literal, a character class, a token of the model's vocabulary (`<name>`, `<[id]>`, `!<name>`), or
punctuation such as `::=` or `{`. Blanks, line ends and comments separate tokens. The content of literals and classes is
read on use (`characters.py`). Cost: one pass.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from guided.errors import BEYOND_LIMITS, SpecError
from guided.meter import spend

__all__ = ["MAX_DIGITS", "Token", "number_of", "tokens_of"]


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        kind: "name", "literal", "class", "vocabulary", "end", or the punctuation itself.
        start, end: its span in the text.
        text: its source text.
        begins_line: whether it is the first on its line.
    """

    kind: str
    start: int
    end: int
    text: str
    begins_line: bool

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
    '"': ("the literal is never closed", 'end it with "; write a quotation mark inside it as \\"'),
    "[": ("the character class is never closed", "end it with ]; write a bracket inside it as \\]"),
    "<": ("the token is never closed", "write <name> or <[id]>"),
    "!": ("! must precede a token", "write !<name> or !<[id]>"),
}
MAX_DIGITS: Final = 40
"""The most digits of a bound. A longer bound exceeds the length of any output."""
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


def tokens_of(text: str) -> list[Token]:
    """The tokens of a grammar.

    Raises:
        SpecError: no token begins with a character, or a literal or class is not closed.
    """
    out: list[Token] = []
    at, begins_line = 0, True
    while at < len(text):
        spend()
        if blank := _BLANK.match(text, at):
            begins_line = begins_line or "\n" in blank[0] or "\r" in blank[0]
            at = blank.end()
            continue
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unexpected_character(text, at)
        kind = match.lastgroup or ""
        out.append(Token(match[0] if kind == "mark" else kind, at, match.end(), match[0], begins_line))
        at, begins_line = match.end(), False
    out.append(Token("end", at, at, "", begins_line))
    return out


def number_of(digits: str) -> int:
    """The value of digits. `BEYOND_LIMITS` for very long numbers, whose conversion would take quadratic time."""
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= MAX_DIGITS else BEYOND_LIMITS


def _unexpected_character(text: str, at: int) -> SpecError:
    char = text[at]
    if char in _UNCLOSED:
        message, hint = _UNCLOSED[char]
        return SpecError(message, text=text, span=(at, at + 1), hint=hint)
    return SpecError(f"{char!r} is unexpected here", text=text, span=(at, at + 1), hint=_HINTS.get(char, ""))
