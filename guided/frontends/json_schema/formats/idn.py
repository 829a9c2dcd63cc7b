"""Internationalized names. Out: the nodes of idn-hostname and idn-email, built on first use.

A name consists of labels, separated by a full stop or one of its forms U+3002, U+FF0E, U+FF61 (RFC 3490, section 3.1).
A label is a label of a `hostname`, or a U-label (RFC 5890, 2.3.2.1). A U-label has code points that RFC 5892 derives as
PVALID from the properties of Unicode 17.0 (`regex/ecma_chars.py`), obeys the contextual rules of its appendix A, does
not begin with a mark, and has no hyphen at an end or at positions 3 and 4. The Bidi rule of RFC 5893 applies to all
labels of a name if one of them is written from right to left. Joining types and viramas are tables below.

Two properties are not decided, because they need an automaton that is too large: whether a U-label is in NFC, and its
length in Punycode. A U-label has at most 57 characters, since longer ones exceed 63 in Punycode. A name with a U-label
is not held to the 253 characters of a host name either.

idn-hostname refuses ASCII labels with hyphens at positions 3 and 4, which are reserved; among them are all labels that
begin with `xn--`. idn-email allows them, as `email` does.

idn-email is RFC 6531, section 3.3: `email`, with characters beyond ASCII before the `@` and U-labels after it. The part
before the `@` has at most 64 characters, where `email` counts octets. The whole address has no bound.

Cost: about 0.2 s in each grammar, because the classes of characters are large. The complements of these formats exceed
the default limits.
"""

from __future__ import annotations

from functools import cache

from guided.frontends.regex.ecma_chars import decode_ranges, property_set
from guided.ir.nodes import ANY_CHAR, EPSILON, And, Chars, Length, Node, Not
from guided.ir.ranges import ALL_CHARS, Ranges, charset, intersect, subtract

from .abnf import alt, chars, charset_of, exclude, many, seq
from .internet import address_literal, domain_label, local_part, plain_label

__all__ = ["idn_email", "idn_hostname", "valid_code_points"]

# n characters take at least n + 6 in Punycode: 4 for xn--, 3 for one character, 1 for each other one
_MAX_LABEL_LENGTH = 57
_SEPARATORS = ".\u3002\uff0e\uff61"
_MIDDLE_DOT, _KERAIA, _KATAKANA_DOT, _NON_JOINER, _JOINER = "\u00b7\u0375\u30fb\u200c\u200d"
_GERESHES = "\u05f3\u05f4"

# RFC 5892, section 2.6 (exceptions) and the code points of its contextual rules.
_ALSO_PVALID = charset_of("\u00df\u03c2\u06fd\u06fe\u0f0b\u3007")
_CONTEXT = charset_of(_MIDDLE_DOT, _KERAIA, _KATAKANA_DOT, _NON_JOINER, _JOINER, _GERESHES)
_DISALLOWED = charset_of("\u0640\u07fa\u302e\u302f\u303b", "\u3031-\u3035")
# Sections 2.4 (blocks) and 2.9 (old Hangul jamo).
_BLOCKS: Ranges = ((0x20D0, 0x20FF), (0x1D100, 0x1D24F))
_OLD_HANGUL: Ranges = ((0x1100, 0x11FF), (0xA960, 0xA97C), (0xD7B0, 0xD7C6), (0xD7CB, 0xD7FB))

# The scripts whose letters and digits have the bidirectional class R or AL, except for the digits below.
_RIGHT_TO_LEFT = (
    "Adlam Arabic Avestan Chorasmian Cypriot Elymaic Garay Hanifi_Rohingya Hatran Hebrew Imperial_Aramaic "
    "Inscriptional_Pahlavi Inscriptional_Parthian Kharoshthi Lydian Mandaic Manichaean Mende_Kikakui Meroitic_Cursive "
    "Meroitic_Hieroglyphs Nabataean Nko Old_Hungarian Old_North_Arabian Old_Sogdian Old_South_Arabian Old_Turkic "
    "Old_Uyghur Palmyrene Phoenician Psalter_Pahlavi Samaritan Sidetic Sogdian Syriac Thaana Yezidi"
)
_ARABIC_NUMBERS: Ranges = ((0x660, 0x669), (0x10D30, 0x10D39), (0x10D40, 0x10D49))
_EUROPEAN_NUMBERS: Ranges = ((0x30, 0x39), (0x6F0, 0x6F9))
# PVALID code points of class ON, and nonspacing marks of class L.
_NEUTRAL: Ranges = (
    (0xB7, 0xB7), (0x2B9, 0x2BA), (0x2C6, 0x2CF), (0x2EC, 0x2EC), (0x375, 0x375), (0x2E2F, 0x2E2F), (0x30FB, 0x30FB),
    (0xA67F, 0xA67F), (0xA717, 0xA71F), (0xA788, 0xA788),
)  # fmt: skip
_STRONG_MARKS: Ranges = ((0xCBF, 0xCBF), (0xCC6, 0xCC6), (0x11A07, 0x11A08), (0x11C3F, 0x11C3F))

