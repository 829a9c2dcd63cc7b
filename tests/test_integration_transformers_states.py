"""Models of transformers whose caches hold states (Mamba, linear attention, convolutions): however the engine divides a
sequence, its logits are those of transformers, which reads the prompt in one pass and later tokens one by one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import guided  # noqa: E402
from guided.engine.runner import Chunk  # noqa: E402
from guided.integrations.transformers_engine import _TransformersModel, _TransformersRunner  # noqa: E402
from tests.transformers_support import small_tokenizer  # noqa: E402

TOKENIZER = small_tokenizer()
SIZES = {
    "vocab_size": len(TOKENIZER), "hidden_size": 32, "num_hidden_layers": 4, "eos_token_id": TOKENIZER.eos_token_id,
    "bos_token_id": None, "pad_token_id": None,
}  # fmt: skip
ATTENTION = {
    **SIZES, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}  # fmt: skip
MIXED = ["linear_attention", "full_attention"] * 2
CONFIGS = {
    "Mamba": {**SIZES, "state_size": 8},
    "Mamba2": {**SIZES, "state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 8},
    "Jamba": {
        **ATTENTION, "use_mamba_kernels": False, "mamba_d_state": 8, "mamba_dt_rank": 4, "num_experts": 2,
        "num_experts_per_tok": 1, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
        "expert_layer_offset": 1,
    },
    "MiniMax": {
        **ATTENTION, "head_dim": 8, "block_size": 8, "num_local_experts": 2, "num_experts_per_tok": 1,
        "layer_types": MIXED,
    },
    "Lfm2": {**ATTENTION, "layer_types": ["conv", "full_attention"] * 2, "conv_L_cache": 3},
    "FalconH1": {
        **ATTENTION, "head_dim": 8, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8,
        "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_chunk_size": 8,
    },
    "GptOss": {**ATTENTION, "head_dim": 8, "sliding_window": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
}  # fmt: skip


def make_model(name):
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, f"{name}Config")(**CONFIGS[name]))
    for parameter_name, parameter in model.named_parameters():
        if parameter.ndim == 2 and "A_log" not in parameter_name:
            parameter.data.mul_(3)  # sharper choices
    return model.eval()


@pytest.fixture(scope="module", params=CONFIGS)
def model(request):
    return make_model(request.param)


@torch.inference_mode()
def log_probabilities(model, ids, prompt):
    """After each token from the end of the prompt on: log probabilities, as transformers' `generate` computes them."""
    name = _TransformersModel(model).cache_name
    output = model(input_ids=torch.tensor([ids[:prompt]]), use_cache=True)
    rows = [output.logits[0, -1:]]
    for id in ids[prompt:]:
        output = model(input_ids=torch.tensor([[id]]), use_cache=True, **{name: getattr(output, name)})
        rows.append(output.logits[0])
    return torch.log_softmax(torch.cat(rows).float(), -1)


@pytest.mark.parametrize("cuts", [[9, 1, 1, 1], [9, 3, 5, 1, 1, 7], [4, 5, 12], [3, 3, 3, 1, 2]])
def test_logits_are_those_of_single_steps(model, cuts):
    """The first nine tokens are the prompt, of which only the last token's logits are needed."""
    ids = torch.randint(2, 250, (sum(cuts),), generator=torch.Generator().manual_seed(1)).tolist()
    runner, rows, start = _TransformersRunner(_TransformersModel(model)), [], 0
    lease = runner.cache.open(ids)
    for count in cuts:
        end = start + count
        keep = count if start >= 9 else int(end >= 9)
        found = runner.step([Chunk(lease, ids[start:end], keep)])
        assert found.shape == (keep, len(TOKENIZER)) and found.dtype == torch.float32
        rows.append(found)
        start = end
    found = torch.log_softmax(torch.cat(rows), -1)
    torch.testing.assert_close(found, log_probabilities(model, ids, 9), rtol=1e-3, atol=1e-3)


def test_forced_text_and_long_prompts(model):
    """Prompts of more than 512 tokens are read in several passes by models that can."""
    engine = guided.from_transformers(model, TOKENIZER)
    result = engine.generate("a b", "[a-z]{2} ok:[a-z]{2} ok:[a-z]", max_tokens=40, logprobs=0, score_forced=True)
    assert 0 in result.token_masks
    ids = engine.encode_prompt("a b")
    wanted = log_probabilities(model, [*ids, *result.tokens], len(ids))
    for row, token, entry in zip(wanted, result.tokens, result.logprobs, strict=False):
        assert entry.logprob == pytest.approx(float(row[token]), abs=1e-3)
    ids = torch.randint(2, 250, (530,), generator=torch.Generator().manual_seed(2)).tolist()
    found = engine.generate(ids, max_tokens=3, ignore_eos=True, logprobs=0)
    wanted = log_probabilities(model, [*ids, *found.tokens], len(ids))
    for row, token, entry in zip(wanted, found.tokens, found.logprobs, strict=False):
        assert entry.logprob == pytest.approx(float(row[token]), abs=1e-3)
        assert float(row.max() - row[token]) < 1e-3


@pytest.mark.parametrize("name", ["Lfm2", "Mamba2", "FalconH1", "GptOss"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_models_that_can_read_chunks_do(name, dtype):
    """One pass for several forced tokens."""
    model = make_model(name).to(dtype)
    assert _TransformersModel(model).reads_chunks
    passes = []
    model.register_forward_hook(lambda *_: passes.append(1))
    engine = guided.from_transformers(model, TOKENIZER)
    engine.generate("a b", "[ab] forced text [ab]", max_tokens=40)
    passes.clear()
    result = engine.generate("a b", "[ab] forced text [ab]", max_tokens=40)
    assert len(passes) <= 3 and len(result.tokens) > 10


def test_a_model_that_cannot_read_chunks_is_recognised_in_bfloat16():
    """Rounding does not hide the difference. (Transformers may repair it one day; then the model reads chunks.)"""
    model = make_model("Mamba")
    exact = _TransformersModel(model).reads_chunks
    assert _TransformersModel(model.to(torch.bfloat16)).reads_chunks == exact


def test_a_failing_chunk_counts_as_unsupported(monkeypatch):
    wrapped = _TransformersModel(make_model("Mamba2"))
    read = wrapped.read

    def fail(ids, cache, keep):
        if cache is not None and len(ids) > 1:
            raise NotImplementedError
        return read(ids, cache, keep)

    monkeypatch.setattr(wrapped, "read", fail)
    assert not wrapped.reads_chunks
