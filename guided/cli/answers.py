"""Where the answers of a batch go: to standard output in order, or to a file at once.

In: answers as JSON texts of one line, each with the number of its request, in any order. Out: lines, in the order of
the requests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from guided.cli.console import InputError

__all__ = ["AnswerFile", "Answers", "AnswersInOrder"]

Key = tuple[str | int, str]  # the id of a request, and the digest of it


class Answers(Protocol):
    """Takes the answers of requests 0, 1, 2, ...

    Attributes:
        kept: the numbers of those whose answers are there already.
    """

    kept: frozenset[int]

    def write(self, number: int, text: str) -> None:
        """The answer of a request."""

    def close(self) -> None:
        """There are no more, or the run was interrupted."""


class AnswersInOrder:
    """On standard output."""

    def __init__(self) -> None:
        self._next, self._held = 0, dict[int, str]()
        self.kept = frozenset[int]()

    def write(self, number: int, text: str) -> None:
        """Print it as soon as all before it are printed."""
        self._held[number] = text
        while self._next in self._held:
            print(self._held.pop(self._next), flush=True)
            self._next += 1

    def close(self) -> None:
        """What is there beyond a gap."""
        for number in sorted(self._held):
            print(self._held.pop(number), flush=True)


class AnswerFile:
    """A file; each answer is written when it comes, and all are put in order when it is closed.

    Attributes:
        kept: see `Answers`.
        others: how many answers were there to requests of the same id that asked for something else.
    """

    def __init__(self, path: Path, keys: Sequence[Key], *, resume: bool) -> None:
        """`keys`: of the requests. InputError: the file is there, or holds answers to other requests."""
        self._path, self._lines = path, dict[int, str]()
        self.others = 0
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is {'a directory' if path.is_dir() else 'no file'}, and --output is a file")
        if not path.parent.is_dir():
            raise InputError(f"there is no directory {path.parent} for --output {path}")
        if path.exists() and path.stat().st_size:
            if not resume:
                raise InputError(f"{path} holds something already: --resume goes on with it, or remove it")
            self._take_over(keys)
        self.kept = frozenset(self._lines)
        self._sort()  # without a line that was cut off, and what is made again
        self._file = path.open("a", encoding="utf-8")

    def write(self, number: int, text: str) -> None:
        """Append it."""
        self._lines[number] = text
        self._file.write(text + "\n")
        self._file.flush()

    def close(self) -> None:
        """Put all in order."""
        self._file.close()
        if list(self._lines) != sorted(self._lines):
            self._sort()

    def _take_over(self, keys: Sequence[Key]) -> None:
        numbers = {key: number for number, key in enumerate(keys)}
        known = {id for id, _ in keys}
        *lines, _ = self._path.read_bytes().split(b"\n")  # what stands after the last was cut off
        for at, line in enumerate(lines, 1):
            answer = _answer(line)
            if answer is None or answer["id"] not in known:
                what = "is no answer" if answer is None else f"answers {answer['id']!r}, which is not asked for"
                raise InputError(f"{self._path}, line {at}: this {what}; is it another batch's file?")
            number = numbers.get((answer["id"], answer["request"]))
            self.others += number is None
            if number is not None and "error" not in answer:
                self._lines[number] = line.decode()

    def _sort(self) -> None:
        """In one move, so that no moment finds the file half written."""
        part = self._path.with_name(f".{self._path.name}.part")
        part.write_text("".join(f"{self._lines[number]}\n" for number in sorted(self._lines)), encoding="utf-8")
        os.replace(part, self._path)
        self._lines = dict(sorted(self._lines.items()))


def _answer(line: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return None
    good = (
        isinstance(answer, dict) and isinstance(answer.get("id"), str | int) and isinstance(answer.get("request"), str)
    )
    return answer if good else None
