"""Internet addresses and names in ASCII. Out: one node for each format, built on first use.

- ipv4: four decimal numbers without leading zeros (`dec-octet` of RFC 3986; RFC 2673, section 3.2)
- ipv6: RFC 4291, section 2.2, without zone identifiers
- hostname: RFC 1123, section 2.1; labels of 1 to 63 characters, 253 in all
- email: `Mailbox` of RFC 5321, section 4.1.2, with dot strings, quoted strings and address literals; 64 octets before
  the last `@`, 254 in all (section 4.5.3.1: a path has 256 with its brackets)

Narrower than the standards: a hostname has no label that begins with `xn--`. Such a label must be the Punycode of a
valid label in Unicode (RFC 5890). Checking such a label requires decoding it, which no automaton of practical size can
do. The domain of a mailbox is not restricted in this way, because RFC 5321 requires only the syntax of a label. Address
literals are IPv4 addresses, and IPv6 addresses with their tag. No other tag is registered.
"""

from __future__ import annotations

from functools import cache

from guided.ir.nodes import ANY_CHAR, Length, Node

from .abnf import ALNUM, DIGIT, HEX, alt, any_case, chars, exclude, many, seq

__all__ = ["address_literal", "domain_label", "email", "hostname", "ipv4", "ipv6", "local_part", "plain_label"]


@cache
def ipv4() -> Node:
    """An IPv4 address."""
    number = alt(
        DIGIT, seq(chars("1-9"), DIGIT), seq("1", DIGIT, DIGIT), seq("2", chars("0-4"), DIGIT), seq("25", chars("0-5"))
    )
    return seq(number, many(seq(".", number), 3, 3))


@cache
def ipv6() -> Node:
    """An IPv6 address."""
    return _ipv6(ipv4(), max_groups=7)


def _ipv6(tail: Node, max_groups: int) -> Node:
    """Eight groups, or at most `max_groups` groups and a gap. The last two groups may be written as `tail`."""
    group = many(HEX, 1, 4)
    cases = [seq(many(seq(group, ":"), 6, 6), alt(seq(group, ":", group), tail))]
    for groups_before_gap in range(max_groups + 1):
        cases.append(
            seq(_groups(group, groups_before_gap), "::", _at_most_groups(group, tail, max_groups - groups_before_gap))
        )
    return alt(*cases)


def _groups(group: Node, count: int) -> Node:
    return seq(group, many(seq(":", group), count - 1, count - 1)) if count else seq()


def _at_most_groups(group: Node, tail: Node, max_groups: int) -> Node:
    cases = [seq()]
    if max_groups:
        cases.append(seq(many(seq(group, ":"), 0, max_groups - 1), group))
    if max_groups > 1:
        cases.append(seq(many(seq(group, ":"), 0, max_groups - 2), tail))
    return alt(*cases)


@cache
def domain_label() -> Node:
    """Letters, digits and inner hyphens, 1 to 63 of them."""
    return Length(_label(), 1, 63)


@cache
def plain_label() -> Node:
    """A `domain_label` that does not begin with `xn--`."""
    return Length(exclude(_label(), seq(any_case("xn--"), many(ANY_CHAR))), 1, 63)


def _label() -> Node:
    return seq(ALNUM, many(seq(many("-"), ALNUM)))


@cache
def hostname() -> Node:
    """A host name. The package's `_MAX_LENGTHS` table limits it to 253 characters."""
    label = plain_label()
    return seq(label, many(seq(".", label)))


@cache
def address_literal() -> Node:
    """An address in brackets. Its numbers may have leading zeros. A gap replaces at least two groups."""
    number = alt(
        many(DIGIT, 1, 2), seq(chars("01"), DIGIT, DIGIT), seq("2", chars("0-4"), DIGIT), seq("25", chars("0-5"))
    )
    v4 = seq(number, many(seq(".", number), 3, 3))
    return seq("[", alt(v4, seq(any_case("ipv6:"), _ipv6(v4, max_groups=6))), "]")


def local_part(extra_characters: Node) -> Node:
    """The part before the last `@`: printable ASCII characters, and `extra_characters`."""
    atom = many(alt(chars("A-Z", "a-z", "0-9", "!#$%&'*+-/=?^_`{|}~"), extra_characters), 1)
    plain_char = alt(chars(" !", "#-[", "]-~"), extra_characters)
    quoted_string = seq('"', many(alt(plain_char, seq("\\", chars(" -~")))), '"')
    return Length(alt(seq(atom, many(seq(".", atom))), quoted_string), 1, 64)


@cache
def email() -> Node:
    """A mailbox. The package's `_MAX_LENGTHS` table limits it to 254 characters."""
    domain = seq(domain_label(), many(seq(".", domain_label())))
    return seq(local_part(alt()), "@", alt(domain, address_literal()))
