"""Every decoder of the registry compared with transformers: logits, greedy texts, caches, and published configs."""

from __future__ import annotations

import ast
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import guided
from guided.engine.engine import Engine
from guided.engine.runner import Chunk, ModelRunner, cache_shape
from guided.errors import ModelFileError, UnsupportedError
from guided.models.decoder import Decoder
from guided.models.loading.huggingface_loader import load_huggingface
from guided.models.loading.registry import ARCHITECTURES, FILES, find_huggingface_architecture
from guided.vocabulary.vocabulary import Vocabulary
from tests.effort import every
from tests.engine_support import Reader
from tests.test_engine_scheduler import CACHES

transformers = pytest.importorskip("transformers", reason="transformers is the judge of its checkpoints")
pytest.importorskip("safetensors.torch")

torch.set_num_threads(1)
PUBLISHED = Path(__file__).parent / "data" / "model_configs"
COMMON = {
    "vocab_size": 50, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 96, "bos_token_id": None, "eos_token_id": None,
    "pad_token_id": None,
}  # fmt: skip
GEMMA = COMMON | {"head_dim": 8, "query_pre_attn_scalar": 20, "sliding_window": 6}
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 500.0, "short_factor": [1.0, 1.5, 3.0], "long_factor": [2.0, 4.0, 9.0],
    "original_max_position_embeddings": 48, "partial_rotary_factor": 0.75,
}  # fmt: skip
GRANITE = {
    "embedding_multiplier": 6.0, "residual_multiplier": 0.22, "attention_multiplier": 0.3, "logits_scaling": 0.4,
}  # fmt: skip
TWO_ROPES = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", COMMON),
    "qwen3 windows": ("Qwen3", COMMON | {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 2}),
    "qwen2": ("Qwen2", COMMON),
    "qwen2 tied": ("Qwen2", COMMON | {"tie_word_embeddings": True, "num_key_value_heads": 6}),
    "qwen2 windows": ("Qwen2", COMMON | {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}),
    "mistral": ("Mistral", COMMON | {"sliding_window": None}),
    "mistral window": ("Mistral", COMMON | {"sliding_window": 9, "head_dim": 8}),
    "mistral window of one": ("Mistral", COMMON | {"sliding_window": 1, "tie_word_embeddings": True}),
    "gemma2": ("Gemma2", GEMMA | {"attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0}),
    "gemma2 no caps": (
        "Gemma2",
        GEMMA | {"attn_logit_softcapping": None, "final_logit_softcapping": None, "attention_bias": True},
    ),
    "gemma2 a head": ("Gemma2", GEMMA | {"tie_word_embeddings": False}),
    "gemma3_text": ("Gemma3Text", GEMMA | {"num_hidden_layers": 7}),
    "gemma3_text two ropes": (
        "Gemma3Text",
        GEMMA | {"rope_parameters": TWO_ROPES, "final_logit_softcapping": 4.0},
    ),
    "phi3": ("Phi3", COMMON),
    "phi3 window, a part": (
        "Phi3",
        COMMON | {"sliding_window": 8, "hidden_size": 48, "rope_parameters": {"partial_rotary_factor": 0.5}},
    ),
    "phi3 longrope": (
        "Phi3",
        COMMON
        | {"hidden_size": 48, "rope_parameters": LONGROPE, "original_max_position_embeddings": 48}
        | {"tie_word_embeddings": True},
    ),
    "olmo2": ("Olmo2", COMMON),
    "olmo2 tied, biases": ("Olmo2", COMMON | {"tie_word_embeddings": True, "attention_bias": True}),
    "granite": ("Granite", COMMON | GRANITE),
    "granite tied, biases": ("Granite", COMMON | GRANITE | {"tie_word_embeddings": True, "attention_bias": True}),
    "smollm3": ("SmolLM3", COMMON),
    "smollm3 windows": (
        "SmolLM3",
        COMMON
        | {"use_sliding_window": True, "sliding_window": 7, "no_rope_layers": [1, 0, 0, 1]}
        | {"tie_word_embeddings": False, "attention_bias": True},
    ),
}
DECODERS = [entry.model_type for entry in ARCHITECTURES if entry.model_type not in ("nanochat", "gpt2")]
FIRST = [next(case for case in CASES if case.split()[0] == name) for name in DECODERS]
TOKENS = [(7 * i * i + i) % 50 for i in range(40)]
each_case = pytest.mark.parametrize("case", CASES)


def make(case: str, dtype: torch.dtype = torch.float32) -> Any:
    """A random model of transformers in which all weights matter, rounded to a type."""
    name, sizes = CASES[case]
    config = getattr(transformers, f"{name}Config")(**sizes, attn_implementation="eager")
    model = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            noise = torch.randn(weight.shape, generator=generator)
            weight.copy_(weight + 0.1 * noise if weight.ndim == 1 else noise * 24**-0.5)
    return model.to(dtype)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The directory of a case, which is written once."""

    @cache
    def to(case: str) -> Path:
        path = tmp_path_factory.mktemp("model")
        make(case).save_pretrained(path)
        return path

    return to


def load(path: Path, dtype: torch.dtype = torch.float32) -> Decoder:
    model = load_huggingface(path, dtype=dtype, device=torch.device("cpu"))
    assert isinstance(model, Decoder)
    return model


def logits_of(model: Any, tokens: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([tokens])).logits[0].float()


def test_every_decoder_has_a_case():
    assert {case.split()[0] for case in CASES} == set(DECODERS)


@each_case
def test_logits_match_transformers(saved, case):
    other, model = make(case), load(saved(case))
    want = logits_of(other, TOKENS)
    assert want.std() > 0.1
    torch.testing.assert_close(Reader(model, 40).forward(TOKENS, 40), want, atol=4e-5, rtol=2e-5)
    tied = other.config.tie_word_embeddings
    assert (model.head is model.embedding) == tied


@each_case
def test_logits_in_bfloat16(saved, case):
    """Both round: our logits are about as near to those of float32 as theirs."""
    exact = make(case, torch.bfloat16).float()
    want = logits_of(exact, TOKENS)
    theirs = (logits_of(make(case, torch.bfloat16), TOKENS) - want).abs()
    ours = (Reader(load(saved(case), torch.bfloat16), 40).forward(TOKENS, 40) - want).abs()
    assert ours.mean() <= 1.2 * theirs.mean() + 1e-3
    assert ours.max() <= 3 * theirs.max()


@each_case
@pytest.mark.parametrize("dtype", every(2, [torch.float32, torch.bfloat16]))
def test_caches_chunks_and_neighbours_change_no_bit(saved, case, dtype):
    model, rng = load(saved(case), dtype), random.Random(3)
    whole = Reader(model, 40).forward(TOKENS, 40)
    single = Reader(model, 40)
    assert torch.equal(torch.cat([single.forward([token]) for token in TOKENS]), whole)
    for make_cache in CACHES.values():
        runner = ModelRunner(model, make_cache(cache_shape(model), 40))
        leases = [runner.cache.open([]) for _ in range(3)]
        texts = [TOKENS, TOKENS[5:30], TOKENS[::-1]]
        wanted = [whole, *(Reader(model, 40).forward(text, len(text)) for text in texts[1:])]
        while any(lease.length < len(text) for lease, text in zip(leases, texts, strict=True)):
            at = [lease.length for lease in leases]
            pieces = [text[n : n + rng.choice([1, 2, 13])] for text, n in zip(texts, at, strict=True)]
            some = [i for i in range(3) if pieces[i]]
            assert all(runner.cache.reserve(leases[i], len(pieces[i])) for i in some)
            got = runner.step([Chunk(leases[i], pieces[i], len(pieces[i])) for i in some])
            for i, rows in zip(some, got.split([len(pieces[i]) for i in some]), strict=True):
                assert torch.equal(rows, wanted[i][at[i] : at[i] + len(rows)])


@each_case
def test_greedy_texts_match_transformers(saved, case):
    other, reader = make(case), Reader(load(saved(case)), 64)
    prompt, count = TOKENS[:12], 30  # longer than the windows
    with torch.inference_mode():
        ids = torch.tensor([prompt])
        want = other.generate(ids, max_new_tokens=count, do_sample=False, use_cache=False)[0, 12:].tolist()
    got, logits = [], reader.forward(prompt)
    for _ in range(count):
        got.append(int(logits[0].argmax()))
        logits = reader.forward([got[-1]])
    assert got == want


@pytest.mark.parametrize("case", FIRST)
def test_generation_under_a_grammar(saved, case):
    vocabulary = Vocabulary([bytes([48 + i]) for i in range(49)], eos_token_ids=[49])
    engine = Engine(load(saved(case)), vocabulary)
    result = engine.generate("12", r"[0-9]{3}:A+;", max_tokens=20)
    text = result.text
    assert len(text) >= 6 and text[:3].isdigit() and text[3] == ":" and text.endswith(";") and set(text[4:-1]) == {"A"}


@pytest.mark.parametrize("case", FIRST)
def test_keys_that_are_not_known_are_refused(saved, case):
    data = json.loads((saved(case) / "config.json").read_text())
    assert find_huggingface_architecture(data, "c")[1] == load(saved(case)).config
    with pytest.raises(UnsupportedError, match=r"new_feature of this architecture is not known.*at new_feature"):
        find_huggingface_architecture(data | {"new_feature": 3}, "c")
    with pytest.raises(UnsupportedError, match=r"'gelu_new' is not supported"):
        find_huggingface_architecture(
            {k: v for k, v in data.items() if k != "hidden_act"} | activation(data, "gelu_new"), "c"
        )


def activation(data: dict, name: str) -> dict:
    return {"hidden_activation" if "hidden_activation" in data else "hidden_act": name}


@pytest.mark.parametrize(
    ("case", "change", "error", "message"),
    [
        (
            "qwen2",
            {"layer_types": ["sliding_attention"] * 4, "sliding_window": 8},
            UnsupportedError,
            "use_sliding_window",
        ),
        ("qwen2", {"layer_types": ["chunked_attention"] * 4}, UnsupportedError, "chunked_attention.*not full_attent"),
        ("qwen2", {"layer_types": ["full_attention"] * 3}, UnsupportedError, "for each of 4 layers"),
        ("qwen2", {"layer_types": None, "max_window_layers": -1}, ModelFileError, "max_window_layers is -1"),
        ("mistral", {"sliding_window": 0}, ModelFileError, "sliding_window is 0, but must be a positive number"),
        ("mistral", {"sliding_window": "8"}, ModelFileError, "sliding_window is '8', but must be a positive number"),
        ("gemma2", {"use_bidirectional_attention": True}, UnsupportedError, "use_bidirectional_attention"),
        ("gemma2", {"attn_logit_softcapping": -1.0}, ModelFileError, "attn_logit_softcapping is -1.0"),
        ("gemma3_text", {"rope_parameters": TWO_ROPES | {"other": {}}}, UnsupportedError, "more than two kinds"),
        ("gemma3_text", {"attn_logit_softcapping": 50.0}, UnsupportedError, "attn_logit_softcapping"),
        ("gemma3_text", {"sliding_window": None}, ModelFileError, "sliding_window is None"),
        (
            "phi3 longrope",
            {"rope_parameters": LONGROPE | {"short_factor": [1.0]}},
            ModelFileError,
            "short_factor must have",
        ),
        ("phi3 longrope", {"rope_parameters": LONGROPE | {"beta": 2.0}}, UnsupportedError, "beta is not supported"),
        ("phi3", {"partial_rotary_factor": 0.1, "rope_parameters": {}}, ModelFileError, "0 of 4 dimensions cannot"),
        ("phi3", {"rope_parameters": {"rope_type": "yarn"}}, UnsupportedError, "type 'yarn' are not supported"),
        ("granite", {"logits_scaling": 0}, ModelFileError, "logits_scaling is 0, but must be a positive number"),
        ("granite", {"mlp_bias": True}, UnsupportedError, "biases in the MLP"),
        ("smollm3", {"no_rope_layers": [1, 0]}, UnsupportedError, "no_rope_layers is not a list"),
        ("smollm3", {"no_rope_layers": [1, 0, 2, 1]}, UnsupportedError, "no_rope_layers is not a list"),
    ],
)
def test_invalid_configs_are_refused(saved, case, change, error, message):
    data = json.loads((saved(case) / "config.json").read_text())
    with pytest.raises(error, match=message):
        find_huggingface_architecture(data | change, "c")


def test_longrope_ends_where_its_positions_change(saved):
    """Up to that length they equal those of transformers, which has others for longer texts."""
    model = load(saved("phi3 longrope"))
    assert model.config.context == 48
    beyond = [(7 * i * i + i) % 50 for i in range(60)]
    other = make("phi3 longrope")
    torch.testing.assert_close(
        Reader(model, 64).forward(beyond[:48], 48), logits_of(other, beyond[:48]), atol=4e-5, rtol=2e-5
    )
    assert (logits_of(other, beyond)[:48] - logits_of(other, beyond[:48])).abs().max() > 0.01


@pytest.mark.parametrize("file", sorted(PUBLISHED.glob("*.json")), ids=lambda file: file.stem)
def test_published_configs(file):
    """Sizes, windows and similar values equal those that transformers reads from the same file."""
    data = json.loads(file.read_text())
    _, config, tied = find_huggingface_architecture(data, file.name)
    other = transformers.AutoConfig.for_model(**{k: v for k, v in data.items() if k != "auto_map"})
    sizes = {
        "layers": "num_hidden_layers", "dim": "hidden_size", "heads": "num_attention_heads",
        "hidden": "intermediate_size", "kv_heads": "num_key_value_heads", "vocab_size": "vocab_size",
        "norm_eps": "rms_norm_eps",
    }  # fmt: skip
    for ours, theirs in sizes.items():
        assert getattr(config, ours) == getattr(other, theirs)
    assert tied == other.tie_word_embeddings
    types = getattr(other, "layer_types", None) or ["sliding_attention"] * config.layers
    window = getattr(other, "sliding_window", None)
    wanted = [window if kind == "sliding_attention" else None for kind in types]
    assert [config.kind(i).attention.window for i in range(config.layers)] == wanted


def test_an_architecture_is_one_file_and_one_line():
    """Nothing else knows the architecture: no other module imports its file or has one of its names."""
    folder = Path(guided.__file__).parent
    own = {file: {entry.model_type, entry.class_name} for file, entry in zip(FILES, ARCHITECTURES, strict=True)}
    scanned = [path for name in ("models", "attention", "kv") for path in folder.glob(f"{name}/**/*.py")]
    assert len(scanned) > 30 and {path.stem for path in scanned} > own.keys()
    for path in scanned:
        if path.stem == "registry":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            for file, names in own.items():
                named = isinstance(node, ast.Constant) and node.value in names
                imported = isinstance(node, ast.ImportFrom) and node.module == f"guided.models.architectures.{file}"
                assert path.stem == file or not (named or imported), (path, file)
    text = (folder / "models" / "loading" / "registry.py").read_text()
    assert all(text.count(f'"{file}"') == 1 for file in FILES)
