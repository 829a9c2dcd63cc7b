"""`Engine` with a small random model and the real core: prompts, constraints, options and refusals."""

from __future__ import annotations

import copy
import enum
import json
import pickle
import re
import threading
from dataclasses import replace
from typing import Literal

import jsonschema
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.chat import ChatTemplate
from guided.engine.engine import Engine
from guided.engine.loading import _resolve_dtype
from guided.engine.request import Request
from guided.errors import BudgetError, GuidedError, GuidedWarning, SpecError, UnsupportedError
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import compile_constraint
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.vocabulary.vocabulary import Vocabulary
from tests.effort import examples

torch.set_num_threads(1)
CHARACTERS = [bytes([b]) for b in range(256)]
WORDS = [b'{"', b'":', b' "', b'",', b"name", b"age", b"true", b", ", b"ab", "é".encode()]
SPECIAL = {266: "<|im_start|>", 267: "<|im_end|>"}
VOCABULARY = Vocabulary([*CHARACTERS, *WORDS], eos_token_ids=[267], special_tokens=SPECIAL)
CONFIG = LlamaConfig(layers=1, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=272, context=160)
ENGINE = Engine(Llama.random(CONFIG, seed=7), VOCABULARY, chat=ChatTemplate(VOCABULARY))


class Color(enum.Enum):
    """A type with one value."""

    RED = "red"


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@examples(25)
@given(st.integers(0, 1000), st.sampled_from([0.0, 1.0, 3.0]), st.integers(0, 30))
def test_json_is_valid_and_within_the_budget(seed, temperature, slack):
    least = len('{"name": "", "age": 0}')
    result = ENGINE.generate("x", SCHEMA, max_tokens=least + slack, temperature=temperature, seed=seed)
    jsonschema.validate(result.value, SCHEMA)
    assert json.loads(result.text) == result.value
    assert result.finish_reason == "stop"
    assert len(result.tokens) < least + slack
    assert VOCABULARY.decode(result.tokens).decode() == result.text


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_each_kind_of_constraint(temperature):
    options = {"temperature": temperature, "seed": 5, "max_tokens": 20}
    assert re.fullmatch("[A-F]{3,5}", ENGINE.generate("x", "[A-F]{3,5}", **options).text)
    choice = ENGINE.generate("x", ["yes", "no"], **options)
    assert choice.text in ("yes", "no")
    assert choice.value == choice.text
    assert ENGINE.generate("x", Literal["ja", "nein"], **options).value in ("ja", "nein")
    assert type(ENGINE.generate("x", {"type": "boolean"}, **options).value) is bool
    assert type(ENGINE.generate("x", bool, **options).value) is bool
    compiled = ENGINE.compiler.compile_json_schema({"enum": [[1, "a"], None]})
    assert ENGINE.generate("x", compiled, **options).value in ([1, "a"], None)
    assert ENGINE.generate("x", ENGINE.compiler.compile_regex("abc"), **options).text == "abc"
    assert ENGINE.generate("x", **options).finish_reason in ("stop", "length")


def test_json_options_are_keyword_arguments():
    """The fields of `JsonSchemaOptions`, in every method that generates."""
    point = {"type": "object", "properties": {"x": {"enum": [1]}, "y": {"enum": [2]}}, "required": ["x", "y"]}
    options = {"additional_properties": False, "separators": (",", ":"), "max_tokens": 20}
    assert ENGINE.generate("x", point, additional_properties=False, max_tokens=20).text == '{"x": 1, "y": 2}'
    assert ENGINE.generate("x", point, **options).text == '{"x":1,"y":2}'
    assert [result.text for result in ENGINE.generate_batch(["x", "y"], point, **options)] == ['{"x":1,"y":2}'] * 2
    assert [*ENGINE.stream("x", point, **options)][-1].result.text == '{"x":1,"y":2}'
    broken = ENGINE.generate("x", point, additional_properties=False, indent=0, max_tokens=20).text
    assert broken == '{\n"x": 1,\n"y": 2\n}'
    assert len(ENGINE.generate("x", str, max_string=3, max_tokens=60, temperature=3.0, seed=1).value) <= 3


