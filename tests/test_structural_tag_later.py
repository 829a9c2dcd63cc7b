"""Arguments that are compiled when a call begins: masks, budgets and errors are the same as if everything were compiled
at once.

The same structural tag is compiled both ways, and two matchers accept the same tokens. Tokens of the vocabulary cross
the borders of the parts: a name and the quotation mark after it, the end of a tag and the beginning of an object.
"""

from __future__ import annotations

import copy
import gc
import json
import random
import string
import threading
import weakref
from functools import cache, lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from benchmarks.tool_schemas import tools_of
from guided.frontends.json_schema.options import DEFAULTS, JsonSchemaOptions
from guided.frontends.json_schema.simple import shortest_text_bound
from guided.frontends.structural_tag import structural_tag_to_grammar
from guided.matching import CompiledGrammar, GrammarCompiler
from tests.effort import draws, every
from tests.structural_tag_support import byte_compiler, of_format

END = 256
PIECES = [
    '{"', ' {"', ' {', '": {"', '": ', '", "', '"}', '"}}', '}}', '}\n', '""', '": "', '>{', '>\n', '>\n<', '\n<', "</",
    '<parameter=', 'parameter', '">', "name", "get_", "<tool_call>", "\n</", "arg", "</arg_key>", "true", "ab", "  ",
]  # fmt: skip


@cache
def compiler(**limits: int) -> GrammarCompiler:
    """Bytes, an end token, and tokens that cross boundaries."""
    letters = string.printable[:68]
    pairs = [a + b for a in letters for b in letters]  # so many tokens that distances are bounds, as for real models
    tokens = [bytes([byte]) for byte in range(256)] + [None] + [piece.encode() for piece in (*PIECES, *pairs)]
    vocabulary = guided.Vocabulary(tokens, eos_token_ids=[END])
    return GrammarCompiler(vocabulary, limits=guided.Limits(**limits))


@lru_cache(2)
def _whole(tag: str) -> CompiledGrammar:
    return compiler().compile_grammar(structural_tag_to_grammar(json.loads(tag)))


def both(tag: dict[str, Any], **limits: int) -> tuple[CompiledGrammar, CompiledGrammar]:
    """A structural tag whose parts are compiled later, and the same tag compiled at once."""
    whole = _whole(json.dumps(tag))
    made = GrammarCompiler(compiler().vocabulary, limits=guided.Limits(**limits)).compile_structural_tag(tag)
    assert made.native.positions < whole.native.positions / 2, "the arguments are compiled already"
    return made, whole


def begin_of(style: guided.ToolStyle, name: str) -> str:
    section, begin = style.data.get("section", {}), style.data["call"]["begin"]
    first = begin if isinstance(begin, str) else begin[0]
    return str(
        section.get("begin", "") + section.get("open", "") + first.replace("{name}", name).replace("{index}", "0")
    )


def walk_alike(
    later: CompiledGrammar, whole: CompiledGrammar, text: str, source: random.Random, budget: int | None
) -> None:
    """Lead both matchers along a text and then at random. All their answers are equal."""
    one, other = guided.GrammarMatcher(later), guided.GrammarMatcher(whole)
    mask = guided.allocate_token_bitmask(2, later.vocabulary.size)
    data, forked = text.encode(), None
    for _ in range(60):
        said: list[int] = []
        for row, matcher in enumerate((one, other)):
            try:
                said.append(matcher.fill_next_token_bitmask(mask, row, max_tokens=budget))
            except guided.BudgetError as error:
                said.append(-error.needed)
        assert said[0] == said[1]
        if said[0] not in (False, True):
            return
        assert (mask[0] == mask[1]).all()
        assert one.min_tokens_to_finish() == other.min_tokens_to_finish()
        assert one.forced_tokens() == other.forced_tokens()
        allowed = guided.allowed_tokens(mask)
        leading = [id for id in allowed if id != END and data.startswith(later.vocabulary.token_bytes(id) or b"\0")]
        token = source.choice(leading or allowed)
        data = data[len(later.vocabulary.token_bytes(token) or b"") :] if leading else b""
        assert one.accept_token(token)
        assert other.accept_token(token)
        budget = None if budget is None else budget - 1
        if forked is None and source.random() < 0.1:
            forked = one.fork(), one.steps
        if token == END:
            break
    if forked is not None:
        fork, steps = forked
        one.rollback(one.steps - steps)
        one.fill_next_token_bitmask(mask, 0)
        fork.fill_next_token_bitmask(mask, 1)
        assert (mask[0] == mask[1]).all()


