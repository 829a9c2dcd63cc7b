"""The engine beside transformers and llama.cpp: decoding, extraction under a schema, and the KV cache.

In: SmolLM2's GGUF file. Out: tokens per second at batch 1 and 8; seconds for ten extractions, also without forced
tokens and without prefix caching; seconds with and without a KV cache. Each engine is a process, and they take turns.
Ratios are computed within a round, whose runs meet the same noise. The median round counts.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.extraction import INSTRUCTIONS, TASKS, is_json
from benchmarks.runners import Process

__all__ = ["measure_engine"]

_ENGINES = (("guided", "auto"), ("transformers", "bfloat16"), ("llama.cpp", ""))
VARIANTS = ("no forced tokens, no prefix cache", "no prefix cache", "all and drafts", "all")


def measure_engine(model: Path, *, repeats: int, threads: int = 2, tokens: int = 64) -> dict[str, Any]:
    """Run all sections. Engines that are not installed are left out."""
    engines: dict[str, Process] = {}
    for name, dtype in _ENGINES:
        try:
            process = Process(name, model, threads, dtype)
        except (ImportError, RuntimeError) as error:
            print(f"{name} is left out: {error}", flush=True)
            continue
        engines[process.about] = process
    prompts, schemas = _prompts(model), [schema for _, schema in TASKS]
    rounds: list[dict[str, Any]] = []
    for number in range(repeats + 1):  # the first round is a warm-up
        rounds.append(_round(engines, prompts, schemas, tokens))
        print(f"round {number} of {repeats}", flush=True)
    cached = _cached(next(iter(engines.values())), prompts[0])
    for process in engines.values():
        process.close()
    return {"rounds": rounds[1:], "cached": cached, "threads": threads, "tokens": tokens}


def _prompts(model: Path) -> list[list[int]]:
    """The tasks as prompts of the model's chat template."""
    from guided import Vocabulary
    from guided.chat import ChatTemplate
    from guided.files.gguf import GgufFile

    vocabulary = Vocabulary.from_gguf(model)
    with GgufFile(model) as file:
        chat = ChatTemplate.from_metadata(vocabulary, file.metadata.get("tokenizer.chat_template"))
    assert chat is not None
    return [
        chat.render([{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": text}])
        for text, _ in TASKS
    ]


def _round(engines: dict[str, Process], prompts: list[list[int]], schemas: list[Any], tokens: int) -> dict[str, Any]:
    """Run every engine once."""
    short = [prompts[i % len(prompts)][-60:] for i in range(8)]
    results: dict[str, Any] = {}
    for batch in (1, 8):
        for name, engine in engines.items():
            once = engine.call("decode", short[:batch], 1)
            whole = engine.call("decode", short[:batch], tokens + 1)
            results.setdefault(name, {})[f"decode_{batch}"] = batch * tokens / (whole - once)
    for name, engine in engines.items():
        for variant in VARIANTS if name.startswith("guided") else VARIANTS[-1:]:
            answers = engine.call("extract", prompts, schemas, variant)
            answers["valid"] = sum(map(is_json, answers.pop("texts")))
            results[name].setdefault("extract", {})[variant] = answers
    return results


def _cached(engine: Process, prompt: list[int]) -> list[dict[str, float]]:
    """Measure with and without the cache, from a short prompt."""
    out = []
    for length in (100, 1000):
        sample = 5  # passes without a cache at several lengths; their mean represents all lengths
        ends = [20 + length * (2 * i + 1) // (2 * sample) for i in range(sample)]
        whole = (prompt * (1 + length // len(prompt)))[: 20 + length]
        naive = sum(engine.call("naive", whole[:end], 1) for end in ends) / sample * length
        cached = engine.call("decode", [prompt[:20]], length)
        out.append({"length": length, "naive": naive, "cached": cached})
    return out


def summary(data: dict[str, Any]) -> dict[str, Any]:
    """Medians, and ratios of guided to each other engine within rounds."""
    rounds = data["rounds"]
    names = list(rounds[0])
    first = names[0]

    table: dict[str, Any] = {}
    for name in names:
        row: dict[str, Any] = {}
        for key in ("decode_1", "decode_8"):
            speeds = [results[name][key] for results in rounds]
            ratios = [results[first][key] / results[name][key] for results in rounds]
            row[key] = median(speeds), median(ratios)
        row["extract"] = {}
        for variant, last in rounds[-1][name]["extract"].items():
            seconds = [results[name]["extract"][variant]["seconds"] for results in rounds]
            whole = [results[first]["extract"]["all"]["seconds"] for results in rounds]
            row["extract"][variant] = {
                "seconds": median(seconds),
                "ratio": median(mine / theirs for mine, theirs in zip(seconds, whole, strict=True)),
                **{key: last[key] for key in ("tokens", "passes", "valid")},
            }
        table[name] = row
    return table
