"""Quotations: as types, keywords of JSON Schema and parts of specifications, and their locations in the documents."""

from __future__ import annotations

import copy
import datetime
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pydantic
import pytest
from annotated_types import MaxLen, MinLen
from hypothesis import assume, given
from hypothesis import strategies as st

import guided
from guided.automaton.reference.substrings import all_substrings
from guided.errors import GuidedError, LimitExceeded, SpecError, UnsupportedError
from guided.frontends.python_types.value_readers import value_of
from guided.ir import Substrings
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.matching.constraint import compile_constraint, value_parser
from tests.core_support import vocabulary
from tests.json_schema_support import byte_compiler
from tests.test_substrings import texts_of

REPORT = 'The cat sat.\n\nThe  "mat"\twas 3 € 😀 wide.'
MINUTES = "Nobody saw the cat."
COMPILER = byte_compiler()


def accepts(grammar: guided.CompiledGrammar, text: str) -> bool:
    matcher = GrammarMatcher(grammar)
    return matcher.accept_string(text) and matcher.is_accepting()


def verdicts(schema: Any, *values: Any, **options: Any) -> list[bool]:
    grammar = COMPILER.compile_json_schema(schema, **options)
    return [accepts(grammar, json.dumps(value)) for value in values]


# ---- places


def test_places_in_one_document():
    quote = guided.Quote(REPORT)
    assert quote.find("cat") == [(0, 4, 7)]
    assert quote.find("The") == [(0, 0, 3), (0, 14, 17)]
    assert quote.find("nothing") == quote.find("") == []
    assert REPORT[slice(*quote.find("😀 wide")[0][1:])] == "😀 wide"


def test_places_in_several_documents():
    assert guided.Quote(REPORT, MINUTES).find("cat") == [(0, 4, 7), (1, 15, 18)]
    named = guided.Quote({"report": REPORT, "minutes": MINUTES})
    places = named.find("cat")
    assert [place.document for place in places] == ["report", "minutes"]
    assert all(named.documents[place.document][place.start : place.end] == "cat" for place in places)


def test_places_with_normalised_white_space():
    quote = guided.Quote(REPORT, whitespace="normalised")
    (place,) = quote.find('sat. The "mat" was')
    assert REPORT[place.start : place.end] == 'sat.\n\nThe  "mat"\twas'
    assert quote.find("sat.\nThe") == quote.find("sat. The") == [(0, 8, 17)]
    assert quote.find("sat.The") == []


def test_places_of_whole_words():
    quote = guided.Quote("cats and a cat", words=True)
    assert quote.find("cat") == [(0, 11, 14)]
    assert quote.find("and a") == [(0, 5, 10)]
    assert quote.find("and a ") == quote.find(" and a") == []


@given(st.text("a \n\tb", min_size=1, max_size=12), st.data())
def test_offsets_of_normalised_texts(text: str, data: st.DataObject):
    quote = guided.Quote(text, whitespace="normalised")
    plain = re.sub(r"\s+", " ", text)
    start = data.draw(st.integers(0, len(plain) - 1))
    part = plain[start : data.draw(st.integers(start + 1, len(plain)))]
    places = quote.find(part)
    assert places
    for place in places:
        assert re.sub(r"\s+", " ", text[place.start : place.end]) == part
        around = text[max(0, place.start - 1) : place.start + 1], text[place.end - 1 : place.end + 1]
        assert all(not pair.isspace() or len(pair) < 2 for pair in around), "a run of whitespace is not cut"
    pattern = "".join(r"\s+" if char == " " else char for char in part)
    assert len(places) == len(re.findall(f"(?={pattern})", re.sub(r"\s+", " ", text)))


def test_places_with_a_minimum_of_words():
    quote = guided.Quote(REPORT, min_words=3, whitespace="normalised")
    assert quote.find("cat sat.") == quote.find(" cat ") == []
    assert quote.find("cat\nsat. T") == [(0, 4, 15)]


# ---- as a constraint and as a part


def test_a_quotation_as_the_whole_output():
    grammar = compile_constraint(COMPILER, guided.Quote(MINUTES))
    assert grammar is not None
    assert accepts(grammar, "saw the") and not accepts(grammar, "") and not accepts(grammar, "saw  the")
    read = value_parser(grammar)
    assert read is not None and read("saw the") == "saw the"


