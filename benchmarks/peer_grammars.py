"""Translates a Lark grammar for the other libraries: the same rules and terminals, in xgrammar's EBNF.

In: a text of rules, terminals and `%ignore`, without imports, templates and priorities. llguidance reads such a text
directly. Out: xgrammar's EBNF. It has no terminals, so ignored text follows each terminal as a rule, and a keyword
matches any occurrence of its letters. So xgrammar's language is larger: it reads `intx` as `int x`. A text of the
grammar with a lexer belongs to all three languages.
"""

from __future__ import annotations

import json
import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from typing import Any, Final

__all__ = ["to_ebnf"]

_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"i?|/(?:\\.|[^/\\])+/[a-z]*|//[^\n]*|[\w%]+|\n(?!\s*\|)|\s+|.')


def to_ebnf(lark: str) -> str:
    """See the head."""
    definitions: dict[str, list[str]] = {}
    ignored: list[list[str]] = []
    for line in _lines(lark):
        if line[0] == "%ignore":
            ignored.append(line[1:])
        else:
            name, body = line[line[0] in "?!"], line[line.index(":") + 1 :]
            definitions[name] = body
    out = [f"root ::= gap {_rule('start')}"]
    for name, body in definitions.items():
        if name.isupper():
            out.append(f"{_rule(name)} ::= ({_body(body, '')}) gap")
        else:
            out.append(f"{_rule(name)} ::= {_body(body, ' gap')}")
    gaps = " | ".join(_body([re.sub(r"\]\+/$", "]/", token) for token in body], "") for body in ignored)  # [ ]+ is [ ]*
    out.append(f"gap ::= ({gaps})*" if gaps else 'gap ::= ""')
    return "\n".join(out)


def _lines(text: str) -> list[list[str]]:
    """The definitions, each as a list of tokens."""
    lines: list[list[str]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "\n":
            lines.append([])
        elif not token.isspace() and (not token.startswith("//") or token.startswith("///")):
            lines[-1].append(token)
    return [line for line in lines if line]


def _rule(name: str) -> str:
    return f"r_{name}"


def _body(tokens: list[str], gap: str) -> str:
    parts = []
    for token in tokens:
        if token.startswith('"'):
            parts.append(f"({_string(token)}{gap})")
        elif token.startswith("/") and len(token) > 1:
            parts.append(f"({_pattern(parser.parse(token[1 : token.rindex('/')]))}{gap})")
        elif token[0].isalpha() or token[0] == "_":
            parts.append(_rule(token))
        else:
            parts.append({"[": "(", "]": ")?"}.get(token, token))
    return " ".join(parts).replace(" *", "*").replace(" ?", "?").replace(" +", "+")


def _string(token: str) -> str:
    text = json.loads(token.removesuffix("i"))
    if not token.endswith("i"):
        return json.dumps(text)
    return " ".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else json.dumps(c) for c in text)


def _pattern(pattern: Any) -> str:
    return " ".join(map(_item, pattern)) or '""'


def _item(item: Any) -> str:
    kind, value = item
    match kind:
        case sre.LITERAL:
            return f"[{_char(value)}]"
        case sre.NOT_LITERAL:
            return f"[^{_char(value)}]"
        case sre.ANY:
            return r"[^\n]"
        case sre.IN:
            return f"[{''.join(map(_member, value))}]"
        case sre.BRANCH:
            return f"({' | '.join(map(_pattern, value[1]))})"
        case sre.SUBPATTERN:
            return f"({_pattern(value[3])})"
        case sre.MAX_REPEAT:
            min_count, max_count, inner = value
            often = {(0, sre.MAXREPEAT): "*", (1, sre.MAXREPEAT): "+", (0, 1): "?"}
            bounds = f"{{{min_count},{'' if max_count == sre.MAXREPEAT else max_count}}}"
            return f"({_pattern(inner)}){often.get((min_count, max_count), bounds)}"
    raise ValueError(f"not known here: {item}")


def _member(member: Any) -> str:
    kind, value = member
    if kind is sre.NEGATE:
        return "^"
    return f"{_char(value[0])}-{_char(value[1])}" if kind is sre.RANGE else _char(value)


def _char(code: int) -> str:
    char = chr(code)
    return char if char.isalnum() or char in " _" else f"\\x{code:02x}"
