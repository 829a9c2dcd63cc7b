"""Writes strings and patterns so that Lark reads them with their meaning in a grammar with extensions."""

from __future__ import annotations

import re
from typing import Final

from guided.frontends.lark.scan import Token

from .expressions import decode_string

__all__ = ["JSON_ESCAPES", "format_string", "group_pattern", "keep_escapes"]

JSON_ESCAPES: Final = re.compile(r"\\(?:[bf/]|u[dD][89abAB])")
"""Escapes in strings that Lark does not know."""
_ESCAPES: Final = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_METACHARACTERS: Final = frozenset(map(ord, r"\.^$*+?{}[]|()-&~# /"))


def format_string(source: str, token: Token) -> str:
    """A string literal that Lark can read. The empty string becomes an empty group."""
    if token.text in ('""', '""i'):
        return "()"
    if not JSON_ESCAPES.search(token.text):
        return token.text
    value = decode_string(source, token).replace("\\", "\\\\").replace('"', '\\"')
    value = re.sub(r"[\x00-\x1f]", lambda match: f"\\x{ord(match[0]):02x}", value)
    return f'"{value}"' + "i" * token.text.endswith("i")


def keep_escapes(text: str) -> str:
    r"""A pattern in which the metacharacters that are written as `\xhh`, `\uhhhh` or `\Uhhhhhhhh` are escaped by a
    backslash. Lark evaluates such escapes before `re` reads the pattern, so `\x2b` would repeat the part before it. For
    llguidance, it is a plus sign."""

    def rewrite(match: re.Match[str]) -> str:
        digits = match[0][2:]
        if not digits or int(digits, 16) not in _METACHARACTERS:
            return match[0]
        return "\\" + chr(int(digits, 16))

    return _ESCAPES.sub(rewrite, text)


def group_pattern(text: str) -> str:
    """A pattern with alternatives as a group. Lark joins the patterns of a terminal as texts, so that /x/ /ab|c/ would
    become /xab|c/. llguidance joins what they match."""
    end = text.rindex("/")
    if "|" not in text or "x" in text[end:] or re.match(r"/\(\?[a-zA-Z]+\)", text):
        return text
    return f"/(?:{text[1:end]}){text[end:]}"
