"""Malformed GBNF grammars: the location, the problem and a hint. Expansion bombs end, and random texts give results or
errors.
"""

from __future__ import annotations

import random

import pytest

import guided
from guided.errors import GuidedError, GuidedWarning, LimitExceeded, SpecError, UnsupportedError, VocabularyError
from guided.frontends.gbnf import gbnf_to_grammar
from guided.limits import Limits
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.gbnf_grammars import GRAMMARS

VOCABULARY = Vocabulary(
    [bytes([code]) for code in range(256)] + [None, None, None],
    eos_token_ids=[256],
    special_tokens={257: "<think>", 258: "</think>"},
)
COMPILER = GrammarCompiler(VOCABULARY)

# the grammar, with the expected location between » and «; words of the message; words of the hint
MALFORMED: list[tuple[str, str, str]] = [
    ("»«", "no rules", 'root ::= "text"'),
    ("# only a comment\n»«", "no rules", "root"),
    ('»"a"«', "begins with a rule", "root"),
    ('»root« = "a"', "begins with a rule", "::="),
    ("root »:«= 'a'", "is unexpected", "::="),
    ("root ::= »'«a'", "is unexpected", "double quotes"),
    ('root ::= "a" »;«', "is unexpected", "ends where the next one begins"),
    ('»/«/ comment\nroot ::= "a"', "is unexpected", "#"),
    ('root ::= »/«[a-z]+/', "is unexpected", "Regex"),
    ('»%«ignore " "', "is unexpected", "Lark"),
    ('root ::= "a"»~«2', "is unexpected", "{2,3}"),
    ("root ::= a »]«", "is unexpected", "no character class is open"),
    ('»\ufeff«root ::= "a"', "is unexpected", "a byte order mark: open the file with encoding='utf-8-sig'"),
    ('root ::= »"«abc', "never closed", "end it with"),
    ("root ::= »[«abc", "never closed", "end it with ]"),
    ('root ::= »(«"a" | ("b")', "never closed", "end it with )"),
    ('root ::= "a" »)«', "no group is open", '")"'),
    ("root ::= »<«think", "never closed", "<[id]>"),
    ('root ::= »!«"a"', "must precede a token", "!<name>"),
    ("root ::= »<>«", "no name", "<name>"),
    ("root ::= »<[a]>«", "an id is a number", "<[128000]>"),
    ('root ::= "x" »y«', "'y' is not defined", "literal"),
    ('root ::= »valeu«\nvalue ::= "a"', "'valeu' is not defined", "did you mean 'value'?"),
    ('root ::= »TagDispath«(("a", b))\nb ::= "c"', "not defined", "did you mean 'TagDispatch'?"),
    ('root ::= a.»b«\na ::= "x"', "'b' is not defined", "literal"),
    ('root ::= "a"\n»root« ::= "b"', "defined twice", "|"),
    ('root ::= "a" »b« ::= "c"', "must begin on a new line", "line break"),
    ('"x" »::=« "c"', "must follow the name of a rule", "name ::="),
    ('root »::=«\nb ::= "c"', "must be followed by an alternative", '""'),
    ('root ::= "a" »|«\nb ::= "c"', "must be followed by an alternative", '""'),
    ("root ::= »*«", "nothing to repeat", "item*"),
    ('root ::= "a" | »+«', "nothing to repeat", "item+"),
    ('root ::= "a"{»,«3}', "lower bound", "{0,n}"),
    ('root ::= "a"{»x«}', "lower bound", "{0,n}"),
    ('root ::= "a"{2,»x«}', "upper bound must be a number", "{m,n}"),
    ('root ::= "a"»{«2', "never closed", "{m,n}"),
    ('root ::= "a"»{3,2}«', "less than the lower bound", "{lower,upper}"),
    ('root ::= "a" »,« "b"', "no meaning here", '","'),
    ('root ::= "a" »=« "b"', "no meaning here", "::="),
    ("root ::= »[]«", "class is empty", '""'),
    ("root ::= [»z-a«]", "ends before it begins", r"\-"),
    (r"root ::= [»\d«]", "unknown", "[0-9]"),
    (r"root ::= [»\w«]", "unknown", "[A-Za-z0-9_]"),
    (r'root ::= "»\.«"', "unknown", "stands for itself"),
    (r'root ::= "»\q«"', "unknown", "\\\\"),
    (r'root ::= "»\u12«"', "4 hexadecimal digits", r"\u0012"),
    (r'root ::= "»\x«g"', "\\x needs a hexadecimal digit", ""),
    (r'root ::= "»\U00110000«"', "no such character", "U0010FFFF"),
    (r'root ::= "»\ud83d«\ude00"', "lone surrogate", "UXXXXXXXX"),
    ('»root« ::= "a" root', "never ends", "alternative that ends"),
    ('root ::= a\n»a« ::= b "x"\nb ::= a | a "y"', "it needs 'b'", "alternative that ends"),
    ('root ::= "a" (= "b") »"c"«', "nothing may follow an assertion", "before"),
    ('root ::= ("a" »(=« "b"))', "outside of groups", ""),
    ('root ::= v\nv[»max_char«=3] ::= "a"', "unknown", "max_chars"),
    ('root ::= v\nv[»eager«] ::= "a"', "unknown", "the options are"),
    ('root ::= v\nv[»max_chars=x]« ::= "a"', "number of characters", "max_chars=10"),
    ('root ::= v\nv[»max_chars=²]« ::= "a"', "number of characters", "max_chars=10"),
    ('root ::= v\nv[»max_tokens=٣]« ::= "a"', "number of tokens", "max_tokens=10"),
    ("root ::= »<[²]>«", "an id is a number", "<[128000]>"),
    ("root ::= »!<[٣]>«", "an id is a number", "<[128000]>"),
    ('root ::= v\nv[max_chars=1,»max_chars«=2] ::= "a"', "twice", ""),
    ('root ::= v\nv[»=3]« ::= "a"', "malformed", "[max_chars=10]"),
    ("root ::= »Regex«()", "one pattern", 'Regex("[a-z]+")'),
    ("root ::= »Regex«(root)", "one pattern", "Regex"),
    ('root ::= Regex(»"["«)', "in the pattern", ""),
    ('root ::= Regex("a", jsonstring=»true«)', "no argument", "json_string"),
    ('root ::= Regex("a", json_string=»"x"«)', "true or false", ""),
    ('root ::= Regex("a" »"b"«)', "a comma or )", "commas"),
    ('root ::= Regex»(«"a"', "never closed", "end them with )"),
    ('root ::= TagDispatch(»(«"a", root', "never closed", "end them with )"),
    ("root ::= Regex(»*«)", "argument is missing", "literal"),
    ("root ::= »Token«()", "token ids", "Token(128000)"),
    ('root ::= Token(»"a"«)', "token id is expected", "Token(128000)"),
    ("root ::= ExcludeToken(»-1«)", "token id is expected", "ExcludeToken"),
    ('root ::= TagDispatch(»"a"«)', "pair", '("<tag>", rule)'),
    ('root ::= TagDispatch((»""«, b))\nb ::= "c"', "non-empty literal", '("<tag>", rule)'),
    ('root ::= TagDispatch((»1«, b))\nb ::= "c"', "non-empty literal", '("<tag>", rule)'),
    ('root ::= TagDispatch(("a", »c«))\nbb ::= "c"', "'c' is not defined", ""),
    ('root ::= TagDispatch(("a", b), excludes=»"x"«)\nb ::= "c"', "tuple", 'excludes=("</s>",)'),
    ('root ::= TagDispatch(("ab", b), excludes=(»"a"«,))\nb ::= "c"', "begins with an excluded text", "remove one"),
    ('root ::= TagDispatch((»"abc"«, b), ("b", b))\nb ::= "c"', "never reached", "remove one"),
    ('root ::= TagDispatch(("a", b), loop=»true«)\nb ::= "c"', "no argument", "loop_after_dispatch"),
    ("root ::= TokenTagDispatch((257, b), excludes=(»257«,))\nb ::= \"c\"", "trigger and excluded", "remove one"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*lookahead assertion")
@pytest.mark.parametrize("number", range(len(MALFORMED)))
def test_malformed(number: int) -> None:
    marked, message, hint = MALFORMED[number]
    start = marked.index("»")
    end = marked.index("«") - 1
    text = marked.replace("»", "").replace("«", "")
    with pytest.raises(SpecError) as caught:
        COMPILER.compile_gbnf(text, allow_special_tokens=True)
    error = caught.value
    assert error.text == text
    assert error.span == (start, end), (error.span, str(error))
    assert message in error.message
    assert hint in error.hint


def test_the_error_shows_the_line() -> None:
    with pytest.raises(SpecError) as caught:
        COMPILER.compile_gbnf('root ::= item+\nitem ::= "- " itme\n')
    assert str(caught.value) == (
        "rule 'itme' is not defined (line 2, column 15)\n"
        '    item ::= "- " itme\n'
        "                  ^^^^\n"
        "hint: did you mean 'item'?"
    )


def test_the_root_must_be_defined() -> None:
    with pytest.raises(SpecError) as caught:
        COMPILER.compile_gbnf('a ::= "x"\nrot ::= "y"')
    assert caught.value.hint == "did you mean 'rot'?" and caught.value.span == (10, 13)
    with pytest.raises(SpecError, match="'start', is not defined"):
        COMPILER.compile_gbnf('root ::= "x"', root="start")
    assert GrammarMatcher(COMPILER.compile_gbnf('a ::= "x"\nb ::= "y"', root="b")).accept_string("y")


@pytest.mark.parametrize("text", [b"root ::= 'a'", None, 3])
def test_sources_that_are_not_text(text: object) -> None:
    with pytest.raises(SpecError, match="a grammar is a string"):
        COMPILER.compile_gbnf(text)  # type: ignore[arg-type]


# --- refusals and warnings


@pytest.mark.parametrize("option", ["stop_capture=x", "capture_hidden_stop_bytes=3", "capture_hidden_body_rule_id=1"])
def test_options_that_are_refused(option: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        COMPILER.compile_gbnf(f'root ::= v\nv[{option}] ::= "a"')
    assert caught.value.span[0] == 13 and caught.value.hint and caught.value.reason


@pytest.mark.parametrize("body", ['"(" v ")" | "a"', "w", "<think>"])
def test_characters_of_what_is_not_regular_are_not_counted(body: str) -> None:
    with pytest.raises(UnsupportedError, match="regular"):
        COMPILER.compile_gbnf(f'root ::= v\nw ::= "" | "(" w ")"\nv[max_chars=4] ::= {body}', allow_special_tokens=True)


def test_recursion_on_the_left_through_a_long_count_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="left recursion through a counted repetition") as caught:
        COMPILER.compile_gbnf('root ::= a\na ::= a{2,300} "a" | "b"')
    assert caught.value.pointer == "a (line 2)"


def test_an_assertion_restricts_nothing_and_is_warned_of() -> None:
    with pytest.warns(GuidedWarning, match="lookahead assertion"):
        grammar = COMPILER.compile_gbnf('root ::= a "c"\na ::= "a" (= "b" | a)')
    matcher = GrammarMatcher(grammar)
    assert matcher.accept_string("ac") and matcher.is_accepting()


def test_a_third_digit_after_x_is_warned_of() -> None:
    with pytest.warns(GuidedWarning, match="takes two digits"):
        grammar = COMPILER.compile_gbnf(r'root ::= "\x41F"')
    assert GrammarMatcher(grammar).accept_string("AF")


# --- tokens


def accepts(text: str, steps: list[int | str], *, allow: bool = True) -> bool:
    matcher = GrammarMatcher(COMPILER.compile_gbnf(text, allow_special_tokens=allow))
    taken = all(matcher.accept_token(step) if isinstance(step, int) else matcher.accept_string(step) for step in steps)
    return taken and matcher.is_accepting()


@pytest.mark.parametrize(
    ("text", "accepted", "refused"),
    [
        ("root ::= <think>", [[257]], [["<think>"], [258], []]),
        ("root ::= <[257]> \"x\"", [[257, "x"]], [[257], ["x"]]),
        ("root ::= <[65]>", [[65]], [["A"], [66]]),
        ('root ::= Token(257, 258) "x"', [[257, "x"], [258, "x"]], [["x"]]),
        ("root ::= <think> thinking </think> .*\nthinking ::= !</think>*", [[257, 258], [257, "é a", 258, "b"]],
         [["a"], [257, 257, 258], [257]]),
        ("root ::= !<[258]>+ <[258]>", [["a", 258]], [[258]]),
        ("root ::= !<think>", [[65]], [[257], [258], [65, 65]]),
        ("root ::= !<[65]> \"x\"", [[66, "x"]], [[65, "x"]]),
        ("root ::= !<[65]>*", [[], [66, 67]], [[65], [66, 65]]),
        ("root ::= ExcludeToken(65, 66){2}", [[67, 68]], [[67], [67, 65], [67, 67, 67]]),
        ('root ::= TokenTagDispatch((257, b))\nb ::= "x"', [[], ["abc"], ["a", 257, "x", "b", 257, "x"]],
         [[257], [257, "y"], [258]]),
        ('root ::= TokenTagDispatch((257, b), loop_after_dispatch=false)\nb ::= "x"', [["abc"], ["a", 257, "x"]],
         [[257, "x", "b"]]),
        ('root ::= TokenTagDispatch((257, b), excludes=(65,))\nb ::= "x"', [[66], [66, 257, "x"]], [[65]]),
        ('root ::= TokenTagDispatch((65, b))\nb ::= "x"', [[66], [65, "x"]], [[65], [66, 65, 66]]),
    ],
)  # fmt: skip
def test_tokens(text: str, accepted: list[list[int | str]], refused: list[list[int | str]]) -> None:
    assert all(accepts(text, steps) for steps in accepted)
    assert not any(accepts(text, steps) for steps in refused)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('root ::= "a" <think>', "<think>"),
        ('root ::= "a" <[257]>', "<[257]>"),
        ("root ::= Token(257)", "Token"),
        ('root ::= TokenTagDispatch((257, b))\nb ::= "x"', "257"),
    ],
)
def test_tokens_are_named_only_with_permission(text: str, named: str) -> None:
    with pytest.raises(SpecError, match="not allowed") as caught:
        COMPILER.compile_gbnf(text)
    assert text[slice(*caught.value.span)] == named
    assert "allow_special_tokens=True" in caught.value.hint
    with pytest.raises(SpecError, match="not allowed"):
        COMPILER.compile(guided.gbnf(text))
    COMPILER.compile(guided.gbnf(text, allow_special_tokens=True))