STYLES = ["qwen_3", "qwen_3_coder", "glm_4_7", "kimi", "minimax", "deepseek_v3_2", "harmony"]


@pytest.mark.parametrize(
    ("name", "choice"), every(3, [(name, choice) for choice in ("auto", "required") for name in STYLES], unpack=True)
)
def test_masks_and_budgets_are_the_same(name: str, choice: str) -> None:
    style, source, tools = guided.tool_style(name), random.Random(f"{name} {choice}"), tools_of(10, seed=3)
    tag = style.structural_tag(tools, tool_choice=choice)
    for budget in (None, 5000, 150):
        later, whole = both(tag)
        for _ in range(draws(6)):
            text = begin_of(style, source.choice(tools)["function"]["name"])
            lead = style.data.get("section", {}).get("lead", "") if choice == "required" else ""
            walk_alike(later, whole, lead + text, source, budget)


def test_tools_that_are_not_called_are_not_compiled() -> None:
    style, tools = guided.tool_style("qwen_3"), tools_of(20)
    later, whole = both(style.structural_tag(tools))
    before = later.native.positions
    mask = guided.allocate_token_bitmask(1, later.vocabulary.size)
    sizes = []
    for tool in tools[:3]:
        matcher = guided.GrammarMatcher(later)
        text = begin_of(style, tool["function"]["name"])
        assert matcher.accept_string(text)
        matcher.fill_next_token_bitmask(mask, max_tokens=5000)
        sizes.append(later.native.positions)
    assert before < sizes[0] < sizes[1] < sizes[2] < whole.native.positions / 2
    assert later.native.rebuilds == 3
    again = guided.GrammarMatcher(later)
    assert again.accept_string(begin_of(style, tools[0]["function"]["name"]) + "{")
    assert later.native.positions == sizes[2]


def test_matchers_on_many_threads() -> None:
    style, tools = guided.tool_style("qwen_3"), tools_of(12, seed=5)
    later, whole = both(style.structural_tag(tools))
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            source = random.Random(number)
            for _ in range(4):
                text = begin_of(style, source.choice(tools)["function"]["name"])
                walk_alike(later, whole, text, source, source.choice([None, 4000]))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_batches_enter_parts_on_the_pool_of_threads() -> None:
    style, tools = guided.tool_style("qwen_3"), tools_of(12, seed=6)
    later, whole = both(style.structural_tag(tools))
    rows: list[list[guided.GrammarMatcher]] = []
    for grammar in (later, whole):
        rows.append([guided.GrammarMatcher(grammar) for _ in tools])
        for matcher, tool in zip(rows[-1], tools, strict=True):
            assert matcher.accept_string(begin_of(style, tool["function"]["name"])[:-1])
    masks = [guided.allocate_token_bitmask(len(tools), later.vocabulary.size) for _ in rows]
    for matchers, mask in zip(rows, masks, strict=True):
        guided.fill_batch(matchers, mask, threads=4)
    assert (masks[0] == masks[1]).all()


def test_states_that_are_renewed_for_memory() -> None:
    style, tools, source = guided.tool_style("qwen_3"), tools_of(10, seed=7), random.Random(7)
    later, whole = both(style.structural_tag(tools), memory=60_000)
    for _ in range(10):
        walk_alike(later, whole, begin_of(style, source.choice(tools)["function"]["name"]), source, None)
    assert later.native.rebuilds > 12


