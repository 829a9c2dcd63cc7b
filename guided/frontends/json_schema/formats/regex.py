r"""The format `regex`: ECMA-262 regular expressions with the `u` flag. Out: one node, built on first use.

The grammar is `Pattern` of ECMA-262, section 22.2.1, with its early errors. Problem: groups nest, names of groups must
differ, and back-references need their groups, so the valid expressions are not a regular language. Every string of the
language here is valid, but some valid expressions are omitted. The top two nesting levels (at most one group deep, not
in a lookaround) omit less. {0,m} is always allowed. Not generated:

- groups nested more than 8 deep; lookarounds inside more than one group or inside a lookaround; in lookarounds, groups
  nested more than one deep
- named groups, references to groups, modifiers such as (?i:..), and \0 outside of classes
- {n,m} if n has as many digits as m or more, unless both are at most 9 (99 in the top two levels, without leading
  zeros); {n,m} with more digits in m, if n has more than 3 digits or m begins with 0
- ranges in a class, unless a *pivot* lies between their ends: low <= pivot <= high shows that the ends are in order.
  Ends are characters, with or without a backslash. `_PIVOTS` apply everywhere. In the top two levels, `_LETTER_PIVOTS`
  admit all ranges between two letters, and `_CODE_POINT_PIVOTS` admit ranges whose ends are \x.., \u.... or beyond
  ASCII. An unescaped hyphen cannot begin a range
- \u{..} and \p{..} below the top two levels, and \p{..} except short names of general categories

So `not` must not negate this language; see `superset_if_negated` in `__init__.py`. Cost: about 2,200 states, and 80 ms
in the first grammar of a vocabulary.
"""

from __future__ import annotations

from functools import cache

from guided.ir.nodes import ANY_CHAR, And, Node
from guided.ir.ranges import ALL_CHARS, Ranges, complement, intersect, subtract

from .abnf import ALPHA, DIGIT, HEX, alt, chars, charset_of, exclude, many, optional, seq

__all__ = ["regex"]

_MAX_DEPTH, _TOP_LEVELS = 8, 2
_MAX_DEPTH_WITH_LOOKAROUND, _MAX_DEPTH_IN_LOOKAROUND = 1, 1

