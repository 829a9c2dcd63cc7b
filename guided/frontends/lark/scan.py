"""Tokenizes a Lark grammar, including extensions. In: the grammar. Out: tokens with their locations.

The extensions of llguidance and xgrammar:

    %json {...}    %regex {...}    a JSON value after a directive: one token, with the value's text
    %lark {...}    a grammar in braces: one token, with the text between the braces
    <name>  <[1,5-9]>              a token of the vocabulary
    @name                          a grammar that the caller passes by name
    ::  &  ~                       parameters of rules, and operators on terminals

Cost: linear in the length of the grammar.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from guided.errors import SpecError
from guided.meter import spend

__all__ = ["Token", "find_token", "is_terminal", "scan", "scan_leniently"]

_IDS: Final = re.compile(r"<\[\^?([0-9,-]+)\]>")
_TOKEN: Final = re.compile(
    r"""
    (?P<space>   [ \t\f]+ | \\[ ]*\r?\n )
  | (?P<comment> (?://|\#)[^\n]* )
  | (?P<newline> \r?\n (?: [ \t\f\r\n]+ )? )
  | (?P<string>  " (?: \\. | [^"\\\n] )* " i? )
  | (?P<regex>   / (?!/) (?: \\. | [^/\\\n] )+ / [imslux]* )
  | (?P<special> < \[ [^\]\n]* \] > | < [^<>\s]+ > )
  | (?P<directive> %[a-z_]+ )
  | (?P<reference> @ [\w-]+ )
  | (?P<name>    [A-Za-z_] (?: \w | -(?=\w) )* )
  | (?P<number>  0[xX][0-9a-fA-F]+ | [+-]?\d+ (?: \.(?!\.)\d* )? )
  | (?P<op>      -> | \.\. | :: | [?!:|()\[\]{},*+~&=.] )
    """,
    re.VERBOSE,
)
_SPACES: Final = re.compile(r"\s+")
_NAMED_TOKEN: Final = re.compile(r"(?P<special> < [^<>\s]+ > )", re.VERBOSE)
_UNCLOSED: Final = re.compile(r"""["/][^\n]*|<\[[^\]\n]*""")
_JSON_DIRECTIVES: Final = frozenset({"%json", "%regex", "%llguidance", "%grammar_options"})
_MAX_NESTING: Final = 20


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the grammar, from offset `start` to `end`.

    `kind`: "string", "regex", "special", "directive", "reference", "name", "number", "newline", "end", or the operator
    itself. `value`: the JSON text or the grammar that a directive encloses, if any.
    """

    kind: str
    text: str
    start: int
    end: int
    value: str = ""

    @property
    def span(self) -> tuple[int, int]:
        """The location in the grammar, for error messages."""
        return self.start, self.end


def is_terminal(name: str) -> bool:
    """Whether a name is the name of a terminal rather than a rule."""
    return name.lstrip("_")[:1].isupper()


def scan(text: str, start: int = 0, *, nesting_depth: int = 0) -> list[Token]:
    """The tokens of a grammar, omitting whitespace and comments; the last one has kind "end".

    Args:
        start: the offset at which to begin.
        nesting_depth: how many `%lark {` enclose the grammar. If positive, the tokens end at the closing brace.

    Raises:
        SpecError: a character cannot begin a token, a string or brace is not closed, or a JSON value is malformed.
    """
    tokens: list[Token] = []
    pos, depth = start, 0
    while pos < len(text):
        spend()
        match = _TOKEN.match(text, pos)
        if match is None:
            raise _make_unexpected_error(text, pos)
        kind, pos = str(match.lastgroup), match.end()
        if kind in ("space", "comment"):
            continue
        lexeme = match[0]
        if kind == "directive" and lexeme in _JSON_DIRECTIVES:
            pos, value = _read_json_value(text, lexeme, pos)
            tokens.append(Token(kind, lexeme, match.start(), pos, value))
        elif lexeme == "%lark":
            pos, value = _scan_nested(text, match.start(), pos, nesting_depth)
            tokens.append(Token(kind, lexeme, match.start(), pos, value))
        else:
            tokens.append(Token(lexeme if kind == "op" else kind, lexeme, match.start(), pos))
            depth += (lexeme == "{") - (lexeme == "}")
            if nesting_depth and depth < 0:
                break
    else:
        if nesting_depth:
            raise SpecError("the { after %lark is not closed", text=text, span=(start - 1, start), hint="add }")
    tokens.append(Token("end", "", pos, pos))
    return tokens


def scan_leniently(text: str) -> Iterator[Token]:
    """The tokens of any grammar, omitting whitespace and comments. Characters that cannot begin a token are skipped."""
    pos, unclosed_before = 0, {'"': 0, "/": 0, "<": 0}  # before this offset, nothing that such a character opens closes
    while pos < len(text):
        opening = text[pos]
        is_unclosed = pos < unclosed_before.get(opening, 0)
        match = (_NAMED_TOKEN if is_unclosed else _TOKEN).match(text, pos)
        if opening in unclosed_before and not is_unclosed and (match is None or match[0][:2] == "<["):
            unclosed_before[opening] = _find_stop(text, pos)
        pos = pos + 1 if match is None else match.end()
        if match is not None and match.lastgroup not in ("space", "comment"):
            kind = str(match.lastgroup)
            yield Token(match[0] if kind == "op" else kind, match[0], match.start(), match.end())


def _find_stop(text: str, pos: int) -> int:
    """The offset at which the string, pattern or list of ids that begins here ends without being closed."""
    stop = _UNCLOSED.match(text, pos)
    return pos if stop is None else stop.end()


def _read_json_value(text: str, directive: str, pos: int) -> tuple[int, str]:
    """(the end, the text) of the JSON value after a directive."""
    match = _SPACES.match(text, pos)
    begin = pos if match is None else match.end()
    try:
        _, end = json.JSONDecoder(strict=True).raw_decode(text, begin)
    except json.JSONDecodeError as error:
        error_pos = min(error.pos, max(len(text) - 1, 0))
        message = f"the JSON value after {directive}: {error.msg}"
        raise SpecError(
            message, text=text, span=(error_pos, error_pos + 1), hint=f"write {directive} {{...}}"
        ) from None
    except RecursionError:
        raise SpecError(
            f"the JSON value after {directive} nests too deeply", text=text, span=(begin, begin + 1)
        ) from None
    return end, text[begin:end]


def _scan_nested(text: str, start: int, pos: int, nesting_depth: int) -> tuple[int, str]:
    """(the end, the text) of the grammar in braces after %lark. `start`: the offset of %lark; `pos`: its end."""
    brace = re.compile(r"\s*\{").match(text, pos)
    if brace is None:
        raise SpecError(
            "expected a grammar in braces after %lark", text=text, span=(start, pos), hint="write %lark { start: ... }"
        )
    if nesting_depth >= _MAX_NESTING:
        raise SpecError(
            f"%lark nests deeper than {_MAX_NESTING}", text=text, span=(start, pos), hint="define rules instead"
        )
    end = scan(text, brace.end(), nesting_depth=nesting_depth + 1)[-1].end
    return end, text[brace.end() : end - 1]


def _make_unexpected_error(text: str, pos: int) -> SpecError:
    char = text[pos]
    hint = {
        '"': 'close the string on its line; write a quote inside it as \\"',
        "/": "close the regular expression on its line; write a slash inside it as \\/",
        "'": 'write strings in double quotes: "..."',
        "<": "write a token of the vocabulary as <name> or <[id]>, without spaces",
        "@": "write @name, where name is a key of grammars={name: text}",
    }.get(char, "")
    return SpecError(f"unexpected character {char!r}", text=text, span=(pos, pos + 1), hint=hint)


def find_token(text: str, token: int | str) -> tuple[int, int] | None:
    """The span of the first reference to a token in a grammar: `<think>`, `<|call|>`, `<[128000]>`, `<[1,5-9]>`.

    For errors of the core about a token that the vocabulary lacks, which have no location. The grammar may have any
    syntax. None if it does not contain the token, for example because an imported file does.
    """
    for each in scan_leniently(text):
        if each.kind == "special" and (
            each.text == token or (isinstance(token, int) and _contains_id(each.text, token))
        ):
            return each.span
    pos = text.find(token) if isinstance(token, str) else -1
    return (pos, pos + len(str(token))) if pos >= 0 else None


def _contains_id(lexeme: str, token: int) -> bool:
    match = _IDS.fullmatch(lexeme)
    pieces = [piece.partition("-") for piece in match[1].split(",")] if match is not None else []
    return any(low and int(low) <= token <= int(high or low) for low, _, high in pieces)
