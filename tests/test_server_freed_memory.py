"""Memory that is freed between used pieces is returned to the system while the server is idle."""

import asyncio
import ctypes
import resource
import sys
from pathlib import Path

import pytest

from guided.server.engine_thread import EngineThread
from guided.server.freed_memory import FreedMemory
from tests.server_support import small_engine

GNU = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim")
pytestmark = pytest.mark.skipif(not GNU, reason="malloc is not GNU's")
CHUNK_TOKENS = 16 << 10


def freed_in_pieces(mib: int) -> tuple[ctypes.CDLL, list[int]]:
    """Memory of which every second piece is free; and the addresses of the others, which are in use."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    pieces = [libc.malloc(CHUNK_TOKENS) for _ in range((mib << 20) // CHUNK_TOKENS)]
    for piece in pieces:
        ctypes.memset(piece, 1, CHUNK_TOKENS)
    for piece in pieces[::2]:
        libc.free(piece)
    return libc, pieces[1::2]


def resident() -> int:
    """The resident memory of this process, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


def test_free_memory_between_used_memory_is_returned(monkeypatch):
    libc, used = freed_in_pieces(128)
    freed, before = FreedMemory(), resident()
    assert not freed.release() and resident() > before - 16  # only after some time
    monkeypatch.setattr("guided.server.freed_memory._PAUSE", 0.0)
    assert freed.release()
    assert resident() < before - 32
    for piece in used:
        libc.free(piece)


def test_an_idle_thread_of_the_engine_gives_back(monkeypatch):
    monkeypatch.setattr("guided.server.freed_memory._PAUSE", 0.0)
    calls = []
    monkeypatch.setattr(FreedMemory, "release", lambda self: calls.append(1))

    async def whole() -> None:
        with EngineThread(small_engine()) as thread:
            await thread.call(lambda: None)
            while not calls:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(whole(), 30))