# Ranges as gap.length in base 36. _VIRAMA: canonical combining class 9. _JOINS_NEXT: joining types L and D.
# _JOINS_PREVIOUS: joining types R and D.
_VIRAMA = (
    "1u5 3j 3j 3j 3j 3j 3j 3j 31.2 g 3g 33 3j 5l 50.2 1cp.2 u 4d i5 6b 2t.2 1y.2 3gr o7a 11 47 3y 30 8l 6u imp 16u 15 "
    "e 1l 3d.2 3v 38 50 2q 3k.3 35 3j 70 3j 3a 38 7h 77.2 4h 2b i 29 bp 78.2 29 bt.2 d0s"
)
_JOINS_NEXT = (
    "17k 5 1 1.5 4.d 1.7 1.2 z.2 9.f i.12 1.2 9 1 1.2 14.3 2 i.3 5.4 1.9 1 1 1.2 v.b 3.f 2.4 1 2.3 2.6 22.x 2e.5 2 1.a "
    "1 a 1.4 2 t 2.5 1 g.a 5.2 2.6 1.f 313.2h e.y 1 sd1.1f jf1.5 8 5.a 1.3 4f 1 3.3 1.2 1 2 a7.y 1 bj.2 1.2 2w.3 1.h "
    "17.4 2.c 1a 1.2 4 2.2 1.2 1 2 16xp.y"
)
_JOINS_PREVIOUS = (
    "17k 1.u 1.a z.2 1.3 5.2j 1 o.2 a.3 2 g 1.u t.1f 22.x 2d.p 7 1.4 1.4 5.j 3 2.7 g.d 1.r 313.2h e.y 1 sd1.1e jf2.6 "
    "1 1.2 3.9 1.a 2 4b.i a7.z bi.3 1.2 2w.l 17.i 1a 1.5 1.8 1.4 16xp.y"
)


def _union(*properties: str) -> Ranges:
    return charset(pair for name in properties for pair in property_set(name))


def _scripts(*names: str) -> Ranges:
    return charset(pair for name in names for pair in property_set("Script", name))


@cache
def valid_code_points() -> Ranges:
    """PVALID, CONTEXTJ and CONTEXTO, without ASCII capitals, which only ASCII labels have."""
    derived_code_points = subtract(
        _union("Ll", "Lu", "Lo", "Nd", "Lm", "Mn", "Mc"),
        property_set("Changes_When_NFKC_Casefolded"),
        _union("Default_Ignorable_Code_Point", "White_Space", "Noncharacter_Code_Point"),
        _BLOCKS, _OLD_HANGUL, _DISALLOWED,
    )  # fmt: skip
    return charset((*derived_code_points, *_ALSO_PVALID, *_CONTEXT, *charset_of("-")))


@cache
def _right_to_left() -> Ranges:
    """The characters of the bidirectional classes R and AL."""
    letters = intersect(valid_code_points(), _scripts(*_RIGHT_TO_LEFT.split()))
    return subtract(letters, property_set("Mn"), _ARABIC_NUMBERS, _EUROPEAN_NUMBERS)


@cache
def _non_spacing() -> Ranges:
    return subtract(intersect(valid_code_points(), property_set("Mn")), _STRONG_MARKS)


@cache
def _left_to_right() -> Ranges:
    """The characters of the bidirectional class L."""
    neutral = charset((*_NEUTRAL, *charset_of("-", _NON_JOINER, _JOINER)))
    return subtract(valid_code_points(), _right_to_left(), _non_spacing(), _ARABIC_NUMBERS, _EUROPEAN_NUMBERS, neutral)


_ANY_TEXT = many(ANY_CHAR)


def _strings_ending_in(ranges: Ranges) -> Node:
    """The strings that end with one of these characters."""
    return seq(_ANY_TEXT, Chars(ranges))


def _strings_with_misplaced(char: str, required_before: Ranges | None, required_after: Ranges | None) -> list[Node]:
    """The strings in which `char` lacks a neighbour that it requires."""
    out: list[Node] = []
    if required_before is not None:
        out.append(seq(Not(_strings_ending_in(required_before)), char, _ANY_TEXT))
    if required_after is not None:
        out.append(seq(_ANY_TEXT, char, Not(seq(Chars(required_after), _ANY_TEXT))))
    return out


@cache
def _strings_with_misplaced_joiner() -> tuple[Node, ...]:
    """The strings with a misplaced joiner."""
    virama, transparent = decode_ranges(_VIRAMA), many(Chars(_non_spacing()))
    after_virama = _strings_ending_in(virama)
    left_context = seq(_ANY_TEXT, Chars(decode_ranges(_JOINS_NEXT)), transparent)
    right_context = seq(transparent, Chars(decode_ranges(_JOINS_PREVIOUS)), _ANY_TEXT)
    return (
        *_strings_with_misplaced(_JOINER, virama, None),
        seq(Not(alt(after_virama, left_context)), _NON_JOINER, _ANY_TEXT),
        seq(Not(after_virama), _NON_JOINER, Not(right_context)),
    )


