"""The search: doubles n until a call breaks its bound or grows faster than n. In: a construct. Out: `SearchProgress`.

Each n runs in a forked process of its own, so caches of an earlier n do not count. The kernel bounds its CPU time and
address space, so a bad input cannot harm the machine. A process that is killed counts as a call that takes too long.

Growth is the slope of the last doublings in a log-log plot, for costs above a floor. If a cost falls as n grows, n has
passed a limit beyond which guided takes another path. Bisection then finds the largest n before that.
"""

from __future__ import annotations

import json
import math
import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from benchmarks.bad_inputs.bounds import FLOOR, STEEP, bound_of
from benchmarks.bad_inputs.construct import Construct
from benchmarks.bad_inputs.meter import Meter

__all__ = ["Finding", "Measure", "SearchProgress", "Settings", "run_once", "search"]

Measure: TypeAlias = Callable[[Construct, int, Meter], object]
_POINTS: Final = 4  # of the slope
_BISECTIONS: Final = 5


@dataclass(frozen=True, slots=True)
class Settings:
    """How far the search goes.

    Attributes:
        cpu: seconds that one n may take in total; beyond that, its process is killed.
        memory: bytes of address space that a process may add.
        patience: CPU seconds of one n after which n is not doubled any more.
        enough: n is not doubled any more if a call takes this many times its bound.
        most: the largest n of all constructs.
        factor: the factor between one n and the next; 0: the construct's factor.
    """

    cpu: int = 20
    memory: int = 3 << 30
    patience: float = 5.0
    enough: float = 10.0
    most: int = 1 << 30
    factor: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """A call of a construct that breaks a bound, or grows faster than its input.

    Attributes:
        what: "time", "memory", "growth in time", "growth in memory" or "killed".
        n: the n of the call.
        value: CPU seconds or bytes.
        ratio: the value divided by the bound; larger is worse.
        slope: the exponent of growth, if it is known.
        refused: how the call was refused, if it was.
    """

    construct: str
    call: str
    what: str
    n: int
    value: float
    ratio: float
    slope: float | None
    refused: str


@dataclass(slots=True)
class SearchProgress:
    """The results of a construct.

    Attributes:
        findings: the worst finding of each call and kind.
        costs: call -> n -> the largest (CPU seconds, bytes) of one such call.
        refusals: n -> how the compilation was refused.
        died: the output of a process that ended with an error of its own.
    """

    construct: Construct
    findings: list[Finding] = field(default_factory=list)
    costs: dict[str, dict[int, tuple[float, int]]] = field(default_factory=dict)
    refusals: dict[int, str] = field(default_factory=dict)
    died: list[str] = field(default_factory=list)

    def slope(self, call: str, which: int, floor: float) -> float | None:
        """The exponent of the last costs above a floor, or None if there are too few."""
        costs = self.costs[call]
        peak = max(costs, key=lambda n: costs[n][which])
        points = [(n, cost[which]) for n, cost in sorted(costs.items()) if cost[which] > floor / 8 and n <= peak]
        points = points[-_POINTS:]
        if len(points) < 3 or points[-1][1] < floor:
            return None
        xs, ys = [math.log(n) for n, _ in points], [math.log(value) for _, value in points]
        x, y = sum(xs) / len(xs), sum(ys) / len(ys)
        return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def search(construct: Construct, measure: Measure, settings: Settings) -> SearchProgress:
    """See the head."""
    progress, before = SearchProgress(construct), 0
    for n in _sizes(construct, settings):
        goes_on = _run(progress, n, measure, settings)
        if before and (call := _fallen(progress, before, n)) is not None:
            _climb(progress, call, before, n, measure, settings)
        too_long = list(progress.refusals.values())[-2:] == ["limit spec_length"] * 2
        worst = max((finding.ratio for finding in progress.findings), default=0.0)
        if not goes_on or too_long or worst > settings.enough:
            break
        before = n
    progress.findings += _grown(progress)
    return progress


def _run(progress: SearchProgress, n: int, measure: Measure, settings: Settings) -> bool:
    """Measure one n. Return whether a larger one may be tried."""
    rows, ended = run_once(progress.construct, n, measure, settings)
    total = 0.0
    for row in (row for row in rows if "call" in row):
        total += row["cpu"]
        costs = progress.costs.setdefault(row["call"], {})
        seconds, memory = costs.get(n, (0.0, 0))
        costs[n] = max(seconds, row["cpu"]), max(memory, row["memory"])
        _judge(progress, row, n)
    first = next((row for row in rows if "call" in row), None)
    if first is not None and first["refused"]:
        progress.refusals[n] = first["refused"]
    if ended == "error":
        progress.died.append(rows[-1].get("error", "") if rows else "")
    elif ended:
        call = next((row["begin"] for row in reversed(rows) if "begin" in row), "start")
        ratio = settings.cpu / bound_of(call).seconds
        progress.findings.append(Finding(progress.construct.name, call, "killed", n, settings.cpu, ratio, None, ended))
    return not ended and total <= settings.patience


