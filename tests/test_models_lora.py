"""LoRA adapters compute W + s * B * A over any form of weights. Other adapters are refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from copy import copy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.engine.engine import Engine
from guided.errors import GuidedError, ModelFileError, UnsupportedError
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.models.block_matrix import BlockMatrix
from guided.models.linear import AdaptedMatrix, linear
from guided.models.lora import with_adapter
from guided.vocabulary import Vocabulary
from tests.effort import examples
from tests.engine_support import Reader
from tests.test_models_forward import MODELS
from tests.test_models_gguf import F32, Q8_0, load, metadata_of, tensors_of, write_gguf
from tests.test_models_llama import naive_logits

safetensors_torch = pytest.importorskip("safetensors.torch")

torch.set_num_threads(1)
SIZES = {"layers": 2, "dim": 32, "heads": 4, "kv_heads": 2, "head_dim": 8, "hidden": 64, "vocab_size": 48}
CONFIG = LlamaConfig(**SIZES, context=64)
LLAMA = Llama.random(CONFIG, seed=1)
QWEN3 = Llama.random(replace(CONFIG, qk_norm="head", head_dim=12), seed=2)
TOKENS = [(7 * i * i + i) % 48 for i in range(20)]
FIELDS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head")
close = {"atol": 2e-5, "rtol": 1e-5}


def matrices(model: Llama) -> dict[str, tuple[int, int]]:
    """The shapes of matrices that can be adapted."""
    c = model.config
    q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
    attention = {"q": (q, c.dim), "k": (kv, c.dim), "v": (kv, c.dim), "o": (c.dim, q)}
    mlp = {"gate": (c.hidden, c.dim), "up": (c.hidden, c.dim), "down": (c.dim, c.hidden)}
    names = {f"self_attn.{name}_proj": shape for name, shape in attention.items()}
    names |= {f"mlp.{name}_proj": shape for name, shape in mlp.items()}
    layers = {f"model.layers.{i}.{name}": shape for i in range(c.layers) for name, shape in names.items()}
    return layers | {"lm_head": (c.vocab_size, c.dim)}


MODULES = tuple(matrices(LLAMA))


def pairs_of(
    model: Llama, ranks: dict[str, int], seed: int = 0, scale: Callable[[str], float] = lambda module: 1.0
) -> dict[str, torch.Tensor]:
    """Random tensors of an adapter. With the right scale, their contribution is about as large as the weights."""
    generator, tensors = torch.Generator().manual_seed(seed), {}
    for module, rank in ranks.items():
        rows, columns = matrices(model)[module]
        for side, shape in (("A", (rank, columns)), ("B", (rows, rank))):
            noise = torch.randn(shape, generator=generator)
            size = shape[1] ** -0.5 / (max(1.0, abs(scale(module))) if side == "B" else 1)
            tensors[f"base_model.model.{module}.lora_{side}.weight"] = noise * size
    return tensors


def save(path: Path, tensors: dict[str, torch.Tensor], **config: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"} | config))
    safetensors_torch.save_file(tensors, path / "adapter_model.safetensors")
    return path


def merged(model: Llama, tensors: dict[str, torch.Tensor], scale: Callable[[str], float]) -> Llama:
    """W + s * B * A, in float64 until the sum is complete."""
    c, out = model.config, copy(model)

    def sum_of(weight: torch.Tensor, *modules: str) -> torch.Tensor:
        deltas = []
        for module in modules:
            a, b = (tensors.get(f"base_model.model.{module}.lora_{side}.weight") for side in "AB")
            rows, columns = matrices(model)[module]
            deltas.append(
                torch.zeros(rows, columns).double() if a is None else scale(module) * (b.double() @ a.double())
            )
        return (weight.double() + torch.cat(deltas)).float()

    def layer(i: int) -> Any:
        base = model.layers[i]
        name = [f"model.layers.{i}.{'mlp' if field[0] in 'gud' else 'self_attn'}.{field}" for field in FIELDS[:-1]]
        return replace(
            base, qkv=sum_of(base.qkv, *name[:3]), output=sum_of(base.output, name[3]),
            gate_up=sum_of(base.gate_up, *name[4:6]), down=sum_of(base.down, name[6]),
        )  # fmt: skip

    out.layers = [layer(i) for i in range(c.layers)]
    out.head = sum_of(model.head, "lm_head")
    return out


def logits_of(model: Llama, chunk: int = 20) -> torch.Tensor:
    runner = Reader(model, 20)
    parts = [TOKENS[start : start + chunk] for start in range(0, 20, chunk)]
    return torch.cat([runner.forward(part, len(part)) for part in parts])


def simple(path: Path, model: Llama = LLAMA, seed: int = 0, **config: Any) -> Path:
    """An adapter of rank 4 for all layers."""
    ranks = dict.fromkeys([module for module in MODULES if module != "lm_head"], 4)
    defaults: dict[str, Any] = {"r": 4, "lora_alpha": 4, "target_modules": "all-linear"}
    return save(path, pairs_of(model, ranks, seed), **defaults | config)


# ---- what it computes

PATTERNS = ("q_proj", "self_attn.v_proj", "model.layers.1.mlp.up_proj", r"^model\.layers\.0\..*", "layers.1.*k_proj",
            "(gate|down)_proj", "lm_head", "q", "proj")  # fmt: skip


def by_pattern(patterns: dict[str, Any], module: str, default: Any) -> Any:
    """PEFT's rule for patterns."""
    found = [key for key in patterns if re.match(rf"(.*\.)?({key})$", module)]
    return patterns[found[0]] if found else default


