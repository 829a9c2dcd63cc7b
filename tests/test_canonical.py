"""Canonical tokens, judged by the packages that define the encodings."""

from __future__ import annotations

import codecs
import itertools
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided import GrammarCompiler, GrammarMatcher, UnsupportedError, Vocabulary
from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens, is_allowed
from guided.matching.canonical.matcher import CanonicalMatcher
from guided.matching.canonical.pairs import PairTable
from guided.matching.canonical.spelling import Spelling, spelling_of
from guided.matching.canonical.splitter import Splitter
from guided.matching.protocol import ForkingMatcher
from guided.vocabulary.byte_pairs import Split, build_pairs_from_ranks, find_overlap
from guided.vocabulary.pretokenizers import PATTERNS
from tests.canonical_support import encodings, huggingface, prefixes, tiktoken_like, trained
from tests.effort import examples
from tests.vocabulary_support import asset, sentencepiece_file

tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers defines what is canonical")
pytest.importorskip("tiktoken", reason="the package tiktoken defines what is canonical")

WORDS = {"type": "Split", "pattern": {"Regex": r" ?[a-c]+|\s+(?!\S)|\s+"}, "behavior": "Isolated", "invert": False}
DIGITS = {"type": "Digits", "individual_digits": True}


def borders(splitter: Splitter, text: str) -> list[tuple[int, ...]]:
    """All ways to cut a text that are correct according to the splitter, at its end."""
    ways = [((), 0)]
    for at, char in enumerate(text):
        following = splitter.classes.class_of(ord(char))
        after = [((*cuts, at), to) for cuts, state in ways for to in splitter.begin_word(state, following)]
        after += [(cuts, to) for cuts, state in ways if (to := splitter.continue_word(state, following)) is not None]
        ways = after
    return [cuts for cuts, state in ways if splitter.may_end(state)]


@pytest.mark.parametrize("name", sorted(PATTERNS.keys() - {"cl100k"}))
def test_words_are_cut_as_tokenizers_cuts_them(name):
    splitter = Splitter([Split(pattern, "oniguruma") for pattern in PATTERNS[name]])
    cut = tokenizers.pre_tokenizers
    judge = cut.Sequence([cut.Split(tokenizers.Regex(pattern), "isolated") for pattern in PATTERNS[name]])
    short = ("".join(chars) for n in range(1, 5) for chars in itertools.product("a B1\n'!", repeat=n))
    rng = random.Random(name)
    longer = ("".join(rng.choices("aB1 \n\r\t'sl!/é\u0301ſ\u00a05日", k=rng.randint(5, 12))) for _ in range(1500))
    for text in (*short, *longer):
        starts = tuple(itertools.accumulate([len(piece) for piece, _ in judge.pre_tokenize_str(text)][:-1], initial=0))
        assert borders(splitter, text) == [starts], repr(text)


def test_possessive_patterns_are_read_as_rust_reads_them():
    regex = pytest.importorskip("regex", reason="regex reads possessive quantifiers, as tiktoken does")
    (pattern,) = PATTERNS["cl100k"]
    splitter, judge = Splitter([Split(pattern, "rust")]), regex.compile(pattern.replace("$", r"\Z"))
    rng = random.Random(3)
    for _ in range(2000):
        text = "".join(rng.choices("aB12 \n\r'sl!é5", k=rng.randint(1, 9)))
        assert borders(splitter, text) == [tuple(found.start() for found in judge.finditer(text))], repr(text)


def test_oniguruma_repeats_a_count_that_has_a_plus():
    judge = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"a{1,2}+|b"), "isolated")
    splitter = Splitter([Split(r"a{1,2}+|b", "oniguruma")])
    assert [len(piece) for piece, _ in judge.pre_tokenize_str("aaaaab")] == [5, 1]
    assert borders(splitter, "aaaaab") == [(0, 5)]


