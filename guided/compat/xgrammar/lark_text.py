r"""Rewrites a Lark text from xgrammar's dialect to guided's. In: a text. Out: the rewritten text, and its places.

    stop="x"             suffix="x", with a mark: its text belongs to no capture around it (`captures.py`)
    /\u{61}(?<n>\d)$/i   /(?a:a(?P<n>\d))/i: escapes, groups and classes are those of ECMA-262, i folds only ASCII
    "end"i               /(?ai:end)/
    r[max_tokens=9]: a*  r[max_tokens=9]: (...)*, with the body of the rule a, if nothing is ignored

Ignored terminals do not come first, unless the text allows it. Lookarounds, `\b` and anchors inside a pattern are not
changed; guided enforces or refuses them. Cost: linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from guided.errors import GuidedError, SpecError
from guided.frontends.lark.dialect.definitions import Definition, Directive, statements
from guided.frontends.lark.dialect.expressions import string_value
from guided.frontends.lark.scan import Token, is_terminal, scan, words

__all__ = ["HIDDEN", "LarkText", "check_tokens", "named_tokens"]

HIDDEN: Final = "\0"
"""The prefix of the name under which the text of a `stop` is captured."""

_NOT_FORCED: Final = re.compile(r'"no_forcing"\s*:\s*true')
_MOST_COPIED: Final = 10_000
"""The most tokens of rule bodies that are copied into other bodies."""
_BOUNDS: Final = frozenset(("max_tokens", "max_chars"))
_LAZY: Final = frozenset(("lazy", "suffix", "stop"))
_CONTROLS: Final = {r"\a": r"\x07", r"\e": r"\x1b"}
_CLASSES: Final = re.compile(r"\\[bBdDsSwW]")
_OPTIONS: Final = "\n%grammar_options {}\n"
_PIECE: Final = re.compile(
    r"""\\u\{([0-9A-Fa-f]{1,6})\} | \\u([0-9A-Fa-f]{4}) | \\x([0-9A-Fa-f]{2}) | \\c([A-Za-z])
      | \(\?<(?![=!]) | \\. | \[\^? | .""",
    re.VERBOSE | re.DOTALL,
)


class LarkText:
    """See the module docstring.

    Attributes:
        text: the text in guided's notation.

    Raises:
        SpecError: a marker or a class of characters is empty; or the text has `no_forcing`.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._tokens: Sequence[Token] = ()
        self._pieces: list[tuple[int, int, int, bool]] = []  # its start; its place in the source; whether it is a copy
        self._out: list[str] = []
        self._length = 0
        self._rules: dict[str, Definition] = {}
        self._copied = 0
        self._bounded: set[int] = set()  # the starts of names in bodies of rules with a bound
        with suppress(SpecError):  # the compiler reports the error
            self._tokens = scan(source)
            self._read_rules(statements(source, self._tokens))
        self._numbers = {token.start: number for number, token in enumerate(self._tokens)}
        at = 0
        for number, token in enumerate(self._tokens):
            written = self._rewrite_token(number, token)
            if written is not None:
                self._put(source[at : token.start], at, token.start, is_copy=True)
                self._put(written, token.start, token.end)
                at = token.end
        self._put(source[at:], at, len(source), is_copy=True)
        self._put(_OPTIONS, len(source), len(source))
        self.text = "".join(self._out)

    def locate(self, error: GuidedError) -> None:
        """Move an error in the text to the corresponding place in the source."""
        if error.text == self.text:
            start, end = error.span
            first, last = self._place(start), self._place(max(start, end - 1))
            error.located(self.source, (first[0], max(last[1], first[0])), error.file)

    def _put(self, written: str, start: int, end: int, *, is_copy: bool = False) -> None:
        if written:
            self._pieces.append((self._length, start, end, is_copy))
            self._out.append(written)
            self._length += len(written)

    def _place(self, at: int) -> tuple[int, int]:
        """The span in the source of a character of the text, or of the piece that was rewritten to it."""
        begin, start, end, is_copy = next(piece for piece in reversed(self._pieces) if piece[0] <= at)
        return (start + at - begin, start + at - begin + 1) if is_copy else (start, end)

    # --- tokens

    def _rewrite_token(self, number: int, token: Token) -> str | None:
        """The replacement of a token; None: it is not changed."""
        before, after = self._kind(number - 1), self._kind(number + 1)
        if token.kind == "regex":
            return self._regex(token)
        if token.kind == "string" and token.text.endswith("i") and ".." not in (before, after):
            value = string_value(self.source, token)
            return f"/(?ai:{_escaped(value)})/" if value and value.isascii() else None
        if token.text in ("%grammar_options", "%llguidance") and _NOT_FORCED.search(token.value):
            hint = "tokens are forced only if a program calls find_jump_forward_string"
            raise SpecError("no_forcing has no effect", text=self.source, span=token.span, hint=hint)
        if token.start in self._bounded:
            return self._body_of(token, ())
        if token.text == "%lark":
            return f"%lark {{{LarkText(token.value).text}}}"
        if token.text in ("stop", "suffix") and token.kind == "name" and after == "=":
            return self._marker(number, token)
        if token.kind == "string" and before == "=" and self._tokens[number - 2].text == "stop_capture":
            names = self._attributes(number)
            return f'"\\u0000{token.text[1:]}' if "stop" in names and "suffix" not in names else None
        return None

    def _kind(self, number: int) -> str:
        return self._tokens[number].kind if 0 <= number < len(self._tokens) else ""

    def _marker(self, number: int, token: Token) -> str | None:
        value = self._tokens[number + 2]
        if value.text in ('""', '""i'):
            message = f"the text of {token.text} is empty, so the rule would be empty, too"
            raise SpecError(message, text=self.source, span=value.span, hint="leave it out")
        names = self._attributes(number)
        if token.text == "suffix" or "suffix" in names:
            return None
        return "suffix" if "stop_capture" in names else 'stop_capture="\\u0000", suffix'

    def _attributes(self, number: int) -> set[str]:
        """The names between the brackets around a token."""
        first = last = number
        while first > 0 and self._tokens[first].kind != "[":
            first -= 1
        while self._kind(last) not in ("]", "end"):
            last += 1
        inside = self._tokens[first:last]
        return {each.text for each in inside if each.kind == "name"}

    # --- rules with a bound

    def _read_rules(self, lines: Sequence[Definition | Directive]) -> None:
        self._rules = {line.name.text: line for line in lines if isinstance(line, Definition)}
        if any(isinstance(line, Directive) and line.token.text == "%ignore" for line in lines):
            return
        for rule in self._rules.values():
            if rule.attributes.keys() & _BOUNDS and not rule.attributes.keys() & _LAZY:
                self._bounded |= {token.start for token in rule.body if token.kind == "name"}

    def _body_of(self, name: Token, around: tuple[str, ...]) -> str | None:
        """The body of a rule in parentheses; None if a terminal cannot contain it, which the compiler reports."""
        rule = self._rules.get(name.text)
        if rule is None or name.text in around or is_terminal(name.text):
            return None
        if rule.after or rule.attributes or rule.parametric or not {each.kind for each in rule.before} <= {"?", "!"}:
            return None
        self._copied += len(rule.body)
        if self._copied > _MOST_COPIED or any(token.kind == "->" for token in rule.body):
            return None
        out: list[str] = []
        for token in rule.body:
            if token.kind == "name" and not is_terminal(token.text):
                written = self._body_of(token, (*around, name.text))
                if written is None:
                    return None
            else:
                written = self._rewrite_token(self._numbers[token.start], token)
            out.append(self.source[token.start : token.end] if written is None else written)
        return f"({' '.join(out)})"

    # --- patterns

    def _regex(self, token: Token) -> str:
        end = token.text.rindex("/")
        pattern, flags = token.text[1:end], token.text[end + 1 :]
        if pattern.startswith("(?i)"):
            pattern, flags = pattern[4:], "i" + flags
        out, depth, in_class, group = list[str](), 0, False, ""
        for found in _PIECE.finditer(pattern):
            piece, code = found[0], found[1] or found[2] or found[3]
            if code is not None and int(code, 16) <= 0x10FFFF:
                piece = _escaped(chr(int(code, 16)))
            elif found[4] is not None:
                piece = _escaped(chr(ord(found[4]) % 32))
            elif in_class:
                in_class = piece != "]"
                piece = "\\" + piece if piece[0] in "[&|~" else piece
            elif piece in ("[", "[^"):
                in_class = True
                if pattern.startswith("]", found.end()):
                    hint = r"write \] for a bracket in it, or . with the flag s for any character"
                    raise SpecError("the class of characters is empty", text=self.source, span=token.span, hint=hint)
            elif depth == 0 and _says_nothing(piece, out, pattern[found.end() :]):
                continue
            else:
                depth += (piece[0] == "(") - (piece == ")")
                group = "?:" if piece == "|" and depth == 0 else group  # keep its neighbors in a terminal outside
                piece = "(?P<" if piece == "(?<" else piece
            out.append(_CONTROLS.get(piece, piece))
        written = "".join(out)
        group = "?a:" if "i" in flags or _CLASSES.search(written) else group
        return f"/({group}{written})/{flags}" if group else f"/{written}/{flags}"


def _says_nothing(piece: str, before: Sequence[str], after: str) -> bool:
    """Whether it is an anchor at the beginning or end of a top-level alternative of the pattern."""
    return (piece == "^" and (not before or before[-1] == "|")) or (piece == "$" and after[:1] in ("", "|"))


def _escaped(text: str) -> str:
    """A pattern that matches only this text, on one line, that can be written between slashes."""
    return "".join(
        char if char.isalnum() or char > "\x7f" else f"\\{char}" if char.isprintable() else f"\\x{ord(char):02x}"
        for char in text
    )


def named_tokens(source: str) -> Iterator[Token]:
    """The tokens of the vocabulary that a Lark text names."""
    return (token for token in words(source) if token.kind == "special" and not token.text.startswith("<["))


def check_tokens(source: str, ids_of: Callable[[str], Sequence[int]]) -> None:
    """Raises SpecError if a Lark text names a token that does not exist."""
    for token in named_tokens(source):
        if not ids_of(token.text):
            message = f"no token of the vocabulary is spelled {token.text}"
            raise SpecError(message, text=source, span=token.span, hint="write a text in quotes")
