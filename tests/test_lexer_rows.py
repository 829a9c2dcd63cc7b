"""The rows of Lark's table, which show the core which terminals never compete: the core compared with its twin, which
does not use them.
"""

from __future__ import annotations

import random

import pytest

import guided
from guided.errors import SpecError, UnsupportedError
from guided.ir.nodes import EPSILON, Grammar, Lexer, Member, Node, Permutation, Repeat, Special, Terminal, Text
from tests.effort import draws
from tests.lark_support import lark_to_lexed
from tests.lexer_support import mask_of, vocabulary_for
from tests.test_lexer_masks import SEED, Pair, compare_masks, drawn_pairs, finish_within

TOKENS = (
    *(b"x", b"{", b"}", b"`", b"$", b"/", b"*", b" ", b"\n", b"+", b";", b"x}", b"}`", b"`${", b"} "),
    *(b" /", b"//", b" // x", b"/*", b"*/", b" x", b"x+", b"\n+", b"; x", b"xx", b"} x`", b"/x/"),
)
TEXTS = [
    # a template, in which expressions end with the same brace as in blocks
    r"""start: e
e: NAME | "{" e ";" e "}" | "`" CHARS? (OPEN e "}" CHARS?)* "`"
CHARS.1: /[^`$]+/
OPEN: "${"
NAME: /x+/""",
    r"""start: e
e: NAME | "{" e "}" | "`" CHARS? ("$" e "}" CHARS?)* CLOSE | e "+" NAME
CHARS.1: /([^`$+]|\+x)+/
CLOSE: /\+*`/
NAME: /x+/
%ignore / +/""",
    # a comment with a line break before a "+", which begins like a division
    r"""start: e
e: NAME | e "/" NAME | e "+" | e LATE ";"
LATE.1: /( |\/\*[^*\n]*\*\/)*(\/\/[^\n]*)?\n[ \n]*\+/
NAME: /x+/
%ignore /[ \n]+/
%ignore /\/\/[^\n]*/
%ignore /\/\*[^*]*\*\//""",
    # a regular expression, which begins like a division, and a line break that may not follow
    r"""start: s+
s: "{" e? "}" | "+" (NAME | BROKEN "}") ";"
e: NAME | REGEX | e "/" NAME
BROKEN.1: /[ ]*(\/\/[^\n]*)?\n/
REGEX: /\/[x*+]+\//
NAME: /x+/
%ignore / +/
%ignore /\/\/[^\n]*\n/""",
]
SYMBOLS = ['"+"', '"}"', '";"', "NAME", "e", "start"]


def random_contexts(rng: random.Random) -> str:
    """One of these grammars, with symbols added, removed and replaced."""
    lines = rng.choice(TEXTS).splitlines()
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        number = rng.randrange(len(lines))
        head, _, body = lines[number].partition(": ")
        if not head.islower():
            continue
        parts = body.split(" ")
        index = rng.randrange(len(parts) + 1)
        parts[index : index + rng.randrange(2)] = rng.choice([[], [rng.choice(SYMBOLS)]])
        lines[number] = f"{head}: {' '.join(parts)}"
    return "\n".join(lines) + "\n"


def test_masks_and_budgets_where_terminals_depend_on_the_row() -> None:
    rng = random.Random(f"rows {SEED}")
    pairs = drawn_pairs(rng, draws(40), "contextual", random_contexts, TOKENS)
    masks = sum(compare_masks(pair, rng, walks=2) for pair in pairs)
    finished = sum(finish_within(pair, rng, (0, 1, 3)) for pair in pairs)
    with_rows = [pair for pair in pairs if lark_to_lexed(pair.text)[1].rows]
    assert len(with_rows) > len(pairs) // 4 and masks > 5 * len(pairs) and finished > len(pairs)
    assert sum(pair.grammar.native.sure for pair in with_rows) > len(with_rows) // 5


