"""The options that write JSON as other libraries do: chosen escapes, separators, plain integers."""

from __future__ import annotations

import itertools
import json
import re

import pytest

import guided

VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
COMPILER = guided.GrammarCompiler(VOCABULARY)


def accepts(schema, text, **options):
    matcher = guided.GrammarMatcher(COMPILER.compile_json_schema(schema, **options))
    return matcher.accept_string(text) and matcher.is_accepting()


@pytest.mark.parametrize("letters", ["", "n", '"\\', "u", "nu", '"\\/bfnrtu', "btun", "U", "nuU"])
def test_each_spelling_of_each_character(letters):
    short = {"b": 8, "f": 12, "n": 10, "r": 13, "t": 9, '"': 34, "\\": 92, "/": 47}
    for code in (*range(0x22), 0x2F, 0x41, 0x5C, 0x7E, 0x7F, 0x80, 0xE9, 0x1F600):
        raw = code > 0x1F and code not in (0x22, 0x5C, 0x7F)
        assert accepts({"type": "string"}, f'"{chr(code)}"', escapes=letters) == raw
        written = json.dumps(chr(code))[1:-1]
        for spelled in {f"\\u{code:04x}", f"\\u{code:04X}", written} if code < 0x10000 else {written}:
            is_control = code < 0x20 or code == 0x7F
            control = spelled[1:2] == "u" and ("U" in letters or ("u" in letters and is_control))
            short_form = len(spelled) == 2 and spelled[1] in letters
            same = spelled == chr(code) and raw
            assert accepts({"type": "string"}, f'"{spelled}"', escapes=letters) == (control or short_form or same)
    for letter, code in short.items():
        assert accepts({"enum": [chr(code), "A"]}, f'"\\{letter}"', escapes=letters) == (letter in letters)


def test_separators_may_be_regular_expressions():
    item, key = r"\s{0,2},\s{0,1}", r"\s*:| : "
    for before, after, around, behind in itertools.product(
        ("", " ", "  ", "   "), ("", " ", "  "), ("", "  "), ("", " ")
    ):
        text = f'{{"a"{around}:{behind}1{before},{after}"b"{around}:{behind}2}}'
        wanted = bool(re.fullmatch(item, f"{before},{after}") and re.fullmatch(key, f"{around}:{behind}"))
        assert accepts({"type": "object"}, text, separators=(item, key)) == wanted
    literal = {"separators": (", ", ": ")}
    assert accepts({"type": "object"}, '{"a": 1, "b": 2}', **literal)
    assert not accepts({"type": "object"}, '{ "a": 1}', **literal)
    assert accepts({"type": "object"}, '{ "a" : 1 ,   "b": 2}', **literal, whitespace=" *")
    assert not accepts({"type": "object"}, '{"a":1}', **literal, whitespace=" *")
    with pytest.raises(guided.SpecError, match="option separators"):
        accepts({}, "1", separators=("(,", ":"))
    with pytest.raises(guided.OptionError, match="is not ',' with JSON whitespace"):
        accepts({}, "1", separators=("x", ":"))


def test_plain_integers():
    cases = {
        '{"type": "integer"}': {"1": True, "-0": True, "-12": True, "1.0": False, "1e2": False, "01": False},
        '{"type": "integer", "minimum": 5}': {"5": True, "4": False, "12": True, "12.0": False, "1e1": False},
        '{"type": "integer", "multipleOf": 3}': {"9": True, "9.0": False, "8": False},
        '{"type": "number"}': {"1": True, "1.50": True, "1E+2": True, "-0.0": True},
        '{"const": 1}': {"1": True, "1.0": False, "1e0": False},
        '{"enum": [1.5, 2]}': {"1.5": True, "1.50": False, "2": True, "2.0": False},
        "true": {"1.0": True, "[1e2]": True},
    }
    for schema, texts in cases.items():
        for text, wanted in texts.items():
            assert accepts(json.loads(schema), text, numbers="plain_integers") == wanted, (schema, text)


def test_escapes_are_checked():
    for wrong in ("x", "nm", 3, None):
        with pytest.raises(guided.OptionError, match="option escapes") as caught:
            COMPILER.compile_json_schema({}, escapes=wrong)
        assert caught.value.option == "escapes" and "letters that may follow" in str(caught.value)


def test_a_compiler_that_does_not_warn_returns_its_findings():
    quiet = guided.GrammarCompiler(VOCABULARY, warn=False)
    assert [finding.keyword for finding in quiet.compile_json_schema({"minimun": 3}).findings] == ["minimun"]
    with pytest.warns(guided.GuidedWarning):
        COMPILER.compile_json_schema({"minimun": 3})


def test_a_vocabulary_with_other_ends():
    other = VOCABULARY.copy_with(eos_token_ids=[10, 256], size=300)
    assert (other.size, other.eos_token_ids, other.token_bytes(10)) == (300, {10, 256}, None)
    assert other.token_bytes(11) == b"\x0b" and other.encode("ab") == [97, 98] and VOCABULARY.size == 257
    with pytest.raises(guided.VocabularyError):
        VOCABULARY.copy_with(size=3)
    named = guided.Vocabulary([*VOCABULARY.tokens], eos_token_ids=[256], special_tokens={257: "<x>"})
    fewer = named.copy_with(eos_token_ids=[7], size=100)  # texts that a model cannot write are left out
    assert (fewer.size, len(fewer.tokens), fewer.special_tokens, fewer.encode("ab")) == (100, 100, {}, [97, 98])
    with pytest.raises(guided.VocabularyError, match="no tokens of this vocabulary spell"):
        fewer.encode("z")
    for wrong in (-1, 0, 2.5):
        with pytest.raises(guided.VocabularyError, match="size"):
            named.copy_with(eos_token_ids=[7], size=wrong)


def test_captures_by_end():
    grammar = COMPILER.compile_lark('start: a b\na[capture]: "x" c\nc[capture]: /[0-9]+/\nb[capture]: /y+/')
    matcher = guided.GrammarMatcher(grammar)
    assert matcher.captures_by_end() == []
    matcher.accept_string("x12yy")
    assert matcher.captures_by_end() == [("c", b"12"), ("a", b"x12"), ("b", b"yy")]
    assert guided.GrammarMatcher(COMPILER.compile_regex("a")).captures_by_end() == []


@pytest.mark.parametrize(("final", "wanted"), [("true", [True, True, True]), ("false", [True, False, True])])
def test_ignored_text_at_the_end_of_a_lark_text(final, wanted):
    options = f'%llguidance {{"allow_final_skip": {final}}}'
    grammar = COMPILER.compile_lark(f'{options}\nstart: "a" "b"*\n%ignore " "')
    matchers = [guided.GrammarMatcher(grammar) for _ in range(3)]
    texts = ("a b", "a b ", "ab")
    assert [m.accept_string(t) and m.is_accepting() for m, t in zip(matchers, texts, strict=True)] == wanted
