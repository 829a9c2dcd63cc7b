"""The cost of the server's metrics, log and refusals.

`python -m benchmarks.server_overhead [--events N] [--clients N]`. Out: microseconds of the metrics for an event of an
output, and of the log for a request. Over a socket: milliseconds to refuse a request while the shipped model is busy:
200 refusals of a small body and of 1 MiB, beside the answers for which `--clients` clients wait.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import re
import subprocess
import sys
import threading
import time
from statistics import median
from typing import Any

_SIZES = (100, 1 << 20)  # bytes of the refused bodies
_LONG = {"prompt": "a", "max_tokens": 500, "ignore_eos": True}
_REFUSALS = 200


def cost_of_metrics(events: int) -> float:
    """Microseconds for an event."""
    from guided.engine.result import StreamEvent
    from guided.engine.task import Task
    from guided.server.engine_thread import Stream
    from guided.server.server import Server
    from guided.server.settings import Settings
    from tests.server_support import small_engine

    server = Server(small_engine(), Settings())
    stream, event, rounds = Stream(server.thread), StreamEvent((5,), "a"), []
    task: Task = Task(None)  # type: ignore[arg-type]
    stream.begin([task])
    for _ in range(9):
        begin = time.perf_counter()
        for number in range(events):
            server.metrics.observe(stream, task, event, float(number))
            stream.last_token_times[task] = float(number)
        rounds.append((time.perf_counter() - begin) / events)
    return 1e6 * median(rounds)


def cost_of_log(lines: int) -> float:
    """Microseconds for a request."""
    from guided.server.http.access_log import write_line
    from guided.server.http.request_context import RequestContext
    from guided.server.settings import Settings

    context, settings, rounds = RequestContext("id", "POST", "/v1/completions"), Settings(log_format="json"), []
    with contextlib.redirect_stderr(io.StringIO()):
        for _ in range(9):
            begin = time.perf_counter()
            for _ in range(lines):
                write_line(settings, context, [])
            rounds.append((time.perf_counter() - begin) / lines)
    return 1e6 * median(rounds)


def refusals(clients: int) -> dict[int, list[float]]:
    """Milliseconds of each refusal, by the size of its body."""
    import httpx

    options = ["--port", "0", "--max-running", str(clients), "--max-queued-requests", "1"]
    command = [sys.executable, "-m", "guided", "serve", "shakespeare", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = next(results[1] for line in process.stderr if (results := re.search(r" at (http://\S+)/v1", line)))
        over = threading.Event()

        def ask() -> None:
            while not over.is_set():
                with contextlib.suppress(httpx.HTTPError):
                    httpx.post(f"{address}/v1/completions", json=_LONG, timeout=60)

        askers = [threading.Thread(target=ask) for _ in range(clients + 1)]  # one of the requests waits
        for asker in askers:
            asker.start()
        results = {size: asyncio.run(_refused(address, size)) for size in _SIZES}
        over.set()
        for asker in askers:
            asker.join()
        process.terminate()
    return results


async def _refused(address: str, size: int) -> list[float]:
    import httpx

    times, body = [], json.dumps({"prompt": "x" * size}).encode()
    async with httpx.AsyncClient(timeout=60) as http:
        while len(times) < _REFUSALS:
            begin = time.perf_counter()
            answer = await http.post(f"{address}/v1/completions", content=body)
            if answer.status_code == 503:
                times.append(1e3 * (time.perf_counter() - begin))
    return times


def main() -> None:
    """See the head."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=8)
    arguments: Any = parser.parse_args()
    print(f"metrics: {cost_of_metrics(arguments.events):.1f} us for an event of an output")
    print(f"log: {cost_of_log(arguments.events):.1f} us for a request")
    for size, times in refusals(arguments.clients).items():
        times.sort()
        at = {name: times[int(part * (len(times) - 1))] for name, part in (("p50", 0.5), ("p99", 0.99), ("longest", 1))}
        shown = ", ".join(f"{name} {value:.1f} ms" for name, value in at.items())
        print(f"{len(times)} refusals of a body of {size} bytes: {shown}")


if __name__ == "__main__":
    main()
