"""Texts of a few lines that expand beyond the memory: each ends soon, with a grammar or an error."""

from __future__ import annotations

import json
import tracemalloc

import pytest

import guided
from guided.errors import GuidedError, LimitExceeded, SpecError, UnsupportedError, VocabularyError
from tests.lark_support import lark_to_grammar

pytest.importorskip("lark", reason="lark is not installed")

COMPILER = guided.GrammarCompiler(guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]))
TERMINALS = "\n".join(f"A{number}: A{number + 1} A{number + 1}" for number in range(40))
TEMPLATES = "\n".join(f"t{at}{{x}}: t{at + 1}{{x}} t{at + 1}{{p{{x}}}}" for at in range(25))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('start: ("a"? "b")~0..40', "rule start"),
        ('start: ("a"|"b")~0..25', "rule start"),
        ("start: " + '"a"? ' * 40, "rule start"),
        ("start: " + '["a"] ' * 40, "rule start"),
        ("start: x\nx: " + '("a"|"b") ' * 40, "rule x"),
        ("start: " + " ".join(f'"a{number}"*' for number in range(40)), "rule start"),
        ("start: " + " ".join(f'"a{number}"*' for number in range(40)) + ' t{"b"}\nt{x}: x', "rule start"),
        ("start: x\nx: " + " ".join(f'"a{number}"*' for number in range(40)) + ' -> y | "b"', "rule x"),
        ('start: t{"a"}\nt{x}: x | t{t{x}}', "the template t"),
        ('start: t{"a", "b"}\nt{x, y}: x | t{y, u{x}}\nu{x}: x "c"', "the template"),
        (f'start: A0\n{TERMINALS}\nA40: "a"', "terminal A0"),
        ("start: " + " | ".join(f'"a{number}"' for number in range(6_000)), "one regular expression"),
        ('start: "a"~0..100000', "at most 10,000 are supported"),
    ],
)
def test_grammars_that_expand_too_much_are_refused(text: str, hint: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        COMPILER.compile_lark(text)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "start: " + "(" * 20_000 + '"a"' + ")" * 20_000,
        "start: /" + "(" * 5_000 + "a" + ")" * 5_000 + "/",
        "start: A\nA: /(a{1000}){1000}/",
        "start: A\nA: /((a{0,300}b){0,300}c){0,300}/",
        'start: A\nA: (("a"~0..50)~0..50)~0..50',
        "start: A\nA.1" + "0" * 5_000 + ': "a"',
        'start: A\nA: %regex {"substring_chars": "' + "abcdefgh" * 130_000 + '"}',
        f'start: A\nA: %regex {{"substring_chunks": {json.dumps(["a"] * 20_000 + ["b" * 20_000])}}}',
        "start: a\n%import .a.a",
    ],
)
def test_grammars_that_are_too_large_are_errors(text: str) -> None:
    with pytest.raises(GuidedError):
        COMPILER.compile_lark(text)


def test_the_steps_of_a_match_are_work() -> None:
    """So `Limits.work` ends the search for the matches of 125,000 positions, which takes more than 20 million steps."""
    compiler = guided.GrammarCompiler(COMPILER.vocabulary, limits=guided.Limits(work=20_000_000, seconds=200))
    with pytest.raises(LimitExceeded) as caught:
        compiler.compile_lark('start: A\nA: (("a"~0..50)~0..50)~0..50')
    assert caught.value.limit == "work" and caught.value.given < 1.2 * caught.value.allowed


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ('start: sum | "x"\nsum{a}: a "b"', "sum is a template", 8),
        ("start: a (D&OT a)*\nB: //\na: B", "& is only for terminals", 12),
        ("start: A\nA: /a/[\nB: /b/", "Expecting a value", 8),
        (guided.library()["regex"].text.replace("4})/\n", "4})/[\n"), "unexpected ':'", 6),
    ],
)
def test_findings_of_a_fuzzer(text: str, message: str, column: int) -> None:
    with pytest.raises(GuidedError) as caught:
        COMPILER.compile_lark(text)
    assert message in str(caught.value) and f"column {column})" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("start: A\nA: /(?!a)\\w+/", "/(?!a)\\w+/"),
        ('start: "x" | /a(?=b)/', "/a(?=b)/"),
        ("start: A B\nA: /b/\nB.2: /c(a*)*b?/", "/c(a*)*b?/"),
        ("start: <[1]> | /^b/", "/^b/"),
    ],
)
def test_a_terminal_that_is_refused_has_its_place(text: str, place: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        COMPILER.compile_lark(text, allow_special_tokens=True)
    assert caught.value.text == text and text[slice(*caught.value.span)] == place
    assert caught.value.span[0] == text.rindex(place)


@pytest.mark.parametrize("text", ["%declare _B A\nstart: B A\nB: /b/", "start: <[1]> A\n\n%declare A"])
def test_a_terminal_that_is_declared_alone_has_its_place(text: str) -> None:
    with pytest.raises(UnsupportedError, match="declared, but not defined") as caught:
        COMPILER.compile_lark(text, allow_special_tokens=True)
    assert caught.value.text == text and caught.value.span == (text.index("A"), text.index("A") + 1)


def test_a_circle_of_imports_ends(tmp_path) -> None:
    (tmp_path / "one.lark").write_text('%import .two.b\na: b "x"\n')
    (tmp_path / "two.lark").write_text('%import .one.a\nb: a "y"\n')
    with pytest.raises(GuidedError):
        COMPILER.compile_lark("start: a\n%import .one.a", import_paths=[str(tmp_path)])


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        (f'start: t0{{"a"}}\n{TEMPLATES}\nt25{{x}}: x\np{{x}}: x "b"', None, "a"),
        ('start: A | B\nA.1000000000: "a"\nB.-99999999999999999999: "b"', "b", "ab"),
        ("start: r0\n" + "\n".join(f'r{at}: "a" r{at + 1}' for at in range(800)) + '\nr800: "b"', "a" * 800 + "b", "b"),
        ('start: "a"\n' + "\n".join(f'%ignore "x{at}"' for at in range(300)), "x7a", "xa"),
        ("start: " + '("a"|"b"|"c") ' * 8, "abcabcab", "abc"),
        ('start: ("a"|"b")~60', "ab" * 30, "ab" * 29),
        ("start: A\nA: " + '("a"|"b") ' * 200, "ab" * 100, "ab"),
        ("start: A\nA: /[" + "".join(map(chr, range(0x4E00, 0x9000, 2))) + "]{1,50}/", "\u4e00" * 50, "\u4e00" * 51),
    ],
)
def test_large_grammars_are_read(text: str, good: str | None, bad: str) -> None:
    compiler = guided.GrammarCompiler(COMPILER.vocabulary, limits=guided.Limits(seconds=200))
    grammar = compiler.compile_lark(text)
    for sample in (bad, *([] if good is None else [good])):
        matcher = guided.GrammarMatcher(grammar)
        assert (matcher.accept_string(sample) and matcher.is_accepting()) == (sample == good)


