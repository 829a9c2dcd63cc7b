"""The extensions of Lark's notation: samples, with llguidance as a second judge, and random terminals."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.effort import examples
from tests.lark_dialect_samples import NAMED, SAMPLES, WITH_NAMED

SPECIAL = {257: "<think>", 258: "</think>", 259: "<|tool|>"}
TOKENS = [bytes([code]) for code in range(256)]
COMPILER = GrammarCompiler(Vocabulary(TOKENS, eos_token_ids=[256], special_tokens=SPECIAL, size=262))
LLGUIDANCE_DIFFERS = {
    ("lazy, nothing", "1."): "its documentation says that a lazy /[0-9]*/ matches the empty text only",
    ("options: no ignored text first", "a_ b__"): "it takes the first ignored character for the whole lexeme",
}
LLGUIDANCE_REFUSES = frozenset(
    {"braces, none", "conditions", "options: ignored text first", "at most so many characters"}
)  # as llguidance 1.9.1 reads them: {0}, bit_count_eq, %grammar_options, max_chars
LLGUIDANCE_CANNOT = frozenset({"options: ignored once"})  # only in a later version


def accepts(grammar: CompiledGrammar, text: str) -> bool:
    matcher = GrammarMatcher(grammar)
    return matcher.accept_string(text) and matcher.is_accepting()


def judged(text: str, yes: list[str], no: list[str], **options: Any) -> None:
    grammar = COMPILER.compile_lark(text, **options)
    for each in yes:
        assert accepts(grammar, each), each
    for each in no:
        assert not accepts(grammar, each), each


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name: str) -> None:
    judged(*SAMPLES[name])


@pytest.mark.parametrize("name", WITH_NAMED)
def test_samples_with_named_grammars(name: str) -> None:
    judged(*WITH_NAMED[name], grammars=NAMED)


def test_the_table_is_large() -> None:
    assert sum(len(yes) + len(no) for _, yes, no in SAMPLES.values()) >= 400


@pytest.mark.parametrize("name", [name for name in SAMPLES if "lark" not in name])
def test_verdicts_match_llguidance(name: str) -> None:
    llguidance = pytest.importorskip("llguidance", reason="llguidance is not installed")
    text, yes, no = SAMPLES[name]
    if name in LLGUIDANCE_CANNOT:
        pytest.skip("this version of llguidance does not have the option")

    class Wrapped:
        def __init__(self) -> None:
            self.eos_token_id, self.bos_token_id = 256, None
            self.tokens, self.special_token_ids = [*TOKENS, b"</s>"], [256]

        def __call__(self, text: str | bytes) -> list[int]:
            return list(text.encode() if isinstance(text, str) else text)

    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Wrapped()))
    grammar = llguidance.LLMatcher.grammar_from_lark(text)
    assert llguidance.LLMatcher(tokenizer, grammar).is_error() == (name in LLGUIDANCE_REFUSES)
    for each, accepted in [(one, True) for one in yes] + [(one, False) for one in no]:
        matcher = llguidance.LLMatcher(tokenizer, grammar)
        same = (all(map(matcher.consume_token, each.encode())) and matcher.is_accepting()) == accepted
        if name not in LLGUIDANCE_REFUSES:
            assert same != ((name, each) in LLGUIDANCE_DIFFERS), each


# --- random terminals, judged by re

ALPHABET = "ab."
LEAVES = st.sampled_from(["/a/", "/b+/", '"ab"', "/[ab]{1,2}/", '"."', "/a?b/", '"a".."b"', "/.*/"])


@st.composite
def expressions(draw: st.DrawFn) -> tuple[str, Any]:
    """A terminal's expression, and a judge, which decides whether a text is one of the terminal's."""
    if draw(st.integers(0, 3)) == 0:
        leaf = draw(LEAVES)
        pattern = {"/": leaf[1:-1]}.get(leaf[0]) or ("[a-b]" if ".." in leaf else re.escape(leaf[1:-1]))
        return leaf, lambda text: re.fullmatch(pattern, text) is not None
    kind = draw(st.sampled_from(["|", "&", "~", "seq", "?", "+", "{"]))
    one, judge = draw(expressions())
    if kind == "~":
        return f"~({one})", lambda text: not judge(text)
    if kind == "?":
        return f"({one})?", lambda text: text == "" or judge(text)
    if kind in ("+", "{"):
        low, high = (1, 4) if kind == "+" else (draw(st.integers(0, 2)), 2)

        def repeated(text: str, count: int = 0) -> bool:
            if text == "":
                return count >= low or judge("")
            return count < high + 3 * (kind == "+") and any(
                judge(text[:at]) and repeated(text[at:], count + 1) for at in range(1, len(text) + 1)
            )

        return (f"({one})+" if kind == "+" else f"({one}){{{low},{high}}}"), repeated
    other, judge_other = draw(expressions())
    if kind == "|":
        return f"({one} | {other})", lambda text: judge(text) or judge_other(text)
    if kind == "&":
        return f"({one} & {other})", lambda text: judge(text) and judge_other(text)
    return f"({one} {other})", lambda text: any(
        judge(text[:at]) and judge_other(text[at:]) for at in range(len(text) + 1)
    )


TEXTS = ["".join(chars) for length in range(5) for chars in itertools.product(ALPHABET, repeat=length)]


@examples(60)
@given(expressions())
def test_random_terminals(drawn: tuple[str, Any]) -> None:
    expression, judge = drawn
    expected = {text for text in TEXTS if judge(text)}
    grammar = COMPILER.compile_lark(f'start: "<" T? ">" | "<"\nT: {expression} & /[ab.]*/\n', semantics="scannerless")
    found = {text for text in TEXTS if accepts(grammar, f"<{text}>")}
    assert found == expected | {""}


@examples(60)
@given(expressions(), st.sampled_from(["lazy", 'suffix="b"', 'stop="b"', "max_chars=2"]))
def test_random_attributes(drawn: tuple[str, Any], attribute: str) -> None:
    expression, judge = drawn
    grammar = COMPILER.compile_lark(f'start: "<" t ">" | "<"\nt[{attribute}]: ({expression} & /[ab.]*/)\n')
    texts = {text for text in TEXTS if judge(text)}
    if attribute.startswith("suffix"):
        texts = {text for text in TEXTS if text.endswith("b") and text[:-1] in texts}
    if attribute == "lazy" or attribute.startswith("suffix"):
        texts = {text for text in texts if not any(text[:at] in texts for at in range(len(text)))}
    elif attribute.startswith("stop"):
        texts = {text for text in texts if "b" not in text}
    else:
        texts = {text for text in texts if len(text) <= 2}
    assert {text for text in TEXTS if accepts(grammar, f"<{text}>")} == texts


@examples(40)
@given(st.lists(st.sampled_from(["a", "b", "ab", "ba", "aab"]), max_size=6), st.randoms(use_true_random=False))
def test_substrings_are_consecutive_chunks(chunks: list[str], rng: random.Random) -> None:
    grammar = COMPILER.compile_lark("start: %regex " + f'{{"substring_chunks": {chunks}}} "."'.replace("'", '"'))
    expected = {"".join(chunks[low:high]) for low in range(len(chunks) + 1) for high in range(low, len(chunks) + 1)}
    texts = expected | {"".join(rng.choice("ab") for _ in range(rng.randint(0, 6))) for _ in range(30)}
    for text in texts:
        assert accepts(grammar, text + ".") == (text in expected), text


# --- tokens, policy, warnings


def test_tokens_of_the_vocabulary() -> None:
    text = "start: <think> /[a-z]*/ </think> <[65,70-72]> <[^97-255]> <[*]>"
    with pytest.raises(guided.SpecError, match="references to tokens by name or id are not allowed in this call"):
        COMPILER.compile_lark(text)
    grammar = COMPILER.compile_lark(text, allow_special_tokens=True)
    for tokens, accepted in [
        ((257, 97, 98, 258, 71, 96, 97), True),
        ((257, 258, 65, 0, 255), True),  # a token need not be a character
        ((257, 258, 65, 0, 65), True),
        ((257, 258, 66, 0, 65), False),
        ((257, 258, 65, 97, 65), False),
        ((257, 65, 258, 65, 0, 65), False),
        ((258, 257), False),
    ]:
        matcher = GrammarMatcher(grammar)
        assert (all(map(matcher.accept_token, tokens)) and matcher.is_accepting()) == accepted, tokens
    assert not GrammarMatcher(grammar).accept_string("<think>")
    with pytest.raises(guided.VocabularyError, match="<nothink>"):
        COMPILER.compile_lark("start: <nothink>", allow_special_tokens=True)


def test_others_may_be_excluded_without_permission() -> None:
    grammar = COMPILER.compile_lark("start: <[^65-90]>")
    assert GrammarMatcher(grammar).accept_token(97) and not GrammarMatcher(grammar).accept_token(65)


def test_semantics_of_texts_with_extensions() -> None:
    assert COMPILER.compile_lark('start: A{2}\nA: /a+/\n%ignore " "') is not None
    assert not accepts(COMPILER.compile_lark('start: A{2}\nA: /a+/\n%ignore " "'), "aa")  # a lexer accepts both
    assert accepts(COMPILER.compile_lark('start: A{2}\nA: /a+/\n%ignore " "'), "a a")
    assert accepts(COMPILER.compile_lark('start: A{2}\nA: /a+/\n%ignore " "', semantics="scannerless"), "aa")
    with pytest.raises(guided.UnsupportedError, match="a lexer cannot find %json"):
        COMPILER.compile_lark("start: %json {}", semantics="lexer")


def test_schemas_take_the_options() -> None:
    text = 'start: "<" %json {"type": "object", "properties": {"a": {"type": "integer"}}} ">"'
    assert accepts(COMPILER.compile_lark(text), '<{ "b": 1}>')
    closed = COMPILER.compile_lark(text, whitespace="compact", additional_properties=False)
    assert accepts(closed, '<{"a":1}>') and not accepts(closed, '<{ "a":1}>') and not accepts(closed, '<{"b":1}>')


def test_unenforced_options_cause_warnings() -> None:
    with pytest.warns(guided.GuidedWarning, match="unknown"):
        COMPILER.compile_lark('start: %json {"unknown": 1}')


def test_named_grammars_that_are_specifications() -> None:
    grammars = {"number": guided.regex("[0-9]+"), "choice": guided.choice("x", "y")}
    judged('start: "[" @number ":" @choice "]"', ["[12:x]"], ["[:x]", "[1:z]"], grammars=grammars)


def test_in_a_composition() -> None:
    part = guided.lark('start: "<" %json {"type": "boolean"} ">"{2,3}')
    grammar = COMPILER.compile("a" + part + "b")
    assert accepts(grammar, "a<true>>b") and not accepts(grammar, "a<true>b")


def test_walks_end() -> None:
    rng = random.Random(1)
    vocabulary = COMPILER.vocabulary
    for name in ("tools", "edits", "a permutation", "lark: recursion, json and ignored text", "words in a terminal"):
        grammar = COMPILER.compile_lark(SAMPLES[name][0])
        mask = guided.allocate_token_bitmask(1, vocabulary.size)
        for _ in range(5):
            matcher, left = GrammarMatcher(grammar), 120
            while not matcher.is_terminated():
                matcher.fill_next_token_bitmask(mask, max_tokens=left)
                token = rng.choice(guided.allowed_tokens(mask))
                assert matcher.accept_token(int(token))
                left -= 1