def test_unenforced_keywords_are_errors_on_request():
    typo = {"type": "object", "requierd": ["a"]}
    with pytest.warns(GuidedWarning, match="at /requierd"):
        ENGINE.generate("x", typo, max_tokens=20)
    with pytest.raises(UnsupportedError, match="at /requierd"):
        ENGINE.generate("x", typo, max_tokens=20, strict=True)
    with pytest.raises(UnsupportedError, match="'url' is not known"):
        ENGINE.generate("x", {"type": "string", "format": "url"}, max_tokens=20, unknown_format="refuse")
    free = ENGINE.generate("x", {"type": "string", "format": "url"}, max_tokens=20, unknown_format="ignore")
    assert isinstance(free.value, str)


@pytest.mark.parametrize(
    ("constraint", "why"),
    [
        (None, "there is no constraint"),
        (ENGINE.compiler.compile_regex("a"), "already compiled"),
        (["a", "b"], "literally"),
        ("[ab]", "a regular expression"),
        (guided.sequence("a", guided.regex("b")), "guided.json_schema"),
    ],
)
def test_options_without_effect_are_refused(constraint, why):
    with pytest.raises(GuidedError, match=f"the option strict has no effect here: .*{why}"):
        ENGINE.generate("x", constraint, strict=True)


@pytest.mark.parametrize(
    ("constraint", "hint"),
    [
        ({"type": "structural_tag", "format": {"type": "any_text"}}, r"guided\.structural_tag\(tag\)"),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}, r"guided\.from_response_format"),
        ({"type": "json_object"}, r"guided\.from_response_format"),
    ],
)
def test_names_of_other_libraries_are_refused_with_a_hint(constraint, hint):
    with pytest.raises(GuidedError, match=hint):
        ENGINE.generate("x", constraint, max_tokens=5)


def test_an_option_that_no_constraint_has():
    with pytest.raises(GuidedError, match=r"'whitespac' is not an option of a constraint: did you mean 'whitespace'\?"):
        compile_constraint(ENGINE.compiler, {"type": "array"}, {"whitespac": "compact"})
    with pytest.raises(GuidedError, match=r"'canonical' is not an option of a constraint$"):
        compile_constraint(ENGINE.compiler, "[ab]", {"canonical": True})


def test_a_pydantic_model_is_returned():
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Point", x=(Literal[1, 2], ...), y=(bool, ...))
    value = ENGINE.generate("x", model, max_tokens=60).value
    assert isinstance(value, model)
    assert value.x in (1, 2)


def test_streamed_equals_generated():
    options = {"temperature": 1.0, "seed": 3, "max_tokens": 60}
    events = list(ENGINE.stream("x", SCHEMA, **options))
    result = ENGINE.generate("x", SCHEMA, **options)
    assert events[-1].result.tokens == result.tokens
    assert "".join(e.text for e in events) == result.text


def test_samples():
    results = ENGINE.generate("x", SCHEMA, n=4, temperature=1.5, seed=20, max_tokens=60)
    assert [r.seed for r in results] == [20, 21, 22, 23]
    assert len({r.text for r in results}) > 1
    again = ENGINE.generate("x", SCHEMA, temperature=1.5, seed=22, max_tokens=60)
    assert again.tokens == results[2].tokens


def test_a_new_seed_is_reported():
    first = ENGINE.generate("x", temperature=2.0, max_tokens=20)
    assert ENGINE.generate("x", temperature=2.0, max_tokens=20, seed=first.seed).tokens == first.tokens
    assert ENGINE.generate("x", temperature=2.0, max_tokens=20).seed != first.seed