def test_explanations_name_the_place_in_the_arguments() -> None:
    style, tools = guided.tool_style("qwen_3"), tools_of(10, seed=8)
    name = next(iter(tools[4]["function"]["parameters"]["properties"]))
    tools[4]["function"]["parameters"]["properties"] = {name: {"type": "integer"}}
    tools[4]["function"]["parameters"]["required"] = [name]
    said = []
    for grammar in both(style.structural_tag(tools)):
        matcher = guided.GrammarMatcher(grammar)
        assert matcher.accept_string(begin_of(style, tools[4]["function"]["name"]) + f'{{"{name}": ')
        told = matcher.explain("x")
        said.append((told.accepted, told.read, told.expected, told.completion, told.places))
    assert said[0] == said[1]
    assert told.places == (f"/format/tags/4/content/json_schema/properties/{name}",)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"type": "integer", "minimum": 5, "maximum": 1}, guided.SpecError),
        ({"type": "strin"}, guided.SpecError),
        ({"type": "string", "contentEncoding": 3, "pattern": "(a+)\\1"}, guided.UnsupportedError),
        ({"type": "string", "pattern": "("}, guided.SpecError),
        ({"type": "string", "minLength": 3, "maxLength": 2}, guided.SpecError),
        ({"$ref": "#/nowhere"}, guided.SpecError),
        ({"type": "string", "enum": []}, guided.SpecError),
        ({"type": "integer", "description": 3}, guided.SpecError),
    ],
)
def test_an_error_in_one_of_many_tools_is_reported_at_once(change: Any, error: type[guided.GuidedError]) -> None:
    tools = tools_of(12)
    parameters = tools[7]["function"]["parameters"]
    name = parameters["required"][0]
    parameters["properties"][name] = change
    try:
        guided.check_json_schema(parameters)
        compiler().compile_json_schema(parameters)
        own_error: type[guided.GuidedError] | None = None
    except guided.GuidedError as caught:
        own_error = type(caught)
    tag = guided.tool_style("qwen_3").structural_tag(tools)
    if own_error is None:  # the schema alone is valid
        compiler().compile_structural_tag(tag)
        return
    with pytest.raises(own_error) as raised:
        compiler().compile_structural_tag(tag)
    assert issubclass(own_error, error)
    assert isinstance(raised.value, guided.SpecError | guided.UnsupportedError)
    assert raised.value.pointer.startswith("/format/tags/7/content/json_schema")


def test_warnings_and_limits_are_reported_at_once() -> None:
    tools = tools_of(12)
    tools[3]["function"]["parameters"]["properties"]["when"] = {"type": "string", "formatt": "date"}
    with pytest.warns(guided.GuidedWarning, match="formatt"):
        compiler().compile_structural_tag(guided.tool_style("llama").structural_tag(tools))
    limited = GrammarCompiler(compiler().vocabulary, limits=guided.Limits(states=3000))
    with pytest.raises(guided.LimitExceeded):
        limited.compile_structural_tag(guided.tool_style("llama").structural_tag(tools_of(12)))


def test_an_error_while_a_part_is_compiled_leaves_the_matcher_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    from guided.automaton import build

    style, tools = guided.tool_style("qwen_3"), tools_of(10, seed=9)
    grammar = GrammarCompiler(compiler().vocabulary).compile_structural_tag(style.structural_tag(tools))
    matcher = guided.GrammarMatcher(grammar)
    assert matcher.accept_string(begin_of(style, tools[0]["function"]["name"])[:-1])
    real = build.GrammarBuilder.compile

    def fails(*arguments: Any, **options: Any) -> Any:
        raise MemoryError("none is left")

    monkeypatch.setattr(build.GrammarBuilder, "compile", fails)
    with pytest.raises(MemoryError):
        matcher.accept_string(" {")
    monkeypatch.setattr(build.GrammarBuilder, "compile", real)
    assert matcher.steps == 1
    assert matcher.accept_string(" {")


