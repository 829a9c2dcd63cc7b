"""Finds the files that a grammar imports. In: the path of an imported grammar. Out: the file and its text.

Safety: a grammar may be untrusted. It can import only the files that come with Lark, unless the caller passes folders.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Any, Final

from guided.errors import LimitExceeded, SpecError
from guided.files.regular_file import open_regular_file
from guided.limits import Limits

from .sources import Source, Span

__all__ = ["ImportedFiles", "format_file_name", "get_folder", "state_of_folders"]

_MAX_ENTRIES: Final = 1000  # the limit on the files and folders whose state is part of a cache key


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    """The files in `import_paths`, and the files that come with Lark. `loader`: the module `lark.load_grammar`."""

    loader: Any
    import_paths: tuple[str, ...]
    limits: Limits

    def find(self, source: Source, span: Span, path: tuple[str, ...], base: Any) -> tuple[Any, str]:
        """(file, its text). All imports search `import_paths` first. Relative imports then search the folder of the
        importing file; the caller's grammar has none. Lark's own grammars come last.

        Args:
            source, span: the location of the `%import`, for errors.
            path: the parts of the name.
            base: the folder of a relative import.

        Raises:
            SpecError: there is no such file, or it is not UTF-8. LimitExceeded: it is too long.
        """
        name = os.path.join(*path) + ".lark"
        for folder in [*self.import_paths, *([base] if isinstance(base, str) else [])]:
            file = os.path.join(folder, name)
            try:
                with TextIOWrapper(open_regular_file(file), encoding="utf-8") as stream:
                    text = stream.read(self.limits.spec_length + 1)
            except OSError:
                continue
            except ValueError:
                raise source.error(SpecError(f"{file} is not UTF-8 text"), span, "save it as UTF-8") from None
            if len(text) > self.limits.spec_length:
                error = LimitExceeded("spec_length", len(text), self.limits.spec_length, place=file)
                raise source.error(error, span)
            return file, text
        try:
            result: tuple[Any, str] = self.loader.stdlib_loader(base, name)
        except OSError:
            hint = "imports are searched in Lark's own grammars and in import_paths=[...]"
            raise source.error(SpecError(f"there is no grammar {name!r} to import"), span, hint) from None
        return result


def state_of_folders(folders: Sequence[str]) -> object:
    """A part of a cache key: the grammars in the folders, with their sizes and times of modification. It is unhashable,
    which prevents caching, if there are too many files.
    """
    state, pending, count = list[tuple[str, int, int, int]](), list(folders), 0
    for folder in pending:  # grows during the loop
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    count += 1
                    if count > _MAX_ENTRIES:
                        return []
                    if entry.is_dir():
                        pending.append(entry.path)
                    elif entry.name.endswith(".lark"):
                        status = entry.stat()
                        state.append((entry.path, status.st_size, status.st_mtime_ns, status.st_ino))
        except OSError:  # imports do not find the files of this folder either
            continue
    return tuple(sorted(state))


def format_file_name(file: Any) -> str:
    """The name of a file for error messages."""
    return file if isinstance(file, str) else f"{file.pkg_name}'s {os.path.basename(file.path)}"


def get_folder(file: Any) -> Any:
    """The folder of a file. For a file in a package, this is a `PackageResource` of Lark."""
    return os.path.dirname(file) if isinstance(file, str) else type(file)(file.pkg_name, os.path.dirname(file.path))