@pytest.mark.parametrize(
    "pattern", [r"\ba", r"(?<=a)b", r"a*", r"(?:ab)++", r"[a&&b]", r"\w+", r"(a)\1", r"(?=ab)a", r"(?:a?)*b", "^a"]
)
def test_other_patterns_are_refused(pattern):
    with pytest.raises(UnsupportedError, match=r"canonical|pattern|back-reference") as caught:
        Splitter([Split(pattern, "rust")])
    assert caught.value.hint


TOKENS = st.lists(st.text("ab", min_size=2, max_size=5).map(str.encode), max_size=12, unique=True)


@given(TOKENS)
def test_pairs_match_tiktoken(tokens):
    """For any ranks, including those that no training produces: a part may have a higher rank than the whole."""
    vocabulary = tiktoken_like(tokens, r"[ab]+x?|[^ab]")
    table = PairTable(vocabulary.byte_pairs(), vocabulary.size)
    used = [vocabulary.encode(text)[0] for text in ("a", "b")] + list(range(256, 256 + len(tokens)))

    def merged(data: bytes) -> list[int]:  # the x prevents a whole word from coming first
        return vocabulary.encode(data.decode() + "x")[:-1]

    reachable = [token for token in used if merged(vocabulary.token_bytes(token)) == [token]]
    assert [token for token in used if table.reachable[token]] == reachable
    for left, right in itertools.product(reachable, repeat=2):
        whole = vocabulary.token_bytes(left) + vocabulary.token_bytes(right)
        assert is_allowed(table.row(left), right) == (merged(whole) == [left, right]), whole


MERGES = st.lists(st.tuples(st.sampled_from([b"a", b"b", b" ", b"ab", b" a"]), st.sampled_from([b"a", b"b", b"ab"])),
                  max_size=6, unique=True)  # fmt: skip


def _ordered(merges):
    """The merges whose parts exist."""
    there, out = {b"a", b"b", b" ", b"1"}, []
    for left, right in merges:
        if left in there and right in there and left + right not in there:
            out.append((left, right))
            there.add(left + right)
    return out


def _check_against_all_texts(vocabulary: Vocabulary, alphabet: str, length: int, further: int = 3) -> None:
    """The sequences that rows lead to are the prefixes of encodings, and they may end exactly if they are encodings.

    The alphabet has a letter without merges, so whatever may follow in any text may also follow in one of these
    texts.
    """
    spelling = spelling_of(vocabulary)
    known = encodings(vocabulary, alphabet, length + further)
    right, ends = prefixes(known.values()), set(known.values())
    alphabet_bytes = set(alphabet.encode())
    own = [id for id, data in enumerate(vocabulary.tokens) if data and alphabet_bytes.issuperset(data)]
    todo = [((), spelling.begin)]
    while todo:
        ids, state = todo.pop()
        row = spelling.row(state)
        assert is_allowed(row, max(vocabulary.eos_token_ids)) == (ids in ends), vocabulary.decode(ids)
        for token in own:
            after = (*ids, token)
            text = vocabulary.decode(after)
            whole = text.decode(errors="ignore")
            rest = text[len(whole.encode()) :]
            others = set(whole) - set(alphabet) or not any(char.encode().startswith(rest) for char in alphabet)
            if len(whole) + bool(rest) > length or others:
                continue
            assert is_allowed(row, token) == (after in right), [vocabulary.token_bytes(id) for id in after]
            if after in right:
                todo.append((after, spelling.advance(state, token)))
                assert todo[-1][1].branches


@examples(25)
@given(MERGES.map(_ordered), st.sampled_from([(), (WORDS,), (DIGITS,), (DIGITS, WORDS)]), st.booleans())
def test_rows_are_the_beginnings_of_encodings(merges, steps, ignore_merges):
    more = [b"aab", b"b a", b" b"] if ignore_merges else [b"aab"]
    vocabulary = huggingface(merges, steps, ignore_merges=ignore_merges, more=more)
    _check_against_all_texts(vocabulary, "abc 1", 3)


