"""Reads terminals with operators that Lark does not have. In: the tokens of an expression. Out: a regular node.

    LINES: /[a-z \\n]*/ & ~/(?s:.*)\\n\\n(?s:.*)/       `&` intersection, `~` complement: no empty line
    QUOTE: "\\"" %regex {"substring_words": "..."} "\\""

Precedence from lowest to highest: `|`, `&`, concatenation, `?` `*` `+` `{m,n}` `~m..n`, `~`. The complement is taken
within the set of all strings. A regular expression means all strings that it matches as a whole, as in `re.fullmatch`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from guided.errors import SpecError, UnsupportedError
from guided.frontends.common.digits import is_number
from guided.frontends.lark.scan import Token, is_terminal
from guided.frontends.regex import parse_regex
from guided.frontends.regex.algebra import ANY_TEXT, alt, chars, conj, negate, repeat, seq, text
from guided.frontends.regex.derivatives import Terms, TooLarge
from guided.ir.nodes import EPSILON, Automaton, Node
from guided.limits import Limits

from .substrings import read_substrings

__all__ = [
    "MAX_COUNT",
    "Expression",
    "decode_string",
    "determinise",
    "exclude_text",
    "keep_shortest_matches",
    "make_size_error",
    "read_counts",
    "read_range_ends",
]  # fmt: skip

MAX_COUNT: Final = 10_000
_MAX_STATES: Final = 200_000
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SIMPLE_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", '"': '"', "\\": "\\", "/": "/"}


class Expression:
    """Reads the expression of one terminal.

    Args:
        source: the whole grammar, for error messages.
        resolve: returns the node of another terminal, given the token of its name.
    """

    def __init__(self, source: str, tokens: Sequence[Token], resolve: Callable[[Token], Node], limits: Limits) -> None:
        end = tokens[-1].end if tokens else 0
        self.source, self.tokens = source, [*tokens, Token("end", "", end, end)]
        self.resolve, self.limits, self.index = resolve, limits, 0

    def read(self) -> Node:
        """Read all tokens, and return the node of the expression.

        Raises:
            SpecError: the expression is malformed. UnsupportedError: it is not supported. LimitExceeded: it is too
                large.
        """
        node = self._read_union()
        if self._next_token.kind != "end":
            raise self._error_at(f"{self._next_token.text!r} is unexpected here", self._next_token)
        return node

    @property
    def _next_token(self) -> Token:
        return self.tokens[self.index]

    def _take(self, kind: str) -> bool:
        matches = self._next_token.kind == kind
        self.index += matches
        return matches

    def _read_union(self) -> Node:
        branches = [self._read_intersection()]
        while self._take("|"):
            branches.append(self._read_intersection())
        return alt(branches)

    def _read_intersection(self) -> Node:
        node = self._read_sequence()
        while self._take("&"):
            node = conj(node, self._read_sequence())
        return node

    def _read_sequence(self) -> Node:
        items: list[Node] = []
        while self._next_token.kind not in ("|", "&", ")", "]", "end", "->"):
            items.append(self._read_repetition())
        return seq(items)

    def _read_repetition(self) -> Node:
        node = self._read_negation()
        while True:
            if self._take("?"):
                node = repeat(node, 0, 1)
            elif self._take("*"):
                node = repeat(node, 0, None)
            elif self._take("+"):
                node = repeat(node, 1, None)
            elif (counts := read_counts(self.source, self.tokens, self.index)) is not None:
                low, high, self.index = counts
                node = repeat(node, low, high)
            else:
                return node

    def _read_negation(self) -> Node:
        return negate(self._read_negation()) if self._take("~") else self._read_atom()

    def _read_atom(self) -> Node:
        token = self._next_token
        self.index += 1
        match token.kind:
            case "(" | "[":
                close = ")" if token.kind == "(" else "]"
                node = self._read_union()
                if not self._take(close):
                    raise self._error_at(f"{token.kind!r} is not closed", token, f"add {close!r}")
                return node if close == ")" else repeat(node, 0, 1)
            case "string" if self._next_token.kind == "..":
                return self._read_range(token)
            case "string":
                value = decode_string(self.source, token)
                return _make_case_insensitive(value) if token.text.endswith("i") else text(value)
            case "regex":
                return self._read_regex(token)
            case "name" if is_terminal(token.text):
                return self.resolve(token)
            case "name":
                raise self._error_at(
                    f"{token.text} is a rule, but terminals may contain only terminals",
                    token,
                    "write its name in upper case",
                )
            case "directive" if token.text == "%regex":
                try:
                    return read_substrings(token.value, self.limits)
                except SpecError as error:
                    raise self._error_at(error.message, token, error.hint) from None
            case "directive" | "special" | "reference":
                raise self._error_at(
                    f"{token.text} cannot be used in terminals", token, "terminals are regular: move it to a rule"
                )
        raise self._error_at(
            f"{token.text!r} is unexpected here" if token.text else "the expression is incomplete", token
        )

    def _read_range(self, first: Token) -> Node:
        self.index += 1
        last = self._next_token
        self.index += 1
        low, high = read_range_ends(self.source, first, last)
        return chars(((ord(low), ord(high)),))

    def _read_regex(self, token: Token) -> Node:
        body, flags = token.text[1:].rsplit("/", 1)
        try:
            return parse_regex(f"(?{flags}:{body})" if flags else body, limits=self.limits)
        except SpecError as error:
            raise self._error_at(f"in the regular expression: {error.message}", token, error.hint) from None
        except UnsupportedError as error:
            raise UnsupportedError(error.reason, hint=error.hint, text=self.source, span=token.span) from None

    def _error_at(self, message: str, token: Token, hint: str = "") -> SpecError:
        return SpecError(message, text=self.source, span=token.span, hint=hint)


def read_counts(source: str, tokens: Sequence[Token], index: int) -> tuple[int, int | None, int] | None:
    """Read a repetition `{m}`, `{m,}`, `{,n}`, `{m,n}`, `~m` or `~m..n` that begins at a token.

    Returns:
        (minimum, maximum, index of the token after the repetition), or None if there is no repetition.

    Raises:
        SpecError: the counts are not integers of at least 0, in the wrong order, or too large.
    """
    kinds = [token.kind for token in tokens[index : index + 5]]
    is_lark = kinds[:1] == ["~"]
    numbers = [token for token in tokens[index : index + 5] if token.kind == "number"]
    match kinds:
        case ["{", "number", "}", *_] | ["~", "number", "..", "number", *_] | ["~", "number", *_]:
            length = {"{": 3, "~": 4 if kinds[2:4] == ["..", "number"] else 2}[kinds[0]]
            numbers = numbers[: 2 if length == 4 else 1]
            first, last = numbers[0], numbers[-1]
        case ["{", "number", ",", "number", "}"]:
            (first, last), length = numbers[:2], 5
        case ["{", "number", ",", "}", *_]:
            return _parse_count(source, numbers[0], is_lark), None, index + 4
        case ["{", ",", "number", "}", *_]:
            return 0, _parse_count(source, numbers[0], is_lark), index + 4
        case _:
            return None
    lower, upper = _parse_count(source, first, is_lark), _parse_count(source, last, is_lark)
    if upper < lower:
        span = (first.start, last.end)
        raise SpecError(
            f"the upper bound, {upper}, is less than the lower bound, {lower}", text=source, span=span, hint="swap them"
        )
    return lower, upper, index + length


def _parse_count(source: str, token: Token, is_lark: bool) -> int:
    """The value of a count. `is_lark`: the count is in Lark's own notation, which accepts the digits of all scripts."""
    if not (token.text.isdigit() if is_lark else is_number(token.text)):
        raise SpecError(
            "a count must be a number of at least 0",
            text=source,
            span=token.span,
            hint="write, for example, {2}, {2,} or {2,4}",
        )
    count = int(token.text) if len(token.text) < 20 else MAX_COUNT + 1
    if count > MAX_COUNT:
        raise SpecError(f"the count is larger than {MAX_COUNT}", text=source, span=token.span, hint="use * or +")
    return count


