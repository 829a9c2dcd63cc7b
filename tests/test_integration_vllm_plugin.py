"""guided as a replacement for a backend of vLLM: when it replaces it, when it does not, and the requests that it then
gets.

The tests use a stand-in (`vllm_stand_in.py`). If vLLM is installed, the stand-in is compared with it, name by name.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import sys
from abc import abstractmethod
from dataclasses import dataclass, fields, is_dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import guided
from guided.integrations.vllm import plugin
from guided.integrations.vllm.backend import GuidedBackend
from guided.integrations.vllm.grammar import GuidedGrammar
from guided.integrations.vllm.settings import Settings
from guided.integrations.vllm.specification import Specification
from tests import vllm_stand_in as stand_in
from tests.vllm_stand_in import (
    Request,
    SamplingParams,
    StructuredOutputManager,
    StructuredOutputRequest,
    StructuredOutputsParams,
    VLLMValidationError,
    install_stand_in,
)

PLACE = "vllm.v1.structured_output.backend_outlines"
TYPES = "vllm.v1.structured_output.backend_types"
VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256], size=260)
MODEL = SimpleNamespace(get_vocab_size=lambda: 260)


@pytest.fixture
def vllm(monkeypatch):
    install_stand_in(monkeypatch)
    monkeypatch.delenv("GUIDED_VLLM", raising=False)
    monkeypatch.setattr("guided.integrations.vllm.compilers.read_vocabulary", lambda tokenizer: VOCABULARY)
    return monkeypatch


def asked(max_tokens: int | None = 40, **given) -> SamplingParams:
    return SamplingParams(max_tokens, structured_outputs=StructuredOutputsParams(**given))


@pytest.mark.parametrize(("plugins", "there"), [(None, False), ("", False), ("others", False), ("a,guided", True)])
def test_the_plugin_does_nothing_by_default(vllm, plugins, there):
    vllm.delenv("VLLM_PLUGINS", raising=False)
    if plugins is not None:
        vllm.setenv("VLLM_PLUGINS", plugins)
    check = SamplingParams._validate_structured_outputs
    plugin.register()
    place = sys.modules[PLACE]
    assert (place.OutlinesBackend is GuidedBackend) is there
    assert (SamplingParams._validate_structured_outputs is not check) is there
    if there:
        replaced = SamplingParams._validate_structured_outputs
        plugin.register()
        assert SamplingParams._validate_structured_outputs is replaced
        backend = place.OutlinesBackend(None, object(), 260)
        assert isinstance(backend, sys.modules[TYPES].StructuredOutputBackend)
        grammar = backend.compile_grammar(stand_in.StructuredOutputOptions.REGEX, "a", stop_token_ids={256})
        assert isinstance(grammar, sys.modules[TYPES].StructuredOutputGrammar)


@pytest.mark.parametrize("version", ["0.31.9", "0.1.dev3+g1a2b3c4", "dev"])
def test_older_versions_are_refused(vllm, version):
    vllm.setattr(sys.modules["vllm"], "__version__", version)
    vllm.setenv("VLLM_PLUGINS", "guided")
    with pytest.raises(
        guided.GuidedError, match=f"tested with vLLM 0.32.0, .*but this is {re.escape(version)}.*any_version"
    ):
        plugin.register()
    assert sys.modules[PLACE].OutlinesBackend is stand_in.OutlinesBackend
    vllm.setenv("GUIDED_VLLM", '{"any_version": true}')
    plugin.register()
    assert sys.modules[PLACE].OutlinesBackend is GuidedBackend


@pytest.mark.parametrize("version", ["0.32.1", "0.33.1rc1", "0.99.0+cpu", "1.0"])
@pytest.mark.parametrize("any_version", [False, True])
def test_newer_versions_start_with_a_warning(vllm, caplog, version, any_version):
    vllm.setattr(sys.modules["vllm"], "__version__", version)
    plugin.install(Settings(any_version=any_version))
    assert sys.modules[PLACE].OutlinesBackend is GuidedBackend
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == (not any_version) and all(f"but this is {version}" in text for text in said)


@pytest.mark.parametrize("version", [*plugin.KNOWN_VERSIONS, f"{plugin.KNOWN_VERSIONS[-1]}+cu130"])
def test_tested_versions_start_without_a_warning(vllm, caplog, version):
    vllm.setattr(sys.modules["vllm"], "__version__", version)
    plugin.install(Settings())
    assert sys.modules[PLACE].OutlinesBackend is GuidedBackend and not caplog.records


def test_a_newer_version_that_lacks_a_name_is_refused(vllm):
    vllm.setattr(sys.modules["vllm"], "__version__", "0.99.0")
    for at, name in (
        (sys.modules["vllm.sampling_params"], "BeamSearchParams"),
        (sys.modules[PLACE], "OutlinesBackend"),
    ):
        with vllm.context() as patch:
            patch.delattr(at, name)
            with pytest.raises(guided.GuidedError, match=rf"does not fit this version of vLLM, 0\.99.*{name}.*0\.33"):
                plugin.install(Settings())
    with vllm.context() as patch:
        patch.setitem(sys.modules, PLACE, None)  # the module does not exist
        with pytest.raises(guided.GuidedError, match=r"does not fit this version of vLLM.*backend_outlines"):
            plugin.install(Settings())
    plugin.install(Settings())


class _OtherGrammar(stand_in.StructuredOutputGrammar):
    @abstractmethod
    def rollback(self, num_tokens: int, deep: bool) -> None: ...

    @abstractmethod
    def find_jump_string(self) -> str: ...


@dataclass
class _OtherParams(StructuredOutputsParams):
    lark: str | None = None


@dataclass
class _OtherBackend(stand_in.StructuredOutputBackend):
    device: str


def _other_check(params, tokenizer):
    pass


_OtherOptions = enum.Enum("_OtherOptions", [*stand_in.StructuredOutputOptions.__members__, "LARK"])


@pytest.mark.parametrize(
    ("module", "name", "other", "said"),
    [
        (TYPES, "StructuredOutputGrammar", _OtherGrammar, "an unknown method find_jump_string.*rollback takes"),
        (TYPES, "StructuredOutputBackend", _OtherBackend, "fields of StructuredOutputBackend are device"),
        (TYPES, "StructuredOutputOptions", _OtherOptions, "lark"),
        (PLACE, "OutlinesBackend", _OtherBackend, "the parameters of OutlinesBackend"),
        (PLACE, "validate_structured_output_request_outlines", _other_check, "params, tokenizer"),
        ("vllm.sampling_params", "StructuredOutputsParams", _OtherParams, "fields of StructuredOutputsParams"),
        ("vllm.sampling_params.SamplingParams", "_validate_structured_outputs", _other_check, "self, structured"),
        (
            "vllm.v1.structured_output.StructuredOutputManager",
            "accept_tokens",
            _other_check,
            "accept_tokens are params",
        ),
        ("vllm.v1.request", "Request", object, "object has no num_output_tokens"),
        ("vllm.sampling_params", "BeamSearchParams", object, "object has no max_tokens; object has no structured_out"),
        ("vllm.entrypoints.generate.beam_search.offline.BeamSearchOfflineMixin", "beam_search", _other_check, "beam"),
    ],
)
def test_a_vllm_that_is_different_inside_is_refused(vllm, module, name, other, said):
    at = sys.modules.get(module) or getattr(stand_in, module.rsplit(".", 1)[1])
    vllm.setattr(at, name, other)
    with pytest.raises(guided.GuidedError, match=f"does not fit this version of vLLM.*{said}"):
        plugin.install(Settings(any_version=True))
    assert getattr(at, name) is other
    vllm.setattr(at, name, other)


def test_a_request_is_sealed_with_its_budget_and_the_callers_object_stays(vllm):
    plugin.install(Settings())
    given = StructuredOutputsParams(json={"type": "integer"}, disable_any_whitespace=True)
    params = SamplingParams(20, structured_outputs=given)
    params.verify(MODEL, object())
    assert given.json == {"type": "integer"} and given.grammar is None
    sealed = params.structured_outputs
    assert sealed is not given and sealed._backend == "outlines" and sealed.json is None
    specification = Specification.from_key("grammar", sealed.grammar)
    assert (specification.kind, specification.max_tokens) == ("json", 20) and specification.disable_any_whitespace
    params.verify(MODEL, object())
    assert params.structured_outputs is sealed  # the same request again
    params.max_tokens = None
    params.verify(MODEL, object())
    assert Specification.from_key("grammar", params.structured_outputs.grammar).max_tokens is None


def test_errors_of_requests_have_vllms_class(vllm):
    plugin.install(Settings())
    for params, said, field in (
        (asked(json={"type": "integr"}), r"at /type", "structured_outputs.json"),
        (asked(regex="a("), "line 1", "structured_outputs.regex"),
        (
            asked(3, choice=["long"]),
            "shortest known completion has 5 tokens, but the budget is 3",
            "structured_outputs.choice",
        ),
        (asked(grammar="start: <|x|>"), "allow_special_tokens", "structured_outputs.grammar"),
    ):
        before = params.structured_outputs
        with pytest.raises(VLLMValidationError, match=said) as caught:
            params.verify(MODEL, object())
        assert caught.value.parameter == field and params.structured_outputs is before
    asked(json={}).verify(MODEL, object())


def test_reasoning_counts_towards_the_budget(vllm):
    """In the manner of the engine: a request writes one or several tokens at a time, and then gets the next mask."""
    accept, end_of_reasoning = StructuredOutputManager.accept_tokens, 7
    plugin.install(Settings())
    assert StructuredOutputManager.accept_tokens is not accept
    compiled = guided.GrammarCompiler(VOCABULARY).compile_regex("a+b")
    bitmask = guided.allocate_token_bitmask(1, 260)
    for most, reasoning, together in ((20, 9, 1), (20, 15, 3), (20, 15, 1), (20, 16, 4), (12, 0, 1)):
        manager = StructuredOutputManager(end_of_reasoning if reasoning else None)
        request = Request(StructuredOutputRequest(GuidedGrammar(guided.GrammarMatcher(compiled), most)))
        grammar = request.structured_output_request.grammar
        thoughts = [ord("t")] * (reasoning - 1) + [end_of_reasoning] * (reasoning > 0)
        while not grammar.is_terminated():
            new = thoughts[:together]
            del thoughts[:together]
            if not new or (not thoughts and len(new) < together):
                grammar.fill_bitmask(bitmask, 0)
                new.append(min(guided.allowed_tokens(bitmask)))  # as many "a" as the budget allows
            request.output_token_ids += new
            assert manager.accept_tokens(request, new)
        text = bytes(request.output_token_ids[reasoning:-1])
        assert len(request.output_token_ids) == most and text == b"a" * (most - reasoning - 2) + b"b"
    assert manager.accept_tokens(Request(None), [1])


def test_masks_of_requests_that_reason_or_have_drafts(vllm):
    """In the manner of vLLM 0.33: a fixed number of rows for each request, and implicit ends of the reasoning."""
    plugin.install(Settings())
    compiler, (think, call, other) = guided.GrammarCompiler(VOCABULARY), (7, ord("<"), ord("["))
    manager = StructuredOutputManager(think, implicit_ends=(call, other))

    def begin(pattern: str, output: list[int], most: int) -> Request:
        grammar = GuidedGrammar(guided.GrammarMatcher(compiler.compile_regex(pattern)), most)
        request = Request(StructuredOutputRequest(grammar))
        request.output_token_ids += output
        assert not output or manager.accept_tokens(request, output)
        return request

    requests = [begin("<a{1,9}>", [ord("t")], 9), begin("a{1,9}b", [ord("t"), think, ord("a")], 6), begin("ab", [], 5)]
    bitmask = guided.allocate_token_bitmask(9, 260)
    bitmask[:] = 0
    manager.fill_bitmask(requests, [[ord("t"), ord("t")], [ord("a"), -1], []], bitmask)
    rows = [set(guided.allowed_tokens(bitmask, row)) for row in range(9)]
    free = set(guided.allowed_tokens(np.full((1, 9), -1, np.int32))) - {other}
    assert rows[:3] == [free, free, free]
    assert rows[3:6] == [{ord("a"), ord("b")}, {ord("b")}, set()]  # one more "a", "b" and the end token do not fit
    assert rows[6] == free - {call} and not rows[7] | rows[8]
    request = requests[0]
    for new in ([ord("t"), call], [ord("a")]):
        request.output_token_ids += new
        assert manager.accept_tokens(request, new)
    manager.fill_bitmask([request], [[]], bitmask[:1])
    assert set(guided.allowed_tokens(bitmask)) == {ord("a"), ord(">")}


def test_beam_search_honours_options_and_the_budget(vllm):
    search = stand_in.BeamSearchOfflineMixin.beam_search
    plugin.install(Settings())
    assert stand_in.BeamSearchOfflineMixin.beam_search is not search
    llm = stand_in.BeamSearchOfflineMixin(MODEL, SimpleNamespace(backend="outlines"), object())
    given = StructuredOutputsParams(json={"type": "integer"}, disable_any_whitespace=True)
    params = stand_in.BeamSearchParams(2, 5, given)
    for _ in range(2):
        specification = Specification.from_key("grammar", llm.beam_search(["a"], params, use_tqdm=True))
        assert (specification.source, specification.max_tokens) == ({"type": "integer"}, 5)
        assert specification.disable_any_whitespace and params.structured_outputs is given
    for wrong in ({"json": {"type": "integr"}}, {"choice": ["too long"]}):
        with pytest.raises(VLLMValidationError, match=r"integr|the budget is 5"):
            llm.beam_search(["a"], stand_in.BeamSearchParams(2, 5, StructuredOutputsParams(**wrong)))
    assert llm.beam_search(["a"], stand_in.BeamSearchParams(2)) is None
    llm.llm_engine.vllm_config.structured_outputs_config.backend = "xgrammar"
    params.structured_outputs = StructuredOutputsParams(regex="a(")
    assert llm.beam_search(["a"], params) == "a("


def test_requests_without_structured_output_are_unchanged(vllm):
    plugin.install(Settings())
    SamplingParams().verify(None, object())


@pytest.mark.filterwarnings("ignore")  # vLLM's own
def test_the_stand_in_is_like_the_vllm_that_is_installed():
    vllm = pytest.importorskip("vllm", reason="vLLM is not installed: `make vllm` runs this test beside it")
    if vllm.__version__.split("+")[0] not in plugin.KNOWN_VERSIONS:
        pytest.skip(f"vLLM {vllm.__version__} is not known")
    assert plugin.differences() == []
    compared = 0
    for module, names in stand_in.MODULES.items():
        there = importlib.import_module(module)
        pairs = [(getattr(stand_in, name), getattr(there, name)) for name in names if not name.startswith("__")]
        if module == "vllm.v1.worker.gpu.sample.logits_processor":
            pairs.append((stand_in.V2LogitsProcessor, there.LogitsProcessor))
        for ours, theirs in pairs:
            compared += 1
            partial = ours in (
                SamplingParams, Request, StructuredOutputManager, stand_in.BeamSearchParams,
                stand_in.BeamSearchOfflineMixin,
            )  # fmt: skip
            assert like(ours) == like(theirs) or partial, (module, ours)
    check = SamplingParams._validate_structured_outputs
    theirs = importlib.import_module("vllm.sampling_params").SamplingParams
    assert like(check) == like(theirs._validate_structured_outputs) and compared > 14
    accept = importlib.import_module("vllm.v1.structured_output").StructuredOutputManager.accept_tokens
    assert like(StructuredOutputManager.accept_tokens) == like(accept)
    for name in ("max_tokens", "stop_token_ids", "structured_outputs", "extra_args", "all_stop_token_ids"):
        assert hasattr(theirs, name), name


def like(of) -> object:
    """The part of a class or function that callers see."""
    if inspect.isclass(of) and issubclass(of, enum.Enum):
        return list(of.__members__)
    if not inspect.isclass(of):
        return [(name, parameter.kind) for name, parameter in inspect.signature(of).parameters.items()]
    methods = {
        name: like(getattr(of, name))
        for name in vars(of)
        if callable(getattr(of, name)) and (not name.startswith("_") or name == "__init__")
    }
    of_data = [(each.name, each.init) for each in fields(of)] if is_dataclass(of) else []
    abstract = sorted(getattr(of, "__abstractmethods__", ()))
    if of_data:  # other methods of such a class are not used
        methods = {name: like(getattr(of, name)) for name in abstract}
    return abstract, of_data, methods


def test_the_methods_match_the_protocols():
    for ours, theirs in (
        (GuidedGrammar, stand_in.StructuredOutputGrammar),
        (GuidedBackend, stand_in.StructuredOutputBackend),
    ):
        for name in theirs.__abstractmethods__:
            assert like(getattr(ours, name)) == like(getattr(theirs, name))
