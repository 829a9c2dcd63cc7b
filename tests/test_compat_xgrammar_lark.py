"""Lark, regular expressions and stored tokenizers in the facade, and the same in the installed xgrammar."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

import guided.compat.xgrammar as xgr
from guided.compat.xgrammar.lark_text import RewrittenLark
from guided.errors import GuidedError, SpecError

pytest.importorskip("torch")


@pytest.fixture(params=["guided.compat.xgrammar", "xgrammar"])
def library(request: pytest.FixtureRequest) -> Any:
    if request.param == "xgrammar":
        return pytest.importorskip("xgrammar", reason="the oracle is the installed xgrammar")
    return xgr


def accepts(library: Any, grammar: Any, text: str) -> bool:
    return bool(library.testing._is_grammar_accept_string(grammar, text))


PATTERNS: list[tuple[str, Sequence[str], Sequence[str]]] = [
    (r"/^abc$|^d$/", ["abc", "d"], ["^abc", "d$", "ab"]),
    (r"/\d\w\s/", ["1a ", "9_\t"], ["١a ", "1é "]),
    (r"/[\D][\W]/", ["éé"], ["1é", "éa"]),
    (r"/[\d\x2d\u{5d}\u005b[]+/", ["1-][["], ["a", "\\"]),
    (r"/\cJ\x0a\u{1F600}/", ["\n\n😀"], ["J\n😀"]),
    (r"/\0\a\e/", ["\x00\x07\x1b"], ["0ae"]),
    (r"/(?<first>a)(?<second>b)/i", ["ab", "AB"], ["a", "first"]),
    (r"/Żółw|Σ|k/iu", ["Żółw", "Σ", "k", "K"], ["żółw", "ŻÓŁW", "σ", "\u212a"]),
    (r"/[^kσ]+/i", ["A", "ż", "Σ", "\u212a"], ["k", "K", "σ", "aK"]),
    (r"/[À-Ö]+/i", ["ÀÖ"], ["à", "×", "A"]),
    ('"ks"i', ["ks", "KS"], ["\u212as", "k\u017f"]),
    (r'"a\/b\n."i', ["A/b\n."], ["a/b\nx"]),
    (r"/[a\/&&|~^]/", ["a", "/", "&", "|", "~", "^"], ["b", "\\"]),
    ("/int|integer|/", ["", "int", "integer"], ["inte"]),
    ("/a*?b??/", ["", "a", "aab"], ["abb"]),
    ("/(a*)*b/", ["b", "aab"], ["a"]),
    ("/(ab){2,5000}c/i", ["abABc"], ["abc"]),
    ('WORD\nWORD: /a|ab/ "c" | /x??/', ["ac", "abc", "", "x"], ["c"]),
    (r"/a.b/", ["a\rb", "a😀b"], ["a\nb", "ab"]),
    (r"/a.b/is", ["A\nb"], ["ab"]),
    (r"/\$\^a\\$/", ["$^a\\"], ["$^a"]),
    (r"/[$^]/", ["$", "^"], ["a"]),
    ('%lark { start: /\\d/ "b"\n%ignore " " }', ["1b", "1 b "], [" 1b", "١b"]),
    ("A\nA: /k\\w/i", ["kA", "K_"], ["\u212aa", "ké"]),
    ('"a"* part\npart: "b"?\n%ignore " "', ["", "a ", "a b ", "b "], [" ", " a", " b", "  "]),
    ('"a"* part\npart: "b"?\n%ignore " "\n%grammar_options {"allow_initial_skip": true}', ["", "  ", " a"], ["c"]),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "accepted", "refused"), PATTERNS, ids=[row[0][:40] for row in PATTERNS])
def test_patterns_of_lark(library: Any, pattern: str, accepted: Sequence[str], refused: Sequence[str]) -> None:
    grammar = library.Grammar.from_lark(f"start: {pattern}")
    assert [text for text in accepted if not accepts(library, grammar, text)] == []
    assert [text for text in refused if accepts(library, grammar, text)] == []


CAPTURES = [
    ('capture="inner", suffix="!"', "xy!z", [("inner", b"xy"), ("outer", b"xy!z")]),
    ('capture="inner", stop="!"', "xy!z", [("inner", b"xy"), ("outer", b"xyz")]),
    ('stop="!"', "xy!z", [("outer", b"xyz")]),
    ('stop="💥"', "xy💥z", [("outer", b"xyz")]),
    ('capture="inner", suffix=/!!+/, stop_capture="end"', "xy!!z",
     [("end", b"!!"), ("inner", b"xy"), ("outer", b"xy!!z")]),
    ('stop_capture="end", stop=/!!+/, capture="inner"', "!!z", [("end", b"!!"), ("inner", b""), ("outer", b"z")]),
    ('stop_capture="end", stop=/x?/', "az", [("end", b""), ("outer", b"az")]),
]  # fmt: skip


@pytest.mark.parametrize(("attributes", "text", "captures"), CAPTURES)
def test_captures_and_the_ends_of_rules(
    library: Any, attributes: str, text: str, captures: list[tuple[str, bytes]]
) -> None:
    body = '"a"' if text == "az" else "/[a-z]*/"
    grammar = library.Grammar.from_lark(f'start[capture="outer"]: field "z"\nfield[{attributes}]: {body}')
    matcher = library.GrammarMatcher(library.GrammarCompiler(library.TokenizerInfo([])).compile_grammar(grammar))
    assert matcher.accept_string(text) and matcher.is_completed()
    assert matcher.get_captures() == captures
    matcher.rollback(1)
    assert matcher.get_captures() == []


def test_all_stops_are_hidden_from_the_captures_around_them(library: Any) -> None:
    part = library.Grammar.from_lark('start: item item\nitem[stop="!"]: /[ab]*/')
    for source, named in (
        ('start[capture="outer"]: item item "z"\nitem[stop="!"]: /[ab]*/', None),
        ('start[capture="outer"]: %lark { start: item item\nitem[stop="!"]: /[ab]*/ } "z"', None),
        ('start[capture="outer"]: @part "z"', {"part": 'start: item item\nitem[stop="!"]: /[ab]*/'}),
        ('start[capture="outer"]: @part "z"', {"part": part}),
    ):
        compiled = library.GrammarCompiler(library.TokenizerInfo([])).compile_lark(source, named_grammars=named)
        matcher = library.GrammarMatcher(compiled)
        assert matcher.accept_string("a!b!z")
        assert matcher.get_captures() == [("outer", b"abz")], source


TOKENS = ["plain", "<|tool|>", "{", '"x"', ":", "1", "}", "</tool>", "bad", "</s>", "<|tool|>", "<|to"]
CALLS = r"""
    start: tool* tail
    tail: TEXT
    tool: TEXT <|tool|> %json {"type": "object", "properties": {"x": {"const": 1}}, "required": ["x"]} end
    end[capture]: "</tool>"
    TEXT: /(\n|.)*/
