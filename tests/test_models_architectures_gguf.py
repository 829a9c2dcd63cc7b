"""Decoders in GGUF files: written tensors are read back, and the logits equal those of llama.cpp if it is installed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guided.errors import ModelFileError, UnsupportedError
from guided.files.gguf import GgufFile
from guided.models.block_matrix import BlockMatrix
from guided.models.decoder import Decoder, DecoderConfig, LayerKind
from guided.models.loading.decoder_weights import GGUF_NAMES
from guided.models.loading.gguf_loader import load_gguf
from guided.models.loading.registry import ARCHITECTURES
from guided.models.model import AttentionKind
from guided.models.rotary import Rope
from tests.engine_support import Reader
from tests.test_models_gguf import F32, Q8_0, write_gguf

torch.set_num_threads(1)
EPS = 2.0**-17
PLAIN = DecoderConfig(
    layers=4, dim=64, heads=4, kv_heads=2, head_dim=16, hidden=96, vocab_size=64, context=64, norm_eps=EPS
)
GEMMA = replace(
    PLAIN, layers=7, head_dim=32, norms="both", norm_offset=1.0, activation="gelu", embedding_scale=8.0
)  # fmt: skip
CAPPED = AttentionKind(softcap=2.5, scale=32**-0.5)
NEAR, WIDE = AttentionKind(window=6, scale=32**-0.5), AttentionKind(scale=32**-0.5)
# By the name of the architecture: the config, and the additional numbers in a file.
CASES: dict[str, tuple[DecoderConfig, dict[str, Any]]] = {
    "llama": (PLAIN, {}),
    "qwen2": (replace(PLAIN, qkv_bias=True), {}),
    "qwen3": (replace(PLAIN, qk_norm="head"), {}),
    "gemma2": (
        replace(
            GEMMA, logit_softcap=4.0,
            kinds=tuple(LayerKind(CAPPED if i % 2 else replace(CAPPED, window=6)) for i in range(7)),
        ),
        {"attention.sliding_window": 6, "attn_logit_softcapping": 2.5, "final_logit_softcapping": 4.0},
    ),
    "gemma3": (
        replace(
            GEMMA, qk_norm="head",
            kinds=tuple(LayerKind(NEAR) if (i + 1) % 6 else LayerKind(WIDE, Rope(1000.0)) for i in range(7)),
        ),
        {"attention.sliding_window": 6, "rope.freq_base": 1000.0},
    ),
    "olmo2": (replace(PLAIN, norms="after", qk_norm="projection"), {}),
    "granite": (
        replace(
            PLAIN, kinds=(LayerKind(AttentionKind(scale=0.5)),), embedding_scale=6.0, residual_scale=0.25,
            logit_divisor=0.5,
        ),
        {"attention.scale": 0.5, "embedding_scale": 6.0, "residual_scale": 0.25, "logit_scale": 0.5},
    ),
    "smollm3": (replace(PLAIN, kinds=tuple(LayerKind(rope=Rope() if i != 3 else None) for i in range(4))), {}),
}  # fmt: skip
LINEAR = Rope(factors=(4.0,) * 8)
# The same for keys that only some files have, and for defaults. Only the first word names the architecture.
VARIANTS: dict[str, tuple[DecoderConfig, dict[str, Any]]] = {
    "llama factor": (replace(PLAIN, kinds=(LayerKind(rope=LINEAR),)), {"rope.scaling.factor": 4.0}),
    "llama old factor": (replace(PLAIN, kinds=(LayerKind(rope=LINEAR),)), {"rope.scale_linear": 4.0}),
    "llama both factors": (
        replace(PLAIN, kinds=(LayerKind(rope=LINEAR),)), {"rope.scale_linear": 2.0, "rope.scaling.factor": 4.0}
    ),
    "llama factor of 0": (PLAIN, {"rope.scaling.factor": 0.0}),
    "llama no scaling": (PLAIN, {"rope.scaling.type": "none", "rope.scaling.factor": 4.0}),
    "gemma2 defaults": (
        replace(
            GEMMA, logit_softcap=30.0,
            kinds=tuple(
                LayerKind(AttentionKind(None if i % 2 else 4096, softcap=50.0, scale=32**-0.5)) for i in range(7)
            ),
        ),
        {},
    ),
    "gemma2 window base": (
        replace(
            GEMMA, logit_softcap=4.0,
            kinds=tuple(
                LayerKind(CAPPED) if (i + 1) % 3 == 0 else LayerKind(replace(CAPPED, window=6), Rope(500.0))
                for i in range(7)
            ),
        ),
        {
            "attention.sliding_window": 6, "attn_logit_softcapping": 2.5, "final_logit_softcapping": 4.0,
            "attention.sliding_window_pattern": 3, "rope.freq_base_swa": 500.0,
        },
    ),
    "gemma3 window base": (
        replace(
            GEMMA, qk_norm="head",
            kinds=tuple(LayerKind(NEAR, Rope(500.0)) if (i + 1) % 4 else LayerKind(WIDE) for i in range(7)),
        ),
        {
            "attention.sliding_window": 6, "rope.freq_base_swa": 500.0, "attention.sliding_window_pattern": 4,
        },
    ),
    "gemma3 flags": (
        replace(
            GEMMA, qk_norm="head",
            kinds=tuple(LayerKind(NEAR) if i % 3 else LayerKind(WIDE, Rope(1000.0)) for i in range(7)),
        ),
        {
            "attention.sliding_window": 6, "rope.freq_base": 1000.0,
            "attention.sliding_window_pattern": [i % 3 != 0 for i in range(7)],
        },
    ),
    "gemma3 all windows": (
        replace(GEMMA, qk_norm="head", kinds=(LayerKind(NEAR),) * 7),
        {"attention.sliding_window": 6, "rope.freq_base": 1000.0, "attention.sliding_window_pattern": 0},
    ),
    "gemma3 no windows": (
        replace(GEMMA, qk_norm="head", kinds=(LayerKind(WIDE, Rope(1000.0)),) * 7),
        {"rope.freq_base": 1000.0, "rope.freq_base_swa": 500.0},
    ),
    "gemma3 factor": (
        replace(
            GEMMA, qk_norm="head",
            kinds=tuple(
                LayerKind(NEAR) if (i + 1) % 6 else LayerKind(WIDE, Rope(1000.0, (8.0,) * 16)) for i in range(7)
            ),
        ),
        {"attention.sliding_window": 6, "rope.freq_base": 1000.0, "rope.scaling.factor": 8.0},
    ),
}  # fmt: skip
NEIGHBOURS = {"llama", "granite", "smollm3"}  # architectures whose files have adjacent rotary pairs
TOKENS = [(7 * i * i + i) % 64 for i in range(30)]


def metadata_of(name: str, c: DecoderConfig, more: dict[str, Any]) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "block_count": c.layers, "embedding_length": c.dim, "attention.head_count": c.heads,
        "attention.head_count_kv": c.kv_heads, "feed_forward_length": c.hidden, "context_length": c.context,
        "attention.layer_norm_rms_epsilon": c.norm_eps, "attention.key_length": c.head_dim, "vocab_size": c.vocab_size,
        "attention.value_length": c.head_dim, "rope.dimension_count": c.head_dim, "rope.freq_base": 10000.0,
    }  # fmt: skip
    return {"general.architecture": name, "tokenizer.ggml.model": "no_vocab"} | {
        f"{name}.{key}": value for key, value in (numbers | more).items()
    }


def tensors_of(name: str, model: Decoder, kind: int = F32) -> dict[str, tuple[np.ndarray, int]]:
    """Tensors as llama.cpp's converter writes them."""
    c, names = model.config, GGUF_NAMES
    q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim

    def pairs(rows: torch.Tensor) -> torch.Tensor:
        if name not in NEIGHBOURS:
            return rows
        return rows.view(-1, 2, c.head_dim // 2, rows.shape[1]).transpose(1, 2).reshape(rows.shape)

    found = {"token_embd.weight": model.embedding, "output_norm.weight": model.norm + c.norm_offset}
    for i, layer in enumerate(model.layers):
        parts = dict(zip((names.q, names.k, names.v), layer.qkv.split([q, kv, kv]), strict=True))
        parts = {names.q: pairs(parts[names.q]), names.k: pairs(parts[names.k]), names.v: parts[names.v]}
        parts |= dict(zip((names.gate, names.up), layer.gate_up.chunk(2), strict=True))
        parts |= {names.output: layer.output, names.down: layer.down}
        norms = ("attention_norm", "ffn_norm", "q_norm", "k_norm", "attention_norm_after", "ffn_norm_after")
        parts |= {
            getattr(names, norm): getattr(layer, norm) + c.norm_offset
            for norm in norms
            if getattr(layer, norm) is not None
        }
        found |= {f"blk.{i}.{field}.weight": weight for field, weight in parts.items()}
        if layer.qkv_bias is not None:
            biases = zip((names.q, names.k, names.v), layer.qkv_bias.split([q, kv, kv]), strict=True)
            found |= {f"blk.{i}.{field}.bias": bias for field, bias in biases}
    if model.head is not model.embedding:
        found["output.weight"] = model.head
    return {key: (weight.contiguous().numpy(), kind if weight.ndim == 2 else F32) for key, weight in found.items()}


def load(path: Path) -> Any:
    with GgufFile(path) as file:
        return load_gguf(file, dtype=torch.float32, device=torch.device("cpu"), keep_format=False)


@pytest.fixture(params=[*CASES, *VARIANTS])
def written(request, tmp_path) -> tuple[Path, Decoder]:
    name, (config, more) = request.param.split()[0], (CASES | VARIANTS)[request.param]
    model = Decoder.random(config, seed=3)
    if name == "olmo2":  # it always has a separate head
        model.head = model.embedding.flip(0).contiguous()
    write_gguf(tmp_path / "m.gguf", metadata_of(name, config, more), tensors_of(name, model))
    return tmp_path / "m.gguf", model


def test_every_architecture_with_files_has_a_case():
    assert set(CASES) == {entry.gguf.name or entry.model_type for entry in ARCHITECTURES if entry.gguf is not None}


def test_written_files_are_read_back(written):
    path, model = written
    loaded = load(path)
    assert loaded.config == model.config
    want = Reader(model, 30).forward(TOKENS, 30)
    torch.testing.assert_close(Reader(loaded, 30).forward(TOKENS, 30), want, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_weights_of_eight_bits_stay_so(tmp_path, name, dtype):
    config, more = CASES[name]
    model = Decoder.random(config, seed=3)
    path = tmp_path / "m.gguf"
    write_gguf(path, metadata_of(name, config, more), tensors_of(name, model, Q8_0))
    with GgufFile(path) as file:
        loaded = load_gguf(file, dtype=dtype, device=torch.device("cpu"), keep_format=True)
    assert isinstance(loaded, Decoder) and isinstance(loaded.head, BlockMatrix)
    assert all(isinstance(layer.qkv, BlockMatrix) for layer in loaded.layers)
    want, reader = Reader(model, 30).forward(TOKENS, 30), Reader(loaded, 30)
    got = reader.forward(TOKENS, 30)
    assert (got - want).abs().mean() < 0.1 * want.std()
    single = Reader(loaded, 30)
    assert torch.equal(torch.cat([single.forward([token]) for token in TOKENS]), got)


def test_logits_match_llama_cpp(written):
    llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is the judge of GGUF files")
    path, model = written
    options = {"n_ctx": 64, "n_batch": 64, "n_threads": 1, "logits_all": True, "verbose": False}
    judge = llama_cpp.Llama(str(path), **options, type_k=F32, type_v=F32)
    judge.eval(TOKENS)
    want = torch.tensor(np.array(judge.scores[: len(TOKENS)]))
    got = Reader(load(path), 30).forward(TOKENS, 30)
    assert want.std() > 0.1
    tolerance = 1e-2 if model.config.activation == "gelu" else 2e-5  # its GELU is a table in float16
    torch.testing.assert_close(got, want, atol=tolerance, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("gemma3", {"rope.scaling.attn_factor": 2.0}, "attn_factor is not supported"),
        ("smollm3", {"attention.sliding_window": 4}, "attention.sliding_window is not supported"),
        ("granite", {"expert_count": 4}, "expert_count is not supported"),
        ("phi3", {}, "the architecture 'phi3' is not supported"),
    ],
)
def test_unknown_keys_are_refused(tmp_path, name, more, message):
    config, own = CASES.get(name, CASES["llama"])
    model = Decoder.random(config, seed=3)
    write_gguf(tmp_path / "m.gguf", metadata_of(name, config, own | more), tensors_of(name, model))
    with pytest.raises(UnsupportedError, match=message):
        load(tmp_path / "m.gguf")


@pytest.mark.parametrize("name", CASES)
def test_attention_to_later_positions_is_refused(tmp_path, name):
    config, own = CASES[name]
    model, path = Decoder.random(config, seed=3), tmp_path / "m.gguf"
    write_gguf(path, metadata_of(name, config, own | {"attention.causal": True}), tensors_of(name, model))
    load(path)
    write_gguf(path, metadata_of(name, config, own | {"attention.causal": False}), tensors_of(name, model))
    with pytest.raises(UnsupportedError, match=f"{name}.attention.causal: attention to later positions is not"):
        load(path)


@pytest.mark.parametrize("pattern", [True, False, 2.5, "six", [True, False]])
def test_invalid_patterns_of_windows(tmp_path, pattern):
    config, own = CASES["gemma3"]
    change = {"attention.sliding_window_pattern": pattern}
    path = tmp_path / "m.gguf"
    write_gguf(path, metadata_of("gemma3", config, own | change), tensors_of("gemma3", Decoder.random(config, seed=3)))
    with pytest.raises(ModelFileError, match=r"gemma3\.attention\.sliding_window_pattern is"):
        load(path)


def test_a_part_of_a_split_file_is_refused(tmp_path):
    path = tmp_path / "m-00002-of-00003.gguf"
    write_gguf(path, {"split.no": 1, "split.count": 3, "split.tensors.count": 40}, {})
    with pytest.raises(ModelFileError, match=r"is part 2 of 3 of a split GGUF file(?s:.*)llama-gguf-split --merge"):
        load(path)
