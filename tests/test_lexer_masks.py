"""Masks of grammars with a lexer: the core compared with its twin, and with each token tried by itself."""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Literal, TypeAlias

import pytest

import guided
from guided.automaton.reference.lexer import LexedLanguage, LexedState
from guided.errors import BudgetError, LimitExceeded, SpecError
from tests.effort import every
from tests.lark_judge import lalr, parses
from tests.lark_support import lark_to_lexed
from tests.lexer_support import allowed_by, mask_of, random_grammar, vocabulary_of

Lexing: TypeAlias = Literal["contextual", "basic"]
SEED = int(os.environ.get("GUIDED_FUZZ_SEED", "0"))  # for the slow runs
TOKENS = (b"a", b"b", b"c", b"ab", b"ba", b"aa", b"bb", b"ca", b"ac", b"abb", b"aab", b"bab", b"abc", b"aaaa", b"bcb")

C_SUBSET = r"""
start: declaration*
declaration: type NAME ("(" parameters? ")" (block | ";") | ("=" expression)? ";")
type: ("const" | "unsigned" | "static")* ("int" | "char" | "void" | "long" | "struct" NAME) "*"*
parameters: type NAME ("," type NAME)*
block: "{" statement* "}"
statement: block | "if" "(" expression ")" statement ("else" statement)? | "while" "(" expression ")" statement
    | "return" expression? ";" | type NAME ("=" expression)? ";" | expression ";"
expression: unary (OPERATOR unary)*
unary: ("-" | "!" | "++" | "--") unary | NAME | NUMBER | STRING | "(" expression ")" | unary "(" expression? ")"
    | unary "[" expression "]"
OPERATOR: "+" | "-" | "*" | "/" | "==" | "=" | "<" | "<=" | "<<" | "&&" | "&" | "+=" | "->" | "."
NAME: /[A-Za-z_]\w*/
NUMBER: /0x[0-9a-fA-F]+|\d+(\.\d+)?/
STRING: /"([^"\\\n]|\\.)*"/
%ignore /[ \t\n]+/
%ignore /\/\/[^\n]*/
"""
C_TEXT = """static int table(char *name, long size) {
    // two spaces,  and "a string"
    unsigned int i = 0x1f; while (i <= size) { if (name[i] == "\\"x\\n") return -i << 2; else ++i; }
    i += 10; i = i -> value; return call(i / 2) . rest && 3.25;
}
struct point next;
"""


class Pair:
    """A drawn grammar, compiled by the core and by its twin."""

    def __init__(self, text: str, how: Lexing = "contextual", tokens: tuple[bytes, ...] = TOKENS) -> None:
        self.text, self.tokens = text, tokens
        self.grammar = guided.GrammarCompiler(vocabulary_of(tokens)).compile_lark(text, lexer=how)
        rules, lexer = lark_to_lexed(text, lexer=how)
        self.language = LexedLanguage(rules, lexer, frozenset(b"".join(tokens)))

    def allowed(self, state: LexedState) -> set[int]:
        return allowed_by(self.language, state, self.tokens)


def drawn_pairs(
    rng: random.Random,
    count: int,
    how: Lexing,
    draw: Callable[[random.Random], str] = random_grammar,
    tokens: tuple[bytes, ...] = TOKENS,
) -> list[Pair]:
    """Grammars that generate something. Those that neither can decide within its limits are skipped: about 1 %."""
    out, undecided = [], 0
    while len(out) < count:
        text = draw(rng)
        try:
            out.append(Pair(text, how, tokens))
        except LimitExceeded:
            undecided += 1
        except SpecError:
            try:
                rules, lexer = lark_to_lexed(text, lexer=how)
            except SpecError:
                continue  # not a valid grammar: a rule without an end, or a terminal that matches the empty text
            try:
                assert LexedLanguage(rules, lexer, frozenset(b"".join(tokens))).start is None, text
            except (SpecError, LimitExceeded):
                continue
    assert undecided <= 3 + count // 30
    return out


def compare_masks(pair: Pair, rng: random.Random, walks: int = 3) -> int:
    """Check that the core's masks equal the twin's, and those of each token tried by itself. Returns how many were
    compared.
    """
    masks = 0
    for _ in range(walks):
        matcher, state = guided.GrammarMatcher(pair.grammar), pair.language.start
        for _ in range(7):
            assert state is not None
            try:
                allowed = pair.allowed(state)
                found, single = mask_of(matcher), set(matcher._walk_mask())
            except LimitExceeded:
                break
            assert found == allowed == single, pair.text
            assert found, pair.text
            masks += 1
            tokens = sorted(allowed - {len(pair.tokens)})
            if not tokens:
                break
            token = rng.choice(tokens)
            assert matcher.accept_token(token), pair.text
            for byte in pair.tokens[token]:
                state = pair.language.read(state, byte)
            assert matcher.is_accepting() == pair.language.is_accepting(state), pair.text
    return masks


