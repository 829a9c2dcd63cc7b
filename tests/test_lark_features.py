"""Random grammars with all of Lark's notation: templates, flags, ranges, priorities, `?`, `!`, `%extend`, `%override`.

Lark judges generated and random texts, as in test_lark_oracle. GUIDED_FUZZ_SEED is the first seed of a run.
"""

from __future__ import annotations

import itertools
import random
import re

import pytest

import guided
from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.lark import LarkOptions, read_lark

lark = pytest.importorskip("lark", reason="lark is not installed")

from tests.lark_judge import lalr, parses  # noqa: E402 - needs lark
from tests.lexer_support import TERMINALS  # noqa: E402
from tests.test_lark_oracle import SEED, Pairs, random_texts, vocabulary_for  # noqa: E402

PATTERNS = [
    *("/A+/i", "/a.b/s", "/[ab]{1,2}/", '"a".."b"', '("a"|"b")~2..3', '"a"~2', '("a" "b")+', '"ab" | "a"', "/a/ /b+/"),
    *TERMINALS,
]


def symbol(rng, names, rules, depth=0):
    """A terminal, a rule, a use of the template, or an expression of one of the other kinds."""
    kind = "terminal" if depth > 1 else rng.choice(("terminal",) * 6 + ("rule", "use", "[]", "|", "+", "~"))
    if kind == "rule" and rules:
        return rng.choice(rules)
    if kind == "use":
        return f"both{{{symbol(rng, names, rules, depth + 1)}}}"
    if kind == "[]":
        return f"[{symbol(rng, names, rules, depth + 1)}]"
    if kind == "|":
        ways = " | ".join(symbol(rng, names, rules, depth + 1) for _ in range(2))
        return f"({ways}){rng.choice(('', '?'))}"
    if kind in "+~":
        end = rng.choice("?*+") if kind == "+" else rng.choice(("~2", "~1..2", "~0..2"))
        return symbol(rng, names, rules, 2) + end
    return rng.choice([*names, '"a"', '"b"', '"c"'])


def random_notation(rng):
    names = [f"T{number}" for number in range(rng.randint(2, 5))]
    rules = [f"r{number}" for number in range(1, rng.randint(1, 4))]

    def ways():
        return " | ".join(
            " ".join(symbol(rng, names, rules) for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 3))
        )

    lines = []
    for name, pattern in zip(names, rng.sample(PATTERNS, len(names)), strict=True):
        more = " T0" if name != "T0" and rng.random() < 0.2 else ""
        lines.append(f"{name}{rng.choice(('', '', '', '.1', '.-1'))}: {pattern}{more}")
    lines += [f"{rng.choice(('', '?', '!'))}{rule}: {ways()}" for rule in ("start", *rules)]
    lines.append("both{x}: x " + rng.choice(("x", '"c" x', "x?", '| x "b"')))
    if rng.random() < 0.4:
        lines.append("%ignore " + rng.choice(['"c"', *names]))
    if rng.random() < 0.3:
        lines.append(f"{rng.choice(('%extend', '%override'))} {rng.choice(rules or ['start'])}: {ways()}")
    if rng.random() < 0.1:
        lines.append(f"%extend {rng.choice(names)}: {rng.choice(TERMINALS)}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("count", [60, pytest.param(1500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", ["contextual", "basic", "scannerless"])
def test_random_notation_is_read_as_lark_reads_it(how: str, count: int) -> None:
    rng, done, limited = random.Random(f"{SEED} {how}"), 0, 0
    compiler = guided.GrammarCompiler(vocabulary_for(["abcaab", "Abba"]))
    plain = how == "scannerless"
    while done < count:
        text = random_notation(rng)
        try:
            parser = lark.Lark(text, parser="earley", lexer="dynamic_complete") if plain else lalr(text, how)
        except (lark.exceptions.LarkError, AttributeError):  # interegular's warnings, within Lark
            continue
        if parser is None:
            continue
        samples = random_texts(rng, 10)
        try:
            options = {"semantics": how} if plain else {"lexer": how}
            pairs = Pairs(f"notation, {how}", compiler.compile_lark(text, **options), lambda x, p=parser: parses(p, x))
            pairs.judge_walks(rng, 5, 6, 10 if plain else 30)
            for sample in samples:
                pairs.judge(sample)
        except LimitExceeded:  # it is unknown whether an output can end
            limited += 1
            continue
        except UnsupportedError as error:
            assert plain and "may extend past the end" in error.reason, text
            continue
        except SpecError as error:
            assert not any(parses(parser, sample) for sample in samples), (text, str(error))
            continue
        assert not pairs.differ, text
        done += 1
    assert limited <= 2 + count // 20


@pytest.mark.parametrize(
    "pattern", ["a|ab", "ab|a|", "a*?b??", "(?:a*)*b", "(?>a|ab)b?", "a{1,2}?(?i:B)", "b(?!b)a", "a??|b+?"]
)
def test_which_texts_of_a_pattern_count(pattern: str) -> None:
    """All texts of up to four letters: those that re.match consumes completely, or re.fullmatch in llguidance's
    notation.
    """
    compiled = re.compile(pattern)
    texts = ["".join(letters) for size in range(5) for letters in itertools.product("abB", repeat=size)]
    first = {text for text in texts if (found := compiled.match(text)) and found.end() == len(text)}
    every = {text for text in texts if compiled.fullmatch(text)}
    for begin, expected in (("", first), ("%llguidance {}\n", every)):
        try:
            grammar = read_lark(f"{begin}start: /{pattern}/", LarkOptions(semantics="scannerless"))
        except UnsupportedError:  # it is unknown which text is preferred
            assert not begin and pattern in ("(?:a*)*b", "(?>a|ab)b?", "b(?!b)a")
            continue
        vocabulary = guided.Vocabulary([b"a", b"b", b"B", None], eos_token_ids=[3])
        native = guided.GrammarCompiler(vocabulary).compile_grammar(grammar)
        found = set()
        for text in texts:
            matcher = guided.GrammarMatcher(native)
            if matcher.accept_string(text) and matcher.is_accepting():
                found.add(text)
        assert found == expected, begin