def read_range_ends(source: str, first: Token, last: Token) -> tuple[str, str]:
    """The first and last character of a range such as `"a".."z"`. Raises SpecError if it is malformed."""
    ends = []
    for token in (first, last):
        ends.append(decode_string(source, token) if token.kind == "string" else "")
        has_flag = len(ends[-1]) == 1 and token.text.endswith("i")
        if len(ends[-1]) != 1 or has_flag:
            message = "the ends of a range must be strings of one character"
            message = "the ends of a range cannot have the flag i" if has_flag else message
            raise SpecError(message, text=source, span=token.span, hint='write, for example, "a".."z"')
    low, high = ends
    if low > high:
        message = f"the range ends before it begins: {first.text}..{last.text}"
        raise SpecError(message, text=source, span=first.span, hint="swap them")
    return low, high


def decode_string(source: str, token: Token) -> str:
    """The value of a string literal. Decodes the escapes of JSON and Python. A surrogate pair becomes one character."""

    def decode_escape(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code is not None:
            return chr(min(int(code, 16), 0x10FFFF))
        return _SIMPLE_ESCAPES.get(match[4], match[0])

    value = _ESCAPE.sub(decode_escape, token.text.removesuffix("i")[1:-1])
    try:
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        message = f"the string {token.text} contains a lone surrogate, which cannot occur in a text"
        raise SpecError(message, text=source, span=token.span) from None


def _make_case_insensitive(value: str) -> Node:
    return parse_regex(f"(?i:{re.escape(value)})") if value else EPSILON


def determinise(node: Node, name: str, max_states: int = _MAX_STATES) -> Automaton:
    """The automaton of a regular node, computed with at most `max_states` terms.

    Raises:
        UnsupportedError: it needs too many states. The message refers to the node as `name`.
    """
    if isinstance(node, Automaton):
        return node
    terms = Terms(max_states)
    try:
        numbers = {terms.read(node): 0}
        queue = list(numbers)
        states = []
        for term in queue:  # grows during the loop
            edges = []
            for ranges, target in terms.transitions(term):
                if target not in numbers:
                    numbers[target] = len(queue)
                    queue.append(target)
                edges += [(low, high, numbers[target]) for low, high in ranges]
            states.append((terms.nullable[term], tuple(sorted(edges))))
    except TooLarge as error:
        raise make_size_error(name, error) from None
    return Automaton(tuple(states))


def make_size_error(name: str, error: TooLarge) -> UnsupportedError:
    """The error for a node that is too large. The message refers to the node as `name`."""
    message = f"{name} needs more than {error.limit} {error.unit}"
    return UnsupportedError(message, hint="bound its repetitions by smaller counts")


def keep_shortest_matches(node: Node, name: str) -> Automaton:
    """The texts of a node that do not begin with a shorter text of the node: what a lazy match can read.

    Raises:
        UnsupportedError: see `determinise`.
    """
    automaton = determinise(node, name)
    return Automaton(tuple((ends, () if ends else edges) for ends, edges in automaton.states), automaton.start)


def exclude_text(node: Node, inner: Node) -> Node:
    """The texts of a node in which no text of `inner` occurs."""
    return conj(node, negate(seq([ANY_TEXT, inner, ANY_TEXT])))
