"""`guided serve`: serves a model over HTTP, with the APIs of OpenAI and Anthropic."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shlex
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from guided.cli.console import DONE, InputError, note
from guided.cli.model import DEFAULT_MODEL, MODEL_HELP, add_model_options, load_engine
from guided.cli.serve_options import add_serve_options, read_settings

if TYPE_CHECKING:
    import uvicorn
    from opentelemetry.trace import TracerProvider

    from guided.engine import Engine
    from guided.server.server import Server

__all__ = ["EXAMPLES", "HELP", "NAME", "PURPOSE", "USAGE", "add_arguments", "run"]

NAME = "serve"
USAGE = "[MODEL] [OPTION ...]"
HELP = "serve a model over HTTP with an OpenAI-compatible API"
PURPOSE = "Serve a model over HTTP with an OpenAI-compatible API: completions, chat and responses, streamed or not."
EXAMPLES = r"""examples:
  guided serve
  guided serve shakespeare --port 8001
  guided serve model.gguf --host 0.0.0.0 --api-key-file keys.txt

  curl -N http://127.0.0.1:8000/stream -d '{"prompt": "ROMEO:"}'
  curl -N http://127.0.0.1:8000/v1/completions \
    -d '{"prompt": "ROMEO:", "stream": true, "regex": "[A-Z][a-z ]{20,60}[.!]"}'

