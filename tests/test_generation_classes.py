r"""`\d`, `\s` and `\w` during generation: a subset of the accepted characters, empty only if these are empty."""

from __future__ import annotations

import itertools
import json
import random
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import guided
from guided.errors import GuidedError, LimitExceeded, OptionError, SpecError, UnsupportedError
from guided.frontends.regex import parse_regex
from guided.limits import Limits
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.matching.constraint import compile_constraint
from guided.matching.sentences import byte_vocabulary
from tests.effort import examples
from tests.regex_support import NODE, Patterns, ask_node, matches
from tests.test_cli import run, run_json

COMPILER = GrammarCompiler(byte_vocabulary())
# Digits: ASCII, Arabic, the last ones of Unicode. Numbers that are no digits. Spaces: ASCII, no-break, a separator.
LETTERS = "a1é_- \u0663\U0001fbf2²Ⅷ\u00a0\x1c"
TEXTS = ["".join(letters) for size in range(4) for letters in itertools.product(LETTERS, repeat=size)]


def accepts(grammar: guided.CompiledGrammar, text: str) -> bool:
    matcher = GrammarMatcher(grammar)
    return matcher.accept_string(text) and matcher.is_accepting()


ATOMS = [r"\d", r"\s", r"\w", r"\D", r"\S", r"\W", r"[^\d]", r"[^\W]", r"[^\D_]", r"[\d_]", "a", "\u0663", "."]
COUNTS = ["", "", "", "*", "?", "{2}", "*+", "?+"]
LOOKS = ["(?=", "(?!"]


@st.composite
def parts(draw: st.DrawFn, depth: int = 2) -> str:
    """A pattern with classes inside and after constructs that may reverse inclusion."""
    kind = draw(st.integers(0, 9))
    atom = draw(st.sampled_from(ATOMS))
    if kind < 4 or depth == 0:
        return atom + draw(st.sampled_from(COUNTS))
    if kind == 4:
        return rf"(?<{draw(st.sampled_from('=!'))}{atom})"
    if kind == 5:
        return draw(st.sampled_from([r"\b", r"\B"]))
    inside = "".join(draw(st.lists(parts(depth - 1), min_size=1, max_size=2)))
    if kind < 9:
        return f"{draw(st.sampled_from(LOOKS))}{inside}){draw(st.sampled_from(['', atom]))}"
    return f"(?>{inside})"


@given(st.lists(parts(), min_size=1, max_size=3).map("".join))
@example(r"(?!\d).")
@example(r"(?!.*(?!\D)).")
@example("(?>\\w*)\u0663|a")
def test_generated_texts_are_accepted(pattern: str) -> None:
    try:
        ours = parse_regex(pattern, classes="plain", limits=Limits(seconds=1000))
    except (SpecError, UnsupportedError, LimitExceeded):
        return
    theirs = re.compile(pattern)
    for text in TEXTS[: 1 + len(LETTERS) + len(LETTERS) ** 2]:
        if matches(ours, text):
            assert theirs.fullmatch(text), (pattern, text)


@given(st.randoms(use_true_random=False))
def test_generated_texts_of_any_pattern_are_accepted(source: random.Random) -> None:
    patterns = Patterns(source, "python", letters=LETTERS)
    pattern = patterns.pattern()
    try:
        ours = parse_regex(pattern, classes="plain", limits=Limits(seconds=1000))
    except (SpecError, UnsupportedError, LimitExceeded):
        return
    for text in patterns.texts(ours, 12):
        if matches(ours, text):
            assert re.fullmatch(pattern, text), (pattern, text)


@pytest.mark.skipif(NODE is None, reason="node is not installed: no RegExp to compare with")
def test_generated_texts_are_accepted_by_node() -> None:
    source = random.Random(5)
    asked = []
    for _ in range(150):
        patterns = Patterns(source, "ecma", letters=LETTERS)
        pattern = patterns.pattern()
        try:
            ours = parse_regex(pattern, dialect="ecma", classes="plain", limits=Limits(seconds=1000))
        except (SpecError, UnsupportedError, LimitExceeded):
            continue
        texts = [text for text in patterns.texts(ours, 12) if matches(ours, text)]
        asked.append((f"^(?:{pattern})$", "u", texts))
    assert sum(len(texts) for *_, texts in asked) > 500
    for (pattern, _, texts), found in zip(asked, ask_node(asked), strict=True):
        assert found == [True] * len(texts), (pattern, texts)


WRITTEN = {
    **{r"\d": "1", r"\s": " ", r"\w": "a1é_", r"[\da]": "1a", r"[\s\d-]": " 1-", r"[^\W\d]": "aé_", r"[^\S ]": ""},
    **{part: "".join(c for c in LETTERS if re.fullmatch(part, c)) for part in (r"\D", r"\W", r"\S", r"[^\d]", ".")},
    **{"a": "a", "\u0663": "\u0663"},
}
"""What of the letters is written for a part: for an opposite, and what is no class, all that `re` matches."""


