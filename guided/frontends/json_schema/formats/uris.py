"""URIs, IRIs and URI templates. Out: one node for each format, built on first use.

- uri, uri-reference: RFC 3986, appendix A
- iri, iri-reference: RFC 3987, section 2.2, the same grammar with more characters. Section 4 on bidirectional text is
  advice, and not enforced
- uri-template: RFC 6570, section 2, with the operators of levels 1 to 4 and those reserved for extensions. An
  apostrophe is a literal (erratum 6937)

The rules of particular URI schemes are not enforced.
"""

from __future__ import annotations

from functools import cache

from guided.ir.nodes import Node
from guided.ir.ranges import Ranges, charset

from .abnf import ALNUM, ALPHA, DIGIT, HEX, alt, any_case, chars, many, optional, seq
from .internet import ipv6

__all__ = ["iri", "iri_reference", "uri", "uri_reference", "uri_template"]

_UCS: Ranges = charset(
    [(0xA0, 0xD7FF), (0xF900, 0xFDCF), (0xFDF0, 0xFFEF), (0xE1000, 0xEFFFD)]
    + [(plane << 16, (plane << 16) + 0xFFFD) for plane in range(1, 0xE)]
)
_PRIVATE: Ranges = ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
_SUB_DELIMITERS = "!$&'()*+,;="


@cache
def uri() -> Node:
    """A URI, which begins with a scheme."""
    return _reference_with_scheme((), ())


@cache
def uri_reference() -> Node:
    """A URI or a relative reference."""
    return alt(uri(), _relative_reference((), ()))


@cache
def iri() -> Node:
    """An IRI, which begins with a scheme."""
    return _reference_with_scheme(_UCS, _PRIVATE)


@cache
def iri_reference() -> Node:
    """An IRI or a relative reference."""
    return alt(iri(), _relative_reference(_UCS, _PRIVATE))


@cache
def _percent() -> Node:
    return seq("%", HEX, HEX)


@cache
def _parts(extra: Ranges, private: Ranges) -> tuple[Node, Node, Node]:
    """Parts of a URI: `//` with authority and path; the rest of a path; query and fragment."""
    plain_char = chars("A-Z", "a-z", "0-9", "-._~", _SUB_DELIMITERS, extra)
    ip_future = seq(any_case("v"), many(HEX, 1), ".", many(chars("A-Z", "a-z", "0-9", "-._~", _SUB_DELIMITERS, ":"), 1))
    literal = seq("[", alt(ipv6(), ip_future), "]")
    name = many(alt(plain_char, _percent()))
    user = seq(many(alt(plain_char, ":", _percent())), "@")
    authority = seq(optional(user), alt(literal, name), optional(":", many(DIGIT)))
    char = _path_char(extra)
    segments = many(seq("/", many(char)))
    query_and_fragment = seq(
        optional("?", many(alt(char, chars("/?", private)))), optional("#", many(alt(char, chars("/?"))))
    )
    return seq("//", authority, segments), segments, query_and_fragment


@cache
def _path_char(extra: Ranges) -> Node:
    return alt(chars("A-Z", "a-z", "0-9", "-._~", _SUB_DELIMITERS, ":@", extra), _percent())


@cache
def _reference_with_scheme(extra: Ranges, private: Ranges) -> Node:
    network, segments, query_and_fragment = _parts(extra, private)
    segment = many(_path_char(extra), 1)
    rest = alt(network, seq("/", optional(segment, segments)), seq(segment, segments), seq())
    return seq(ALPHA, many(alt(ALNUM, chars("+.-"))), ":", rest, query_and_fragment)


@cache
def _relative_reference(extra: Ranges, private: Ranges) -> Node:
    """A reference without a scheme. The first segment of a path without a leading slash has no colon."""
    network, segments, query_and_fragment = _parts(extra, private)
    first_segment = many(alt(chars("A-Z", "a-z", "0-9", "-._~", _SUB_DELIMITERS, "@", extra), _percent()), 1)
    segment = many(_path_char(extra), 1)
    return seq(
        alt(network, seq("/", optional(segment, segments)), seq(first_segment, segments), seq()), query_and_fragment
    )


@cache
def uri_template() -> Node:
    """Literals and expressions in braces."""
    ascii_literals = ("!", "#$", "&'", "(-;", "=", "?-[", "]", "_", "a-z", "~")
    literal = alt(chars(*ascii_literals, _UCS, _PRIVATE), _percent())
    char = alt(chars("A-Z", "a-z", "0-9", "_"), _percent())
    name = seq(char, many(seq(optional("."), char)))
    prefix = seq(":", chars("1-9"), many(DIGIT, 0, 3))
    variable = seq(name, optional(alt(prefix, "*")))
    expression = seq("{", optional(chars("+#./;?&=,!@|")), variable, many(seq(",", variable)), "}")
    return many(alt(literal, expression))
