"""Reads terminals with operators that Lark does not have. In: the tokens of an expression. Out: a regular node.

    LINES: /[a-z \\n]*/ & ~/(?s:.*)\\n\\n(?s:.*)/       `&` intersection, `~` complement: no empty line
    QUOTE: "\\"" %regex {"substring_words": "..."} "\\""

Precedence from lowest to highest: `|`, `&`, concatenation, `?` `*` `+` `{m,n}` `~m..n`, `~`. The complement is relative
to all texts. A regular expression means all texts that it matches as a whole, as in `re.fullmatch`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from guided.errors import SpecError, UnsupportedError
from guided.frontends.lark.scan import Token, is_terminal
from guided.frontends.regex import parse_regex
from guided.frontends.regex.algebra import ANY_TEXT, alt, chars, conj, negate, repeat, seq, text
from guided.frontends.regex.derivatives import Terms, TooLarge
from guided.ir.nodes import EPSILON, Automaton, Node
from guided.limits import Limits

from .substrings import substrings

__all__ = [
    "MAX_COUNT",
    "Expression",
    "determinise",
    "range_ends",
    "read_counts",
    "shortest_matches",
    "string_value",
    "without_text",
]  # fmt: skip

MAX_COUNT: Final = 10_000
_MAX_STATES: Final = 200_000
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", '"': '"', "\\": "\\", "/": "/"}


class Expression:
    """Reads the expression of one terminal.

    Args:
        source: the whole text, for errors.
        resolve: returns the node of another terminal, for the token with its name.
    """

    def __init__(self, source: str, tokens: Sequence[Token], resolve: Callable[[Token], Node], limits: Limits) -> None:
        end = tokens[-1].end if tokens else 0
        self.source, self.tokens = source, [*tokens, Token("end", "", end, end)]
        self.resolve, self.limits, self.at = resolve, limits, 0

    def read(self) -> Node:
        """The node of all tokens.

        Raises:
            SpecError, UnsupportedError, LimitExceeded: the expression is invalid.
        """
        node = self._union()
        if self._next_token.kind != "end":
            raise self._error_at(f"{self._next_token.text!r} is unexpected here", self._next_token)
        return node

    @property
    def _next_token(self) -> Token:
        return self.tokens[self.at]

    def _take(self, kind: str) -> bool:
        matches = self._next_token.kind == kind
        self.at += matches
        return matches

    def _union(self) -> Node:
        branches = [self._intersection()]
        while self._take("|"):
            branches.append(self._intersection())
        return alt(branches)

    def _intersection(self) -> Node:
        node = self._sequence()
        while self._take("&"):
            node = conj(node, self._sequence())
        return node

    def _sequence(self) -> Node:
        items: list[Node] = []
        while self._next_token.kind not in ("|", "&", ")", "]", "end", "->"):
            items.append(self._repetition())
        return seq(items)

    def _repetition(self) -> Node:
        node = self._negation()
        while True:
            if self._take("?"):
                node = repeat(node, 0, 1)
            elif self._take("*"):
                node = repeat(node, 0, None)
            elif self._take("+"):
                node = repeat(node, 1, None)
            elif (counts := read_counts(self.source, self.tokens, self.at)) is not None:
                low, high, self.at = counts
                node = repeat(node, low, high)
            else:
                return node

    def _negation(self) -> Node:
        return negate(self._negation()) if self._take("~") else self._atom()

    def _atom(self) -> Node:
        token = self._next_token
        self.at += 1
        match token.kind:
            case "(" | "[":
                close = ")" if token.kind == "(" else "]"
                node = self._union()
                if not self._take(close):
                    raise self._error_at(f"{token.kind!r} is not closed", token, f"add {close!r}")
                return node if close == ")" else repeat(node, 0, 1)
            case "string" if self._next_token.kind == "..":
                return self._range(token)
            case "string":
                value = string_value(self.source, token)
                return _ignoring_case(value) if token.text.endswith("i") else text(value)
            case "regex":
                return self._regex(token)
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
                    return substrings(token.value, self.limits)
                except SpecError as error:
                    raise self._error_at(error.message, token, error.hint) from None
            case "directive" | "special" | "reference":
                raise self._error_at(
                    f"{token.text} cannot be used in terminals", token, "terminals are regular: move it to a rule"
                )
        raise self._error_at(
            f"{token.text!r} is unexpected here" if token.text else "the expression is incomplete", token
        )

    def _range(self, first: Token) -> Node:
        self.at += 1
        last = self._next_token
        self.at += 1
        low, high = range_ends(self.source, first, last)
        return chars(((ord(low), ord(high)),))

    def _regex(self, token: Token) -> Node:
        body, flags = token.text[1:].rsplit("/", 1)
        try:
            return parse_regex(f"(?{flags}:{body})" if flags else body, limits=self.limits)
        except SpecError as error:
            raise self._error_at(f"in the regular expression: {error.message}", token, error.hint) from None
        except UnsupportedError as error:
            raise UnsupportedError(error.reason, hint=error.hint, text=self.source, span=token.span) from None

    def _error_at(self, message: str, token: Token, hint: str = "") -> SpecError:
        return SpecError(message, text=self.source, span=token.span, hint=hint)


def read_counts(source: str, tokens: Sequence[Token], at: int) -> tuple[int, int | None, int] | None:
    """The repetition `{m}`, `{m,}`, `{,n}`, `{m,n}`, `~m` or `~m..n` at a token: its counts, and the next position.

    Returns:
        None if there is none.

    Raises:
        SpecError: the counts are negative, in the wrong order, or too large.
    """
    kinds = [token.kind for token in tokens[at : at + 5]]
    numbers = [token for token in tokens[at : at + 5] if token.kind == "number"]
    match kinds:
        case ["{", "number", "}", *_] | ["~", "number", "..", "number", *_] | ["~", "number", *_]:
            length = {"{": 3, "~": 4 if kinds[2:4] == ["..", "number"] else 2}[kinds[0]]
            numbers = numbers[: 2 if length == 4 else 1]
            low, high = numbers[0], numbers[-1]
        case ["{", "number", ",", "number", "}"]:
            (low, high), length = numbers[:2], 5
        case ["{", "number", ",", "}", *_]:
            return _count(source, numbers[0]), None, at + 4
        case ["{", ",", "number", "}", *_]:
            return 0, _count(source, numbers[0]), at + 4
        case _:
            return None
    lower, upper = _count(source, low), _count(source, high)
    if upper < lower:
        span = (low.start, high.end)
        raise SpecError(
            f"the upper bound, {upper}, is less than the lower bound, {lower}", text=source, span=span, hint="swap them"
        )
    return lower, upper, at + length


def _count(source: str, token: Token) -> int:
    if not token.text.isdigit():
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


def range_ends(source: str, first: Token, last: Token) -> tuple[str, str]:
    """The characters between which a range such as `"a".."z"` extends. Raises SpecError if it is malformed."""
    ends = []
    for token in (first, last):
        ends.append(string_value(source, token) if token.kind == "string" else "")
        if len(ends[-1]) != 1 or token.text.endswith("i"):
            message = "the ends of a range must be strings of one character"
            raise SpecError(message, text=source, span=token.span, hint='write, for example, "a".."z"')
    low, high = ends
    if low > high:
        message = f"the range ends before it begins: {first.text}..{last.text}"
        raise SpecError(message, text=source, span=first.span, hint="swap them")
    return low, high


def string_value(source: str, token: Token) -> str:
    """The value of a string, with the escapes of JSON and of Python. A surrogate pair is one character."""

    def escape(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code is not None:
            return chr(min(int(code, 16), 0x10FFFF))
        return _ESCAPED.get(match[4], match[0])

    value = _ESCAPE.sub(escape, token.text.removesuffix("i")[1:-1])
    try:
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        message = f"the string {token.text} contains a lone surrogate, which cannot occur in a text"
        raise SpecError(message, text=source, span=token.span) from None


def _ignoring_case(value: str) -> Node:
    return parse_regex(f"(?i:{re.escape(value)})") if value else EPSILON


def determinise(node: Node, name: str, max_states: int = _MAX_STATES) -> Automaton:
    """The automaton of a regular node, computed with at most `max_states` terms.

    Raises:
        UnsupportedError: it needs too many states; the message calls the node `name`.
    """
    if isinstance(node, Automaton):
        return node
    terms = Terms(max_states)
    try:
        numbers = {terms.read(node): 0}
        order = list(numbers)
        states = []
        for term in order:  # grows during the loop
            edges = []
            for ranges, to in terms.transitions(term):
                if to not in numbers:
                    numbers[to] = len(order)
                    order.append(to)
                edges += [(low, high, numbers[to]) for low, high in ranges]
            states.append((terms.nullable[term], tuple(sorted(edges))))
    except TooLarge as error:
        raise UnsupportedError(
            f"{name} needs more than {error.limit} {error.what}", hint="bound its repetitions by smaller counts"
        ) from None
    return Automaton(tuple(states))


def shortest_matches(node: Node, name: str) -> Automaton:
    """The texts of a node that have no shorter text of the node as a prefix, as for a lazy match.

    Raises:
        UnsupportedError: see `determinise`.
    """
    automaton = determinise(node, name)
    return Automaton(tuple((ends, () if ends else edges) for ends, edges in automaton.states), automaton.start)


def without_text(node: Node, inner: Node) -> Node:
    """The texts of a node in which no text of `inner` occurs."""
    return conj(node, negate(seq([ANY_TEXT, inner, ANY_TEXT])))