@examples(40)
@given(data=st.data())
@pytest.mark.parametrize("model", [LLAMA, QWEN3], ids=["llama", "qwen3"])
def test_logits_match_the_merged_matrices(tmp_path_factory, model, data):
    fields = data.draw(st.lists(st.sampled_from(FIELDS), min_size=1, unique=True))
    layers = data.draw(st.sampled_from([None, [0], 1, [0, 1]]))
    ranks = data.draw(st.dictionaries(st.sampled_from(PATTERNS), st.integers(1, 9), max_size=3))
    alphas = data.draw(st.dictionaries(st.sampled_from(PATTERNS), st.integers(1, 30), max_size=3))
    r, alpha = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 9) | st.floats(-3, 3))
    rslora = data.draw(st.booleans())
    inside = [str(n) for n in ([layers] if isinstance(layers, int) else layers or [0, 1])]
    targets = [m for m in MODULES if m.split(".")[-1] in fields and (m == "lm_head" or m.split(".")[2] in inside)]
    rank = {module: by_pattern(ranks, module, r) for module in targets}

    def scale(module: str) -> float:
        own: float = by_pattern(alphas, module, alpha)
        return own / (math.sqrt(rank[module]) if rslora else rank[module])

    tensors = pairs_of(model, rank, data.draw(st.integers(0, 99)), scale)
    path = save(
        tmp_path_factory.mktemp("a"), tensors, r=r, lora_alpha=alpha, target_modules=fields, use_rslora=rslora,
        rank_pattern=ranks, alpha_pattern=alphas, layers_to_transform=layers,
    )  # fmt: skip
    want = naive_logits(merged(model, tensors, scale), TOKENS)
    np.testing.assert_allclose(logits_of(with_adapter(model, path)).numpy(), want, atol=2e-5)


@pytest.mark.parametrize("chunk", [1, 3, 20])
def test_a_row_does_not_depend_on_other_rows(tmp_path, chunk):
    model = with_adapter(LLAMA, simple(tmp_path))
    torch.testing.assert_close(logits_of(model, chunk), logits_of(model), **close)


def test_adapters_live_side_by_side_over_the_same_weights(tmp_path):
    plain, before = logits_of(LLAMA), [layer.qkv.clone() for layer in LLAMA.layers]
    tensors = pairs_of(LLAMA, {"model.layers.1.mlp.up_proj": 3})
    other = save(tmp_path / "b", tensors, r=3, lora_alpha=3, target_modules=["up_proj"], layers_to_transform=1)
    one, two = with_adapter(LLAMA, simple(tmp_path / "a")), with_adapter(LLAMA, other)
    first, second = logits_of(one), logits_of(two)
    assert (first - plain).abs().max() > 0.1 < (second - plain).abs().max()
    assert torch.equal(logits_of(LLAMA), plain)
    assert torch.equal(logits_of(one), first)
    assert all(torch.equal(layer.qkv, kept) for layer, kept in zip(LLAMA.layers, before, strict=True))
    for model in (one, two):
        assert model.embedding is LLAMA.embedding
        assert model.head is LLAMA.head
        assert model._tables is LLAMA._tables
    assert one.layers[0].qkv.base is LLAMA.layers[0].qkv
    for field in fields(LLAMA.layers[0]):  # matrices without adapters cost nothing
        assert getattr(two.layers[0], field.name) is getattr(LLAMA.layers[0], field.name)
    assert two.layers[1].gate_up.down.shape == (3, 32)
    assert [up.shape for _, _, up in two.layers[1].gate_up.ups] == [(64, 3)]
    twice = merged(merged(LLAMA, pairs_of(LLAMA, dict.fromkeys(MODULES[:-1], 4)), lambda m: 1), tensors, lambda m: 1)
    torch.testing.assert_close(logits_of(with_adapter(one, other)), logits_of(twice), **close)