"""


@pytest.mark.parametrize("tokens", [[], [0, 11], [1], [10, 2], [1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6, 7, 0]])
def test_a_named_token_has_no_text(library: Any, tokens: Sequence[int]) -> None:
    """A call follows it, since free text cannot equal the token's name."""
    info = library.TokenizerInfo(TOKENS, stop_token_ids=[9])
    matcher = library.GrammarMatcher(library.GrammarCompiler(info).compile_lark(CALLS))
    for token in tokens:
        assert matcher.accept_token(token)
    bitmask = library.allocate_token_bitmask(1, len(TOKENS))
    matcher.fill_next_token_bitmask(bitmask)
    allowed = [number for number in range(len(TOKENS)) if int(bitmask[0, 0]) >> number & 1]
    assert allowed == {(1,): [2], (10, 2): [3], (1, 2, 3, 4, 5, 6): [7]}.get(tuple(tokens), [*range(len(TOKENS))])


def test_captures_have_the_names_of_tokens(library: Any) -> None:
    info = library.TokenizerInfo(["a", "<|tool|>", "b", "</s>"], stop_token_ids=[3])
    compiled = library.GrammarCompiler(info).compile_lark('start: wrap\nwrap[capture]: "a" <|tool|> "b"')
    matcher = library.GrammarMatcher(compiled)
    assert all(matcher.accept_token(token) for token in (0, 1, 2))
    other = matcher.fork()
    matcher.rollback(2)
    assert matcher.get_captures() == []
    assert all(matcher.accept_token(token) for token in (1, 2))
    assert matcher.get_captures() == other.get_captures() == [("wrap", b"a<|tool|>b")]


