"""The processes of the other ranks: started, listened to, ended.

In: an `Order` for each. Out: `Workers`. A worker imports what this process would import, wherever it is started; it
says on a pipe of its own that it is there, and why it ends. It ends with this process, whatever ends it (worker.py).
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

from guided.engine.ranks.commands import HERE, Order
from guided.errors import GuidedError

__all__ = ["Workers"]

_PROGRAM: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from guided.engine.ranks.worker import main
main()
"""
_LAST_WORDS = 2.0  # seconds for a worker that breaks off to end


class Workers:
    """Processes, one for each order; `threads`: of each of them."""

    def __init__(self, orders: Sequence[Order], threads: int) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        paths = [path or os.getcwd() for path in sys.path]
        command = [sys.executable, "-P", "-c", _PROGRAM, json.dumps(paths)]
        environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, "OMP_NUM_THREADS": str(threads)}
        try:
            for order in orders:
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
                )
                self.processes.append(process)
                assert process.stdin is not None
                with suppress(BrokenPipeError), process.stdin as pipe:  # it has ended: whoever waits for it will see
                    pipe.write(json.dumps(asdict(order)) + "\n")
        except BaseException:
            self.end()
            raise

    def wait_until_here(self) -> None:
        """Until all of them are there.

        Raises:
            GuidedError: one has ended.
        """
        for process in self.processes:
            assert process.stdout is not None
            for line in process.stdout:  # whatever an interpreter says when it starts comes before
                if line.strip() == HERE:
                    break
            else:
                raise GuidedError("a process of this model ended before it began; standard error says why")

    def last_words(self) -> str | None:
        """Why workers have ended; None: none has."""
        deadline = time.monotonic() + _LAST_WORDS
        while not (ended := [p for p in self.processes if p.poll() is not None]) and time.monotonic() < deadline:
            time.sleep(0.02)
        words = [line for process in ended for line in process.stdout or ()]
        codes = {process.returncode for process in ended}
        return "".join(words).strip() or f"exit code {', '.join(map(str, sorted(codes)))}" if ended else None

    def end(self) -> None:
        """End them all. Twice does nothing."""
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self.processes.clear()
