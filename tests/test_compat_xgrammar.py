"""`guided.compat.xgrammar`: the examples of xgrammar's README and documentation."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
from typing import Any

import numpy as np
import pytest

import guided
import guided.compat.xgrammar as xgr
from tests.growth import assert_linear
from tests.test_structural_tag_calls import STYLES
from tests.xgrammar_samples import CITY, PERSON, SAMPLES, Sample, grammar_of

torch = pytest.importorskip("torch")
pytest.importorskip("pydantic")

TOKENS = [bytes([byte]) for byte in range(256)] + [b"</s>", b"<|tool|>"]
STOP, TOOL = 256, 257
INFO = xgr.TokenizerInfo(TOKENS)
COMPILER = xgr.GrammarCompiler(INFO)
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}


def matcher_of(text: str, **options: Any) -> xgr.GrammarMatcher:
    return xgr.GrammarMatcher(COMPILER.compile_grammar(text), **options)


def allowed(matcher: xgr.GrammarMatcher) -> list[int]:
    bitmask = xgr.allocate_token_bitmask(1, INFO.vocab_size)
    matcher.fill_next_token_bitmask(bitmask)
    return guided.allowed_tokens(bitmask.numpy())


# --- specifications


@pytest.mark.filterwarnings("ignore:not enforced")
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.kind} {str(sample.specification)[:50]}")
def test_documented_grammars(sample: Sample) -> None:
    grammar = grammar_of(xgr, sample)
    for again in (grammar, xgr.Grammar.from_ebnf(str(grammar)), xgr.Grammar.deserialize_json(grammar.serialize_json())):
        for text in sample.accepted:
            assert xgr.testing._is_grammar_accept_string(again, text), text
        for text in sample.refused:
            assert not xgr.testing._is_grammar_accept_string(again, text), text


def test_grammars_are_joined() -> None:
    word, number = xgr.Grammar.from_regex("[a-z]+"), xgr.Grammar.from_ebnf("main ::= [0-9]+", root_rule_name="main")
    schema = xgr.Grammar.from_json_schema({"type": "boolean"})
    both = xgr.Grammar.concat(word, xgr.Grammar.union(number, schema))
    for grammar in (both, xgr.Grammar.from_ebnf(str(both))):
        for text, expected in (("ab12", True), ("abtrue", True), ("ab", False), ("12", False), ("ab12true", False)):
            assert xgr.testing._is_grammar_accept_string(grammar, text) == expected


@pytest.mark.parametrize("join", [xgr.Grammar.concat, xgr.Grammar.union])
@pytest.mark.parametrize("is_left", [False, True])
def test_grammars_that_are_joined_one_by_one(join: Any, is_left: bool) -> None:
    parts = [xgr.Grammar.from_regex(pattern) for pattern in ("a|b", "b?", "a*d", "b")]
    at_once = join(*parts)
    one_by_one = parts[0] if is_left else parts[-1]
    for part in parts[1:] if is_left else reversed(parts[:-1]):
        one_by_one = join(one_by_one, part) if is_left else join(part, one_by_one)
    assert str(one_by_one) == str(at_once)
    for size in range(4):
        for letters in itertools.product("abd", repeat=size):
            text = "".join(letters)
            pattern = "(a|b)b?a*db" if join is xgr.Grammar.concat else "a|b|b?|a*d|b"
            expected = re.fullmatch(pattern, text) is not None
            assert all(xgr.testing._is_grammar_accept_string(each, text) == expected for each in (at_once, one_by_one))


def test_joining_grammars_one_by_one_takes_linear_time() -> None:
    letter, compiler = xgr.Grammar.from_regex("a"), xgr.GrammarCompiler(INFO, cache_enabled=False)

    def compile_joined(size: int) -> None:
        grammar = letter
        for _ in range(size):
            grammar = xgr.Grammar.concat(grammar, letter)
        compiler.compile_grammar(grammar)

    assert_linear(compile_joined, 100)


def test_sequences_and_choices_alternate_to_a_bounded_depth() -> None:
    grammar = letter = xgr.Grammar.from_regex("a")
    for join in [xgr.Grammar.concat, xgr.Grammar.union] * 50:
        grammar = join(grammar, letter)
    assert xgr.testing._is_grammar_accept_string(grammar, "a" * 51)
    assert xgr.testing._is_grammar_accept_string(grammar, "a")
    assert not xgr.testing._is_grammar_accept_string(grammar, "a" * 52)
    with pytest.raises(RuntimeError, match="limit 'depth' exceeded: 201 > 200"):
        for join in [xgr.Grammar.concat, xgr.Grammar.union] * 60:
            grammar = join(grammar, letter)


def test_a_rule_that_is_named_like_a_macro_is_a_rule() -> None:
    grammar = xgr.Grammar.from_ebnf('root ::= Lark ("," Lark)*\nLark ::= "x"')
    assert xgr.testing._is_grammar_accept_string(grammar, "x,x")


def test_schemas_come_as_text_dict_or_model(capsys: pytest.CaptureFixture[str]) -> None:
    from pydantic import BaseModel

    class Person(BaseModel):
        name: str
        age: int

    for schema in (json.dumps(PERSON), PERSON, Person):
        grammar = xgr.Grammar.from_json_schema(schema, print_converted_ebnf=True)
        assert xgr.testing._is_grammar_accept_string(grammar, '{"name": "A", "age": 3}')
        assert capsys.readouterr().out == f"{grammar}\n"
    with pytest.raises(ValueError, match="string or a Pydantic model"):
        xgr.Grammar.from_json_schema(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(("make", "message"), [
    (lambda: xgr.Grammar.from_ebnf("root ::= a"), "EBNF parser error at line 1, column 10: .*not defined"),
    (lambda: xgr.Grammar.from_regex("(a"), "Regex parsing error at line 1"),
    (lambda: xgr.Grammar.from_json_schema({"type": "nothing"}), "JSON schema error"),
    (lambda: xgr.Grammar.from_json_schema(False.__str__().lower()), "no JSON value"),
    (lambda: xgr.Grammar.from_lark("start: missing"), "Lark error at line 1, column 8"),
    (lambda: xgr.Grammar.from_json_schema({}, max_whitespace_cnt=0), "positive integer"),
    (lambda: COMPILER.compile_grammar("root ::= Token(900)"), "900 is not a token id"),
    (lambda: xgr.GrammarCompiler(INFO, max_threads=0), "max_threads"),
    (lambda: xgr.TokenizerInfo(["a", "b"], vocab_size=1), "at least the number of tokens"),
])  # fmt: skip
def test_errors_are_runtime_errors(make: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        make()


@pytest.mark.parametrize(("schema", "value"), [
    ({"allOf": [{"prefixItems": [{"type": "null"}]}, {"items": {"type": "null"}, "type": "array"}]}, [None, None]),
    ({"type": "array", "prefixItems": [{}], "minItems": 2}, [1, 2]),
    ({"type": "object", "patternProperties": {"^a": {}}, "required": ["b"]}, {"b": 1}),
    ({"type": "object", "patternProperties": {"^a": {}}, "allOf": [{"properties": {"b": {}}}]}, {"b": 1}),
    ({"const": {"prefixItems": [], "x": 1}}, {"prefixItems": [], "x": 1}),
])  # fmt: skip
def test_objects_that_must_be_open_are_not_closed(schema: Any, value: Any) -> None:
    assert xgr.testing._is_grammar_accept_string(xgr.Grammar.from_json_schema(schema), json.dumps(value))


def test_nothing_is_ignored() -> None:
    assert isinstance(_raised(lambda: xgr.Grammar.from_json_schema({"$ref": "http://a.b/c"})), guided.SpecError)
    with pytest.warns(guided.GuidedWarning, match="unknown-format"):
        xgr.Grammar.from_json_schema({"type": "string", "format": "unknown-format"})
    for schema, text in (({"not": {"type": "string"}}, '"a"'), ({"type": "array", "uniqueItems": True}, "[1,1]")):
        assert not xgr.testing._is_grammar_accept_string(xgr.Grammar.from_json_schema(schema), text)


def _raised(make: Any) -> BaseException | None:
    with pytest.raises(RuntimeError) as caught:
        make()
    return caught.value.__cause__


# --- the loop


def test_the_loop_of_the_documents() -> None:
    batch = 3
    compiled = COMPILER.compile_json_schema({"enum": ["red", "green", "blue"]})
    matchers = [xgr.GrammarMatcher(compiled) for _ in range(batch)]
    bitmask = xgr.allocate_token_bitmask(batch, INFO.vocab_size)
    assert bitmask.dtype == xgr.bitmask_dtype and bitmask.shape == xgr.get_bitmask_shape(batch, INFO.vocab_size)
    filler = xgr.BatchGrammarMatcher(max_threads=2)
    texts = [b""] * batch
    generator = torch.Generator().manual_seed(0)
    while not all(matcher.is_terminated() for matcher in matchers):
        open_ones = [row for row in range(batch) if not matchers[row].is_terminated()]
        xgr.reset_token_bitmask(bitmask)
        filler.batch_fill_next_token_bitmask([matchers[row] for row in open_ones], bitmask, open_ones)
        logits = torch.randn(batch, INFO.vocab_size, generator=generator)
        xgr.apply_token_bitmask_inplace(logits, bitmask)
        tokens = logits.argmax(-1).tolist()
        chosen = [matchers[row] for row in open_ones]
        assert all(xgr.BatchGrammarMatcher.batch_accept_token(chosen, [tokens[row] for row in open_ones]))
        for row in open_ones:
            texts[row] += b"" if tokens[row] == STOP else TOKENS[tokens[row]]
    assert {json.loads(text) for text in texts} <= {"red", "green", "blue"}


def test_rollback_and_independent_copies() -> None:
    matcher = matcher_of('root ::= "ab" [0-9]{2}')
    assert matcher.find_jump_forward_string() == "ab"
    assert matcher.accept_string("a") and matcher.accept_token(ord("b")) and not matcher.accept_token(ord("x"))
    fork = matcher.fork()
    assert fork.accept_string("12") and fork.is_completed() and not matcher.is_completed()
    assert fork.accept_token(STOP) and fork.is_terminated()
    assert not fork.accept_token(STOP) and not fork.accept_string("")
    for call in (fork.find_jump_forward_string, lambda: allowed(fork)):
        with pytest.raises(RuntimeError, match="has terminated after accepting the stop token"):
            call()
    fork.rollback(1)
    assert allowed(fork) == [STOP]
    matcher.rollback(2)
    assert allowed(matcher) == [ord("a")]
    with pytest.raises(RuntimeError, match="only the last 0 steps"):
        matcher.rollback()
    fork.reset()
    assert allowed(fork) == [ord("a")] and fork.max_rollback_tokens == -1


def test_ends_of_an_output() -> None:
    assert matcher_of('root ::= "a"').stop_token_ids == [STOP]
    other = matcher_of('root ::= "a"', override_stop_tokens=TOOL)
    assert other.accept_token(ord("a")) and allowed(other) == [TOOL] and other.stop_token_ids == [TOOL]
    assert not other.accept_token(STOP) and other.accept_token(TOOL) and other.is_terminated()
    without = matcher_of('root ::= "a" "b"?', terminate_without_stop_token=True)
    assert without.accept_token(ord("a")) and without.is_terminated() and not without.accept_token(STOP)
    assert without.accept_token(ord("b")) and without.is_terminated()
    with pytest.raises(RuntimeError, match="stop token 900"):
        matcher_of('root ::= "a"', override_stop_tokens=[900])
    with pytest.warns(DeprecationWarning, match="max_rollback_tokens"):
        matcher_of('root ::= "a"', max_rollback_tokens=5)


def test_tokens_are_named_by_their_text() -> None:
    for text in (
        "root ::= Token(257) [a-z]",
        "root ::= TokenTagDispatch((257, body), loop_after_dispatch=false)\nbody ::= [a-z]",
    ):
        matcher = matcher_of(text)
        assert TOOL in allowed(matcher) and matcher.accept_token(TOOL) and matcher.accept_string("x")
    tag = {
        "type": "sequence",
        "elements": [{"type": "token", "token": "<|tool|>"}, {"type": "regex", "pattern": "[a-z]"}],
    }
    matcher = xgr.GrammarMatcher(COMPILER.compile_structural_tag({"type": "structural_tag", "format": tag}))
    assert allowed(matcher) == [TOOL]
    assert matcher_of('root ::= "<|tool|>"').accept_token(TOOL)
    tag["elements"][0]["token"] = "<|none|>"  # type: ignore[index]
    with pytest.raises(RuntimeError, match="no token of the vocabulary is spelled"):
        COMPILER.compile_structural_tag({"type": "structural_tag", "format": tag})


def test_a_vocabulary_that_cannot_spell_everything() -> None:
    info = xgr.TokenizerInfo(["a", "ab", "</s>", ""], vocab_size=40)
    assert info.special_token_ids == [3, *range(4, 40)]
    matcher = xgr.GrammarMatcher(xgr.GrammarCompiler(info).compile_grammar('root ::= "ab" [a-z]'))
    bitmask = xgr.allocate_token_bitmask(2, 40)
    assert matcher.fill_next_token_bitmask(bitmask, 1)
    assert xgr.testing._get_masked_tokens_from_bitmask(bitmask, 40, 1) == list(range(2, 40))
    assert not matcher.accept_token(40) and matcher.accept_token(1) and matcher.accept_string("z")
    everything = xgr.GrammarMatcher(xgr.GrammarCompiler(info).compile_grammar("root ::= [^]*"))
    xgr.BatchGrammarMatcher().batch_fill_next_token_bitmask([everything, matcher], bitmask)
    assert guided.allowed_tokens(bitmask.numpy(), 0) == [0, 1, 2] and guided.allowed_tokens(bitmask.numpy(), 1) == [2]


@pytest.mark.parametrize("bitmask", [
    np.zeros((1, 8), np.int32), np.zeros((1, 9), np.int64), np.zeros((9, 2), np.int32).T, "mask",
], ids=["narrow", "int64", "strides", "text"])  # fmt: skip
def test_bitmasks_that_do_not_fit(bitmask: Any) -> None:
    with pytest.raises(RuntimeError, match="token_bitmask"):
        matcher_of('root ::= "a"').fill_next_token_bitmask(bitmask)


def test_masks_of_the_logits() -> None:
    bitmask = torch.tensor([[0b1010]], dtype=torch.int32)
    logits = torch.zeros(1, 40)
    with pytest.warns(UserWarning, match="covers only 32 tokens but logits have 40"):
        xgr.apply_token_bitmask_inplace(logits, bitmask)
    assert torch.isinf(logits[0]).nonzero().flatten().tolist() == [0, 2, *range(4, 32)]
    logits = torch.zeros(2, 32)
    xgr.apply_token_bitmask_inplace(logits, bitmask.repeat(2, 1), vocab_size=4, indices=[1], backend="cpu")
    assert not torch.isinf(logits[0]).any() and torch.isinf(logits[1]).nonzero().flatten().tolist() == [0, 2]
    with pytest.raises(ValueError, match="Unknown backend"):
        xgr.apply_token_bitmask_inplace(logits, bitmask, backend="abacus")  # type: ignore[arg-type]


# --- requirements of a grammar


def test_captures_and_temperatures() -> None:
    matcher = matcher_of(
        'root ::= item ("," item)*\nitem[capture="number", temperature=0.5] ::= [0-9]+', default_temperature=1
    )
    assert matcher.temperature == 0.5
    assert matcher.accept_string("1,22,") and matcher.get_captures() == [("number", b"1"), ("number", b"22")]
    assert matcher.accept_token(ord("3")) and matcher.get_captures()[-1] == ("number", b"3")
    matcher.rollback(2)
    assert matcher.get_captures() == []
    plain = matcher_of('root ::= "a"')
    assert plain.temperature is None and plain.get_captures() == []
    heat = torch.zeros(3)
    xgr.BatchGrammarMatcher.batch_fill_temperature([matcher, plain], heat, [2, 0])
    assert heat.tolist() == [-1.0, 0.0, 0.5]
    with pytest.raises(RuntimeError, match="finite non-negative"):
        matcher_of('root ::= "a"', default_temperature=-1)


@pytest.mark.parametrize(("attributes", "text", "captures"), [
    ('capture="inner", suffix="!"', "xy!z", [("inner", b"xy"), ("outer", b"xy!z")]),
    ('capture="inner", stop="!"', "xy!z", [("inner", b"xy"), ("outer", b"xyz")]),
    ('capture="inner", suffix=/!!+/, stop_capture="marker"', "xy!!z",
     [("inner", b"xy"), ("marker", b"!!"), ("outer", b"xy!!z")]),
])  # fmt: skip
def test_ends_of_rules_in_lark(attributes: str, text: str, captures: list[tuple[str, bytes]]) -> None:
    source = f'start[capture="outer"]: field "z"\nfield[{attributes}]: /[a-z]*/'
    matcher = xgr.GrammarMatcher(COMPILER.compile_lark(source))
    assert matcher.accept_string(text) and matcher.is_completed()
    assert sorted(matcher.get_captures()) == captures


@pytest.mark.parametrize("text", [
    'root ::= "<" body ">"\nbody[max_tokens=2] ::= [a-z]*',
    {"type": "tag", "begin": "<", "content": {"type": "any_text", "max_tokens": 2}, "end": ">"},
], ids=["ebnf", "structural tag"])  # fmt: skip
def test_tokens_are_counted(text: Any) -> None:
    if isinstance(text, dict):
        matcher = xgr.GrammarMatcher(COMPILER.compile_structural_tag({"type": "structural_tag", "format": text}))
    else:
        matcher = matcher_of(text)
    assert matcher.accept_token(ord("<")) and ord("a") in allowed(matcher)
    assert matcher.accept_string("ab") and ord("a") in allowed(matcher)  # a string counts as one token
    assert matcher.accept_token(ord("c")) and allowed(matcher) == [ord(">")]
    matcher.rollback(2)
    assert matcher.accept_token(ord("x")) and ord("y") in allowed(matcher)
    matcher.reset()
    assert ord("<") in allowed(matcher) and ord("a") not in allowed(matcher)


# --- caches


def test_compiled_grammars_are_cached() -> None:
    compiler = xgr.GrammarCompiler(INFO)
    one = compiler.compile_regex("[a-z]{3}")
    assert compiler.compile_regex("[a-z]{3}") == one and compiler.compile_regex("[a-z]{4}") != one
    assert compiler.get_cache_size_bytes() >= 2 * one.memory_size_bytes > 0 and compiler.cache_limit_bytes == -1
    compiler.clear_cache()
    assert compiler.get_cache_size_bytes() == 0 and compiler.compile_regex("[a-z]{3}") != one
    small = xgr.GrammarCompiler(INFO, cache_limit_bytes=one.memory_size_bytes * 3 // 2)
    kept = [small.compile_regex(f"[a-z]{{{n}}}") for n in (3, 4)]
    assert small.compile_regex("[a-z]{4}") == kept[1] and small.compile_regex("[a-z]{3}") != kept[0]
    off = xgr.GrammarCompiler(INFO, cache_enabled=False)
    assert off.compile_regex("a") != off.compile_regex("a")

    async def both() -> list[xgr.CompiledGrammar]:
        return await asyncio.gather(*(asyncio.to_thread(compiler.compile_regex, text) for text in ("a+", "b+")))

    assert [str(each.grammar) for each in asyncio.run(both())] == ['root ::= Regex("a+")\n', 'root ::= Regex("b+")\n']


def test_stored_grammars_are_read_back() -> None:
    compiled = COMPILER.compile_json_schema(PERSON)
    info = xgr.TokenizerInfo.deserialize_json(INFO.serialize_json())
    again = xgr.CompiledGrammar.deserialize_json(compiled.serialize_json(), info)
    assert again.tokenizer_info == info and xgr.GrammarMatcher(again).accept_string('{"name": "A", "age": 3}')
    assert info.dump_metadata() == INFO.dump_metadata()
    assert xgr.TokenizerInfo.from_vocab_and_metadata(TOKENS, INFO.dump_metadata()).stop_token_ids == [STOP]
    for text, error in (
        ("no JSON", xgr.InvalidJSONError),
        ("{}", xgr.DeserializeFormatError),
        ('{"__VERSION__": "v16", "rules": []}', xgr.DeserializeVersionError),
        (f'{{"__VERSION__": "{xgr.get_serialization_version()}"}}', xgr.DeserializeFormatError),
    ):
        with pytest.raises(error):
            xgr.Grammar.deserialize_json(text)
    with pytest.raises(xgr.DeserializeFormatError, match="another tokenizer"):
        xgr.CompiledGrammar.deserialize_json(compiled.serialize_json(), xgr.TokenizerInfo(["a"]))


def test_the_depth_of_recursion_is_kept() -> None:
    before = xgr.get_max_recursion_depth()
    with xgr.max_recursion_depth(1000):
        assert xgr.get_max_recursion_depth() == 1000
    assert xgr.get_max_recursion_depth() == before
    with pytest.raises(RuntimeError, match="1 to 1000000"):
        xgr.set_max_recursion_depth(0)


# --- tools


@pytest.mark.parametrize("model", STYLES)
def test_every_model_has_a_structural_tag(model: str) -> None:
    tag = xgr.get_model_structural_tag(model, tools=[WEATHER], tool_choice="required", reasoning="disabled")
    assert isinstance(tag, xgr.StructuralTag)
    name = f"get_{model}_structural_tag"
    function = xgr.builtin_structural_tag.FunctionToolParam(**WEATHER)
    assert getattr(xgr.builtin_structural_tag, name)([function], tool_choice="required", reasoning="disabled") == tag
    xgr.GrammarMatcher(COMPILER.compile_structural_tag(tag))


def test_tools_and_choices() -> None:
    tag = xgr.get_model_structural_tag("qwen_3", tools=[WEATHER], tool_choice="required", reasoning=False)
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    grammar = xgr.Grammar.from_structural_tag(tag)
    assert xgr.testing._is_grammar_accept_string(grammar, call)
    assert not xgr.testing._is_grammar_accept_string(grammar, "It is sunny.")
    search = {"type": "web_search", "name": "browser.search", "parameters": CITY}
    hosted = xgr.get_model_structural_tag("harmony", tools=[WEATHER, search], tool_choice={"type": "web_search"})
    assert xgr.testing._is_grammar_accept_string(
        xgr.Grammar.from_structural_tag(hosted),
        '<|channel|>commentary to=browser.search code<|message|>{"city": "Oslo"}<|call|>',
    )
    with pytest.warns(UserWarning, match="cannot call hosted tools"):
        xgr.get_model_structural_tag("llama", tools=[WEATHER, search])
    for arguments, message in (
        ({"model": "abacus"}, "Unknown format type"),
        ({"model": "llama", "tool_choice": "required"}, "'required'"),
        ({"model": "llama", "tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "'x'"),
        ({"model": "llama", "reasoning": "often"}, "'reasoning'"),
    ):
        with pytest.raises(ValueError, match=message):
            xgr.get_model_structural_tag(**arguments)


def test_old_structural_tags_and_own_models() -> None:
    item = xgr.StructuralTagItem(begin="<f=x>", schema=CITY, end="</f>")
    for grammar in (
        xgr.Grammar.from_structural_tag([item], ["<f="]),
        xgr.Grammar.from_structural_tag(xgr.StructuralTag.from_legacy_structural_tag([item], ["<f="])),
    ):
        assert xgr.testing._is_grammar_accept_string(grammar, 'a<f=x>{"city": "Oslo"}</f>b')

    @xgr.register_model_structural_tag("own")
    def own(tools: Any, builtin_tools: Any, tool_choice: Any, reasoning: Any, **kwargs: Any) -> xgr.StructuralTag:
        return xgr.StructuralTag(format=xgr.structural_tag.ConstStringFormat(value=tools[0].function.name))

    assert xgr.get_model_structural_tag("own", tools=[WEATHER]).format.value == "get_weather"
    with pytest.raises(xgr.InvalidJSONError):
        xgr.Grammar.from_structural_tag("{")
    with pytest.raises(xgr.InvalidStructuralTagError, match="/format"):
        xgr.Grammar.from_structural_tag({"type": "structural_tag", "format": {"type": "nothing"}})
    with pytest.raises(TypeError):
        xgr.Grammar.from_structural_tag(3)


# --- transformers


def test_generate_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    from tests.transformers_support import small_model, small_tokenizer

    tokenizer = small_tokenizer()
    model = small_model(tokenizer)
    info = xgr.TokenizerInfo.from_huggingface(tokenizer, vocab_size=model.config.vocab_size)
    assert info.vocab_type is xgr.VocabType.BYTE_LEVEL and info.stop_token_ids == [tokenizer.eos_token_id]
    compiled = xgr.GrammarCompiler(info).compile_json_schema({"enum": ["red", "green"]})
    inputs = tokenizer(["A", "B"], return_tensors="pt")
    processors = transformers.LogitsProcessorList([xgr.contrib.hf.LogitsProcessor(compiled)])
    output = model.generate(**inputs, max_new_tokens=20, logits_processor=processors, do_sample=True)
    for text in tokenizer.batch_decode(output[:, inputs.input_ids.shape[1] :], skip_special_tokens=True):
        assert json.loads(text) in ("red", "green")
    for number in (1, 40):
        options = {
            "max_new_tokens": 60,
            "min_new_tokens": number,
            "logits_processor": [xgr.contrib.hf.LogitsProcessor(compiled)],
        }
        if number == 1:
            assert len(model.generate(**inputs, **options)) == 2
        else:
            with pytest.raises(
                RuntimeError, match=r"every token that the grammar allows in row \d is forbidden by another"
            ):
                model.generate(**inputs, **options)
    with pytest.raises(ValueError, match="get_vocab"):
        xgr.TokenizerInfo.from_huggingface(object())


@pytest.mark.parametrize(("name", "package"), [("StructuralTag", "pydantic"), ("bitmask_dtype", "torch")])
def test_the_error_of_a_missing_package_names_its_extra(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [one for one in sys.modules if one.startswith("guided.compat.xgrammar.structural_tag")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"needs the package {package}: .*guided-decoding\[xgrammar\]"):
        getattr(xgr, name)
