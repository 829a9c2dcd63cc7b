"""The backend for vLLM, called as vLLM's engine calls it: rows, accepted tokens, drafts, ends.

jsonschema, re and Lark judge the outputs, for the same cases that `scripts/check_vllm.py` runs in vLLM itself.
"""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import guided
from guided.integrations.vllm.backend import GuidedBackend, begin_request, validate_and_pack
from guided.integrations.vllm.compilers import Compilers, compilers_of, read_vocabulary
from guided.integrations.vllm.settings import Settings
from guided.integrations.vllm.specification import KINDS, Specification
from tests.vllm_stand_in import SamplingParams, StructuredOutputOptions, StructuredOutputsParams
from tests.vocabulary_support import sentencepiece_file, tekken_file

WORDS = [b"<call>", b"</call>", b'{"', b'": ', b", ", b"name", b"age", b"yes", b"no", b"12", b'"a"', b"Ada"]
END, SPECIAL, SIZE = 256 + len(WORDS), 257 + len(WORDS), 256 + len(WORDS) + 20
VOCABULARY = guided.Vocabulary(
    [bytes([byte]) for byte in range(256)] + WORDS, eos_token_ids=[END], special_tokens={SPECIAL: "<|tool|>"}, size=SIZE
)
COMPILERS = Compilers(VOCABULARY, SIZE)
NO_SETTINGS = Settings()


def load_cases():
    path = Path(__file__).parents[1] / "scripts" / "check_vllm.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECKS = load_cases()


def started(given: dict, max_tokens: int | None = None, ends=(), settings: Settings = NO_SETTINGS):
    return begin_request(Specification.from_fields(given, max_tokens=max_tokens), COMPILERS, ends, settings)


