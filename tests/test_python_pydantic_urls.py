"""Lengths of URLs. `Field` limits the normalized URL, and `UrlConstraints` the text. Pydantic is the judge."""

from __future__ import annotations

import itertools
from typing import Annotated, Any

import pydantic
import pytest
from pydantic import Field, TypeAdapter, UrlConstraints

from guided import GrammarCompiler, GrammarMatcher, GuidedWarning
from guided.matching.sentences import byte_vocabulary

COMPILER = GrammarCompiler(byte_vocabulary())
HOSTS = ["a", "a" * 8, "a" * 10, "a" * 11, "a" * 13, "aa:80", "u:p@aa", "[::1]", "[1::2:3:4:5:6:7]", "1.2.3.4"]
ENDS = ["", "/", "/b", "/bb", "?b", "#b", "/bbbbbbbbb", "/b/..", "//", "/?"]
TEXTS = [f"{scheme}://{host}{end}" for scheme, host, end in itertools.product(("http", "foo", "postgres"), HOSTS, ENDS)]
TYPES: list[tuple[Any, bool]] = [  # a type -> whether its limit applies to the text, which makes guided exact
    *((Annotated[pydantic.HttpUrl, Field(max_length=length)], False) for length in (0, 1, 12, 15, 19, 20, 21, 3_000)),
    (Annotated[pydantic.AnyUrl, Field(max_length=20)], False),
    (Annotated[pydantic.AnyUrl, UrlConstraints(max_length=20)], True),
    (Annotated[pydantic.AnyUrl, UrlConstraints(max_length=15), Field(max_length=18)], False),
    (Annotated[pydantic.PostgresDsn, Field(max_length=22)], False),
]


@pytest.mark.parametrize(("tp", "is_exact"), TYPES)
def test_lengths(tp: Any, is_exact: bool) -> None:
    start = GrammarMatcher(COMPILER.compile_type(pydantic.create_model("M", f=(tp | None, ...))))
    for text in TEXTS:
        matcher = start.fork()
        is_allowed = matcher.accept_string(f'{{"f":"{text}"}}') and matcher.is_accepting()
        try:
            length = len(str(TypeAdapter(tp).validate_json(f'"{text}"')))
        except pydantic.ValidationError:
            assert not is_allowed, text
        else:  # a text that pydantic writes, or that it only lengthens
            is_plain = length >= len(text) and "[" not in text
            assert is_allowed or not (is_exact or is_plain), text


def test_the_url_limit_of_http_urls_remains() -> None:
    tp = Annotated[pydantic.HttpUrl, Field(max_length=3_000)]
    matcher = GrammarMatcher(COMPILER.compile_type(pydantic.create_model("M", f=(tp, ...))))
    assert not matcher.accept_string('{"f":"http://a/' + "b" * 2_100)


def test_a_minimum_causes_a_warning() -> None:
    with pytest.warns(GuidedWarning, match="limited-by-min-length"):
        COMPILER.compile_type(pydantic.create_model("M", f=(Annotated[pydantic.HttpUrl, Field(min_length=20)], ...)))
