"""Patterns in Rust's notation have the meaning of Rust's crate. The judge is llguidance, which uses this crate."""

from __future__ import annotations

import itertools
import re

import pytest

import guided
import guided.compat.llguidance
import guided.compat.xgrammar as xgr
from guided.compat.rust_anchors import strip_anchors
from guided.frontends.regex.rust_syntax import to_python_regex

PATTERNS = [
    r"[a&&[^b]]", r"\p{Lu}[[:digit:]]\x{41}", "a(?i)b", "a(?i)b|c", "(a(?i)b|c)d", r"\w", r"\s", r"\W", r"\S",
    r"[\w--\d]", "[a-c&&b-d]", r"\pL", r"\PL", r"\p{Greek}", r"\p{greek}", r"\p{Script=Greek}", "[[:^digit:]]",
    "(?P<x>a)", "(?<x>a)", "(?i:a)b", "(?s).", ".", r"\x41", r"\u{41}", r"\u0041", r"\U00000041", "[]a]", "[^]a]",
    r"[a\]]", "[a-c[x-z]]", "(?U)a+", "(?x) a b #c", r"[a-\x{63}]", r"\d", r"[\d]", r"[\s]", r"[\D]", r"\p{sc=Latin}",
    "[~~a]", "[a~~b]", "[ab~~bc]", r"\-", "[-a]", "[a-]", r"\p{Letter}", r"\p{Uppercase_Letter}",
    r"\p{uppercase letter}", r"\p{Alphabetic}", r"\p{Emoji}", r"[\p{Lu}\d]", r"[^\W\d]", "(?i-s:A.)", "a|(?i)b|c",
    "[]-a]", "[^]-a]", "[--a]", "[---a]",
    "[^--a]", "[-]", r"[\x{5e}a]", "[[ab]^c]", "[a\n[^b]]", r"[[\]-\x{5d}]|a]", r"[\x{2d}a\x{2f}]",
    r"\P{Greek}", r"[[:alpha:]&&[^c-z]]", "a{2}", "(?:a|b){1,2}", "(?x)[a b]", "(?x)[ ^ a b ]", "(?x)[a - c]",
    r"(?x)[\ a]", "(?x)[ ] a]", "(?x)[ - a]", "(?x)[a -]", "(?x)[[ a ] b]", "(?x)[ [:al pha:]]", "(?x)[ab && b]",
    "(?x: [a b] )[a b]?", "(?x)(?-x)[a b]", "(?x)a|(?-x)b |c ", "(?x)a(?-x: |b)b?", "(?x)a\u00a0b", "(?x)[a\u2003b]",
    "(?x)a{ 1 , 2 }", "a{ 2 }", "(?x)a+ ?", "(?x)a{2} ?", "(?x)( ?:a)b", "a++a", "a**", "a+?+b", "(?:a{2})?+b",
]  # fmt: skip
TEXTS = [
    "a", "b", "c", "d", "x", "A", "B", "C", "aB", "ab", "AB", "aa", "É1A", "É٣A", "cd", "Cd", "ABd", "aBd", "\u0301",
    "٣", "α", "\x1c", "\x85", " ", "\n", "]", "-", "~", "é", "1", "_", "!", "",
]  # fmt: skip
LIMITS = guided.Limits()
COMPILER = guided.GrammarCompiler(guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]))


def accepts(pattern, text):
    matcher = guided.GrammarMatcher(COMPILER.compile_regex(to_python_regex(pattern, LIMITS)))
    return matcher.accept_string(text) and matcher.is_accepting()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_verdicts_match_llguidance(pattern):
    llguidance = pytest.importorskip("llguidance", reason="llguidance is not installed")
    tokenizer = llguidance.LLTokenizer("byte")
    for text in TEXTS:
        matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_regex(pattern), log_level=0)
        assert not matcher.is_error()
        tokens = tokenizer.tokenize_str(text)
        wanted = matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()
        assert accepts(pattern, text) == wanted, text


@pytest.mark.parametrize(
    ("pattern", "plain"),
    [
        ("(?x)[a # ]\n b]", "[ab]"), ("(?x)a # )\n b", "ab"), ("(?x)a#", "a"), ("(?x: a # )\n) b", "a b"),
        ("(?x)a{ # 3\n2,# 3\n}", "a{2,}"), ("(?x)[b - # ]\n a]", None), ("(?x)[a#\n-#\nb]c", "[a-b]c"),
        ("(?x)[a - # b\n]", "[-a]"), ("(?-x)a#b\n", "a#b\n"), (r"(?x)\#a[\#]", "#a#"),
    ],
)  # fmt: skip
def test_comments_in_verbose_patterns(pattern, plain):
    if plain is None:
        with pytest.raises(guided.SpecError, match="invalid character class range"):
            to_python_regex(pattern, LIMITS)
        return
    for length in range(4):
        for letters in itertools.product("ab#-\n c", repeat=length):
            text = "".join(letters)
            assert bool(re.fullmatch(to_python_regex(pattern, LIMITS), text)) == bool(re.fullmatch(plain, text)), text


