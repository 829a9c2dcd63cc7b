"""The compiler's own caches: what is kept from one grammar never changes another."""

from __future__ import annotations

from guided.grammar import Alt, Chars, Grammar, Ref, Repeat, Seq, Text
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary

LETTERS = Vocabulary([bytes([byte]) for byte in range(97, 123)], eos_token_ids=[26])


def test_a_rule_that_uses_a_counter_of_another_rule_is_not_kept():
    many = Repeat(Chars(((97, 122),)), 0, 1000)
    rules = {"start": Alt((Ref("A"), Ref("B"))), "A": Seq((Text("a"), many)), "B": Seq((Text("b"), many))}
    compiler = GrammarCompiler(LETTERS)
    compiler.compile_grammar(Grammar(rules))
    matcher = GrammarMatcher(compiler.compile_grammar(Grammar({"start": rules["B"]})))
    assert matcher.accept_string("b" + "z" * 1000) and matcher.is_accepting() and not matcher.accept_string("z")
