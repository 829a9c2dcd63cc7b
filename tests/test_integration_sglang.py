"""SGLang's grammar backend: with SGLang's classes if it is installed, otherwise with stand-ins that have their
signatures.

The tests do what a server does at each step: specifications arrive as futures, the rows of a batch are filled together,
and drafts are accepted, masked and rolled back.
"""

from __future__ import annotations

import importlib.util
import json
import random
import tomllib
import warnings
from argparse import ArgumentParser
from importlib import import_module
from importlib.metadata import EntryPoint
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import guided  # noqa: E402
from guided.integrations import sglang as plugin  # noqa: E402
from guided.integrations.lru_cache import LruCache  # noqa: E402
from tests import sglang_standin  # noqa: E402
from tests.transformers_support import small_tokenizer  # noqa: E402

REAL = importlib.util.find_spec("sglang") is not None
needs_sglang = pytest.mark.skipif(not REAL, reason="sglang is not installed")
if not REAL:
    sglang_standin.install()
with warnings.catch_warnings():  # warnings of other packages during their import
    warnings.simplefilter("ignore")
    base = import_module("sglang.srt.constrained.base_grammar_backend")
    reasoner = import_module("sglang.srt.constrained.reasoner_grammar_backend")
    import_module("sglang.srt.parser.reasoning_parser")
    backend_module = import_module("guided.integrations.sglang_backend")

OBJECT = '{"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, 2]}}, "required": ["a", "b"]}'
SERVING = SimpleNamespace(
    reasoning_parser=None,
    enable_strict_thinking=False,
    constrained_json_whitespace_pattern=None,
    constrained_json_disable_any_whitespace=False,
    constrained_json_max_whitespace_cnt=None,
)


@pytest.fixture(scope="module")
def tokenizer():
    made = small_tokenizer()
    made.add_special_tokens({"additional_special_tokens": ["<think>", "</think>", "<|call|>"]})
    return made


@pytest.fixture
def make(tokenizer, monkeypatch):
    """A backend as SGLang's registry creates it, with the server's options."""

    def made(**options):
        serving = SimpleNamespace(**{**vars(SERVING), **options})
        monkeypatch.setattr("sglang.srt.runtime_context.get_serving", lambda: serving)
        plugin.register()
        return base.GRAMMAR_BACKEND_REGISTRY["guided"](None, tokenizer, len(tokenizer) + 6, {tokenizer.eos_token_id})

    return made


def grammar_of(backend, kind, text, *, reasoning=False):
    """The grammar of a request, the first time and again, as in `GrammarManager`."""
    value, hit = backend.get_cached_or_future_value((kind, text), reasoning)
    if not hit:
        value = value.result()
        backend.set_cache((kind, text), value.copy())
    return value


def allowed(grammar, size):
    mask = grammar.allocate_vocab_mask(vocab_size=size, batch_size=1, device="cpu")
    grammar.fill_vocab_mask(mask, 0)
    return set(guided.allowed_tokens(mask.numpy()))


def accepts(grammar, tokenizer, text):
    grammar = grammar.copy()
    try:
        for token in [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]:
            grammar.accept_token(token)
    except ValueError:
        return False
    return grammar.is_terminated()


def test_the_name_is_added_and_nothing_else(make):
    choices = import_module("sglang.srt.arg_groups.choices")
    plugin.register()
    plugin.register()
    assert choices.GRAMMAR_BACKEND_CHOICES.count("guided") == 1
    assert base.GRAMMAR_BACKEND_REGISTRY["guided"] is plugin.create_backend
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["sglang.srt.plugins"] == {"guided": "guided.integrations.sglang:register"}