@pytest.mark.parametrize(
    "pattern", ["a+b", r"[^\"\\]*", r"\d{2,3}", "(?:x|y)?", "a+?b*?", "é", r"\.\*", "[a-z]", "(?=a)a"]
)
def test_common_syntax_is_unchanged(pattern):
    assert to_python_regex(pattern, LIMITS) == pattern


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"\p{Nonsense}", "not a Unicode property"), ("[[:nonsense:]]", "not a character class"), ("[a&&", "unclosed"),
        (r"[z-\x{61}]", "invalid character class range"), (r"\x{110000}", "is not a character"),
        (r"[\q--a]", "unrecognized escape"), (r"\<a", "is not enforced"), (r"\b{start}a", "is not enforced"),
        ("(?-u)a", "is not enforced"), ("(?R)a", "is not enforced"), ("(?x)[#]\n]b#", "unclosed character class"),
        ("(?x)( ? i)a", "whitespace after"), ("a" + 251 * "+", "repetitions nest deeper than 250"),
    ],
)  # fmt: skip
def test_errors_and_refusals_have_a_location(pattern, message):
    with pytest.raises((guided.SpecError, guided.UnsupportedError), match=message) as found:
        to_python_regex(pattern, LIMITS)
    start, end = found.value.span
    assert 0 <= start < end <= len(pattern) and found.value.text == pattern


@pytest.mark.parametrize(
    ("pattern", "plain"),
    [
        ("a$$", "a"), (r"^^a\z$", "a"), (r"a\$$", r"a\$"), (r"a\\$$", r"a\\"),
        ("^a$", "a"), ("^a$|^b$", "a|b"), (r"\Aa\z", "a"), (r"a\$", r"a\$"), (r"a\\$", r"a\\"), ("(^a$)", "(^a$)"),
        ("[|^$]", "[|^$]"), (r"(a|b)$", "(a|b)"), ("(?i)^a", "(?i)a"), ("^", ""), ("$", ""), (r"\|^a", r"\|^a"),
    ],
)  # fmt: skip
def test_anchors_around_a_whole_text(pattern, plain):
    assert strip_anchors(pattern) == plain
    for text in ("a", "b", "A", "|", "a$", "a\\", "", "^"):
        search = re.fullmatch(pattern.replace(r"\z", r"\Z"), text) is not None
        assert search == (re.fullmatch(plain, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "plain"),
    [
        ("[[ab]|^c]", "[[ab]|^c]"), ("^[[^]a]|^c]|^[]|^b]$", "[[^]a]|^c]|[]|^b]"), (r"[\[]|^a", r"[\[]|a"),
        ("[[:alpha:]|^]|^b", "[[:alpha:]|^]|b"), ("[a|^b", "[a|^b"), (r"[[\]]|^a]|^b", r"[[\]]|^a]|b"),
    ],
)  # fmt: skip
def test_characters_in_classes_are_not_anchors(pattern, plain):
    assert strip_anchors(pattern) == plain


@pytest.mark.parametrize(
    "pattern", ["[[ab]|^c]", r"[\x{5e}a]", r"[a\x{5d}\x{5c}\x{2d}b]", "[--a]", r"[[\n]\x{2f}]", r'[["]a]']
)
def test_classes_mean_the_same_in_a_lark_grammar(pattern):
    llguidance = pytest.importorskip("llguidance", reason="llguidance is not installed")
    verdicts = []
    for library in (llguidance, guided.compat.llguidance):
        tokenizer, grammar = library.LLTokenizer("byte"), library.LLMatcher.grammar_from_regex(pattern)
        matchers = [(library.LLMatcher(tokenizer, grammar, log_level=0), byte) for byte in range(128)]
        verdicts.append([byte for matcher, byte in matchers if matcher.try_consume_tokens([byte])])
    assert verdicts[0] == verdicts[1] != []


@pytest.mark.parametrize("pattern", ["a)(b", "a|b)(c", "^a)|(b$"])
def test_a_group_that_was_not_opened_is_refused(pattern):
    with pytest.raises(guided.SpecError, match="unopened group"):
        strip_anchors(pattern)
    for library in (guided.compat.llguidance, pytest.importorskip("llguidance", reason="llguidance is not installed")):
        grammar = library.LLMatcher.grammar_from_regex(pattern)
        assert library.LLMatcher(library.LLTokenizer("byte"), grammar, log_level=0).is_error()
    with pytest.raises(RuntimeError, match="Lark error at line 1, column 8: unopened group"):
        xgr.Grammar.from_lark(f"start: /{pattern}/")


def test_a_comment_may_contain_a_parenthesis():
    assert strip_anchors("(?x)a # :)\nb$") == "(?x)a # :)\nb"


def test_the_depth_of_classes_matches_the_crate():
    assert accepts("[" * 250 + "a" + "]" * 250, "a")
    with pytest.raises(guided.SpecError, match="classes nest deeper than 250"):
        to_python_regex("[" * 251 + "a" + "]" * 251, LIMITS)