def test_compilers_are_freed() -> None:
    made = GrammarCompiler(compiler().vocabulary)
    grammar = made.compile_structural_tag(guided.tool_style("qwen_3").structural_tag(tools_of(10)))
    matcher = guided.GrammarMatcher(grammar)
    assert matcher.accept_string(begin_of(guided.tool_style("qwen_3"), tools_of(10)[0]["function"]["name"]))
    matcher.fill_next_token_bitmask(guided.allocate_token_bitmask(1, grammar.vocabulary.size))
    seen = weakref.ref(made)
    del made, grammar, matcher
    gc.collect()
    assert seen() is None


# --- schemas that are trivial to check

NAMES = st.text(st.sampled_from('ab "\\\n\u00e9\u20ac\U0001f600_'), min_size=0, max_size=3)
BOUNDS = st.integers(-30, 30)
SCALARS = st.one_of(
    st.just({"type": "string"}),
    st.builds(
        lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
        st.integers(0, 3),
        st.integers(0, 2),
    ),
    st.sampled_from(["date", "date-time", "time", "duration", "email", "uuid", "uri", "ipv4", "nothing"]).map(
        lambda name: {"type": "string", "format": name}
    ),
    st.lists(NAMES, min_size=1, max_size=3).map(lambda names: {"enum": names}),
    st.builds(lambda low, high: {"type": "integer", "minimum": low, "maximum": high}, BOUNDS, BOUNDS),
    st.builds(lambda low: {"type": "number", "minimum": low}, BOUNDS),
    st.builds(lambda high: {"type": "integer", "maximum": high}, BOUNDS),
    st.sampled_from(["boolean", "null", "integer", "number"]).map(lambda kind: {"type": kind, "description": "d"}),
    st.just({"type": ["string", "null"], "default": None}),
    st.just({}),
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(lambda item, low: {"type": "array", "items": item, "minItems": low}, inner, st.integers(0, 2)),
        st.builds(
            lambda properties, more, needed: {
                "type": "object", "properties": properties, "additionalProperties": more,
                "required": list(properties)[:needed],
            },
            st.dictionaries(NAMES, inner, max_size=3), st.booleans(), st.integers(0, 3),
        ),
        st.lists(inner, min_size=1, max_size=2).map(lambda branches: {"anyOf": branches}),
    ),
    max_leaves=5,
)  # fmt: skip


@given(
    SCHEMAS,
    st.sampled_from(
        [{}, {"whitespace": "single_space", "escapes": "minimal"}, {"property_order": "any", "numbers": "plain"}]
    ),
)
def test_a_known_schema_compiles_with_the_same_shortest_text(schema: Any, options: Any) -> None:
    least = shortest_text_bound(schema, JsonSchemaOptions(**options))
    if least is None:
        return
    grammar = byte_compiler().compile_json_schema(schema, **options)  # a warning is an error here
    matcher = guided.GrammarMatcher(grammar)
    assert 1 <= matcher.min_tokens_to_finish() - 1 <= least
    assert not matcher.is_accepting()


WRONG = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        -1,
        2,
        1.0,
        1.5,
        10**16,
        float("nan"),
        "",
        "a",
        "\ud800",
        [],
        ["a", "a"],
        [None],
        {},
        {"a": 1},
    ]
)
KEYWORDS = st.sampled_from(
    ["type", "enum", "format", "minLength", "maxLength", "minimum", "maximum", "items", "minItems", "maxItems", "title",
     "properties", "required", "additionalProperties", "anyOf", "description", "default", "$id", "not"]
)  # fmt: skip


def _subschemas(schema: Any) -> list[dict[str, Any]]:
    """All objects inside of a schema."""
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    own = [schema] if isinstance(schema, dict) else []
    return own + [found for value in inner for found in _subschemas(value)]


@given(SCHEMAS, KEYWORDS, WRONG, st.data())
def test_a_schema_with_an_arbitrary_keyword_is_recognised_only_if_it_compiles(
    schema: Any, keyword: str, value: Any, data: st.DataObject
) -> None:
    schema = copy.deepcopy(schema)
    data.draw(st.sampled_from(_subschemas(schema)))[keyword] = value
    is_recognised = shortest_text_bound(schema, DEFAULTS) is not None
    assert not is_recognised or not byte_compiler().compile_json_schema(schema).findings