@given(st.text("ab \n,", min_size=1, max_size=9), st.booleans(), st.integers(0, 4))
def test_a_minimum_of_words_leaves_the_quotations_that_have_them(text: str, words: bool, least: int):
    every = all_substrings(Substrings((text,), words))
    assume(every)
    if least > len(text.split()):
        with pytest.raises(SpecError, match=f"no document has {least} words"):
            guided.Quote(text, words=words, min_words=least)
        return
    quote = guided.Quote(text, words=words, min_words=least)
    grammar = COMPILER.compile(quote)
    assert texts_of(GrammarMatcher(grammar), 9) == {part for part in every if len(part.split()) >= least}
    for part in every:
        assert bool(quote.find(part)) == (quote.problem(part) == "") == accepts(grammar, part)


def test_punctuation_that_a_quotation_separates_is_a_word():
    grammar = COMPILER.compile(guided.Quote("It sat. On the mat", words=True, min_words=4))
    assert accepts(grammar, ". On the mat") and accepts(grammar, "sat. On the mat")
    assert not accepts(grammar, "On the mat") and not accepts(grammar, "at. On the mat")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda quote: pickle.loads(pickle.dumps(quote))])
@pytest.mark.parametrize(
    "documents", [(MINUTES,), (MINUTES, REPORT), ({"minutes": MINUTES},), ({"a": MINUTES, "b": REPORT},)]
)
@pytest.mark.parametrize("options", [{}, {"whitespace": "normalised", "words": True, "min_words": 2}])
def test_copies(duplicate: Callable[[Any], Any], documents: Any, options: Any):
    quote = guided.Quote(*documents, **options)
    quote.find("the cat")
    same = duplicate(quote)
    assert same is not quote and repr(same) == repr(quote)
    assert same.keywords() == quote.keywords() and same.documents == quote.documents
    grammar = COMPILER.compile(same)
    for text in ("saw the cat", "The cat", "cat", 'The "mat"', "aw the", "x"):
        assert same.find(text) == quote.find(text) and same.problem(text) == quote.problem(text)
        assert accepts(grammar, text) == (quote.problem(text) == "")


def test_words_end_at_the_white_space_of_python():
    spaces = [chr(code) for code in range(0x11000) if chr(code).isspace()]
    text = "".join(f"a{space}b" for space in [*spaces, "\u200b", "\u180e", "\ufeff"])
    grammar = COMPILER.compile(guided.Quote(text, min_words=2))
    for at in range(1, len(text), 3):
        assert accepts(grammar, text[at - 1 : at + 2]) == text[at].isspace()


def test_a_quotation_as_a_part():
    quote = guided.Quote(MINUTES)
    grammar = COMPILER.compile("It says: “" + quote + "”" | guided.text("It says nothing."))
    assert accepts(grammar, "It says: “the cat”") and accepts(grammar, "It says nothing.")
    assert not accepts(grammar, "It says: “the cats”") and not accepts(grammar, "It says: “”")


def test_captured_quotations_are_found():
    quote = guided.Quote(MINUTES)
    grammar = COMPILER.compile('"' + guided.capture("source", quote) + '"')
    matcher = GrammarMatcher(grammar)
    assert matcher.accept_string('"the cat"')
    (captured,) = matcher.captures()["source"]
    assert quote.find(captured.decode()) == [(0, 11, 18)]


# ---- as a type


@dataclass
class Answer:
    claim: str
    source: Annotated[str, guided.Quote(REPORT)]


class Cited(pydantic.BaseModel):
    sources: list[Annotated[str, guided.Quote({"report": REPORT, "minutes": MINUTES}, whitespace="normalised")]]


@pytest.mark.parametrize("options", [{}, guided.JsonSchemaOptions.for_generation().non_defaults()])
def test_a_field_of_a_type(options: Any):
    grammar = COMPILER.compile_type(Answer, **options)
    for source in ("cat sat.\n", '  "mat"\twas', "3 € 😀"):
        text = json.dumps({"claim": "x", "source": source}, ensure_ascii=False)
        assert accepts(grammar, text)
        value = value_of(Answer, json.loads(text))
        assert value.source == source and type(value.source) is str
    assert not accepts(grammar, '{"claim": "x", "source": "dog"}')
    assert not accepts(grammar, '{"claim": "x", "source": ""}')
    with pytest.raises(SpecError, match="does not occur in the documents") as caught:
        value_of(Answer, {"claim": "x", "source": "dog"})
    assert caught.value.pointer == "/source"


def test_a_field_of_a_pydantic_model():
    grammar = COMPILER.compile_type(Cited)
    text = json.dumps({"sources": ["saw the", "sat. The"]})
    assert accepts(grammar, text) and not accepts(grammar, '{"sources": ["sat. the"]}')
    assert Cited.model_validate_json(text).sources == ["saw the", "sat. The"]
    with pytest.raises(pydantic.ValidationError, match="does not occur in the documents"):
        Cited(sources=["sat. the"])


