"""The size of the default cache: the context, a share of the free memory, and what an option requires."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import guided
from guided.engine import cache_size
from guided.engine.cache_size import CacheSize, choose_cache_size
from guided.engine.engine import Engine
from guided.engine.runner import cache_shape
from guided.errors import ContextError, GuidedError, OptionError
from guided.kv.dense import DenseCache
from guided.kv.memory import free_host_memory, free_memory
from guided.models.architectures.llama import Llama, LlamaConfig

torch.set_num_threads(1)
VOCABULARY = guided.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_token_ids=[256])
CONFIG = LlamaConfig(layers=2, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=257, context=4000)
MODEL = Llama.random(CONFIG, seed=1)
TOKEN_BYTES = cache_shape(MODEL).bytes_per_token
PROMPT = VOCABULARY.encode("the cat sat on the mat ") * 3
CPU, CUDA, GB = torch.device("cpu"), torch.device("cuda", 0), 10**9


@pytest.fixture
def free(monkeypatch):
    """Sets the free memory that the engine sees, in bytes."""

    def set_free(size: int) -> None:
        monkeypatch.setattr(cache_size, "free_memory", lambda device: size)

    return set_free


@pytest.mark.parametrize(
    ("device", "free_bytes", "model_context", "context", "positions", "length"),
    [
        (CPU, 100 * GB, 8192, None, 16_384, 8192),  # twice the context
        (CPU, 100 * GB, 64, None, 4096, 64),  # space for a batch
        (CPU, 10 * GB, 131_072, None, 50_000, 50_000),  # half of the memory
        (CPU, 20 * GB, 81_920, None, 100_000, 81_920),
        (CUDA, 10 * GB, 131_072, None, 80_000, 80_000),  # 80 % of the memory
        (CPU, 150_000_000, 131_072, None, 1024, 1024),  # the shortest limit: more than half of the memory
        (CPU, 10 * GB, 131_072, 90_000, 90_000, 90_000),  # as required: more than half of the memory
        (CPU, 10 * GB, 131_072, 30_000, 50_000, 30_000),
        (CPU, 100 * GB, 131_072, 30_000, 60_000, 30_000),
        (CPU, 100 * GB, 131_072, 100, 4096, 100),
        (CPU, 20_000_000, 131_072, 150, 150, 150),
    ],
)
def test_sizes(free, device, free_bytes, model_context, context, positions, length):
    free(free_bytes)
    size = choose_cache_size(100_000, device, model_context, context)
    assert (size.positions, size.context) == (positions, length)
    blocks, block_size = size.blocks
    assert 0 <= blocks * block_size - positions < block_size


def test_processes_share_the_memory_of_the_host(free):
    free(80 * GB)
    assert choose_cache_size(100_000, CPU, 1 << 20, processes=4).positions == 100_000
    assert choose_cache_size(100_000, CUDA, 1 << 20, processes=4).positions == 640_000


@pytest.mark.parametrize(("free_bytes", "context", "needed"), [(90 * 10**6, None, "1,024"), (GB, 11_000, "11,000")])
def test_too_little_memory_is_an_error_with_the_sizes(free, free_bytes, context, needed):
    free(free_bytes)
    with pytest.raises(GuidedError, match=f"a KV cache for {needed} tokens takes .* but only .* are free") as caught:
        choose_cache_size(100_000, CPU, 131_072, context)
    assert "context" in caught.value.hint


def test_a_failed_allocation_is_an_error_with_the_sizes(free):
    free(1 << 60)  # the allocator refuses this much
    model = Llama.random(replace(CONFIG, context=1 << 44))
    with pytest.raises(GuidedError, match=r"takes .* GB on cpu, but the memory cannot be allocated"):
        Engine(model, VOCABULARY)


def test_other_errors_during_an_allocation_stay_as_they_are():
    with pytest.raises(RuntimeError, match="something else"), CacheSize(1, 1, 1, CPU).allocation():
        raise RuntimeError("something else")


def test_a_limited_engine_answers_like_an_unlimited_one(free):
    """With a cache that is so small that sequences are preempted, too."""
    unlimited, requests = Engine(MODEL, VOCABULARY), [PROMPT[i:] for i in range(12)]
    wanted = [result.tokens for result in unlimited.generate_batch(requests, max_tokens=60, ignore_eos=True)]
    limited = Engine(MODEL, VOCABULARY, context=1000)
    assert (unlimited.context, limited.context) == (4000, 1000)
    free(TOKEN_BYTES * 1024)
    tiny = Engine(MODEL, VOCABULARY, context=200)
    assert tiny.scheduler.runner.cache.capacity == 512 and tiny.context == 200
    for engine in (limited, tiny):
        results = engine.generate_batch(requests, max_tokens=60, ignore_eos=True)
        assert [result.tokens for result in results] == wanted
    assert tiny.scheduler.preemptions and not limited.scheduler.preemptions


def test_prompts_beyond_the_context_are_refused_with_the_numbers(free):
    engine = Engine(MODEL, VOCABULARY, context=50)
    with pytest.raises(ContextError, match=r"60 tokens, but the engine's context holds 50 .*the model's is 4000"):
        engine.generate(PROMPT[:1] * 60)
    result = engine.generate(PROMPT[:1] * 40, max_tokens=100, ignore_eos=True)
    assert len(result.tokens) == 10 and result.finish_reason == "length"
    with pytest.raises(guided.BudgetError, match="leaves 10"):
        engine.generate(PROMPT[:1] * 40, "[a-z]{30}", max_tokens=100)
    free(TOKEN_BYTES * 2048 + 100)
    engine = Engine(MODEL, VOCABULARY)  # half of the memory holds 1024 tokens
    assert engine.context == 1024
    with pytest.raises(ContextError, match="the engine's context holds 1024"):
        engine.generate(PROMPT[:1] * 1024)
    free(GB)
    with pytest.raises(ContextError, match="the model's context holds 4000"):
        Engine(MODEL, VOCABULARY, context=4000).generate(PROMPT[:1] * 4000)


def test_a_single_sequence_may_fill_the_whole_context(free):
    free(TOKEN_BYTES * 300)
    engine = Engine(MODEL, VOCABULARY, context=300)
    assert engine.scheduler.runner.cache.capacity == 304  # whole blocks
    assert len(engine.generate(PROMPT[:20], max_tokens=1000, ignore_eos=True).tokens) == 280


def test_a_draft_model_gets_a_cache_of_the_same_capacity(free):
    free(TOKEN_BYTES * 2 * 4000)
    engine = Engine(MODEL, VOCABULARY, draft_model=MODEL)
    draft = engine.scheduler._answers._draft_model._runner.cache
    assert engine.context == 2000 and engine.scheduler.runner.cache.capacity == draft.capacity == 2000
    wanted = Engine(MODEL, VOCABULARY).generate(PROMPT, max_tokens=50, ignore_eos=True).tokens
    assert engine.generate(PROMPT, max_tokens=50, ignore_eos=True).tokens == wanted


def test_int8_holds_more_tokens(free):
    free(TOKEN_BYTES * 4000)
    assert Engine(MODEL, VOCABULARY, kv_dtype="int8").context > Engine(MODEL, VOCABULARY).context == 2000


def test_a_cache_of_the_caller_keeps_its_size():
    cache = DenseCache(cache_shape(MODEL), 5000)
    engine = Engine(MODEL, VOCABULARY, cache=cache, context=70)
    assert engine.context == 70 and engine.scheduler.runner.cache is cache
    assert Engine(MODEL, VOCABULARY, cache=DenseCache(cache_shape(MODEL), 5000)).context == 4000


@pytest.mark.parametrize("context", [0, -1, 1.5, "8", True, 4001])
def test_wrong_values_are_refused(context):
    with pytest.raises(OptionError, match="context"):
        Engine(MODEL, VOCABULARY, context=context)


# ---- the free memory
def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:   5000 kB\nHugePages_Total:   0\n"}
LIMIT = "4096000\n"


def test_available_memory(tmp_path):
    assert free_host_memory(write(tmp_path, MEMINFO)) == 5_120_000


def test_a_cgroup_of_version_2_limits_its_children(tmp_path):
    group = "sys/fs/cgroup/app"
    root = write(
        tmp_path,
        MEMINFO
        | {
            "proc/self/cgroup": "0::/app/worker\n",
            f"{group}/worker/memory.max": "max\n",
            f"{group}/worker/memory.current": "9\n",
            f"{group}/memory.max": LIMIT,
            f"{group}/memory.current": "1000000\n",
            f"{group}/memory.stat": "anon 7\nactive_file 300000\ninactive_file 20000\n",
        },
    )
    assert free_host_memory(root) == 4_096_000 - 1_000_000 + 320_000


def test_a_container_with_version_1(tmp_path):
    """The path of the cgroup is that of the host, but the folder shows only the container's own files."""
    group = "sys/fs/cgroup/memory"
    root = write(
        tmp_path,
        MEMINFO
        | {
            "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/docker/1234\n0::/\n",
            f"{group}/memory.limit_in_bytes": LIMIT,
            f"{group}/memory.usage_in_bytes": "96000\n",
            f"{group}/memory.stat": "cache 5\ntotal_inactive_file 1000\n",
        },
    )
    assert free_host_memory(root) == 4_001_000


def test_the_memory_of_this_machine():
    assert free_memory(CPU) > 1 << 20
    assert free_host_memory(Path("/no such folder")) > 1 << 20
