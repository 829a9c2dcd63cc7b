"""The grammars that come with guided. In: a name. Out: a part of a specification.

They are files in Lark's notation, in the folder `grammars/` of the project, which an installed package has as
`guided/grammars/`. Each file begins with two lines that say what it is and how it is meant:

    // json: JSON texts, RFC 8259
    // semantics: lexer
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from guided.errors import SpecError, brief
from guided.spec.combinators import Expr, lark

__all__ = ["LibraryGrammar", "grammar", "library"]

_PACKAGE: Final = Path(__file__).parent.parent
_HEAD: Final = re.compile(r"// (?P<name>\w+): (?P<title>.+)\n// semantics: (?P<semantics>lexer|scannerless)\n")


@dataclass(frozen=True, slots=True)
class LibraryGrammar:
    """A grammar that comes with guided: what it is called and is, its text, and how that is meant."""

    name: str
    title: str
    semantics: Literal["lexer", "scannerless"]
    text: str


def library() -> dict[str, LibraryGrammar]:
    """The grammars that come with guided, by name."""
    return {each.name: each for each in _read()}


def grammar(name: str) -> Expr:
    """A grammar that comes with guided, as "json"; `guided.library()` lists them.

    Raises:
        SpecError: there is none of this name.
    """
    found = library()
    if name not in found:
        close = difflib.get_close_matches(str(name), found, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(found))}"
        raise SpecError(f"no grammar {brief(name)} comes with guided", hint=hint)
    return lark(found[name].text, semantics=found[name].semantics)


def _read() -> Iterator[LibraryGrammar]:
    installed = _PACKAGE / "grammars"
    folder = installed if installed.is_dir() else _PACKAGE.parent / "grammars"
    for path in sorted(folder.glob("*.lark")):
        text = path.read_text(encoding="utf-8")
        head = _HEAD.match(text)
        if head is None or head["name"] != path.stem:
            raise SpecError(f"{path.name} does not begin as a grammar of the library does", text=text)
        semantics = cast(Literal["lexer", "scannerless"], head["semantics"])
        yield LibraryGrammar(path.stem, head["title"], semantics, text)
