"""`python -m benchmarks.bad_inputs [PART ...]`: searches for bad inputs, and prints the findings, the worst first.

In: parts of names of constructs; without any, all constructs are searched. Out: a line for each finding; exit code 1 if
there is any. `--json PATH` stores results, so a run that was interrupted can continue. `--pairs` adds every pair of
keywords of JSON Schema in one schema. `--worst PATH` writes the twenty worst findings as requests.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.bad_inputs.calls import measure_calls, vocabulary
from benchmarks.bad_inputs.construct import Construct
from benchmarks.bad_inputs.others import OTHERS
from benchmarks.bad_inputs.schemas import SCHEMAS, pairs
from benchmarks.bad_inputs.search import Finding, Measure, Settings, search
from benchmarks.bad_inputs.texts import TEXTS
from benchmarks.bad_inputs.worst import worst_requests

__all__ = ["chosen", "line_of", "main"]

_WORST: Final = 20


def chosen(parts: list[str], with_pairs: bool, with_bodies: bool = True) -> list[Construct]:
    """The constructs whose name contains one of the parts."""
    known = [*SCHEMAS, *TEXTS, *OTHERS, *(pairs() if with_pairs else ())]
    if with_bodies:  # needs the server's packages, and torch
        from benchmarks.bad_inputs.bodies import BODIES

        known += BODIES
    return [each for each in known if not parts or any(part in each.name for part in parts)]


def measure_of(construct: Construct) -> Measure:
    """The function that measures a construct."""
    if not construct.is_request:
        return measure_calls
    from benchmarks.bad_inputs.asking import measure_request

    return measure_request


def line_of(finding: Finding) -> str:
    """A finding as a line of a report."""
    size = f"{finding.value / 2**20:8.0f} MiB" if "memory" in finding.what else f"{finding.value:8.2f} s  "
    slope = f" n^{finding.slope:.1f}" if finding.slope is not None else ""
    refused = f" ({finding.refused})" if finding.refused else ""
    head = f"{finding.ratio:7.1f}x {finding.what:16}{size} {finding.call:20} n={finding.n:<9}"
    return f"{head} {finding.construct}{slope}{refused}"


def _arguments() -> argparse.Namespace:
    about, settings = (__doc__ or "").split("\n\n")[0], Settings()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bad_inputs", description=about)
    add = parser.add_argument
    add("parts", nargs="*", help="parts of names of constructs")
    add("--pairs", action="store_true", help="also search every pair of keywords of JSON Schema")
    add("--no-bodies", action="store_true", help="leave out the bodies of requests, which need a server")
    add("--most", type=int, default=settings.most, help="the largest n")
    add("--factor", type=int, default=0, help="factor between one n and the next (2)")
    add("--cpu", type=int, default=settings.cpu, help="seconds that one n may take")
    add("--patience", type=float, default=settings.patience, help="seconds after which an n is the last one")
    add("--tolerance", type=float, default=1.0, help="report calls that take more than this many times their bound (1)")
    add(
        "--json",
        type=Path,
        help="a file to which results are appended, a line a construct; what it has is not run again",
    )
    add("--worst", type=Path, help="where the worst twenty are written as requests, for benchmarks.server_neighbours")
    add("--list", action="store_true", help="print the names of the constructs, and end")
    return parser.parse_args()


def _earlier(path: Path | None) -> dict[str, list[Finding]]:
    """The results of an earlier run, by construct."""
    if path is None or not path.exists():
        return {}
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["construct"]: [Finding(**each) for each in row["findings"]] for row in rows}


def main() -> int:
    """Search, and print the findings."""
    args = _arguments()
    constructs = chosen(args.parts, args.pairs, not args.no_bodies)
    if args.list:
        print("\n".join(each.name for each in constructs))
        return 0
    vocabulary()  # created once, before the processes are forked
    settings = Settings(cpu=args.cpu, most=args.most, patience=args.patience, factor=args.factor)
    results = _earlier(args.json)
    for construct in constructs:
        if construct.name in results:
            continue
        begin = time.perf_counter()
        progress = search(construct, measure_of(construct), settings)
        results[construct.name] = progress.findings
        print(f"{construct.name}: {len(progress.findings)} ({time.perf_counter() - begin:.0f} s)", file=sys.stderr)
        for line in (*(f"died: {died}" for died in progress.died), *map(line_of, progress.findings)):
            print(f"  {line}", file=sys.stderr, flush=True)
        if args.json is not None:
            with args.json.open("a", encoding="utf-8") as file:
                row = {
                    "construct": construct.name,
                    "costs": progress.costs,
                    "refusals": progress.refusals,
                    "died": progress.died,
                }
                file.write(json.dumps(row | {"findings": [asdict(each) for each in progress.findings]}) + "\n")
    by_name = {each.name: each for each in constructs}
    every = (one for name in by_name for one in results[name])
    limited = (
        "time",
        "growth in time",
        "growth in memory",
    )  # call_work and Limits.memory stop calls that grow too fast
    reported = (one for one in every if one.ratio > args.tolerance or one.what not in limited)
    findings = sorted(reported, key=lambda each: -each.ratio)
    if args.worst is not None:
        args.worst.write_text(json.dumps(worst_requests(findings, by_name, _WORST)), encoding="utf-8")
    print("\n".join(map(line_of, findings)) or "nothing was found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
