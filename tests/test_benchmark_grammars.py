"""The texts of the benchmarks' grammars are in their languages."""

from __future__ import annotations

import pytest

import guided
from benchmarks.peer_grammars import to_ebnf

pytest.importorskip("lark", reason="lark is not installed")

from benchmarks.grammars import CASES

BYTES = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_texts_are_in_the_language(case):
    grammar = guided.GrammarCompiler(BYTES).compile_lark(case.grammar.read_text(encoding="utf-8"))
    matcher, text = guided.GrammarMatcher(grammar), case.text()
    assert matcher.accept_string(text) and matcher.is_accepting()
    broken = guided.GrammarMatcher(grammar)
    assert not (broken.accept_string(text.rstrip()[:-1] + "\x01") and broken.is_accepting())


def test_ebnf_has_the_rules_and_the_ignored_terminals():
    lark = """
start: WORD ("=" [item])* ";"i
item: "if"i WORD | /[^a-c"]+/
WORD: /[a-z_]+(x|y){2,3}/
%ignore /[ \\t]+/
"""
    assert to_ebnf(lark).splitlines() == [
        "root ::= gap r_start",
        r'r_start ::= r_WORD ( ("=" gap) ( r_item )? )* (";" gap)',
        r"r_item ::= ([iI] [fF] gap) r_WORD | (([^a-c\x22])+ gap)",
        "r_WORD ::= ((([a-z_])+ (([xy])){2,3})) gap",
        r"gap ::= (([ \x09]))*",
    ]


def test_a_text_is_in_the_language_of_the_ebnf():
    xgrammar = pytest.importorskip("xgrammar", reason="xgrammar is not installed")
    case = CASES[0]
    vocabulary = xgrammar.TokenizerInfo([bytes([byte]) for byte in range(256)], xgrammar.VocabType.RAW)
    compiler = xgrammar.GrammarCompiler(vocabulary, max_threads=1)
    ebnf = xgrammar.Grammar.from_ebnf(to_ebnf(case.grammar.read_text(encoding="utf-8")))
    for text, good in ((case.text()[:300], True), ('{"a": [1, 0.5e3, "\\\\u00e9"]}', True), ('{"a": 01}', False)):
        matcher = xgrammar.GrammarMatcher(compiler.compile_grammar(ebnf))
        assert matcher.accept_string(text) == good