def test_prompts_as_text_as_messages_and_as_ids():
    """A text is a message if the model has a chat template. Otherwise, or with raw=True, the model continues it."""
    ids = ENGINE.encode_prompt("ab<|im_start|>", raw=True)
    assert 266 not in ids
    assert VOCABULARY.decode(ids) == b"ab<|im_start|>"
    assert ENGINE.encode_prompt([266, 5]) == [266, 5]
    messages = [{"role": "user", "content": "hi"}]
    assert VOCABULARY.decode(ENGINE.encode_prompt(messages)) == b"user\nhi\nassistant\n"
    assert ENGINE.encode_prompt("hi") == ENGINE.encode_prompt(messages)
    plain = Engine(ENGINE.model, VOCABULARY, bos=[266])
    assert plain.encode_prompt("a") == plain.encode_prompt("a", raw=True) == [266, 97]
    assert ENGINE.generate(messages, ["a"]).prompt_tokens == len(ENGINE.encode_prompt(messages))
    for prompt, raw in (("hi", False), ("hi", True), (messages, False)):
        count = len(ENGINE.encode_prompt(prompt, raw=raw))
        assert ENGINE.generate(prompt, ["a"], raw=raw).prompt_tokens == count
        assert [*ENGINE.stream(prompt, ["a"], raw=raw)][-1].result.prompt_tokens == count
        assert ENGINE.generate_batch([prompt], ["a"], raw=raw)[0].prompt_tokens == count
        ((_, answer),) = ENGINE.generate_each([Request(prompt, ["a"], options={"raw": raw})])
        assert answer[0].prompt_tokens == count


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [
        ("max_new_tokens", "did you mean 'max_tokens'?"),
        ("temprature", "did you mean 'temperature'?"),
        ("stop_sequences", "did you mean 'stop'?"),
        *(
            (name, "the constraint is the second argument")
            for name in ("schema", "regex", "response_format", "grammar")
        ),
        *((name, "the constraint is the second argument") for name in ("json_schema", "guided_json", "choices")),
        ("messages", "messages are the first argument"),
    ],
)
def test_keywords_of_other_libraries_are_refused_with_the_name_to_use(keyword, hint):
    calls = [ENGINE.generate, ENGINE.stream, lambda _, **k: ENGINE.generate_batch(["a"], **k)]
    calls += [
        lambda prompt, **k: Request(prompt, options=k),
        lambda prompt, **k: ENGINE.stream_samples(prompt, n=1, **k),
    ]
    for call in calls:
        with pytest.raises(
            TypeError, match=rf"\(\) has no option '{keyword}': {re.escape(hint)}.* The options are .*seed"
        ):
            call("a", **{keyword: 5})
    with pytest.raises(TypeError, match=r"from_pretrained\(\) has no option 'divice': did you mean 'device'"):
        Engine.from_pretrained("smollm2-135m-instruct", divice="cpu")


def test_the_end_costs_no_token():
    assert ENGINE.generate("a", "abc", max_tokens=2).text == "abc"  # "ab" is a token
    assert ENGINE.generate("a", ["a", "b"], max_tokens=1).finish_reason == "stop"


def test_the_context_bounds_the_budget():
    prompt = [97] * 150
    assert len(ENGINE.generate(prompt, "a*", max_tokens=100).tokens) <= 9
    assert ENGINE.generate(prompt, "b{8}", max_tokens=100).text == "b" * 8
    assert len(ENGINE.generate(prompt, max_tokens=100).tokens) <= 10
    for asked in (5, 100):  # a larger budget would not help
        with pytest.raises(BudgetError, match="the model's context leaves 10 after the prompt") as caught:
            ENGINE.generate(prompt, "(?:bc){10}", max_tokens=asked)
        assert (caught.value.needed, caught.value.given, caught.value.requested) == (20, 10, asked)
    with pytest.raises(BudgetError, match="the budget is 5") as caught:
        ENGINE.generate(prompt, "b{8}", max_tokens=5)
    assert caught.value.requested is None
    with pytest.deprecated_call(match="requested"):  # the old name
        assert caught.value.asked is None


