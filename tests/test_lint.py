"""`guided lint`: its findings are right and complete."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import GuidedError
from guided.frontends.common.lint_finding import LintFinding
from guided.frontends.gbnf import lint_gbnf
from guided.frontends.json_schema import JsonSchemaOptions, json_schema_to_grammar
from guided.frontends.lark import LarkOptions
from guided.frontends.lark.dialect.expressions import determinise
from guided.frontends.lark.lint import find_common_text, lint_lark
from guided.frontends.library import library
from guided.frontends.lint import lint_grammar
from guided.frontends.regex import parse_regex
from guided.ir.nodes import Automaton, Grammar
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.matching.explain.ambiguity import find_ambiguous_alternatives
from guided.vocabulary import Vocabulary
from tests.effort import examples
from tests.lark_support import lark_to_lexed
from tests.test_cli import run, run_json

INTEREGULAR = ["a+", "[ab]{2,3}", "a?b", "(a|b)*c", "a[^b]", "b(a|c){1,4}", "[a-c]+", ".{2}", "(ab|ba)+", "abc|cba"]
TEXT = """start: item+
item: NAME "=" value | dead
value: WORD | NUMBER | "if" | value2
value2: value
dead: "x" dead
lost: "y"
NAME: /[a-z]+/
WORD: /[a-z_]+/
NUMBER: /[0-9]{1,4}/
OTHER: "q"
%ignore /[ \\n]+/
"""
COMPILER = GrammarCompiler(Vocabulary([bytes([code]) for code in range(256)], eos_token_ids=[256]))


def found(text: str) -> set[tuple[str, str]]:
    return {(each.kind, each.place) for each in lint_lark(text, LarkOptions())}


def test_of_a_lark_text() -> None:
    assert found(TEXT) == {
        ("empty-rule", "dead (line 5)"),
        ("cycle", "value (line 3)"),
        ("cycle", "value2 (line 4)"),
        ("collision", "WORD (line 8)"),
        ("unused", "lost (line 6)"),
        ("unused", "OTHER (line 10)"),
        ("keyword", '"if"'),
        ("keyword", '"x"'),
    }
    (collision,) = [each for each in lint_lark(TEXT, LarkOptions()) if each.kind == "collision"]
    assert "NAME (line 7) also matches" in collision.message and "NAME.2" in collision.hint
    assert re.fullmatch("[a-z]+", collision.example)


def test_terminals_that_never_meet_do_not_collide() -> None:
    assert found('start: "<" A ">" | "[" B "]"\nA: /[a-z]+/\nB: /[a-y]+/') == set()
    assert ("collision", "A (line 2)") in found('start: "<" (A ">" | B "]")\nA: /[a-z]+/\nB: /[a-y]+/')


def test_a_higher_priority_is_reported() -> None:
    text = "start: A | B\nA.2: /[a-z]{1,3}/\nB: /[a-y]{1,9}/"
    (collision,) = [each for each in lint_lark(text, LarkOptions()) if each.kind == "collision"]
    assert (collision.place, "because of a higher priority" in collision.message) == ("A (line 2)", True)


def test_all_kinds_of_terminals_are_compared() -> None:
    """Lookbehinds, operators and parts of a text, with examples that are texts of both."""
    for first, second, example in [
        (r"/ab(?<=b)-/", "/[a-y]{1,9}/", None),
        (r"/ab(?<=b)-/", "/[a-y-]{1,9}/", "ab-"),
        ("/[a-z]{2}/ & ~/a./", "/[a-c]{1,3}/", "ba"),
        ("/[a-z]{2}/ & ~/[a-c]./", "/[a-c]{1,3}/", None),
        ('"x" %regex {"substring_words": "one two three"}', '"xtwo"', "xtwo"),
        ('"x" %regex {"substring_words": "one two three"}', '"xfour"', None),
        (r"/\w/", "/é/", "é"),
    ]:
        text = f"start: A | B\nA: {first}\nB: {second}"
        remarks = [each for each in lint_lark(text, LarkOptions()) if each.kind in ("collision", "keyword")]
        assert [each.example for each in remarks] == ([example] if example else []), text
    assert "not-compared" not in {kind for kind, _ in found(text)}


@examples(60)
@given(st.sampled_from(INTEREGULAR), st.sampled_from(INTEREGULAR))
def test_common_texts_match_interegular(first: str, second: str) -> None:
    interegular = pytest.importorskip("interegular")
    from interegular.comparator import Comparator

    automata = [determinise(parse_regex(pattern), pattern) for pattern in (first, second)]
    judge = Comparator({name: interegular.parse_pattern(text) for name, text in (("A", first), ("B", second))})
    example = find_common_text(*automata)
    assert (example is None) == judge.isdisjoint("A", "B")
    if example is not None:
        assert re.fullmatch(first, example) and re.fullmatch(second, example)
        shorter = map("".join, itertools.product("abc", repeat=len(example) - 1))
        assert not any(re.fullmatch(first, text) and re.fullmatch(second, text) for text in shorter)


@pytest.mark.parametrize(
    ("option", "spec", "place", "example"),
    [
        ("gbnf", 'root ::= word | name\nword ::= [a-z]{1,3}\nname ::= [a-z_]{2}', "root (line 1)", "aa"),
        ("gbnf", 'root ::= "a" root | "ab" | "a" "b"?', "root (line 1)", "ab"),
        ("gbnf", 'root ::= word | name\nword ::= [a-z]{1,3}\nname ::= [0-9_]{2}', None, ""),
    ],
)  # fmt: skip
def test_ambiguous_unions(option: str, spec: str, place: str | None, example: str) -> None:
    out = run_json("lint", f"--{option}", spec)
    remarks = [each for each in out["findings"] if each["kind"] == "ambiguous"]
    assert [(each["place"], each["example"], each["matters"]) for each in remarks] == (
        [(place, example, False)] if place else []
    )


def test_ambiguous_terminals_of_a_scannerless_text() -> None:
    grammar = COMPILER.compile_lark("start: A | B\nA: /a+/\nB: /a+b?/", semantics="scannerless").grammar
    (remark,) = find_ambiguous_alternatives(grammar)
    assert (remark.place, remark.example) == ("start (line 1)", "a")


@pytest.mark.parametrize(
    ("option", "spec", "most"),
    [
        ("regex", "[ab]{1,500}", None),
        ("regex", "[ab]{1,501}", "501"),
        ("regex", r"a\s{0,9000}b", None),
        ("schema", '{"type": "string", "maxLength": 4000}', "4,000"),
        ("lark", "start: A\nA: /[a-z]{1,800}/", "800"),
        ("gbnf", 'root ::= ("a" x){2,600}\nx ::= "b"', "600"),
    ],
)
def test_high_bounds_are_noted(option: str, spec: str, most: str | None) -> None:
    remarks = [each for each in run_json("lint", f"--{option}", spec)["findings"] if each["kind"] == "long"]
    assert [f" up to {most} times" in each["message"] for each in remarks] == ([True] if most else [])


def test_templates_and_parts_of_terminals_are_used() -> None:
    text = 'start: list{item}\nlist{x}: x ("," x)*\nitem: A\nA: B "x"\nB: "b"\n'
    assert not [each for each in found(text) if each[0] == "unused"]


def test_scannerless_texts_have_no_collisions() -> None:
    assert lint_lark("start: A | B\nA: /a+/\nB: /a+b?/", LarkOptions(semantics="scannerless")) == []


@pytest.mark.parametrize(
    ("option", "spec", "places"),
    [
        ("regex", "(a|b)+", [""]),
        ("regex", "[ab]{1,4}", []),
        ("regex", r"a\s*b", []),  # only whitespace
        ("schema", '{"type": "string"}', [""]),
        ("schema", '{"type": "string", "maxLength": 9}', []),
        ("schema", '{"properties": {"a": {"type": "array", "items": {"type": "null"}}}, "type": "object", '
         '"additionalProperties": false, "required": ["a"]}', ["/properties/a"]),
        ("gbnf", 'root ::= "a"{1,3} x\nx ::= [a-z]+', ["x (line 2)"]),
        ("lark", 'start: NAME\nNAME: /[a-z]+/', ["NAME (line 2)"]),
        ("lark", 'start: NAME\nNAME: /[a-z]{1,9}/\n%ignore " "', []),
        ("choice", "yes,no", []),
    ],
)  # fmt: skip
def test_repetitions_without_a_bound(option: str, spec: str, places: list[str]) -> None:
    out = run_json("lint", f"--{option}", spec, code=1 if places else 0)
    assert [each["place"] for each in out["findings"] if each["kind"] == "unbounded"] == places
    assert all(each["hint"] for each in out["findings"] if each["kind"] == "unbounded")


def test_recursion_is_noted() -> None:
    out = run_json("lint", "--gbnf", 'root ::= "(" root ")" | "x"')
    assert [(each["kind"], each["matters"]) for each in out["findings"]] == [("recursion", False)]


def test_size_and_masks() -> None:
    out = run_json("lint", "--lark", TEXT, code=1)
    assert out["size"]["terminals"] == 7 and out["size"]["rules"] > 4 and out["size"]["compile_ms"] > 0
    assert 0 < out["masks"]["median_us"] <= out["masks"]["slowest_us"] and out["masks"]["measured"] > 5


def test_words() -> None:
    code, text, _ = run("lint", "--regex", "[ab]{1,4}")
    assert code == 0 and text.startswith("nothing found\nsize: 1 rule, 5 positions, ")
    code, text, _ = run("lint", "--lark", TEXT)
    assert code == 1 and "note: unused: lost (line 6): no output uses the rule\n  hint: delete it, or use it\n" in text


@pytest.mark.parametrize("name", sorted(library()))
def test_grammars_of_the_library_have_no_findings_but_text_without_bounds(name: str) -> None:
    out = json.loads(run("lint", "--grammar", name, "--json")[1])
    assert {each["kind"] for each in out["findings"] if each["matters"]} <= {"unbounded"}


# --- random grammars

RULES = ("start", "r", "s")


@st.composite
def rule_texts(draw: st.DrawFn) -> dict[str, list[list[str]]]:
    """Alternatives of each rule: symbols, terminals in quotes."""
    symbol = st.sampled_from(['"a"', '"b"', "start", "r", "s"])
    return {name: draw(st.lists(st.lists(symbol, max_size=3), min_size=1, max_size=3)) for name in RULES}


def generates(rules: dict[str, list[list[str]]], depth: int = 8) -> set[str]:
    """The rules from which some text of a tree up to a depth is derived."""
    living: set[str] = set()
    for _ in range(depth):
        living |= {
            name
            for name, each in rules.items()
            if any(all(symbol in living or symbol[0] == '"' for symbol in symbols) for symbols in each)
        }
    return living


@examples(80)
@given(rule_texts())
def test_rules_that_generate_nothing(rules: dict[str, list[list[str]]]) -> None:
    text = "".join(f"{name}: {' | '.join(map(' '.join, each))}\n" for name, each in rules.items())
    reached, todo = {"start"}, ["start"]
    while todo:
        for symbol in itertools.chain(*rules[todo.pop()]):
            if symbol in rules and symbol not in reached:
                reached.add(symbol)
                todo.append(symbol)
    if "start" not in generates(rules):
        return
    kinds: dict[str, set[str]] = {}
    for each in lint_lark(text, LarkOptions()):
        kinds.setdefault(each.kind, set()).add(each.place.split()[0])
    assert kinds.get("empty-rule", set()) == reached - generates(rules)
    assert kinds.get("unused", set()) == set(rules) - reached


PATTERNS = ["a", "b+", "ab", "[ab]{1,2}", "a?b", "(a|b)c", "a[^b]", "c|a", "[a-c]+", "b(?<=b)c"]


@examples(60)
@given(st.lists(st.sampled_from(PATTERNS), min_size=2, max_size=3, unique=True))
def test_collisions_are_just_the_common_texts(patterns: list[str]) -> None:
    names = [f"T{number}" for number in range(len(patterns))]
    text = f"start: ({' | '.join(names)})+\n" + "".join(
        f"{name}: /{pattern}/\n" for name, pattern in zip(names, patterns, strict=True)
    )
    texts = ["".join(each) for length in range(1, 5) for each in itertools.product("abc", repeat=length)]
    common = sum(
        any(re.fullmatch(first, one) and re.fullmatch(second, one) for one in texts)
        for first, second in itertools.combinations(patterns, 2)
    )
    remarks = [each for each in lint_lark(text, LarkOptions()) if each.kind in ("collision", "keyword")]
    assert len(remarks) == common
    first = {each.name: number for number, each in enumerate(lark_to_lexed(text)[1].terminals)}
    for each in remarks:
        assert each.example and first[each.place.split()[0]] >= 0


def test_unbounded_means_endless() -> None:
    endless_ones = ["a+", "(a|b+)c", "(?:ab|c)*"]
    for pattern in ["(ab){1,9}", r"\s+", r"(a\s*){2}", *endless_ones]:
        endless = pattern in endless_ones
        grammar = COMPILER.compile_regex(pattern)
        assert bool(lint_grammar(grammar.grammar, "regex")) == endless, pattern
        assert (GrammarMatcher(grammar).min_tokens_to_finish() > 0) is True


def test_unbounded_text_before_whitespace() -> None:
    lines = Automaton(((False, ((10, 10, 1), (97, 122, 0))), (True, ())), 0)  # [a-z]*\n
    assert [each.kind for each in lint_grammar(Grammar({"root": lines}, "root"), "regex")] == ["unbounded"]


# --- random grammars of GBNF

Part = list[tuple[str, str]]
"""Symbols, terminals in quotes, each with what follows it: "", "?", "*"."""


@st.composite
def gbnf_rules(draw: st.DrawFn) -> dict[str, list[Part]]:
    """Alternatives of each rule."""
    names = st.sampled_from(['"a"', '"b"', "root", "r", "s"])
    part = st.tuples(names, st.sampled_from(["", "", "", "?", "*"]))
    return {name: draw(st.lists(st.lists(part, max_size=3), min_size=1, max_size=3)) for name in ("root", "r", "s")}


def gbnf_text(rules: dict[str, list[Part]]) -> str:
    def shown(part: Part) -> str:
        return " ".join(symbol + count for symbol, count in part) or '""'

    return "".join(f"{name} ::= {' | '.join(map(shown, each))}\n" for name, each in rules.items())


def texts_of(rules: dict[str, list[Part]], longest: int) -> dict[str, list[set[str]]]:
    """The texts of each alternative up to a length, by applying the rules until nothing is new."""
    found = {name: [set[str]() for _ in each] for name, each in rules.items()}

    def of(symbol: str) -> set[str]:
        return {symbol[1:-1]} if symbol[0] == '"' else set[str]().union(*found[symbol])

    def joined(first: set[str], second: set[str]) -> set[str]:
        return {one + other for one in first for other in second if len(one) + len(other) <= longest}

    while True:
        before = sum(len(texts) for each in found.values() for texts in each)
        for name, each in rules.items():
            for number, part in enumerate(each):
                texts = {""}
                for symbol, count in part:
                    one = of(symbol)
                    many = texts if count else set[str]()
                    step = joined(texts, one)
                    while count == "*" and step - many:
                        many, step = many | step, joined(step, one)
                    texts = many | step
                found[name][number] |= texts
        if sum(len(texts) for each in found.values() for texts in each) == before:
            return found


def gbnf_remarks(rules: dict[str, list[Part]]) -> list[LintFinding] | None:
    """None for a grammar that is refused: it generates nothing, or has a recursion that the core does not accept."""
    try:
        grammar = COMPILER.compile_gbnf(gbnf_text(rules)).grammar
    except GuidedError:
        return None
    return [*lint_gbnf(grammar), *find_ambiguous_alternatives(grammar)]


def used_of(rules: dict[str, list[Part]]) -> set[str]:
    reached, todo = {"root"}, ["root"]
    while todo:
        new = {symbol for part in rules[todo.pop()] for symbol, _ in part if symbol in rules} - reached
        reached |= new
        todo += new
    return reached


def replaced(rules: dict[str, list[Part]], empty: set[str]) -> dict[str, set[str]]:
    """The rules that can replace each rule: the other symbols of the alternative may be omitted."""
    out: dict[str, set[str]] = {name: set() for name in rules}
    for name, part in [(name, part) for name, each in rules.items() for part in each]:
        for at, (symbol, _) in enumerate(part):
            others = [*part[:at], *part[at + 1 :]]
            if symbol in rules and all(count or other in empty for other, count in others):
                out[name].add(symbol)
    for _ in rules:
        out = {name: direct.union(*(out[one] for one in direct)) for name, direct in out.items()}
    return out


@examples(60)
@given(gbnf_rules())
def test_rules_of_gbnf(rules: dict[str, list[Part]]) -> None:
    remarks = gbnf_remarks(rules)
    if remarks is None:
        return
    texts = {name: set[str]().union(*each) for name, each in texts_of(rules, 3).items()}
    used, living = used_of(rules), {name for name, each in rules.items() if generates_part(rules, name)}
    assert all(name in living for name, each in texts.items() if each)
    loops = replaced(rules, {name for name, each in texts.items() if "" in each})
    kinds: dict[str, set[str]] = {}
    for each in remarks:
        kinds.setdefault(each.kind, set()).add(each.place.split()[0])
    assert kinds.get("unused", set()) == set(rules) - used
    assert kinds.get("empty-rule", set()) == used - living
    assert kinds.get("cycle", set()) == {name for name in used if name in loops[name]}


def generates_part(rules: dict[str, list[Part]], name: str) -> bool:
    """Whether some tree of the rule ends without containing any rule within itself."""

    def ends(name: str, around: tuple[str, ...]) -> bool:
        return name not in around and any(
            all(count or symbol[0] == '"' or ends(symbol, (*around, name)) for symbol, count in part)
            for part in rules[name]
        )

    return ends(name, ())


def test_terminals_and_rules_of_gbnf() -> None:
    out = run_json("lint", "--gbnf", 'root ::= "a" | dead\ndead ::= "x" dead\nbar ::= "y"', code=1)
    assert [(each["kind"], each["place"]) for each in out["findings"]] == [
        ("empty-rule", "dead (line 2)"),
        ("unused", "bar (line 3)"),
        ("recursion", "dead (line 2)"),
    ]


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ('root ::= "(" root ")" | x\nx ::= "(" x ")" | "u"', "(u)"),
        ('root ::= x | y\nx ::= "a" x "b" | ""\ny ::= "a" y "bb" | "c"', None),
        ('root ::= x | y\nx ::= "a" x "b" | "c"\ny ::= "aa" y "bb" | "acb"', "acb"),
        ('root ::= [à-ü] x | "é" x\nx ::= "(" x ")" | "."', "é."),
    ],
)
def test_alternatives_that_are_not_regular(text: str, example: str | None) -> None:
    grammar = COMPILER.compile_gbnf(text).grammar
    found = [each for each in find_ambiguous_alternatives(grammar) if each.place == "root (line 1)"]
    assert [each.example for each in found] == ([example] if example else [])


@pytest.mark.parametrize("order", ["declared", "any"])
def test_members_in_any_order_are_looked_at(order: str) -> None:
    """The members of a permutation are not nodes, but their contents are."""
    schema = {"properties": {"a": {"type": "string"}, "b": {"maxLength": 9}}, "additionalProperties": False}
    grammar = json_schema_to_grammar(schema, JsonSchemaOptions(property_order=order))
    assert "unbounded" in {remark.kind for remark in lint_grammar(grammar, "schema")}


def texts(schema: str, most: int) -> int:
    """The number of texts of a schema, by exhaustive search. Gives up after `most` prefixes."""
    grammar = COMPILER.compile_json_schema(schema, whitespace="compact", numbers="plain", escapes="minimal")
    level, met, found = [GrammarMatcher(grammar)], 0, 0
    while level and met + len(level) <= most:
        following = list[GrammarMatcher]()
        for matcher in level:
            met += 1
            found += matcher.is_accepting()
            for byte in matcher._next_bytes() if len(following) <= most else ():
                after = matcher.fork()
                if after.accept_token(byte):
                    following.append(after)
        level = following
    return most + 1 if level else found


@pytest.mark.parametrize(
    ("schema", "bounded"),
    [
        ('{"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": true}', True),
        ('{"type": "array", "items": {"enum": ["a", "b"]}}', False),
        ('{"type": "array", "items": {"type": ["boolean", "null"]}, "uniqueItems": true}', True),
        ('{"type": "array", "items": {"enum": ["a", 1, {"b": 2}]}, "uniqueItems": true}', True),
        ('{"type": "array", "items": {"type": "integer"}, "uniqueItems": true}', False),
        ('{"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2}, "uniqueItems": true}', True),
        ('{"type": "array", "items": {"type": "string", "maxLength": 0}, "uniqueItems": true}', True),
        ('{"type": "array", "prefixItems": [{"enum": [1]}], "items": {"enum": [1, 2]}, "uniqueItems": true}', True),
        ('{"type": "array", "items": {"items": {"const": 1}, "type": "array"}, "uniqueItems": true}', False),
        ('{"type": "object", "propertyNames": {"enum": ["x", "y"]}, "additionalProperties": {"const": 1}}', True),
        ('{"type": "object", "additionalProperties": {"const": 1}}', False),
    ],
)
def test_values_that_must_differ_bound_a_repetition(schema: str, bounded: bool) -> None:
    options = JsonSchemaOptions(whitespace="compact", numbers="plain", escapes="minimal")
    remarks = lint_grammar(json_schema_to_grammar(schema, options), "schema")
    assert (texts(schema, 300) <= 300) == bounded
    assert ("unbounded" not in {each.kind for each in remarks}) == bounded


def test_how_often_values_that_differ_repeat() -> None:
    schema = json.dumps(
        {"type": "array", "items": {"enum": [f"w{number}" for number in range(700)]}, "uniqueItems": True}
    )
    (remark,) = lint_grammar(json_schema_to_grammar(schema, JsonSchemaOptions(whitespace="compact")), "schema")
    assert remark.kind == "long" and "up to 700 times" in remark.message