def _fallen(progress: SearchProgress, before: int, n: int) -> str | None:
    """A call that costs much less than for the n before, such as beyond a limit that selects another path."""
    for call, costs in progress.costs.items():
        floor = FLOOR * bound_of(call).seconds
        if before in costs and costs[before][0] > floor and costs.get(n, (0.0, 0))[0] < costs[before][0] / 2:
            return call
    return None


def _climb(progress: SearchProgress, call: str, low: int, high: int, measure: Measure, settings: Settings) -> None:
    """Find the largest n before a call's cost falls. It has the worst cost."""
    for _ in range(_BISECTIONS):
        middle = (low + high) // 2
        if middle in (low, high) or not _run(progress, middle, measure, settings):
            return
        costs = progress.costs[call]
        if costs.get(middle, (0.0, 0))[0] >= costs[low][0]:
            low = middle
        else:
            high = middle


def run_once(construct: Construct, n: int, measure: Measure, settings: Settings) -> tuple[list[dict[str, Any]], str]:
    """The rows of a process that measures one n, and how it ended: "" by itself, "error", or why it was killed."""
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        os.close(source)
        _bounded_child(construct, n, measure, settings, sink)
    os.close(sink)
    data, end = bytearray(), time.monotonic() + 6 * settings.cpu + 10  # the machine may be busy
    ended = ""
    while True:
        if not select.select([source], [], [], max(0.0, end - time.monotonic()))[0]:
            os.kill(child, signal.SIGKILL)
            ended = "wall time"
            break
        piece = os.read(source, 1 << 16)
        if not piece:
            break
        data += piece
    os.close(source)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    rows = [json.loads(line) for line in data.decode().splitlines() if line.endswith("}")]
    if not ended and status < 0:
        ended = {signal.SIGXCPU: "CPU time", signal.SIGKILL: "CPU time"}.get(-status, f"signal {-status}")
    return rows, ended or ("error" if status else "")


def _bounded_child(construct: Construct, n: int, measure: Measure, settings: Settings, sink: int) -> None:
    """Measure under bounds of the kernel, then exit."""
    code = 1
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        spent = math.ceil(time.process_time())
        resource.setrlimit(resource.RLIMIT_AS, (used + settings.memory,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (spent + settings.cpu, spent + settings.cpu + 1))
        measure(construct, n, Meter(sink))
        code = 0
    except BaseException:
        error = traceback.format_exc()[-1500:]
        os.write(sink, (json.dumps({"error": error}) + "\n").encode())
    finally:
        os._exit(code)


def _sizes(construct: Construct, settings: Settings) -> Iterator[int]:
    n, factor = construct.first, settings.factor or construct.factor
    while n <= min(construct.most, settings.most):
        yield n
        n *= factor if n < 1 << 17 else max(factor, 8)


def _judge(progress: SearchProgress, row: dict[str, Any], n: int) -> None:
    """Keep the worst row of each call that breaks its bound."""
    bound = bound_of(row["call"])
    for what, value, most in (("time", row["cpu"], bound.seconds), ("memory", row["memory"], bound.memory)):
        if value <= most:
            continue
        finding = Finding(progress.construct.name, row["call"], what, n, value, value / most, None, row["refused"])
        same = next((at for at, it in enumerate(progress.findings) if (it.call, it.what) == (row["call"], what)), None)
        if same is None:
            progress.findings.append(finding)
        elif progress.findings[same].value < value:
            progress.findings[same] = finding


def _grown(progress: SearchProgress) -> Iterator[Finding]:
    for call, costs in progress.costs.items():
        for what, which, most in (
            ("growth in time", 0, bound_of(call).seconds),
            ("growth in memory", 1, bound_of(call).memory),
        ):
            slope = progress.slope(call, which, FLOOR * most)
            if slope is not None and slope > STEEP:
                n = max(costs, key=lambda n: costs[n][which])
                yield Finding(
                    progress.construct.name, call, what, n, costs[n][which], costs[n][which] / most, slope, ""
                )
