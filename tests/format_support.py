"""Shared by the tests of `format`: whether a schema accepts a value, examples, and texts that are nearly valid."""

import json
import re
from functools import cache

from hypothesis import strategies as st

from guided.matching.matcher import GrammarMatcher
from tests.json_schema_support import byte_compiler

TIMES = ["23:59:60Z", "23:59:60.5z", "01:29:60+01:30", "15:59:60-08:00", "00:14:60+00:15", "08:30:06.283185-23:59"]
ADDRESSES = [
    "::",
    "::1",
    "1:2:3:4:5:6:7:8",
    "1::d6:192.168.0.1",
    "1:2:3:4:5:6:1.2.3.4",
    "abcd:EF01::",
    "1:2:3:4:5:6:7::",
    "::2:3:4:5:6:7:8",
]
MAILS = [
    "joe.bloggs@example.com", '"joe @\\"bloggs"@a.b', "a@[127.0.0.1]", "a@[IPv6:::1]", "a@[ipv6:1::1.2.3.4]",
    "a" * 64 + "@" + ".".join(["b" * 63] * 2) + "." + "c" * 61, "a@xn--b", "a@[IPv6:1:2:3:4:5:6:7:8]",
]  # fmt: skip
URIS = [
    "http://u:p@foo.bar:80/a;b/%C3/?q=1/?#f", "urn:a:b", "//h/p", "a/b:c", "./a:b", "?q", "#", "", "http://[::1]:8/",
    "a:", "ldap://[v1.fe:d]/c", "/a//b", "http://[1::1.2.3.4]", "mailto:J@b.c", "x://",
]  # fmt: skip


@cache
def _matcher(schema):
    return GrammarMatcher(byte_compiler().compile_json_schema(schema))


def takes(schema, value):
    """Whether a schema, given as text, accepts the value."""
    matcher = _matcher(schema)
    matcher.reset()
    return matcher.accept_string(json.dumps(value, ensure_ascii=False)) and matcher.is_accepting()


def conforms(name, text):
    """Whether a text has the format."""
    return takes(f'{{"type": "string", "format": "{name}"}}', text)


def near(examples, alphabet, changes=3):
    """An example after a few changes: a character inserted, removed or replaced, a piece doubled, two pieces joined."""

    @st.composite
    def made(draw):
        text = draw(st.sampled_from(examples))
        for _ in range(draw(st.integers(0, changes))):
            at = draw(st.integers(0, len(text)))
            end = draw(st.integers(at, min(len(text), at + 4)))
            char = draw(st.sampled_from(alphabet))
            kind = draw(st.integers(0, 5))
            if kind == 5:
                text = text[:at] + draw(st.sampled_from(examples))[at:]
            else:
                text = text[:at] + ("", char, char, text[at:end] * 2, char * 2)[kind] + text[at if kind == 1 else end :]
        return text

    return made()


def is_hostname(text):
    labels = text.split(".")
    return len(text) <= 253 and all(is_label(one) and one[:4].lower() != "xn--" for one in labels)


def is_label(text):
    return 1 <= len(text) <= 63 and bool(re.fullmatch(r"[a-zA-Z0-9-]+", text)) and text[0] != "-" != text[-1]