def test_bounds_of_a_type_apply_as_well():
    words = Annotated[str, guided.Quote(MINUTES), MinLen(3), MaxLen(7)]
    grammar = COMPILER.compile_type(words)
    found = [accepts(grammar, json.dumps(text)) for text in ("sa", "saw", "saw the", "saw the ", "abc")]
    assert found == [False, True, True, False, False]


def test_two_constraints_of_one_string():
    both = Annotated[str, guided.Quote("abcd"), guided.Quote("bcx")]

    class Both(pydantic.BaseModel):
        text: both

    for tp, form in ((both, '"%s"'), (Both, '{"text":"%s"}')):
        grammar = COMPILER.compile_type(tp)
        assert [accepts(grammar, form % text) for text in ("bc", "b", "a", "bcx")] == [True, True, False, False]


NOT_STRINGS: list[Any] = [int, list[str], str | None, Literal["3"], bytes, datetime.date, Any]


@pytest.mark.parametrize("tp", NOT_STRINGS, ids=str)
def test_only_strings_are_quoted(tp: Any):
    quoted = Annotated[tp, guided.Quote("3")]
    with pytest.raises(UnsupportedError, match=r"is not supported: it applies to str only") as caught:
        COMPILER.compile_type(quoted)
    assert caught.value.hint == "as in Annotated[str, ...] | None or list[Annotated[str, ...]]"
    with pytest.raises(UnsupportedError, match=r"is not supported: it applies to str only"):
        pydantic.create_model("Model", text=(quoted, ...))


def test_strings_with_validators_are_quoted():
    class Model(pydantic.BaseModel):
        text: Annotated[str, pydantic.BeforeValidator(str.strip), guided.Quote("abc")] | None
        changed: Annotated[str, pydantic.AfterValidator(len), guided.Quote("abc")] = ""

    assert Model(text=" bc ").text == "bc" and Model(text=None).text is None
    with pytest.raises(pydantic.ValidationError, match="2 is not a string"):
        Model(text="a", changed="bc")


# ---- as a keyword


def test_documents_by_name():
    documents = {"report": REPORT, "minutes": MINUTES}
    schema: dict[str, Any] = {"type": "string", "x-guided-quote": "report"}
    values = ("cat", "saw", "cat sat.\n\nThe", "cat sat. The", "")
    assert verdicts(schema, *values, documents=documents) == [True, False, True, False, False]
    for names in (["report", "minutes"], {"documents": ["report", "minutes"]}):
        assert verdicts({**schema, "x-guided-quote": names}, *values, documents=documents)[:2] == [True, True]
    loose = {"documents": "report", "whitespace": "normalised"}
    assert verdicts({**schema, "x-guided-quote": loose}, *values, documents=documents)[2:4] == [False, True]


def test_the_text_itself():
    schema = {"type": "string", "x-guided-quote": {"documents": {"minutes": MINUTES}, "words": True}}
    assert verdicts(schema, "saw the", "aw the", "cat.") == [True, False, True]


def test_a_minimum_of_words():
    schema = {"type": "string", "x-guided-quote": {"documents": "minutes", "minWords": 2}}
    assert verdicts(schema, "saw the", "saw t", "saw ", documents={"minutes": MINUTES}) == [True, True, False]
    quote = guided.Quote(MINUTES, min_words=2)
    assert quote.keywords() == {"x-guided-quote": {"documents": {"0": MINUTES}, "minWords": 2}}
    with pytest.raises(SpecError, match="has fewer than 2 words"):
        value_of(Annotated[str, quote], "saw")


def test_it_constrains_only_strings():
    assert verdicts({"x-guided-quote": "a"}, "x", 3, "y", None, documents={"a": "x"}) == [True, True, False, True]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"minLength": 4}, [False, True, False]),
        ({"maxLength": 3}, [True, False, False]),
        ({"pattern": "^s"}, [True, True, False]),
        ({"enum": ["saw", "dog", 3]}, [True, False, False]),
        ({"not": {"const": "saw"}}, [False, True, False]),
        ({"allOf": [{"x-guided-quote": {"documents": {"": "I saw it"}}}]}, [True, False, False]),
    ],
)
def test_quotes_with_other_keywords(more: dict[str, Any], expected: list[bool]):
    schema = {"type": "string", "x-guided-quote": "minutes", **more}
    assert verdicts(schema, "saw", "saw the", "sat", documents={"minutes": MINUTES}) == expected


def test_a_negated_quotation():
    assert verdicts({"type": "string", "not": {"x-guided-quote": "a"}}, "x", "xx", "", documents={"a": "x"}) == [
        False, True, True,
    ]  # fmt: skip


