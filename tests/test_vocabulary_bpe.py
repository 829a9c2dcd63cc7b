"""Byte-pair encoding and the pre-tokenizers, against definitions that are slow and obvious."""

from __future__ import annotations

import random
import re
import unicodedata
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import VocabularyError
from guided.vocabulary.bpe import ByteLevelEncoder, byte_alphabet, from_byte_alphabet, join, pair_ranks
from guided.vocabulary.categories import category
from guided.vocabulary.pretokenize import PATTERNS, Splitter
from tests.work_support import lines_run

TEXTS = st.text(
    st.one_of(
        st.sampled_from("aAsStTlLvV'’ 019.,!/\n\r\t\x1c\x85\xa0\u3000\u2028ſKéÉßǅʰº²½٣一あ\u0301\u0903😀𝐀\u200d"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=40,
)


def naive(symbols, rank):
    """Join the best pair, found by looking at all of them."""
    symbols = list(symbols)
    while True:
        ranked = [(rank(a, b), k) for k, (a, b) in enumerate(pairwise(symbols)) if rank(a, b) is not None]
        if not ranked:
            return symbols
        place = min(ranked)[1]
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]


@given(
    st.dictionaries(
        st.tuples(st.text("ab", min_size=1, max_size=4), st.text("ab", min_size=1, max_size=4)),
        st.integers(0, 6),
        max_size=12,
    ),
    st.text("ab", max_size=24),
)
def test_join_by_pairs(ranks, text):
    assert join(text, lambda a, b: ranks.get((a, b))) == naive(text, lambda a, b: ranks.get((a, b)))


@given(
    st.dictionaries(st.text("ab", min_size=2, max_size=6), st.integers(0, 6), max_size=12), st.text("ab", max_size=24)
)
def test_join_by_result(ranks, text):
    assert join(text, lambda a, b: ranks.get(a + b)) == naive(text, lambda a, b: ranks.get(a + b))


def test_byte_alphabet():
    alphabet = byte_alphabet()
    assert len(set(alphabet)) == 256 and alphabet[0x20] == "Ġ" and alphabet[0x0A] == "Ċ" and alphabet[0x41] == "A"
    assert all(from_byte_alphabet(alphabet[byte]) == bytes((byte,)) for byte in range(256))
    assert from_byte_alphabet("a b") is None and from_byte_alphabet("漢") is None and from_byte_alphabet("") == b""


def doubling(char: bytes, largest: int) -> dict[bytes, int]:
    return {char * (1 << power): 256 + power for power in range(1, largest)}


def test_long_runs_are_not_quadratic():
    ids = {bytes((byte,)): byte for byte in range(256)} | doubling(b"a", 7) | doubling(b" ", 7)
    encoder = ByteLevelEncoder(ids, splitters=[Splitter(part) for part in PATTERNS["llama3"]])
    for char in "a ":
        assert sum(len(char) << (n - 256 if n > 255 else 0) for n in encoder.encode(char * 100_000)) == 100_000
        small, large = (lines_run(lambda text=char * count: encoder.encode(text)) for count in (5_000, 20_000))
        assert large < 6 * small


def test_bytes_without_a_token_are_named():
    with pytest.raises(VocabularyError, match="0xC3"):
        ByteLevelEncoder({b"a": 0}).encode("aé")
    with pytest.raises(VocabularyError, match="0xC3"):
        ByteLevelEncoder({b"a": 0}, merges={}).encode("aé")


def test_merge_rules():
    assert pair_ranks(["a b", ["ab", "c"], "a b"]) == {("a", "b"): 0, ("ab", "c"): 1}
    for wrong in (["ab"], ["a b c"], [["a"]], [["a", 1]], ["a "]):
        with pytest.raises(VocabularyError, match="merge rule 0"):
            pair_ranks(wrong)


# --- pre-tokenizers


SPLITTERS = [Splitter(pattern) for patterns in PATTERNS.values() for pattern in patterns]


@given(TEXTS)
def test_pieces_join_to_the_text(text):
    for splitter in SPLITTERS:
        assert "".join(splitter.split(text)) == text


def spelled_out(codes) -> str:
    """Code points as the body of a class of `re`."""
    runs = [list(run) for _, run in groupby(enumerate(codes), key=lambda pair: pair[1] - pair[0])]
    return "".join(f"\\U{run[0][1]:08x}-\\U{run[-1][1]:08x}" for run in runs)


@pytest.fixture(scope="module")
def plain_patterns():
    """The patterns with every property written out: what `re` makes of them without the divided alphabet."""
    categories = [category(code) for code in range(0x33480)]  # beyond lie selectors and private use alone
    names = {
        name: spelled_out(code for code, found in enumerate(categories) if found.startswith(name))
        for name in ("L", "N", "M", "Lu", "Lt", "Lm", "Lo", "Ll")
    }
    names["M"] += "\\U000e0100-\\U000e01ef"
    spaces = "".join(chr(c) for c in range(0x3001) if chr(c).isspace() and c not in range(0x1C, 0x20))

    def plain(pattern: str) -> str:
        def body(match: re.Match[str]) -> str:
            inside = pattern.rfind("[", 0, match.start()) > pattern.rfind("]", 0, match.start())
            text = names[match[1]] if match[1] else spaces
            return text if inside else f"[{text}]"

        pattern = pattern.replace(r"\S", f"[^{spaces}]").replace("$", r"\Z")
        return re.sub(r"\\p\{(\w+)\}|\\s", body, pattern)

    return {
        name: re.compile(plain(patterns[-1])) for name, patterns in PATTERNS.items() if name in ("llama3", "tekken")
    }


@given(text=TEXTS)
def test_splits_as_written_out(plain_patterns, text):
    for name, plain in plain_patterns.items():
        expected = [match[0] for match in plain.finditer(text)]
        assert Splitter(PATTERNS[name][-1]).split(text) == expected


def test_categories_are_of_unicode_16():
    assert category(0x1C89) == "Lu" and category(0x2EBF0) == "Lo" and category(0x1FAE9) == "So"
    rng = random.Random(0)
    for code in rng.sample(range(0x110000), 5000):
        known = unicodedata.category(chr(code))
        assert known in ("Cn", category(code)) or code == 0x1171E


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"\p{Han}+", r"property \\p\{Han\}, which is not a general category, at offset 0"),
        (r"a\w+", "escape .w at offset 1"),
        (r"\bx", "escape .b at offset 0"),
        (r"(a)\1", "escape .1 at offset 3"),
        (r"[a&&b]", "'&&' inside a class at offset 2"),
        (r"[[:alpha:]]", r"'\[' inside a class at offset 1"),
        (r"(?P<n>a)", r"the group '\(\?P<' at offset 0"),
        (r"(?i)a", r"the group '\(\?i\)' at offset 0"),
        (r"(?i:é)", "not ASCII where case is ignored"),
        (r"(?i:\p{Lu})", "where case is ignored"),
        (r"(a", "a group is not closed at offset 2"),
        (r"a)", "an unopened group is closed at offset 1"),
        (r"[a", "a class is not closed at offset 2"),
        (r"[b-a]", "a range that runs backwards"),
        (r"[a-\d]", "a range that does not end in a character"),
        (r"*a", "nothing to repeat at offset 0"),
        (r"a{x}", "a brace that is not a count at offset 1"),
        (r"a{3,2}", "is not valid"),
        ("a\\", "the escape . at offset 1"),
        (r"\u{110000}", "past U"),
        ("(" * 100 + ")" * 100, "nest deeper than 80"),
        ("a" * 100_001, "100001 characters, more than 100000"),
    ],
)
def test_patterns_that_are_refused(pattern, message):
    with pytest.raises(VocabularyError, match=message):
        Splitter(pattern)


