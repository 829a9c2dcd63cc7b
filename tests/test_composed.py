"""Parts with a lexer in composed specifications: the texts are those that can be split, and masks never lead to dead
ends.
"""

from __future__ import annotations

import random
from itertools import product

import pytest

import guided
from guided.errors import BudgetError, LimitExceeded, UnsupportedError

pytest.importorskip("lark", reason="lark is not installed")

from tests.effort import every
from tests.lexer_support import mask_of, vocabulary_of

TOKENS = (b"a", b"b", b"c", b"ab", b"ba", b"aa", b"bc", b"ca", b"abc", b"aab", b"cab", b"bab")
COMPILER = guided.GrammarCompiler(vocabulary_of(TOKENS))
LEXED = (
    'start: A "b"\nA: /a+/',
    'start: (A | AB)*\nA: "a"\nAB: "ab"',
    'start: "a" start "b" |\n%ignore "c"',
    'start: NAME ("c" NAME)*\nNAME: /[ab]+/',
    "start: A+ | B\nA: /ab?/\nB: /b.*?a/",
)
PLAIN = ("a", "b+", "c?", "(ab)*", "[abc]", "")


def fits(grammar: guided.CompiledGrammar, text: str) -> bool:
    matcher = guided.GrammarMatcher(grammar)
    return matcher.accept_string(text) and matcher.is_accepting()


class Drawn:
    """A composition, and its texts by definition, which tries all ways to cut a text."""

    def __init__(self, rng: random.Random, depth: int = 0) -> None:
        self.kind = rng.choice(("lexed", "plain", "sequence", "choice", "repeat") if depth < 3 else ("lexed", "plain"))
        self.parts: list[Drawn] = []
        if self.kind == "lexed":
            text = rng.choice(LEXED)
            self.part = guided.lark(text)
            self.alone = COMPILER.compile_lark(text)
        elif self.kind == "plain":
            text = rng.choice(PLAIN)
            self.part = guided.regex(text)
            self.alone = COMPILER.compile_regex(text)
        elif self.kind == "repeat":
            self.parts = [Drawn(rng, depth + 1)]
            self.bounds = rng.choice(((0, None), (1, None), (0, 2), (2, 3), (1, 1), (2, None)))
            self.part = guided.repeat(self.parts[0].part, *self.bounds)
        else:
            self.parts = [Drawn(rng, depth + 1) for _ in range(rng.randint(2, 3))]
            make = guided.sequence if self.kind == "sequence" else guided.choice
            self.part = make(*(part.part for part in self.parts))
        self.known: dict[tuple[str, int], bool] = {}

    def has(self, text: str) -> bool:
        if self.kind == "choice":
            return any(part.has(text) for part in self.parts)
        if self.kind == "sequence":
            return self.in_row(text, 0)
        if self.kind == "repeat":
            return self.repeated(text, 0)
        if (text, 0) not in self.known:
            self.known[text, 0] = fits(self.alone, text)
        return self.known[text, 0]

    def in_row(self, text: str, at: int) -> bool:
        if at == len(self.parts):
            return not text
        return any(self.parts[at].has(text[:cut]) and self.in_row(text[cut:], at + 1) for cut in range(len(text) + 1))

    def repeated(self, text: str, count: int) -> bool:
        low, high = self.bounds
        if count >= low and not text:
            return True
        if high is not None and count == high:
            return False
        key = (text, min(count, 4))
        if key not in self.known:
            start = 0 if count < low else 1  # one more empty part changes nothing
            self.known[key] = any(
                self.parts[0].has(text[:cut]) and self.repeated(text[cut:], count + 1)
                for cut in range(start, len(text) + 1)
            )
        return self.known[key]


def drawn(seed: int, count: int) -> list[tuple[Drawn, guided.CompiledGrammar]]:
    rng, out = random.Random(seed), []
    while len(out) < count:
        whole = Drawn(rng)
        if "lexed" in kinds(whole):
            out.append((whole, COMPILER.compile(whole.part)))
    return out


