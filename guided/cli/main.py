"""The entry point: finds the command, runs it, and turns errors into text (or JSON) and an exit code."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import Final

from guided import __version__
from guided.cli import bench, check, explain, generate, sample
from guided.cli.console import BAD_INPUT, InputError, error_fields, note, print_json, warnings_as_notes
from guided.cli.parser import Parser, UsageError
from guided.errors import GuidedError

__all__ = ["main"]

_INTERRUPTED: Final = 130
_PIPE_CLOSED: Final = 141
_EPILOG = """examples:
  guided generate "Name three rivers." --schema rivers.json
  guided check --schema order.schema.json --instance order.json
  guided explain --regex '[0-9]{4}-[0-9]{2}' --prefix 2025 --text '/'
  guided sample --schema order.schema.json --n 5
  guided bench --schema order.schema.json --vocabulary model.gguf

exit codes: 0 done, 1 the answer is no, 2 bad input. Each command explains itself with --help.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        arguments = _parser().parse_args(given)
    except UsageError as error:
        return _refused(error, f"{error.prog}: {error}\n  {error.prog} --help shows what there is", "--json" in given)
    try:
        with warnings_as_notes():
            code: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # as in `guided sample ... | head`; keep the interpreter from flushing into it again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except (GuidedError, OSError) as error:
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        return _refused(error, f"guided {arguments.command}: {kind}{error}", arguments.json)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def _refused(error: Exception, text: str, as_json: bool) -> int:
    """The exit code, after the error was told as JSON or as this text."""
    if as_json:
        print_json({"error": error_fields(error)})
    else:
        note(text)
    return BAD_INPUT


def _parser() -> Parser:
    parser = Parser(
        prog="guided",
        description="What a model may write: generate, check, explain, sample and measure specifications.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"guided {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (generate, check, explain, sample, bench):
        sub = commands.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.HELP[0].upper() + module.HELP[1:] + ".",
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(sub)
        sub.add_argument("--json", action="store_true", help="print JSON, errors too")
        sub.set_defaults(run=module.run)
    return parser