@examples(25)
@given(st.lists(st.tuples(st.sampled_from(sorted(WRITTEN)), st.sampled_from(["", "", "*", "{1,2}", "?"])), max_size=3))
def test_of_each_class_just_these_characters_are_written(parts: list[tuple[str, str]]) -> None:
    pattern = "".join(part + count for part, count in parts)
    ours = parse_regex(pattern, classes="plain")
    spelled = {part: f"[{re.escape(letters)}]" if letters else "(?!)" for part, letters in WRITTEN.items()}
    other = re.compile("".join(spelled[part] + count for part, count in parts))
    for text in TEXTS[:1500]:
        assert matches(ours, text) == (other.fullmatch(text) is not None), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "written", "not_written"),
    [
        (r"\d", "7", "\u0663"),
        (r"\s", "\t", "\u2003"),
        (r"\w", "é", "²"),
        (r"\w", "漢", "\u0663"),
        (r"\D", "a", "\u0663"),  # not a digit of any script: neither generated nor accepted
        (r"[^\W_]+", "aé1", "a\u0663"),
        (r"(?u)\d", "\u0663", "a"),  # requested explicitly
        (r"(?u:\d)\d", "\u06631", "1\u0663"),
        (r"(?a)\w", "a", "é"),
        (r"(?i)[\d\u212a]", "k", "\u0663"),
        (r"[\d\u0663]", "\u0663", "\u0664"),  # spelled out
        (r"(?=.*\d).{2}", "a1", "a\u0663"),
        (r"(?!\d).", "a", "\u0663"),
        (r"(?!.*\D)..", "12", "1\u0663"),
        (r"(?<!\d)..", "ab", ""),
        (r".*(?<!\d)x", "ax", "\u0663x"),
        (r"\b\w+\b", "aé", "a\u0663"),
        (r"a\b.", "a-", "a\u0663"),  # the real word boundary: letters and digits of any script belong together
        (r"(?>\w*)a?", "a1", "a\u0663"),
        (r"\d++-", "12-", "\u0663-"),
        (r".", "\u0663", ""),
    ],
)
def test_cases(pattern: str, written: str, not_written: str) -> None:
    grammar = COMPILER.compile_regex(pattern, classes="plain")
    assert accepts(grammar, written)
    assert not accepts(grammar, not_written)
    assert re.fullmatch(pattern, written)


def test_the_match_of_an_atomic_group_depends_on_all_characters() -> None:
    pattern = r"(?>\w*)\u0663|x"
    assert re.fullmatch(pattern, "a\u0663") is None
    assert not accepts(COMPILER.compile_regex(pattern, classes="plain"), "a\u0663")


@pytest.mark.parametrize("pattern", [r"(?=[^0-9])\d", r"(?![ -~])\w(?<=\d)", r"\s(?<![\t-\r ])"])
def test_where_nothing_would_be_left_all_of_them_are_written(pattern: str) -> None:
    grammar = COMPILER.compile_regex(pattern, classes="plain")
    shortest = GrammarMatcher(grammar).explain().completion.decode()
    assert re.fullmatch(pattern, shortest)


def test_errors_match_the_whole_language() -> None:
    with pytest.raises(SpecError, match="unterminated"):
        COMPILER.compile_regex(r"(\d", classes="plain")
    with pytest.raises(SpecError, match="no output at all"):
        COMPILER.compile_regex(r"\d(?<!\d)", classes="plain")
    with pytest.raises(ValueError, match="classes must be 'full' or 'plain', not 'ascii'"):
        COMPILER.compile_regex(r"\d", classes="ascii")


def test_compiling_means_what_re_means() -> None:
    assert accepts(COMPILER.compile_regex(r"\d"), "\u0663")
    assert accepts(COMPILER.compile(guided.regex(r"\d") + "!"), "\u0663!")


# ---- JSON Schema


WORDS = {"type": "string", "pattern": r"^a\sb$"}