@pytest.mark.parametrize("ranges", [1_000, 8_000])
def test_the_work_of_a_class_grows_with_its_ranges(ranges: int) -> None:
    many = "".join(map(chr, range(0x4E00, 0x4E00 + 2 * ranges, 2)))
    limits = guided.Limits(work=400 * ranges)
    grammar = guided.GrammarCompiler(COMPILER.vocabulary, limits=limits).compile_lark(f"start: A\nA: /[{many}]{{1,5}}/")
    matcher = guided.GrammarMatcher(grammar)
    assert matcher.accept_string(5 * many[-1]) and matcher.is_accepting() and not matcher.accept_string(many[0])


def test_repetitions_of_the_same_are_few_alternatives() -> None:
    """`a* a*` has three alternatives: two of the four that are written out are equal."""
    matcher = guided.GrammarMatcher(COMPILER.compile_lark("start: " + '"a"* ' * 64 + '"b"'))
    assert matcher.accept_string("a" * 100 + "b") and matcher.is_accepting()


def test_the_work_of_gaps_grows_with_their_states() -> None:
    """An ignored text of up to n characters has n classes of gaps, with n states each."""

    def read(count: int) -> None:
        text = f"start: A\nA: /x/\n%ignore /#a{{1,{count}}}/"
        lark_to_grammar(text, limits=guided.Limits(work=2_000_000, seconds=200))

    read(100)
    with pytest.raises(LimitExceeded) as caught:
        read(800)
    assert caught.value.limit == "work" and caught.value.given < 1.1 * caught.value.allowed


ID_RANGES = ",".join(f"{start}-{start + 999_999}" for start in range(0, 8_000_000, 1_000_000))


@pytest.mark.parametrize(
    ("token", "allowed", "error", "message"),
    [
        (f"<[{ID_RANGES}]>", False, SpecError, "not allowed in this call"),
        (f"<[{ID_RANGES}]>", True, LimitExceeded, "'work'"),
        (f"<[^{ID_RANGES}]>", False, LimitExceeded, "'work'"),
        (" ".join(f"<[{start}-{start + 9_999}]>" for start in range(20)), True, LimitExceeded, "'work'"),
        ("<[0-29999]>", True, VocabularyError, "257 is not a token id"),
    ],
)
def test_ranges_of_ids_take_little_memory(token: str, allowed: bool, error: type[Exception], message: str) -> None:
    compiler = guided.GrammarCompiler(COMPILER.vocabulary, limits=guided.Limits(work=6_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(error, match=message) as caught:
            compiler.compile_lark(f"start: {token}", allow_special_tokens=allowed)
        assert tracemalloc.get_traced_memory()[1] < 60e6
    finally:
        tracemalloc.stop()
    assert isinstance(caught.value, GuidedError) and caught.value.span[0] >= 7


def test_ranges_of_ids_may_overlap() -> None:
    """A thousand times the same 20,000 ids are 20,000 ids."""
    vocabulary = guided.Vocabulary([b"%d " % number for number in range(20_000)], eos_token_ids=[20_000])
    compiler = guided.GrammarCompiler(vocabulary)
    for ids, expected in (
        (",".join(["5-19999", "0-19998"] * 500), range(20_000)),
        ("7,3-5,4-6,4,5", [3, 4, 5, 6, 7]),
        ("^2-19999,2-3", [0, 1]),
    ):
        grammar = compiler.compile_lark(f"start: <[{ids}]>", allow_special_tokens=True)
        bitmask = guided.allocate_token_bitmask(1, vocabulary.size)
        guided.GrammarMatcher(grammar).fill_next_token_bitmask(bitmask)
        assert guided.allowed_tokens(bitmask) == [*expected]


@pytest.mark.parametrize("name", ["<[1>", "<[12>", "<[*x>", "<[^1>"])
def test_only_ids_in_closed_brackets_are_ids(name: str) -> None:
    tokens = [b"a", b"b", name.encode()]
    vocabulary = guided.Vocabulary(tokens, eos_token_ids=[3], special_tokens={2: name})
    grammar = guided.GrammarCompiler(vocabulary).compile_lark(f"start: {name}", allow_special_tokens=True)
    bitmask = guided.allocate_token_bitmask(1, vocabulary.size)
    guided.GrammarMatcher(grammar).fill_next_token_bitmask(bitmask)
    assert guided.allowed_tokens(bitmask) == [2]