def row(grammar) -> set[int]:
    bitmask = np.zeros((2, (SIZE + 31) // 32), np.int32)
    grammar.fill_bitmask(bitmask, 1)
    assert not bitmask[0].any()
    return {id for id in guided.allowed_tokens(bitmask, 1) if id < SIZE}


def text_of(tokens: list[int]) -> str:
    return VOCABULARY.decode(tokens).decode()


def written(grammar, rng: random.Random, most: int) -> list[int]:
    tokens = []
    while not grammar.is_terminated() and len(tokens) < most:
        allowed = sorted(row(grammar))
        token = (
            rng.choice([id for id in allowed if id >= 256] or allowed) if rng.random() < 0.3 else rng.choice(allowed)
        )
        assert grammar.accept_tokens("r", [token])
        tokens.append(token)
    return tokens


@pytest.mark.parametrize("case", CHECKS.CASES)
def test_answers_are_right_and_complete_within_max_tokens(case):
    given, judge = CHECKS.CASES[case]
    for seed in range(12):
        rng, most = random.Random(seed), 60 + 9 * seed
        grammar = started(given, most)
        tokens = written(grammar, rng, most)
        assert grammar.is_terminated() and tokens[-1] == END
        judge(text_of(tokens))


@pytest.mark.parametrize("case", CHECKS.CASES)
def test_drafts_are_cut_where_the_masks_forbid_them(case):
    """In the manner of the engine: drafts are validated, each gets a row, they are rolled back, and some are then
    sampled.
    """
    given, judge = CHECKS.CASES[case]
    for seed in range(6):
        rng, most = random.Random(seed), 70
        grammar, tokens = started(given, most), []
        while not grammar.is_terminated():
            twin = started(given, most if seed % 2 else None)  # drafts ignore budgets
            twin.accept_tokens("r", tokens)
            drafts = written(twin, rng, rng.randrange(5)) + [rng.choice([-1, END, 65, SIZE + 7])] * rng.randrange(2)
            alone = started(given, most)
            alone.accept_tokens("r", tokens)
            expected = []
            for draft in drafts:
                if alone.is_terminated() or draft not in row(alone):
                    break
                assert alone.accept_tokens("r", [draft])
                expected.append(draft)
            assert grammar.validate_tokens(drafts) == expected
            rows = [row(grammar)]
            for draft in expected:
                assert grammar.accept_tokens("r", [draft])
                rows.append(row(grammar))
            grammar.rollback(len(expected))
            assert row(grammar) == rows[0]
            kept = expected[: rng.randrange(len(expected) + 1)]
            more = [] if END in kept else [rng.choice(sorted(rows[len(kept)]))]
            assert grammar.accept_tokens("r", kept + more)
            tokens += kept + more
        assert len(tokens) <= most
        judge(text_of(tokens))


def test_tokens_are_accepted_all_or_none_and_none_after_the_end():
    grammar = started({"regex": "ab?"})
    before = row(grammar)
    for other in (ord("z"), SIZE - 1, SIZE, 10**9, -1):
        assert not grammar.accept_tokens("r", [ord("a"), other])
        assert grammar.validate_tokens([ord("a"), other]) == [ord("a")]
    assert row(grammar) == before == {ord("a")}
    assert grammar.validate_tokens([ord("a"), END, END]) == [ord("a"), END]
    assert grammar.accept_tokens("r", [ord("a"), END, ord("z")])
    assert grammar.is_terminated() and grammar.validate_tokens([END]) == []
    assert row(grammar) == set(range(SIZE))  # vLLM requests no mask then; any caller gets a full one
    assert grammar.accept_tokens("r", [7])
    grammar.rollback(1)
    assert not grammar.is_terminated() and row(grammar) == {ord("b"), END}
    grammar.reset()
    assert row(grammar) == before


def test_the_rules_determine_the_notation_of_a_grammar():
    for grammar, text in (
        ('start: NAME " ::= " NAME\nNAME: /[a-z]+/', "a ::= b"),
        ('root ::= name ": " name  # name: value\nname ::= [a-z]+', "a: b"),
    ):
        assert started({"grammar": grammar}).accept_tokens("r", [*text.encode(), END])


def test_a_row_that_allows_all_tokens():
    grammar = started({"grammar": "root ::= [^\\x00]* | [\\x00-\\U0010FFFF]*"})
    expected = guided.GrammarMatcher(guided.GrammarCompiler(VOCABULARY).compile_regex("(?s:.*)"))
    bitmask = guided.allocate_token_bitmask(1, SIZE)
    expected.fill_next_token_bitmask(bitmask)
    assert row(grammar) == set(guided.allowed_tokens(bitmask))


def test_text_before_the_answer_counts_towards_the_budget():
    for case, (given, judge) in CHECKS.CASES.items():
        for seed in range(4):
            rng, most = random.Random(seed), 90
            grammar, thoughts = started(given, most), 20 - seed
            grammar.report_output_length(thoughts)
            tokens = list[int]()
            while not grammar.is_terminated():
                token = rng.choice(sorted(row(grammar)))
                assert grammar.validate_tokens([token]) == [token] and grammar.accept_tokens("r", [token])
                tokens.append(token)
                grammar.report_output_length(thoughts + len(tokens))
            assert thoughts + len(tokens) <= most, case
            judge(text_of(tokens))
    grammar = started({"regex": "a{1,90}b"}, 5)
    grammar.report_output_length(4)  # no answer fits: the grammar is enforced, the budget cannot be
    assert row(grammar) == {ord("a")} and grammar.validate_tokens([ord("a")]) == []


def test_an_exceeded_budget_does_not_end_the_engine():
    grammar = started({"regex": "a{1,90}b"}, 5)
    assert grammar.accept_tokens("r", [ord("a")] * 4)  # no mask allowed the last token
    assert row(grammar) == {ord("a"), ord("b")}
    assert grammar.accept_tokens("r", [ord("a")] * 20) and row(grammar) == {ord("a"), ord("b")}


def test_stop_tokens_end_a_text_and_are_nowhere_inside():
    grammar = started({"regex": "a\n*b"}, 9, ends={10, END, SIZE + 99})
    assert grammar.accept_tokens("r", [ord("a")]) and row(grammar) == {ord("b")}
    assert grammar.accept_tokens("r", [ord("b")]) and row(grammar) == {10, END}
    assert grammar.accept_tokens("r", [10]) and grammar.is_terminated()
    with pytest.raises(guided.VocabularyError):  # nothing else was possible
        started({"regex": "\n"}, ends={10})
    assert len(COMPILERS._compilers) <= 8
    for number in range(20):
        COMPILERS.compiler_for_ends({number})
    assert len(COMPILERS._compilers) == 8
    with pytest.raises(guided.VocabularyError, match="is below"):
        COMPILERS.compiler_for_ends({SIZE})


def test_the_backend_takes_each_kind_of_request(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr("guided.integrations.vllm.compilers.read_vocabulary", lambda tokenizer: VOCABULARY)
    backend = GuidedBackend(object(), object(), SIZE)
    bitmask = backend.allocate_token_bitmask(3)
    assert bitmask.shape == (3, (SIZE + 31) // 32) and bitmask.dtype == torch.int32 and (bitmask == -1).all()
    kinds = set()
    for given, judge in CHECKS.CASES.values():
        fields = {name: value for name, value in given.items() if name in KINDS}
        ((kind, source),) = fields.items()
        if len(given) > 1 or kind == "json_object":
            continue
        spec = source if isinstance(source, str) else json.dumps(source)
        grammar = backend.compile_grammar(StructuredOutputOptions[kind.upper()], spec, {END})
        assert grammar.max_tokens is None
        grammar.fill_bitmask(bitmask, 2)
        assert (bitmask[:2] == -1).all() and not (bitmask[2] == -1).all()
        sealed = Specification.from_fields(given, max_tokens=80).to_text()
        grammar = backend.compile_grammar(StructuredOutputOptions.GRAMMAR, sealed, None)
        judge(text_of(written(grammar, random.Random(1), 80)))
        kinds.add(kind)
    grammar = backend.compile_grammar(StructuredOutputOptions.JSON_OBJECT, "")
    assert grammar.accept_tokens("r", [*b'{"b": 1}', END])
    assert kinds | {"json_object"} == set(KINDS)
    backend.destroy()


@pytest.mark.parametrize("given", [given for given, _ in CHECKS.CASES.values()])
@pytest.mark.parametrize("most", [None, 90])
def test_a_resumed_request_is_one_text(given, most):
    params = SamplingParams(most, structured_outputs=StructuredOutputsParams(**given))
    text = validate_and_pack(params, COMPILERS, NO_SETTINGS)
    specification = Specification.from_key("grammar", text)
    assert specification == Specification.from_fields(given, max_tokens=most)
    again = SamplingParams(95, structured_outputs=StructuredOutputsParams(grammar=text))
    assert Specification.from_key(
        "grammar", validate_and_pack(again, COMPILERS, NO_SETTINGS)
    ) == specification.with_budget(95)
    assert validate_and_pack(SamplingParams(), COMPILERS, NO_SETTINGS) is None


def test_a_prefill_for_another_instance_has_no_budget():
    asked = {"structured_outputs": StructuredOutputsParams(choice=["a long text"])}
    with pytest.raises(guided.BudgetError):
        validate_and_pack(
            SamplingParams(1, extra_args={"kv_transfer_params": {"do_remote_prefill": True}}, **asked),
            COMPILERS,
            NO_SETTINGS,
        )
    prefill = SamplingParams(1, extra_args={"kv_transfer_params": {"do_remote_decode": True}}, **asked)
    assert Specification.from_key("grammar", validate_and_pack(prefill, COMPILERS, NO_SETTINGS)).max_tokens is None


def test_options_of_a_request_are_kept():
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}, "required": ["a"]}
    for options, text in (
        ({}, '{"a": [1, 2]}'),
        ({"disable_any_whitespace": True}, '{"a":[1,2]}'),
        ({"whitespace_pattern": ""}, '{"a":[1,2]}'),
        ({"whitespace_pattern": "\n?"}, '{\n"a":[1,\n2]}'),
    ):
        sealed = Specification.from_fields({"json": schema, **options}).to_text()
        assert started({"grammar": sealed}).accept_tokens("r", [*text.encode(), END]), options
    for closed in (False, True):
        grammar = started({"json": {"type": "object"}, "disable_additional_properties": closed})
        assert grammar.accept_tokens("r", list(b'{"b": 1}')) is not closed


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "given are none"),
        ({"json": {}, "regex": "a"}, "given are json, regex"),
        ({"jsn": {}}, "unknown field 'jsn'"),
        ({"regex": "a", "disable_any_whitespace": True}, "disable_any_whitespace applies to JSON"),
        ({"json": {}, "disable_any_whitespace": 1}, "must be true or false"),
        ({"json": {}, "disable_any_whitespace": True, "whitespace_pattern": " "}, "contradict each other"),
        ({"json": {}, "whitespace_pattern": 3}, "a regular expression"),
        ({"json": {}, "max_tokens": 9}, "unknown field 'max_tokens'"),
        ({"grammar": '{"guided": {"json": {}, "max_tokens": 0}}'}, "at least 1"),
        ({"regex": "a", "whitespace_pattern": ""}, "whitespace_pattern applies to JSON"),
        ({"json": 3}, "json must be JSON"),
        ({"json_object": False}, "json_object must be true"),
        ({"choice": "yes"}, "a list of strings"),
        ({"regex": ["a"]}, "regex must be a string"),
        ({"grammar": '{"guided": {"json": {}, "json": {}}}'}, "twice"),
        ({"grammar": '{"guided": {"regex": "a"}, "more": 1}'}, "a grammar that begins with"),
        ({"grammar": '{"guided": 3}'}, "a grammar that begins with"),
        ({"grammar": '{"guided": {"grammar": "{\\"guided\\": {}}"}}'}, "inside another"),
        ({"grammar": '{"guided": {"regex": "a"'}, "not JSON"),
        ({"json": "{"}, "not JSON"),
    ],
)  # fmt: skip
def test_malformed_requests_are_refused(given, said):
    with pytest.raises(guided.SpecError, match=said):
        started(given)


