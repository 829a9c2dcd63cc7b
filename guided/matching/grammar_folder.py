"""Stores grammars in a folder, which several processes may share. In: a specification's key, and bytes to store. Out:
the stored bytes.

A file's name is a digest of the specification, its options and limits, the vocabulary, and the versions of everything
that takes part in reading specifications: guided and its source files, Python, Unicode, Lark. So files are never
changed: after an update, they have new names. Specifications whose key does not determine their content are not stored:
composed specifications, whose keys are objects, and grammars that import files from the caller's folders.

A file begins with the digest that is its name. It is written under a temporary name and then renamed, so readers
see a complete file or none. Reading a file updates its modification time. If the files together take more than
`_MAX_BYTES`, the ones with the oldest times are removed. Temporary files that a process has left behind are removed
after an hour.

Several users can share a folder. The umask determines who can read a file, as for any other new file. The time of a
file that belongs to another user is updated only if this user may write the file.

A file system error never makes a compilation fail. If a file cannot be written, or its permissions forbid reading it,
guided warns once. A file that cannot be read is compiled again and replaced.

A user who can write to the folder can replace a grammar with another one, but cannot harm the process in other ways: a
file is opened once, without waiting for a writer, and not read beyond `_MAX_FILE_BYTES`.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import threading
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from time import time
from typing import Final

from guided.errors import OptionError, SpecError, brief, find_caller
from guided.files.regular_file import open_regular_file
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.stored import FORMAT, check_json
from guided.keywords import check_path
from guided.version import __version__

__all__ = ["FolderWarning", "GrammarFolder"]

_MAX_BYTES: Final = 256 << 20
_MAX_FILE_BYTES: Final = 64 << 20  # per file
_WRITES_PER_SCAN: Final = 64  # files written between two scans of the folder
_MAX_TEMPORARY_SECONDS: Final = 3600.0
_SUFFIX: Final = ".grammar"
_FILE_NAME: Final = re.compile(rf"[0-9a-f]{{40}}{re.escape(_SUFFIX)}(\..*\.tmp)?")
_DIGEST_BYTES: Final = 20
_PLAIN_TYPES: Final = frozenset((str, int, float, bool, type(None), JsonSchemaOptions))


class FolderWarning(RuntimeWarning):
    """Files in a folder of grammars cannot be written or read, so grammars are compiled again."""


class GrammarFolder:
    """Stored grammars in a folder, which is created when the first one is written. Thread-safe.

    Raises:
        OptionError: `path` is not a path, is empty, or leads to something that is not a folder.
    """

    def __init__(self, path: str | PathLike[str], max_bytes: int = _MAX_BYTES) -> None:
        check_path("cache_dir", path)
        try:
            is_usable = isinstance(os.fspath(path), str) and b"\0" not in os.fsencode(path)
        except UnicodeEncodeError:
            is_usable = False
        if not is_usable:
            raise OptionError(f"cache_dir is {brief(path)}, which cannot be the path of a folder", option="cache_dir")
        if not os.fspath(path):
            hint = 'None means no folder, and "." the current one'
            raise OptionError(f'cache_dir is "", which is not the path of a folder: {hint}', option="cache_dir")
        self.path, self.max_bytes = Path(path), max_bytes
        existing_path = next(filter(os.path.exists, (self.path, *self.path.parents)), None)
        if existing_path is not None and not os.path.isdir(existing_path):
            problem = "which" if existing_path == self.path else f"but {brief(str(existing_path))}"
            raise OptionError(f"cache_dir is {brief(str(path))}, {problem} is not a folder", option="cache_dir")
        _, frame = find_caller()
        self._made_at = frame.f_code.co_filename, frame.f_lineno, str(frame.f_globals.get("__name__"))
        self._total_bytes, self._write_count = 0, 0
        self._has_warned = False
        self._lock = threading.Lock()

    def name_of(self, key: tuple[object, ...], parts: Sequence[object], vocabulary: str) -> str | None:
        """The name of a specification's file; None if it cannot be stored.

        Args:
            key: the specification's key in the cache, and the limits.
            parts: the values that the key contains only as their `repr`.
            vocabulary: the vocabulary's digest.
        """
        if not _is_plain(key):
            return None
        try:
            check_json(list(parts))
            content = repr((key, vocabulary, _versions())).encode("utf-8", "surrogatepass")
        except (SpecError, ValueError):  # ValueError: an integer is too long
            return None
        return blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()

    def read(self, name: str) -> bytes | None:
        """The bytes that were stored under a name; None if there is no such file, or it cannot be read."""
        path = self.path / (name + _SUFFIX)
        try:
            data = _read_file(path)
        except PermissionError as error:
            self._warn("read", error)
            return None
        except OSError:
            return None
        if data[:_DIGEST_BYTES] != bytes.fromhex(name):
            return None
        with suppress(OSError):  # another user's file
            os.utime(path)
        return data[_DIGEST_BYTES:]

    def write(self, name: str, data: bytes) -> None:
        """Store bytes under a name, and remove the least recently used files if all of them take too much space."""
        if len(data) > min(_MAX_FILE_BYTES, self.max_bytes):
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._write_file(name + _SUFFIX, bytes.fromhex(name) + data)
        except OSError as error:
            self._warn("stored", error)
            return
        with self._lock:
            self._total_bytes += len(data)
            self._write_count += 1
            if self._write_count % _WRITES_PER_SCAN == 1 or self._total_bytes > self.max_bytes:
                self._total_bytes = self._remove_oldest()

    def _write_file(self, name: str, data: bytes) -> None:
        temporary_path = self.path / f"{name}.{secrets.token_hex(8)}.tmp"
        with open(temporary_path, "xb") as file:  # unlike those of `tempfile`, its mode follows the umask
            try:
                file.write(data)
                file.close()
                os.replace(temporary_path, self.path / name)
            except BaseException:
                file.close()
                temporary_path.unlink(missing_ok=True)
                raise

    def _warn(self, action: str, error: OSError) -> None:
        """Warn once. The warning points to the line that chose the folder: in a worker thread, there is no caller."""
        with self._lock:
            has_warned, self._has_warned = self._has_warned, True
        if not has_warned:
            warning = FolderWarning(f"grammars cannot be {action} in {self.path}: {error}")
            file, line, module = self._made_at
            warnings.warn_explicit(warning, FolderWarning, file, line, module)

    def _remove_oldest(self) -> int:
        """Remove the oldest files until the others fit. Returns the size of the others in bytes."""
        now, total = time(), 0
        for path, modified, size in sorted(self._scan_files(), key=lambda file: -file[1]):
            is_temporary = path.suffix == ".tmp"
            if now - modified > _MAX_TEMPORARY_SECONDS if is_temporary else total + size > self.max_bytes:
                with suppress(OSError):  # another process has it open, or another user owns it
                    path.unlink(missing_ok=True)
            else:
                total += size
        return total

    def _scan_files(self) -> Iterator[tuple[Path, float, int]]:
        """Yield the path, modification time and size of each grammar file and temporary file in the folder."""
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if _FILE_NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        yield Path(entry.path), status.st_mtime, status.st_size
        except OSError:  # another process is removing files
            return


def _read_file(path: Path) -> bytes:
    """The bytes of a file that anyone may have written; "" if it is too large. Raises OSError if it is not a file."""
    with open_regular_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        return file.read(size) if size <= _MAX_FILE_BYTES else b""


def _is_plain(key: object) -> bool:
    """Whether the `repr` of a key determines its content."""
    pending = [key]
    for item in pending:  # grows during the loop
        if type(item) is tuple:
            pending += item
        elif type(item) not in _PLAIN_TYPES:
            return False
    return True


@cache
def _versions() -> tuple[object, ...]:
    """The versions of all code that reads specifications."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        lark = version("lark")
    except PackageNotFoundError:
        lark = ""
    package, files = Path(__file__).parent.parent, []
    for folder in ("ir", "frontends", "automaton"):
        for path in sorted((package / folder).rglob("*.*")):
            if path.suffix in (".py", ".so", ".pyd", ".json"):
                status = path.stat()
                files.append((str(path.relative_to(package)), status.st_size, status.st_mtime_ns))
    sources = blake2b(repr(files).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return FORMAT, __version__, sources, sys.version_info[:3], unicodedata.unidata_version, lark
