"""A model that is split into parts computes the same as the whole model."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from guided.engine.tensor_parallel.group import RankPosition, connect
from guided.errors import UnsupportedError
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.models.block_matrix import BlockMatrix
from guided.models.parallel import ALONE, Parallel
from tests.block_support import NUMBERS, random_blocks
from tests.effort import every
from tests.engine_support import Reader
from tests.llama_support import build, checkpoint

torch.set_num_threads(1)
CONFIG = LlamaConfig(
    layers=4,
    dim=64,
    heads=6,
    kv_heads=6,
    head_dim=16,
    hidden=96,
    vocab_size=50,
    context=64,
    qkv_bias=True,
    output_bias=True,
)
MODELS = {
    "llama": (CONFIG, False),
    "llama tied": (replace(CONFIG, qkv_bias=False, output_bias=False, heads=12), True),
    "qwen3": (replace(CONFIG, qk_norm="head", heads=18), False),
}
CUTS = [(2, 1), (1, 2), (3, 1), (1, 3), (1, 4), (2, 2), (6, 1)]
TOKENS = [(7 * i * i + i) % 50 for i in range(40)]
CPU = torch.device("cpu")


def on_all_ranks(file: Path, tensor: int, pipeline: int, work: Callable[[Parallel], Tensor]) -> list[Tensor]:
    """The results of `work` on each rank. The ranks are threads here."""

    def rank(number: int) -> Tensor:
        _, parallel = connect(file, RankPosition(number, tensor, pipeline), CPU)
        return work(parallel)

    with ThreadPoolExecutor(tensor * pipeline) as pool:
        return list(pool.map(rank, range(tensor * pipeline)))


def read(model: Llama, chunk: int) -> Tensor:
    """The logits after each token, read in chunks."""
    reader = Reader(model, 64)
    parts = [TOKENS[start : start + chunk] for start in range(0, len(TOKENS), chunk)]
    return torch.cat([reader.forward(part, len(part)) for part in parts])


@pytest.mark.parametrize(("name", "cut"), every(2, [(name, cut) for name in MODELS for cut in CUTS], unpack=True))
def test_parts_compute_what_the_whole_does(tmp_path, name: str, cut: tuple[int, int]) -> None:
    config, tied = MODELS[name]
    tensors = checkpoint(config, tied=tied)
    want = read(build(config, tensors), 40)

    def logits(part: Parallel) -> Tensor:
        model = build(config, tensors, part)
        return torch.stack([read(model, 40), read(model, 7)])

    first, *others = on_all_ranks(tmp_path / "store", *cut, logits)
    torch.testing.assert_close(first, want.expand(2, -1, -1), atol=2e-5, rtol=1e-5)
    assert all(torch.equal(other, first) for other in others[: cut[0] - 1]), "the ranks of the first stage agree"


def test_stages_alone_change_no_bit(tmp_path) -> None:
    tensors = checkpoint(CONFIG, tied=False)
    got = on_all_ranks(tmp_path / "store", 1, 3, lambda part: read(build(CONFIG, tensors, part), 5))
    assert torch.equal(got[0], read(build(CONFIG, tensors), 5))


def test_a_row_does_not_depend_on_other_rows(tmp_path) -> None:
    """A ring reduction would add the rows of a large tensor in different orders."""
    x = torch.randn(3, 200, 64)

    def sums(part: Parallel) -> Tensor:
        mine = x[part.tensor_group.rank]
        singles = torch.cat([part.sum(row[None]) for row in mine])
        assert torch.equal(part.sum(mine), singles)
        return singles

    got = on_all_ranks(tmp_path / "store", 3, 1, sums)
    assert all(torch.equal(other, x[0] + x[1] + x[2]) for other in got)


def test_each_rank_has_its_part_of_memory(tmp_path) -> None:
    tensors = checkpoint(CONFIG, tied=False)
    parts: dict[tuple[int, int], Llama] = {}

    def load(part: Parallel) -> Tensor:
        parts[part.pipeline_group.rank, part.tensor_group.rank] = build(CONFIG, tensors, part)
        return torch.zeros(1)

    on_all_ranks(tmp_path / "store", 3, 2, load)
    for (stage, _), model in parts.items():
        c = model.config
        assert (c.layers, c.heads, c.kv_heads, c.hidden, c.vocab_size) == (2, 2, 2, 32, 50)
        assert model.layers[0].qkv.shape == (6 * 16, 64) and model.layers[0].down.shape == (64, 32)
        assert len(model.embedding) == (0 if stage else 50)
    biases = [parts[0, rank].layers[0].output_bias is not None for rank in range(3)]
    assert biases == [True, False, False], "a bias of a sum is added once"
    heads = [parts[0, rank].head.shape[0] for rank in range(3)]
    assert heads == [32, 18, 0], "tokens are shared in groups of 16, so that a quantised head stays so"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("cut", [(2, 1), (3, 1), (2, 2)])
def test_quantised_matrices_stay_so_where_no_block_is_cut(tmp_path, cut: tuple[int, int], dtype: torch.dtype) -> None:
    """Split in two, the output's 96 columns cut a block: this matrix is dense, and the results are the same."""
    config = replace(CONFIG, dim=64, hidden=192, qkv_bias=False, output_bias=False)
    tensors = checkpoint(config, tied=False)
    kinds = dict.fromkeys(tensors, NUMBERS["Q4_0"]) | {name: NUMBERS["Q5_1"] for name in tensors if "v_proj" in name}
    blocks = {
        name: random_blocks(kinds[name], *tensor.shape, seed, size=tensor.shape[1] ** -0.5)
        for seed, (name, tensor) in enumerate(tensors.items())
        if tensor.ndim == 2
    }
    tensors |= {name: torch.from_numpy(matrix.values()) for name, matrix in blocks.items()}
    found: dict[int, set[bool]] = {}

    def logits(part: Parallel) -> Tensor:
        model = build(config, tensors, part, dtype=dtype, blocks=blocks)
        found[part.tensor_group.size] = {
            isinstance(m, BlockMatrix) for layer in model.layers for m in (layer.qkv, layer.down)
        }
        assert isinstance(model.layers[0].output, BlockMatrix) == (part.tensor_group.size != 2)
        assert isinstance(model.embedding, BlockMatrix) == part.is_first
        return read(model, 40)

    want = read(build(config, tensors), 40)
    got = on_all_ranks(tmp_path / "store", *cut, logits)[0]
    assert found == {cut[0]: {True}}
    assert (got - want).norm() < 0.05 * want.norm()


def test_models_that_cannot_be_split_are_refused_with_a_hint() -> None:
    class Other:
        rank, size = 0, 5
        gather = send = receive = None

    tensors = checkpoint(CONFIG, tied=False)
    with pytest.raises(UnsupportedError, match=r"6 heads cannot be shared by 5 ranks[\s\S]*one of 1, 2, 3, 6"):
        build(CONFIG, tensors, Parallel(Other(), ALONE))  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="5 stages, but only 4 layers"):
        build(CONFIG, tensors, Parallel(ALONE, Other()))  # type: ignore[arg-type]
