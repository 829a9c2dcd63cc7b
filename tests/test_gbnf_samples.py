r"""Samples of GBNF and of xgrammar's EBNF: a grammar, texts that it generates, texts that it does not.

If xgrammar is installed, it must agree. `XGRAMMAR_DIFFERS` lists the texts on which it disagrees, with the reason.
"""

from __future__ import annotations

import pytest

from guided.frontends.gbnf import is_gbnf
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.gbnf_grammars import GRAMMARS
from tests.xgrammar_version import XGRAMMAR

COMPILER = GrammarCompiler(Vocabulary([bytes([code]) for code in range(256)], eos_token_ids=[256]))

# grammar, accepted, refused
SAMPLES: list[tuple[str, list[str], list[str]]] = [
    # literals and escapes
    ('root ::= "hello"', ["hello"], ["Hello", "hell", "helloo", ""]),
    ('root ::= ""', [""], ["a"]),
    (r'root ::= "\t\r\n\\\""', ['\t\r\n\\"'], ["t"]),
    (r'root ::= "\x41\x7a"', ["Az"], ["A", "x41"]),
    (r'root ::= "\u00e9\u4E2D"', ["é中"], ["e"]),
    (r'root ::= "\U0001F600\U00000041"', ["\U0001f600A"], ["\ufffd"]),
    (r'root ::= "\[\]\-"', ["[]-"], [r"\[\]"]),
    (r'''root ::= "\/\'\?"''', ["/'?"], ["/"]),
    (r'root ::= "\b\f\a\v\0\e"', ["\b\f\a\v\0\x1b"], ["bfav0e"]),
    ('root ::= "中文😀"', ["中文😀"], ["中文"]),
    ('root ::= "a # b"', ["a # b"], ["a "]),
    ('root ::= "two\nlines"', ["two\nlines"], ["two lines"]),
    (r'root ::= "\\x41"', [r"\x41"], ["A"]),
    # classes
    ("root ::= [abc]", ["a", "b", "c"], ["d", "ab", ""]),
    ("root ::= [a-c0-2]", ["b", "1"], ["-", "3"]),
    ("root ::= [^0-9]", ["a", "\n", "é"], ["5", ""]),
    ("root ::= [^]", ["a", "\n", "\U0010ffff"], ["", "ab"]),
    ("root ::= [a-]", ["a", "-"], ["b"]),
    ("root ::= [-a]", ["a", "-"], ["b"]),
    ("root ::= [a-c-e]", ["a", "b", "-", "e"], ["d"]),
    (r"root ::= [a\-c]", ["a", "-", "c"], ["b"]),
    (r"root ::= [\]\[^]", ["]", "[", "^"], ["\\"]),
    (r"root ::= [\\]", ["\\"], ["]"]),
    (r"root ::= [\x00-\x1F]", ["\0", "\x1f", "\n"], [" ", "x"]),
    (r"root ::= [\u4e00-\u9fff]", ["一", "文"], ["a", "ぁ"]),
    (r"root ::= [\U0001F600-\U0001F64F]", ["\U0001f600"], ["\U0001f650"]),
    (r"root ::= [\u0000-\uFFFF]", ["\ud7ff", "\uffff"], ["\U00010000"]),
    ("root ::= [ぁ-ゟ]+", ["ひらがな"], ["カタカナ"]),
    (r"root ::= [\.\*\+\?\(\)\{\}\|\/\$\^]", [".", "*", "^", "$", "{"], ["\\", "a"]),
    (r'''root ::= ["']''', ['"', "'"], ["a"]),
    ('root ::= [#] "x" # comment', ["#x"], ["x"]),
    ("root ::= [A-Za-z_] [A-Za-z0-9_]*", ["x", "_a1"], ["1a", ""]),
    ("root ::= [^a] [^b]", ["ba", "xx"], ["aa", "bb", "b"]),
    # any character
    ("root ::= .", ["a", "\n", "é", "\U0001f600"], ["", "ab"]),
    ('root ::= "a".*"b"', ["ab", "a\n\nb", "abab"], ["a", "ba"]),
    ("root ::= .{2}", ["ab", "é\n"], ["a", "abc"]),
    ('root ::= x.x\nx ::= "1"', ["1a1", "1\n1"], ["11", "1aa1"]),
    ('root ::= x..\nx ::= "1"', ["1ab"], ["1a", "1"]),
    # names
    ('root ::= a-b\na-b ::= "x"', ["x"], ["a"]),
    ('root ::= 1st\n1st ::= "x"', ["x"], ["1st"]),
    ('root ::= a_b\na_b ::= "x"', ["x"], []),
    ('root ::= a.b\na.b ::= "x"', ["x"], ["a"]),
    ('root ::= a.b\na.b ::= "x"\na ::= "1"\nb ::= "2"', ["x"], ["1x2", "1a2"]),
    ('root ::= true\ntrue ::= "x"', ["x"], ["true"]),
    ('root ::= Token ("a" | "b")\nToken ::= "t"', ["ta", "tb"], ["t"]),
    # sequences, alternatives, groups
    ('root ::= "a" "b" "c"', ["abc"], ["ab", "a b c"]),
    ('root ::= "a" | "b" "c"', ["a", "bc"], ["ac", "b"]),
    ('root ::= ("a" | "b") "c"', ["ac", "bc"], ["a", "c"]),
    ("root ::= ()", [""], ["a"]),
    ('root ::= ( ) "a"', ["a"], [""]),
    ('root ::= "a" |', ["a", ""], ["aa"]),
    ('root ::= | "a"', ["a", ""], ["b"]),
    ('root ::= "a" | | "b"', ["a", "b", ""], ["ab"]),
    ('root ::= ("x" |) "y"', ["xy", "y"], ["x"]),
    ('root ::= (("a" | ("b")) ("c" | ""))', ["a", "ac", "b", "bc"], ["c", ""]),
    ("root ::=", [""], ["a"]),
    # repetition
    ('root ::= "ab"*', ["", "ab", "abab"], ["a", "aba"]),
    ('root ::= "ab"+', ["ab", "abab"], ["", "abb"]),
    ('root ::= "ab"?', ["", "ab"], ["a", "abab"]),
    ('root ::= [a-c]{3}', ["abc"], ["ab", "abca"]),
    ('root ::= "a"{2,}', ["aa", "aaaa"], ["a", ""]),
    ('root ::= "a"{2,3}', ["aa", "aaa"], ["a", "aaaa"]),
    ('root ::= "a"{0,2} "b"', ["b", "ab", "aab"], ["aaab"]),
    ('root ::= "a"{0} "b"', ["b"], ["ab"]),
    ('root ::= "a"{0,0}', [""], ["a"]),
    ('root ::= "a" { 2 , 3 }', ["aa", "aaa"], ["a"]),
    ('root ::= "a"{2,-1}', ["aa", "aaaaa"], ["a"]),
    ('root ::= "a" *', ["", "aaa"], ["b"]),
    ('root ::= "a"++', ["a", "aaa"], [""]),
    ('root ::= "a"?*', ["", "aa"], ["b"]),
    ('root ::= "a"{2}{2}', ["aaaa"], ["aa", "aaa"]),
    ('root ::= ("a" "b"?){2}', ["aa", "aba", "abab"], ["a", "bb"]),
    ('root ::= (""){3} "a"', ["a"], [""]),
    ('root ::= [0-9]{2001}', ["7" * 2001], ["7" * 2000, "7" * 2002]),
    ('root ::= "a"{0,3000}', ["", "a" * 3000], ["a" * 3001]),
    # layout
    ('# first\nroot ::= x # second\n\n  # third\nx ::= "1"\n', ["1"], ["x"]),
    ('root ::=\n  "a"', ["a"], [""]),
    ('root ::= "a" |\n  "b" |\n  "c"', ["a", "b", "c"], ["ab"]),
    ('root ::= (\n  "a"\n  "b" # both\n)', ["ab"], ["a"]),
    ('root ::= "a"\n  "b"\n  "c"', ["abc"], ["a"]),
    ('root ::= "a"\n  | "b"', ["a", "b"], ["ab"]),
    ('root ::= "a"\n*', ["", "aa"], ["b"]),
    ('root::="a"b\r\nb::="c"\r\n', ["ac"], ["a"]),
    ('\n\n  root ::= "a"', ["a"], [""]),
    ('root\t::=\t"a"\t', ["a"], ["\ta"]),
    ('b ::= "c"\nroot ::= "a" b', ["ac"], ["c"]),
    # recursion
    ('root ::= "(" root ")" | "x"', ["x", "((x))"], ["(x", "()"]),
    ('root ::= root "a" | "a"', ["a", "aaa"], ["", "b"]),
    ('root ::= a\na ::= b "x" | "y"\nb ::= a | "z"', ["y", "yx", "zx", "yxx"], ["x", "z"]),
    ('root ::= root root | "a"', ["a", "aaaa"], [""]),
    ('root ::= e\ne ::= e "+" t | t\nt ::= "n" | "(" e ")"', ["n", "n+n", "(n+n)+n"], ["n+", "+n"]),
    ('root ::= ("" | root "a")', ["", "a", "aa"], ["b"]),
    ('root ::= (a)*\na ::= "x"? ', ["", "xxx"], ["y"]),
    # xgrammar: tags in free text
    ('root ::= TagDispatch(("<t>", b))\nb ::= "1"', ["", "a<b", "<t>1", "a<t>1<<t>1 <t"], ["<t>", "<t>2", "a<t>"]),
    ('root ::= TagDispatch(("<t>", b), loop_after_dispatch=false)\nb ::= "1"', ["", "x", "x<t>1"], ["<t>1x", "<t>"]),
    ('root ::= TagDispatch(("<t>", b), loop_after_dispatch=true)\nb ::= "1"', ["<t>1x"], ["<t>x"]),
    ('root ::= TagDispatch(("<a>", x), ("<b>", y))\nx ::= "1"\ny ::= "2"', ["<a>1<b>2"], ["<a>2", "<b>1"]),
    ('root ::= TagDispatch(("<a>", x), ("<b>", x))\nx ::= "1"?', ["<a><b>1", "<a>1x"], []),
    ('root ::= TagDispatch(("<t>", b), excludes=("stop",))\nb ::= "1"', ["sto", "<t>1sto"], ["stop", "<t>1xstop"]),
    ('root ::= TagDispatch(("<t>", b), excludes=("no", "off"))\nb ::= "no"', ["<t>no"], ["no", "off", "x<t>nono"]),
    ('root ::= t "</s>"\nt ::= TagDispatch(("<t>", b), excludes=("</s>",))\nb ::= "1"', ["</s>", "a<t>1</s>", "</</s>"],
     ["a", "</s></s>", "<t></s>"]),
    ('root ::= TagDispatch(("<t>", b))\nb ::= "(" b ")" | "x"', ["<t>((x))!"], ["<t>((x)!"]),
    ('root ::= TagDispatch(("<t>", b))\nb ::= "a" "</t>"', ["<t>a</t></t>"], ["<t>b</t>"]),
    ('root ::= TagDispatch()', ["", "anything"], []),
    ('root ::= TagDispatch(excludes=("q",))', ["", "p"], ["q", "pq"]),
    ('root ::= TagDispatch(("aab", b))\nb ::= "1"', ["aaab1", "aa"], ["aaab", "aab2"]),
    ('root ::= TagDispatch(("aa", b))\nb ::= "1"', ["a", "aa1a"], ["aaa1", "aaa"]),
    ('root ::= TagDispatch(("ab", x), ("abcd", y))\nx ::= "1"\ny ::= "2"', ["ab1", "abcd2"], ["ab", "abcd1", "abc"]),
    ('root ::= TagDispatch(("abc", x), ("c", y))\nx ::= "1"\ny ::= "2"', ["abc1", "c2", "bc2"], ["abc2", "c1"]),
    ('root ::= "[" TagDispatch(("<t>", b)) "]"\nb ::= "1"', ["[]", "[]]", "[<t>1]"], ["[<t>]", "]"]),
    ('root ::= TagDispatch(("é😀", b))\nb ::= "1"', ["é", "é😀1"], ["é😀"]),
    (r'root ::= TagDispatch(("\n\"", b))' '\nb ::= "1"', ["\n", '\n"1'], ['\n"']),
    # xgrammar: regular expressions
    ('root ::= Regex("[a-z]+") "1"', ["ab1"], ["1", "A1"]),
    (r'root ::= Regex("^a\\d$") "x"', ["a1x"], ["a١x", "ax"]),
    (r'root ::= Regex("\\[a\\]")', ["[a]"], ["a"]),
    ('root ::= Regex("a|b"){2}', ["ab", "ba"], ["a"]),
    ('root ::= Regex("")', [""], ["a"]),
    (r'root ::= Regex("\\w\\u0042\\x43")', ["1BC"], ["éBC"]),
    ('root ::= Regex("(?:ab?){2,3}")', ["aa", "abab"], ["a"]),
    ('root ::= Regex("[^a]", json_string=true)', ["b", "é", "\x7f"], ["a", '"', "\\", "\n", "\x1f"]),
    (r'root ::= Regex("[a\"]+", json_string=true)', ["aa"], ['a"', ""]),
    ('root ::= Regex("a+", json_string=false)', ["aa"], [""]),
    (r'root ::= Regex("a.b")', ["axb", "a\nb"], ["ab"]),
    (r'root ::= Regex("\\s")', [" ", "\t", "\n", "\v", "\f", "\r"], ["a", "\u00a0", "\u2029"]),
    (r'root ::= Regex("\\S\\W\\D")', ["aéb", "!!!"], [" ab", "aab", "a!1"]),
    (r'root ::= Regex(".+", json_string=true)', ["ab", "你好"], ["a\tb", "a\nb", 'a"', ""]),
    (r'root ::= Regex("\\d+\\.\\d+")', ["3.14"], ["3.", "3x1"]),
    ('root ::= Regex("(?=.b)[a-c][b-d]")', ["ab", "bb"], ["ac", "cd"]),
    (r'root ::= Regex("\\p{L}")', ["é"], ["1"]),
    (r'root ::= Regex("\\bfoo\\b")', ["foo"], ["foo "]),
    # xgrammar: options
    ('root[max_chars=3] ::= [a-z]*', ["", "abc"], ["abcd"]),
    ('root ::= v "!"\nv[max_chars=2] ::= "é" w\nw ::= "é"*', ["é!", "éé!"], ["ééé!", "!"]),
    ('root ::= v\nv[ max_chars = 1 ] ::= [a-z] | "bb"', ["a"], ["bb"]),
]  # fmt: skip

