"""guided in vLLM's own `StructuredOutputManager` and beam search, without a model: random tokens, among those that the
masks allow.

The judges and cases are those of `scripts/check_vllm.py`. The tests need vLLM and transformers: `make vllm`.
"""

from __future__ import annotations

import importlib.util
import random
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import guided
from guided.integrations.vllm import plugin
from guided.integrations.vllm.settings import Settings

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own


@pytest.fixture
def vllm(monkeypatch):
    """vLLM with guided installed, and a small tokenizer."""
    vllm = pytest.importorskip("vllm", reason="vLLM is not installed: `make vllm` runs this test beside it")
    pytest.importorskip("transformers", reason="transformers is not installed")
    import vllm.v1.structured_output as manager
    from vllm import sampling_params
    from vllm.entrypoints.generate.beam_search import offline
    from vllm.v1.structured_output import backend_outlines

    from tests.transformers_support import small_tokenizer

    tokenizer = small_tokenizer()
    monkeypatch.setattr(manager, "cached_tokenizer_from_config", lambda model_config: tokenizer)
    for at, name in (  # they are restored after the test
        (backend_outlines, "OutlinesBackend"),
        (backend_outlines, "validate_structured_output_request_outlines"),
        (sampling_params.SamplingParams, "_validate_structured_outputs"),
        (manager.StructuredOutputManager, "accept_tokens"),
        (offline.BeamSearchOfflineMixin, "beam_search"),
    ):
        monkeypatch.setattr(at, name, getattr(at, name))
    plugin.install(Settings())
    yield SimpleNamespace(
        sampling=sampling_params, manager=manager, offline=offline, tokenizer=tokenizer, size=len(tokenizer) + 6
    )
    delattr(vllm, "__guided__")


def load_cases():
    path = Path(__file__).parents[1] / "scripts" / "check_vllm.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CASES


CASES = load_cases()


def config_of(vllm, drafts: int = 0, most_requests: int = 16) -> SimpleNamespace:
    """The parts of vLLM's configuration that its manager reads."""
    outputs = SimpleNamespace(
        backend="outlines", reasoning_parser="", reasoning_parser_plugin="", enable_in_reasoning=False
    )
    return SimpleNamespace(
        model_config=SimpleNamespace(
            skip_tokenizer_init=False, get_vocab_size=lambda: vllm.size, is_diffusion=False, max_model_len=512
        ),
        structured_outputs_config=outputs,
        parallel_config=SimpleNamespace(distributed_executor_backend=None),
        scheduler_config=SimpleNamespace(max_num_seqs=most_requests),
        num_speculative_tokens=drafts,
        speculative_config=None,
    )


def begin(vllm, config, manager, id: str, given: dict, most: int):
    """A request that vLLM has validated and compiled."""
    from vllm.v1.request import Request

    outputs = vllm.sampling.StructuredOutputsParams(**given)
    params = vllm.sampling.SamplingParams(max_tokens=most, structured_outputs=outputs)
    params.update_from_generation_config({}, vllm.tokenizer.eos_token_id)
    params._validate_structured_outputs(config.model_config, config.structured_outputs_config, vllm.tokenizer)
    request = Request(id, [5, 6, 7], params, None)
    manager.grammar_init(request)
    while not request.structured_output_request.is_grammar_ready:
        time.sleep(0.001)
    return request


def write(vllm, manager, requests: dict, drafts: int, rng: random.Random) -> None:
    """Generate until all requests have ended, in the manner of vLLM's scheduler."""
    end, live = vllm.tokenizer.eos_token_id, dict(requests)
    while live:
        scheduled = {}
        for id, request in live.items() if drafts else ():
            valid = manager.validate_tokens(request, [rng.randrange(vllm.size) for _ in range(drafts)])
            request.spec_token_ids = valid
            scheduled[id] = [*valid, *[-1] * (drafts - len(valid))]
        masks = manager.grammar_bitmask(live, list(live), scheduled)
        for number, (id, request) in enumerate(list(live.items())):
            new = []
            for row, draft in enumerate([*scheduled.get(id, []), None]):
                new.append(rng.choice(guided.allowed_tokens(masks, number * (1 + drafts) + row)))
                assert new[-1] < vllm.size
                if new[-1] != draft or draft == end:
                    break
            request.append_output_token_ids(new)
            assert manager.accept_tokens(request, new)
            if new[-1] == end:
                del live[id]
            else:
                assert request.num_output_tokens < request.max_tokens, id