def test_names_and_items():
    documents = {"a": "ab"}
    quote = {"x-guided-quote": "a"}
    schema = {"type": "object", "propertyNames": quote, "additionalProperties": {"type": "null"}}
    assert verdicts(schema, {"ab": None}, {"b": None, "a": None}, {"c": None}, documents=documents) == [
        True,
        True,
        False,
    ]
    schema = {"type": "array", "items": {"type": "string", **quote}, "uniqueItems": True}
    assert verdicts(schema, ["a", "b", "ab"], ["a", "a"], documents=documents) == [True, False]


def test_equal_quotations_share_one_automaton():
    once = COMPILER.compile_json_schema({"type": "string", "x-guided-quote": "a"}, documents={"a": MINUTES})
    fields = {name: {"type": "string", "x-guided-quote": "a"} for name in "abcdef"}
    schema = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
    many = COMPILER.compile_json_schema(schema, documents={"a": MINUTES})
    assert many.native.positions < once.native.positions + 500


def test_other_documents_are_another_specification():
    schema = {"type": "string", "x-guided-quote": "a"}
    for text in ("x", "y"):
        assert verdicts(schema, "x", "y", documents={"a": text}) == [text == "x", text == "y"]


def test_explanations_name_the_keyword():
    schema = {
        "type": "object",
        "properties": {"source": {"type": "string", "x-guided-quote": "a"}},
        "required": ["source"],
    }
    matcher = GrammarMatcher(COMPILER.compile_json_schema(schema, documents={"a": "the cat"}))
    assert matcher.accept_string('{"source": "the c')
    explanation = matcher.explain("o")
    assert explanation.accepted == 0
    assert "/properties/source" in str(explanation)


# ---- errors

NAME_OR_OBJECT = "x-guided-quote must be the name of a document, a list of names, or an object"
NAMES_OR_TEXTS = "documents of x-guided-quote must be the name of a document, a list of names, or an object of texts"
ADD_DOCUMENTS = 'as in "documents": {"report": "In May ..."}'
EXAMPLE = 'as in "x-guided-quote": "report", with documents={"report": text}'


@pytest.mark.parametrize(
    ("value", "pointer", "message", "hint"),
    [
        ("reprot", "/x-guided-quote", "there is no document 'reprot'", "did you mean 'report'?"),
        (["report", "x"], "/x-guided-quote/1", "there is no document 'x'", "the documents are report"),
        (3, "/x-guided-quote", f"{NAME_OR_OBJECT}, not 3", EXAMPLE),
        ([], "/x-guided-quote", f"{NAME_OR_OBJECT}, not an empty array", EXAMPLE),
        (None, "/x-guided-quote", f"{NAME_OR_OBJECT}, not null", EXAMPLE),
        (["report", 3], "/x-guided-quote/1", "3 is not the name of a document", 'list names, such as "report"'),
        ([{"report": "In May"}], "/x-guided-quote/0", "an object is not the name of a document",
         'list names, such as "report"'),
        ({"document": "report"}, "/x-guided-quote/document", "x-guided-quote has no field 'document'",
         "did you mean 'documents'?"),
        ({"documents": "report", "min_words": 2}, "/x-guided-quote/min_words",
         "x-guided-quote has no field 'min_words'", "did you mean 'minWords'?"),
        ({"report": "In May"}, "/x-guided-quote/report", "x-guided-quote has no field 'report'",
         "the fields are documents, whitespace, words, minWords"),
        ({}, "/x-guided-quote", "x-guided-quote names no document", ADD_DOCUMENTS),
        ({"words": True}, "/x-guided-quote", "x-guided-quote names no document", ADD_DOCUMENTS),
        ({"documents": "reprot"}, "/x-guided-quote/documents",
         "there is no document 'reprot'", "did you mean 'report'?"),
        ({"documents": ["x"]}, "/x-guided-quote/documents/0", "there is no document 'x'", "the documents are report"),
        ({"documents": [["x"]]}, "/x-guided-quote/documents/0", "an array is not the name of a document",
         'list names, such as "report"'),
        ({"documents": 3}, "/x-guided-quote/documents", f"{NAMES_OR_TEXTS}, not 3", ADD_DOCUMENTS),
        ({"documents": []}, "/x-guided-quote/documents", f"{NAMES_OR_TEXTS}, not an empty array", ADD_DOCUMENTS),
        ({"documents": {}}, "/x-guided-quote/documents", f"{NAMES_OR_TEXTS}, not an empty object", ADD_DOCUMENTS),
        ({"documents": {"a": ""}}, "/x-guided-quote/documents/a",
         "document 'a' is empty, so nothing can be quoted from it", "leave it out"),
        ({"documents": {"a": "x", "b/c": 3}}, "/x-guided-quote/documents/b~1c",
         "document 'b/c' must be a string, not 3", ADD_DOCUMENTS),
        ({"documents": {"a": "\ud800"}}, "/x-guided-quote/documents/a",
         "document 'a' contains a lone surrogate, which cannot occur in a text", ""),
        ({"documents": "report", "whitespace": "normalized"}, "/x-guided-quote/whitespace",
         "whitespace of x-guided-quote must be exact or normalised, not 'normalized'", "did you mean 'normalised'?"),
        ({"documents": "report", "whitespace": True}, "/x-guided-quote/whitespace",
         "whitespace of x-guided-quote must be exact or normalised, not true", "leave it out for exact"),
        ({"documents": "report", "words": 1}, "/x-guided-quote/words",
         "words of x-guided-quote must be true or false, not 1", "leave it out for false"),
        ({"documents": "report", "minWords": -1}, "/x-guided-quote/minWords",
         "minWords of x-guided-quote must be a number of words, not -1", "such as 3"),
        ({"documents": "report", "minWords": True}, "/x-guided-quote/minWords",
         "minWords of x-guided-quote must be a number of words, not true", "such as 3"),
        ({"documents": "report", "minWords": 99}, "/x-guided-quote/minWords",
         "no document has 99 words", "the longest has 10"),
    ],
)  # fmt: skip
def test_errors_of_the_keyword(value: Any, pointer: str, message: str, hint: str):
    with pytest.raises(SpecError) as caught:
        COMPILER.compile_json_schema({"x-guided-quote": value}, documents={"report": REPORT})
    assert (caught.value.pointer, caught.value.message, caught.value.hint) == (pointer, message, hint)