XGRAMMAR_DIFFERS: dict[str, list[str]] = {
    # after "ab", it treats "c" as free text again, although the tag "ab" is complete and requires its rule
    'root ::= TagDispatch(("ab", x), ("abcd", y))\nx ::= "1"\ny ::= "2"': ["abc"],
    # it ignores lookarounds
    'root ::= Regex("(?=.b)[a-c][b-d]")': ["ac", "cd"],
}
if XGRAMMAR >= (0, 2, 9):
    XGRAMMAR_DIFFERS |= {
        'root ::= Regex("\\\\s")': ["\xa0", "\u2029"],  # all whitespace, as in ECMA-262 and in the facade
        'root ::= Regex(".+", json_string=true)': [""],  # it ignores the lower bound
    }
XGRAMMAR_REFUSES = 20
"""Samples that it does not read: llama.cpp's dot, names, empty alternatives and repetitions of repetitions, line ends
in literals, escaped brackets in literals; of regular expressions \\p and \\b."""


def judged(grammar: str, texts: list[str]) -> list[bool]:
    matcher = GrammarMatcher(COMPILER.compile_gbnf(grammar))
    out = []
    for text in texts:
        out.append(matcher.accept_string(text) and matcher.is_accepting())
        matcher.reset()
    return out


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_samples(number: int) -> None:
    grammar, accepted, refused = SAMPLES[number]
    assert judged(grammar, accepted) == [True] * len(accepted), grammar
    assert judged(grammar, refused) == [False] * len(refused), grammar


