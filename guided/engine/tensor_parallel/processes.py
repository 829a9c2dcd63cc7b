"""Starts and ends the processes of the other ranks.

In: a `WorkerConfig` for each. Out: `Workers`. A worker gets the import path of this process. It reports through a pipe
that it is ready, and why it ends. It always ends with this process (worker.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Final

from guided.engine.tensor_parallel.commands import READY, WorkerConfig
from guided.engine.threads import original_environment
from guided.errors import GuidedError

__all__ = ["Workers"]

_PROGRAM: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from guided.engine.tensor_parallel.worker import main
main()
"""
_EXIT_SECONDS = 2.0  # how long to wait for a failing worker to end


class Workers:
    """Worker processes, one for each config, with `threads` OS threads each."""

    def __init__(self, configs: Sequence[WorkerConfig], threads: int) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        paths = [path or os.getcwd() for path in sys.path]
        command = [sys.executable, "-P", "-c", _PROGRAM, json.dumps(paths)]
        environment = {"OMP_WAIT_POLICY": "PASSIVE", **original_environment(), "OMP_NUM_THREADS": str(threads)}
        try:
            for config in configs:
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
                )
                self.processes.append(process)
                assert process.stdin is not None
                with suppress(BrokenPipeError), process.stdin as pipe:  # the worker has ended, see wait_until_ready
                    pipe.write(json.dumps(asdict(config)) + "\n")
        except BaseException:
            self.end()
            raise

    def wait_until_ready(self) -> None:
        """Wait until all workers are ready.

        Raises:
            GuidedError: a worker has ended.
        """
        for process in self.processes:
            assert process.stdout is not None
            for line in process.stdout:  # the interpreter may print other lines first
                if line.strip() == READY:
                    break
            else:
                raise GuidedError("a process of this model ended while it was starting: see standard error")

    def exit_reason(self) -> str | None:
        """The reasons that workers reported for ending, or their exit codes; None if no worker has ended."""
        deadline = time.monotonic() + _EXIT_SECONDS
        while not (exited := [p for p in self.processes if p.poll() is not None]) and time.monotonic() < deadline:
            time.sleep(0.02)
        reports = [line for process in exited for line in process.stdout or ()]
        codes = {process.returncode for process in exited}
        return "".join(reports).strip() or f"exit code {', '.join(map(str, sorted(codes)))}" if exited else None

    def end(self) -> None:
        """End all workers. A second call does nothing."""
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self.processes.clear()