@pytest.mark.parametrize("body", [
    'list[max_tokens=3]: item+\n?item: letter ";"?\n!letter: /[a-d]/i | "e"',
    'list[max_chars=3]: item+\nitem: LETTER | ";"\nLETTER: /[a-e]/',
])  # fmt: skip
def test_a_bound_holds_for_a_rule_that_consists_of_rules(library: Any, body: str) -> None:
    info = library.TokenizerInfo(["<", ">", "a", "b", ";", "</s>"], stop_token_ids=[5])
    matcher = library.GrammarMatcher(library.GrammarCompiler(info).compile_lark(f'start: "<" list ">"\n{body}'))
    seen = []
    for token in (0, 2, 3, 2):
        assert matcher.accept_token(token)
        bitmask = library.allocate_token_bitmask(1, 6)
        matcher.fill_next_token_bitmask(bitmask)
        seen.append([number for number in range(6) if int(bitmask[0, 0]) >> number & 1])
    first = [2, 3] if "max_tokens" in body else [2, 3, 4]
    assert seen == [first, [1, 2, 3, 4], [1, 2, 3, 4], [1]]


def test_unsupported_parts_of_bounded_rules() -> None:
    for source in (
        'start: list\nlist[max_tokens=3]: item+\nitem: "a"\n%ignore " "',
        'start: list\nlist[max_tokens=3]: item+\nitem: "a" item?',
        'start: list\nlist[max_tokens=3]: item+\nitem[capture]: "a"',
        'start: list\nlist[max_tokens=3]: item+\nitem: "a" -> one',
        "start: list\nlist[max_tokens=3]: item+\nitem: <[1]>",
        'start: list\nlist[lazy]: item+\nitem: "a"',
        "start: list\nlist[max_tokens=3]: r0\n" + "".join(f"r{n}: r{n + 1} r{n + 1}\n" for n in range(40)) + 'r40: "a"',
    ):
        with pytest.raises(RuntimeError, match="Lark error at line"):
            xgr.Grammar.from_lark(source)


ERRORS = [
    ('start: r "c"\nr[stop=""]: /a*/', "line 2, column 8"),
    ('start: r "c"\nr[lazy, suffix=""]: /a*/', "line 2, column 16"),
    ('# one\nstart: "a"i missing /\\d/i', "line 2, column 13"),
    ('start: /\\d/i "x" <unknown>', "line 1, column 18"),
    ("start: /[]a]/", "line 1, column 8"),
    ('start: "a"\n%grammar_options {"no_forcing": true}', "line 2, column "),
    ('start: @part\n', "line 1, column 8"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "place"), ERRORS)
def test_errors_have_the_place_in_the_text(library: Any, source: str, place: str) -> None:
    with pytest.raises(RuntimeError) as error:
        library.Grammar.from_lark(source, tokenizer_info=library.TokenizerInfo(["a", "<known>"]))
    assert place in str(error.value)


def test_locations_in_rewritten_text() -> None:
    text = RewrittenLark('start: "a"i /\\u{61}/ r\nr[stop="x"]: /b/')
    for number, word in enumerate(("start", '"a"i', "/\\u{61}/", "r[", "stop", '"x"', "/b/")):
        start = text.source.index(word)
        written = {1: "/(?ai:a)/", 2: "/a/"}.get(number, word)
        at = text.text.index("suffix" if word == "stop" else written)
        error = SpecError("wrong", text=text.text, span=(at, at + len("suffix" if word == "stop" else written)))
        text.locate(error)
        assert (error.text, error.span) == (text.source, (start, start + len(word)))
    other: GuidedError = SpecError("wrong", text="of another text", span=(0, 2))
    text.locate(other)
    assert (other.text, other.span) == ("of another text", (0, 2))