def test_engines_with_and_without(tmp_path):
    """Batches equal their single requests, and each engine has its own cache."""
    vocabulary = Vocabulary([bytes([97 + i]) for i in range(26)], eos_token_ids=[26])
    engines = [Engine(model, vocabulary) for model in (LLAMA, with_adapter(LLAMA, simple(tmp_path)))]
    prompts = ["abc", "abcdefgh", "z", "abcq"]
    texts = []
    for engine in engines:
        alone = [engine.generate(prompt, "[a-z]{12}").text for prompt in prompts]
        assert [result.text for result in engine.generate_batch(prompts, "[a-z]{12}")] == alone
        texts.append(alone)
    assert texts[0] != texts[1]


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
@pytest.mark.parametrize(
    ("kind", "dtype", "quantised"),
    [
        (F32, torch.float32, False),
        (Q8_0, torch.float32, False),
        (Q8_0, torch.float32, True),
        (Q8_0, torch.bfloat16, True),
    ],
)
def test_a_gguf_is_adapted_as_it_lies(tmp_path, architecture, kind, dtype, quantised):
    """The rows of Q and K have the order of transformers, whatever the order in the file, and weights of 8 bits stay at
    8 bits.
    """
    config = replace(CONFIG, qk_norm="head" if architecture == "qwen3" else None, norm_eps=2.0**-17)
    source = Llama.random(config, seed=3)
    write_gguf(
        tmp_path / "m.gguf", metadata_of(config, architecture), tensors_of(source, kind, architecture == "llama")
    )
    base, path = load(tmp_path / "m.gguf", dtype, quantised), simple(tmp_path / "a")
    model = with_adapter(base, path)
    tensors = safetensors_torch.load_file(path / "adapter_model.safetensors")
    exact = load(tmp_path / "m.gguf")
    want = naive_logits(merged(exact, tensors, lambda module: 1), TOKENS)
    got = logits_of(model).numpy()
    assert np.abs(naive_logits(exact, TOKENS) - want).max() > 1
    assert np.linalg.norm(got - want) <= (0.04 if quantised else 1e-5) * np.linalg.norm(want)
    for layer, own in zip(model.layers, base.layers, strict=True):
        for field in ("qkv", "output", "gate_up", "down"):
            matrix = getattr(layer, field)
            assert isinstance(matrix, AdaptedMatrix)
            assert matrix.base is getattr(own, field)
            assert isinstance(matrix.base, BlockMatrix) == quantised
            assert {matrix.down.dtype, *(up.dtype for _, _, up in matrix.ups)} == {torch.float32}


def test_the_sum_is_rounded_once(tmp_path):
    """In bfloat16, the adapter's contribution is as exact as the sum can be, for one row and for many."""
    tensors = {name: tensor.to(torch.float16) for name, tensor in pairs_of(LLAMA, {"lm_head": 3}).items()}
    path = save(tmp_path, tensors, r=3, lora_alpha=7, target_modules=["lm_head"], use_rslora=True)
    model = with_adapter(Llama.random(CONFIG, seed=1, dtype=torch.bfloat16), path)
    b, a = (tensors[f"base_model.model.lm_head.lora_{side}.weight"].double() for side in "BA")
    x = torch.randn(9, 32, generator=torch.Generator().manual_seed(3)).bfloat16()
    for rows in (x, x[:1]):
        base = linear(rows, model.head.base)
        want = base.double() + 7 / math.sqrt(3) * (rows.double() @ a.T @ b.T)
        got = linear(rows, model.head)
        assert got.dtype == torch.bfloat16
        torch.testing.assert_close(got.double(), want, atol=1e-6, rtol=2**-8)