exit codes: 0 stopped after answering all requests; 1 stopped, and some requests were cut off; 2 bad input
"""

_CUT_OFF: Final = 1
_MAX_COMMITTED: Final = 2 << 30
_FLUSH_SECONDS: Final = 5  # to send the last bytes, after all requests are finished or cut off
_END_SECONDS: Final = 8  # to end the process, after all requests are finished or cut off; includes `_FLUSH_SECONDS`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", nargs="?", default=DEFAULT_MODEL, metavar="MODEL", help=MODEL_HELP)
    add_model_options(parser.add_argument_group("model"))
    add_serve_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    try:
        import uvicorn
        from fastapi import FastAPI  # noqa: F401 (checked before the model is loaded)
        from prometheus_client import Counter  # noqa: F401
    except ModuleNotFoundError:
        raise InputError(
            "serving needs FastAPI, uvicorn and prometheus-client: pip install 'guided-decoding[serve]', "
            "or in a clone of guided: pip install '.[serve]'"
        ) from None
    if arguments.json:
        raise InputError("serve does not support --json")
    settings = read_settings(arguments)
    listener = _open_listener(arguments)
    with (
        contextlib.closing(listener),
        _open_tracer_provider(arguments.otlp) as provider,
        load_engine(arguments, describe=arguments.describe) as engine,
    ):
        from guided.server.app import create_app
        from guided.server.http.connections import Connection

        _commit_cache(engine)
        app = create_app(engine, settings, tracer_provider=provider)
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            log_level="error",  # malformed requests are not worth a log line
            access_log=False,
            timeout_graceful_shutdown=_FLUSH_SECONDS,
            root_path=arguments.root_path.rstrip("/"),
            ssl_certfile=arguments.ssl_certfile,
            ssl_keyfile=arguments.ssl_keyfile,
            h11_max_incomplete_event_size=arguments.max_header_bytes,
        )
        server: Server = app.state.server
        address = _format_address(arguments, listener)
        try:
            http_server = uvicorn.Server(config)
            asyncio.run(_serve(http_server, server, listener, address, arguments.uds, arguments.shutdown_timeout))
        finally:
            _remove_socket(arguments.uds)
        return _exit_code(server)


def _commit_cache(engine: Engine) -> None:
    """Commit the memory of the KV cache, so that the server's memory use is final from the start. A cache of more than
    `_MAX_COMMITTED` bytes is not committed, since this takes seconds: its memory grows as it fills."""
    from guided.engine.runner import cache_shape

    runner = engine.scheduler.runner
    if runner.cache.capacity * cache_shape(runner.model).bytes_per_token <= _MAX_COMMITTED:
        runner.cache.touch()


def _exit_code(server: Server) -> int:
    return _CUT_OFF if server.thread.cut_off_requests else DONE


def _remove_socket(path: str | None) -> None:
    if path:
        Path(path).unlink(missing_ok=True)


def _end_process_later(server: Server, uds: str | None) -> None:
    """End the process after `_END_SECONDS` even if threads still compute.

    Python waits for its threads at the end. A call that reads a prompt or compiles a specification cannot be stopped
    from outside. On a busy machine it may take minutes, although nobody waits for its result any more. Nothing is lost:
    log lines are flushed one by one.
    """

    def end_process() -> None:
        time.sleep(_END_SECONDS)
        _remove_socket(uds)
        os._exit(_exit_code(server))

    threading.Thread(target=end_process, name="guided end", daemon=True).start()


@contextlib.contextmanager
def _open_tracer_provider(collector: str | None) -> Iterator[TracerProvider | None]:
    """A provider that sends spans to a collector; None if there is no collector.

    The remaining spans are sent at the end of the block. Raises the errors of `otlp_provider`.
    """
    if collector is None:
        yield None
        return
    from guided.server.http.tracing import otlp_provider

    provider = otlp_provider(collector)
    try:
        yield provider
    finally:
        provider.shutdown()


async def _serve(
    http_server: uvicorn.Server,
    server: Server,
    listener: socket.socket,
    address: str,
    uds: str | None,
    shutdown_timeout: float,
) -> None:
    """Serve until a signal arrives. Print a note when the server is ready. `_drain` handles the shutdown."""
    loop, serve_task = asyncio.get_running_loop(), asyncio.ensure_future(http_server.serve([listener]))
    stop, cut_off = asyncio.Event(), asyncio.Event()
    while not http_server.started and not serve_task.done():
        await asyncio.sleep(0.01)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn's own handlers would let the signal end the process
        with contextlib.suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, lambda: cut_off.set() if stop.is_set() else stop.set())
    if http_server.started:
        route, body = "chat/completions", '"messages": [{"role": "user", "content": "Name a river."}]'
        if server.engine.chat_template is None:
            route, body = "completions", '"prompt": "A river:"'
        body = f'{{{body}, "temperature": 0, "regex": "[A-Z][a-z]{{2,14}}"}}'
        location, option = ("", "") if uds is None else (f" (the socket {uds})", f"--unix-socket {shlex.quote(uds)} ")
        name = server.settings.model_name
        note(f"serving {name} at {address}/v1{location}; try\n  curl {option}{address}/v1/{route} -d '{body}'")
        if uds is None:  # browsers cannot open Unix sockets
            note(f"open {address}/ in a browser for the inspector")
    stop_task = asyncio.ensure_future(stop.wait())
    await asyncio.wait([serve_task, stop_task], return_when=asyncio.FIRST_COMPLETED)
    stop_task.cancel()
    if not serve_task.done():
        await _drain(server, cut_off, shutdown_timeout)
        _end_process_later(server, uds)
        http_server.should_exit = True
    await serve_task


async def _drain(server: Server, cut_off: asyncio.Event, seconds: float) -> None:
    """Wait until the open requests are answered. Cut them off after `seconds`, or at a second signal.

    Meanwhile the server still listens: /ready reports the shutdown, and new requests are refused with the header
    Retry-After.
    """
    server.thread.is_draining = True
    tasks = [asyncio.ensure_future(server.admission.wait_until_empty()), asyncio.ensure_future(cut_off.wait())]
    await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    server.end_open_requests()


def _format_address(arguments: argparse.Namespace, listener: socket.socket) -> str:
    scheme = "https" if arguments.ssl_certfile else "http"
    if arguments.uds:
        return f"{scheme}://localhost"
    host, port = listener.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _open_listener(arguments: argparse.Namespace) -> socket.socket:
    """A listening socket. It is opened before the model is loaded, since the port may be taken."""
    host, port, path = arguments.host, arguments.port, arguments.uds
    if path is not None:
        return _open_unix_listener(path)
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(f"cannot listen at {host} port {port}: {error.strerror or error}") from None
    # asyncio sets TCP_NODELAY only on sockets with TCP's protocol number, which this one lacks. Without TCP_NODELAY,
    # each part of an answer waits up to 40 ms until the client acknowledges the previous part. Connections inherit the
    # option.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _open_unix_listener(path: str) -> socket.socket:
    """A listening Unix socket at a path. Removes a socket that an earlier server left there."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(ConnectionRefusedError, FileNotFoundError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
            raise InputError(f"cannot listen at {path}: another server is listening there")
        if Path(path).is_socket():
            Path(path).unlink()
        listener.bind(path)
        listener.listen()
    except OSError as error:
        listener.close()
        raise InputError(f"cannot listen at {path}: {error.strerror or error}") from None
    return listener
