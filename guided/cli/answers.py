"""Writes the answers of a batch: to standard output in order, or to a file as they arrive.

In: answers in any order, each a line of JSON, with the number of the request. Out: the lines, in the order of the
requests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from guided.cli.console import InputError

__all__ = ["AnswerFile", "Answers", "AnswersInOrder"]

Key = tuple[str | int, str]  # the id and the digest of a request


class Answers(Protocol):
    """Takes the answers to requests 0, 1, 2, ...

    Attributes:
        kept_numbers: the numbers of the requests that an earlier run answered.
    """

    kept_numbers: frozenset[int]

    def write(self, number: int, text: str) -> None:
        """Write the answer to a request."""

    def close(self) -> None:
        """Finish, after the last answer or after an interruption."""


class AnswersInOrder:
    """Writes answers to standard output in order. An answer waits until all answers before it are written."""

    def __init__(self) -> None:
        self._next, self._pending_texts = 0, dict[int, str]()
        self.kept_numbers = frozenset[int]()

    def write(self, number: int, text: str) -> None:
        """Print the answer as soon as all answers before it are printed."""
        self._pending_texts[number] = text
        while self._next in self._pending_texts:
            print(self._pending_texts.pop(self._next), flush=True)
            self._next += 1

    def close(self) -> None:
        """Print the waiting answers, even if an answer before them is missing."""
        for number in sorted(self._pending_texts):
            print(self._pending_texts.pop(number), flush=True)


class AnswerFile:
    """Answers in a file. Each is appended when it arrives; `close` sorts the file.

    Attributes:
        kept_numbers: see `Answers`.
        mismatched_count: the number of earlier answers with the id of a request of this batch that answer another
            request.
    """

    def __init__(self, path: Path, keys: Sequence[Key], *, resume: bool) -> None:
        """`keys`: the keys of the requests.

        Raises:
            InputError: the directory does not exist, the path is not a regular file, the file is not empty although
                `resume` is False, or a line is not an answer with the id of a request.
        """
        self._path, self._lines = path, dict[int, str]()
        self.mismatched_count = 0
        if path.exists() and not path.is_file():
            raise InputError(f"--output {path} is {'a directory' if path.is_dir() else 'not a regular file'}")
        if not path.parent.is_dir():
            raise InputError(f"there is no directory {path.parent} for --output {path}")
        if path.exists() and path.stat().st_size:
            if not resume:
                raise InputError(f"{path} is not empty: continue it with --resume, or remove it")
            self._read_earlier(keys)
        self.kept_numbers = frozenset(self._lines)
        self._sort()  # drops a truncated line and answers that will be generated again
        self._file = path.open("a", encoding="utf-8")

    def write(self, number: int, text: str) -> None:
        """Append the answer."""
        self._lines[number] = text
        self._file.write(text + "\n")
        self._file.flush()

    def close(self) -> None:
        """Sort the file."""
        self._file.close()
        if list(self._lines) != sorted(self._lines):
            self._sort()

    def _read_earlier(self, keys: Sequence[Key]) -> None:
        numbers = {key: number for number, key in enumerate(keys)}
        known_ids = {id for id, _ in keys}
        *lines, _ = self._path.read_bytes().split(b"\n")  # if the last line has no line end, it was truncated
        for line_number, line in enumerate(lines, 1):
            answer = _parse_answer(line)
            if answer is None or answer["id"] not in known_ids:
                problem = (
                    "not an answer" if answer is None else f"an answer to {answer['id']!r}, which is not in the batch"
                )
                raise InputError(
                    f"{self._path}, line {line_number}: this is {problem}; is it the file of another batch?"
                )
            number = numbers.get((answer["id"], answer["request"]))
            self.mismatched_count += number is None
            if number is not None and "error" not in answer:
                self._lines[number] = line.decode()

    def _sort(self) -> None:
        """Replace the file with a sorted copy. This is atomic, so the file is never half written."""
        temporary_path = self._path.with_name(f".{self._path.name}.part")
        temporary_path.write_text(
            "".join(f"{self._lines[number]}\n" for number in sorted(self._lines)), encoding="utf-8"
        )
        os.replace(temporary_path, self._path)
        self._lines = dict(sorted(self._lines.items()))


def _parse_answer(line: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_answer = (
        isinstance(answer, dict) and isinstance(answer.get("id"), str | int) and isinstance(answer.get("request"), str)
    )
    return answer if is_answer else None