@pytest.mark.parametrize(
    ("kind", "text", "good", "bad"),
    [
        (
            "json",
            OBJECT,
            ['{"a": true, "b": 1}', '{"a":true,"b":2}', '{\n "a" : false,\t"b":1}'],
            ['{"a": true}', "[]"],
        ),
        ("json", "$$ANY$$", ["[1, {}]", '{"x": [null]}', "true"], ["{x: 1}", "tru"]),
        ("json", '{"type": "object"}', ['{"x": [1]}', "{}"], ["[]"]),
        ("regex", "a|b+", ["a", "bbb"], ["ab", ""]),
        ("ebnf", 'root ::= "a" [0-9]+', ["a1", "a12"], ["a"]),
        ("ebnf", 'start: "a" /[0-9]+/', ["a1", "a12"], ["a"]),
        ("full_assistant_ebnf", 'root ::= "a"', ["a"], ["b"]),
        ("ebnf", "root ::= <|call|> [0-9]", ["<|call|>1"], ["1"]),
        (
            "structural_tag",
            json.dumps({"type": "structural_tag", "format": {"type": "json_schema", "json_schema": None}}),
            ["[1]"],
            ["x"],
        ),
        (
            "structural_tag",
            '{"structures": [{"begin": "<f>", "schema": {"type": "integer"}, "end": "</f>"}], "triggers": ["<f"]}',
            ["hi", "hi <f>12</f>"],
            ["hi <f>x</f>"],
        ),
        (
            "structural_tag",
            '{"type": "structural_tag", "structures": [{"begin": "<|call|>", "schema": null, "end": ";"}], '
            '"triggers": ["<|call|>"], "at_least_one": true}',
            ["<|call|>[1];"],
            ["hi"],
        ),
    ],
)
def test_specifications_have_the_meaning_of_sglang(make, tokenizer, kind, text, good, bad):
    grammar = grammar_of(make(), kind, text)
    assert [each for each in good if not accepts(grammar, tokenizer, each)] == []
    assert [each for each in bad if accepts(grammar, tokenizer, each)] == []


@pytest.mark.parametrize(
    ("options", "good", "bad"),
    [
        ({"constrained_json_disable_any_whitespace": True}, '{"a":true,"b":1}', '{"a": true,"b":1}'),
        ({"constrained_json_max_whitespace_cnt": 1}, '{"a":\ttrue,\n"b":1}', '{"a":  true,"b":1}'),
        ({"constrained_json_whitespace_pattern": "[ ]?"}, '{"a": true, "b":1}', '{"a":\ttrue,"b":1}'),
    ],
)
def test_white_space_follows_the_servers_option(make, tokenizer, options, good, bad):
    grammar = grammar_of(make(**options), "json", OBJECT)
    assert accepts(grammar, tokenizer, good) and not accepts(grammar, tokenizer, bad)


def test_options_that_contradict_each_other_are_refused(make):
    with pytest.raises(guided.GuidedError, match="give only one"):
        make(constrained_json_disable_any_whitespace=True, constrained_json_max_whitespace_cnt=2)


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("json", '{"type": "nothing"}', "type"),
        ("json", "{", "JSON"),
        ("regex", "a(", "a("),
        ("ebnf", "root ::= missing", "missing"),
        ("ebnf", "start: missing", "missing"),
        ("structural_tag", '{"type": "structural_tag", "format": {"type": "none"}}', "none"),
        ("structural_tag", '{"structures": [], "structures": [], "triggers": []}', "structures"),
        ("structural_tag", '{"structures": [1], "triggers": ["<"], "at_least_one": true}', "/structures/0"),
        ("structural_tag", "[]", "object"),
    ],
)
def test_errors_are_invalid_grammars_with_the_reason(make, kind, text, said):
    backend = make()
    for _ in range(2):  # compiled, and found in the cache
        grammar = grammar_of(backend, kind, text)
        assert isinstance(grammar, base.InvalidGrammarObject) and said in grammar.error_message


