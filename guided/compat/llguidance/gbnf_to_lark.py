"""Translates GBNF grammars (llama.cpp) to Lark. In: a GBNF grammar. Out: a Lark grammar of the same language.

Each rule remains a rule, `root` becomes `start`, and a character class becomes a regular expression. `LLMatcher` does
not need this: it reads `grammar_from("gbnf", text)` as llama.cpp does. Cost: linear in the length of the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from guided.errors import SpecError

__all__ = ["any_to_lark", "gbnf_to_lark", "is_lark_syntax"]

_TOKEN: Final = re.compile(
    r"""
    (?P<space>   [ \t\r\n]+ | \#[^\n]* )
  | (?P<rule>    (?P<defined> [A-Za-z0-9_-]+ ) \s* ::= )
  | (?P<name>    [A-Za-z0-9_-]+ )
  | (?P<string>  " (?: \\. | [^"\\] )* " )
  | (?P<class>   \[ \^? (?: \\. | [^\]\\] )* \] )
  | (?P<any>     \. )
  | (?P<special> < [^<>\s]+ > )
  | (?P<op>      \{ \s*+ \d*+ \s*+ (?: ,\s*+\d*+\s*+ )? \} | [()|*+?] )
    """,
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))|([^\\])", re.DOTALL)
_SHORT_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}


def is_lark_syntax(text: str) -> bool:
    """Whether a grammar is written in Lark, that is, whether no line begins with `name ::=`."""
    return re.search(r"(?m)^[^\S\n]*[\w-]+\s*::=", text) is None


def any_to_lark(text: str) -> str:
    """Convert a grammar in either notation to Lark. Errors: see `gbnf_to_lark`."""
    return text if is_lark_syntax(text) else gbnf_to_lark(text)


def gbnf_to_lark(text: str) -> str:
    """See the module docstring.

    Raises:
        SpecError: a character does not belong to GBNF; the error gives its location.
    """
    names = _LarkNames()
    out = ["%llguidance {}"]
    for token in _split_tokens(text):
        match token.lastgroup:
            case "rule" | "defined":
                out.append(f"\n{names.find(token['defined'])}:")
            case "name":
                out.append(names.find(token[0]))
            case "string":
                out.append(json.dumps("".join(map(chr, _code_points(token[0][1:-1]))), ensure_ascii=False))
            case "class":
                out.append(_translate_class(token[0]))
            case "any":
                out.append("/(?s:.)/")
            case "op" if token[0][0] in "*+?{":
                out[-1] += token[0].replace(" ", "")
            case _:
                out.append(token[0])
    return " ".join(out).replace(" \n", "\n").strip() + "\n"


def _split_tokens(text: str) -> Iterator[re.Match[str]]:
    pos = 0
    while pos < len(text):
        match = _TOKEN.match(text, pos)
        if match is None:
            raise SpecError("unexpected character in GBNF", text=text, span=(pos, pos + 1))
        pos = match.end()
        if match.lastgroup != "space":
            yield match


class _LarkNames:
    """The unique lower-case names of rules in the Lark grammar."""

    def __init__(self) -> None:
        self._names = {"root": "start"}
        self._counts = {"start": 1}  # for each name in use, the number of rules that would have it without a number

    def find(self, name: str) -> str:
        """The name in Lark of a rule in GBNF."""
        if name not in self._names:
            base = name.lower().replace("-", "_")
            base = lark_name = base if base[0].isalpha() else f"r_{base}"
            while lark_name in self._counts:
                self._counts[base] += 1
                lark_name = f"{base}_{self._counts[base]}"
            self._counts[lark_name] = 1
            self._names[name] = lark_name
        return self._names[name]


def _code_points(text: str) -> Iterator[int]:
    """The code points of a literal or class, with escapes decoded."""
    for match in _ESCAPE.finditer(text):
        digits = match[1] or match[2] or match[3]
        yield int(digits, 16) if digits else ord(match[5] or _SHORT_ESCAPES.get(match[4], match[4]))


def _translate_class(text: str) -> str:
    members = text[1:-1].removeprefix("^")
    pieces, codes = list(_ESCAPE.finditer(members)), list(_code_points(members))
    out, index = [], 0
    while index < len(codes):
        if index + 2 < len(codes) and pieces[index + 1][0] == "-":
            out.append(f"{_escape_for_class(codes[index])}-{_escape_for_class(codes[index + 2])}")
            index += 3
        else:
            out.append(_escape_for_class(codes[index]))
            index += 1
    return f"/[{'^' if text[1:2] == '^' else ''}{''.join(out)}]/"


def _escape_for_class(code: int) -> str:
    return chr(code) if code < 128 and chr(code).isalnum() else f"\\U{code:08x}"