@pytest.mark.parametrize(
    ("prompt", "constraint", "options", "error", "message"),
    [
        ("", None, {}, GuidedError, "the prompt is empty, .* write a message"),
        ("", None, {"raw": True}, GuidedError, "the prompt is empty"),
        (b"ab", None, {}, TypeError, "not bytes: decode the bytes"),
        (7, None, {}, TypeError, "messages or token ids, not 7"),
        (
            {"role": "user", "content": "a"},
            None,
            {},
            TypeError,
            r"not \{'role'.*: put a single message into a list",
        ),
        ([{"role": "user", "content": "a"}], None, {"raw": True}, GuidedError, "raw=True continues a string"),
        ("a", None, {"raw": 1}, ValueError, "raw is 1"),
        ([], None, {}, GuidedError, "the list of messages is empty"),
        ([97, 272], None, {}, GuidedError, "contains the id 272"),
        ([-1], None, {}, GuidedError, "contains the id -1"),
        ([97] * 160, None, {}, GuidedError, "the prompt has 160 tokens, but the model's context holds 160 including"),
        ([{"role": "user"}], None, {}, GuidedError, "message 0 is not of the form"),
        ([97, {"role": "user", "content": "a"}], None, {}, GuidedError, "message 0 is not of the form"),
        (["a", "b"], None, {}, GuidedError, "not a list of strings such as"),
        ("a", "(b", {}, SpecError, None),
        ("a", '{"type": "object"}', {}, SpecError, "hint: pass json.loads"),
        ("a", ["x", 1], {}, SpecError, "a list is a choice of strings"),
        ("a", [], {}, SpecError, None),
        ("a", {"type": "strin"}, {}, SpecError, None),
        ("a", r"(a+)\1", {}, UnsupportedError, None),
        ("a", object(), {}, GuidedError, None),
        ("a", "abc", {"max_tokens": 1}, BudgetError, "completion has 2 tokens, but the budget is 1"),
        ("a", None, {"max_tokens": 0}, ValueError, "max_tokens is 0"),
        ("a", None, {"max_tokens": True}, ValueError, "max_tokens is True"),
        ("a", None, {"n": 0}, ValueError, "n is 0"),
        ("a", None, {"temperature": -1.0}, ValueError, "temperature is -1"),
        ("a", None, {"seed": -1}, ValueError, "seed is -1"),
    ],
)
def test_refusals_come_before_anything_runs(monkeypatch, prompt, constraint, options, error, message):
    monkeypatch.setattr("guided.engine.runner.ModelRunner.step", lambda *_: pytest.fail("ran the model"))
    with pytest.raises(error, match=message):
        ENGINE.generate(prompt, constraint, **options)
    if "n" not in options:
        with pytest.raises(error, match=message):
            ENGINE.stream(prompt, constraint, **options)


def test_a_grammar_of_another_vocabulary_is_refused():
    other = GrammarCompiler(Vocabulary([b"a", b"b"], eos_token_ids=[2]))
    with pytest.raises(GuidedError, match="compiled for another vocabulary"):
        ENGINE.generate("x", other.compile_regex("a"))
    twin = GrammarCompiler(Vocabulary([*CHARACTERS, *WORDS], eos_token_ids=[267], special_tokens=SPECIAL))
    assert ENGINE.generate("x", twin.compile_regex("a")).text == "a"


def test_models_without_a_template_take_no_messages_and_too_many_tokens_are_refused():
    with pytest.raises(GuidedError, match="this model has no chat template"):
        Engine(ENGINE.model, VOCABULARY).generate([{"role": "user", "content": "a"}])
    with pytest.raises(GuidedError, match="300 tokens, but the model has only 272 logits"):
        Engine(ENGINE.model, Vocabulary([b"a"], eos_token_ids=[299]))


def test_a_value_that_python_cannot_read_does_not_cost_the_output():
    result = ENGINE.generate("x", ENGINE.compiler.compile_json_schema({"type": "integer"}), max_tokens=20)
    assert result.value == json.loads(result.text)
    result = replace(result, text="1" * 5000)
    with pytest.raises(ValueError, match="digits"):
        result.value  # noqa: B018


