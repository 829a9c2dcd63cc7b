"""The options of `guided serve`, grouped by topic. In: the command line. Out: `Settings` of a server."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, Final

from guided.cli.arguments import at_least, real
from guided.cli.console import InputError, read_text
from guided.cli.options import add_tools, tools_named
from guided.server.settings import Settings

__all__ = ["API_KEY", "add_serve_options", "settings_of"]

API_KEY: Final = "GUIDED_API_KEY"
_USUAL: Final = Settings()


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    """Add all options except those of the model."""
    _add_network(parser.add_argument_group("where it listens"))
    _add_access(parser.add_argument_group("who may ask, and for what"))
    _add_talking(parser.add_argument_group("tools and reasoning"))
    _add_load(parser.add_argument_group("load: how much may wait (0: no bound)"))
    _add_times(parser.add_argument_group("time, in seconds (0: no bound)"))
    _add_logs(parser.add_argument_group("logs"))


def _add_network(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--host", default="127.0.0.1", help="an address of this machine; 0.0.0.0: all (%(default)s)")
    group.add_argument("--port", type=at_least(0, 65535), default=8000, metavar="N", help="0: any that is free (8000)")
    group.add_argument("--uds", metavar="PATH", help="a socket of this path, instead of host and port (none)")
    group.add_argument("--ssl-certfile", metavar="FILE", help="answer by TLS with this certificate (none)")
    group.add_argument("--ssl-keyfile", metavar="FILE", help="its key (in the same file)")
    group.add_argument("--root-path", default="", metavar="PATH", help="that a proxy in front takes away (none)")


def _add_access(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--served-model-name", metavar="NAME", help="how requests name the model (MODEL)")
    group.add_argument(
        "--api-key",
        action="append",
        default=[],
        metavar="KEY",
        help=f"that a request must bear; may be given again. Other users of this machine see it: {API_KEY} hides it",
    )
    group.add_argument("--api-key-file", metavar="FILE", help="a key on each line (none)")
    group.add_argument(
        "--allowed-origins",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="whose pages may ask, as https://example.org; *: all; may be given again (none)",
    )
    group.add_argument(
        "--allowed-hosts",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which the server may be asked, besides IP addresses and localhost; *: any; may be given again "
        "(any; without keys, none at 127.0.0.1)",
    )
    group.add_argument("--allow-special-tokens", action="store_true", help="grammars of requests may name them")


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
    from guided.frontends.structural_tag.tool_prompts import check_style
    from guided.frontends.structural_tag.tool_styles import tool_style

    try:
        check_style(tool_style(name))
    except GuidedError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name


def _add_load(group: argparse._ArgumentGroup) -> None:
    _number(group, "--default-max-tokens", "of an answer whose request says nothing of it; 0: the whole context")
    _number(group, "--max-running", "outputs in the batch at once", least=1)
    _number(group, "--stream-interval", "tokens of an answer between the parts of its stream; more cost less", least=1)
    _number(group, "--max-queued-requests", "outputs that wait for a place in the batch; past them 503", least=1)
    _number(group, "--max-queued-tokens", "tokens of prompts that wait; past them 503")
    _number(group, "--max-requests-per-key", "of one key at once; past them 429")
    _number(group, "--requests-per-minute", "of one key; past them 429")
    _number(
        group, "--grammar-memory", "bytes for what is computed of one grammar; past them it is computed anew", least=1
    )
    _number(group, "--max-body", "bytes of a request; past them 413", least=1)
    _number(group, "--max-messages", "of a conversation, with their parts and calls; past them 400", least=1)
    _number(group, "--max-depth", "arrays and objects in one another, in a request; past them 400", least=1)
    _number(group, "--max-header-bytes", "bytes of the headers of a request; past them 400", least=1)


def _add_times(group: argparse._ArgumentGroup) -> None:
    _seconds(group, "--queue-timeout", "until a request has a place in the batch; then 503")
    _seconds(group, "--request-timeout", "for a whole request; then 503, or an error in its stream")
    _seconds(group, "--compile-timeout", "for one specification; then 400", least=0.01)
    _seconds(group, "--body-timeout", "for the head of a request to arrive, and for its body; then 408", least=0.01)
    group.add_argument(
        "--shutdown-timeout",
        type=real(0),
        default=30.0,
        metavar="S",
        help="for open requests after SIGTERM; then they are cut off, as by a second one (30)",
    )


def _add_logs(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--log-format",
        choices=("none", "json", "text"),
        default=_USUAL.log_format,
        help="a line for each request, to standard error (none)",
    )
    group.add_argument("--log-requests", action="store_true", help="with the request itself, its prompt included")


def _number(group: argparse._ArgumentGroup, option: str, about: str, *, least: int = 0) -> None:
    usual = getattr(_USUAL, option[2:].replace("-", "_"))
    group.add_argument(option, type=at_least(least), default=usual, metavar="N", help=f"{about} ({usual})")


def _seconds(group: argparse._ArgumentGroup, option: str, about: str, *, least: float = 0.0) -> None:
    usual = getattr(_USUAL, option[2:].replace("-", "_"))
    group.add_argument(option, type=real(least), default=usual, metavar="S", help=f"{about} ({usual:g})")


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The settings on the command line.

    Raises:
        InputError: some options exclude each other.
    """
    keys = _keys(arguments)
    for name in ("max_requests_per_key", "requests_per_minute"):
        if getattr(arguments, name) and not keys:
            raise InputError(f"--{name.replace('_', '-')} is a bound for each key: give --api-key, or --api-key-file")
    if arguments.log_requests and arguments.log_format == "none":
        raise InputError("--log-requests goes with --log-format json, or text")
    names = (
        "allow_special_tokens", "default_max_tokens", "max_running", "max_queued_requests", "max_queued_tokens",
        "max_requests_per_key", "requests_per_minute", "grammar_memory", "max_header_bytes", "max_body", "max_messages",
        "max_depth", "queue_timeout", "request_timeout", "compile_timeout", "body_timeout", "stream_interval",
        "log_format", "log_requests",
    )  # fmt: skip
    return Settings(
        model_name=arguments.served_model_name or Path(arguments.model).stem,
        api_keys=keys,
        allowed_origins=tuple(arguments.allowed_origins),
        allowed_hosts=tuple(arguments.allowed_hosts),
        **{name: getattr(arguments, name) for name in names},
        **_talking(arguments),
    )


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


def _keys(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The keys of the command line, the environment and the file, in this order."""
    keys = [*arguments.api_key, *os.environ.get(API_KEY, "").split()]
    if arguments.api_key_file is not None:
        found = list(filter(None, map(str.strip, read_text(arguments.api_key_file).splitlines())))
        if not found:
            raise InputError(f"--api-key-file {arguments.api_key_file} has no key")
        keys += found
    if not all(map(str.strip, keys)):
        raise InputError("--api-key is empty")
    return tuple(dict.fromkeys(keys))
