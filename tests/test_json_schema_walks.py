"""JSON Schema: no walk through the masks reaches a dead end, whatever tokens it accepts, and its text satisfies the
schema.

The default run walks through random schemas over a small vocabulary. Marked slow: the vocabulary of Llama-3 and its
first 4,096 tokens, and real schemas (MaskBench's) over these. `GUIDED_WALKS=first:last` selects some of the schemas,
always in the same order. Calls that take more than half a second are printed with their position (`pytest -s`).
"""

from __future__ import annotations

import json
import os
import random
import time
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.errors import GuidedError, LimitExceeded, SpecError, UnsupportedError
from guided.frontends.json_schema import JsonSchemaOptions
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of, vocabulary
from tests.json_schema_judge import Judge, NoJudge
from tests.json_schema_support import QUIET, compiled, grammar_of, matches, near, schemas, spellings
from tests.test_json_schema_suites import _data
from tests.test_real_vocabularies import VOCABULARIES
from tests.walks import RULES, Plan, SlowCall, Walker, WalkError, plans

OPTIONS = (
    {},
    {"property_order": "any"},
    {"whitespace": "single_space", "numbers": "plain", "escapes": "minimal"},
)
PATIENCE = 10.0  # seconds for the walks of one real schema
FEW = 4096


def few_tokens() -> Vocabulary:
    """The first and most frequent tokens of Llama-3, with which budgets are cheaper to check."""
    tokens = VOCABULARIES["llama3"]().tokens[:FEW]
    return Vocabulary([*tokens, None], eos_token_ids=[FEW])


@cache
def setup(name: str) -> tuple[GrammarCompiler, Walker]:
    """A compiler and a walker for a vocabulary."""
    words = {"small": vocabulary, "few": few_tokens, **VOCABULARIES}[name]()
    return GrammarCompiler(words, cache_bytes=0, warn=False), Walker(words)


LARGE = [pytest.param(name, marks=pytest.mark.slow) for name in ("few", "llama3")]


