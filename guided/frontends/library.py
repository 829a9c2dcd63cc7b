r"""Loads the grammars that come with guided. In: a name. Out: a part of a specification.

The grammars are files in Lark's notation, in the folder `grammars/` of the project, or `guided/grammars/` of an
installed package. Each file begins with two lines: a description, and the semantics. The semantics are "contextual
lexer" (the lexer tries the terminals that the rules can accept), "basic lexer" (it tries all terminals), or
"scannerless" (there is no lexer). An optional third line names an indenter of Lark: "python" is `PythonIndenter`.

    // python: programs of Python 3
    // semantics: basic lexer
    // indentation: python

Next to each file is its grammar as IR (`NAME.stored`), which `scripts/store_grammars.py` writes. With it, the first use
in a process takes about a third of the time, and Lark is not imported. If the grammar has a lexer and is the whole
specification, the core reads the tables itself. The stored grammar is used if it was made from the same text by the
same version of guided. Otherwise the text is read. The version of Unicode must also be the same if the text contains
classes such as \w, as only `python` does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal, cast

from guided.close_names import find_closest_name
from guided.errors import GuidedError, SpecError, brief
from guided.frontends.combinators import Expr, ReadPart, lark
from guided.frontends.json_schema.options import DEFAULTS, JsonSchemaOptions
from guided.frontends.lark.indentation import INDENTERS
from guided.frontends.stored import Container, Tables, read_container, write_container
from guided.ir.nodes import Grammar, Node
from guided.limits import Limits

__all__ = ["LibraryGrammar", "grammar", "library", "store_library"]

_STORED: Final = ".stored"
_PACKAGE: Final = Path(__file__).parent.parent
_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "contextual lexer": {"semantics": "lexer"},
    "basic lexer": {"semantics": "lexer", "lexer": "basic"},
    "scannerless": {"semantics": "scannerless"},
}
_UNICODE_CLASS: Final = re.compile(r"(?<!\\)(?:\\\\)*\\(?:[wWdDbB]|[pPN]\{)")
_HEAD: Final = re.compile(
    rf"// (?P<name>\w+): (?P<title>.+)\n// semantics: (?P<semantics>{'|'.join(_OPTIONS)})\n"
    rf"(?:// indentation: (?P<postlex>{'|'.join(INDENTERS)})\n)?"
)


@dataclass(frozen=True, slots=True)
class LibraryGrammar:
    """A grammar that comes with guided: its name and description, its text, and its options for `guided.lark`."""

    name: str
    title: str
    options: Mapping[str, Any]
    text: str

    @property
    def semantics(self) -> Literal["lexer", "scannerless"]:
        """ "lexer" if the grammar has a lexer, otherwise "scannerless"."""
        return cast(Literal["lexer", "scannerless"], self.options["semantics"])


def library() -> dict[str, LibraryGrammar]:
    """The grammars that come with guided, by name."""
    return {name: _read_grammar(path) for name, path in _files().items()}


def grammar(name: str) -> Expr:
    """A grammar that comes with guided, such as "json"; `guided.library()` lists them.

    Raises:
        SpecError: the name is unknown.
    """
    files = _files()
    if not isinstance(name, str) or name not in files:
        close = find_closest_name(str(name), files)
        hint = f"did you mean {close!r}?" if close else f"the grammars are {', '.join(files)}"
        raise SpecError(f"no grammar {brief(name)} comes with guided", hint=hint)
    return _load_part(files[name])


@lru_cache(maxsize=64)
def _load_part(path: Path) -> Expr:
    """The part that a file defines. It is always the same object, so compilers find it in their caches."""
    source = _read_grammar(path)
    part = cast(ReadPart, lark(source.text, **source.options))

    @lru_cache(maxsize=4)
    def stored(limits: Limits) -> Container | None:
        return _read_stored(path, source.text, limits)

    @lru_cache(maxsize=4)
    def read(limits: Limits, options: JsonSchemaOptions) -> Grammar | Node:
        container = stored(limits)
        with suppress(GuidedError):
            if container is not None:
                return container.grammar()
        return part.read(limits, options, [])

    def tables(limits: Limits) -> Tables | None:
        container = stored(limits)
        return None if container is None else container.tables

    return replace(part, read=lambda limits, options, _: read(limits, options), stored=tables)


def _read_stored(path: Path, text: str, limits: Limits) -> Container | None:
    """The stored grammar of a file; None if it does not exist, or was made from something else."""
    try:
        container = read_container(path.with_suffix(_STORED).read_bytes(), limits)
    except (OSError, GuidedError):
        return None
    return container if container.metadata.get("made_from") == _fingerprint(text) else None


def _fingerprint(text: str) -> list[str]:
    """Everything on which the grammar of a text depends, except guided's version."""
    fingerprint = [blake2b(text.encode(), digest_size=20).hexdigest()]
    return [*fingerprint, unicodedata.unidata_version] if _UNICODE_CLASS.search(text) else fingerprint


def store_library() -> None:
    """Write the stored grammars of all files."""
    for path in _files().values():
        source = _read_grammar(path)
        grammar = cast(ReadPart, lark(source.text, **source.options)).read(Limits(), DEFAULTS, [])
        assert isinstance(grammar, Grammar)
        path.with_suffix(_STORED).write_bytes(write_container([grammar], {"made_from": _fingerprint(source.text)}))


def _files() -> dict[str, Path]:
    """The files, by the names of their grammars."""
    package_folder = _PACKAGE / "grammars"
    folder = package_folder if package_folder.is_dir() else _PACKAGE.parent / "grammars"
    return {path.stem: path for path in sorted(folder.glob("*.lark"))}


def _read_grammar(path: Path) -> LibraryGrammar:
    text = path.read_text(encoding="utf-8")
    head = _HEAD.match(text)
    if head is None or head["name"] != path.stem:
        raise SpecError(f"{path.name} does not begin with the header of a library grammar", text=text)
    options = dict(_OPTIONS[head["semantics"]])
    if head["postlex"] is not None:
        options["postlex"] = head["postlex"]
    return LibraryGrammar(path.stem, head["title"], options, text)