def test_cached_grammars_are_copied_and_bounded(make, tokenizer):
    backend = make()
    first = grammar_of(backend, "regex", "ab")
    first.accept_token(tokenizer.encode("a", add_special_tokens=False)[0])
    value, hit = backend.get_cached_or_future_value(("regex", "ab"), False)
    assert hit and value is not first and value.matcher.steps == 0 and value.grammar_stats.is_cache_hit
    backend.reset()
    assert not backend.get_cached_or_future_value(("regex", "ab"), False)[1]
    kept = LruCache(2)
    for name in ("a", "b", "a", "c"):
        if kept.get(("regex", name)) is None:
            kept["regex", name] = name
    assert list(kept.values()) == ["a", "c"]


def test_batches_are_filled_and_applied_like_single_rows(make, tokenizer):
    size, backend = len(tokenizer) + 6, make()
    grammars = [grammar_of(backend, "regex", pattern) for pattern in ("[ab]c", "x*", "[0-9]{2}")]
    mask = grammars[0].allocate_vocab_mask(vocab_size=size, batch_size=5, device="cpu")
    rows = [0, 2, 4]
    entries = [base.GrammarRow(row=row, grammar=grammar) for row, grammar in zip(rows, grammars, strict=True)]
    grammars[0].fill_vocab_mask_batched(entries, mask)
    logits = torch.randn(5, size, dtype=torch.bfloat16)
    before = logits.clone()
    grammars[0].apply_vocab_mask(logits=logits, vocab_mask=grammars[0].move_vocab_mask(mask, "cpu"))
    for row, grammar in zip(rows, grammars, strict=True):
        finite = set(torch.isfinite(logits[row]).nonzero().flatten().tolist())
        assert finite == allowed(grammar, size) and torch.equal(logits[row, list(finite)], before[row, list(finite)])
    assert torch.equal(logits[[1, 3]], before[[1, 3]])  # rows without a grammar
    grammars[0].reset_vocab_mask(mask)
    assert bool((mask == -1).all())


@pytest.mark.parametrize("reasoning", [False, True])
def test_drafts_are_rolled_back_past_the_end_and_before_the_answer(make, tokenizer, reasoning):
    """Random walks with accepted and drafted tokens. Afterwards the grammar equals one that only accepted tokens."""
    size, rng = len(tokenizer) + 6, random.Random(7)
    backend = make(reasoning_parser="qwen3")
    text = tokenizer.encode('hm</think>{"a": true, "b": 1}' if reasoning else '{"a":true,"b":2}')
    text += [tokenizer.eos_token_id]
    for _ in range(12):
        grammar, at = grammar_of(backend, "json", OBJECT, reasoning=reasoning), 0
        while at < len(text):
            draft = rng.randrange(0, len(text) - at + 1)
            seen = []
            for token in text[at : at + draft]:
                grammar.accept_token(token)
                seen.append(None if grammar.is_terminated() else allowed(grammar, size))
            beyond = rng.randrange(3) if grammar.is_terminated() and not reasoning else 0
            for _ in range(beyond):
                grammar.accept_token(5)
            grammar.rollback(draft + beyond)
            taken = min(draft, rng.randrange(1, 4))
            plain = grammar_of(backend, "json", OBJECT, reasoning=reasoning)
            for token in text[:at]:
                plain.accept_token(token)
            assert allowed(grammar, size) == allowed(plain, size)
            for number, token in enumerate(text[at : at + taken]):
                grammar.accept_token(token)
                assert grammar.current_token == token
                assert seen[number] is None or allowed(grammar, size) == seen[number]
            at += taken
        assert grammar.is_terminated()


def test_a_token_that_is_not_allowed_is_an_error_and_changes_nothing(make, tokenizer):
    size, grammar = len(tokenizer) + 6, grammar_of(make(), "regex", "ab")
    before = allowed(grammar, size)
    with pytest.raises(ValueError, match="is not allowed"):
        grammar.accept_token(tokenizer.eos_token_id)
    with pytest.raises(ValueError, match="is not a token id"):
        grammar.accept_token(size + 100)
    assert allowed(grammar, size) == before
    with pytest.raises(ValueError):
        grammar.rollback(1)


