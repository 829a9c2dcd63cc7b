"""Input and output of all commands: exit codes, input files, errors as text or JSON, progress.

Results go to standard output, everything else to standard error. With --json, standard output holds only JSON,
including errors. With --quiet, standard error holds only errors. On a terminal, a task that takes more than two seconds
shows a progress line.

Input files are UTF-8 text. A byte order mark at the start and one line break at the end are not part of the text.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TextIO

from guided.cli.kinds import as_flags
from guided.errors import BudgetError, GuidedError, GuidedWarning, SpecError, fields_of
from guided.frontends.json_schema.documents.source_spans import syntax_error
from guided.frontends.json_schema.documents.values import load_json
from guided.matching.grammar_folder import FolderWarning

__all__ = [
    "BAD_INPUT",
    "DONE",
    "NEGATIVE",
    "InputError",
    "Progress",
    "brief_text",
    "error_fields",
    "format_error",
    "note",
    "parse_json",
    "print_error",
    "print_json",
    "quietly",
    "read_text",
    "warnings_as_notes",
]

DONE: Final = 0
NEGATIVE: Final = 1
BAD_INPUT: Final = 2

_PROGRESS_DELAY_SECONDS: Final = 2.0
_MAX_BYTES: Final = 256 << 20


class InputError(GuidedError):
    """The command line, or a file that it names, cannot be used."""


def read_text(name: str, hint: str = "") -> str:
    """The text of a file, without a byte order mark at its start and without one line break at its end.

    Args:
        name: the name of the file; "-" is standard input.
        hint: what to do if the file does not exist.

    Raises:
        InputError: the file cannot be read, is larger than 256 MiB, or is not UTF-8 text.
    """
    if not name:
        raise InputError("the name of a file is empty" + (f"; {hint}" if hint else ""))
    source = "standard input" if name == "-" else name
    try:
        data = _read(name)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        hint = hint if isinstance(error, FileNotFoundError) or not isinstance(error, OSError) else ""
        raise InputError(f"cannot read {brief_text(name)}: {reason}" + (f"; {hint}" if hint else "")) from None
    if len(data) > _MAX_BYTES:
        raise InputError(f"{source} is larger than {_MAX_BYTES >> 20} MiB, the largest supported size")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{source} is UTF-16 text; save it as UTF-8")
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        valid_text = data[: error.start].decode(errors="replace")
        problem = f"is not UTF-8 text: byte {data[error.start]:#04x} at offset {error.start}"
        raise InputError(f"{source} {problem}, in line {valid_text.count(chr(10)) + 1}") from None
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")


def _read(name: str) -> bytes:
    if name != "-":
        if Path(name).is_dir():
            raise InputError(f"{name} is a directory, not a file")
        with open(name, "rb") as file:
            return file.read(_MAX_BYTES + 1)
    if sys.stdin is None:
        raise InputError("standard input is closed, but - is given")
    if sys.stdin.closed:
        raise InputError("standard input can be read only once, but - is given twice")
    with sys.stdin.buffer as stream:
        return stream.read(_MAX_BYTES + 1)


def parse_json(text: str, file: str, subject: str, span: tuple[int, int] | None = None) -> Any:
    """The value of a JSON text, or of the part of it at `span`.

    Args:
        text: the content of a file.
        file: the name of the file, for errors.
        subject: what the text or the part is, for errors, such as "the line".
        span: (start, end) offsets into `text`, in characters; None: the whole text.

    Raises:
        InputError: it is not JSON, writes a key twice in one object, nests too deeply for Python, or contains an
            integer with more digits than Python reads. The error has a position in `text`.
    """
    start, end = span or (0, len(text))
    location, hint = (start, end), ""
    try:
        return load_json(text[start:end])
    except json.JSONDecodeError as error:
        problem = syntax_error(error, subject)
        message, hint = problem.message, problem.hint if error.doc.strip() else ""
        location = (problem.span[0] + start, problem.span[1] + start)
    except SpecError as error:
        message, hint = f"{error.message}, at {error.pointer}", error.hint
        location = (error.span[0] + start, error.span[1] + start)
    except RecursionError:
        message = f"{subject} has more nested arrays and objects than Python reads"
    except ValueError:
        message = f"an integer in {subject} has more than {sys.get_int_max_str_digits():,} digits"
    raise InputError(message).with_location(text, location, file, hint=hint)


def brief_text(text: str, max_length: int = 80) -> str:
    """Shorten a text so that it can be quoted on one line."""
    line = " ".join(text.split())
    return line if len(line) <= max_length else f"{line[:max_length]}..."


def format_error(error: Exception) -> str:
    """The message to show for an error. For an operating system error: the file and the reason."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    if isinstance(error, BudgetError) and error.requested is None:
        return f"{error}\n  hint: pass --max-tokens {error.needed}, or more"
    return "not enough memory" if isinstance(error, MemoryError) else str(error)


def error_fields(error: Exception) -> dict[str, Any]:
    """The fields of an error for JSON."""
    if isinstance(error, GuidedError):
        return fields_of(error)
    return {"type": type(error).__name__, "message": format_error(error)}


def print_json(value: object) -> None:
    """Print one JSON document on one line of standard output."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def note(text: str) -> None:
    """Print a remark on standard error, unless --quiet is given."""
    print(as_flags(text), file=sys.stderr, flush=True)


def print_error(text: str) -> None:
    """Print an error on standard error, even with --quiet."""
    print(as_flags(text), file=_error_stream or sys.stderr, flush=True)


_error_stream: TextIO | None = None
"""The real standard error, while `quietly` suppresses other output."""


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress all output to standard error, from any library, except errors from `print_error`."""
    global _error_stream
    _error_stream = sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as null_device, redirect_stderr(null_device):
        try:
            yield
        finally:
            _error_stream = None


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print each line of guided's warnings on standard error, but each line only once."""
    printed_lines: set[str] = set()
    with warnings.catch_warnings():
        for shown in (GuidedWarning, FolderWarning):
            warnings.simplefilter("always", shown)
        show_others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not isinstance(message, GuidedWarning | FolderWarning):
                show_others(message, category, filename, lineno, file, line)
                return
            for text in str(message).splitlines():
                if text not in printed_lines:
                    printed_lines.add(text)
                    note(f"warning: {text}")

        warnings.showwarning = show
        yield


class Progress:
    """`with Progress("compiling"):` shows the task and its elapsed time on a terminal after two seconds."""

    def __init__(self, task: str) -> None:
        self._task, self._done_event = task, threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True) if sys.stderr.isatty() else None

    def __enter__(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._done_event.set()
            self._thread.join()

    def _show(self) -> None:
        start = time.monotonic()
        is_visible = False
        while not self._done_event.wait(1.0 if is_visible else _PROGRESS_DELAY_SECONDS):
            sys.stderr.write(f"\r{self._task}: {time.monotonic() - start:.0f} s")
            sys.stderr.flush()
            is_visible = True
        if is_visible:
            sys.stderr.write("\n")
