"""A decoding step on CUDA, without a device: the number of launches does not depend on the number of sequences, and the
CPU waits once.

Tensors have no numbers here (tests/fake_cuda.py), so reading a number, or a tensor on the wrong device, is an error.
Other tests check what the operations compute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import cycle, islice
from math import prod
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from guided.engine import runs, stepper
from guided.engine.runner import Chunk, ModelRunner, cache_shape
from guided.engine.scheduler import Scheduler, Task
from guided.engine.sequence import Sequence
from guided.kernels import choose_batch, transfer
from guided.kernels.choose_batch import Column
from guided.kernels.choose_device import DeviceChoices
from guided.kv.cache import CacheShape, KVCache
from guided.kv.dense import DenseCache
from guided.kv.offload.cache import OffloadCache
from guided.kv.offload.copy_engine import SlotStore
from guided.kv.paged import PagedCache
from guided.kv.quantised import QuantisedCache, packed_shape
from guided.kv.radix import RadixCache
from guided.matching.bitmask import row_of
from guided.matching.compiler import GrammarCompiler
from guided.matching.matcher import GrammarMatcher
from guided.models.decoder import caps_scores
from guided.models.model import Model
from guided.sampling.choice import Choice, Choose, Ramp
from guided.sampling.logprobs import LogprobParams
from guided.sampling.params import SamplingParams
from guided.sampling.penalties import Penalties
from guided.vocabulary.vocabulary import Vocabulary
from tests.effort import draws, every
from tests.fake_cuda import CUDA, DeviceReadError, StepCounter, fake_cuda, fake_weights, moved
from tests.small_models import small_models
from tests.triton_support import REASON

torch.set_num_threads(1)
SIZES = 1, 8, 64, 256
CPU = torch.device("cpu")
WIDTH = 50  # logits of the models
MAX_SENT = 4  # copies to the device: one for the pass, and one for each kind of choice
ALL = small_models()
UNCAPPED = {name: model for name, model in ALL.items() if not caps_scores(model.config)}


@pytest.fixture(params=["Triton", "torch"])
def triton(request: pytest.FixtureRequest) -> bool:
    if request.param == "Triton":
        pytest.importorskip("triton", reason=REASON)
    return request.param == "Triton"


class Kind(NamedTuple):
    """How a token is chosen: `options` for `SamplingParams`, and those for `Choice`."""

    options: dict[str, Any] = {}  # noqa: RUF012 - only read
    masked: bool = True
    logprobs: int | None = None
    raw: bool = True
    tight: bool = False
    size: int = WIDTH


KINDS = {
    "greedy": Kind(masked=False),
    "greedy, masked": Kind(),
    "a padded head": Kind({"temperature": 0.8}, size=37),
    "temperature": Kind({"temperature": 0.8}, masked=False),
    "temperature, masked": Kind({"temperature": 0.8}),
    "under a tight budget": Kind({"temperature": 0.8}, tight=True),
    "top-k": Kind({"temperature": 0.8, "top_k": 7}),
    "top-p": Kind({"temperature": 0.8, "top_p": 0.9}),
    "min-p": Kind({"temperature": 0.8, "min_p": 0.1}),
    "all filters": Kind({"temperature": 0.8, "top_k": 7, "top_p": 0.9, "min_p": 0.1}),
    "penalties": Kind({"repetition_penalty": 1.2, "presence_penalty": 0.3, "frequency_penalty": 0.1}),
    "bans and bias": Kind(
        {"bad_words": [[3], [5]], "logit_bias": {4: 2.0}, "min_tokens": 9, "allowed_token_ids": [1, 3, 4, 9]}
    ),
    "log probabilities": Kind({"temperature": 0.8}, logprobs=0),
    "the most likely tokens": Kind({"temperature": 0.8}, logprobs=5),
    "masked log probabilities": Kind({"temperature": 0.8}, logprobs=5, raw=False),
}


def choice(kind: Kind, number: int) -> Choice:
    params = SamplingParams(**kind.options, seed=number)
    changes = None
    if not params.keeps_logits:
        changes = Penalties(params, range(number % 7), [0], kind.size).changes([1, 2, 1])
    allowed = row_of(kind.size, range(number % 5, kind.size, 2)) if kind.masked else None
    unbudgeted, ramp = None, None
    if kind.tight:
        unbudgeted, ramp = row_of(kind.size, range(kind.size)), Ramp(1.5, row_of(kind.size, [8, 9]))
    return Choice(params, number, kind.size, allowed, unbudgeted, ramp, changes, kind.logprobs, kind.raw)


class Decoding:
    """Sequences of a model with a paged cache, each of which has read a prompt."""

    def __init__(self, model: Model, sequences: int) -> None:
        self.model = moved(model, fake_weights)
        cache = PagedCache(cache_shape(self.model), sequences + 8, 256)
        self.runner = ModelRunner(self.model, cache, capture=lambda run: run)
        self.leases = []
        for number in range(sequences):
            self.leases.append(lease := cache.open([0]))
            assert cache.reserve(lease, 50)
            cache.advance(lease, [1] * (2 + number % 30))

    def step(self) -> Tensor:
        return self.runner.step([Chunk(lease, [3]) for lease in self.leases])


class Counts(NamedTuple):
    launches: Counter[str]
    sent: int
    fetched: int
    waits: int


def counts_of(counter: StepCounter) -> Counts:
    return Counts(counter.launches, counter.sent, counter.fetched, counter.waits)


def count_choices(kinds: Iterable[Kind], sequences: int, *, triton: bool) -> Counts:
    with fake_cuda(triton=triton) as counter, torch.inference_mode():
        logits = torch.zeros(sequences, WIDTH, device=CUDA)
        choices = [choice(kind, number) for number, kind in enumerate(islice(cycle(kinds), sequences))]
        requests = [Choose(logits, [one], at) for at, one in enumerate(choices)]
        with counter:
            found = DeviceChoices(requests).wait()
    assert len(found) == sequences
    return counts_of(counter)


# ---- the forward pass


@pytest.mark.parametrize("model", every(3, UNCAPPED.values()), ids=UNCAPPED.keys())
def test_a_forward_pass_launches_as_much_for_any_number_of_sequences(model: Model, triton: bool) -> None:
    counts = []
    for sequences in SIZES:
        with fake_cuda(triton=triton) as counter:
            decoding = Decoding(model, sequences)
            with counter:
                decoding.step()  # allocates the buffers of the graphs
                counter.clear()
                logits = decoding.step()
        assert (logits.shape, logits.dtype, logits.device) == ((sequences, WIDTH), torch.float32, CUDA)
        counts.append(counts_of(counter))
    assert all(one == counts[0] for one in counts), differences(counts)
    assert (counts[0].sent, counts[0].fetched, counts[0].waits) == (1, 0, 0)
    stores, reads = (
        sum(number for name, number in counts[0].launches.items() if part in name)
        for part in ("store_kvcache_kernel", "_varlen_attn")
    )
    assert stores == (model.config.layers if triton else 0) and reads == model.config.layers


def differences(counts: list[Counts]) -> str:
    """The differences of two batches, for the message of an assertion."""
    first = counts[0].launches
    return "; ".join(str({k: (first[k], v) for k, v in one.launches.items() if first[k] != v}) for one in counts[1:])


# ---- all caches


class FakeCopies(SlotStore):
    """The copies of an offload cache, without streams and events."""

    def __init__(self, counter: StepCounter, shape: CacheShape, slots: int, blocks: int, block_size: int) -> None:
        size, self.layers = (block_size, shape.kv_heads, shape.head_dim), shape.layers
        there, here = (self.layers, slots, *size), (self.layers, blocks, *size)
        self.k_device, self.v_device = (torch.empty(there, dtype=shape.dtype, device=shape.device) for _ in range(2))
        with unset_fake_temporarily():
            self.k_cpu, self.v_cpu = (counter.stage(prod(here), shape.dtype, CPU).view(here) for _ in range(2))

    def load_to_slot_layer(self, slot: int, layer: int, block: int, stop: int) -> None:
        self.copy_to_device(slot, layer, block, stop)

    def offload_slot_to_cpu(self, slot: int, block: int, rows: range, layer: int | None = None) -> None:
        for each in range(self.layers) if layer is None else [layer]:
            self.copy_to_cpu(slot, each, block, rows)

    def wait_slot_layer(self, slot: int, layer: int) -> None: ...

    def wait_offload_layer(self, slot: int, layer: int) -> None: ...


def offloaded(shape: CacheShape, counter: StepCounter) -> KVCache:
    return OffloadCache(shape, 64, 3, 8, copies=FakeCopies(counter, shape, 3, 64, 8))


CACHES: dict[str, Callable[[CacheShape, StepCounter], KVCache]] = {
    "dense": lambda shape, counter: DenseCache(shape, 4096),
    "paged": lambda shape, counter: PagedCache(shape, 64, 16),
    "blocks of 256": lambda shape, counter: PagedCache(shape, 12, 256),
    "radix": lambda shape, counter: RadixCache(shape, 1024),
    "offload": offloaded,
    "quantised paged": lambda shape, counter: QuantisedCache(PagedCache(packed_shape(shape), 64, 16), shape),
    "quantised offload": lambda shape, counter: QuantisedCache(offloaded(packed_shape(shape), counter), shape),
}


PAIRS = [(name, cache) for name in ALL for cache in CACHES if name == "windows" or cache in ("dense", "blocks of 256")]


@pytest.mark.parametrize(("name", "cache"), every(3, PAIRS, unpack=True))
def test_nothing_is_read_back_and_nothing_is_on_the_cpu(name: str, cache: str) -> None:
    """Prompts, chunks and single tokens of some sequences, with each architecture and each cache."""
    with fake_cuda(triton=False) as counter, torch.inference_mode():
        there = moved(ALL[name], fake_weights)
        runner = ModelRunner(there, CACHES[cache](cache_shape(there), counter), capture=lambda run: run)
        leases = [runner.cache.open([0]) for _ in range(3)]
        with counter:
            for counts in ((3, 11, 30), (1, 4, 1), (1, 1, 1), (1, 1, 1)):
                for lease, count in zip(leases, counts, strict=True):
                    assert runner.cache.reserve(lease, count)
                pairs = zip(leases, counts, strict=True)
                logits = runner.step([Chunk(lease, list(range(count))) for lease, count in pairs])
                assert logits.device == CUDA and logits.dtype == torch.float32 and logits.shape[0] == 3
    assert counter.waits == 0 and (counter.fetched > 0) == ("offload" in cache)


# ---- the choice of all tokens


@pytest.mark.parametrize("kind", every(2, KINDS.values()), ids=KINDS.keys())
def test_choices_launch_as_much_for_any_number_of_sequences(kind: Kind, triton: bool) -> None:
    single, *counts = [count_choices([kind], sequences, triton=triton) for sequences in SIZES]
    assert all(one == counts[0] for one in counts), differences(counts)
    assert single.launches <= counts[0].launches  # a single row is contiguous, whatever its strides are
    for one in (single, counts[0]):
        assert (one.sent, one.fetched, one.waits) == (1, 1, 1)


def test_a_mixture_launches_what_its_kinds_need(triton: bool) -> None:
    kinds = [kind for kind in KINDS.values() if kind.size == WIDTH]
    counts = [count_choices(kinds, sequences, triton=triton) for sequences in (16, 64, 256)]
    assert all(one == counts[0] for one in counts), differences(counts)
    assert (counts[0].sent, counts[0].fetched, counts[0].waits) == (1 + triton, 1, 1)


def test_simple_choices_are_two_launches_of_triton() -> None:
    pytest.importorskip("triton", reason=REASON)
    for name in ("greedy", "greedy, masked", "a padded head", "temperature, masked", "under a tight budget"):
        launches = count_choices([KINDS[name]], 64, triton=True).launches
        assert launches == {"triton scan_kernel": 1, "triton pick_kernel": 1, "aten.cat.default": 1}, name


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("min-p", ["min_p"]),
        ("top-k", ["top_p"]),
        ("top-p", ["top_p"]),
        ("all filters", ["min_p", "top_p"]),
        ("penalties", ["penalties", "rescan"]),
        ("bans and bias", ["penalties", "rescan"]),
    ],
)
def test_filters_and_changes_are_one_or_two_more_launches(name: str, more: list[str]) -> None:
    pytest.importorskip("triton", reason=REASON)
    launches = count_choices([KINDS[name]], 64, triton=True).launches
    kernels = {f"triton {kernel}_kernel": 1 for kernel in ("scan", "pick", *more)}
    assert launches == kernels | {"aten.cat.default": 1}


def test_a_nucleus_of_many_tokens_is_waited_for_twice(triton: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only second wait: the decision needs tokens past the first candidates. All rows that need it share it."""
    fetch = transfer.Fetch.wait
    rows = iter([1.0, 0.0])

    def unresolved(self: transfer.Fetch) -> Tensor:
        found = fetch(self)
        found.view(64, -1)[:, Column.UNRESOLVED] = next(rows)
        return found

    monkeypatch.setattr(transfer.Fetch, "wait", unresolved)
    counts = count_choices([KINDS["top-p"]], 64, triton=triton)
    assert (counts.sent, counts.fetched, counts.waits) == (2, 2, 2)


