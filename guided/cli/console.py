"""What the commands share towards the outside: exit codes, input files, errors as text or JSON, progress.

Results go to standard output, everything else to standard error. With --json standard output holds JSON alone, errors
included. Progress is shown for what takes more than two seconds: one line that is rewritten on a terminal, a new line
every ten seconds elsewhere.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TextIO

from guided.errors import GuidedError, GuidedWarning, LimitExceeded, SpecError, UnsupportedError

__all__ = [
    "BAD_INPUT",
    "DONE",
    "NO",
    "InputError",
    "Progress",
    "error_fields",
    "note",
    "print_json",
    "read_text",
    "warnings_as_notes",
]

DONE: Final = 0
NO: Final = 1
BAD_INPUT: Final = 2

_QUIET_SECONDS: Final = 2.0


class InputError(GuidedError):
    """The command line, or a file that it names, cannot be used."""


def read_text(name: str) -> str:
    """The text of a file; "-" is standard input. A byte order mark is kept: the readers say what they think of it."""
    if name == "-" and sys.stdin.closed:
        raise InputError("- stands for standard input twice, which can be read only once")
    try:
        if name == "-":
            with sys.stdin.buffer as stream:
                data = stream.read()
        else:
            data = Path(name).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot read {name}: {reason}") from None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: byte {data[error.start]:#04x} at offset {error.start}") from None


def error_fields(error: Exception) -> dict[str, Any]:
    """An error as data."""
    fields: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, SpecError | UnsupportedError):
        fields["message"] = error.message if isinstance(error, SpecError) else error.reason
        fields |= {"pointer": error.pointer, "hint": error.hint}
        fields["span"] = list(error.span) if error.text else None
    if isinstance(error, LimitExceeded):
        fields |= {"limit": error.limit, "given": error.given, "allowed": error.allowed, "hint": error.hint}
    return fields


def print_json(value: object) -> None:
    """One JSON document on one line of standard output."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def note(text: str) -> None:
    """A remark beside the result."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """What guided warns of becomes a line on standard error for each finding; no line is written twice."""
    told: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", GuidedWarning)
        show_others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not isinstance(message, GuidedWarning):
                show_others(message, category, filename, lineno, file, line)
                return
            for text in str(message).splitlines():
                if text not in told:
                    told.add(text)
                    note(f"warning: {text}")

        warnings.showwarning = show
        yield


class Progress:
    """`with Progress("compiling"):` says so once two seconds have passed, and how long it takes."""

    def __init__(self, what: str) -> None:
        self._what, self._done = what, threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _tell(self) -> None:
        start = time.monotonic()
        terminal = sys.stderr.isatty()
        shown = False
        while not self._done.wait(_QUIET_SECONDS if not shown else 1.0 if terminal else 10.0):
            line = f"{self._what}: {time.monotonic() - start:.0f} s"
            sys.stderr.write(f"\r{line}" if terminal else f"{line}\n")
            sys.stderr.flush()
            shown = True
        if shown and terminal:
            sys.stderr.write("\n")
