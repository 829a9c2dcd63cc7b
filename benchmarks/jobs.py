"""The jobs of a worker. Each job is a function of a `Place` that returns plain numbers.

Times are nanoseconds of the call alone, without the garbage collector. A time is the lesser of `time.perf_counter_ns`,
which is precise for short calls, and `time.process_time_ns`, which excludes other processes. Memory is the growth of
the native heap; for the vocabulary, whose tables are partly Python objects, it is the growth of the resident set.
"""

from __future__ import annotations

import ctypes
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from benchmarks import llama3
from benchmarks.audit_walks import complete, follow
from benchmarks.engines import ENGINES, Refused
from benchmarks.exact_minimum import exact_minimum

__all__ = [
    "Place",
    "budgets",
    "compile_times",
    "complete",
    "first_masks",
    "first_walk",
    "follow",
    "hard",
    "long_walk",
    "nest",
    "prepare_again",
    "recompile",
    "slack",
    "walk",
    "warm",
]

_wall, _cpu = time.perf_counter_ns, time.process_time_ns
_CACHES = 256 << 20  # bytes, more than a CPU's caches hold


class _Watch:
    """A stopwatch that starts when it is created. `lap()`: the time since the start, or since the last lap."""

    __slots__ = ("cpu", "wall")

    def __init__(self) -> None:
        self.cpu, self.wall = _cpu(), _wall()

    def lap(self) -> int:
        wall, cpu = _wall(), _cpu()
        duration = min(wall - self.wall, cpu - self.cpu)
        self.cpu, self.wall = _cpu(), _wall()
        return duration


class Place:
    """A process's engine, its vocabulary, and its grammars by name."""

    def __init__(self, engine: str, vocabulary: Path) -> None:
        self.tokens = llama3.load(vocabulary)
        self.tokens.encode("tables of the encoder are not part of any measurement")
        self.tokens.spelled  # noqa: B018  (computed before the clock starts)
        _import(ENGINES[engine])
        self.make = ENGINES[engine]
        before, watch = resident(), _Watch()
        self.engine = self.make(self.tokens)
        duration = watch.lap()
        self.row, self.words = self.engine.row()
        self.prepared = {"ns": duration, "bytes": resident() - before, "base": before}
        self.grammars: dict[str, Any] = {}
        self.other = np.zeros(_CACHES, np.int8)


def _import(engine: Any) -> None:
    """Import the library before anything is timed."""
    import importlib

    importlib.import_module(engine.package)
    if engine.package == "llguidance":
        importlib.import_module("llguidance.tiktoken")
        importlib.import_module("llguidance.numpy")
    if engine.package == "xgrammar":
        import torch

        torch.set_num_threads(1)


def resident() -> int:
    """The resident memory of the process, in bytes."""
    return int(psutil.Process().memory_info().rss)


_MALLINFO = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class _MallInfo(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in _MALLINFO)


def in_use() -> int:
    """Bytes of the native heap that are in use (from glibc's mallinfo2, which is exact, unlike the resident set)."""
    try:
        info = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return resident()
    info.restype = _MallInfo
    now = info()
    return int(now.uordblks + now.hblkhd)


def prepare_again(place: Place, times: int) -> list[int]:
    """Prepare the vocabulary this many times."""
    out = []
    for _ in range(times):
        watch = _Watch()
        engine = place.make(place.tokens)
        out.append(watch.lap())
        del engine
    return out


def warm(place: Place, specs: list[tuple[str, str, list[str]]]) -> int:
    """Compile and walk each (kind, text, instances) as an unmeasured warm-up. Return how many were refused."""
    refused = 0
    for kind, text, instances in specs:
        try:
            compiled = place.engine.compile(kind, text)
        except Exception:  # a warm-up that is refused still warms
            refused += 1
            continue
        for instance in instances:
            _walk(place, compiled, place.tokens.encode(instance))
    return refused


def compile_times(place: Place, name: str, kind: str, text: str, repeats: int) -> dict[str, Any]:
    """Compile and keep a grammar under `name`: ns to the grammar and to its first mask, without caches; bytes of
    growth.

        The first number of each list is the first compilation in the process, including the library's own tables. A
        compilation of more than a second is not repeated.
    """
    engine = place.engine
    out: dict[str, Any] = {"compile": [], "first": []}
    for _ in range(repeats):
        place.grammars.pop(name, None)
        engine.forget()
        before, watch = in_use(), _Watch()
        compiled = engine.compile(kind, text)
        compiling = watch.lap()
        matcher = engine.matcher(compiled)
        engine.fill(matcher, place.row)
        filling = watch.lap()
        place.grammars[name] = compiled
        out["compile"].append(compiling)
        out["first"].append(compiling + filling)
        out.setdefault("bytes", in_use() - before)
        if compiling > 10**9:
            break
    return out


