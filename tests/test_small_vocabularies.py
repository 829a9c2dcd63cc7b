"""Vocabularies that lack characters, such as those of character models: a grammar with a lexer allows exactly the texts
of the full grammar that the vocabulary can write. The judge is the same grammar with a full vocabulary.
"""

from __future__ import annotations

import itertools

import pytest

import guided
from guided.errors import VocabularyError
from guided.matching.native import NativeCompiler
from tests.effort import every

FULL = [b"a", b"b", b"c"]
GRAMMARS = [
    'start: "a" | "c"',
    'start: "a" "c" | "b" | "bb" "a"',
    # "bb" is tried first, although only "c" can follow it, so "bbb" is not split into "b" and "bb".
    'start: T "c" | x T?\nx: /[ab]/\nT: /b[ab]/',
    'start: NAME | KEY "a"\nNAME: /[abc]+/\nKEY: "c"',
    'start: NAME+ "a"? | "ca" NAME\nNAME: /[ab]c?|cc/\n%ignore "c"',
    "start: (A | B)+\nA.2: /ac|c/\nB: /a|bc?/",
    'start: "a" x? | x "b"\nx: "c" | "b" "cc" "a"',
]
SETS = [[b"a", b"b"], [b"a"], [b"b"], [b"a", b"b", b"ab"], [b"a", b"b", b"bba"], [b"c"], [b"a", b"c", b"ca"]]


def compile_lark(text: str, tokens: list[bytes], lexer: str) -> guided.CompiledGrammar:
    vocabulary = guided.Vocabulary(tokens, eos_token_ids=[len(tokens)])
    return guided.GrammarCompiler(vocabulary, cache_bytes=0).compile_lark(text, lexer=lexer)  # type: ignore[arg-type]


def accepts(grammar: guided.CompiledGrammar, text: str) -> bool:
    matcher = guided.GrammarMatcher(grammar)
    return matcher.accept_string(text) and matcher.is_accepting()


def list_texts(grammar: guided.CompiledGrammar, letters: str, most: int = 8) -> set[str]:
    texts = ("".join(chars) for length in range(most + 1) for chars in itertools.product(letters, repeat=length))
    return {text for text in texts if accepts(grammar, text)}


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("text", every(2, GRAMMARS))
def test_the_writable_texts_of_the_full_grammar_are_allowed(text: str, lexer: str) -> None:
    full, compiled_count = compile_lark(text, FULL, lexer), 0
    for tokens in SETS:
        letters = "".join(sorted(set(b"".join(tokens).decode())))
        expected = list_texts(full, letters)
        try:
            grammar = compile_lark(text, tokens, lexer)
        except VocabularyError:
            assert not expected, tokens
            continue
        compiled_count += 1
        bitmask = guided.allocate_token_bitmask(1, len(tokens) + 1)
        prefixes = {text[:length] for text in expected for length in range(len(text) + 1)}
        for prefix in filter(lambda prefix: len(prefix) < 5, prefixes):
            matcher = guided.GrammarMatcher(grammar)
            assert matcher.accept_string(prefix)
            matcher.fill_next_token_bitmask(bitmask)
            allowed = set(guided.allowed_tokens(bitmask))
            next_tokens = {number for number, token in enumerate(tokens) if prefix + token.decode() in prefixes}
            assert allowed == next_tokens | ({len(tokens)} if prefix in expected else set()), (tokens, prefix)
    assert compiled_count > 1


def test_a_vocabulary_that_can_write_no_output_is_refused() -> None:
    for text in ('start: "c"', 'start: "a" "c"', 'start: x "a"\nx: x "a" | "c"'):
        with pytest.raises(VocabularyError, match="cannot write any text of terminal C") as caught:
            compile_lark(text, [b"a", b"b"], "contextual")
        assert caught.value.concerns_specification
    with pytest.raises(guided.SpecError, match="allows no output"):
        compile_lark('start: x "a"\nx: x "a"', [b"a", b"b"], "contextual")


def test_a_grammar_without_a_table_is_refused_if_a_terminal_cannot_be_written() -> None:
    """The terminals that the lexer tries depend on the rules, so a rule must not be left out."""
    text = 'start: x x "c" | "a"\nx: "a" x | x "a" | "a"'
    with pytest.raises(VocabularyError, match="cannot write any text of terminal C") as caught:
        compile_lark(text, [b"a"], "contextual")
    assert 'semantics="scannerless"' in caught.value.hint
    assert list_texts(compile_lark(text, [b"a"], "basic"), "a") == {"a"}


def test_cached_and_stored_grammars_are_found(tmp_path) -> None:
    vocabulary = guided.Vocabulary([b"a", b"b"], eos_token_ids=[2])
    for _ in range(2):
        compiler = guided.GrammarCompiler(vocabulary, cache_dir=tmp_path)
        grammar = compiler.compile_lark('start: "a" | "c"')
        assert compiler.compile_lark('start: "a" | "c"') is grammar and list_texts(grammar, "ab") == {"a"}
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("tokens", [FULL, ["é€".encode(), b"\xe2", b"\xf0\x9f\x98\x80"], [bytes(range(256))], []])
def test_the_alphabet_of_a_vocabulary(tokens: list[bytes]) -> None:
    ranges = NativeCompiler(guided.Vocabulary([*tokens, b"x"], eos_token_ids=[len(tokens) + 1])).find_alphabet()
    live_bytes = set(b"".join(tokens) + b"x")
    chars = [
        code for code in range(0x110000) if not 0xD800 <= code < 0xE000 and live_bytes.issuperset(chr(code).encode())
    ]
    assert [code for low, high in ranges for code in range(low, high + 1)] == chars