def kinds(whole: Drawn) -> set[str]:
    return {whole.kind}.union(*map(kinds, whole.parts))


TEXTS = ["".join(letters) for length in range(6) for letters in product("abc", repeat=length)]


@pytest.mark.parametrize("seed", every(2, range(4)))
def test_texts_match_a_search_of_all_splits(seed: int) -> None:
    found = 0
    for whole, grammar in drawn(seed, 12):
        for text in TEXTS:
            assert fits(grammar, text) == whole.has(text), (whole.part, text)
            found += whole.has(text)
    assert found > 100


@pytest.mark.parametrize("seed", every(2, range(4)))
def test_masks_and_budgets(seed: int) -> None:
    """A mask has exactly the acceptable tokens. Under a budget, a walk ends in time for any choice."""
    rng, enough, missed = random.Random(seed), 0, 0
    for whole, grammar in drawn(100 + seed, 12):
        for _ in range(4):
            matcher = guided.GrammarMatcher(grammar)
            budget = matcher.min_tokens_to_finish() + rng.randrange(6)
            text = b""
            while not matcher.is_terminated():
                plain = mask_of(matcher)
                assert plain == set(matcher._walk_mask()) == mask_of(matcher.fork())
                allowed = mask_of(matcher, budget)
                assert allowed <= plain
                least = matcher.min_tokens_to_finish()
                assert 1 <= least <= budget
                with pytest.raises(BudgetError):
                    mask_of(matcher, least - 1)
                for token in plain - {len(TOKENS)}:
                    after = matcher.fork()
                    assert after.accept_token(token)
                    enough += token in allowed
                    assert token not in allowed or after.min_tokens_to_finish() <= budget - 1
                    missed += token not in allowed and after.min_tokens_to_finish() <= budget - 1
                token = rng.choice(sorted(allowed))
                assert matcher.accept_token(token)
                text += TOKENS[token] if token < len(TOKENS) else b""
                budget -= 1
            assert whole.has(text.decode())
    assert missed <= enough // 50  # the bound on the rest of a lexeme is not exact


def test_states_are_dropped_and_carried_over() -> None:
    part = guided.lark('start: (A | B | "(" start ")")*\nA: /a+/\nB: /b+/\nC: "c"\n%ignore C')
    tokens = [*TOKENS, b"(", b")", b"x"]
    vocabulary = vocabulary_of(tokens)
    small = guided.GrammarCompiler(vocabulary, limits=guided.Limits(memory=1 << 16))
    grammar = small.compile("x" + part + guided.regex("x+"))
    large = guided.GrammarCompiler(vocabulary).compile("x" + part + guided.regex("x+"))
    text = "x" + "(ab" * 300 + "c" + ")" * 300 + "xx"
    one, other = guided.GrammarMatcher(grammar), guided.GrammarMatcher(large)
    rows = [guided.allocate_token_bitmask(1, vocabulary.size) for _ in range(2)]
    for letter in text:
        for matcher, row in zip((one, other), rows, strict=True):
            matcher.fill_next_token_bitmask(row)
            assert matcher.accept_string(letter)
        assert (rows[0] == rows[1]).all()
    assert one.is_accepting() and other.is_accepting()
    assert grammar.native.rebuilds > 0
    one.rollback(302)
    assert not one.accept_string("x") and one.accept_string("c" + ")" * 300 + "x") and one.is_accepting()


def test_control_tokens_with_a_lexer() -> None:
    vocabulary = guided.Vocabulary(
        [b"1", b"+", b"2", b"1+", None, None, None], eos_token_ids=[4], special_tokens={5: "<call>", 6: "<end>"}
    )
    part = guided.special("<call>") + guided.lark('start: N ("+" N)*\nN: /[0-9]+/') + guided.special("<end>")
    grammar = guided.GrammarCompiler(vocabulary).compile(guided.repeat(part, 1, 2))
    matcher = guided.GrammarMatcher(grammar)
    assert matcher.validate_tokens([5, 0, 1, 2, 6, 5, 3, 2, 6, 4]) == 10
    assert matcher.validate_tokens([5, 0, 1, 6]) == 3
    assert matcher.validate_tokens([5, 0, 6, 5, 0, 6, 5]) == 6
    assert matcher.min_tokens_to_finish() == 4


