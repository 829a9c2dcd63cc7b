"""JSON Pointers, UUIDs and base64. Out: one node for each format, built on first use.

- json-pointer: RFC 6901, section 3
- relative-json-pointer: draft-bhutton-relative-json-pointer-00, with optional index adjustment
- uuid: RFC 9562, section 4, of any version and variant
- byte and base64url: RFC 4648, sections 4 and 5; base64url with complete padding or none. Unused bits may have
  any value: section 3.5 requires encoders to write zeros, and allows decoders to accept other values
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from guided.ir.nodes import Node
from guided.ir.ranges import complement

from .abnf import DIGIT, HEX, alt, chars, charset_of, many, optional, seq

__all__ = ["base64", "base64url", "json_pointer", "relative_json_pointer", "uuid"]

_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


@cache
def json_pointer() -> Node:
    """Reference tokens, each after a slash. A tilde occurs only as ~0 or ~1."""
    char = alt(chars(complement(charset_of("/~"))), seq("~", chars("01")))
    return many(seq("/", many(char)))


@cache
def relative_json_pointer() -> Node:
    """The number of levels up, an optional change of the index, then a pointer or `#`."""
    number = alt("0", seq(chars("1-9"), many(DIGIT)))
    return seq(number, optional(chars("+-"), number), alt(json_pointer(), "#"))


@cache
def uuid() -> Node:
    """Five groups of hexadecimal digits."""
    group = many(HEX, 4, 4)
    return seq(many(HEX, 8, 8), many(seq("-", group), 3, 3), "-", many(HEX, 12, 12))


@cache
def base64() -> Node:
    """Base 64 with padding."""
    return _base64(_BASE64, lambda padding: padding)


@cache
def base64url() -> Node:
    """Base 64 with an alphabet for file names and URLs."""
    return _base64(_BASE64[:-2] + "-_", optional)


def _base64(alphabet: str, allow_padding: Callable[[Node | str], Node | str]) -> Node:
    """Blocks of four letters. The last block may encode one or two bytes."""
    char = chars(alphabet)
    one_byte, two_bytes = seq(char, char, allow_padding("==")), seq(many(char, 3, 3), allow_padding("="))
    return seq(many(many(char, 4, 4)), optional(alt(one_byte, two_bytes)))