@examples(25)
@given(st.lists(st.text("ab ", min_size=2, max_size=4).map(str.encode), max_size=8, unique=True))
def test_rows_are_the_beginnings_of_tiktokens_encodings(tokens):
    _check_against_all_texts(tiktoken_like(tokens, PATTERNS["cl100k"][0]), "abc ", 3)


def test_a_word_that_merges_do_not_make_is_one_token():
    _check_against_all_texts(
        huggingface([(b"a", b"a")], (WORDS,), ignore_merges=True, more=[b"aab", b"ba"]), "abc ", 4, 2
    )


def test_characters_of_several_bytes():
    two = ["é".encode(), "日".encode()[:2], "語".encode()]
    _check_against_all_texts(tiktoken_like(two, PATTERNS["gpt2"][0]), "éè日旦月a", 3, 2)


def test_added_tokens_come_before_words():
    vocabulary = huggingface([(b"b", b">"), (b"a", b"b")], added=["<b>"])
    _check_against_all_texts(vocabulary, "a<b>", 4, 2)


def test_texts_that_would_be_composed_are_not_written():
    merges = [("é"[:1].encode()[:1], "é".encode()[1:]), (b"e", b"e"), (b"e", b"\xcc")]
    _check_against_all_texts(huggingface(merges, normalizer="NFC"), "eé\u0301\u0327\u0334a", 3, 2)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"normalizer": "NFKC"}, "NFKC"),
        ({"added": ["<a>", "a>"]}, "overlap"),
        ({"steps": [{"type": "Whitespace"}]}, "Whitespace"),
        ({"steps": [DIGITS | {"type": "Split", "pattern": {"String": " "}}]}, "Split"),
    ],
)
def test_other_tokenizers_are_refused(change, reason):
    with pytest.raises(UnsupportedError, match=reason) as caught:
        spelling_of(huggingface([], **change))
    assert caught.value.hint


@pytest.mark.parametrize("tokens", [[], [b"ab", b"cd"], [b"<a>", b"<b>"], [b"abc", b"d", b"e" * 1000 + b"f"]])
def test_added_tokens_without_overlap(tokens):
    assert find_overlap(tokens) is None


def test_added_tokens_overlap():
    """Compare with the definition: one is a part of the other, or begins within it and continues after it."""
    source, found = random.Random(3), 0
    for _ in range(3000):
        tokens = {bytes(source.choices(b"abc", k=source.randint(1, 4))) for _ in range(source.randint(1, 4))}
        overlap = find_overlap(sorted(tokens))
        pairs = [
            (first, second)
            for first in tokens
            for second in tokens
            if (first != second and second in first)
            or any(second.startswith(first[start:]) for start in range(1, len(first)))
        ]
        assert overlap in pairs if pairs else overlap is None
        found += bool(pairs)
    assert 300 < found < 2700
    assert find_overlap([b"a", b"ab"]) == (b"ab", b"a")


def test_vocabularies_without_merges_are_refused(tmp_path):
    with pytest.raises(UnsupportedError, match="list of tokens"):
        spelling_of(Vocabulary([b"a"], eos_token_ids=[1]))
    path = tmp_path / "tokenizer.model"
    path.write_bytes(sentencepiece_file([("<unk>", 0.0, 2), ("</s>", 0.0, 3), ("a", -1.0, 1)]))
    with pytest.raises(UnsupportedError, match="SentencePiece"):
        spelling_of(Vocabulary.from_sentencepiece(path, eos_token_ids=[1]))
    with pytest.raises(UnsupportedError, match="pattern"):
        build_pairs_from_ranks({bytes((byte,)): byte for byte in range(256)}, None)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return trained()


@pytest.fixture(scope="module")
def compiler(vocabulary) -> GrammarCompiler:
    return GrammarCompiler(vocabulary)