# ---- the config file


@pytest.mark.parametrize(
    ("config", "pointer", "reason"),
    [
        ({"peft_type": "LOHA"}, "peft_type", "type 'LOHA' are not supported"),
        ({"peft_type": None}, "peft_type", "type None"),
        ({"use_dora": True}, "use_dora", "DoRA"),
        ({"bias": "all"}, "bias", "biases that were trained with the adapter"),
        ({"bias": "lora_only"}, "bias", "'lora_only'"),
        ({"lora_bias": True}, "lora_bias", "biases of an adapter"),
        ({"modules_to_save": ["embed_tokens"]}, "modules_to_save", "modules that were fully trained"),
        ({"fan_in_fan_out": True}, "fan_in_fan_out", "belongs to another model"),
        ({"trainable_token_indices": [3]}, "trainable_token_indices", "embeddings that were trained"),
        ({"target_parameters": ["experts"]}, "target_parameters", "only the matrices"),
        ({"layer_replication": [[0, 1], [0, 2]]}, "layer_replication", "replicated layers"),
        ({"alora_invocation_tokens": [1]}, "alora_invocation_tokens", "aLoRA"),
        ({"use_qalora": True}, "use_qalora", "QA-LoRA"),
        ({"use_bdlora": {"nblocks": 2}}, "use_bdlora", "BD-LoRA"),
        ({"kasa_config": {"beta": 1}}, "kasa_config", "KaSA"),
        ({"ensure_weight_tying": True}, "ensure_weight_tying", "shares with the embedding"),
        ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights", "'pissa_niter_4' need a modified base"),
        ({"init_lora_weights": "olora"}, "init_lora_weights", "a modified base model"),
        ({"new_feature": 3}, "new_feature", "new_feature of this adapter is not known"),
        ({"layers_to_transform": [0], "layers_pattern": ["h"]}, "layers_pattern", "must be 'layers', not"),
        ({"layers_to_transform": 0, "layers_pattern": True}, "layers_pattern", "must be 'layers', not True"),
        ({"target_modules": ["embed_tokens"]}, "model.embed_tokens", "adapters of the embedding"),
    ],
)  # fmt: skip
def test_unsupported_adapters_are_refused(tmp_path, config, pointer, reason):
    path = simple(tmp_path, **{"target_modules": list(FIELDS[:-1])} | config)
    with pytest.raises(UnsupportedError, match=reason) as caught:
        with_adapter(LLAMA, path)
    assert caught.value.pointer == pointer
    assert caught.value.hint


def test_empty_or_disabled_settings_are_accepted(tmp_path):
    off = {
        "use_dora": False, "modules_to_save": None, "new_feature": None, "layer_replication": None, "bias": "none",
        "fan_in_fan_out": False, "rank_pattern": None, "alpha_pattern": {}, "trainable_token_indices": [],
        "init_lora_weights": "gaussian", "lora_dropout": 0.1, "task_type": "CAUSAL_LM", "loftq_config": {},
        "base_model_name_or_path": "x/y", "megatron_core": "megatron.core", "exclude_modules": None,
        "auto_mapping": {"parent_library": "z"}, "qalora_group_size": 16, "peft_version": "99", "revision": "main",
    }  # fmt: skip
    want = logits_of(with_adapter(LLAMA, simple(tmp_path / "a")))
    assert torch.equal(logits_of(with_adapter(LLAMA, simple(tmp_path / "b", **off))), want)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"r": 0}, "r is 0, but must be a positive number"),
        ({"r": 2.5}, "r is 2.5, but must be an integer"),
        ({"r": True}, "r is True"),
        ({"lora_alpha": "8"}, "lora_alpha is '8', but must be a number"),
        ({"lora_alpha": float("nan")}, "lora_alpha is nan"),
        ({"use_rslora": 1}, "use_rslora is 1, neither true nor false"),
        ({"rank_pattern": [4]}, r"rank_pattern is \[4\], but must be an object"),
        ({"rank_pattern": {"q_proj": -1}}, r"rank_pattern\['q_proj'\] is -1"),
        ({"alpha_pattern": {"q_proj": None}}, r"alpha_pattern\['q_proj'\] is None"),
        ({"alpha_pattern": {"(q": 3}}, r"a pattern of alpha_pattern, .*\(q"),
        ({"target_modules": r"(a+)\1"}, r"a pattern of target_modules, '\(a\+\)\\\\1': .*back-reference"),
        ({"target_modules": "\ud800"}, "a pattern of target_modules"),
        ({"target_modules": None}, "target_modules is None, but must be a list of names or a pattern"),
        ({"target_modules": [1]}, r"target_modules is \[1\]"),
        ({"exclude_modules": {"a": 1}}, "exclude_modules is "),
        ({"layers_to_transform": "0"}, "but must be layer numbers"),
        ({"layers_to_transform": [0]}, "layers_to_transform cannot be used with a target_modules pattern"),
        ({"rank_pattern": {"k_proj": 3}}, r"k_proj.lora_A.weight' has rank 4, but adapter_config.json .* says 3"),
        ({"r": 8}, "has rank 4, but adapter_config.json .* says 8"),
        ({"target_modules": ".*"}, "embedding"),
        ({"target_modules": r".*_proj|lm_head"}, "'base_model.model.lm_head.lora_A.weight' is missing"),
    ],
)
def test_invalid_values(tmp_path, config, message):
    with pytest.raises(GuidedError, match=message):
        with_adapter(LLAMA, simple(tmp_path, **config))