@pytest.mark.parametrize("drafts", [0, 3])
@pytest.mark.parametrize("seed", range(3))
def test_answers_are_right_and_complete_within_max_tokens(vllm, drafts, seed):
    config = config_of(vllm, drafts)
    manager = vllm.manager.StructuredOutputManager(config)
    requests = {case: begin(vllm, config, manager, case, given, 90) for case, (given, _) in CASES.items()}
    write(vllm, manager, requests, drafts, random.Random(seed))
    for case, request in requests.items():
        assert request.num_output_tokens <= 90
        CASES[case][1](vllm.tokenizer.decode(request.output_token_ids[:-1]))
    manager.clear_backend()


def test_masks_of_many_requests_are_filled_on_threads(vllm):
    config = config_of(vllm, most_requests=256)
    manager, given = vllm.manager.StructuredOutputManager(config), {"regex": "[ab]{2,9}"}
    requests = {str(number): begin(vllm, config, manager, str(number), given, 7) for number in range(140)}
    write(vllm, manager, requests, 0, random.Random(1))
    texts = {vllm.tokenizer.decode(request.output_token_ids[:-1]) for request in requests.values()}
    assert len(texts) > 20 and all(set(text) <= {"a", "b"} and 2 <= len(text) <= 9 for text in texts)
    manager.clear_backend()


@pytest.mark.parametrize("case", CASES)
def test_beams_are_complete_within_max_tokens(vllm, monkeypatch, case):
    """vLLM's `LLM.beam_search`, with random probabilities instead of a model's."""
    from vllm.logprobs import Logprob

    given, judge = CASES[case]
    config, rng, mixin = config_of(vllm), random.Random(2), vllm.offline.BeamSearchOfflineMixin

    def run_model(self, prompts, params, **options):
        results = []
        for _, beam_params in zip(prompts, params, strict=True):
            tokens = beam_params.allowed_token_ids or range(vllm.size)
            scores = {token: Logprob(-rng.random() * 9) for token in rng.sample(tokens, min(len(tokens), 6))}
            results.append(SimpleNamespace(outputs=[SimpleNamespace(logprobs=[scores], finish_reason="length")]))
        return results

    prompt = {"type": "token", "prompt_token_ids": [5, 6]}
    monkeypatch.setattr(mixin, "_preprocess_cmpl", lambda self, prompts: [prompt])
    monkeypatch.setattr(mixin, "_render_and_run_requests", run_model)
    reader = SimpleNamespace(resolve_watermarking=lambda params: None, generation_config_fields={}, vllm_config=config)
    llm = mixin()
    llm.llm_engine = SimpleNamespace(vllm_config=config, input_processor=reader)
    llm.model_config, llm.renderer = config.model_config, SimpleNamespace(get_tokenizer=lambda: vllm.tokenizer)
    outputs = vllm.sampling.StructuredOutputsParams(**given)
    (answer,) = llm.beam_search(["x"], vllm.sampling.BeamSearchParams(3, 80, structured_outputs=outputs))
    assert len(answer.sequences) == 3
    for beam in answer.sequences:
        tokens = beam.tokens[2:]
        assert len(tokens) <= 80 and tokens[-1] == vllm.tokenizer.eos_token_id
        judge(vllm.tokenizer.decode(tokens[:-1]))


def test_beam_search_refuses_what_a_request_must_not_contain(vllm):
    from vllm.exceptions import VLLMValidationError

    config = config_of(vllm)
    llm = vllm.offline.BeamSearchOfflineMixin()
    llm.llm_engine, llm.model_config = SimpleNamespace(vllm_config=config), config.model_config
    llm.renderer = SimpleNamespace(get_tokenizer=lambda: vllm.tokenizer)
    for given, said in (({"json": {"type": "integr"}}, "at /type"), ({"choice": ["too long"]}, "the budget is 4")):
        outputs = vllm.sampling.StructuredOutputsParams(**given)
        with pytest.raises(VLLMValidationError, match=said):
            llm.beam_search(["x"], vllm.sampling.BeamSearchParams(3, 4, structured_outputs=outputs))
