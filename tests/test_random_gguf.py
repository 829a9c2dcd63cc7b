"""Files with random weights for the benchmarks of formats: guided reads each of them."""

from __future__ import annotations

import pytest
import torch

from benchmarks.beside_llama_cpp.memory import file_bytes_per_token, weight_bytes_per_token
from benchmarks.beside_llama_cpp.random_gguf import Sizes, write_random_gguf
from benchmarks.beside_llama_cpp.speed import FORMATS
from guided.engine.pretrained import load_model
from guided.files.gguf import GgufFile
from tests.engine_support import Reader

pytest.importorskip("gguf", reason="the gguf package writes the files")

TOKENIZER = {
    "general.name": "left out",
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": [chr(ord("!") + i) for i in range(64)],
    "tokenizer.ggml.token_type": [1] * 64,
    "tokenizer.ggml.add_bos_token": False,
}
SIZES = Sizes(layers=2, dim=256, hidden=512, heads=4, kv_heads=2, context=64)


@pytest.mark.parametrize("name", FORMATS)
def test_logits_are_finite_and_as_many_bytes_are_read_as_the_file_has(tmp_path, name):
    path = tmp_path / "random.gguf"
    write_random_gguf(path, name, TOKENIZER, SIZES)
    model = load_model(path, dtype=None, device=torch.device("cpu"))
    logits = Reader(model, 8).forward(list(range(8)), 8)
    assert logits.shape == (8, 64) and torch.isfinite(logits).all() and logits.std() > 0.01
    with GgufFile(path) as file:
        assert {file.tensors[name].type_name for name in ("token_embd.weight", "blk.1.ffn_down.weight")} == {name}
        assert file.metadata["tokenizer.ggml.tokens"] == TOKENIZER["tokenizer.ggml.tokens"]
        assert "general.name" not in file.metadata
        assert weight_bytes_per_token(model) <= 1.05 * file_bytes_per_token(file)