_SYNTAX = "^$\\.*+?()[]{}|/"
_CATEGORIES = {"C": "cfnos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}
_PIVOTS = "/13579BMZbmz~"
_LETTER_PIVOTS = "'@DFHJLNPRTVXY_`dfhjlnprtvxy"
_CODE_POINT_PIVOTS = (0x08, 0x20, 0x7E, 0xFF, 0x3A9, 0x44F, 0x3093, 0x9FA0, 0xD7A3)
"""Code points inside likely ranges: of control characters, ASCII, Latin 1, Greek, Cyrillic, kana, Han and Hangul."""


def _minimise_separately(node: Node) -> Node:
    """Mark a node, so that its automaton is minimised separately. This pays if many other nodes contain the node."""
    return And((node,))


# --- escapes


def _digit(low: int, high: int) -> Node:
    """One hexadecimal digit from `low` to `high`."""
    digits = "0123456789abcdef"[low : high + 1]
    return chars(digits, digits.upper())


def _hex(low: int, high: int, digits: int) -> Node:
    """A number from `low` to `high`, in a fixed number of hexadecimal digits."""
    if low > high:
        return alt()
    if low == 0 and high == 16**digits - 1:
        return many(HEX, digits, digits)
    unit = 16 ** (digits - 1)
    first, last = low // unit, high // unit
    if first == last:
        return seq(_digit(first, first), _hex(low % unit, high % unit, digits - 1))
    return alt(
        seq(_digit(first, first), _hex(low % unit, unit - 1, digits - 1)),
        seq(_digit(first + 1, last - 1), many(HEX, digits - 1, digits - 1)),
        seq(_digit(last, last), _hex(0, high % unit, digits - 1)),
    )


def _escape(is_top_level: bool, extra: str) -> Node:
    """A character or class after a backslash. `extra`: further characters that may follow it."""
    cases = [chars("dDsSwWfnrtv", _SYNTAX, extra), seq("c", ALPHA), seq("x", HEX, HEX), seq("u", many(HEX, 4, 4))]
    if is_top_level:
        categories = (seq(first, optional(chars(second))) for first, second in _CATEGORIES.items())
        number = seq(many("0"), alt(many(HEX, 1, 5), seq("10", many(HEX, 4, 4))))
        cases += [seq(chars("pP"), "{", alt(*categories), "}"), seq("u{", number, "}")]
    return seq("\\", alt(*cases))


# --- classes


def _range(low: int, pivot: int) -> Node:
    """A range whose start lies between `low` and `pivot` and whose end is at least `pivot`."""

    def end(ranges: Ranges, escaped_only: str) -> Node:
        return alt(
            chars(subtract(ranges, charset_of(escaped_only))), seq("\\", chars(intersect(ranges, escaped_chars)))
        )

    escaped_chars = charset_of(_SYNTAX, "-")
    return seq(end(((low, pivot),), "\\]-"), "-", end(intersect(ALL_CHARS, ((pivot, 0x10FFFF),)), "\\]"))


def _code_point_range(low: int, pivot: int) -> Node:
    """Like `_range`, with ends in hexadecimal or beyond ASCII. Excludes surrogates, since two may form a character."""

    def end(low: int, high: int) -> Node:
        four_digits = alt(_hex(low, min(high, 0xD7FF), 4), _hex(max(low, 0xE000), min(high, 0xFFFF), 4))
        code = seq("\\", alt(seq("x", _hex(low, min(high, 0xFF), 2)), seq("u", four_digits)))
        return alt(code, chars(subtract(((low, high),), charset_of("\x00-\x7f"))))

    return seq(end(low, pivot), "-", end(pivot, 0x10FFFF))


@cache
def _class(is_top_level: bool) -> Node:
    """A class of characters. A hyphen stands for itself at the start, at the end and after a range."""
    pivots = sorted(map(ord, _PIVOTS + _LETTER_PIVOTS)) if is_top_level else sorted(map(ord, _PIVOTS))
    ranges = [_range(previous + 1, pivot) for previous, pivot in zip([-1, *pivots], pivots, strict=False)]
    if is_top_level:
        ranges += (
            _code_point_range(previous + 1, pivot)
            for previous, pivot in zip((-1, *_CODE_POINT_PIVOTS), _CODE_POINT_PIVOTS, strict=False)
        )
    single = alt(chars(complement(charset_of("\\]-"))), _escape(is_top_level, "b0-"))
    hyphen = optional("-")
    content = seq(hyphen, many(alt(single, seq(alt(*ranges), hyphen))), hyphen, "]")
    any_text = many(ANY_CHAR)
    with_octal = seq(many(alt(chars(complement(charset_of("\\"))), seq("\\", ANY_CHAR))), "\\0", DIGIT, any_text)
    return seq("[", alt(seq("^", exclude(content, with_octal)), exclude(content, with_octal, seq("^", any_text))))


# --- terms


@cache
def _quantifier(is_top_level: bool) -> Node:
    """A quantifier, which may be lazy."""
    counts = [seq(many("0", 1), ",", many(DIGIT, 1))]
    for digits in range(1, 4):
        counts.append(seq(many(DIGIT, digits, digits), ",", chars("1-9"), many(DIGIT, digits)))
    for n in range(1, 10):
        counts.append(seq(f"{n},", chars(f"{n}-9")))
        if is_top_level:
            counts.append(seq(f"{n}", DIGIT, ",", chars("123456789"[n:]), DIGIT))
            counts += (seq(f"{n}{m},{n}", chars(f"{m}-9")) for m in range(10))
    times = seq("{", alt(seq(many(DIGIT, 1), optional(",")), *counts), "}")
    return _minimise_separately(seq(alt(chars("*+?"), times), optional("?")))


@cache
def _atom(is_top_level: bool) -> Node:
    """A term that may be repeated, except groups."""
    return _minimise_separately(
        alt(chars(complement(charset_of("^$\\*+?()[]{}|"))), _escape(is_top_level, ""), _class(is_top_level))
    )


def _alternatives(is_top_level: bool, group: Node | None, lookaround: Node | None) -> Node:
    """A Disjunction whose groups contain `group` and whose lookarounds contain `lookaround`."""
    atoms, others = [_atom(is_top_level)], [chars("^$|"), seq("\\", chars("bB"))]
    if group is not None:
        atoms.append(seq("(", optional("?:"), group, ")"))
    if lookaround is not None:
        others.append(seq("(?", optional("<"), chars("=!"), lookaround, ")"))
    return many(alt(*others, seq(alt(*atoms), optional(_quantifier(is_top_level)))))


@cache
def regex() -> Node:
    """A regular expression."""
    lookaround: Node | None = None
    for _ in range(_MAX_DEPTH_IN_LOOKAROUND + 1):
        lookaround = _alternatives(False, lookaround, None)
    out: Node | None = None
    for depth in range(_MAX_DEPTH, 0, -1):
        out = _alternatives(depth < _TOP_LEVELS, out, lookaround if depth <= _MAX_DEPTH_WITH_LOOKAROUND else None)
    return _alternatives(True, out, lookaround)