def test_null_is_not_a_bound_and_not_a_type() -> None:
    bounds = {"string": "minLength maxLength", "integer": "minimum maximum", "array": "minItems maxItems"}
    for kind, names in bounds.items():
        for name in names.split():
            schema = {"type": kind, "items": {}, name: None} if kind == "array" else {"type": kind, name: None}
            assert shortest_text_bound(schema, DEFAULTS) is None, schema
    for schema in ({"type": None}, {"type": None, "enum": ["a"]}, {"type": None, "anyOf": [{"type": "string"}]}):
        assert shortest_text_bound(schema, DEFAULTS) is None, schema


def test_a_malformed_bound_is_an_error_of_the_compilation_even_with_many_tags() -> None:
    tools = tools_of(40)
    tools[17]["function"]["parameters"]["properties"]["bad"] = {"type": "integer", "minimum": None}
    with pytest.raises(guided.SpecError, match="minimum must be a number, not null"):
        compiler().compile_structural_tag(guided.tool_style("qwen_3").structural_tag(tools))


def test_most_tools_are_recognised_and_others_are_not() -> None:
    assert all(shortest_text_bound(tool["function"]["parameters"], DEFAULTS) for tool in tools_of(50))
    schema: Any
    for schema in (
        True, False, 3, None, {"type": "string", "pattern": "a"}, {"type": "object"}, {"type": "strin"}, {"enum": []},
        {"type": "object", "properties": {}, "required": ["a"]}, {"enum": ["a", "a"]}, {"enum": [1.5]}, {"not": {}},
        {"type": "integer", "minimum": 3, "maximum": 2}, {"type": "integer", "minimum": 1.5}, {"$ref": "#"},
        {"type": "integer", "minimum": True}, {"type": "string", "minLength": 2, "maxLength": 1}, {"type": []},
        {"type": "string", "title": 3}, {"type": "string", "default": {"a": object()}}, {"type": "string", "x": 1},
        {"type": ["string", "string"]}, {"type": "array"}, {"anyOf": []}, {"type": "string", "title": "\ud800"},
        {"type": "object", "properties": {"\udfff": {"type": "null"}}}, {"type": "array", "items": {"type": "x"}},
        {"enum": ["x" * 9000]}, {"type": "string", "enum": [3]}, {"type": "null", "minimum": 1},
    ):  # fmt: skip
        assert shortest_text_bound(schema, DEFAULTS) is None, schema
    deep: Any = {"type": "string"}
    for _ in range(30):
        deep = {"type": "array", "items": deep}
    assert shortest_text_bound(deep, DEFAULTS) is None
    for options in (JsonSchemaOptions(indent=2), JsonSchemaOptions(max_string=3), JsonSchemaOptions(strict=True)):
        assert shortest_text_bound({"type": "string"}, options) is None


def test_the_largest_known_schemas_are_within_the_limits() -> None:
    words = ["".join(random.Random(number).choices("abcdefghij", k=60)) for number in range(120)]
    schema: Any = {"type": "object", "properties": {word: {"type": "string", "format": "uri"} for word in words[:15]}}
    for known in ({"enum": words}, schema):
        assert shortest_text_bound(known, DEFAULTS) is not None
        grammar = byte_compiler().compile_json_schema(known)
        assert grammar.native.positions < guided.Limits().states / 4


def test_a_part_that_is_the_whole_or_has_no_tag_around_it() -> None:
    schema = tools_of(1)[0]["function"]["parameters"]
    forms = [{"type": "sequence", "elements": [{"type": "const_string", "value": str(n)}, {"type": "json_schema", "json_schema": schema}]} for n in range(10, 22)]  # noqa: E501  # fmt: skip
    later, whole = both(of_format({"type": "or", "elements": forms}))
    source = random.Random(2)
    for budget in (None, 300, 90):
        walk_alike(later, whole, "12" + json.dumps({}), source, budget)
