"""The compiler's own caches: entries of one grammar never change another grammar."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import FunctionType

import pytest

import guided
from guided.errors import SpecError
from guided.ir import Alt, Chars, Grammar, Node, Ref, Repeat, Seq, Text
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary

LETTERS = Vocabulary([bytes([byte]) for byte in range(97, 123)], eos_token_ids=[26])
BYTES = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])


def test_a_rule_that_uses_a_counter_of_another_rule_is_not_kept():
    many = Repeat(Chars(((97, 122),)), 0, 1000)
    rules = {"start": Alt((Ref("A"), Ref("B"))), "A": Seq((Text("a"), many)), "B": Seq((Text("b"), many))}
    compiler = GrammarCompiler(LETTERS)
    compiler.compile_grammar(Grammar(rules))
    matcher = GrammarMatcher(compiler.compile_grammar(Grammar({"start": rules["B"]})))
    assert matcher.accept_string("b" + "z" * 1000) and matcher.is_accepting() and not matcher.accept_string("z")


@pytest.mark.parametrize(
    "compile",
    [
        lambda c, n: c.compile_regex(rf"\w{{1,{n}}}"),
        lambda c, n: c.compile_regex(rf".{{0,{n}}}"),
        lambda c, n: c.compile_regex(rf"(?:ab|c){{{n // 2},{n}}}"),
        lambda c, n: c.compile_regex(rf"(?=.*\d)(?=.*[a-z])(?=.*[A-Z]).{{8,{n}}}"),
        lambda c, n: c.compile_regex(rf"(?:(?!END)[^x]){{0,{n}}}"),
        lambda c, n: c.compile_json_schema({"type": "array", "items": {"type": "integer"}, "maxItems": n}),
        lambda c, n: c.compile_json_schema({"type": "string", "maxLength": n}),
    ],
)
def test_counts_are_not_written_out(compile: Callable[[GrammarCompiler, int], CompiledGrammar]):
    """The automaton for a count of ten thousand equals the one for a count of one hundred."""
    small, large = (compile(GrammarCompiler(BYTES), n).native.positions for n in (100, 10_000))
    assert small == large < 3_000


def test_a_compiled_grammar_keeps_no_nodes() -> None:
    """Nodes are thousands of objects that the garbage collector would visit. They are built again on demand."""
    compiled = GrammarCompiler(BYTES).compile_json_schema({"properties": {"a": {"type": "integer"}}})
    seen: dict[int, object] = {}
    met = [getattr(compiled, name) for name in CompiledGrammar.__slots__ if name != "vocabulary"]
    while met:
        thing = met.pop()
        if id(thing) not in seen:
            seen[id(thing)] = thing
            if isinstance(thing, FunctionType):  # without the objects of its module
                met += [cell.cell_contents for cell in thing.__closure__ or ()]
            elif not isinstance(thing, type | GrammarCompiler):
                met += gc.get_referents(thing)
    assert compiled.origins and not any(isinstance(thing, Node) for thing in seen.values())
    assert isinstance(compiled.grammar, Grammar) and compiled.grammar.rules.keys() == compiled.origins.keys()


def test_a_schema_changed_after_compiling_is_refused() -> None:
    """The explanation uses the compiled schema, not its later state."""
    schema = {"enum": [1, 2]}
    compiled = GrammarCompiler(BYTES).compile_json_schema(schema)
    assert guided.sequence("x", compiled)
    schema["enum"].append(3)
    with pytest.raises(SpecError, match="changed since it was compiled"):
        guided.sequence("x", compiled)