# ---- the scheduler

VOCABULARY = Vocabulary([b"a", b"b", *(b"%d" % number for number in range(WIDTH - 3))], eos_token_ids=[WIDTH - 1])
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"temperature": 0.7}, {"temperature": 0.7, "top_p": 0.9}, {"repetition_penalty": 1.3},
)  # fmt: skip


def task(number: int, constrained: bool) -> Task:
    """A sequence that chooses token 0 in each step, because nothing else is ever read."""
    grammar = GrammarCompiler(VOCABULARY).compile_regex("[ab]{40,60}") if constrained else None
    matcher = None if grammar is None else GrammarMatcher(grammar)
    params = SamplingParams(**OPTIONS[number % len(OPTIONS)], seed=number)
    wanted = LogprobParams(2 if number % 3 == 0 else None, None, "masked" if number % 2 else "raw")
    prompt, free = [2 + number % 40, 3], matcher is None
    return Task(Sequence(VOCABULARY, prompt, matcher, params, max_tokens=60, open_ended=free, logprobs=wanted))


def can_run(number: int) -> bool:
    """Whether `task(number)` has neither penalties nor log probabilities."""
    return number % 3 != 0 and number % 4 != 3


@pytest.mark.parametrize("kind", ["waiting", "ahead", "runs"])
@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
def test_a_step_of_the_scheduler_waits_once(
    constrained: bool, kind: str, triton: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it runs ahead, it waits for the tokens of the previous step after it has launched the next pass."""
    monkeypatch.setattr(stepper, "SLOW_SECONDS", 1e9)  # operations on fake tensors take longer than on a device
    monkeypatch.setattr(runs, "MIN_RUNNING", 0 if kind == "runs" else 1000)
    launched, run_ahead = [], kind != "waiting"
    for sequences in (12, draws(60)):
        with fake_cuda(triton=triton) as counter, torch.inference_mode():
            model = moved(ALL["qwen3"], fake_weights)
            cache = PagedCache(cache_shape(model), sequences + 4, 256)
            runner = ModelRunner(model, cache, capture=lambda run: run)
            scheduler = Scheduler(runner, token_budget=2048, run_ahead=run_ahead)
            for number in range(sequences):
                scheduler.add([task(number, constrained)])
            with counter:
                for number in range(4):
                    counter.clear()
                    outcomes = scheduler.step()
                    assert not [error for _, error in outcomes if isinstance(error, Exception)]
                    # the first pass may be too large for a graph, and then sends each tensor separately; a pass that
                    # runs ahead also sends which tokens it reads; the masks of runs are sent from where they are
                    ahead = 2 * run_ahead + (kind == "runs")
                    assert counter.sent <= (MAX_SENT + 7 if number == 0 else MAX_SENT + ahead)
                    assert (counter.fetched, counter.waits) == (1, int(number > 0 or not run_ahead))
            assert scheduler.running_count == sequences
            assert len(scheduler._ahead.runs) == (sum(map(can_run, range(sequences))) if kind == "runs" else 0)
        launched.append(counter.launches)
    assert launched[0] == launched[1]


# ---- whether a read would be noticed


@pytest.mark.parametrize("reads", [lambda x: x[0, 0].item(), lambda x: x + torch.zeros(WIDTH)], ids=["item", "cpu"])
def test_a_step_that_reads_is_refused(reads: Callable[[Tensor], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A read in the model's head, and one in the choice."""
    with fake_cuda(triton=False) as counter, torch.inference_mode():
        decoding = Decoding(ALL["llama"], 4)
        head = decoding.model.logits
        decoding.model.logits = lambda hidden: (reads(head(hidden)), head(hidden))[1]
        with counter, pytest.raises(DeviceReadError):
            decoding.step()
    masked = choose_batch._apply_masks
    monkeypatch.setattr(choose_batch, "_apply_masks", lambda model, table: (reads(model), masked(model, table))[1])
    with pytest.raises(DeviceReadError):
        count_choices([KINDS["top-k"]], 4, triton=False)