def test_refusals() -> None:
    part = guided.lark('start: "a"+')
    with pytest.raises(UnsupportedError, match="is recursive and contains") as caught:
        COMPILER.compile(guided.rules(guided.rule("x"), x=guided.choice("a", part + guided.rule("x"))))
    assert "scannerless" in caught.value.hint
    with pytest.raises(LimitExceeded):
        COMPILER.compile(guided.repeat(part, 0, 1000))


def test_explanations_name_rules_of_all_parts() -> None:
    vocabulary = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
    grammar = guided.GrammarCompiler(vocabulary).compile("Sum: " + guided.grammar("arithmetic") + guided.regex(";|!"))
    matcher = guided.GrammarMatcher(grammar)
    assert matcher.accept_string("Sum: (1")
    assert not matcher.explain(";").accepted
    assert "product (line 8)" in matcher.explain(";").places
    assert matcher.accept_string(")") and matcher.explain(";").accepted
    assert matcher.explain().expected.characters[0] == (ord("\t"), ord("\t"))


def test_tokens_that_leave_a_long_lexeme() -> None:
    """Inside a JSON string, tokens without a quotation mark are skipped at once. The masks equal those from single
    bytes.
    """
    words = ["abc", 'a"', '"}', '"}\n', '"]}\n`', 'é"', "é", "a\\", '\\"', " a", 'b c"}', "a b", '"}\nabc', '"]', "\n`"]
    tokens = sorted({bytes([byte]) for byte in range(256)} | {word.encode() for word in words})
    grammar = guided.GrammarCompiler(vocabulary_of(tokens)).compile(guided.grammar("json") + guided.regex("\n`[a-c]*"))
    matcher, met = guided.GrammarMatcher(grammar), 0
    for byte in '{"a": [1, "bcé d", {"a": "b"}], "c": "a"'.encode():
        mask = mask_of(matcher)
        assert sorted(mask) == sorted(matcher._walk_mask())
        met += tokens.index(b'"}\n') in mask
        assert matcher.accept_token(tokens.index(bytes([byte])))
    assert met == 4  # the line feed is whitespace of JSON, so it counts twice


@pytest.mark.parametrize("fence", ["`", "a", "é", "`?b", "(`|[^x])", ""])
def test_tokens_that_contain_the_first_character_after_a_part(fence: str) -> None:
    """A walk skips tokens without such a character. After a no-break space or a broken character, too, they count."""
    pieces = (
        "`",
        "``",
        "x`",
        "x``",
        "xx",
        "xa",
        "a",
        "é`",
        "`é",
        "xé",
        "é",
        "\u00a0`",
        "x\u00a0`",
        "\u00a0x",
        "x\u00a0é",
    )
    tokens = [*dict.fromkeys(piece.encode() for piece in pieces), b"\xa9`", b"\xa9x", b"x\xc3", b"\xc3", b"\xa9", b"b"]
    vocabulary = vocabulary_of(tokens)
    part = guided.lark("start: (NAME | ANY)*\nNAME: /x+/\nANY: /[^x`]/")
    compiled = guided.GrammarCompiler(vocabulary).compile(guided.sequence(part, guided.regex(fence), guided.regex("b")))
    rng = random.Random(fence)
    for _ in range(20):
        matcher = guided.GrammarMatcher(compiled)
        for _ in range(6):
            allowed = mask_of(matcher)
            assert sorted(allowed) == sorted(matcher._walk_mask())
            if allowed <= {len(tokens)}:
                break
            assert matcher.accept_token(rng.choice(sorted(allowed - {len(tokens)})))