@settings(deadline=None)
@given(
    text=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
    | st.text(" a\n'st1,\"", max_size=30)
)
def test_every_encoding_is_allowed(vocabulary, text):
    _follow(spelling_of(vocabulary), vocabulary.encode(text, continued=True))


def _follow(spelling: Spelling, ids: list[int]) -> None:
    state = spelling.begin
    for token in ids:
        assert is_allowed(spelling.row(state), token)
        state = spelling.advance(state, token)
    assert spelling.may_end(state)


def _begins_text(data: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return re.search(rb"\xed[\xa0-\xbf]\Z", data) is None  # the decoder waits for the last byte of a surrogate


def _walks(vocabulary: Vocabulary, count: int, seed: int) -> None:
    """Outputs under the rows alone are the encodings of their texts."""
    spelling, rng, ended = spelling_of(vocabulary), random.Random(seed), 0
    for _ in range(count):
        state, out = spelling.begin, []
        for length in range(20):
            row = spelling.row(state)
            allowed = [token for token in allowed_tokens(row[None]) if token < vocabulary.size]
            allowed = [token for token in allowed if vocabulary.token_bytes(token)]
            assert allowed, vocabulary.decode(out)
            if length > 8 and spelling.may_end(state):
                ended += 1
                assert vocabulary.encode(vocabulary.decode(out).decode(), continued=True) == out
                break
            rng.shuffle(allowed)  # the rows alone also allow bytes that are not UTF-8, which nothing may follow
            out.append(next(token for token in allowed if _begins_text(vocabulary.decode([*out, token]))))
            state = spelling.advance(state, out[-1])
    assert ended > count // 2


def test_outputs_are_the_encodings_of_their_texts(vocabulary):
    _walks(vocabulary, 150, 5)


def test_a_real_vocabulary():
    path = asset("llama3.tiktoken")
    vocabulary = Vocabulary.from_tiktoken(path, eos_token_ids=[128001], pattern="llama3")
    text = 'It\'s  a test,\n\n  of 12345 things: ünïcode 日本語 🙂 nhiều việc {"a": [1, 2]}\n'
    _follow(spelling_of(vocabulary), vocabulary.encode(text))
    _walks(vocabulary, 10, 1)


# --- with a grammar


TAGS = {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "tags": TAGS},
    "required": ["name", "tags"],
    "additionalProperties": False,
}


def write(matcher, vocabulary, rng, budget: int) -> list[int]:
    """A random output under a budget that includes the end."""
    bitmask, out = allocate_token_bitmask(1, vocabulary.size), []
    while not matcher.is_terminated():
        forced = matcher.forced_tokens()
        masked = matcher.fill_next_token_bitmask(bitmask, max_tokens=budget - len(out))
        assert masked
        allowed = [token for token in allowed_tokens(bitmask) if token < vocabulary.size]
        assert allowed
        if forced and forced[0] in allowed:
            allowed = [forced[0]]
        out.append(rng.choice(allowed))
        assert matcher.accept_token(out[-1])
    return out[:-1]


@pytest.mark.parametrize("constraint", [SCHEMA, r"(foo|bar)*, [a-z ]{3,9}\.", ["yes", "no", "maybe not"]])
def test_outputs_are_complete_and_canonical_as_long_as_nothing_gave_way(vocabulary, compiler, constraint):
    compiled = {
        dict: lambda: compiler.compile_json_schema(constraint, whitespace="single_space"),
        str: lambda: compiler.compile_regex(constraint),
        list: lambda: compiler.compile_choice(constraint),
    }[type(constraint)]()
    rng, canonical = random.Random(1), 0
    for _ in range(60):
        matcher = CanonicalMatcher(GrammarMatcher(compiled), spelling_of(vocabulary))
        assert isinstance(matcher, ForkingMatcher)
        out = write(matcher, vocabulary, rng, rng.randint(matcher.min_tokens_to_finish(), 60))
        text = vocabulary.decode(out).decode()
        reader = GrammarMatcher(compiled)
        assert reader.accept_string(text) and reader.is_accepting()
        same = vocabulary.encode(text, continued=True) == out
        assert same == (matcher.non_canonical == 0), (text, matcher.non_canonical)
        canonical += same
    assert canonical > 10