def test_tokens_may_always_be_excluded() -> None:
    assert accepts("root ::= !</think>*", ["a"], allow=False)


def test_tokens_that_the_vocabulary_lacks() -> None:
    for text in ("root ::= <tool>", "root ::= !<tool>", "root ::= <[999]>", "root ::= !<[999]>"):
        with pytest.raises(VocabularyError):
            COMPILER.compile_gbnf(text, allow_special_tokens=True)


# --- as a part


def test_as_a_part_of_a_composed_specification() -> None:
    pair = guided.gbnf('root ::= "(" x ")"\nx ::= root | ""') + guided.gbnf('root ::= x\nx ::= "1"')
    matcher = GrammarMatcher(COMPILER.compile(pair))
    assert matcher.accept_string("(())1") and matcher.is_accepting()
    nested = "(" * 400 + '"x"' + ")*" * 400
    assert GrammarMatcher(COMPILER.compile(guided.gbnf(f"root ::= {nested}"))).accept_string("xx")


def test_explanations_name_the_rule_and_its_line() -> None:
    matcher = GrammarMatcher(COMPILER.compile_gbnf('root ::= "a" "b" item "c"\n\nitem ::= "d" item "e" | "f"'))
    matcher.accept_string("abd")
    assert "item (line 3)" in matcher.explain(b"x").places


