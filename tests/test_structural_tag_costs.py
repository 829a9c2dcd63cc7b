"""Reading structural tags, and answers while they are written, takes time that is linear in the text."""

from __future__ import annotations

import json

import pytest

import guided
from guided.frontends.structural_tag.literal_arguments import LiteralArguments
from guided.frontends.structural_tag.literal_forms import LITERAL_FORMS
from guided.frontends.structural_tag.partial_json import PartialJson
from tests.growth import assert_linear
from tests.structural_tag_support import byte_compiler


def with_repeated_member(size: int) -> str:
    return json.dumps({f"a{number}": 1 for number in range(size)})[:-1] + ', "z": 1, "z": 2}'


@pytest.mark.parametrize("is_inner", [False, True])
def test_a_repeated_member_is_found_in_linear_time(is_inner: bool) -> None:
    def read(size: int) -> None:
        text = with_repeated_member(size)
        if is_inner:
            text = json.dumps({"structures": [{"begin": "a", "schema": text, "end": "b"}], "triggers": ["a"]})
        with pytest.raises(guided.SpecError, match="'z' is written twice") as caught:
            byte_compiler().compile_structural_tag(text)
        assert caught.value.pointer == ("/structures/0/schema" if is_inner else "/z")
        assert text[slice(*caught.value.span)].startswith('"schema": ' if is_inner else '"z"')
        assert is_inner or caught.value.span[0] == text.rindex('"z"')

    assert_linear(read, 1_000)


def test_reading_a_structural_tag_checks_the_time() -> None:
    compiler = guided.GrammarCompiler(byte_compiler().vocabulary, limits=guided.Limits(seconds=0))
    with pytest.raises(guided.LimitExceeded, match="seconds"):
        compiler.compile_structural_tag(with_repeated_member(1))


@pytest.mark.parametrize(
    ("begin", "piece"),
    [("{", " "), ('{"a": ', "1"), ("", "["), ('"', "a"), ('"\\uz', "a"), ("?", "a"), ('{"a":1}', "a")],
)
def test_partial_json_is_read_in_linear_time(begin: str, piece: str) -> None:
    def read(size: int) -> None:
        reader = PartialJson()
        reader.read(begin)
        for _ in range(size):
            reader.read(piece)

    assert_linear(read, 5_000)


@pytest.mark.parametrize("in_one_piece", [False, True])
@pytest.mark.parametrize(
    ("begin", "piece"), [("x=[", "1,"), ("x=", "a"), ("", "a"), ("x=1", " "), ("x='", "\\n"), ("x=1", "?"), ("x=", "[")]
)
def test_literal_arguments_are_read_in_linear_time(begin: str, piece: str, in_one_piece: bool) -> None:
    def read(size: int) -> None:
        reader = LiteralArguments(LITERAL_FORMS["pythonic"])
        for part in [begin + piece * size + " " * 100 * size] if in_one_piece else [begin, *[piece] * size]:
            reader.read(part)

    assert_linear(read, 5_000)
