"""Bad input for the other libraries' interfaces: it costs linear time, and its errors are those of the library."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from time import process_time
from typing import Any

import pytest

import guided
import guided.compat.llguidance as ll
import guided.compat.outlines_core as oc
import guided.compat.xgrammar as xgr
from guided.compat.llguidance.gbnf_to_lark import any_to_lark, gbnf_to_lark
from guided.compat.llguidance.grammars import _LarkRewriter
from guided.compat.rust_anchors import strip_anchors
from guided.compat.xgrammar.lark_text import RewrittenLark
from guided.frontends.lark.dialect.definitions import split_statements
from guided.frontends.lark.scan import _TOKEN, scan, scan_leniently
from guided.frontends.regex.rust_syntax import to_python_regex
from tests.effort import draws

SECONDS = 5.0
"""The bound for one call. If its time grew with the square of the input, it would take more than twice as long."""

TOKENIZER = ll.LLTokenizer("byte", n_vocab=130_000)
LIMITS = guided.Limits()
IDS = f"<[^{'0-120000,' * 50}1]> "
NAMES = ["".join(letters) for letters in product(*[("a", "A")] * 12)]

CALLS: dict[str, Callable[[], object]] = {
    "names that look like attributes": lambda: xgr.Grammar.from_lark("start: /a/\n" + "stop = 1 " * 5_000),
    "attributes": lambda: xgr.Grammar.from_lark("start[" + "stop = 1, " * 5_000 + "]: /a/"),
    "a long pattern": lambda: RewrittenLark("start: /" + "a" * 500_000 + "/"),
    "copies of a long rule": lambda: RewrittenLark(
        "start[max_tokens=5]: " + "a " * 1_000 + "\na: %lark { start: /" + "a" * 10_000 + "/ }"
    ),
    "rules with comments between them": lambda: split_statements("", scan("a: b\n#\n\n" * 20_000)),
    "JSON values": lambda: scan("start: " + "%json 1 " * 50_000),
    "a string that is not closed": lambda: list(scan_leniently('"' + '\\"' * 50_000)),
    "ids that are not closed": lambda: list(scan_leniently("<[" * 50_000)),
    "classes that are not closed": lambda: strip_anchors("[" * 500_000),
    "anchors": lambda: strip_anchors("$" * 100_000 + "a|" + r"\z" * 100_000),
    "properties that are not closed": lambda: to_python_regex(r"\p{" * 100_000, LIMITS),
    "classes of many ranges": lambda: to_python_regex(r"\w" * 100_000, LIMITS),
    "flags in a pattern": lambda: to_python_regex("(?x)a|" * 100_000, LIMITS),
    "a pattern in Rust's notation": lambda: ll.LLMatcher(TOKENIZER, ll.LLMatcher.grammar_from_regex("[" * 100_000)),
    "rules in GBNF": lambda: gbnf_to_lark("".join(f"A{n} ::= A{n}\n" for n in range(20_000))),
    "names that differ in case": lambda: gbnf_to_lark("".join(f"{name} ::= {name}\n" for name in NAMES)),
    "empty lines": lambda: any_to_lark("\n" * 100_000),
    "lists of ids": lambda: _LarkRewriter(f"start: {IDS * 200}", TOKENIZER, LIMITS, {}).rewrite(),
    "copies in copies": lambda: RewrittenLark(_copies(10)),
}


def _copies(depth: int) -> str:
    grammar = 'start: "x"'
    for _ in range(depth):
        grammar = f"start[max_tokens=5]: {'a ' * 20}\na: %lark {{ {grammar} }}"
    return grammar


def test_tokens_in_a_malformed_grammar_match_a_search() -> None:
    draw = random.Random(7)
    for _ in range(draws(5_000)):
        text = "".join(draw.choices('"/\\<[]>a1,\n #i ', k=draw.randrange(16)))
        tokens = [(token.start, token.end) for token in scan_leniently(text)]
        assert tokens == [
            match.span() for match in _TOKEN.finditer(text) if match.lastgroup not in ("space", "comment")
        ]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_time_is_linear_in_the_input(call: Callable[[], object]) -> None:
    begin = process_time()
    with suppress(RuntimeError, guided.GuidedError):
        call()
    assert process_time() - begin < SECONDS


@pytest.mark.parametrize("depth", [100, 2_000])
@pytest.mark.parametrize("atom", ['"a"', 'Regex("a")'])
def test_deep_brackets_in_ebnf(depth: int, atom: str) -> None:
    source = f"root ::= {'(' * depth}{atom}{')' * depth}"
    if depth < 500:
        assert xgr.testing._is_grammar_accept_string(source, "a")
        return
    with pytest.raises(RuntimeError, match=r"line 1, column 51.*raise guided\.Limits"):
        xgr.Grammar.from_ebnf(source)


@pytest.mark.parametrize("depth", [1, 100, 2_000])
def test_a_bound_holds_for_a_long_chain_of_rules(depth: int) -> None:
    chain = "".join(f"a{n}: a{n + 1}\n" for n in range(depth))
    grammar = xgr.Grammar.from_lark(f'start[max_tokens=5]: a0*\n{chain}a{depth}: "x" | "yz"')
    verdicts = [xgr.testing._is_grammar_accept_string(grammar, text) for text in ("", "xyz", "y")]
    assert verdicts == [True, True, False]


@pytest.mark.parametrize("body", ['"y" a{}', '"y" | a{}'])
def test_nested_copies_of_rules_have_an_error_with_a_location(body: Any) -> None:
    chain = "".join(f"a{n}: {body.format(n + 1)}\n" for n in range(2_000))
    with pytest.raises(RuntimeError, match="Lark error at line 1, column 22"):
        xgr.Grammar.from_lark(f'start[max_tokens=5]: a0\n{chain}a2000: "x"')


GRAMMARS = [
    '{"grammars": [{"lark_grammar": 5}]}', '{"grammars": [{"gbnf_grammar": {}}]}',
    '{"grammars": [{"lark_grammar": "start: @b"}, {"name": "b", "lark_grammar": 5}]}',
    f"start: <[^{'9' * 5_000}]>", f"start: <[^1-{'9' * 5_000}]>", f"start: <[{'9' * 5_000}]>",
    ll.LLMatcher.grammar_from_regex("[" * 5_000), ll.LLMatcher.grammar_from_regex("[" * 600 + "a" + "]" * 600),
]  # fmt: skip


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_an_invalid_grammar_sets_the_error_of_a_matcher(grammar: str) -> None:
    matcher = ll.LLMatcher(ll.LLTokenizer("byte"), grammar)
    assert matcher.is_error() and matcher.get_error()
    assert ll.LLMatcher.validate_grammar(grammar) == matcher.get_error()


@pytest.mark.parametrize("call", [
    lambda: ll.LLMatcher.grammar_from_json_schema({"x-guidance": [1]}, overrides={"lenient": True}),
    lambda: ll.LLMatcher.grammar_from_json_schema({"x-guidance": 5}),
    lambda: ll.LLMatcher.grammar_from_json_schema("[" * 100_000),
    lambda: ll.LLMatcher.grammar_from_json_schema({"enum": {1}}),
    lambda: ll.grammar_from("choice", "5"),
    lambda: ll.grammar_from("choice", '["a", 5]'),
    lambda: ll.grammar_from("choice", '{"a": 1}'),
    lambda: ll.grammar_from("choice", "[" * 100_000),
    lambda: oc.Index("[" * 600 + "a" + "]" * 600, _vocabulary()),
    lambda: oc.Index("[" * 100_000, _vocabulary()),
])  # fmt: skip
def test_malformed_text_is_a_value_error(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError):
        call()


def _vocabulary() -> Any:
    vocabulary = oc.Vocabulary(2, {"a": [0], "b": [1]})
    assert oc.Index("[" * 250 + "a" + "]" * 250, vocabulary).get_allowed_tokens(0) == [0]
    return vocabulary


@pytest.mark.parametrize("ids", ["*", "^256", "^0-300", "^257-258,260", "^261,0-256,200-258", "^260-257"])
def test_the_ids_that_are_not_listed_are_allowed(ids: str) -> None:
    matcher = ll.LLMatcher(ll.LLTokenizer("byte"), f"start: <[{ids}]>")
    listed: set[int] = set()
    for piece in ids[1:].split(",") if ids[0] == "^" else ():
        low, _, high = piece.partition("-")
        listed |= set(range(int(low), int(high or low) + 1))
    wanted = [number for number in range(262) if number not in listed and number != 261]
    if matcher.is_error():
        assert not wanted or ids == "^260-257"
    else:
        assert [number for number, bias in enumerate(matcher.compute_logit_bias()) if bias] == wanted


def test_names_in_lark_are_unique() -> None:
    rules = ["root ::= a A a-1 a_2 start Start", "a ::= A", "A ::= a", "a-1 ::= a", "a_2 ::= a", "start ::= a"]
    source = "\n".join([*rules, "Start ::= 1a", "1a ::= a"])
    names = [line.partition(":")[0] for line in gbnf_to_lark(source).splitlines()[1:]]
    assert len(names) == len(set(names)) == 8 and names[0] == "start"
    assert all(name == name.lower() and name[0].isalpha() for name in names)


def test_a_tokenizer_creates_one_compiler_for_equal_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, created = ll.LLTokenizer("byte"), []
    monkeypatch.setattr(
        "guided.compat.llguidance.tokenizer.GrammarCompiler", lambda *args, **options: created.append(args) or args
    )
    for states in (1_000, 2_000, 1_000):
        tokenizer.get_compiler(guided.Limits(states=states))
    assert len(created) == 2


@pytest.mark.parametrize("size", [5_000_000, 10**10, 10**100])
def test_a_vocab_size_beyond_every_model_is_refused(size: int) -> None:
    info = xgr.TokenizerInfo(["a", "b"], vocab_size=1_000_000, stop_token_ids=[1])
    assert len(info.special_token_ids) == 999_998
    metadata, stored = json.loads(info.dump_metadata()), json.loads(xgr.TokenizerInfo(["a", "b"]).serialize_json())
    with pytest.raises(RuntimeError, match="vocab_size must be at most"):
        xgr.TokenizerInfo.from_vocab_and_metadata(["a", "b"], json.dumps({**metadata, "vocab_size": size}))
    with pytest.raises(xgr.DeserializeFormatError, match="vocab_size must be at most"):
        xgr.TokenizerInfo.deserialize_json(json.dumps({**stored, "vocab_size": size}))


@pytest.mark.parametrize("required", [[[]], [{}], [1], [None], {"a": 1}, "ab"])
def test_required_must_be_a_list_of_names(required: Any) -> None:
    schema = {"type": "object", "properties": {"a": {}}, "patternProperties": {"b": {}}, "required": required}
    with pytest.raises(RuntimeError, match="JSON schema error"):
        xgr.Grammar.from_json_schema(schema)


@pytest.mark.parametrize("count", [0, 0.0, 1, 1.0, 2, 2.0])
def test_a_count_may_be_written_with_a_fraction(count: float) -> None:
    schema = {"type": "array", "prefixItems": [{"type": "null"}], "minItems": count}
    grammar = xgr.Grammar.from_json_schema(schema)
    verdicts = [xgr.testing._is_grammar_accept_string(grammar, text) for text in ("[]", "[null]", "[null,null]")]
    assert verdicts == [count == 0, count <= 1, count == 2]