@pytest.mark.parametrize("case", CHECKS.WRONG)
def test_errors_have_a_location_and_are_raised_before_a_request_is_queued(case):
    given, said = CHECKS.WRONG[case]
    with pytest.raises(guided.GuidedError) as caught:
        validate_and_pack(
            SamplingParams(30, structured_outputs=StructuredOutputsParams(**given)), COMPILERS, NO_SETTINGS
        )
    assert said in str(caught.value)


def test_control_tokens_need_the_operators_word():
    given = {"grammar": "start: <|tool|> /[a-z]+/"}
    with pytest.raises(guided.SpecError, match="allow_special_tokens"):
        started(given)
    grammar = started(given, settings=Settings(allow_special_tokens=True))
    assert row(grammar) == {SPECIAL}


def test_unenforced_keywords_are_refused_if_the_operator_wants_it():
    strict = Settings(strict=True)
    for given in ({"json": {"propertis": {}}}, {"json": {"type": "string", "format": "colour"}}):
        with pytest.warns(guided.GuidedWarning, match="not enforced"):
            started(given)
        with pytest.raises(guided.GuidedError, match=r"unknown keyword|format 'colour'"):
            started(given, settings=strict)
    tag = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"propertis": {}}}}
    with pytest.raises(guided.GuidedError, match="unknown keyword"):
        started({"structural_tag": tag}, settings=strict)
    assert row(started({"json": {"type": "integer"}}, settings=strict)) == row(started({"json": {"type": "integer"}}))


