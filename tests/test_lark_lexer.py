"""Which texts are in the language of a Lark grammar with its lexer?

Lark's LALR parser with its contextual lexer is the judge of the twin, or its Earley parser with the basic lexer.
"""

from __future__ import annotations

import random

import pytest

from guided.automaton.reference.lexer import LexedLanguage
from guided.errors import SpecError
from tests.effort import draws, every
from tests.lark_support import lark_to_lexed

lark = pytest.importorskip("lark", reason="lark is not installed")

from tests.lark_judge import Sequences, lalr, parses  # noqa: E402
from tests.lark_public import PUBLIC  # noqa: E402
from tests.lexer_support import Blocks, near, random_blocks, random_grammar, random_lines, walk  # noqa: E402


def judged(rng, make, alphabet, texts, **options):
    """A grammar without conflicts, its parser and its twin."""
    while True:
        text = make(rng)
        parser = lalr(text, **options)
        if parser is None:
            continue
        twin = LexedLanguage(*lark_to_lexed(text, **options), frozenset(alphabet.encode()))
        for sample in texts(rng, twin):
            assert twin.accepts(sample.encode()) == parses(parser, sample), (text, sample)
        return


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("seed", every(3, range(12)))
def test_random_grammars_are_cut_as_lark_cuts_them(seed, lexer):
    rng, alphabet = random.Random(seed), "abcAB"

    def texts(rng, twin):
        out = ["".join(rng.choice("aabbcA") for _ in range(rng.randrange(8))) for _ in range(24)]
        return out + [near(rng, walk(rng, twin, alphabet, 12), alphabet) for _ in range(16)]

    for _ in range(draws(40)):
        judged(rng, random_grammar, alphabet, texts, lexer=lexer)


@pytest.mark.parametrize("seed", every(2, range(4)))
def test_grammars_that_lalr_refuses_are_cut_in_the_same_way(seed):
    rng, alphabet, done = random.Random(seed), "abcAB", 0
    while done < draws(25):
        text = random_grammar(rng)
        try:
            lark.Lark(text, parser="lalr")
        except lark.exceptions.GrammarError as error:
            if "Reduce/Reduce" not in str(error):
                continue
        except lark.exceptions.LarkError:
            continue
        else:
            continue
        done += 1
        judge = Sequences(text, 6)
        twin = LexedLanguage(*lark_to_lexed(text), frozenset(alphabet.encode()))
        samples = ["".join(rng.choice("aabbcA") for _ in range(rng.randrange(7))) for _ in range(20)]
        for sample in [*samples, *(near(rng, walk(rng, twin, alphabet, 6), alphabet)[:6] for _ in range(20))]:
            assert twin.accepts(sample.encode()) == judge.parses(sample), (text, sample)


# After a string, Lark's table shifts the line break as one between strings, and no longer tries the tokens that begin a
# line.
BETWEEN_STRINGS = r"""
start: line*
line: (strings | "import" NAME | "(" _between NAME ")") _NL
strings: STRING (_between STRING)*
_between: _NL?
_NL: /\n+/
NAME: /[a-z]+/
STRING: /[a-z]?"a"/
%ignore " "
"""


def test_where_the_table_shifts_all_that_rules_take_is_tried():
    parser = lark.Lark(BETWEEN_STRINGS, lexer="dynamic_complete")
    twin = LexedLanguage(*lark_to_lexed(BETWEEN_STRINGS), frozenset(b'abmx importr()\n"'))
    for text in ('"a"\nimport x\n', 'r"a"\n"a"\n', "(\nx)\n", '"a"\n(x)\n'):
        assert twin.accepts(text.encode()) and parses(parser, text)
        assert not twin.accepts(text[:-2].encode()) and not parses(parser, text[:-2])


@pytest.mark.parametrize("seed", every(2, range(6)))
def test_all_grammars_are_cut_by_the_basic_lexer(seed):
    """Whatever conflicts a table would have (at least four of these grammars have some), Lark's Earley parser reads the
    lexemes.
    """
    rng, alphabet, done, conflicts = random.Random(seed), "abcAB", 0, 0
    while done < 30 or conflicts < 4:
        text = random_grammar(rng)
        try:
            parser = lark.Lark(text, parser="earley", lexer="basic")
            twin = LexedLanguage(*lark_to_lexed(text, lexer="basic"), frozenset(alphabet.encode()))
        except (lark.exceptions.LarkError, SpecError):
            continue
        done, conflicts = done + 1, conflicts + (lalr(text) is None)
        samples = ["".join(rng.choice("aabbcA") for _ in range(rng.randrange(8))) for _ in range(16)]
        for sample in [*samples, *(near(rng, walk(rng, twin, alphabet, 10), alphabet) for _ in range(12))]:
            assert twin.accepts(sample.encode()) == parses(parser, sample), (text, sample)


def test_a_lexeme_that_can_stand_nowhere_leads_nowhere():
    """And no lexeme that leads to an output counts as one."""
    rng, alphabet, dead = random.Random(5), "abcAB", 0
    for _ in range(40):
        text = random_grammar(rng)
        twin = LexedLanguage(*lark_to_lexed(text, lexer="basic"), frozenset(alphabet.encode()))
        for _ in range(12):
            state = twin.start
            while state:
                byte = ord(rng.choice(alphabet))
                after, read = twin.step(state, byte), twin.read(state, byte)
                assert twin.can_continue(read) or after is None, text
                dead += bool(read) and not twin.can_continue(read)
                state = after if rng.random() < 0.9 else None
    assert dead > 20


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("seed", every(2, range(8)))
def test_random_blocks_are_indented_as_lark_indents_them(seed, lexer):
    rng, alphabet = random.Random(seed), "ab() \t\n#"

    def texts(rng, twin):
        walks = [near(rng, walk(rng, twin, alphabet, 24), alphabet) for _ in range(12)]
        return walks + [random_lines(rng) for _ in range(20)]

    for _ in range(draws(12)):
        judged(rng, random_blocks, alphabet, texts, postlex=Blocks(), lexer=lexer)


@pytest.mark.parametrize("name", PUBLIC)
def test_grammars_as_people_write_them(name):
    text, good, bad = PUBLIC[name]
    parser, rng = lalr(text), random.Random(name)
    twin = LexedLanguage(*lark_to_lexed(text))
    for sample in [*good, *bad]:
        assert twin.accepts(sample.encode()) == parses(parser, sample) == (sample in good), sample
        for _ in range(draws(6)):
            other = near(rng, sample, [*'a1 ,"(])}\n', *rng.choice(good)], 1)
            assert twin.accepts(other.encode()) == parses(parser, other), other
