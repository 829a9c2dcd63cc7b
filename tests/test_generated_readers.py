"""Readers of grammars on generated texts: what a tree means, its text has to mean, and what is broken has its place.

For each notation a random tree is written as a text of it. The grammar must accept what the tree generates by the
definition (`tree_grammars.py`), and walks through its masks must end, within the budget, in such texts. Then pieces of
the text are left out, doubled and exchanged: it is compiled, or refused by an error of guided with a place in the text.
"""

from __future__ import annotations

import ast
import random
import re
import warnings
from collections.abc import Callable

from hypothesis import given, note
from hypothesis import strategies as st

from guided.errors import GuidedError, GuidedWarning, LimitExceeded, SpecError, UnsupportedError, VocabularyError
from guided.limits import Limits
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask, allowed_tokens
from guided.vocabulary import Vocabulary
from tests import gbnf_support
from tests.effort import examples
from tests.tree_grammars import CONTROL, Rules, accepts, generates_something, id_of, is_control

END = 256
NAMES = {257: "<think>", 258: "</think>"}
LIMITS = Limits(work=5_000_000, seconds=5)
COMPILER = GrammarCompiler(
    Vocabulary([bytes([code]) for code in range(256)] + [None, None, None], eos_token_ids=[END], special_tokens=NAMES),
    limits=LIMITS,
)
RANDOMS = st.randoms(use_true_random=False)


# --- what is asked of each answer


def answered(text: str, compile: Callable[[str], CompiledGrammar]) -> CompiledGrammar | GuidedError:
    """The grammar, or the error of a text that is refused: it has a place in the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuidedWarning)
            return compile(text)
    except LimitExceeded as error:
        assert error.given > error.allowed
        return error
    except VocabularyError as error:
        named = re.search(r"'(?:[^'\\]|\\.)*'|\d+", str(error))
        assert named is not None and str(ast.literal_eval(named[0])) in text, str(error)
        return error
    except (SpecError, UnsupportedError) as error:
        start, end = error.span
        if isinstance(error, UnsupportedError) and "left recursion" in error.reason:  # of a rule, and its line
            assert 1 <= int(error.pointer.rpartition("(line ")[2].rstrip(")")) <= text.count("\n") + 1
        else:
            assert error.text == text and 0 <= start <= end <= len(text), (error.span, str(error))
        return error


def takes(grammar: CompiledGrammar, text: str) -> bool:
    """Whether the grammar takes the text, in which tokens without a text are characters of their own."""
    matcher = GrammarMatcher(grammar)
    ids = [id for char in text for id in ([id_of(char)] if is_control(char) else char.encode())]
    return all(map(matcher.accept_token, ids)) and matcher.is_accepting()


def walked(grammar: CompiledGrammar, rng: random.Random, more: int) -> str:
    """What a walk through the masks writes within its budget, which is `more` tokens than are needed.

    It takes tokens of ASCII where it can: rules about tokens may allow bytes that are no whole character.
    """
    matcher, bitmask, out = GrammarMatcher(grammar), allocate_token_bitmask(1, COMPILER.vocabulary.size), b""
    for left in range(matcher.min_tokens_to_finish() + more, 0, -1):
        matcher.fill_next_token_bitmask(bitmask, max_tokens=left)
        allowed = list(allowed_tokens(bitmask))
        token = rng.choice([id for id in allowed if not 128 <= id < END] or allowed)
        assert matcher.accept_token(token)
        if token == END:
            return out.decode("utf-8", "surrogatepass")
        out += bytes([token]) if token < END else chr(CONTROL + token).encode("utf-8", "surrogatepass")
    raise AssertionError("the budget is used up, and the output is not complete")


def agree(grammar: CompiledGrammar | GuidedError, rules: Rules, letters: str, rng: random.Random) -> None:
    """The grammar is the tree's: on random texts, and on those that it writes itself."""
    if not isinstance(grammar, CompiledGrammar):
        assert isinstance(grammar, LimitExceeded | UnsupportedError) or not generates_something(rules), str(grammar)
        return
    assert generates_something(rules)
    for _ in range(30):
        text = "".join(rng.choice(letters) for _ in range(rng.randint(0, 5)))
        assert takes(grammar, text) == accepts(rules, text), text
    for more in (0, rng.randint(1, 6)):
        text = walked(grammar, rng, more)
        assert accepts(rules, text), text
        near = "".join(rng.choice([char, char, char, rng.choice(letters), ""]) for char in text[:12])
        assert takes(grammar, near) == accepts(rules, near), near


def broken(text: str, pieces: re.Pattern[str], others: list[str], rng: random.Random) -> str:
    """The text with a few of its pieces left out, doubled, moved, or replaced by `others`."""
    found = [each[0] for each in pieces.finditer(text)]
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(found) + 1)
        put = rng.choice([[], [rng.choice(others)], [rng.choice(found)] if found else []])
        found[at : at + rng.randrange(2)] = put
    return "".join(found)


# --- GBNF, with xgrammar's macros and options

GBNF_PIECES = re.compile(r'"(?:[^"\\\n]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|[A-Za-z0-9_.-]+|::=|\s+|.', re.DOTALL)
GBNF_OTHERS = [
    "root", "::=", '"a"', "[a-z]", "(", ")", "|", "*", "{2", "{2,1}", "{1,2}", "{0,99999999}", ",", "}", "\n", "#", "!",
    ".", "=", "TagDispatch(", "Regex(", "Token(", '("t", root)', "excludes=(", "(=", "\\", "é", "[", '"', "1", "true",
    "[max_chars=2]", "[capture]", 'Regex("[a")', 'Regex("(?=a)b")', "<think>", "<[258]>", "!<[65]>", "<other>",
    'TagDispatch(("a", root), ("ab", root))', "loop_after_dispatch=false", "ExcludeToken(3)", "Token(999)", "\x00",
    "TokenTagDispatch((257, root), excludes=(258))", "\ud800",
]  # fmt: skip


def gbnf(text: str) -> CompiledGrammar:
    return COMPILER.compile_gbnf(text, allow_special_tokens=True)


def judge_gbnf(rng: random.Random) -> None:
    with_macros = rng.random() < 0.7
    letters = "abc" if with_macros else "abé"
    drawn = gbnf_support.Drawn(rng, letters, {**NAMES, 97: "a"} if with_macros else None)
    rules = drawn.rules()
    text = drawn.text(rules)
    note(text)
    grammar = answered(text, gbnf)
    more = "".join(chr(CONTROL + id) for id in NAMES) if with_macros else ""
    agree(grammar, rules, letters + more, rng)
    for _ in range(4):
        changed = broken(text, GBNF_PIECES, GBNF_OTHERS, rng)
        note(changed)
        grammar = answered(changed, gbnf)
        if isinstance(grammar, CompiledGrammar) and GrammarMatcher(grammar).min_tokens_to_finish() < 100:
            walked(grammar, rng, 3)


@examples(80)
@given(RANDOMS)
def test_gbnf(rng: random.Random) -> None:
    judge_gbnf(rng)