def test_a_name_without_documents():
    with pytest.raises(SpecError) as caught:
        COMPILER.compile_json_schema({"type": "object", "properties": {"a": {"x-guided-quote": "report"}}})
    assert caught.value.pointer == "/properties/a/x-guided-quote"
    assert caught.value.hint == "pass its text in documents={'report': text}"


def test_the_report_has_the_error():
    report = guided.check_json_schema({"x-guided-quote": "a"}, documents={"a": "x"})
    assert report.ok and [entry.status for entry in report.entries] == ["enforced"]
    report = guided.check_json_schema({"x-guided-quote": "a"})
    assert [(entry.pointer, entry.status) for entry in report.entries] == [("/x-guided-quote", "refused")]


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ((), "there is no document"),
        (("",), "document 0 is empty"),
        ((b"text",), "document 0 is a bytes, not a string"),
        (("\ud800",), "document 0 contains a lone surrogate"),
        (({"a": 3},), "document 'a' is a int, not a string"),
        (("a", {"b": "c"}), "document 1 is a dict, not a string"),
    ],
)
def test_documents_must_be_texts(documents: Any, message: str):
    with pytest.raises(SpecError, match=message):
        guided.Quote(*documents)


def test_documents_must_be_a_mapping():
    for documents in (["a"], "a"):
        with pytest.raises(SpecError, match="documents must be a mapping from names to texts"):
            COMPILER.compile_json_schema({}, documents=documents)  # type: ignore[arg-type]


def test_documents_without_a_schema_have_no_effect():
    with pytest.raises(GuidedError, match="the option documents has no effect here"):
        compile_constraint(COMPILER, "[a-z]", {"documents": {"a": "x"}})


def test_options_are_checked():
    with pytest.raises(SpecError, match="whitespace='any' is unknown for a quotation"):
        guided.Quote("a", whitespace="any")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="words=1 for a quotation must be True or False"):
        guided.Quote("a", words=1)  # type: ignore[arg-type]
    for least in (-1, True, 1.5, "2", None):
        with pytest.raises(SpecError, match=f"min_words={least!r} for a quotation must be a number of words"):
            guided.Quote("a", min_words=least)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a quotation is a string, not a int"):
        guided.Quote("a").find(3)  # type: ignore[arg-type]


def test_large_documents_end_at_a_limit():
    compiler = GrammarCompiler(vocabulary(), limits=guided.Limits(states=1_000))
    with pytest.raises(LimitExceeded, match="limit 'states' exceeded"):
        compiler.compile(guided.sequence(guided.Quote("abc" * 400)))
    text = " ".join(f"{number:x}" for number in range(100))
    compiler.compile(guided.Quote(text))
    with pytest.raises(LimitExceeded, match="limit 'states' exceeded"):  # about one state for each character and word
        compiler.compile(guided.Quote(text, min_words=20))
