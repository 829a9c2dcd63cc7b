"""Patterns of pydantic's types: guided allows exactly the strings that pydantic reads. Pydantic is the judge."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import pydantic
import pytest
from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, TypeAdapter
from pydantic_core import SchemaError

from guided import GrammarCompiler, GrammarMatcher
from guided.errors import SpecError, UnsupportedError
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.regex.rust_to_ecma import rust_to_ecma
from guided.limits import Limits
from guided.matching.sentences import byte_vocabulary

RUST = [
    r"(?i)[^k]", r"(?i)[[^k]]", r"(?i)\p{Lu}", r"(?i)\P{Lu}", r"(?i)[\P{Lu}]", r"(?i)[[:lower:]]", r"(?i)[[:^lower:]]",
    r"(?i)[a-z&&k]", r"(?i)[a-z--K]", r"(?i)[^a-z&&K]", r"(?i)\W", r"(?i)ß", r"(?i)\x{212a}", r"^.$", r"(?s)^.$",
    r"(?m)^b$", r"(?m)\Ab$", r"(?m)^b\z", r"\bé\b", r"a\Bb", r"\<é", r"é\>", r"\b{start}é", r"\b{end-half}",
    r"\b{start-half}é$", r"^a{ 1 , 2 }$", r"^a++$", r"^(?:a{2})?+$", r"^*a$", r"$*a", r"\b+é", r"^]$", r"^}$", r"^\/$",
    r"^/$", r"^\_$", r"^[\_]$", r"^[\@\-a]$", r"^[a-]$", r"^[-a]$", r"^[\d-]$", r"^[+--]$", r"^[a&b]$", r"^[~-]$",
    r"^[\w.-]+$", r"^[^\w.-]+$", r"^[\s\S]$", r"^\pL$", r"^\PL$", r"^\p{gc!=Lu}$", r"^\p{scx=Grek}$", r"^\p{isGreek}$",
    r"^\p{lc}$", r"^\p{any}$", r"^\p{Assigned}$", r"^\p{Han}+$", r"^[\x{41}-\x{43}]$", r"^\x41\u{42}$",
    "(?x)^ a # b $\n $", "(?x) [ a b ] $", "(?-i:a)(?i)b|c", "(a(?i)b|c)d", "(?U)a+$", "^(?P<n>a)(?<m.x>b)$", "(|a)*",
    r"^\t\n$", r"^[\t-\r]$", r"^ \ $", r"^\-\#\&\~$", "^[[a-c]x]$", "(?s:.)(?-s:.)$", r"^[\]a]$", "^[]a]$", "^[^]a]$",
    r"^[\^a]$", "^[a^]$", r"^[\\]$", r"^[\[\(\{]$", "^[ -~]$", r"^[\D]$", r"^[^\W\d_]+$", r"(?im)^\p{Lu}$", "^😀$",
    "^[😀-😂]$", "^^a$$", "(^a|b$)", r"\z|a", "[[:word:]--_]", r"^\U0001F600$", "^[a-z--b]$", "^[a-z&&[^aeiou]]$",
]  # fmt: skip
PYTHON: list[str | re.Pattern[str]] = [
    "b$", r"^\w+$", "(?i)ß", "(?=a)ab", r"\Ab\Z", "^a(?!b).", "(?>a+)b", r"^\d$", r"\bé\b", "(?<=a)b",
    re.compile("B", re.I), re.compile("^ a $ # x", re.X), re.compile("(?i)^b.$", re.S), re.compile(r"^\w$", re.A),
    re.compile("^b", re.M), re.compile("a$"),
]  # fmt: skip
TEXTS = [
    "", "a", "b", "ab", "AB", "aB", "k", "K", "\u212a", "c", "d", "cd", "Cd", "abd", "aBd", "É", "é", "ß", "ẞ", "ſ",
    "s", "S", "\n", "\r", "a\n", "\nb\n", "a\nb", "b\n", "x\nb", "_", "-", "@", "~", "&", "+", ",", ".", "/", "]", "}",
    "[", "(", "{", "\\", "^", " ", "  ", "\t", "\t\n", "aa", "aaa", "aaaa", "漢", "α", "Ʊ", "٣", "1", "\u2028", "\x85",
    "\u0301", "e\u0301", "😀", "😁", "é b", "aéb", "\x1c", "ǅ", "-#&~", "A", "C", "x", "éa", "\u200d", "\u00a0", "aab",
]  # fmt: skip
COMPILER = GrammarCompiler(byte_vocabulary())


def accepts(tp: Any, text: str) -> bool:
    try:
        TypeAdapter(tp).validate_json(text)
    except pydantic.ValidationError:
        return False
    return True


def check_texts(tp: Any, texts: list[str] = TEXTS) -> None:
    grammar = COMPILER.compile_type(tp)
    for text in map(json.dumps, texts):
        matcher = GrammarMatcher(grammar)
        assert (matcher.accept_string(text) and matcher.is_accepting()) == accepts(tp, text), text


@pytest.mark.parametrize("pattern", RUST)
def test_patterns_of_the_default_engine(pattern):
    check_texts(Annotated[str, Field(pattern=pattern)])


@pytest.mark.parametrize("pattern", PYTHON)
def test_patterns_of_pythons_engine(pattern):
    class Strings(pydantic.RootModel[str]):
        model_config = ConfigDict(regex_engine="python-re")
        root: Annotated[str, Field(pattern=pattern)]

    check_texts(Strings)


def test_compiled_patterns_are_pythons_in_every_model():
    check_texts(Annotated[str, Field(pattern=re.compile("^(?=.)B$", re.I))])


def test_patterns_after_other_constraints():
    check_texts(Annotated[str, AfterValidator(str), Field(pattern=r"^\p{Han}$")])
    check_texts(Annotated[str, StringConstraints(pattern=r"[[:punct:]]", max_length=1)])
    check_texts(Annotated[str | int, Field(pattern=r"^\p{Han}$")])


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("^[A-Z][a-z]+$", "^[A-Z][a-z]+$"), (r"a/b-c\.[\w-]{2,3}?", None), (r"^\p{Han}$", r"^\p{Script=Han}$"),
        (r"(?P<year>\d{4})\-", r"(\p{Nd}{4})-"), (r"[\[\@\-]", r"[\[@\-]"), (r"\x{41}[[a-c]x]", r"A[a-cx]"),
    ],
)  # fmt: skip
def test_common_patterns_stay_readable(pattern, written):
    word = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}"
    assert rust_to_ecma(pattern, Limits()) == (written or pattern.replace(r"\w", word))


@pytest.mark.parametrize("pattern", [r"a\p{Age=6.0}", r"\p{gcb=Extend}", "(?R)a", r"(?-u:\w)", r"x[\p{wb=Numeric}]"])
def test_unsupported_parts_have_a_location(pattern):
    class Model(pydantic.BaseModel):
        text: list[Annotated[str, Field(pattern=pattern)]]

    with pytest.raises(UnsupportedError, match="is not enforced") as found:
        type_to_schema(Model)
    assert found.value.pointer == "/$defs/Model/properties/text/items/pattern"
    assert found.value.text == pattern and found.value.hint
    start, end = found.value.span
    assert 0 <= start < end <= len(pattern)


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?<=a)", "(?P=a)", "*", "a|+", r"\q", r"\p{Nonsense}", r"\p{sc=Lu}", "[a"]
)
def test_malformed_patterns_are_refused(pattern):
    with pytest.raises(SchemaError):
        TypeAdapter(Annotated[str, Field(pattern=pattern)])
    with pytest.raises(SpecError):
        rust_to_ecma(pattern, Limits())
