r"""Rewrites a Lark grammar from xgrammar's dialect to guided's. In: a grammar. Out: the rewritten grammar, and for
each of its characters the place in the source.

    stop="x"             stop_capture="\u0000", suffix="x": enclosing captures leave x out (`grammar_matcher.py`)
    /\u{61}(?<n>\d)$/i   /(?a:a(?P<n>\d))/i: escapes, groups and classes are those of ECMA-262; i folds only ASCII
    /\s/                 a class of all whitespace; but \S inside a class leaves out only ASCII whitespace
    "end"i               /(?ai:end)/
    r[max_tokens=9]: a*  r[max_tokens=9]: (...)*, with the body of the rule a, if the grammar ignores nothing

In addition to the escapes of ECMA-262, `\a` is U+0007 and `\e` is U+001B. A text cannot begin with ignored terminals,
unless the grammar sets `allow_initial_skip`. Lookarounds, `\b` and anchors inside a pattern are left unchanged; guided
enforces or refuses them. Cost: linear in the length of the grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from guided.errors import GuidedError, SpecError
from guided.frontends.lark.dialect.definitions import Definition, Directive, split_statements
from guided.frontends.lark.dialect.expressions import decode_string
from guided.frontends.lark.scan import Token, is_terminal, scan, scan_leniently

__all__ = ["HIDDEN", "RewrittenLark", "check_tokens", "find_named_tokens"]

HIDDEN: Final = "\0"
"""The prefix of the name under which the text of a `stop` is captured."""

_NO_FORCING: Final = re.compile(r'"no_forcing"\s*:\s*true')
_MAX_COPIED_LENGTH: Final = 1_000_000
"""The maximum length of the rule bodies to copy into other bodies, in characters."""
_MIN_COUNTED_LENGTH: Final = 100
"""Shorter tokens count as if they had this length, so at most 10,000 tokens are copied."""
_BOUND_ATTRIBUTES: Final = frozenset(("max_tokens", "max_chars"))
_LAZY_ATTRIBUTES: Final = frozenset(("lazy", "suffix", "stop"))
_CONTROL_ESCAPES: Final = {r"\a": r"\x07", r"\e": r"\x1b"}
_WHITE_SPACE: Final = r"\t-\r " + "\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
"""The whitespace of ECMA-262, for use in a class."""
_CLASS_ESCAPE: Final = re.compile(r"\\[bBdDsSwW]")
_OPTIONS_DIRECTIVE: Final = "\n%grammar_options {}\n"
_PIECE: Final = re.compile(
    r"""\\u\{([0-9A-Fa-f]{1,6})\} | \\u([0-9A-Fa-f]{4}) | \\x([0-9A-Fa-f]{2}) | \\c([A-Za-z])
      | \(\?<(?![=!]) | \\. | \[\^? | .""",
    re.VERBOSE | re.DOTALL,
)


class _CopyBudget:
    """How much more may be copied into the bodies of rules, in a grammar and in the grammars inside it."""

    def __init__(self) -> None:
        self._length = _MAX_COPIED_LENGTH

    def spend(self, length: int) -> bool:
        """Count a token of this length. False if the budget is used up."""
        self._length -= max(length, _MIN_COUNTED_LENGTH)
        return self._length >= 0


class RewrittenLark:
    """See the module docstring.

    Attributes:
        text: the grammar in guided's notation.

    Raises:
        SpecError: a `stop`, a `suffix` or a character class is empty, a parenthesis closes no group, or the grammar has
            `no_forcing`.
    """

    def __init__(self, source: str, budget: _CopyBudget | None = None) -> None:
        self.source = source
        self._budget = budget or _CopyBudget()
        self._tokens: Sequence[Token] = ()
        # start in the output; start and end in the source; whether it is a copy
        self._spans: list[tuple[int, int, int, bool]] = []
        self._output_parts: list[str] = []
        self._length = 0
        self._rules: dict[str, Definition] = {}
        self._bounded_names: set[int] = set()  # the offsets of rule names in the bodies of rules with a bound
        with suppress(SpecError):  # the compiler reports the error
            self._tokens = scan(source)
            self._read_rules(split_statements(source, self._tokens))
        self._token_indices = {token.start: index for index, token in enumerate(self._tokens)}
        self._attribute_names = _find_attribute_names(self._tokens)
        pos = 0
        for index, token in enumerate(self._tokens):
            text = self._rewrite_token(index, token)
            if text is not None:
                self._append(source[pos : token.start], pos, token.start, is_copy=True)
                self._append(text, token.start, token.end)
                pos = token.end
        self._append(source[pos:], pos, len(source), is_copy=True)
        self._append(_OPTIONS_DIRECTIVE, len(source), len(source))
        self.text = "".join(self._output_parts)

    def locate(self, error: GuidedError) -> None:
        """Change the location of an error in the rewritten text to the corresponding location in the source."""
        if error.text == self.text:
            start, end = error.span
            first_span, last_span = self._source_span(start), self._source_span(max(start, end - 1))
            error.with_location(self.source, (first_span[0], max(last_span[1], first_span[0])), error.file)

    def _append(self, text: str, start: int, end: int, *, is_copy: bool = False) -> None:
        if text:
            self._spans.append((self._length, start, end, is_copy))
            self._output_parts.append(text)
            self._length += len(text)

    def _source_span(self, pos: int) -> tuple[int, int]:
        """The source span of a character of the rewritten text. Inside a replacement, it is the span of the replaced
        token."""
        span_start, start, end, is_copy = next(piece for piece in reversed(self._spans) if piece[0] <= pos)
        return (start + pos - span_start, start + pos - span_start + 1) if is_copy else (start, end)

    # --- tokens

    def _rewrite_token(self, index: int, token: Token) -> str | None:
        """The replacement of a token; None if it is left unchanged."""
        kind_before, kind_after = self._kind_at(index - 1), self._kind_at(index + 1)
        if token.kind == "regex":
            return self._rewrite_regex(token)
        if token.kind == "string" and token.text.endswith("i") and ".." not in (kind_before, kind_after):
            value = decode_string(self.source, token)
            return f"/(?ai:{_escape(value)})/" if value and value.isascii() else None
        if token.text in ("%grammar_options", "%llguidance") and _NO_FORCING.search(token.value):
            hint = "remove it: tokens are forced only if your program calls find_jump_forward_string"
            raise SpecError("no_forcing has no effect", text=self.source, span=token.span, hint=hint)
        if token.start in self._bounded_names:
            return self._copy_body(token)
        if token.text == "%lark":
            return f"%lark {{{RewrittenLark(token.value, self._budget).text}}}"
        if token.text in ("stop", "suffix") and token.kind == "name" and kind_after == "=":
            return self._rewrite_stop(index, token)
        if token.kind == "string" and kind_before == "=" and self._tokens[index - 2].text == "stop_capture":
            names = self._attribute_names[index]
            return f'"\\u0000{token.text[1:]}' if "stop" in names and "suffix" not in names else None
        return None

    def _kind_at(self, index: int) -> str:
        return self._tokens[index].kind if 0 <= index < len(self._tokens) else ""

    def _rewrite_stop(self, index: int, token: Token) -> str | None:
        names = self._attribute_names[index]
        if not names:  # it is not an attribute; the compiler reports the error
            return None
        value = self._tokens[index + 2]
        if value.text in ('""', '""i'):
            message = f"the text of {token.text} is empty, so the rule would be empty, too"
            raise SpecError(message, text=self.source, span=value.span, hint=f"remove {token.text}")
        if token.text == "suffix" or "suffix" in names:
            return None
        return "suffix" if "stop_capture" in names else 'stop_capture="\\u0000", suffix'

    # --- rules with a bound

    def _read_rules(self, statements: Sequence[Definition | Directive]) -> None:
        self._rules = {statement.name.text: statement for statement in statements if isinstance(statement, Definition)}
        if any(isinstance(statement, Directive) and statement.token.text == "%ignore" for statement in statements):
            return
        for rule in self._rules.values():
            if rule.attributes.keys() & _BOUND_ATTRIBUTES and not rule.attributes.keys() & _LAZY_ATTRIBUTES:
                self._bounded_names |= {token.start for token in rule.body if token.kind == "name"}

    def _copy_body(self, name: Token) -> str | None:
        """Copy the body of a rule, in parentheses, with the bodies of the rules in it. None if one of these
        rules is missing or recursive or cannot be copied (`_can_be_copied`), or if the copies are too long. The
        compiler then reports the rule."""
        out: list[str] = []
        open_rules: dict[str, Iterator[Token]] = {"": iter((name,))}  # the remaining tokens of each open body
        closing_texts = {"": ""}
        while open_rules:
            rule_name = next(reversed(open_rules))
            token = next(open_rules[rule_name], None)
            if token is None:
                del open_rules[rule_name]
                out.append(closing_texts[rule_name])
            elif not self._budget.spend(token.end - token.start):
                return None
            elif token is name or (token.kind == "name" and not is_terminal(token.text)):
                rule = self._rules.get(token.text)
                if rule is None or token.text in open_rules or not _can_be_copied(rule):
                    return None
                is_name = len(rule.body) == 1 and rule.body[0].kind == "name"
                out.append("" if is_name else "(")
                open_rules[token.text], closing_texts[token.text] = iter(rule.body), "" if is_name else ")"
            else:
                text = self._rewrite_token(self._token_indices[token.start], token)
                out.append(self.source[token.start : token.end] if text is None else text)
        return " ".join(filter(None, out))

    # --- patterns

    def _rewrite_regex(self, token: Token) -> str:
        end = token.text.rindex("/")
        pattern, flags = token.text[1:end], token.text[end + 1 :]
        if pattern.startswith("(?i)"):
            pattern, flags = pattern[4:], "i" + flags
        out, depth, in_class, group = list[str](), 0, False, ""
        for match in _PIECE.finditer(pattern):
            piece, code = match[0], match[1] or match[2] or match[3]
            if code is not None and int(code, 16) <= 0x10FFFF:
                piece = _escape(chr(int(code, 16)))
            elif match[4] is not None:
                piece = _escape(chr(ord(match[4]) % 32))
            elif piece in (r"\s", r"\S") and not (in_class and piece == r"\S"):
                piece = _WHITE_SPACE if in_class else f"[{'^' * (piece[1] == 'S')}{_WHITE_SPACE}]"
            elif in_class:
                in_class = piece != "]"
                piece = "\\" + piece if piece[0] in "[&|~" else piece
            elif piece in ("[", "[^"):
                in_class = True
                if pattern.startswith("]", match.end()):
                    hint = r"write \] for a bracket inside it, or . with the flag s for any character"
                    raise SpecError("the character class is empty", text=self.source, span=token.span, hint=hint)
            elif depth == 0 and _is_redundant_anchor(piece, out, pattern[match.end() : match.end() + 1]):
                continue
            else:
                depth += (piece[0] == "(") - (piece == ")")
                if depth < 0 and "x" not in flags:  # in a verbose pattern, the parenthesis may be in a comment
                    hint = r"write \) for a parenthesis"
                    raise SpecError("unopened group", text=self.source, span=token.span, hint=hint)
                # Without a group, a top-level `|` would also divide what stands before and after the pattern.
                group = "?:" if piece == "|" and depth == 0 else group
                piece = "(?P<" if piece == "(?<" else piece
            out.append(_CONTROL_ESCAPES.get(piece, piece))
        pattern_text = "".join(out)
        group = "?a:" if "i" in flags or _CLASS_ESCAPE.search(pattern_text) else group
        return f"/({group}{pattern_text})/{flags}" if group else f"/{pattern_text}/{flags}"


def _is_redundant_anchor(piece: str, written_pieces: Sequence[str], next_char: str) -> bool:
    """Whether a piece is an anchor at the start or end of a top-level alternative. `written_pieces`: the pieces before
    it; `next_char`: the character after it, or "" at the end of the pattern."""
    return (piece == "^" and (not written_pieces or written_pieces[-1] == "|")) or (
        piece == "$" and next_char in ("", "|")
    )


def _can_be_copied(rule: Definition) -> bool:
    """Whether a rule means the same as its body: it has no attributes, parameters, suffix or aliases, and of the
    modifiers at most `?` and `!`."""
    return not (
        is_terminal(rule.name.text)
        or rule.suffix
        or rule.attributes
        or rule.is_parametric
        or any(token.kind == "->" for token in rule.body)
    ) and {each.kind for each in rule.modifiers} <= {"?", "!"}


def _find_attribute_names(tokens: Sequence[Token]) -> list[frozenset[str]]:
    """For each token, the names in the brackets around it; empty if there are none."""
    names, begin = [frozenset[str]()] * len(tokens), -1
    for index, token in enumerate(tokens):
        if token.kind == "[":
            begin = index
        elif token.kind in ("]", "end") and begin >= 0:
            bracketed_names = frozenset(each.text for each in tokens[begin:index] if each.kind == "name")
            names[begin:index] = [bracketed_names] * (index - begin)
            begin = -1
    return names


def _escape(text: str) -> str:
    """A pattern on one line, for use between slashes, that matches only this text."""
    return "".join(
        char if char.isalnum() or char > "\x7f" else f"\\{char}" if char.isprintable() else f"\\x{ord(char):02x}"
        for char in text
    )


def find_named_tokens(source: str) -> Iterator[Token]:
    """Find the names of tokens, such as `<|end|>`, in a Lark grammar."""
    return (token for token in scan_leniently(source) if token.kind == "special" and not token.text.startswith("<["))


def check_tokens(source: str, ids_of: Callable[[str], Sequence[int]]) -> None:
    """Raise SpecError if a Lark grammar names a token that the vocabulary lacks."""
    for token in find_named_tokens(source):
        if not ids_of(token.text):
            message = f"no token of the vocabulary is spelled {token.text}"
            raise SpecError(message, text=source, span=token.span, hint="for literal text, use quotes")
