"""Grammars that name end tokens: the output ends at the first of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.errors import SpecError, UnsupportedError, VocabularyError
from guided.frontends.common.end_tokens import end_at_tokens
from guided.ir import (
    EMPTY,
    Alt,
    And,
    Automaton,
    Dispatch,
    Grammar,
    Length,
    Member,
    Node,
    Not,
    Permutation,
    Repeat,
    Seq,
    Special,
    Text,
)
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.brute_force import SPECIALS, language
from tests.drawn_grammars import ALPHABETS, grammars, vocabularies
from tests.test_core_reference import limits_of_the_twin, walk

__all__ = ["limits_of_the_twin"]  # a fixture

VOCABULARY = Vocabulary(
    [bytes([byte]) for byte in range(256)],
    eos_token_ids=[256, 258, 260],
    special_tokens={256: "<end>", 257: "<more>", 258: "<call>", 259: "<two>", 260: "<two>"},
    size=261,
)
COMPILER = GrammarCompiler(VOCABULARY)
END, MORE, CALL, TWO = map(guided.special, ("<end>", "<more>", "<call>", "<two>"))


def accepts(grammar: CompiledGrammar, text: str) -> bool:
    """Whether this text is complete; `!` stands for <more>, and `#` for the id of <two> that does not end the output.

    Every end token may follow a complete text, and none may follow another text.
    """
    matcher = GrammarMatcher(grammar)
    ids = {"!": 257, "#": 259}
    for char in text:
        if not matcher.accept_token(ids.get(char, ord(char))):
            return False
    ends = [matcher.fork().accept_token(token) for token in sorted(VOCABULARY.eos_token_ids)]
    assert ends == [matcher.is_accepting()] * 3
    return ends[0]


def without_first(token: int | str) -> Node:
    """The first of the two control tokens of the drawn grammars is an end token."""
    return EMPTY if token in ("<s>", 0) else Special(token)


@given(st.data())
def test_the_outputs_before_an_end_token(data: st.DataObject) -> None:
    alphabet = data.draw(st.sampled_from(("ab", "aé")))
    grammar = data.draw(grammars(alphabet, specials=tuple(SPECIALS), permutations=False, encodings=()))
    letters, end = alphabet.encode(), ~SPECIALS["<s>"]
    outputs = language(grammar, letters, 4)
    expected = {output for output in outputs if end not in output}
    expected |= {output[:-1] for output in outputs if end in output and output.index(end) == len(output) - 1}
    ended = language(end_at_tokens(grammar, without_first), letters, 4)
    assert {output for output in ended if len(output) < 4} == {output for output in expected if len(output) < 4}


@pytest.mark.parametrize("count", [7, 40, 3000])
def test_long_sequences_of_items_that_may_be_empty(count: int) -> None:
    """The cuts of a sequence share its items, so the grammar stays linear in them."""
    rules = f'root ::= {"x " * count}\nx ::= {"y " * 30}\ny ::= "a" <[257]> | <[258]> | ""'
    grammar = COMPILER.compile(guided.gbnf(rules, allow_special_tokens=True))
    most = min(30 * count, 250)
    assert all(accepts(grammar, "a!" * length) for length in (0, 1, most - 1, most))
    assert not accepts(grammar, "a") and not accepts(grammar, "!")
    assert accepts(grammar, "a!" * (most + 1)) == (30 * count > most)


@given(st.data())
def test_masks_where_a_control_token_ends_the_output(data: st.DataObject) -> None:
    alphabet = data.draw(st.sampled_from(ALPHABETS))
    grammar = data.draw(grammars(alphabet, specials=tuple(SPECIALS)))
    drawn = data.draw(vocabularies(alphabet, complete=True))
    ends = data.draw(st.lists(st.sampled_from(sorted(drawn.special_tokens)), min_size=1, unique=True))
    drawn = replace(drawn, eos_token_ids=(*drawn.eos_token_ids, *ends))
    walk(grammar, drawn, data.draw(st.integers(0, 2**32)), exact=False)


@pytest.mark.parametrize(
    ("part", "complete", "incomplete"),
    [
        (CALL, [""], ["a"]),
        ("a" + CALL, ["a"], ["", "aa"]),
        (guided.choice("a" + CALL + "b", "b" + END, "c"), ["b", "c"], ["", "a", "ab"]),
        ("a" + guided.optional(CALL) + guided.optional(MORE), ["a", "a!"], ["", "!"]),
        ("a" + CALL + guided.optional(END) + guided.repeat("b"), ["a"], ["ab"]),
        (guided.repeat("a" + CALL + MORE, 1) + "b", None, []),
        (guided.repeat("a" + guided.choice(CALL, MORE), 2, 3), ["a!a", "a!a!", "a!a!a", "a!a!a!"], ["a", "a!", "aa"]),
        (guided.repeat("a" + guided.optional(CALL), 0, 2), ["", "a", "aa"], ["aaa"]),
        ("a" + TWO + guided.optional("b"), ["a", "a#", "a#b"], ["ab", "#"]),
        (guided.json_schema({"type": "integer"}) + CALL, ["12", "-3"], ["", "-"]),
    ],
)  # fmt: skip
def test_parts(part: guided.Expr, complete: list[str] | None, incomplete: list[str]) -> None:
    if complete is None:
        with pytest.raises(SpecError, match="allows no output"):
            COMPILER.compile(part)
        return
    grammar = COMPILER.compile(part)
    assert [text for text in (*complete, *incomplete) if accepts(grammar, text)] == complete
    copy = CompiledGrammar.from_bytes(grammar.to_bytes(), VOCABULARY)
    assert [text for text in (*complete, *incomplete) if accepts(copy, text)] == complete


def test_grammars_of_every_kind(tmp_path: Path) -> None:
    gbnf, lark = 'root ::= "a" <[258]> | "b"', 'start: "a" <[258]> | "b"'
    ir = Grammar({"start": Alt((Seq((Text("a"), Special("<call>"))), Text("b")))})
    for folder in (None, tmp_path, tmp_path):  # without a folder, written to it, read from it
        compiler = GrammarCompiler(VOCABULARY, cache_dir=folder)
        for grammar in (
            compiler.compile_gbnf(gbnf, allow_special_tokens=True),
            compiler.compile_lark(lark, semantics="scannerless", allow_special_tokens=True),
            compiler.compile_lark(lark, allow_special_tokens=True),
            compiler.compile_grammar(ir),
        ):
            assert [text for text in ("", "a", "b", "ab") if accepts(grammar, text)] == ["a", "b"]
    with pytest.raises(SpecError, match="not allow"):
        COMPILER.compile_gbnf(gbnf)


def test_captures_end_before_the_end_token() -> None:
    call = guided.capture("call", guided.regex("[a-z]+") + CALL)
    grammar = COMPILER.compile(guided.choice(call, "x" + guided.capture("digits", guided.regex("[0-9]+"))))
    for text, captures in (("abc", {"call": [b"abc"]}), ("x12", {"digits": [b"12"]})):
        matcher = GrammarMatcher(grammar)
        assert matcher.accept_string(text) and matcher.is_accepting()
        assert {name: found for name, found in matcher.captures().items() if found} == captures


def test_texts_before_a_marker_do_not_end_with_a_cut_item() -> None:
    letters = Automaton(((True, ((0x61, 0x61, 0), (0x78, 0x78, 1))), (False, ())))  # a*, or a*x and an item
    for items, expected in (((Special("<call>"),), ["ax"]), ((Text("b"),), ["axb"])):
        start = Seq((Dispatch(letters, (1,), items), Repeat(Special("<end>"), 0, 0)))
        both = Alt((start, Seq((Text("y"), Special("<call>")))))
        grammar = COMPILER.compile_grammar(Grammar({"start": both}))
        assert [text for text in ("", "a", "ax", "axb", "x", "y") if accepts(grammar, text)] == sorted(
            {"", "a", "y", *expected, *(["x"] if expected == ["ax"] else [])}
        )
    after_text = Seq((Text("z"), Dispatch(letters, (1,), (Special("<call>"),)), Special("<more>")))
    grammar = COMPILER.compile_grammar(Grammar({"start": after_text}))
    assert [text for text in ("z", "za", "zax", "za!", "zax!") if accepts(grammar, text)] == ["za!"]


@pytest.mark.parametrize("style", ["json", "qwen_xml"])
@pytest.mark.parametrize("names", [1, 20])
def test_calls_of_many_tools(names: int, style: str) -> None:
    def schema(name: int) -> dict[str, Any]:
        return {"type": "object", "properties": {f"n{name}": {"type": "integer"}}, "required": [f"n{name}"]}

    tags = [
        {
            "begin": f"f{name}(",
            "content": {"type": "json_schema", "json_schema": schema(name), "style": style},
            "end": ")<call>",
        }
        for name in range(names)
    ]
    form = {"type": "tags_with_separator", "tags": tags, "separator": "<more>", "at_least_one": True}
    spec = {"type": "structural_tag", "format": form}
    grammar = COMPILER.compile_structural_tag(spec, allow_special_tokens=True)
    call = "f0(" + ('{"n0": 1}' if style == "json" else "<parameter=n0>1</parameter>") + ")"
    assert accepts(grammar, call)
    assert not accepts(grammar, call[:-1])
    assert not accepts(grammar, f"{call}!{call}")
    with pytest.raises(SpecError, match="control token '<call>'"):
        COMPILER.compile_structural_tag(json.dumps(spec))


@pytest.mark.parametrize(
    "node",
    [
        Permutation((Member(Seq((Text("a"), Special("<call>")))),), Text(","), 1),
        And((Special("<call>"), Text("a"))),
        Not(Special("<call>")),
        Length(Special("<call>"), 0, 2),
    ],
)
def test_parts_that_cannot_end_an_output(node: Node) -> None:
    with pytest.raises(UnsupportedError) as caught:
        COMPILER.compile_grammar(Grammar({"start": Seq((Text("x"), node))}))
    assert "<call> ends the output" in str(caught.value) or "inside And" in str(caught.value)


def test_grammars_with_a_lexer_cannot_name_an_end_token() -> None:
    lexed = guided.lark("start: NAME\nNAME: /[a-z]+/", semantics="lexer")
    with pytest.raises(VocabularyError, match="token 258 ends the output"):
        COMPILER.compile(lexed + CALL)