@pytest.mark.parametrize("name", ["small", *LARGE])
def test_no_dead_ends_in_random_schemas(name: str) -> None:
    compiler, walker = setup(name)

    @settings(QUIET, max_examples=max(12, settings.default.max_examples // 8))
    @given(st.data())
    def walk(data: st.DataObject) -> None:
        schema = data.draw(schemas())
        options = data.draw(st.sampled_from(OPTIONS))
        texts = [data.draw(spellings(data.draw(near(schema)))).encode() for _ in range(2)]
        rng = random.Random(f"{data.draw(st.integers(0, 99))} {schema}")
        grammar = compiled(grammar_of(schema, JsonSchemaOptions(**options)), compiler)
        if grammar is None:
            return
        judge = Judge(schema)
        for plan in plans(rng, [text for text in texts if matches(grammar, text)]):
            text = walker.walk(grammar, plan, rng)
            show(f"{name} {json.dumps(schema)} {options}", walker.slow)
            assert text is None or judge(text), (schema, options, plan, text)

    walk()
    print(f"\n{name}: {dict(walker.counts)}")


ONE_NAME = {"properties": {"a": {}}, "patternProperties": {"a": {}}, "propertyNames": {"maxLength": 1, "pattern": "a"}}
FLAG = {"properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}
RUN_OUT = [
    ({"type": "object", "propertyNames": {"const": "x"}}, '{"x":0'),
    ({"type": "object", **ONE_NAME}, '{"a":0'),
    ({"type": "object", "propertyNames": {"enum": ["x", "a"]}, "properties": {"a": {}}}, '{"a":0,"x":0'),
    ({"type": "object", "propertyNames": {"pattern": "^[ab]$"}, "properties": {"a": {}}}, '{"a":0,"b":0'),
    ({"type": "object", "patternProperties": {"^[ab]$": {}}, "additionalProperties": False}, '{"b":0,"a":0'),
]
SETS = [
    ({"type": "object", "additionalProperties": False}, "[{}"),
    ({"type": "object", **FLAG}, '[{"a":true},{"a":false}'),
    ({"type": "array", "items": {"type": "null"}, "maxItems": 1}, "[[null],[]"),
    ({"type": "string", "pattern": "^[ab]$"}, '["b","a"'),
    ({"type": "number", "multipleOf": 0.5, "minimum": 0, "maximum": 1}, "[0,1,0.5"),
]
RUN_OUT += [({"type": "array", "uniqueItems": True, "items": items}, text) for items, text in SETS]
RUN_OUT += [
    ({"type": "array", "uniqueItems": True, "items": RUN_OUT[0][0]}, text) for text in ('[{"x":0', '[{"x":1},{"x":0')
]
"""Objects whose names, and sets whose items, are few, and a text in which all of them were written."""


@pytest.mark.parametrize("text", ["[[],[true],{", '[[],[true],{"', "[[],[true],[", "[[],{},9,[true],{"])
def test_an_obligation_that_was_met_once_is_not_waited_for_again(text: str) -> None:
    """There are two readings of the items so far. The one that waits for the item has no continuation."""
    schema = {"type": "array", "prefixItems": [{"const": []}], "contains": {"const": [True]}, "uniqueItems": True}
    matcher = GrammarMatcher(setup("small")[0].compile_json_schema(schema))
    assert matcher.accept_string(text)
    rest = matcher.explain().completion
    assert len(rest) < 12 and matcher.accept_string(rest) and matcher.is_accepting()


@pytest.mark.parametrize("order", ["declared", "any"])
@pytest.mark.parametrize(("schema", "text"), RUN_OUT)
def test_nothing_more_is_begun_where_values_run_out(schema: dict, text: str, order: str) -> None:
    """A comma would be a dead end."""
    matcher = GrammarMatcher(setup("small")[0].compile_json_schema(schema, property_order=order))
    for character in text:
        assert set(matcher._walk_mask()) == set(mask_of(matcher)), (schema, character)
        assert matcher.accept_string(character)
    assert set(matcher._walk_mask()) == set(mask_of(matcher)), schema
    assert not matcher.accept_string(",")


NONE_LEFT = [
    {"type": "object", "propertyNames": {"maxLength": 0}, "minProperties": 2},
    {"type": "object", "propertyNames": {"pattern": "^[ab]$"}, "required": ["a"], "minProperties": 3},
    {"type": "object", "propertyNames": {"enum": ["x", "a"]}, "patternProperties": {"a": {}}, "minProperties": 3},
    {"type": "array", "uniqueItems": True, "items": SETS[0][0], "minItems": 2},
    {"type": "array", "uniqueItems": True, "items": SETS[1][0], "minItems": 3},
    {"type": "array", "uniqueItems": True, "items": SETS[3][0], "minItems": 3},
    *(
        {"type": "array", "uniqueItems": True, "minItems": 2, "items": {"type": "object", "additionalProperties": none}}
        for none in (
            {"type": "object", "minProperties": 1, "maxProperties": 0},
            {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/items/additionalProperties"}}},
            {"type": "array", "minItems": 1, "items": {"$ref": "#/items/additionalProperties"}},
        )
    ),
]


@pytest.mark.parametrize("schema", NONE_LEFT)
def test_more_values_than_there_are(schema: dict) -> None:
    with pytest.raises(SpecError):
        setup("small")[0].compile_json_schema(schema)


PAIR = {
    "type": "array", "uniqueItems": True, "maxItems": 2,
    "prefixItems": [{"uniqueItems": True, "minItems": 2},
                    {"items": {"type": "boolean"}, "uniqueItems": True, "minItems": 2}],
}  # fmt: skip
"""Sets in a set, which ends only with a value that the first one was not."""


@pytest.mark.parametrize("text", ["[[1", '[["a",[true,false]],[[', "[[[1,2],[", "[[[1,2],[true,false]],[[1,2],["])
def test_budgets_hold_in_sets_of_sets_of_sets(text: str) -> None:
    """Whether another entry may begin is decided before the text between the entries is read."""
    compiler, walker = setup("small")
    schema = {"type": "array", "items": PAIR, "uniqueItems": True}
    grammar = compiler.compile_json_schema(schema, property_order="any")
    judge, rng = Judge(schema), random.Random(text)
    for rule in RULES:
        for extra in (0, 3):
            whole = walker.walk(grammar, Plan(rule, 0, extra, text.encode()), rng)
            assert whole is not None and judge(whole)


def show(what: str, slow: list[SlowCall]) -> None:
    for call in slow:
        place = call.after if len(call.after) < 400 else b"..." + call.after[-400:]
        where = f"budget {call.budget}, after {len(call.after)} bytes {place!r}"
        print(f"slow: {what}: {call.call}, {call.seconds} s, {where}")
    slow.clear()


@pytest.mark.parametrize("name", LARGE)
def test_no_dead_ends_in_real_schemas(name: str) -> None:
    files = sorted(_data("maskbench").glob("*.json"))
    random.Random(7).shuffle(files)
    first, last = map(int, os.environ.get("GUIDED_WALKS", "0:100").split(":"))
    wrong: list[str] = []
    for file in files[first:last]:
        begin = time.monotonic()
        found = walk_through(name, file.stem, json.loads(file.read_text("utf-8")))
        print(f"{file.stem}: {found}, {time.monotonic() - begin:.2f} s", flush=True)
        wrong += [f"{file.stem}: {found}"] if found.startswith("WRONG") else []
    print(name, dict(setup(name)[1].counts))
    assert wrong == []


def walk_through(name: str, what: str, case: dict) -> str:
    """The outcome of the walks through one real schema, in a few words."""
    compiler, walker = setup(name)
    rng = random.Random(what)
    options = rng.choice(OPTIONS)
    try:
        grammar = compiler.compile_json_schema(case["schema"], unknown_format="ignore", **options)
    except (UnsupportedError, LimitExceeded, SpecError) as error:
        return f"not compiled: {type(error).__name__}"
    judge, note = judge_of(case["schema"])
    texts = [json.dumps(test["data"], ensure_ascii=False).encode() for test in case["tests"] if test["valid"]]
    walker.deadline, done = time.monotonic() + PATIENCE, 0
    try:
        for plan in plans(rng, [text for text in texts if matches(grammar, text)]):
            if time.monotonic() > walker.deadline:
                note += ", out of time"
                break
            problem = problem_of(walker, grammar, plan, rng, judge)
            if problem:
                return f"WRONG, {options} {plan}: {problem}"
            done += 1
    finally:
        show(f"{what} {options}", walker.slow)
    return f"{done} walks{note}"


def problem_of(walker: Walker, grammar, plan: Plan, rng: random.Random, judge: Judge | None) -> str:
    """The problem of a walk; "" if there is none."""
    try:
        text = walker.walk(grammar, plan, rng)
    except (WalkError, GuidedError) as error:
        return f"{type(error).__name__}: {error}"
    if text is None or judge is None:
        return ""
    try:
        return "" if judge(text) else f"not valid: {text!r}"
    except NoJudge:
        return ""


def judge_of(schema) -> tuple[Judge | None, str]:
    """A judge, or None and the reason."""
    try:
        judge = Judge(schema)
        judge("{}")
    except NoJudge as error:
        return None, f", no judge ({error})"
    return judge, ""
