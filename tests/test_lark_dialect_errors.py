"""Malformed texts with extensions of Lark's notation: each error has a location and a hint. Bombs end within limits."""

from __future__ import annotations

import contextlib
import random
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from tests.effort import examples
from tests.lark_dialect_samples import SAMPLES
from tests.test_lark_dialect import COMPILER

ERRORS: list[tuple[str, str, int, str]] = [
    # text, message, column, a part of the hint
    ("start: %json {", "the JSON value after %json: Expecting property name", 14, "%json {...}"),
    ("start: %json { foo", "the JSON value after %json: Expecting property name", 16, ""),
    ("start: %json []", "a schema must be an object", 14, ""),
    ('start: %json {"type": "objct"}', "'objct' is not a type", 15, "one of null"),
    ('start: foo{7,6}\nfoo: "a"', "the upper bound, 6, is less than the lower bound, 7", 12, "swap"),
    ('start: foo{-1,}\nfoo: "a"', "a count must be a number of at least 0", 12, "{2,}"),
    ('start: "a"{999999999999999999999}', "the count is larger than 10000", 12, "*"),
    ("start: @qux", "there is no grammar 'qux'", 8, "grammars="),
    ("start: FOO\nFOO: @qux", "@qux cannot be used in terminals", 6, "rule"),
    ("start: FOO\nFOO: %json { }", "%json cannot be used in terminals", 6, "rule"),
    ("start: FOO\nFOO: <[1234]>", "<[1234]> cannot be used in terminals", 6, "rule"),
    ("start: FOO\nFOO: <|assistant|>", "<|assistant|> cannot be used in terminals", 6, "rule"),
    ('start: "ab".."c" ""', "the ends of a range must be strings of one character", 8, '"a".."z"'),
    ('start: "a".."cd" ""', "the ends of a range must be strings of one character", 13, '"a".."z"'),
    ('start: "a".."b"i ""', "the ends of a range cannot have the flag i", 13, '"a".."z"'),
    ('start: "a"i.."b" ""', "the ends of a range cannot have the flag i", 8, '"a".."z"'),
    ('start: "a".."b"i', "the ends of a range cannot have the flag i", 13, '"a".."z"'),
    ('start: "ab"i.."c"', "the ends of a range must be strings of one character", 8, '"a".."z"'),
    ("start[max_chars=٣]: /a*/", "the attribute max_chars takes a number", 17, "max_chars=100"),
    ("start[temperature=٣]: /a*/", "the attribute temperature takes a number", 19, "temperature=0.7"),
    (f"start[temperature={'9' * 400}]: /a*/", "the attribute temperature takes a number", 19, "temperature=0.7"),
    ('start: "a"{٣}', "a count must be a number", 12, "{2,4}"),
    ('start: r::٣\nr::_: "a"', "a number is expected", 11, ""),
    ("start: <[٣]>", "'٣' is not an id or a range of ids", 8, "<[1,5-9]>"),
    ('start: "d".."a" ""', "the range ends before it begins", 8, "swap"),
    ("start: <[100-200-300]>", "'100-200-300' is not an id or a range of ids", 8, "<[1,5-9]>"),
    ("start: <[,]>", "'' is not an id or a range of ids", 8, "<[1,5-9]>"),
    ("start: <[200-100]>", "'200-100' is not an id or a range of ids", 8, "<[1,5-9]>"),
    ("start: <[^*]>", "'*' is not an id or a range of ids", 8, "<[*]>"),
    ("start: <[*,100]>", "'*' is not an id or a range of ids", 8, "<[*]>"),
    ("start: <[0-1000002]>", "'0-1000002' is not an id or a range of ids", 8, ""),
    ('start: %regex {"foobar": true}', "%regex has no field 'foobar'", 8, "substring_words"),
    ('start: %regex {"substring_words": true}', "substring_words takes a string", 8, "substring_chunks"),
    ('start: %regex {"substring_words": "a", "substring_chars": "b"}', "%regex takes one field", 8, ""),
    ("start: %regex {  }", "%regex takes an object with one field", 8, "substring_words"),
    ("start: foo\nfoo[foobar=12]: /.*/", "there is no attribute 'foobar'", 5, "lazy"),
    ("start: foo\nfoo[sufix=/a/]: /.*/", "there is no attribute 'sufix'", 5, "did you mean suffix?"),
    ('start: foo\nfoo[stop=""="foo"]: /.*/', "the attribute stop is malformed", 9, ""),
    ('start: foo\nfoo[max_chars="foo"]: /.*/', "the attribute max_chars takes a number", 15, ""),
    ("start: foo\nfoo[lazy, lazy]: /.*/", "the attribute lazy is given twice", 11, ""),
    ('start: foo\nfoo[suffix="a", stop="b"]: /.*/', "a suffix or a stop, not both", 17, "remove one"),
    ("start: T\nT[capture]: /a/", "T is a terminal, but only rules have attributes", 1, "t[...]: T"),
    ("start: t\nt[capture=x]: /a/", "the attribute capture takes a string", 11, 'capture="name"'),
    ('start: t\nt[capture=""]: /a/', "the attribute capture takes a string", 11, 'capture="name"'),
    ('start: t\nt[capture="x", capture]: /a/', "the attribute capture is given twice", 16, ""),
    ('start: t\nt[capture="x" "y"]: /a/', "the attribute capture is malformed", 10, 'capture="name"'),
    ("start: t\nt[temperature=1e-1]: /a/", "the attribute temperature is malformed", 14, "[temperature=0.7]"),
    ("start: t\nt[captures]: /a/", "there is no attribute 'captures'", 3, "did you mean capture?"),
    ("start: t\nt[stop_capture]: /a/", "the attribute stop_capture takes a string", 3, 'stop_capture="name"'),
    ('start: t\nt[stop_capture="x"]: /a/', "captures the suffix, but there is none", 3, "suffix="),
    ('start: t\nt[stop="x", stop_capture="x"]: /a/', "is not written by this rule", 13, "suffix="),
    ("start: t\nt[max_tokens]: /a/", "the attribute max_tokens takes a number", 3, "max_tokens=100"),
    ("start: t\nt[max_tokens=-1]: /a/", "the attribute max_tokens takes a number", 14, "max_tokens=100"),
    ("start: t\nt[max_tokens=1.5]: /a/", "the attribute max_tokens takes a number", 14, "max_tokens=100"),
    ("start: t\nt[max_tokens=2]: u\nu: /a/", "u is a rule, but terminals may contain only terminals", 18, "upper case"),
    ("start: t\nt[max_tokens=2]: %json {}", "%json cannot be used in terminals", 18, "move it to a rule"),
    ("start: t\nt[temperature]: /a/", "the attribute temperature takes a number", 3, "temperature=0.7"),
    ("start: t\nt[temperature=-1]: /a/", "the attribute temperature takes a number", 15, "temperature=0.7"),
    ("start: t\nt[temperature=0x1]: /a/", "the attribute temperature takes a number", 15, "temperature=0.7"),
    ("start: t\nt[suffix=b]: /a/\nb: /c/", "a string, a regular expression, or a terminal", 10, 'suffix="end"'),
    ('start: a\na[lazy]: b "x"\nb: "c"', "b is a rule, but terminals may contain only terminals", 10, "upper case"),
    ('%llguidance {"no_forcing": "x"}\nstart: "a"', "the option no_forcing cannot be", 1, ""),
    ('%llguidance {"forcing": true}\nstart: "a"', "there is no option 'forcing'", 1, "no_forcing"),
    ("%llguidance []\nstart: /a/", "%llguidance takes an object", 1, ""),
    ('start: A & B\nA: "a"\nB: "b"', "& is only for terminals", 10, "define a terminal"),
    ("start: ~/[a]/ <[1]>", "~ is only for terminals", 8, "define a terminal"),
    ('start: A\nA: "a" & B\nB: "b" | A', "contains itself", 10, "use rules"),
    ('start: A\nA: "a" & B', "the terminal B is not defined", 10, "define it"),
    ('start: A\nA: ("a" & "b"', "'(' is not closed", 4, "add ')'"),
    ('start: a-b\na-b: "x"\na-b: "y"', "a-b is defined twice", 1, "|"),
    ('start: p::0\np::_: "a" p::incr([0:70])', "the number is larger than 64", 22, ""),
    ('start: p::0\np::_: "a" %if eq([3:3], 0)', "the range of bits [3:3] is empty", 18, ""),
    ('start: p::0\np::_: "a" %if eq(0, 0)', "write bits as [x:y] or _", 18, ""),
    ('start: p::0\np::_: "a" %if foo([0:1], 0)', "there is no function 'foo'", 15, ""),
    ('start: p::0\np::_: "a" %if is_one([0:1])', "there is no function 'is_one'", 15, "did you mean is_ones?"),
    ('start: p\np::_: "a"', "p needs a parameter", 8, "p::0x0"),
    ('start: p::1\np: "a"', "p has no parameter", 8, "define p::_"),
    ('start: p::_\np::_: "a"', "the rule has no parameter", 11, "number"),
    ('start: p::0\np:: "a"', "the parameter of a rule must be written _", 2, "p::_"),
    ('start: %lark "a"', "expected a grammar in braces after %lark", 8, "{ start: ... }"),
    ('start: %lark { start: "a"', "the { after %lark is not closed", 14, "}"),
    ('start: %lark { item: "a" }', "there is no start rule 'start'", 15, "item"),
    ('start: "x" %lark { start: bb\n b: "x" }', "Rule 'bb' used but not defined", 27, "did you mean b?"),
    ("start: foo-bar\n\nfoo-bar: fob", "Rule 'fob' used but not defined", 10, ""),
    ("start: <bad token> <[1]>", "unexpected character '<'", 8, "without spaces"),
    ("start: <[1]> $", "unexpected character '$'", 14, ""),
    ("start: %json {} 'a'", 'unexpected character "\'"', 17, "double quotes"),
    ("start <[1]>", "':' is expected after the name start", 7, ""),
    ("start: [<[1]>]{2,3}", "two alternatives of the rule 'start' are the same", 1, "with x and without it"),
    ('start: _a <[1]>\n?b: _a\n ?_a: "x"', "Inlined rules (_rule) cannot use the ?rule modifier", 3, "leave out the ?"),
    ("start: <[1]>\n\na: b*{2}\nb: <[2]>", "Expecting a value", 6, ""),
    ("%jsn {}\nstart: <[^1]>", "there is no directive %jsn", 1, "%json"),
]


