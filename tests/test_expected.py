"""Names of the characters that may follow, which messages use instead of bytes; compared with masks and brute force."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided import GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask, allowed_tokens
from guided.errors import SpecError, marked_line
from guided.ir.ranges import ALL_CHARS, charset, complement, intersect
from guided.matching.explain.characters import count, describe, join_with_or, name_of, parts_of
from guided.matching.explain.error_location import error_location_of
from guided.matching.sentences import byte_vocabulary
from tests.effort import examples

ALPHABET = 'aAfz09_ ,.\t\n"\\éß語読詞\u0301\u200b😀😁'  # of one to four bytes, some of them with the same first bytes
BYTES = GrammarCompiler(byte_vocabulary())
CHARACTERS = GrammarCompiler(Vocabulary([c.encode() for c in ALPHABET], eos_token_ids=[len(ALPHABET)]))
SETS = st.lists(st.tuples(st.integers(0, 0x10FFFF), st.sampled_from([0, 1, 2, 5, 40, 5000])), max_size=8).map(
    lambda pairs: charset((low, min(low + width, 0x10FFFF)) for low, width in pairs)
) | st.sets(st.sampled_from(ALPHABET)).map(lambda chosen: charset((ord(c), ord(c)) for c in chosen))
PATTERNS = st.recursive(
    st.sampled_from([*map(re.escape, ALPHABET), r"\w", r"\d", r"\s", ".", r"[^\W\d]", "[^a語]", "[語読詞]"]),
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map("|".join).map("({})".format)
        | inner.map("({})*".format)
    ),
    max_leaves=6,
)


def by_bytes(pattern: str) -> GrammarMatcher:
    return GrammarMatcher(BYTES.compile_regex(pattern))


@given(PATTERNS, st.text(ALPHABET, max_size=6))
@examples(100)
def test_expected_characters_equal_the_mask(pattern, text):
    by_byte, by_character = by_bytes(pattern), GrammarMatcher(CHARACTERS.compile_regex(pattern))
    bitmask = allocate_token_bitmask(1, CHARACTERS.vocabulary.size)
    for character in text:
        if not by_byte.accept_string(character):
            break
        assert by_character.accept_string(character)
    for matcher in (by_byte, by_character):
        expected = matcher.explain().expected
        by_character.fill_next_token_bitmask(bitmask)
        allowed = allowed_tokens(bitmask)
        if matcher is by_character:  # the vocabulary has no other characters, so nothing else can be expected
            assert count(expected.characters) == len(allowed) - expected.end
        assert {c for c in ALPHABET if c in expected} == {ALPHABET[id] for id in allowed if id < len(ALPHABET)}
        assert expected.end == (len(ALPHABET) in allowed) == matcher.is_accepting()
        assert not re.search(r"0x|\\x", str(expected))


@given(PATTERNS, st.text(ALPHABET, max_size=6))
@examples(100)
def test_a_text_is_allowed_up_to_a_whole_character(pattern, text):
    matcher = by_bytes(pattern)
    explanation = matcher.explain(text)
    front = text[: explanation.characters_read]
    assert front.encode() == text.encode()[: explanation.read]
    assert matcher.fork().accept_string(front)
    rest = text[len(front) :]
    assert explanation.accepted == (not rest)
    assert not rest or not matcher.fork().accept_string(front + rest[0])
    after = matcher.fork()
    after.accept_string(front)
    assert explanation.expected == after.explain().expected
    assert not rest or rest[0] not in explanation.expected


@given(SETS | SETS.map(complement))
def test_the_parts_are_the_set_and_few(characters):
    parts = parts_of(characters)
    assert charset(bounds for part in parts for bounds in part.characters) == characters
    assert sum(count(part.characters) for part in parts) == count(characters)
    assert len(parts) <= 6
    assert not re.search(r"0x|\\x", describe(characters))


@given(st.sampled_from([r"\w", r"\d", r"\s", "[a-zA-Z]", "[a-z]", "[A-Z]", "[0-9a-fA-F]", r"[\x00-\x1f]", "."]))
def test_classes_have_names(pattern):
    names = {
        r"\w": "a letter, digit or underscore of any script",
        r"\d": "a digit of any script",
        r"\s": "whitespace of any kind",
        "[a-zA-Z]": "a letter",
        "[a-z]": "a lowercase letter",
        "[A-Z]": "an uppercase letter",
        "[0-9a-fA-F]": "a hexadecimal digit",
        r"[\x00-\x1f]": "a control character",
        ".": "any character but a line break",
    }
    expected = by_bytes(pattern).explain().expected
    assert str(expected) == names[pattern]
    assert all((re.fullmatch(pattern, chr(code)) is not None) == (chr(code) in expected) for code in range(0x3000))


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("[a-zA-Z語]", "a letter or 語"),
        ("[0-9]?", "a digit or the end"),
        ("[1-9]", "a digit from 1 to 9"),
        ("[0-24-9]", "a digit other than '3'"),
        ("[b-df-z]", "a lowercase letter other than 'a' or 'e'"),
        ('[^"]', "any character but a quotation mark"),
        (r'[^"\\\x00-\x1f]', "any character but a control character, a quotation mark or a backslash"),
        ("[\t\n\r ]", "whitespace"),
        ("[ ]", "a space"),
        ("[\u200b\u0301]", "U+0301 (combining acute accent) or U+200B (zero width space)"),
        ("[ぁ-ん]", "a character from ぁ to ん"),
        (r"[\s\S]", "any character"),
        ("[acegikmoqsuwy]", "'a', 'c', 'e', 'g', 'i' or one of 8 other characters"),
        ("a", "'a'"),
    ],
)
def test_words(pattern, words):
    matcher = by_bytes(pattern)
    assert str(matcher.explain().expected) == words
    assert str(matcher.explain()) == f"expected {words}"


def test_every_character_is_any_character():
    assert describe(ALL_CHARS) == "any character"
    assert describe(()) == "nothing"


@given(st.characters())
def test_a_name_is_of_one_character(character):
    names = {name_of(chr(code)) for code in (ord(character), ord(character) ^ 1) if not 0xD800 <= code <= 0xDFFF}
    assert len(names) == len({ord(character), ord(character) ^ 1} - set(range(0xD800, 0xE000)))


# --- inside a character


@given(st.lists(st.text("a語読詞😀é", min_size=1, max_size=3), min_size=1, max_size=4), st.data())
@examples(100)
def test_tokens_that_hold_parts_of_characters(choices, data):
    pieces = {text.encode()[i:j] for text in choices for i in range(9) for j in range(i + 1, i + 4)} - {b""}
    tokens = sorted(pieces | {bytes([b]) for text in choices for b in text.encode()})
    compiler = GrammarCompiler(Vocabulary(tokens, eos_token_ids=[len(tokens)]))
    matcher = GrammarMatcher(compiler.compile_choice(choices))
    written = b""
    while not matcher.is_terminated():
        bitmask = allocate_token_bitmask(1, len(tokens) + 1)
        matcher.fill_next_token_bitmask(bitmask)
        expected = matcher.explain().expected
        start = len(written) - next(n for n in range(4) if not is_cut_at(written, n))
        following = {text[len(written[:start].decode()) :][:1] for text in choices if text.encode().startswith(written)}
        assert expected.incomplete == written[start:]
        assert {chr(c) for low, high in expected.characters for c in range(low, high + 1)} == following - {""}
        if start < len(written):
            assert str(expected) == f"the rest of {join_with_or(sorted(following))}"
        token = data.draw(st.sampled_from(allowed_tokens(bitmask)))
        assert not re.search(r"0x|\\x", str(matcher.explain(matcher.grammar.vocabulary.token_bytes(token) or "")))
        matcher.forced_tokens()
        matcher.accept_token(token)
        written += tokens[token] if token < len(tokens) else b""
    assert written.decode() in choices


def is_cut_at(data: bytes, back: int) -> bool:
    try:
        data[: len(data) - back].decode()
    except UnicodeDecodeError:
        return True
    return False


def test_the_rest_of_a_character():
    matcher = GrammarMatcher(BYTES.compile_regex("語|読|[a-z]"))
    matcher.accept_token(0xE8)
    assert str(matcher.explain()) == "expected the rest of 語 or 読"
    assert str(matcher.explain(b"\xaa\x9e")) == "allowed; next is the end"
    assert str(matcher.explain(b"\xff")) == "the byte 0xff is not allowed: expected the rest of 語 or 読"
    many = GrammarMatcher(BYTES.compile_regex("[一-龥]"))
    assert str(many.explain(b"\xe8")) == ("allowed; next is the rest of one of 4,096 characters that begin like this")
    known = GrammarMatcher(BYTES.compile_regex("a語|b詞"))
    known.accept_string(b"b\xe8\xa9")
    assert str(known.explain()) == 'expected the rest of 詞 (alternative 2 of 2, inside of "b詞")'
    alike = GrammarCompiler(Vocabulary([bytes([b]) for b in range(256)] + ["語".encode()[:2]], eos_token_ids=[257]))
    matcher = GrammarMatcher(
        alike.compile_regex("x?[語詞]")
    )  # both end with the same bytes, but a token begins only one of them
    matcher.accept_string(b"x\xe8\xa9")
    assert str(matcher.explain()) == "expected the rest of 詞 (inside of [詞語])"
    matcher.reset()
    matcher.accept_token(256)
    assert str(matcher.fork().explain()) == "expected the rest of 語 (inside of [詞語])"
    known.rollback(1)
    assert str(known.explain(b"b\xe8")) == ('allowed; next is the rest of 詞 (alternative 2 of 2, inside of "b詞")')
    assert str(known.explain("b語")) == (
        "'b語' is not allowed from character 2 on, 語: expected 詞 (alternative 2 of 2, inside of \"b詞\")"
    )


def test_forced_text_that_begins_inside_of_a_character():
    matcher = GrammarMatcher(BYTES.compile_choice(["語ab"]))
    matcher.accept_token(0xE8)
    assert matcher.forced_tokens() == []


def test_an_explanation_names_characters():
    matcher = GrammarMatcher(BYTES.compile_regex("[a-zA-Z]*語"))
    explanation = matcher.explain("ab1")
    assert repr(explanation) == (
        "Explanation(accepted=False, reason=\"'ab1' is not allowed from character 3 on, '1': "
        'expected a letter or 語 (after [A-Za-z]*)")'
    )
    assert repr(explanation.expected) == "Expected('a letter or 語')"
    assert str(matcher.explain("é")) == "é is not allowed: expected a letter or 語 (after [A-Za-z]*)"


# --- locations


def caret_under(text: str, marked: str) -> bool:
    """Whether the carets of a marked line are under `marked`, on a terminal with a tab stop every 8 columns."""
    wide = set("語読詞")

    def column(line: str, end: int) -> int:
        at = 0
        for c in line[:end]:
            at = at + 8 - at % 8 if c == "\t" else at + (2 if c in wide else 0 if c == "\u0301" else 1)
        return at

    shown, below = marked_line(text, (text.index(marked), text.index(marked) + len(marked))).split("\n")
    begin = column(shown, shown.index(marked))
    width = column(shown, shown.index(marked) + len(marked)) - begin
    first = below.index("^")
    return column(below, first) == begin and below.count("^") == width


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("ab", "b"),
        ("語語b", "b"),
        ("\tx\tyz", "yz"),
        ("e\u0301b", "b"),
        ("a語b", "語"),
        ("x\n\t語=?", "?"),
        ("a" * 99 + "b", "b"),
    ],
)
def test_the_caret_stands_under_what_is_meant(text, marked):
    assert caret_under(text, marked)


def test_places_count_characters():
    grammar = BYTES.compile_regex("[a-z語\n]*")
    place = error_location_of(grammar, "a語\n語é".encode())
    assert (place.offset, place.line, place.column) == (4, 2, 2)
    assert str(place) == (
        "    語é\n      ^\nline 2, column 2: not allowed here; expected a lowercase letter, a line break, 語 or the end"
    )
    assert place.fields()["expected_characters"] == [["\n", "\n"], ["a", "z"], ["語", "語"]]
    cut = error_location_of(grammar, "a語".encode()[:-1])
    assert str(cut).endswith("ends too early; expected the rest of 語")
    bad = error_location_of(grammar, b"a\xffb")
    assert (bad.offset, bad.column) == (1, 2)


def test_errors_of_specifications_count_characters():
    with pytest.raises(SpecError, match=r"\(line 1, column 3\)\n    語語\(\n        \^\n"):
        BYTES.compile_regex("語語(")


def test_sets_of_the_core_match_python():
    for pattern in (r"[\u0080-\u07ff]", r"[\ud7ff\ue000]", r"[\U00010000-\U0010ffff]", r"[^\x00]"):
        found = by_bytes(pattern).explain().expected.characters
        wanted = (0, 1, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF)
        inside = [code for code in wanted if re.fullmatch(pattern, chr(code))]
        assert [code for code in wanted if intersect(found, ((code, code),))] == inside