def finish_within(pair: Pair, rng: random.Random, slacks: tuple[int, ...]) -> int:
    """Check that outputs end within budgets whose masks equal those from each token's rest. Returns how many ended."""
    finished = 0
    try:
        least = guided.GrammarMatcher(pair.grammar).min_tokens_to_finish()
        for slack in slacks:
            matcher, budget, written = guided.GrammarMatcher(pair.grammar), least + slack, b""
            while not matcher.is_terminated():
                plain, some = mask_of(matcher), mask_of(matcher, budget)
                most = matcher._rests()[0]  # after any allowed token
                for token in plain - {len(pair.tokens)}:
                    after = matcher.fork()
                    assert after.accept_token(token) and after.min_tokens_to_finish() - 1 <= most, pair.text
                assert mask_of(matcher, most + 2) == plain, pair.text
                assert some and some <= plain, pair.text
                assert mask_of(matcher, 10_000) == plain, pair.text
                needed = matcher.min_tokens_to_finish()
                with suppress(BudgetError):  # `needed` is an upper bound: the states after a token may have a lower one
                    tight = mask_of(matcher, needed - 1)
                    assert tight, pair.text
                    for token in tight:
                        after = matcher.fork()
                        assert after.accept_token(token)
                        assert after.is_terminated() or after.min_tokens_to_finish() <= needed - 2, pair.text
                for token in some:
                    after = matcher.fork()
                    assert after.accept_token(token)
                    assert after.is_terminated() or after.min_tokens_to_finish() <= budget - 1, pair.text
                token = rng.choice(sorted(some))
                assert matcher.accept_token(token)
                written += pair.tokens[token] if token < len(pair.tokens) else b""
                budget -= 1
                assert budget >= 0, pair.text
            assert pair.language.accepts(written), pair.text
            finished += 1
    except LimitExceeded:
        pass
    return finished


@pytest.mark.parametrize("how", ["contextual", "basic"])
@pytest.mark.parametrize("seed", every(2, range(4)))
def test_masks_match_the_twin(seed: int, how: Lexing) -> None:
    rng = random.Random(seed)
    assert sum(compare_masks(pair, rng) for pair in drawn_pairs(rng, 16, how)) > 100


@pytest.mark.parametrize("how", ["contextual", "basic"])
@pytest.mark.parametrize("seed", every(2, range(4)))
def test_budgets_hold(seed: int, how: Lexing) -> None:
    rng = random.Random(100 + seed)
    assert sum(finish_within(pair, rng, (0, 0, 1, 3, 6)) for pair in drawn_pairs(rng, 10, how)) >= 40


@pytest.mark.parametrize(
    "text",
    [
        "T0.1: /b(a|ab)/\nT1: /b[ab]/\nT2.-1: /a/i\nT3: /a.*?b/\n"
        "start: T2 |  | T0 r1\nr1: start T3 start | T3 r1 start\n",
        'T0.2: /b[ab]/\nT1: /ab?/\nT2: /ab??/\nstart: T1 T2 T0 | T0 T0 T1 | T1 start\n%ignore "c"\n',
        'T0: /ab?/\nT1: /a/i\nT2: "aa"\nT3: /b(a|ab)/\nstart: T0 | T3 r2 T3 | T2\nr1:  | T2\nr2: r1 T3 |  | T3 T2\n',
        'T0: "b"\nT1: /b[ab]/\nT2: /a+/\nT3: /b+/\nstart: T2 T1 T0 | start T3 | T1 T3 T3\n%ignore T2\n',
    ],
)
def test_budgets_hold_where_states_are_renewed(text: str) -> None:
    """Completions that were found are carried over, because another search might find longer ones."""
    compiler, rng = guided.GrammarCompiler(vocabulary_of(TOKENS), limits=guided.Limits(memory=1)), random.Random(0)
    rebuilds = 0
    for _ in range(100):  # again each time, since a renewal leaves space
        grammar = compiler.compile_lark(text)
        matcher = guided.GrammarMatcher(grammar)
        budget = matcher.min_tokens_to_finish() + rng.randrange(3)
        while not matcher.is_terminated():
            assert matcher.accept_token(rng.choice(sorted(mask_of(matcher, budget))))
            budget -= 1
        assert budget >= 0
        rebuilds += grammar.native.rebuilds
    assert rebuilds > 50 and not grammar.native.sure