def test_the_constraint_begins_after_the_reasoning(make, tokenizer):
    size, backend = len(tokenizer) + 6, make(reasoning_parser="qwen3")
    thinking = grammar_of(backend, "regex", "[ab]", reasoning=True)
    assert isinstance(backend, reasoner.ReasonerGrammarBackend) and isinstance(thinking, reasoner.ReasonerGrammarObject)
    end = tokenizer.convert_tokens_to_ids("</think>")
    mask = thinking.allocate_vocab_mask(vocab_size=size, batch_size=1, device="cpu")
    thinking.fill_vocab_mask(mask, 0)
    assert bool((mask == -1).all())
    for token in [*tokenizer.encode("zz"), end]:
        thinking.accept_token(token)
    ab = {tokenizer.convert_tokens_to_ids(letter) for letter in "ab"}
    assert allowed(thinking, size) == ab
    straight = grammar_of(backend, "regex", "[ab]", reasoning=False)
    assert allowed(straight, size) == ab
    assert isinstance(grammar_of(backend, "regex", "(", reasoning=True), base.InvalidGrammarObject)


def test_a_model_whose_turns_are_framed_is_refused(make):
    with pytest.raises(guided.GuidedError, match="wraps whole turns"):
        make(reasoning_parser="inkling")


def test_ids_are_filtered_in_a_row():
    mask = torch.full((2, 3), -1, dtype=torch.int32)
    mask[1] = torch.tensor([0b1010, 0, -1], dtype=torch.int32)
    set_filter = backend_module.GuidedBackend.set_token_filter
    set_filter(mask, [1, 64], 1, is_allowed=False, reset_vocab_mask=False)
    assert mask[1].tolist() == [0b1000, 0, -2]
    set_filter(mask, [31, 33], 1, is_allowed=True, reset_vocab_mask=False)
    assert guided.allowed_tokens(mask.numpy(), 1)[:3] == [3, 31, 33]
    set_filter(mask, [7], 1)
    assert guided.allowed_tokens(mask.numpy(), 1) == [7]
    set_filter(mask, [7, 95], 1, is_allowed=False)
    assert set(range(96)) - set(guided.allowed_tokens(mask.numpy(), 1)) == {7, 95}
    assert bool((mask[0] == -1).all())


def test_another_interface_is_an_error_that_names_it(make, monkeypatch):
    monkeypatch.setattr(base.BaseGrammarObject, "rollback", lambda self, tokens: None)
    with pytest.raises(guided.GuidedError, match=r"BaseGrammarObject\.rollback.*Install a supported version"):
        make()


def test_the_vocabulary_must_fit_the_model(tokenizer, make):
    make()
    with pytest.raises(guided.VocabularyError):
        plugin.create_backend(None, tokenizer, 4, {3})


@needs_sglang
def test_the_stand_ins_have_sglangs_signatures():
    import sglang

    assert sglang.__version__ in plugin.TESTED_VERSIONS
    for place, names in sglang_standin.PLACES.items():
        for name in names:
            own, real = getattr(sglang_standin, name), getattr(import_module(place), name)
            if not isinstance(own, type):
                assert not callable(own) or isinstance(own, type([].extend)) or parameters(own) == parameters(real)
                continue
            assert parameters(own) == parameters(real), name
            for method in vars(own):
                if callable(getattr(own, method)) and method in vars(real) and not method.startswith("__"):
                    assert parameters(getattr(own, method)) == parameters(getattr(real, method)), (name, method)


def parameters(function):
    return [(each.name, each.kind, each.default) for each in signature(function).parameters.values()]


