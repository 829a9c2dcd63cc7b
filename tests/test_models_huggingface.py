"""Checkpoints that transformers writes: the logits equal those of transformers."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
import torch

from guided.errors import GuidedError, ModelFileError, UnsupportedError
from guided.models.architectures.llama import Llama
from guided.models.loading.huggingface_loader import load_huggingface
from tests.engine_support import Reader

transformers = pytest.importorskip("transformers", reason="transformers is the judge of its checkpoints")
safetensors_torch = pytest.importorskip("safetensors.torch")

torch.set_num_threads(1)
SIZES = {
    "vocab_size": 50, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 96, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
GPT2 = {"vocab_size": 50, "n_embd": 24, "n_layer": 3, "n_head": 6, "n_positions": 96} | dict.fromkeys(
    ("bos_token_id", "eos_token_id")
)
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
LINEAR = {"rope_type": "linear", "rope_theta": 1000.0, "factor": 4.0}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", SIZES),
    "llama tied": ("Llama", SIZES | {"tie_word_embeddings": True, "head_dim": 8}),
    "llama bias": ("Llama", SIZES | {"attention_bias": True, "num_key_value_heads": 6}),
    "llama llama3": ("Llama", SIZES | {"rope_parameters": LLAMA3, "head_dim": 16}),
    "llama linear": ("Llama", SIZES | {"rope_parameters": LINEAR}),
    "qwen3": ("Qwen3", SIZES | {"head_dim": 8}),
    "qwen3 tied, bias": ("Qwen3", SIZES | {"head_dim": 12, "tie_word_embeddings": True, "attention_bias": True}),
    "nanochat": ("NanoChat", SIZES),
    "nanochat linear, no cap": ("NanoChat", SIZES | {"rope_parameters": LINEAR, "final_logit_softcapping": None}),
    "gpt2": ("GPT2", GPT2),
    "gpt2 exact gelu": ("GPT2", GPT2 | {"activation_function": "gelu", "n_inner": 40, "tie_word_embeddings": False}),
}
TOKENS = [(7 * i * i + i) % 50 for i in range(40)]


def make(case: str) -> Any:
    """A random model of transformers in which all weights matter."""
    name, sizes = CASES[case]
    head = "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM"
    config = getattr(transformers, f"{name}Config")(**sizes, attn_implementation="eager")
    model = getattr(transformers, head)(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            noise = torch.randn(weight.shape, generator=generator)
            weight.copy_(weight + 0.1 * noise if weight.ndim == 1 else noise * 24**-0.5)
    return model


@pytest.fixture
def save(tmp_path):
    def to(model: Any, **options: Any) -> Any:
        model.save_pretrained(tmp_path, **options)
        return tmp_path

    return to


def load(path: Any, dtype: torch.dtype = torch.float32) -> Any:
    return load_huggingface(path, dtype=dtype, device=torch.device("cpu"))


def logits_of(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([TOKENS])).logits[0].float()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("shards", ["one file", "many files"])
def test_logits_match_transformers(save, case, shards):
    other = make(case)
    path = save(other, max_shard_size="10KB" if shards == "many files" else "1GB")
    assert (path / "model.safetensors.index.json").exists() == (shards == "many files")
    model, want = load(path), logits_of(other)
    assert want.std() > 0.1
    for chunk in (40, 7, 1):
        runner = Reader(model, 40)
        got = torch.cat([runner.forward(part, len(part)) for part in chunks(chunk)])
        torch.testing.assert_close(got, want, atol=2e-5, rtol=1e-5)


def chunks(size: int) -> list[list[int]]:
    return [TOKENS[start : start + size] for start in range(0, len(TOKENS), size)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("case", ["qwen3", "gpt2"])
def test_weights_of_half_size(save, case, dtype):
    other = make(case)
    with torch.no_grad():
        for weight in other.parameters():
            weight.copy_(weight.to(dtype))
    want = logits_of(other)
    model = load(save(other.to(dtype)))
    assert model.dtype == torch.float32
    torch.testing.assert_close(Reader(model, 40).forward(TOKENS, 40), want, atol=2e-5, rtol=1e-5)


def test_the_first_files_of_gpt2_and_old_llamas(save):
    """Names without the prefix "transformer.", and buffers of masks and frequencies among the weights."""
    for case, extra in (("gpt2", "h.0.attn.bias"), ("llama", "model.layers.0.self_attn.rotary_emb.inv_freq")):
        other = make(case)
        file = save(other) / "model.safetensors"
        tensors = safetensors_torch.load_file(file)
        tensors = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
        safetensors_torch.save_file(tensors | {extra: torch.ones(2)}, file)
        got = Reader(load(file.parent), 40).forward(TOKENS, 40)
        torch.testing.assert_close(got, logits_of(other), atol=2e-5, rtol=1e-5)


def test_a_head_that_is_there_twice(save):
    other = make("llama tied")
    file = save(other) / "model.safetensors"
    tensors = safetensors_torch.load_file(file)
    safetensors_torch.save_file(tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, file)
    model = load(file.parent)
    assert model.head is model.embedding
    safetensors_torch.save_file(tensors | {"lm_head.weight": torch.zeros(50, 24)}, file)
    with pytest.raises(ModelFileError, match=r"'lm_head.weight' is tied to the embedding, but differs from it"):
        load(file.parent)


def test_the_older_form_of_rope_parameters(save):
    path = save(make("llama llama3"))
    new = load(path).config
    data = json.loads((path / "config.json").read_text())
    parameters = data.pop("rope_parameters")
    data |= {"rope_theta": parameters.pop("rope_theta"), "rope_scaling": parameters}
    for name in ("rope_type", "type"):
        parameters[name] = parameters.pop("rope_type", "llama3")
        (path / "config.json").write_text(json.dumps(data))
        assert load(path).config == new
    assert isinstance(load(path), Llama)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda t: t.pop("model.norm.weight"), ModelFileError, "the tensor 'model.norm.weight' is missing"),
        (lambda t: t.update(odd=torch.ones(1)), UnsupportedError, r"does not use the tensor \(at odd\)"),
        (lambda t: t.update({"model.layers.3.mlp.up_proj.weight": torch.ones(40, 24)}), UnsupportedError, "layers.3"),
        (
            lambda t: t.update({"lm_head.weight": torch.ones(51, 24)}),
            ModelFileError,
            r"\(51, 24\), expected \(50, 24\)",
        ),
        (lambda t: t.update({"lm_head.weight": torch.ones(50, 24).long()}), UnsupportedError, "I64 are not supported"),
    ],
)
def test_tensors_that_do_not_fit(save, change, error, message):
    file = save(make("llama")) / "model.safetensors"
    tensors = safetensors_torch.load_file(file)
    change(tensors)
    safetensors_torch.save_file(tensors, file)
    with pytest.raises(error, match=message):
        load(file.parent)


def test_files_that_are_not_there_or_broken(save, tmp_path):
    with pytest.raises(GuidedError, match=r"there is no config.json"):
        load(tmp_path)
    path = save(make("llama"))
    whole = (path / "model.safetensors").read_bytes()
    for broken in (b"", whole[:5], whole[:2000], whole[:-1], b"\xff" * 100):
        (path / "model.safetensors").write_bytes(broken)
        with pytest.raises(ModelFileError, match="not a safetensors file"):
            load(path)
    (path / "model.safetensors").unlink()
    with pytest.raises(GuidedError, match="only safetensors are supported"):
        load(path)


def test_a_model_outlives_its_file(save):
    path = save(make("gpt2"))
    model = load(path)
    before = Reader(model, 40).forward(TOKENS)
    with (path / "model.safetensors").open("r+b") as file:
        file.truncate(100)
    torch.testing.assert_close(Reader(model, 40).forward(TOKENS), before)


def test_without_the_package_the_extra_is_named(save, monkeypatch):
    path = save(make("llama"))
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(GuidedError, match=r'pip install "guided-decoding\[engine\]"'):
        load(path)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([], "there is no weight_map"),
        ({"weight_map": {"a": 1}}, "there is no weight_map"),
        ({"weight_map": {"a": "../model.safetensors"}}, "is not a safetensors file of this directory"),
        ({"weight_map": {"a": "pytorch_model.bin"}}, "is not a safetensors file of this directory"),
        ({"weight_map": {"a": "other.safetensors"}}, "other.safetensors: there is no such file"),
        ({"weight_map": {"a": "model.safetensors", "b": "twin.safetensors"}}, "is in another file, too"),
    ],
)
def test_indexes_that_lead_nowhere(save, index, message):
    path = save(make("llama"))
    (path / "twin.safetensors").write_bytes((path / "model.safetensors").read_bytes())
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(GuidedError, match=message):
        load(path)