@pytest.mark.parametrize(
    ("schema", "accepted", "refused"),
    [
        (WORDS, ["a b", "a\tb"], ["a\u2003b"]),
        ({"type": "string", "pattern": r"^\S+$"}, ["ab", "\u0663"], ["a\u2003b"]),
        # the whole pattern is negated
        ({"type": "string", "not": {"pattern": r"\s"}, "maxLength": 3}, ["ab"], ["a\u2003b", "a b"]),
        ({"oneOf": [WORDS, {"type": "string", "pattern": "^a.b$"}]}, ["a-b"], ["a b", "a\u2003b"]),
        ({"if": WORDS, "then": {"const": "a b"}, "else": {"const": "c"}}, ["a b", "c"], ["a\u2003b"]),
        ({"enum": ["a\u2003b", "c"], "pattern": r"\s"}, ["a\u2003b"], ["c"]),
        ({"enum": ["a b", "a\u2003b", "c"], "not": {"pattern": r"\s"}}, ["c"], ["a b", "a\u2003b"]),
        # whether a name matches the pattern does not depend on its spelling
        (
            {"type": "object", "patternProperties": {r"^\s$": {"const": 1}}, "additionalProperties": {"const": 2}},
            [{" ": 1}, {"x": 2}],
            [{"\u2003": 2}, {"\u2003": 1}, {" ": 2}],
        ),
        (
            {"type": "object", "propertyNames": {"pattern": r"^\s$"}, "additionalProperties": {"const": 1}},
            [{" ": 1}],
            [{"\u2003": 1}, {"x": 1}],
        ),
        (
            {"type": "object", "propertyNames": {"not": {"pattern": r"\s"}}, "additionalProperties": {"const": 1}},
            [{"x": 1}],
            [{"\u2003": 1}, {" ": 1}],
        ),
        # nothing would remain: six of the seven required characters are ASCII
        (
            {"type": "array", "items": {"type": "string", "pattern": r"^\s$"}, "minItems": 7, "uniqueItems": True},
            [[*"\t\n\v\f\r \u2003"]],
            [[*"\t\n\v\f\r  "]],
        ),
    ],
)
def test_patterns_of_schemas(schema: dict, accepted: list, refused: list) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    grammar = COMPILER.compile_json_schema(schema, classes="plain")
    judge = jsonschema.Draft202012Validator(schema)
    for value in accepted:
        assert accepts(grammar, json.dumps(value)), value
        assert accepts(COMPILER.compile_json_schema(schema), json.dumps(value)), value
        assert judge.is_valid(value), value
    for value in refused:
        assert not accepts(grammar, json.dumps(value)), value


def test_compiled_schemas_accept_the_spaces_of_their_dialect() -> None:
    assert accepts(COMPILER.compile_json_schema(WORDS), '"a\u2003b"')


# ---- where the classes are used


DIGITS = r"\d{6}"


def test_constraints_use_plain_spellings_by_default() -> None:
    for constraint in (DIGITS, guided.regex(DIGITS), guided.rules(guided.rule("a"), a=guided.regex(DIGITS))):
        plain, full = (compile_constraint(COMPILER, constraint, own) for own in ({}, {"classes": "full"}))
        assert plain is not None and full is not None
        assert accepts(plain, "123456") and not accepts(plain, "12345\u0663")
        assert accepts(full, "12345\u0663")
    for schema in (WORDS, guided.json_schema(WORDS)):
        plain, full = (compile_constraint(COMPILER, schema, own) for own in ({}, {"classes": "full"}))
        assert plain is not None and full is not None
        assert accepts(plain, '"a b"') and not accepts(plain, '"a\u2003b"')
        assert accepts(full, '"a\u2003b"')


def test_a_part_may_have_its_own_option() -> None:
    parts = guided.regex(r"\d", classes="full") + guided.regex(r"\d") + guided.json_schema(WORDS, classes="full")
    grammar = compile_constraint(COMPILER, parts)
    assert grammar is not None
    assert accepts(grammar, '\u06631"a\u2003b"') and not accepts(grammar, '1\u0663"a b"')


def test_classes_of_other_constraints_are_refused() -> None:
    with pytest.raises(GuidedError, match="already compiled"):
        compile_constraint(COMPILER, COMPILER.compile_regex(DIGITS), {"classes": "full"})
    with pytest.raises(GuidedError, match="there is no constraint"):
        compile_constraint(COMPILER, None, {"classes": "full"})
    with pytest.raises(OptionError, match="classes='unicode' is unknown"):
        compile_constraint(COMPILER, DIGITS, {"classes": "unicode"})


def test_samples_on_the_command_line() -> None:
    code, out, _ = run("sample", "--regex", r"\d{6}\s\w", "--n", "20", "--seed", "1", "--characters", "any")
    assert code == 0 and re.fullmatch(r"(?:[0-9]{6}[\t-\r ]\w\n){20}", out)
    flags = ("--n", "5", "--seed", "1", "--characters", "any", "--max-length", "400")
    out = run("sample", "--regex", r"\d{90}", "--classes", "full", *flags)[1]
    assert re.fullmatch(r"(?:\d{90}\n){5}", out) and not out.isascii()
    assert run_json("check", "--regex", r"\d", "--text", "\u0663")["texts"][0]["matches"]
    assert run_json("check", "--regex", r"\d", "--classes", "plain", "--text", "\u0663", code=1)["compiles"]
    code, _, err = run("sample", "--choice", "a,b", "--classes", "full")
    assert code == 2 and "--classes belongs to --schema or --regex or --structural-tag, not to --choice" in err
