"""Part `throughput`: tokens per second of models in the shapes of Qwen3-1.7B and Llama-3-8B, with and without
constraints.

Weights are random, drawn on the device. Each sequence has its own JSON Schema. A single step is also examined: how
often the host waits for the device, and what the profiler reports.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest import mock

import torch
from torch.profiler import ProfilerActivity, profile

from guided.engine import runs
from guided.engine.engine import Engine, Request
from guided.kernels import choose
from guided.kernels.choose_device import DeviceChoices
from guided.models.decoder import Decoder, DecoderConfig
from guided.vocabulary.vocabulary import Vocabulary
from scripts.gpu.attention import attention_of, best_path, paths_here
from scripts.gpu.decoding import Run, counted_waits, decode, make_engine, requests, start_all, take
from scripts.gpu.inputs import LLAMA_8B, QWEN_17B, TINY, VOCABULARY_SIZE, schemas, vocabulary
from scripts.gpu.report import Report, Setting

__all__ = ["run"]

SEQUENCES: Final = (1, 8, 64, 256)
TOKENS: Final = 256  # tokens of an output
SHORT: Final = 96  # tokens of an output with a tight budget: the members of an object take at least about 40
DRY_TOKENS: Final = 100
COUNTED: Final = 8  # number of steps in which waits are counted
SPEED, STEP = "Tokens per second", "Milliseconds of a step in which all sequences decode"


def run(setting: Setting, report: Report) -> None:
    """See the module."""
    tokens = vocabulary(setting.pick(VOCABULARY_SIZE, 600))
    grammars = schemas(setting.pick(256, 4))
    path = best_path(setting)
    report.note(f"attention used: {path} (available: {', '.join(paths_here(setting))})")
    shapes = {"Qwen3-1.7B": QWEN_17B, "Llama-3-8B": LLAMA_8B} if not setting.dry else {"a tiny Qwen3": TINY}
    for name, config in shapes.items():
        with report.checking(f"{name}: all requests end without an error"), attention_of(path), chosen_there(setting):
            measure(setting, report, name, config, tokens, grammars)
        gc.unfreeze()
        gc.collect()
        if not setting.dry:
            torch.cuda.empty_cache()
            report.figure("Device", name, "peak memory", torch.cuda.max_memory_allocated() / 1e9, "GB")
            torch.cuda.reset_peak_memory_stats()


@contextmanager
def chosen_there(setting: Setting) -> Iterator[None]:
    """In a dry run, choose tokens as on a device, without the native kernel, and begin runs in the smallest batch."""
    with ExitStack() as stack:
        if setting.dry:
            stack.enter_context(mock.patch.object(choose, "_choose_on_cpu", DeviceChoices))
            stack.enter_context(mock.patch.object(runs, "MIN_RUNNING", 2))
        yield


def measure(
    setting: Setting, report: Report, name: str, config: DecoderConfig, tokens: Vocabulary, grammars: list[Any]
) -> None:
    """Measure one model."""
    dtype = setting.pick(torch.bfloat16, torch.float32)
    model = Decoder.random(config, dtype=dtype, device=setting.device)
    sizes = setting.pick(SEQUENCES, (1, 4))
    engine = make_engine(setting, model, tokens, sizes[-1])
    warm_up(setting, engine, tokens, grammars)
    gc.collect()
    gc.freeze()  # as `guided serve` does
    report.note(f"{name}: measured after a warm-up; {len(grammars)} schemas, at most {sizes[-1]} sequences")
    errors = list[str]()
    kinds = {"free": ([], TOKENS), "constrained": (grammars, TOKENS), "constrained, tight budget": (grammars, SHORT)}
    for count in sizes:
        for kind, (constraints, most) in kinds.items():
            workload = requests(tokens, count, constraints, setting.pick(most, DRY_TOKENS), temperature=0.8)
            errors += measure_kind(setting, report, engine, f"{name}, {count} sequences", kind, workload)
        if count >= runs.MIN_RUNNING:
            workload = requests(tokens, count, grammars, setting.pick(TOKENS, DRY_TOKENS), temperature=0.8)
            with mock.patch.object(runs, "MIN_RUNNING", count + 1):
                errors += measure_kind(setting, report, engine, f"{name}, {count} sequences", "without runs", workload)
    look_at_steps(setting, report, engine, name, tokens, grammars)
    errors += compare_paths(setting, report, engine, name, tokens)
    assert not errors, errors[:3]


def measure_kind(
    setting: Setting, report: Report, engine: Engine, name: str, kind: str, workload: Sequence[Request]
) -> list[str]:
    """Measure some requests that run together. Return the errors."""
    if setting.is_over:
        report.note(f"{name}, {kind}: left out, the time is over")
        return []
    run = decode(setting, engine, workload)
    report.figure(SPEED, name, kind, run.tokens / run.seconds, "tokens/s")
    if run.steps:
        report.figure(STEP, name, kind, run.step, "ms")
    return run.errors


def compare_paths(setting: Setting, report: Report, engine: Engine, name: str, tokens: Vocabulary) -> list[str]:
    """Tokens per second with each attention implementation that is available, and errors of requests."""
    errors, runner = list[str](), engine.scheduler.runner
    for path in paths_here(setting):
        runner._graphs = None  # they contain the kernel of another implementation
        for count in setting.pick((8, 64), (2,)):
            if setting.is_over:
                return errors
            most = setting.pick(24 if path == "one by one" else SHORT, DRY_TOKENS // 4)
            with attention_of(path):
                for _ in range(2):  # the first one compiles and captures
                    run = decode(setting, engine, requests(tokens, count, [], most, temperature=0.8))
            errors += run.errors
            speed = run.tokens / run.seconds
            report.figure("Tokens per second by attention", f"{name}, {count} sequences", path, speed, "tokens/s")
    return errors


def warm_up(setting: Setting, engine: Engine, tokens: Vocabulary, grammars: list[Any]) -> None:
    """Compile all grammars and kernels, and capture the graphs."""
    for count in setting.pick(SEQUENCES, (1, 4)):
        for constraints in ([], grammars):
            run = decode(
                setting, engine, requests(tokens, count, constraints, setting.pick(SHORT, DRY_TOKENS), temperature=0.8)
            )
            assert not run.errors, run.errors[:3]


def look_at_steps(
    setting: Setting, report: Report, engine: Engine, name: str, tokens: Vocabulary, grammars: list[Any]
) -> None:
    """Count waits and profile steps in which all sequences decode."""
    count = setting.pick(64, 4)
    options = {"free": [], "constrained": grammars}
    for kind, constraints in options.items():
        scheduler, run = engine.scheduler, Run()
        workload = requests(tokens, count, constraints, setting.pick(SHORT, DRY_TOKENS), temperature=0.8)
        start_all(engine, workload)
        while scheduler and (scheduler.running_count < count or scheduler.prefilling_count):
            take(run, scheduler.step())
        with counted_waits(setting) as waits:
            for _ in range(setting.pick(COUNTED, 2)):
                take(run, scheduler.step())
        steps = setting.pick(COUNTED, 2)
        row = f"{name}, {count} sequences, {kind}"
        report.figure("Host waits per step", row, "other synchronizing operations", len(waits.warned) / steps, "")
        report.figure("Host waits per step", row, "waits for chosen tokens", waits.fetched / steps, "")
        if waits.warned:
            report.note(f"{row}: waits in {Counter(waits.warned).most_common(5)}")
        if best_path(setting) != "one by one":
            report.check(f"{row}: the host waits once in a step", not waits.warned and 0 < waits.fetched <= steps)
        profile_step(setting, report, scheduler, run, row)
        while scheduler:
            take(run, scheduler.step())
        assert not run.errors, run.errors[:3]


def profile_step(setting: Setting, report: Report, scheduler: Any, run: Run, row: str) -> None:
    """The slowest kernels of a step, and the time of host and device."""
    activities = [ProfilerActivity.CPU] if setting.dry else [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities) as profiler:
        take(run, scheduler.step())
        setting.wait()
    events = profiler.key_averages()
    kernels = [event for event in events if event.device_type == torch.autograd.DeviceType.CUDA]
    on_device = {event.key: event.self_device_time_total for event in kernels}
    host = sum(event.self_cpu_time_total for event in events if "Synchronize" not in event.key)
    report.figure("Profile of a step", row, "device", sum(on_device.values()) / 1e3, "ms")
    report.figure("Profile of a step", row, "host without waits", host / 1e3, "ms")
    for key, microseconds in sorted(on_device.items(), key=lambda pair: -pair[1])[:6]:
        report.note(f"{row}: {microseconds / 1e3:.3f} ms in {key[:90]}")