def recompile(place: Place, name: str, kind: str, text: str) -> None:
    """Compile a new grammar without states, and keep it under `name`."""
    place.grammars.pop(name, None)
    place.engine.forget()
    place.grammars[name] = place.engine.compile(kind, text)


def walk(place: Place, name: str, text: str, most: int | None = None, evict: bool = False) -> dict[str, Any]:
    """Follow an instance: ns of each mask and of each step, including the mask at the end, and the growth in bytes.
    `evict`: before each mask, fill the CPU's caches with other data, as a forward pass does.
    """
    before = in_use()
    ids = place.tokens.encode(text)[:most]
    out = _walk(place, place.grammars[name], ids, ends=most is None, other=place.other if evict else None)
    return out | {"bytes": in_use() - before}


def _walk(
    place: Place, compiled: Any, ids: list[int], *, ends: bool = True, other: npt.NDArray[np.int8] | None = None
) -> dict[str, Any]:
    """`stopped`: the token at which the instance was refused, or None. `other`: data to change before each mask."""
    engine, row, words = place.engine, place.row, place.words
    matcher = engine.matcher(compiled)
    fills, accepts = [], []
    out: dict[str, Any] = {"fills": fills, "accepts": accepts, "stopped": None}
    for id in ids:
        if other is not None:
            other += 1
        watch = _Watch()
        engine.fill(matcher, row)
        fills.append(watch.lap())
        accepted = bool(int(words[id >> 5]) >> (id & 31) & 1)
        if accepted:
            watch = _Watch()
            accepted = engine.accept(matcher, id)
            accepts.append(watch.lap())
        if not accepted:
            return out | {"stopped": len(fills) - 1}
    if ends:
        watch = _Watch()
        engine.fill(matcher, row)
        fills.append(watch.lap())
        end = place.tokens.end
        if not int(words[end >> 5]) >> (end & 31) & 1:
            out["stopped"] = len(ids)
    return out


def nest(place: Place, text: str, depth: int) -> dict[str, int]:
    """Open and close `depth` arrays, with a mask at each step: ns on the way in and out, bytes of growth."""
    engine, row = place.engine, place.row
    opening, closing = (place.tokens.ranks[byte] for byte in (b"[", b"]"))
    compiled = engine.compile("json_schema", text)
    before = in_use()
    matcher = engine.matcher(compiled)
    times = []
    for token in (opening, closing):
        watch = _Watch()
        for _ in range(depth):
            engine.fill(matcher, row)
            if not engine.accept(matcher, token):
                raise RuntimeError("an array was refused")
        times.append(watch.lap())
    return {"in": times[0], "out": times[1], "bytes": in_use() - before}


def budgets(place: Place, name: str, text: str, slacks: list[int]) -> dict[str, Any]:
    """For guided only: at each position of an instance, ns of the plain mask and of masks with a budget.

    `plain`: without a budget. `first` and `again`: a budget of 1,000 tokens that shrinks as the text grows, over
        states on their first and on a later request with a budget. `slack`: for each of `slacks`, a budget of so
        many tokens more than needed.
    """
    matcher, row = place.engine.matcher(place.grammars[name]), place.row
    out: dict[str, Any] = {"plain": [], "first": [], "again": [], "slack": {slack: [] for slack in slacks}}

    def timed(budget: int | None) -> int:
        watch = _Watch()
        matcher.fill_next_token_bitmask(row, 0, max_tokens=budget)
        return watch.lap()

    for step, id in enumerate(place.tokens.encode(text)):
        timed(None)
        out["plain"].append(timed(None))
        needed = matcher.min_tokens_to_finish()
        out["first"].append(timed(needed + 1000 - step))
        out["again"].append(timed(needed + 1000 - step))
        for slack in slacks:
            out["slack"][slack].append(timed(needed + slack))
        matcher.accept_token(id)
    return out


def slack(place: Place, schema: str, options: dict[str, Any], seconds: float) -> dict[str, int | None]:
    """For guided only: the result of `min_tokens_to_finish` for a schema, and the exact minimum (None: not found in
    time).
    """
    import guided

    vocabulary = place.engine.vocabulary
    compiler = guided.GrammarCompiler(vocabulary, limits=guided.Limits(memory=2 << 30), cache_bytes=0)
    try:
        grammar = compiler.compile_json_schema(schema, **options)
    except guided.GuidedError as error:
        raise Refused(str(error)) from None
    bound = guided.GrammarMatcher(grammar).min_tokens_to_finish()
    answer = exact_minimum(guided.GrammarMatcher(grammar), bound, seconds=seconds)
    return {"bound": bound, "exact": answer.tokens, "at_least": answer.at_least, "states": answer.states}