@pytest.mark.slow
@pytest.mark.parametrize("how", ["contextual", "basic"])
@pytest.mark.parametrize("part", range(8))
def test_many_random_grammars(part: int, how: Lexing) -> None:
    rng = random.Random(f"{SEED} {part} {how}")
    masks = ended = 0
    for pair in drawn_pairs(rng, 150, how):
        masks += compare_masks(pair, rng)
        ended += finish_within(pair, rng, (0, 2))
    assert masks > 1000 and ended > 150
    print(f"{masks} masks, {ended} outputs within budgets")


@pytest.mark.parametrize(
    "text",
    [
        # The lexeme ends because no terminal that the parser can accept matches more, although others still may.
        'T0: "A"i\nT1: /a+?b/\nT2: /b[ab]/\nT3: /aab?/\nT4: "ba"\nstart: T1 T2 T3 | start | T1 T0 T4\n',
        'T0.2: "aa"\nT1: /a*b/\nT2: "A"i\nT3: /a.*?b/\nstart: T3 | T0 T2 T3 | \n',
        # The parser decides about a keyword, even if its terminal is ignored.
        'T0: "ba"\nT1: /b[ab]/\nT2: "a"\nT3: /ba*/\nstart: T3\n%ignore T0\n',
    ],
)
@pytest.mark.parametrize("how", ["contextual", "basic"])
def test_known_grammars(text: str, how: Lexing) -> None:
    pair, rng = Pair(text, how), random.Random(0)
    assert compare_masks(pair, rng, 40) > 60
    assert finish_within(pair, rng, (0, 1, 3)) == 3


@pytest.fixture(scope="module")
def pieces() -> guided.Vocabulary:
    """Each byte, and every piece of the text of up to nine bytes, so that tokens contain several lexemes."""
    data = C_TEXT.encode()
    found = {data[i : i + n] for i in range(len(data)) for n in range(2, 10) if i + n <= len(data)}
    return vocabulary_of([bytes([b]) for b in range(256)] + sorted(found))


@pytest.mark.parametrize("budget", [None, 60])
def test_masks_of_a_program_match_each_token(pieces: guided.Vocabulary, budget: int | None) -> None:
    grammar = guided.GrammarCompiler(pieces).compile_lark(C_SUBSET)
    matcher, rng, data, at = guided.GrammarMatcher(grammar), random.Random(0), C_TEXT.encode(), 0
    ids = {token: number for number, token in enumerate(pieces.tokens) if token}
    while at < len(data):
        found = mask_of(matcher, budget)
        if budget is None:
            assert found == set(matcher._walk_mask())
        else:
            expected = set()
            for token in matcher._walk_mask():
                after = matcher.fork()
                assert after.accept_token(token)
                if after.is_terminated() or after.min_tokens_to_finish() <= budget - 1:
                    expected.add(token)
            assert found == expected
        size = rng.choice([n for n in range(1, 10) if data[at : at + n] in ids])
        token = ids[data[at : at + size]]
        assert token in found and matcher.accept_token(token)
        at += size
    assert matcher.is_accepting()


KEYWORDS = r"""
start: (WHILE name start | IF name (THEN | DO) start | WHEN STRING start | name "=" (name | STRING) ";" start)?
name: NAME
WHILE: "while"
IF: "if"i
THEN: "then"
DO: "do"
WHEN: "when"i
NAME: /[a-z][a-z0-9]*/
STRING.1: /[bru]?"[^"]*"/
%ignore /[ \n]+/
%ignore /#[^\n]*/
"""


@pytest.mark.parametrize("how", ["contextual", "basic"])
def test_masks_of_keywords_match_each_token_beside_many_names(how: Lexing) -> None:
    letters = "abdefhilnoruwt"
    words = [a + b for a in letters for b in letters] + [a + b + c for a in "deiltuw" for b in letters for c in letters]
    words += [word[:n] for word in ("while", "then", "when", "WHEN") for n in range(2, 6)]
    ends = ["(", ' "', '"', " = ", "=", ";", " x", " if", ";if "]
    tokens = {word + end for word in words for end in ("", *ends[: 1 + len(word) % 9])} | {" " + word for word in words}
    vocabulary = vocabulary_of([bytes([b]) for b in range(256)] + sorted({token.encode() for token in tokens}))
    matcher = guided.GrammarMatcher(guided.GrammarCompiler(vocabulary).compile_lark(KEYWORDS, lexer=how))
    for byte in b'while whil IF thenx then whenx = b"x#" ;WHen u"" if iff do whilew=do1;# wh\nif a do ':
        assert mask_of(matcher) == set(matcher._walk_mask())
        assert matcher.accept_token(byte)


