"""The options of `guided serve`, grouped by topic. In: the command line. Out: the server's `Settings`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, Final

from guided.cli.arguments import integer, real
from guided.cli.console import InputError, read_text
from guided.cli.options import add_tools, find_tools
from guided.errors import OptionError
from guided.matching.grammar_folder import GrammarFolder
from guided.server.settings import Settings

__all__ = ["API_KEY", "add_serve_options", "read_settings"]

API_KEY: Final = "GUIDED_API_KEY"
_DEFAULTS: Final = Settings()


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    """Add all options except those of the model."""
    _add_network(parser.add_argument_group("network"))
    _add_access(parser.add_argument_group("access"))
    _add_tools_and_reasoning(parser.add_argument_group("tools and reasoning"))
    _add_load(parser.add_argument_group("load limits (0, where it is allowed: no limit)"))
    _add_times(parser.add_argument_group("timeouts, in seconds (queue, request: 0 is no limit)"))
    _add_logs(parser.add_argument_group("logs and traces"))


def _add_network(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--host", default="127.0.0.1", help="an address of this machine; 0.0.0.0: all (default: %(default)s)"
    )
    group.add_argument(
        "--port", type=integer(0, 65535), default=8000, metavar="N", help="0: any free port (default: 8000)"
    )
    group.add_argument(
        "--uds", metavar="PATH", help="listen at this Unix socket instead of a host and port (default: none)"
    )
    group.add_argument("--ssl-certfile", metavar="FILE", help="serve HTTPS with this certificate (default: none)")
    group.add_argument("--ssl-keyfile", metavar="FILE", help="the key of the certificate (default: in the same file)")
    group.add_argument(
        "--root-path", default="", metavar="PATH", help="the prefix that a reverse proxy strips (default: none)"
    )


def _add_access(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--served-model-name", metavar="NAME", help="how requests name the model (default: from MODEL)")
    group.add_argument(
        "--api-key",
        action="append",
        default=[],
        metavar="KEY",
        help="a key that requests may use; may be repeated (default: no key is required). Other users of this machine "
        f"can see it, unless it is set in {API_KEY}",
    )
    group.add_argument("--api-key-file", metavar="FILE", help="a file with a key on each line (default: none)")
    group.add_argument(
        "--allowed-origins",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="an origin whose pages may send requests, such as https://example.org; *: any; may be repeated "
        "(default: none)",
    )
    group.add_argument(
        "--allowed-hosts",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name that requests may use, in addition to IP addresses and localhost; *: any; may be repeated "
        "(default: any; with --host 127.0.0.1 and no keys: no others)",
    )
    group.add_argument(
        "--allow-special-tokens",
        action="store_true",
        help="let grammars in requests name control tokens, such as <|call|>",
    )


def _add_tools_and_reasoning(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--tool-call-style", type=_check_style_name, metavar="STYLE", help="how the model writes function calls: "
        "one of guided.TOOL_STYLES (default: the style of its chat template, otherwise qwen_3)")  # fmt: skip
    add("--reasoning-end", metavar="TEXT", help="the end marker of the reasoning that comes before an answer, "
        "such as '</think>' (default: none)")  # fmt: skip
    add(
        "--reasoning-begin",
        metavar="TEXT",
        help="the begin marker of the reasoning; the prompt ends with it (default: <think>)",
    )
    add("--describe", action=argparse.BooleanOptionalAction, default=None, help="describe schemas, types and choices "
        "in the system message, for requests without the field describe (default: with models of at least about 200 "
        "million parameters without embeddings)")  # fmt: skip
    add_tools(group)


def _check_style_name(name: str) -> str:
    from guided.errors import GuidedError
    from guided.frontends.structural_tag.tool_prompts import check_style
    from guided.frontends.structural_tag.tool_styles import tool_style

    try:
        check_style(tool_style(name))
    except GuidedError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name


def _add_load(group: argparse._ArgumentGroup) -> None:
    _add_number(group, "--default-max-tokens", "max_tokens for requests that do not set it; 0: the whole context")
    _add_number(group, "--max-running", "maximum number of outputs in a batch", minimum=1)
    _add_number(group, "--stream-interval", "tokens per part of a stream; larger parts cost less", minimum=1)
    _add_number(
        group,
        "--max-queued-requests",
        "maximum number of outputs that wait for a slot in the batch; above it, 503",
        minimum=1,
    )
    _add_number(group, "--max-queued-tokens", "maximum number of prompt tokens of waiting outputs; above it, 503")
    _add_number(group, "--max-requests-per-key", "maximum number of concurrent requests per key; above it, 429")
    _add_number(group, "--requests-per-minute", "maximum number of requests per key and minute; above it, 429")
    _add_number(
        group,
        "--grammar-memory",
        "maximum bytes for the states of one grammar; above it, they are recomputed",
        minimum=1,
    )
    group.add_argument(
        "--grammar-cache",
        default="",
        metavar="DIR",
        help="a folder for compiled grammars, which later servers load faster; users with write access could replace "
        "them (default: none)",
    )
    _add_number(group, "--max-body", "maximum bytes of a request body; above it, 413", minimum=1)
    _add_number(
        group,
        "--max-messages",
        "maximum number of messages of a request, with their parts and calls; above it, 400",
        minimum=1,
    )
    _add_number(group, "--max-depth", "maximum nesting depth of a request's JSON; above it, 400", minimum=1)
    _add_number(group, "--max-header-bytes", "maximum bytes of a request's path and headers; above it, 400", minimum=1)


def _add_times(group: argparse._ArgumentGroup) -> None:
    _add_seconds(group, "--queue-timeout", "maximum wait for a slot in the batch; then 503")
    _add_seconds(group, "--request-timeout", "maximum time for a whole request; then 503, or an error in its stream")
    _add_seconds(group, "--compile-timeout", "maximum time to compile one specification; then 400", minimum=0.01)
    _add_seconds(
        group,
        "--body-timeout",
        "maximum time for a request's headers to arrive, and for its body; then 408",
        minimum=0.01,
    )
    group.add_argument(
        "--shutdown-timeout",
        type=real(0),
        default=30.0,
        metavar="S",
        help="time for open requests after SIGTERM; then, or at a second SIGTERM, they are cut off (default: 30)",
    )


def _add_logs(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--log-format",
        choices=("none", "json", "text"),
        default=_DEFAULTS.log_format,
        help="write a line for each request to standard error (default: none)",
    )
    group.add_argument("--log-requests", action="store_true", help="include the request itself, with its prompt")
    group.add_argument(
        "--otlp",
        metavar="URL",
        help="send OpenTelemetry spans to this collector, such as http://127.0.0.1:4318 (default: none)",
    )


def _add_number(group: argparse._ArgumentGroup, option: str, description: str, *, minimum: int = 0) -> None:
    default = getattr(_DEFAULTS, option[2:].replace("-", "_"))
    group.add_argument(
        option, type=integer(minimum), default=default, metavar="N", help=f"{description} (default: {default})"
    )


def _add_seconds(group: argparse._ArgumentGroup, option: str, description: str, *, minimum: float = 0.0) -> None:
    default = getattr(_DEFAULTS, option[2:].replace("-", "_"))
    group.add_argument(
        option, type=real(minimum), default=default, metavar="S", help=f"{description} (default: {default:g})"
    )


def read_settings(arguments: argparse.Namespace) -> Settings:
    """The settings on the command line.

    Raises:
        InputError: an option requires another one that is missing, an API key is empty or cannot be read, or
            --grammar-cache is not a folder.
    """
    keys = _read_keys(arguments)
    for name in ("max_requests_per_key", "requests_per_minute"):
        if getattr(arguments, name) and not keys:
            raise InputError(f"--{name.replace('_', '-')} limits each key: give --api-key or --api-key-file")
    if arguments.log_requests and arguments.log_format == "none":
        raise InputError("--log-requests needs --log-format json or text")
    if arguments.grammar_cache:
        _check_grammar_cache(arguments.grammar_cache)
    names = (
        "allow_special_tokens", "default_max_tokens", "max_running", "max_queued_requests", "max_queued_tokens",
        "max_requests_per_key", "requests_per_minute", "grammar_memory", "grammar_cache", "max_header_bytes",
        "max_body", "max_messages", "max_depth", "queue_timeout", "request_timeout", "compile_timeout", "body_timeout",
        "stream_interval", "log_format", "log_requests",
    )  # fmt: skip
    return Settings(
        model_name=arguments.served_model_name or Path(arguments.model).stem,
        api_keys=keys,
        allowed_origins=tuple(arguments.allowed_origins),
        allowed_hosts=tuple(arguments.allowed_hosts),
        **{name: getattr(arguments, name) for name in names},
        **_read_tools_and_reasoning(arguments),
    )


def _check_grammar_cache(path: str) -> None:
    try:
        GrammarFolder(path)
    except OptionError as error:
        raise InputError(str(error).replace("cache_dir is", "--grammar-cache is", 1)) from None


def _read_tools_and_reasoning(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings for tools and reasoning. InputError: an option requires another one that is missing."""
    if arguments.tool_tokens is not None and not arguments.tools:
        raise InputError("--tool-tokens belongs to --tool, which is not given")
    if arguments.reasoning_begin is not None and not arguments.reasoning_end:
        raise InputError("--reasoning-begin belongs to --reasoning-end, which is not given")
    settings: dict[str, Any] = {"tool_style": arguments.tool_call_style, "reasoning_end": arguments.reasoning_end or ""}
    if arguments.reasoning_begin is not None:
        settings["reasoning_begin"] = arguments.reasoning_begin
    if arguments.tools:
        settings["tools"] = tuple(find_tools(arguments.tools, arguments.tool_tokens))
    return settings


def _read_keys(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The API keys from the command line, the environment and the file, in this order."""
    keys = [*arguments.api_key, *os.environ.get(API_KEY, "").split()]
    if arguments.api_key_file is not None:
        file_keys = list(filter(None, map(str.strip, read_text(arguments.api_key_file).splitlines())))
        if not file_keys:
            raise InputError(f"--api-key-file {arguments.api_key_file} contains no key")
        keys += file_keys
    if not all(map(str.strip, keys)):
        raise InputError("--api-key is empty")
    return tuple(dict.fromkeys(keys))