# --- bombs and noise


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("root ::= " + "(" * 600 + '"a"' + ")" * 600, "depth"),
        ('root ::= "' + "a" * 5_000_000 + '"', "spec_length"),
        ('root ::= (((("a" [b-z]){1000}){1000}){1000}){1000}', ""),
        ('root ::= ((((a){1000}){1000}){1000}){1000}\na ::= "b" | "c" a', ""),
        ('root ::= "a"{99999999999999999999}', ""),
        ("root ::= " + " ".join(f'r{i}' for i in range(40)) + "\n" +
         "".join(f'r{i} ::= r{i + 1} r{i + 1} | "a"\n' for i in range(40)) + 'r40 ::= "b"', None),
        ("root ::= " + '("" | "a")' * 3000, None),
        ("root ::= r0\n" + "".join(f"r{i} ::= r{i + 1}\n" for i in range(5000)) + 'r5000 ::= "a"', None),
        ("root ::= r0\n" + "".join(f"r{i} ::= r{i + 1}\n" for i in range(5000)) + "r5000 ::= r0", "empty"),
        ("root ::= " + '("a" ' * 480 + "root" + ' | "b" root)' * 480, "empty"),
        ("root ::= " + "((" * 240 + "root" + ")+)+" * 240, "empty"),
        ("root ::= " + '("a" ' * 480 + "root" + ' | "b")' * 480, None),
        ("root ::= TagDispatch(" + ", ".join(f'("<{i}>", b)' for i in range(300)) + ')\nb ::= "x"', None),
        (r'root ::= Regex("((a{1,1000}){1,1000}){1,1000}")', ""),
    ],
)  # fmt: skip
def test_bombs_end(text: str, limit: str | None) -> None:
    """`limit`: the limit that is reached; "": any limit or none; None: the grammar must compile."""
    compiler = GrammarCompiler(VOCABULARY, limits=Limits(work=20_000_000))
    if limit is None:
        compiler.compile_gbnf(text)
        return
    try:
        compiler.compile_gbnf(text)
    except LimitExceeded as error:
        assert limit in ("", error.limit)
    except SpecError as error:
        assert limit == "empty", str(error)
    else:
        assert limit == ""