def test_dialects():
    assert Splitter("a$").split("a\na") == ["a\n", "a"]
    for pattern in ("a$", "^a", "a{1,2}+"):
        with pytest.raises(VocabularyError, match="offset"):
            Splitter(pattern, dialect="oniguruma")
    assert Splitter("a{1,2}+a").split("aaaa") == ["aaa", "a"]
    assert Splitter("(?i:'s|k)").split("'S'ſK") == ["'S", "'ſ", "K"]
    assert Splitter("[一-龥]+").split("ab漢字c") == ["ab", "漢字", "c"]
    assert Splitter(r"[^\S\n]+").split("a \u3000\nb") == ["a", " \u3000", "\nb"]


def test_fuzzed_patterns():
    rng = random.Random(7)
    atoms = [*"ab漢\\[](){}^$*+?|.-&,:=!<>ip{}LNsSdDuxz019 \n", r"\p{L}", r"\s", "(?:", "(?i:", "[^", "{1,3}"]
    for _ in range(3000):
        pattern = "".join(rng.choices(atoms, k=rng.randint(1, 12)))
        try:
            pieces = Splitter(pattern, dialect=rng.choice(["rust", "oniguruma"])).split("ab 漢1\n")
        except VocabularyError as error:
            assert str(error)
        else:
            assert "".join(pieces) == "ab 漢1\n"