def test_a_regular_language_has_its_encodings_and_no_others(vocabulary, compiler):
    """If few tokens are left, tokens are removed after which no encoding of the language continues."""
    compiled = compiler.compile_regex(r"(the|a|an)( tokens?| mask){1,2}")
    texts = [f"{a}{''.join(rest)}" for a in ("the", "a", "an") for n in (1, 2)
             for rest in itertools.product((" token", " tokens", " mask"), repeat=n)]  # fmt: skip
    found, todo = set(), [()]
    bitmask = allocate_token_bitmask(1, vocabulary.size)
    while todo:
        ids = todo.pop()
        matcher = CanonicalMatcher(GrammarMatcher(compiled), spelling_of(vocabulary))
        assert all(map(matcher.accept_token, ids))
        matcher.fill_next_token_bitmask(bitmask)
        for token in allowed_tokens(bitmask):
            if token in vocabulary.eos_token_ids:
                assert matcher.non_canonical == 0
                found.add(ids)
            elif token < vocabulary.size:
                todo.append((*ids, token))
    assert found == {tuple(vocabulary.encode(text, continued=True)) for text in texts}


def test_a_loop_that_may_end_anywhere_does_not_make_the_spelling_give_way():
    vocabulary = huggingface([(b"a", b"b")])
    matcher = CanonicalMatcher(
        GrammarMatcher(GrammarCompiler(vocabulary).compile_regex("(ab|B)*")), spelling_of(vocabulary)
    )
    bitmask = allocate_token_bitmask(1, vocabulary.size)
    for token in (256, ord("B"), 256):
        matcher.fill_next_token_bitmask(bitmask)
        assert sorted({*allowed_tokens(bitmask)} - vocabulary.eos_token_ids) == [ord("B"), 256]  # ab, and not a
        assert matcher.accept_token(token)


def test_where_no_spelling_is_left_the_grammar_holds_and_it_is_counted():
    vocabulary = huggingface([(b"a", b"b")])
    grammar = GrammarCompiler(vocabulary).compile_regex("ab")
    matcher = CanonicalMatcher(GrammarMatcher(grammar), spelling_of(vocabulary))
    bitmask = allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask)
    assert allowed_tokens(bitmask) == [256]  # not a
    assert matcher.accept_token(ord("a"))  # as a tool would
    matcher.fill_next_token_bitmask(bitmask)
    assert allowed_tokens(bitmask) == [ord("b")]
    assert matcher.accept_token(ord("b"))
    assert matcher.non_canonical == 1
    matcher.rollback(1)
    assert matcher.non_canonical == 0


@given(st.randoms(use_true_random=False))
@examples(20)
def test_taking_back_and_forking(vocabulary, compiler, rng):
    compiled = compiler.compile_json_schema(SCHEMA)
    matcher = CanonicalMatcher(GrammarMatcher(compiled), spelling_of(vocabulary))
    out = write(matcher, vocabulary, rng, 60)
    kept = rng.randint(0, len(out))
    fork = matcher.fork()
    fork.rollback(len(out) + 1 - kept)
    again = CanonicalMatcher(GrammarMatcher(compiled), spelling_of(vocabulary))
    assert all(map(again.accept_token, out[:kept]))
    masks = allocate_token_bitmask(2, vocabulary.size)
    again.fill_next_token_bitmask(masks, 0)
    fork.fill_next_token_bitmask(masks, 1)
    assert (masks[0] == masks[1]).all()
    assert again.non_canonical == fork.non_canonical
    assert matcher.is_terminated()
    with pytest.raises(ValueError, match="take back"):
        fork.rollback(kept + 1)
