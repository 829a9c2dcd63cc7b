"""Runs each library in its own process, pinned to one CPU, on one thread.

In: an engine's name and jobs (functions of `benchmarks.jobs` by name, with arguments). Out: their results, or a
`Failure`. A job that exceeds its time ends only its own process. Only one worker runs at a time: the caller assigns
jobs in turn, so noise on the machine affects all libraries equally.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["Failure", "Worker", "pinned_cpu"]

_ONE_THREAD = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_ADDRESS_SPACE = 16 << 30


@dataclass(frozen=True)
class Failure:
    """A job without a result, and the reason."""

    reason: str


def pinned_cpu() -> int:
    """The last CPU that this process may use, since the first ones serve interrupts."""
    return max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


class Worker:
    """A process with one engine. `prepared`: the cost of its vocabulary."""

    def __init__(self, engine: str, vocabulary: Path, *, limit: float = 120.0) -> None:
        self.engine, self.vocabulary, self.limit = engine, vocabulary, limit
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, self.engine, self.vocabulary, pinned_cpu())
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        ready = self._receive(self.limit)
        if isinstance(ready, Failure):
            raise RuntimeError(f"{self.engine}: {ready.reason}")
        self.prepared: dict[str, Any] = ready

    def call(self, job: str, *arguments: Any, limit: float | None = None) -> Any:
        """Run a job. After a timeout or a crash, a new process runs the next one."""
        if not self._process.is_alive():
            self._start()
        self._pipe.send((job, arguments))
        return self._receive(self.limit if limit is None else limit)

    def _receive(self, limit: float) -> Any:
        try:
            if not self._pipe.poll(limit):
                self._process.kill()
                self._process.join()
                return Failure(f"not finished in {limit:.0f} s")
            return self._pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(10)
            return Failure(f"the process ended with code {self._process.exitcode}")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _serve(pipe: Connection, engine: str, vocabulary: Path, cpu: int) -> None:
    for name in _ONE_THREAD:
        os.environ[name] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cpu})
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    from benchmarks import jobs
    from benchmarks.engines import Refused

    place = jobs.Place(engine, vocabulary)
    pipe.send(place.prepared)
    gc.collect()
    gc.freeze()
    gc.disable()
    while True:
        try:
            job, arguments = pipe.recv()
        except EOFError:
            return
        answer: Any
        try:
            answer = getattr(jobs, job)(place, *arguments)
        except Refused as error:
            answer = Failure(f"refused: {str(error)[:300]}")
        except MemoryError:
            answer = Failure(f"more than {_ADDRESS_SPACE >> 30} GiB")
        except BaseException as error:  # native code may raise a BaseException
            answer = Failure(f"{type(error).__name__}: {str(error)[:300]}")
        pipe.send(answer)
        gc.collect()