def test_settings_are_read_from_the_environment():
    assert Settings.from_environment({}) == Settings.from_environment({"GUIDED_VLLM": " "}) == NO_SETTINGS
    text = '{"allow_special_tokens": true, "strict": true, "limits": {"seconds": 3}}'
    read = Settings.from_environment({"GUIDED_VLLM": text})
    assert (
        read.allow_special_tokens and read.strict and not read.any_version and read.limits == guided.Limits(seconds=3)
    )
    for wrong, said in (
        ("{", "not JSON"), ("[]", "an object, not .*fields are allow_special_tokens, strict, any_version, limits"),
        ('{"limit": 1}', "no field 'limit'; its fields are"),
        ('{"any_version": 1}', "any_version of GUIDED_VLLM must be true or false"), ('{"limits": 3}', "limits of"),
        ('{"limits": {"secs": 3}}', "secs"), ('{"limits": {"seconds": -1}}', "at least 0"),
    ):  # fmt: skip
        with pytest.raises(guided.GuidedError, match=said):
            Settings.from_environment({"GUIDED_VLLM": wrong})


def test_tokens_beyond_the_logits_are_left_out():
    small = Compilers(VOCABULARY, 200).compiler_for_ends({5})
    assert small.vocabulary.size == 200 and len(small.vocabulary.tokens) == 200
    with pytest.raises(guided.VocabularyError):
        Compilers(VOCABULARY, 200).compiler_for_ends()


def test_tokenizers_of_vllm_are_read_once(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from tests.transformers_support import small_tokenizer

    assert transformers
    tokenizer = small_tokenizer()
    found = compilers_of(tokenizer, 300)
    assert compilers_of(tokenizer, 300) is found and compilers_of(tokenizer, 301) is not found
    assert found.compiler_for_ends().vocabulary.eos_token_ids == {tokenizer.eos_token_id}
    with pytest.raises(guided.VocabularyError, match="fast tokenizer"):
        read_vocabulary(SimpleNamespace())


def test_tokenizers_of_mistral_are_read_from_their_files(tmp_path):
    path = tmp_path / "tekken.json"
    path.write_bytes(tekken_file([*(bytes([byte]) for byte in range(256)), b"ab"]))
    inner = SimpleNamespace(file_path=path)
    tokenizer = SimpleNamespace(IS_MISTRAL_TOKENIZER=True, is_tekken=True, eos_token_id=5, tokenizer=inner)
    found = read_vocabulary(tokenizer)
    assert found.eos_token_ids == {5} and found.token_bytes(276) == b"ab"
    path.write_bytes(
        sentencepiece_file([("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3), ("ab", -1, 1), ("a", -2, 1), ("b", -3, 1)])
    )
    tokenizer.is_tekken = False
    assert read_vocabulary(tokenizer).eos_token_ids == {5}


def test_it_imports_neither_vllm_nor_torch():
    code = """
import sys, guided.integrations.vllm as it, guided.integrations.vllm.plugin as plugin
plugin.register()
print({"torch", "vllm"} & sys.modules.keys())
"""
    environment = {"PATH": "", "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "set()"