def test_an_output_may_end_though_something_was_begun_that_never_ends() -> None:
    """`/` and `*` are separate lexemes if no comment ends, and so is `""` before a string without an end."""
    text = r"""
start: value (("/" | "*") value)* ";"
value: "*" value | NAME | STRING+
NAME: /[a-z]+/
STRING: /\"\"\"(\"{0,2}[^\"])*\"\"\"|\"[^\"\n]*\"/
%ignore /\/\*(\*?[^*\/])*\*\//
%ignore /[ \n]+/
"""
    grammar = guided.GrammarCompiler(vocabulary_of([bytes([b]) for b in range(256)])).compile_lark(text)
    parser = lalr(text)
    assert parser is not None
    for output in ("a/**b;", 'a*"""x" ;', 'a/*"""b" *c;', "a/**b*/c;"):
        matcher = guided.GrammarMatcher(grammar)
        assert (matcher.accept_string(output) and matcher.is_accepting()) == parses(parser, output), output
    for beginning in ("a/*", 'a*"""x', 'a/*"""b" *'):
        matcher = guided.GrammarMatcher(grammar)
        assert matcher.accept_string(beginning)
        left = matcher.min_tokens_to_finish()
        while not matcher.is_accepting():
            matcher.accept_token(min(mask_of(matcher, left)))
            assert matcher.min_tokens_to_finish() < left
            left = matcher.min_tokens_to_finish()


def test_dropped_and_rebuilt_states_change_nothing(pieces: guided.Vocabulary) -> None:
    plenty = guided.GrammarCompiler(pieces).compile_lark(C_SUBSET)
    little = guided.GrammarCompiler(pieces, limits=guided.Limits(memory=60_000)).compile_lark(C_SUBSET)
    one, other = guided.GrammarMatcher(plenty), guided.GrammarMatcher(little)
    forks = []
    for byte in C_TEXT.encode():
        assert mask_of(one) == mask_of(other)
        assert one.min_tokens_to_finish() == other.min_tokens_to_finish()
        assert one.accept_token(byte) and other.accept_token(byte)
        forks.append((one.fork(), other.fork()))
    assert little.native.rebuilds > 0
    for steps, (first, second) in enumerate(forks, 1):
        first.rollback(min(steps, 20))
        second.rollback(min(steps, 20))
        assert mask_of(first) == mask_of(second)


@pytest.mark.parametrize(
    ("rules", "unit"),
    [("start: start NAME | NAME", b"a "), ("start: NAME start | NAME", b"a "), ('start: "(" start ")" | NAME', b"(")],
)
def test_long_outputs_keep_few_states(rules: str, unit: bytes) -> None:
    """Left recursion, right recursion and nesting: only nesting adds states."""
    vocabulary = vocabulary_of([b"a", b" ", b"(", b")", b"a "])
    grammar = guided.GrammarCompiler(vocabulary).compile_lark(rules + '\nNAME: /a+/\n%ignore " "')
    matcher, count = guided.GrammarMatcher(grammar), 20_000
    token = vocabulary.tokens.index(unit)
    for step in range(count):
        assert matcher.accept_token(token)
        if step % 1000 == 0:
            assert token in mask_of(matcher)
    if unit != b"(":
        assert grammar.native.states < 50
    else:
        assert count + 2 <= matcher.min_tokens_to_finish() <= count + 3  # a bound: no space is needed after the name
        assert matcher.accept_string(b"a" + b")" * count) and matcher.is_accepting()


def test_a_grammar_without_texts_is_an_error() -> None:
    compiler = guided.GrammarCompiler(vocabulary_of(TOKENS))
    with pytest.raises(SpecError, match="no sequence of terminals that the lexer can find"):
        compiler.compile_lark('start: A B\nA: /[ab]+/\nB: "b"')  # A matches all of B's text
    with pytest.raises(
        SpecError, match="no sequence of terminals that the lexer can find"
    ):  # B, which is ignored, matches it
        compiler.compile_lark('start: A\nA: "A"i\nB: /a/i\n%ignore B', lexer="basic")


def test_a_lexer_cuts_whole_outputs_only() -> None:
    rules, lexer = lark_to_lexed("start: NAME\nNAME: /a+/")
    grammar = replace(rules, lexer=lexer)
    compiler = guided.GrammarCompiler(vocabulary_of(TOKENS))
    assert guided.GrammarMatcher(compiler.compile_grammar(grammar)).accept_string("aa")


def test_a_terminal_may_shadow_spaces_at_the_beginning() -> None:
    """Ignored spaces separate the names, so a completion is known without a search."""
    rules = 'start: _MARGIN "!" | word+\nword: NAME | NUMBER\n%ignore " "'
    text = f"{rules}\n_MARGIN: / +/\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/"
    grammar = guided.GrammarCompiler(vocabulary_of([bytes([b]) for b in range(256)])).compile_lark(text)
    assert grammar.native.sure
    matcher = guided.GrammarMatcher(grammar)
    assert matcher.accept_string("a b")
    assert mask_of(matcher, max_tokens=2) == {*b"abcdefghijklmnopqrstuvwxyz0123456789 ", 256}