def test_rows_of_a_template() -> None:
    """After the "}" of a template, its characters are tried. After other "}", they are not."""
    text = 'start: e\ne: "x" | "{" e "}" | "`" CHARS? ("${" e "}" CHARS?)* "`"\nCHARS.1: /[^`$]+/\n'
    _, lexer = lark_to_lexed(text)
    after_brace = {row for row, names in lexer.rows.items() if "RBRACE" in names}
    assert {frozenset({"CHARS", "BACKQUOTE", "__ANON_0"}), frozenset({"RBRACE"})} <= after_brace
    assert not any({"CHARS", "RBRACE"} <= row for row in lexer.rows)
    assert guided.GrammarCompiler(vocabulary_for([])).compile_lark(text).native.sure


@pytest.mark.parametrize(
    ("text", "has_rows"),
    [
        ('start: "a" start | "b"\n', True),
        ('start: "a" start | "a" start "b" start | "c"\n', False),  # Lark shifts "b"
        ('start: "a" start | "a" start NEVER start | "b"\nNEVER: /[^\\s\\S]/\n', True),
    ],
)
def test_rows_need_a_table_without_conflicts(text: str, has_rows: bool) -> None:
    try:
        _, lexer = lark_to_lexed(text)
    except SpecError:
        pytest.fail("the grammar is valid")
    assert bool(lexer.rows) == has_rows
    assert not lark_to_lexed(text, lexer="basic")[1].rows


LATE = r"""
start: e
e: NAME | e "/" NAME | e LATE "x"
LATE.1: /([ ]|\/\*[^*\n]*\*\/)*(\/\/[^\n]*)?\n *\+\+/
NAME: /[a-z]+/
%ignore /[ \n]+/
%ignore /\/\/[^\n]*/
%ignore /\/\*[^*]*\*\//
"""


def test_a_competitor_that_survives_a_separator_but_never_matches() -> None:
    """After `a `, the `/` of a division may begin the comment of LATE."""
    grammar = guided.GrammarCompiler(vocabulary_for(["a / b", "// c", "\n ++x"])).compile_lark(LATE)
    assert grammar.native.sure
    pair = Pair(LATE, tokens=(*TOKENS, b"a", b"++"))
    assert compare_masks(pair, random.Random(f"late {SEED}"), walks=12) > 60


@pytest.mark.parametrize(
    ("prefix", "token", "is_allowed"),
    [
        ("f(a => { return ", "//", False),  # a line break after `return` is not supported
        ("f(a => { return ", "/*", True),
        ("f(a => { return 1 ", "//", True),
        ("`${a} ", "//", True),
        ("`${a", "//", True),
    ],
)
def test_comments_whose_completion_depends_on_the_place(prefix: str, token: str, is_allowed: bool) -> None:
    vocabulary = vocabulary_for([prefix, "// x", "/* x */"])
    matcher = guided.GrammarMatcher(guided.GrammarCompiler(vocabulary).compile(guided.grammar("javascript")))
    assert matcher.accept_string(prefix)
    number = list(vocabulary.tokens).index(token.encode())
    assert (number in mask_of(matcher)) == is_allowed == (number in set(matcher._walk_mask()))


@pytest.mark.parametrize(
    "node",
    [Repeat(Special("A"), 2, 500), Permutation((Member(Special("A"), True), Member(Special("B"), False)), EPSILON)],
)
def test_rules_over_terminals_have_no_counts(node: Node) -> None:
    """The front ends expand them. A grammar that was written by hand, or a changed file, is refused."""
    lexer = Lexer((Terminal("A", Text("a")), Terminal("B", Text("b"))))
    compiler = guided.GrammarCompiler(vocabulary_for([]))
    with pytest.raises(UnsupportedError, match=r"counts, permutations(?s:.)*hint: write the repetitions out"):
        compiler.compile(Grammar({"start": node}, "start", lexer=lexer))