# ---- the weights file

Q = "base_model.model.model.layers.0.self_attn.q_proj"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda t: t.pop(f"{Q}.lora_A.weight"), ModelFileError, "q_proj.lora_A.weight' is missing"),
        (lambda t: t.pop(f"{Q}.lora_B.weight"), ModelFileError, "q_proj.lora_B.weight' is missing"),
        (lambda t: t.update({f"{Q}.lora_A.weight": torch.ones(4)}), ModelFileError, "a matrix is expected"),
        (lambda t: t.update({f"{Q}.lora_A.weight": torch.ones(4, 31)}), ModelFileError, r"expected \(4, 32\)"),
        (lambda t: t.update({f"{Q}.lora_B.weight": torch.ones(32, 5)}), ModelFileError, r"expected \(32, 4\)"),
        (lambda t: t.update({f"{Q}.lora_B.weight": torch.ones(32, 4).int()}), UnsupportedError, "type I32 are not"),
        (lambda t: t.update({f"{Q}.lora_B.bias": torch.ones(32)}), UnsupportedError, "lora_B.bias"),
        (lambda t: t.update({f"{Q}.lora_magnitude_vector": torch.ones(32)}), UnsupportedError, "magnitude_vector"),
        (lambda t: t.update(pairs_of(LLAMA, {"lm_head": 4})), UnsupportedError, "target_modules.* excludes it"),
        (lambda t: t.update({"base_model.model.model.layers.2.mlp.up_proj.lora_A.weight": torch.ones(4, 32)}),
         UnsupportedError, r"does not use the tensor \(at base_model.model.model.layers.2.mlp.up_proj.lora_A.weight\)"),
        (lambda t: t.update({"base_model.model.lm_head.weight": LLAMA.head + 1}), UnsupportedError, "differ from"),
        (lambda t: t.update({"base_model.model.lm_head.weight": torch.ones(50, 32)}), ModelFileError, r"\(48, 32\)"),
        (lambda t: t.update({"base_model.model.model.norm.weight": LLAMA.norm}), UnsupportedError, "model.norm.weight"),
    ],
)  # fmt: skip
def test_tensors_that_do_not_fit(tmp_path, change, error, message):
    path = simple(tmp_path)
    tensors = safetensors_torch.load_file(path / "adapter_model.safetensors")
    change(tensors)
    safetensors_torch.save_file(tensors, path / "adapter_model.safetensors")
    with pytest.raises(error, match=message):
        with_adapter(LLAMA, path)


