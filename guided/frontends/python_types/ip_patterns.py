r"""Patterns for the texts of IP addresses and networks. They match the texts that the module `ipaddress` reads.

    IPv4 address    four decimal numbers without leading zeros
    IPv6 address    up to eight groups of hexadecimal digits; `::` stands for one or more groups that are 0; the last
                    two groups may have the form of an IPv4 address
    interface       an address, or an address with the length of a prefix: 2001:db8::1/64
    network         the same, but the bits after the prefix are 0. If the end of an IPv6 address has the form of an IPv4
                    address, the length is at least 97, or missing

Not included: scopes (`%eth0`), lengths with leading zeros, and netmasks instead of lengths. The automaton of the IPv6
networks has about 65,000 states, since it counts the zeros at the end of an address in every spelling. It compiles in
about a second.
"""

from __future__ import annotations

from functools import cache
from typing import Final

__all__ = ["IPV4", "IPV4_INTERFACE", "IPV6", "IPV6_INTERFACE", "ipv4_networks_pattern", "ipv6_networks_pattern"]

_OCTET: Final = "(?:[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
_DIGIT: Final = "[0-9A-Fa-f]"
_GROUP: Final = f"{_DIGIT}{{1,4}}"
_ZERO: Final = "0{1,4}"
_MULTIPLES: Final = (_DIGIT, "[02468ACEace]", "[048Cc]", "[08]")  # the digits whose last 0, 1, 2, 3 bits are 0
_GROUPS: Final = 8

IPV4: Final = rf"{_OCTET}(?:\.{_OCTET}){{3}}"


def _join(item: str, low: int, high: int) -> str:
    """`low` to `high` items, with colons between them. `low` is 0 or `high`."""
    if high <= 0:
        return ""
    if low:
        return item + (f"(?::{item}){{{high - 1}}}" if high > 1 else "")
    return f"(?:{item}(?::{item}){{0,{high - 1}}})?"


def _shortened_heads(max_groups: int) -> str:
    """`::` between groups, at most `max_groups` altogether. Each of the groups after it ends with a colon."""
    cases = [
        f"{_join(_GROUP, count, count)}::(?:{_GROUP}:){{0,{max_groups - count}}}" for count in range(max_groups + 1)
    ]
    return f"(?:{'|'.join(cases)})"


def _ipv6_pattern() -> str:
    cases = [f"(?:{_GROUP}:){{6}}(?:{_GROUP}:{_GROUP}|{IPV4})", f"{_join(_GROUP, 0, 7)}::"]
    cases += [f"{_shortened_heads(6)}{_GROUP}", f"{_shortened_heads(5)}{IPV4}"]
    return f"(?:{'|'.join(cases)})"


IPV6: Final = _ipv6_pattern()
IPV4_INTERFACE: Final = f"{IPV4}(?:/(?:[0-9]|[12][0-9]|3[0-2]))?"
IPV6_INTERFACE: Final = f"{IPV6}(?:/(?:[0-9]|[1-9][0-9]|1[01][0-9]|12[0-8]))?"


@cache
def ipv4_networks_pattern() -> str:
    """IPv4 addresses, and addresses with a prefix after which all bits are 0."""
    return f"(?:{IPV4}|{'|'.join(_ipv4_networks(0))})"


def _ipv4_networks(added_length: int) -> list[str]:
    """For each length of a prefix, its networks. `added_length`: the length of what is before the IPv4 address."""
    cases = []
    for length in range(33):
        whole_octets, bits = divmod(length, 8)
        octets = [_OCTET] * whole_octets
        if bits:
            octets.append(f"(?:{'|'.join(str(value) for value in range(0, 256, 1 << (8 - bits)))})")
        octets += ["0"] * (4 - len(octets))
        cases.append(r"\.".join(octets) + f"/{length + added_length}")
    return cases


@cache
def ipv6_networks_pattern() -> str:
    """IPv6 addresses, and addresses with a prefix after which all bits are 0.

    `last` is the group in which the prefix ends; `zeros` is the number of groups after it. The group `last` is written
    before `::`, after it, or not at all.
    """
    zero_addresses = [_join(_ZERO, 8, 8), *(f"{_join(_ZERO, n, n)}::{_join(_ZERO, 0, 7 - n)}" for n in range(_GROUPS))]
    cases = [IPV6, f"(?:{'|'.join(zero_addresses)})/0"]
    for zeros in range(_GROUPS):
        last = _GROUPS - 1 - zeros
        lengths = [16 * (last + 1) - bits for bits in range(16)]
        cases.append(f"{_join(_GROUP, 0, last)}::{_join(_ZERO, 0, zeros)}/(?:{'|'.join(map(str, lengths))})")
        ends = [f"{_group_with_zero_bits(bits)}{{}}/{length}" for bits, length in enumerate(lengths)]
        before = "|".join(ends).replace("{}", _zeros_at_end(zeros))
        cases.append(f"(?:{_GROUP}:){{{last}}}(?:{before})")
        if last:
            after = "|".join(ends).replace("{}", f"(?::{_ZERO}){{{zeros}}}")
            cases.append(f"{_shortened_heads(last - 1)}(?:{after})")
    dotted = "|".join(_ipv4_networks(96)[1:])
    cases.append(f"(?:(?:{_GROUP}:){{6}}|{_shortened_heads(5)})(?:{dotted})")
    return f"(?:{'|'.join(cases)})"


def _zeros_at_end(count: int) -> str:
    """`count` groups that are 0. Each begins with a colon, and `::` may stand for some of them."""
    cases = [f"(?::{_ZERO}){{{count}}}"]
    cases += [f"(?::{_ZERO}){{{left}}}::{_join(_ZERO, 0, count - 1 - left)}" for left in range(count)]
    return f"(?:{'|'.join(cases)})"


def _group_with_zero_bits(bits: int) -> str:
    """The groups whose last `bits` bits are 0, at most 15."""
    zero_digits, more_bits = divmod(bits, 4)
    group = f"{_DIGIT}{{0,{3 - zero_digits}}}{_MULTIPLES[more_bits]}" + "0" * zero_digits
    return f"(?:{group}|0{{1,{zero_digits}}})" if zero_digits else group