@needs_sglang
def test_sglang_finds_it_and_takes_its_name_as_an_option(monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plugins = import_module("sglang.srt.plugins")
        arguments = import_module("sglang.srt.server_args").ServerArgs
    entry = EntryPoint("guided", "guided.integrations.sglang:register", "sglang.srt.plugins")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry] if group == entry.group else [])
    monkeypatch.setattr(plugins, "_plugins_loaded", False)
    monkeypatch.setattr(base, "GRAMMAR_BACKEND_REGISTRY", {})
    plugins.load_plugins()
    assert {"guided": plugin.create_backend} == base.GRAMMAR_BACKEND_REGISTRY
    parser = ArgumentParser()
    arguments.add_cli_args(parser)
    assert parser.parse_args(["--model-path", "m", "--grammar-backend", "guided"]).grammar_backend == "guided"


@needs_sglang
def test_sglangs_manager_answers_invalid_specifications_and_serves_others(make, tokenizer, monkeypatch):
    """The real `GrammarManager` with a minimal scheduler, and the real mask of a batch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        managing = import_module("sglang.srt.constrained.grammar_manager")
        sampling = import_module("sglang.srt.sampling.sampling_batch_info")
    make(reasoning_parser="qwen3")
    serving = SimpleNamespace(**{**vars(SERVING), "reasoning_parser": "qwen3", "skip_tokenizer_init": False})
    for module in (managing, base, import_module("sglang.srt.runtime_context")):
        monkeypatch.setattr(module, "get_serving", lambda: serving)
    chosen = SimpleNamespace(kernel=SimpleNamespace(grammar_backend="guided"))
    monkeypatch.setattr(base, "get_exec", lambda: chosen)
    monkeypatch.setattr(managing, "get_parallel", lambda: SimpleNamespace(pp_rank=0, pp_size=1))
    size, ends = len(tokenizer) + 6, {tokenizer.eos_token_id}
    config = SimpleNamespace(vocab_size=size, hf_eos_token_id=ends, think_end_ids=[1])
    group = SimpleNamespace(world_size=1, first_rank=0, is_first_rank=True)
    scheduler = SimpleNamespace(
        server_args=None,
        tokenizer=tokenizer,
        model_config=config,
        dp_tp_cpu_group=None,
        dp_tp_group=group,
        pp_group=None,
    )
    manager = managing.GrammarManager(scheduler)

    def request(**spec):
        wanted = dict.fromkeys(("json_schema", "regex", "ebnf", "structural_tag", "custom_params"))
        asked = SimpleNamespace(**{**wanted, "ebnf_full_assistant": False, **spec})
        made = SimpleNamespace(
            sampling_params=asked, require_reasoning=False, origin_input_ids=[1], aborted=None, grammar=None,
            grammar_wait_ct=0, grammar_key=None, finished=lambda: False,
        )  # fmt: skip
        made.set_finish_with_abort = lambda message: setattr(made, "aborted", message)
        return made

    good, bad = request(regex="[ab]"), request(json_schema='{"type": 1}')
    assert manager.process_req_with_grammar(good) and manager.process_req_with_grammar(bad)
    while manager.has_waiting_grammars():
        manager.get_ready_grammar_requests()
    assert good.aborted is None and bad.aborted.startswith("Failed to compile json grammar: ")
    again, again_bad = request(regex="[ab]"), request(json_schema='{"type": 1}')
    assert not manager.process_req_with_grammar(again) and not manager.process_req_with_grammar(again_bad)
    assert again.grammar is not good.grammar and again_bad.aborted == bad.aborted

    batch = object.__new__(sampling.SamplingBatchInfo)
    batch.grammars, batch.temperatures, batch.vocab_size, batch.device = (
        [None, good.grammar],
        torch.ones(2),
        size,
        "cpu",
    )
    batch.update_regex_vocab_mask()
    logits = torch.zeros(2, size)
    batch.grammar_mask.apply(logits)
    assert torch.isfinite(logits).sum(1).tolist() == [size, 2]