def test_copies_of_the_base_are_its_own(tmp_path):
    """PEFT saves them together with an adapted head. For a quantised model, this cannot be checked."""
    names = [f"base_model.model.{name}" for name in ("lm_head.base_layer.weight", "model.embed_tokens.weight")]
    copies = dict(zip(names, (LLAMA.head.clone(), LLAMA.embedding.clone()), strict=True))
    tensors = pairs_of(LLAMA, {"lm_head": 4})
    config = {"r": 4, "lora_alpha": 4, "target_modules": ["lm_head"]}
    want = logits_of(with_adapter(LLAMA, save(tmp_path / "a", tensors, **config)))
    path = save(tmp_path / "b", tensors | copies, **config)
    assert torch.equal(logits_of(with_adapter(LLAMA, path)), want)
    write_gguf(tmp_path / "m.gguf", metadata_of(CONFIG), tensors_of(LLAMA, Q8_0))
    base = load(tmp_path / "m.gguf", keep_format=True)
    for name in names:
        with pytest.raises(UnsupportedError, match="or this model is quantised") as caught:
            with_adapter(base, save(tmp_path / "c", tensors | {name: copies[name]}, **config))
        assert caught.value.pointer == name
        assert "save_embedding_layers=False" in caught.value.hint
    assert isinstance(with_adapter(base, tmp_path / "a").head.base, BlockMatrix)


def test_files_that_are_not_there_or_broken(tmp_path):
    with pytest.raises(GuidedError, match=r"there is no adapter_config.json"):
        with_adapter(LLAMA, tmp_path)
    with pytest.raises(GuidedError, match=r"there is no adapter_config.json"):
        with_adapter(LLAMA, tmp_path / "nowhere")
    path = simple(tmp_path)
    (path / "adapter_model.safetensors").rename(path / "adapter_model.bin")
    with pytest.raises(
        GuidedError, match=r"adapter_model.safetensors: there is no such file \(only safetensors are supported\)"
    ):
        with_adapter(LLAMA, path)
    (path / "adapter_config.json").write_text("{")
    with pytest.raises(ModelFileError, match="not a JSON file"):
        with_adapter(LLAMA, path)
    with pytest.raises(ModelFileError, match="adapts none of this model's matrices"):
        with_adapter(LLAMA, save(tmp_path / "none", {}, target_modules=["c_attn"]))


@pytest.mark.parametrize("name", ["nanochat", "gpt"])
def test_other_architectures_accept_no_adapter(tmp_path, name):
    with pytest.raises(UnsupportedError, match=r"adapters of (NanoChat|GPT) models are not"):
        with_adapter(MODELS[name], simple(tmp_path))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.text(max_size=4)
    | st.sampled_from(["LORA", "all-linear", "q_proj", ".*", "(", "none", "pissa"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["q_proj", "("]), inner, max_size=2),
    max_leaves=3,
)  # fmt: skip
KEYS = ["r", "lora_alpha", "target_modules", "exclude_modules", "rank_pattern", "alpha_pattern", "use_rslora", "bias",
        "layers_to_transform", "layers_pattern", "peft_type", "init_lora_weights", "modules_to_save", "x"]  # fmt: skip


def assert_read_or_refused(path):
    """The result is a working model or a clear error."""
    try:
        model = with_adapter(LLAMA, path)
    except GuidedError as error:
        assert str(error)
        return
    assert logits_of(model).shape == (20, 48)


@examples(150)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3))
def test_any_json_for_a_key_is_read_or_refused(tmp_path_factory, config):
    path = simple(tmp_path_factory.mktemp("f"))
    data = json.loads((path / "adapter_config.json").read_text()) | config
    (path / "adapter_config.json").write_text(json.dumps(data))
    assert_read_or_refused(path)


@examples(150)
@given(st.data())
def test_mutilated_files_end_in_clear_errors(tmp_path_factory, data):
    path = simple(tmp_path_factory.mktemp("f"))
    file = path / data.draw(st.sampled_from(["adapter_config.json", "adapter_model.safetensors"]))
    whole = bytearray(file.read_bytes())
    kind = data.draw(st.sampled_from(["cut", "change", "put in", "take out"]))
    at = data.draw(st.integers(0, min(len(whole) - 1, 5000)))
    if kind == "cut":
        del whole[at:]
    elif kind == "take out":
        del whole[at : at + data.draw(st.integers(1, 9))]
    else:
        new = data.draw(st.binary(min_size=1, max_size=4) | st.sampled_from([b"9", b'"', b"}", b"0,", b"F8", b"I64"]))
        whole[at : at + (len(new) if kind == "change" else 0)] = new
    file.write_bytes(whole)
    assert_read_or_refused(path)