@pytest.mark.filterwarnings("ignore::guided.GuidedWarning")
def test_a_fuzzed_reader_answers_with_a_grammar_or_an_error_of_guided() -> None:
    source = random.Random(0)
    parts = ["root", "::=", '"a"', "[a-z]", "(", ")", "|", "*", "{2", ",", "}", "\n", "#", "<think>", "!", ".", "=",
             "TagDispatch(", "Regex(", "Token(", '("t", root)', "excludes=", "(=", "\\", "\x00", "é", "\ud800", "[",
             "\"", "1"]  # fmt: skip
    texts = [*GRAMMARS.values(), 'root ::= TagDispatch(("<t>", b), excludes=("x",))\nb[max_chars=3] ::= Regex("a+")']
    read = 0
    for round in range(3000):
        if round % 3 == 0:
            text = " ".join(source.choice(parts) for _ in range(source.randint(1, 20)))
        else:
            text = source.choice(texts)
            for _ in range(source.randint(1, 4)):
                at = source.randrange(len(text) + 1)
                text = text[:at] + source.choice([*parts, ""]) + text[at + source.randint(0, 3) :]
        try:
            gbnf_to_grammar(text, allow_special_tokens=True)
            read += 1
        except GuidedError as error:
            assert str(error)
    assert 200 < read < 2500
