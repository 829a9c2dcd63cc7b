"""`guided serve`: a model behind OpenAI's interface."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from guided.cli.arguments import at_least
from guided.cli.console import DONE, InputError, note, read_text
from guided.cli.model import DEFAULT_MODEL, MODEL_HELP, add_model_options, engine_of
from guided.cli.options import add_tools, tools_named

if TYPE_CHECKING:
    import uvicorn

    from guided.server.engine_thread import EngineThread

__all__ = ["EXAMPLES", "HELP", "NAME", "PURPOSE", "USAGE", "add_arguments", "run"]

NAME = "serve"
USAGE = "[MODEL] [OPTION ...]"
HELP = "answer requests over HTTP, as OpenAI's interface has them"
PURPOSE = "Answer requests over HTTP, as OpenAI's interface has them: completions and conversations, whole or streamed."
EXAMPLES = r"""examples:
  guided serve
  guided serve shakespeare --port 8001
  guided serve model.gguf --host 0.0.0.0 --api-key-file keys.txt

  curl -N http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' \
    -d '{"prompt": "ROMEO:", "stream": true, "regex": "[A-Z][a-z ]{20,60}[.!]"}'

exit codes: 0 it was told to stop and all requests were answered; 1 some were cut off; 2 bad input
"""

_CUT_OFF: Final = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("model", nargs="?", default=DEFAULT_MODEL, metavar="MODEL", help=MODEL_HELP)
    add_model_options(parser.add_argument_group("model"))
    net = parser.add_argument_group("where it listens")
    net.add_argument("--host", default="127.0.0.1", help="an address of this machine; 0.0.0.0: all (%(default)s)")
    net.add_argument("--port", type=at_least(0, 65535), default=8000, metavar="N", help="0: any that is free (8000)")
    net.add_argument("--ssl-certfile", metavar="FILE", help="answer by TLS with this certificate (none)")
    net.add_argument("--ssl-keyfile", metavar="FILE", help="its key (in the same file)")
    who = parser.add_argument_group("who may ask, and for what")
    who.add_argument("--served-model-name", metavar="NAME", help="how requests name the model (MODEL)")
    who.add_argument("--api-key-file", metavar="FILE", help="a key on each line, one of which is needed (none)")
    who.add_argument("--allow-special-tokens", action="store_true", help="grammars of requests may name control tokens")
    _add_talking(parser.add_argument_group("tools and reasoning"))
    load = parser.add_argument_group("load")
    load.add_argument(
        "--max-queued-requests",
        type=at_least(1),
        default=256,
        metavar="N",
        help="that have no answer yet; past them 503 (256)",
    )
    load.add_argument(
        "--shutdown-timeout",
        type=at_least(0),
        default=30,
        metavar="S",
        help="seconds for open requests after SIGTERM; then they are cut off (30)",
    )


def _add_talking(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--tool-call-style", type=_style, metavar="STYLE", help="how the model writes calls of functions, one of "
        "guided.TOOL_STYLES (as its chat template does, else qwen_3)")  # fmt: skip
    add("--reasoning-end", metavar="TEXT", help="what ends the reasoning of a model that reasons before it answers, "
        "such as '</think>' (none)")  # fmt: skip
    add("--reasoning-begin", metavar="TEXT", help="what begins it; it ends the prompt (<think>)")
    add_tools(group)


def _style(name: str) -> str:
    from guided.errors import GuidedError
    from guided.spec.structural_tag.tool_prompts import check_style
    from guided.spec.structural_tag.tool_styles import tool_style

    try:
        check_style(tool_style(name))
    except GuidedError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name


def _talking(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of tools and reasoning."""
    if arguments.tool_tokens is not None and not arguments.tools:
        raise InputError("--tool-tokens belongs to --tool, which is not given")
    if arguments.reasoning_begin is not None and not arguments.reasoning_end:
        raise InputError("--reasoning-begin belongs to --reasoning-end, which is not given")
    given: dict[str, Any] = {"tool_style": arguments.tool_call_style, "reasoning_end": arguments.reasoning_end or ""}
    if arguments.reasoning_begin is not None:
        given["reasoning_begin"] = arguments.reasoning_begin
    if arguments.tools:
        given["tools"] = tuple(tools_named(arguments.tools, arguments.tool_tokens))
    return given


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    try:
        import uvicorn
        from fastapi import FastAPI  # noqa: F401 (asked for before the model is loaded)
    except ModuleNotFoundError:
        raise InputError("serving needs FastAPI and uvicorn: pip install 'guided-decoding[serve]'") from None
    if arguments.json:
        raise InputError("--json does not go with serve")
    keys: tuple[str, ...] = ()
    if arguments.api_key_file is not None:
        keys = tuple(filter(None, map(str.strip, read_text(arguments.api_key_file).splitlines())))
        if not keys:
            raise InputError(f"--api-key-file {arguments.api_key_file} has no key")
    talking = _talking(arguments)
    listener = _listener(arguments.host, arguments.port)
    with contextlib.closing(listener), engine_of(arguments) as engine:
        from guided.server.app import create_app
        from guided.server.settings import Settings

        settings = Settings(
            model_name=arguments.served_model_name or Path(arguments.model).stem,
            api_keys=keys,
            max_queued_requests=arguments.max_queued_requests,
            allow_special_tokens=arguments.allow_special_tokens,
            **talking,
        )
        app = create_app(engine, settings)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=arguments.shutdown_timeout,
            ssl_certfile=arguments.ssl_certfile,
            ssl_keyfile=arguments.ssl_keyfile,
            h11_max_incomplete_event_size=64 << 10,
        )
        scheme = "https" if arguments.ssl_certfile else "http"
        host, port = listener.getsockname()[:2]
        address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        thread: EngineThread = app.state.server.thread
        asyncio.run(_serve(uvicorn.Server(config), thread, listener, address, settings.model_name))
        return _CUT_OFF if thread.cut_off else DONE


async def _serve(
    server: uvicorn.Server, thread: EngineThread, listener: socket.socket, address: str, model: str
) -> None:
    """Run until a signal, and tell when requests are answered."""
    loop, serving = asyncio.get_running_loop(), asyncio.ensure_future(server.serve([listener]))

    def stop(*_: Any) -> None:
        server.should_exit = thread.draining = True

    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn's own handlers end the process by the signal
        with contextlib.suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, stop)
    if server.started:
        ask = '{"messages": [{"role": "user", "content": "Name a river."}], "regex": "[A-Z][a-z]+"}'
        note(f"{model} answers at {address}/v1, as in\n  curl {address}/v1/chat/completions -d '{ask}'")
    await serving


def _listener(host: str, port: int) -> socket.socket:
    """A socket that listens; opened before the model is loaded, since the port may be taken."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(f"cannot listen at {host} port {port}: {error.strerror or error}") from None