@pytest.mark.parametrize(("pattern", "accepted", "refused"), [
    (r"\a\e\cJ", ["\x07\x1b\n"], ["aecJ"]),
    (r"[\a\e]", ["\x07", "\x1b"], ["a", "\\"]),
    (r"\\a", ["\\a"], ["\\\x07"]),
    (r"[{,3}]", [",", "3"], ["a"]),
])  # fmt: skip
def test_escapes_of_regular_expressions(library: Any, pattern: str, accepted: list[str], refused: list[str]) -> None:
    for grammar in (library.Grammar.from_regex(pattern), f"root ::= Regex({json.dumps(pattern)})"):
        assert all(accepts(library, grammar, text) for text in accepted)
        assert not any(accepts(library, grammar, text) for text in refused)


@pytest.mark.parametrize("pattern", ['"[Σk]", flags="i"', '"(?i)[Σk]"'])
def test_the_flag_i_folds_the_letters_of_ascii(library: Any, pattern: str) -> None:
    assert [text for text in "ΣσkK\u212a" if accepts(library, f"root ::= Regex({pattern})", text)] == ["Σ", "k", "K"]


def test_groups_with_names_in_the_notation_of_python(library: Any) -> None:
    assert accepts(library, 'root ::= Regex("(?P<one>a)[(?P<]")', "a(")


@pytest.mark.parametrize("pattern", [r"\uZZ", r"\x4", r"\u{110000}", r"[\x]", r"\c1", "a{,3}"])
def test_escapes_and_counts_that_are_not_complete(library: Any, pattern: str) -> None:
    with pytest.raises(RuntimeError):
        accepts(library, f"root ::= Regex({json.dumps(pattern)})", "a")


@pytest.mark.parametrize(("key", "value"), [
    ("vocab_size", 3), ("stop_token_ids", [10**6]), ("special_token_ids", [-1]), ("trie_subtree_nodes_range", []),
    ("sorted_decoded_vocab", [[1, "a"]]),
])  # fmt: skip
def test_a_stored_tokenizer_that_was_changed(library: Any, key: str, value: Any) -> None:
    stored = json.loads(library.TokenizerInfo(["a", "ab", "a", "b", "", "</s>"]).serialize_json())
    stored[key] = value
    with pytest.raises(library.DeserializeFormatError):
        library.TokenizerInfo.deserialize_json(json.dumps(stored))


def test_the_text_of_a_grammar_ends_with_a_line_end(library: Any) -> None:
    for text in ('root ::= Regex("[0-9]{5}")', 'root ::= Regex("[0-9]{5}")\n'):
        assert str(library.Grammar.from_ebnf(text)) == 'root ::= Regex("[0-9]{5}")\n'


def test_a_grammar_that_is_not_normalised(library: Any) -> None:
    found = library.testing._ebnf_to_grammar_no_normalization('main ::= "a"\n', "main")
    assert isinstance(found, library.Grammar)
    with pytest.raises(RuntimeError, match="EBNF parser error at line 1, column 1"):
        library.testing._ebnf_to_grammar_no_normalization('main ::= "a"\n')


def test_lark_in_a_structural_tag_is_xgrammars_dialect() -> None:
    source = 'start: a B\na[stop="!"]: /(?<n>\\u{61})*/\nB: /\\d/'
    form = {"type": "grammar", "syntax": "lark", "grammar": source}
    for grammar in (xgr.Grammar.from_lark(source), xgr.Grammar.from_structural_tag({"format": form})):
        assert [xgr.testing._is_grammar_accept_string(grammar, text) for text in ("aa!1", "!2", "aa1", "b!1")] == [
            True, True, False, False
        ]  # fmt: skip
    with pytest.raises(RuntimeError, match="unopened group"):
        xgr.Grammar.from_structural_tag({"format": {**form, "grammar": "start: /a)/"}})
