"""Finds the files that a text imports. In: the path of a grammar. Out: the file and its text.

Safety: a text may be untrusted. It can import only the files that come with Lark, unless the caller passes folders.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from guided.errors import LimitExceeded, SpecError
from guided.limits import Limits

from .sources import Source, Span

__all__ = ["ImportedFiles", "file_name", "folder_of"]


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    """The files in `import_paths`, and those that come with Lark. `loader`: the module `lark.load_grammar`."""

    loader: Any
    import_paths: tuple[str, ...]
    limits: Limits

    def find(self, source: Source, at: Span, path: tuple[str, ...], base: Any) -> tuple[Any, str]:
        """A file and its text. The caller's text has no folder, so its `%import .name` also searches `import_paths`.

        Args:
            source, at: the import.
            path: the parts of the name.
            base: the folder of a relative import.

        Raises:
            SpecError, LimitExceeded: there is no such file, it is not UTF-8, or it is too long.
        """
        name = os.path.join(*path) + ".lark"
        for folder in [*self.import_paths, *([base] if isinstance(base, str) else [])]:
            file = os.path.join(folder, name)
            try:
                with open(file, encoding="utf-8") as stream:
                    text = stream.read(self.limits.spec_length + 1)
            except OSError:
                continue
            except ValueError:
                raise source.error(SpecError(f"{file} is not UTF-8 text"), at, "save it as UTF-8") from None
            if len(text) > self.limits.spec_length:
                error = LimitExceeded("spec_length", len(text), self.limits.spec_length, place=file)
                raise source.error(error, at)
            return file, text
        try:
            result: tuple[Any, str] = self.loader.stdlib_loader(base, name)
        except OSError:
            hint = "imports are searched in Lark's own grammars and in import_paths=[...]"
            raise source.error(SpecError(f"there is no grammar {name!r} to import"), at, hint) from None
        return result


def file_name(file: Any) -> str:
    """The name of a file in errors."""
    return file if isinstance(file, str) else f"{file.pkg_name}'s {os.path.basename(file.path)}"


def folder_of(file: Any) -> Any:
    """The folder of a file. For a file in a package, this is an object of Lark."""
    return os.path.dirname(file) if isinstance(file, str) else type(file)(file.pkg_name, os.path.dirname(file.path))