def first_masks(place: Place, way: str, spec: str, repeats: int) -> list[int]:
    """For guided only: ns to the first mask, without caches.

    `way`: "text", "stored" (as `guided.grammar` reads it) or "bytes" (`CompiledGrammar.to_bytes`) of the ready-made
        grammar `spec`; or "schema": from the bytes of the JSON Schema `spec`.
    """
    import guided
    from guided.frontends import library

    compiler, vocabulary = place.engine.compiler, place.engine.vocabulary
    built_in = None if way == "schema" else library.library()[spec]

    def from_text() -> guided.CompiledGrammar:
        if built_in is None:
            grammar: guided.CompiledGrammar = place.engine.compile("json_schema", spec)
        else:
            grammar = compiler.compile_lark(built_in.text, **built_in.options)
        return grammar

    stored = from_text().to_bytes()
    make = {
        "text": from_text,
        "stored": lambda: compiler.compile(library.grammar(spec)),
        "bytes": lambda: guided.CompiledGrammar.from_bytes(stored, vocabulary),
        "schema": lambda: guided.CompiledGrammar.from_bytes(stored, vocabulary),
    }[way]
    out = []
    with warnings.catch_warnings(category=guided.GuidedWarning, action="ignore"):  # warnings about unknown keywords
        for _ in range(repeats):
            place.engine.forget()
            library._load_part.cache_clear()
            watch = _Watch()
            place.engine.fill(place.engine.matcher(make()), place.row)
            out.append(watch.lap())
    return out


def first_walk(place: Place, schema: str, texts: list[str], left: int | None) -> list[int]:
    """For guided only: compile a schema and walk some of its texts: ns of each mask, in CPU time.

    `left`: the budget beyond the remaining tokens of the text; None: no budget.
    """
    import guided

    compiler = guided.GrammarCompiler(place.engine.vocabulary, cache_bytes=0)
    try:
        with warnings.catch_warnings(category=guided.GuidedWarning, action="ignore"):  # warnings about unknown keywords
            grammar = compiler.compile_json_schema(schema, unknown_format="ignore")
    except guided.GuidedError as error:
        raise Refused(str(error)) from None
    out: list[int] = []
    for text in texts:
        matcher, ids = guided.GrammarMatcher(grammar), place.tokens.encode(text)
        for step, id in enumerate(ids):
            budget = None if left is None else left + len(ids) - step
            start = _cpu()
            matcher.fill_next_token_bitmask(place.row, 0, max_tokens=budget)
            out.append(_cpu() - start)
            if not matcher.accept_token(id):
                break
    return out


def hard(
    place: Place, schema: str, options: dict[str, Any], text: str, most: int, max_tokens: int | None
) -> dict[str, Any]:
    """For guided only: a walk along a text: ns of the compilation, of each mask and each step; growth of the resident
    set.
    """
    from guided import GuidedError

    engine, row, words = place.engine, place.row, place.words
    ids = place.tokens.encode(text)[:most]
    before, peak = resident(), 0
    watch = _Watch()
    try:
        grammar = engine.compiler.compile_json_schema(schema, **options)
    except GuidedError as error:
        raise Refused(f"{error} ({watch.lap() / 1e6:.0f} ms)") from None
    out: dict[str, Any] = {"compile": watch.lap(), "fills": [], "accepts": [], "stopped": None}
    matcher = engine.matcher(grammar)
    for step, id in enumerate(ids):
        budget = None if max_tokens is None else max_tokens - step
        watch = _Watch()
        matcher.fill_next_token_bitmask(row, 0, max_tokens=budget)
        out["fills"].append(watch.lap())
        accepted = bool(int(words[id >> 5]) >> (id & 31) & 1)
        if accepted:
            watch = _Watch()
            accepted = engine.accept(matcher, id)
            out["accepts"].append(watch.lap())
        if not accepted:
            out["stopped"] = step
            break
        if step % 100 == 0:
            peak = max(peak, resident())
    return out | {"bytes": max(peak, resident()) - before}


def long_walk(place: Place, way: str, spec: str, before: str, again: str, after: str, count: int) -> dict[str, Any]:
    """For guided only: walk the tokens of `before`, those of `again` repeatedly up to `count` tokens, and those of
    `after`.

        Brackets are closed again. Returns ns of a mask and a step together, as the mean of each tenth, and the growth
        of the resident set.
    """
    engine, row, encode = place.engine, place.row, place.tokens.encode
    compiler = engine.compiler
    grammar = compiler.compile_gbnf(spec) if way == "gbnf" else compiler.compile_lark(spec, semantics=way)
    middle = encode(again)
    ids = encode(before) + middle * (count // len(middle) // (2 if again == "(" else 1)) + encode(after)
    if again == "(":
        ids += encode(")") * (count // 2)
    size, matcher, tenths = resident(), engine.matcher(grammar), []
    for tenth in range(10):
        part = ids[tenth * len(ids) // 10 : (tenth + 1) * len(ids) // 10]
        watch = _Watch()
        for id in part:
            engine.fill(matcher, row)
            if not engine.accept(matcher, id):
                raise RuntimeError(f"a token was refused: {id}")
        tenths.append(watch.lap() / len(part))
    return {"tenths": tenths, "bytes": resident() - size, "accepting": matcher.is_accepting()}