@pytest.mark.parametrize(
    ("constraint", "value"),
    [
        (None, None),
        ("1", "1"),
        (["1"], "1"),
        ({"const": 1}, 1),
        (Literal[1], 1),
        (guided.json_schema({"const": [1]}), [1]),
        (guided.python_type(tuple[Literal[1], Literal[2]]), (1, 2)),
        (guided.json_schema(Color), Color.RED),
        (guided.sequence(guided.choice(guided.python_type(Color))), Color.RED),
        (guided.regex("1"), "1"),
        (guided.json_schema({"const": 1}) + "", "1"),
        (guided.json_schema({"const": 1}) + guided.text("!"), "1!"),
        (guided.rules(guided.rule("x"), x=guided.json_schema({"const": 1})), "1"),
    ],
)
def test_values_are_json_values_or_typed_values_or_texts(constraint, value):
    """The value comes from the constraint itself, from its compiled form, and from a composition that consists of it
    alone.
    """
    options = {"max_tokens": 20, "seed": 1}
    assert ENGINE.generate("x", constraint, **options).value == value
    if isinstance(constraint, guided.Expr):
        assert ENGINE.generate("x", ENGINE.compiler.compile(constraint, numbers="plain"), **options).value == value


def test_threads_do_not_disturb_each_other():
    def run(i: int) -> list[int]:
        return ENGINE.generate("x", SCHEMA, temperature=1.0, seed=i, max_tokens=60).tokens

    alone = [run(i) for i in range(4)]
    together: dict[int, list[int]] = {}
    threads = [threading.Thread(target=lambda i=i: together.update({i: run(i)})) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[i] for i in range(4)] == alone


def test_dtypes():
    given = ("auto", "float32", "bfloat16", torch.bfloat16)
    assert [_resolve_dtype(dtype) for dtype in given] == [None, torch.float32, torch.bfloat16, torch.bfloat16]
    with pytest.raises(ValueError, match="dtype is 'float16'"):
        _resolve_dtype("float16")


def test_a_batch_is_its_singles_whatever_their_constraints():
    prompts = ["x", "a longer prompt", "x", [{"role": "user", "content": "hello"}]]
    constraints = [SCHEMA, None, "[a-c]{3,9}", ["yes", "no"]]
    options = {"max_tokens": 40, "temperature": 1.0, "seed": 3}
    results = ENGINE.generate_batch(prompts, constraints=constraints, **options)
    for result, prompt, constraint in zip(results, prompts, constraints, strict=True):
        alone = ENGINE.generate(prompt, constraint, **options)
        assert (result.text, result.tokens, result.value) == (alone.text, alone.tokens, alone.value)
    assert [r.text for r in ENGINE.generate_batch(["x"] * 3, ["yes"])] == ["yes"] * 3
    assert ENGINE.generate_batch([]) == []
    with pytest.raises(ValueError, match="2 prompts, but 1 constraints"):
        ENGINE.generate_batch(["a", "b"], constraints=[None])
    with pytest.raises(ValueError, match="exclude each other"):
        ENGINE.generate_batch(["a", "b"], "a", constraints=["a", "b"])


def test_results_under_a_constraint_say_that_they_cannot_be_pickled():
    free, result = (ENGINE.generate("x", constraint, max_tokens=5) for constraint in (None, "[a-e]{3}"))
    assert pickle.loads(pickle.dumps(free)) == free
    with pytest.raises(TypeError, match="pickle its text, value or fields"):
        pickle.dumps(result)
    copies = copy.copy(result), copy.deepcopy(result)
    assert all(one == result and one.fields == result.fields for one in copies)
    assert pickle.loads(pickle.dumps((result.text, result.value, result.fields))) == (
        result.text, result.value, result.fields,
    )  # fmt: skip


def test_a_closed_stream_and_a_failed_batch_hold_nothing():
    events = ENGINE.stream("x", max_tokens=40, temperature=1.0)
    next(events)
    events.close()
    with pytest.raises(SpecError):
        ENGINE.generate_batch(["x", "y"], constraints=[None, "("])
    assert (ENGINE.scheduler.running_count, ENGINE.scheduler.waiting_count) == (0, 0)


def test_logits_choose_the_next_token():
    ids = ENGINE.encode_prompt("abc")
    result = ENGINE.generate("abc", max_tokens=3)
    scores = ENGINE.logits([*ids, *result.tokens], keep=3)
    assert scores.shape == (3, CONFIG.vocab_size)
    assert [int(row[: VOCABULARY.size].argmax()) for row in ENGINE.logits(ids)] == result.tokens[:1]
