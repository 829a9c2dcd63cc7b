"""The entry point: runs the command, and turns errors into text (or JSON) and an exit code."""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Final

from guided import __version__
from guided.cli import bench, check, explain, generate, lint, models, sample, serve, verify
from guided.cli.console import (
    BAD_INPUT,
    InputError,
    error_fields,
    format_error,
    print_error,
    print_json,
    quietly,
    warnings_as_notes,
)
from guided.cli.parser import Parser, UsageError
from guided.errors import GuidedError
from guided.packages import how_to_install

__all__ = ["main"]

_INTERNAL_ERROR: Final = 3
_INTERRUPTED: Final = 130
_PIPE_CLOSED: Final = 141
_EPILOG = """examples:
  guided generate "Name three rivers." --schema rivers.json
  guided check --schema order.schema.json --instance order.json
  guided explain --regex '[0-9]{4}-[0-9]{2}' --prefix 2025 --text '/'
  guided verify --schema order.schema.json --vocabulary model.gguf --ids outputs.jsonl
  guided sample --schema order.schema.json --n 5
  guided serve
  guided lint --lark query.lark
  guided bench --schema order.schema.json --vocabulary model.gguf
  guided models

exit codes: 0 done; 1 a negative or incomplete result; 2 bad input; 3 a bug in guided; 130 interrupted; 141 the reader
closed the output pipe. guided COMMAND --help describes a command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    if sys.stderr is None:  # closed, as by `2>&-`
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        print_error("guided: standard output is closed")
        return BAD_INPUT
    code = _run(argv)
    try:
        sys.stdout.flush()
    except OSError:  # `_run` has reported it
        _discard_output()
    return code


def _run(argv: Sequence[str] | None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    words = list(sys.argv[1:] if argv is None else argv)
    flags = words[: words.index("--")] if "--" in words else words
    as_json, name = "--json" in flags, "guided"
    try:
        arguments = _make_parser().parse_args(words)
        name = f"guided {arguments.command}"
        with quietly() if arguments.quiet else nullcontext(), warnings_as_notes():
            code: int = arguments.run(arguments)
            sys.stdout.flush()
    except UsageError as error:
        text = f"{error.prog}: {error}\n  see {error.prog} --help"
        return _report(error_fields(error), text, as_json, BAD_INPUT)
    except BrokenPipeError:  # as in `guided sample ... | head`
        _discard_output()
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        return _report({"type": "KeyboardInterrupt", "message": "interrupted"}, "", as_json, _INTERRUPTED)
    except (GuidedError, OSError, MemoryError) as error:
        is_expected = type(error) is GuidedError or isinstance(error, InputError | OSError | MemoryError)
        kind = "" if is_expected else f"{type(error).__name__}: "
        return _report(error_fields(error), f"{name}: {kind}{format_error(error)}", as_json, BAD_INPUT)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and (install_hint := how_to_install(error)):
            return _report(error_fields(error), f"{name} {install_hint}", as_json, BAD_INPUT)
        print_error("".join(traceback.format_exception(error)).rstrip())
        text = f"{name}: this is a bug in guided, please report it: {type(error).__name__}: {error}"
        return _report(error_fields(error), text, as_json, _INTERNAL_ERROR)
    return code


def _report(fields: dict[str, Any], text: str, as_json: bool, code: int) -> int:
    """Show an error as JSON or as text, and return the exit code."""
    if as_json:
        try:
            print_json({"error": fields})
            return code
        except OSError:  # the error is that standard output cannot be written
            _discard_output()
    if text:
        print_error(text)
    return code


def _discard_output() -> None:
    """Write the rest of standard output nowhere, so that the interpreter's last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _make_parser() -> Parser:
    parser = Parser(
        prog="guided",
        description="Constrained decoding: generate and serve; check, explain, sample and lint specifications; "
        "verify outputs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"guided {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (generate, check, explain, verify, sample, serve, lint, bench, models):
        subparser = commands.add_parser(
            module.NAME,
            help=module.HELP,
            usage=f"guided {module.NAME} {module.USAGE}",
            description=module.PURPOSE,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(subparser)
        output = subparser.add_argument_group("output")
        output.add_argument("--json", action="store_true", help="print JSON, including errors")
        output.add_argument("--quiet", action="store_true", help="print only errors on standard error")
        subparser.set_defaults(run=module.run)
    return parser