def _label(inside: Ranges, first: Ranges, last: Node, *exclusions: Node) -> Node:
    """U-labels of the characters `inside` that begin with a character of `first`, end with a string of `last` and are
    none of `exclusions`, under the rules common to all U-labels.
    """
    marks = _union("Mn", "Mc")
    shape = seq(Chars(subtract(intersect(inside, first), marks, charset_of("-"))), many(Chars(inside)))
    ascii_only, hyphens = many(chars("\x00-\x7f")), seq(ANY_CHAR, ANY_CHAR, "--", _ANY_TEXT)
    label = And(
        (
            shape,
            seq(_ANY_TEXT, last),
            *map(
                Not,
                (
                    ascii_only,
                    hyphens,
                    _strings_ending_in(charset_of("-")),
                    *_strings_with_misplaced_joiner(),
                    *exclusions,
                ),
            ),
        )
    )
    return Length(label, 1, _MAX_LABEL_LENGTH)


@cache
def _left_to_right_label(bidi: bool) -> Node:
    """U-labels that are written from left to right. `bidi`: those that satisfy the Bidi rule."""
    inside = subtract(valid_code_points(), _right_to_left(), _ARABIC_NUMBERS)
    kana = _scripts("Hiragana", "Katakana", "Han")
    other = many(Chars(subtract(ALL_CHARS, kana)))
    exclusions = (
        *_strings_with_misplaced(_MIDDLE_DOT, charset_of("l"), charset_of("l")),
        *_strings_with_misplaced(_KERAIA, None, property_set("Script", "Greek")),
        seq(other, _KATAKANA_DOT, other),
    )
    if not bidi:
        return _label(inside, ALL_CHARS, EPSILON, *exclusions)
    strong = _left_to_right()
    return _label(inside, strong, _label_end((*strong, *_EUROPEAN_NUMBERS)), *exclusions)


def _label_end(ranges: Ranges) -> Node:
    return seq(Chars(charset(ranges)), many(Chars(_non_spacing())))


@cache
def _right_to_left_label() -> Node:
    """U-labels that are written from right to left."""
    rtl_chars = _right_to_left()
    inside = subtract(valid_code_points(), _left_to_right())
    end = _label_end((*rtl_chars, *_EUROPEAN_NUMBERS, *_ARABIC_NUMBERS))
    european, arabic = (
        seq(_strings_ending_in(_EUROPEAN_NUMBERS), _ANY_TEXT),
        seq(_strings_ending_in(_ARABIC_NUMBERS), _ANY_TEXT),
    )
    hebrew = property_set("Script", "Hebrew")
    exclusions = (
        *(strings for char in _GERESHES for strings in _strings_with_misplaced(char, hebrew, None)),
        And((european, arabic)),
    )
    misplaced_chars = charset_of(_MIDDLE_DOT, _KERAIA, _KATAKANA_DOT)  # they require neighbours of class L
    return _label(subtract(inside, misplaced_chars), rtl_chars, end, *exclusions)


def _names_with_u_label(ascii_label: Node, separator: Node) -> Node:
    """Names with at least one U-label."""

    def names(earlier: Node, label: Node, later: Node) -> Node:
        return seq(many(seq(earlier, separator)), label, many(seq(separator, later)))

    ltr_label, rtl_label = _left_to_right_label(True), _right_to_left_label()
    # Under the Bidi rule, a label does not begin with a digit.
    without_first_digit = exclude(ascii_label, seq(chars("0-9"), _ANY_TEXT))
    plain = _left_to_right_label(False)
    return alt(
        names(ascii_label, plain, alt(ascii_label, plain)),
        names(alt(without_first_digit, ltr_label), rtl_label, alt(without_first_digit, ltr_label, rtl_label)),
    )


@cache
def idn_hostname() -> Node:
    """A host name in any script."""
    reserved_label = seq(ANY_CHAR, ANY_CHAR, "--", _ANY_TEXT)
    ascii_label = Length(exclude(plain_label(), reserved_label), 1, 63)
    ascii_name = Length(seq(ascii_label, many(seq(chars(_SEPARATORS), ascii_label))), 1, 253)
    return alt(ascii_name, _names_with_u_label(ascii_label, chars(_SEPARATORS)))


@cache
def idn_email() -> Node:
    """A mailbox in any script."""
    label = domain_label()
    domain = alt(seq(label, many(seq(".", label))), _names_with_u_label(label, chars(".")))
    local = local_part(chars(((0x80, 0x10FFFF),)))
    return seq(local, "@", alt(domain, address_literal()))