@pytest.mark.parametrize(("text", "message", "column", "hint"), ERRORS)
def test_errors_have_place_and_hint(text: str, message: str, column: int, hint: str) -> None:
    with pytest.raises(guided.SpecError) as caught:
        COMPILER.compile_lark(text)
    error = caught.value
    assert message in error.message and hint in error.hint, (error.message, error.hint)
    assert error.text == text
    assert error.span[0] - (text.rfind("\n", 0, error.span[0]) + 1) + 1 == column, str(error)


def test_bombs_end_in_limits() -> None:
    many = " | ".join(f'"{char}" p::incr([{8 * at}:{8 * at + 8}])' for at, char in enumerate("abcdefgh"))
    with pytest.raises(guided.LimitExceeded):
        COMPILER.compile_lark(f'start: p::0\np::_: {many} | ""')
    with pytest.raises(guided.GuidedError):
        COMPILER.compile_lark("start: A\nA: " + "(" * 50_000 + '"a"' + ")" * 50_000 + ' & "a"')
    with pytest.raises(guided.GuidedError):
        COMPILER.compile_lark("start: " + "%lark { start: " * 100 + '"a"' + "}" * 100)
    with pytest.raises(guided.GuidedError):
        COMPILER.compile_lark('start: p::0\np::_: "a" %if ' + "not(" * 50_000 + "true" + ")" * 50_000)


@examples(150)
@given(st.sampled_from(sorted(SAMPLES)), st.randoms(use_true_random=False))
def test_mutated_texts_end_in_our_errors(name: str, rng: random.Random) -> None:
    text = SAMPLES[name][0]
    for _ in range(rng.randint(1, 3)):
        at, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        end = min(end, at + 6)
        insert = rng.choice(
            ["", "{", "}", "[", "]", "<", ">", '"', "/", "~", "&", "|", "::", "@", "%", "%json", "\n", ":"]
        )
        text = text[:at] + insert + text[end:]
    with warnings.catch_warnings(), contextlib.suppress(guided.GuidedError):
        warnings.simplefilter("ignore", guided.GuidedWarning)  # unknown keywords of schemas
        COMPILER.compile_lark(text)