def test_xgrammar_judges_alike() -> None:
    xgrammar = pytest.importorskip("xgrammar", reason="xgrammar is not installed")
    vocabulary = [bytes([code]) for code in range(256)] + [b"<end>"]
    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo(vocabulary, stop_token_ids=[256]), cache_enabled=False)
    refused = 0
    differs: dict[str, list[str]] = {}
    for grammar, accepted, others in SAMPLES:
        try:
            compiled = compiler.compile_grammar(xgrammar.Grammar.from_ebnf(grammar))
        except RuntimeError:
            refused += 1
            continue
        for text in (*accepted, *others):
            matcher = xgrammar.GrammarMatcher(compiled)
            if (matcher.accept_string(text) and matcher.accept_token(256)) != (text in accepted):
                differs.setdefault(grammar, []).append(text)
    assert differs == XGRAMMAR_DIFFERS
    assert refused == XGRAMMAR_REFUSES


# texts of the grammars that llama.cpp ships: accepted, refused
SHIPPED: dict[str, tuple[list[str], list[str]]] = {
    "json": (
        ["{}", '{"a": 1}', '{"a":[1,-2.5e+1,"x\\n\\u00e9"],"b":{"c":null}}', '{ "a": true\n  }', '{"é": "😀"} '],
        ["[]", "{", '{"a" 1}', '{"a": 01}', '{"a": "\n"}', '{"a": tru}', '{"a": 1}  ', '{"a": "\x7f"}'],
    ),
    "arithmetic": (
        ["1+2=3\n", "x*(y-1) = z\n", "a1_b = 2\n1=1\n", "(1) +(2) = 3\n"],
        ["1+=3\n", "1+2=3", "A=1\n", "(1=1\n", ""],
    ),
    "c": (
        [
            "",
            "int f(){}",
            "int main(int a){int x = 1;return x+2;}",
            "float f(){while(a<b){f ();}if(a==1){}else{/*c*/}}",
        ],
        ["int f()", "int f(){x}", "void f(){}", "int f(){return 1}", "intf(){}"],
    ),
    "chess": (
        ["1. e4 e5\n2. Nf3 Nc6\n", "1. d4 Nf6\n2. O-O O-O-O\n10. exd5 e8=Q+\n"],
        ["1. e4 e5\n", "2. e4 e5\n3. d4 d5\n", "1. e9 e5\n2. a3 a6\n", "1. e4 e5\n100. a3 a6\n"],
    ),
    "english": (["Hello, world!", "a", "x\ty\nz", "a\\b ]["], ["", " a", "a  b", "é"]),
    "japanese": (["ひらがな", "カタカナ 漢字、", "一\n二"], ["", "abc", "ひ  ら", "한"]),
    "list": (["- a\n", "- a b\n- é\n"], ["", "- a", "a\n", "- \n", "- a\x0b\n", "- a\u2028b\n"]),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_grammars_that_llama_cpp_ships(name: str) -> None:
    accepted, refused = SHIPPED[name]
    assert judged(GRAMMARS[name], accepted) == [True] * len(accepted)
    assert judged(GRAMMARS[name], refused) == [False] * len(refused)


def test_the_rules_determine_the_notation():
    for grammar in [grammar for grammar, _, _ in SAMPLES] + list(GRAMMARS.values()):
        assert is_gbnf(grammar) == ("::=" in grammar), grammar
    for rule in ("start:", "  start :", "?start.2:", "_LONG.-1:", "pair{a, b}:", "!start:", "x: a\n"):
        assert not is_gbnf(f'{rule} NAME "::=" NAME'), rule


@pytest.mark.parametrize("piece", ["\n", " ", "a\n", "a{\n", "?", "a \n\n"])
def test_the_notation_of_long_texts_takes_no_longer_than_to_read_them(piece: str) -> None:
    """A million pieces take a fraction of a second. Reading on from each line again would take hours."""
    assert is_gbnf("::=\n" + piece * 1_000_000)
    assert is_gbnf("::=\na" + piece * 1_000_000)
