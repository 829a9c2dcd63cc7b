"""Reads a text in Lark's notation with C++ code. In: a text and its start rule. Out: terminals, rules and locations.

How: the C++ code (`native/grammar.hpp`) gives the same results as Lark's loader in about a hundredth of the time. It
gives up on errors, rare statements and very large texts, which `grammar_builder.py` and `ebnf_expansion.py` then read
with Lark itself. So all errors are Lark's.

Imported files are found here, in the same folders as with Lark.
"""

from __future__ import annotations

import re._parser as parser  # type: ignore[import-not-found]
from dataclasses import dataclass
from typing import Any, Final

from guided.frontends.lark import _lark
from guided.limits import Limits
from guided.meter import spend

from .alphabet import alphabet
from .ebnf_expansion import Symbols
from .imported_files import ImportedFiles, file_name, folder_of
from .lark_errors import lark_package
from .sources import Defined, Source, Sources

__all__ = ["LARGEST_WIDTH", "NativeGrammar", "NativeTerminal", "read_grammar"]

LARGEST_WIDTH: Final = int(getattr(parser, "MAXWIDTH", parser.MAXREPEAT))
"""The width of unbounded texts in Python's `re`."""


@dataclass(frozen=True, slots=True)
class NativeTerminal:
    """A terminal: see `LoadedTerminal`. `raw`: the literal as written, or "". `width`: None if it is not known.

    `is_named`: it is defined in a text, and not a literal in a rule.
    """

    name: str
    source: str
    is_text: bool
    priority: int
    value: str
    flags: frozenset[str]
    raw: str
    is_named: bool
    width: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class NativeGrammar:
    """The terminals in Lark's order, the alternatives of each rule, the ignored terminals, and all locations."""

    terminals: list[NativeTerminal]
    rules: dict[str, list[Symbols]]
    ignored: tuple[str, ...]
    sources: Sources


def read_grammar(text: str, start: str, import_paths: tuple[str, ...], limits: Limits) -> NativeGrammar | None:
    """See the module docstring; None if Lark has to read the text."""
    loader = lark_package().load_grammar
    sources = Sources([Source(text)])
    files = ImportedFiles(loader, import_paths, limits)
    folders: list[Any] = [None]

    def open_import(path: tuple[str, ...], is_relative: bool, aliases: dict[str, str], outer: int) -> tuple[int, str]:
        importing = sources.texts[outer]
        file, imported = files.find(importing, (0, 0), path, folders[outer] if is_relative else None)
        mangled = loader._get_mangle("__".join(path), aliases, importing.mangled)
        sources.texts.append(Source(imported, file_name(file), mangled))
        folders.append(folder_of(file))
        return len(folders) - 1, imported

    depth_and_nodes = limits.depth, limits.nodes
    found = _lark.read_grammar(text, start, alphabet(), depth_and_nodes, _name_of_string, _width_of, open_import)
    if found is None:
        return None
    terminals, rules, ignored, locations = found
    spend(len(text))
    for name, written, number, span in locations:
        sources.defined[name] = Defined(written, sources.texts[number], span)
    return NativeGrammar([_terminal(*each) for each in terminals], rules, tuple(ignored), sources)


def _terminal(
    name: str, source: str, is_text: bool, priority: int, value: str, flag: str, raw: str, is_named: bool,
    width: tuple[int, int | None] | None,
) -> NativeTerminal:  # fmt: skip
    known = None if width is None else (width[0], LARGEST_WIDTH if width[1] is None else width[1])
    return NativeTerminal(name, source, is_text, priority, value, frozenset(flag), raw, is_named, known)


def _name_of_string(value: str) -> str:
    """The name that Lark prefers for the terminal of a string, or ""."""
    loader = lark_package().load_grammar
    if value in loader._TERMINAL_NAMES:
        return str(loader._TERMINAL_NAMES[value])
    is_name = loader.is_id_continue(value) and loader.is_id_start(value[0])
    return value.upper() if is_name else ""


def _width_of(pattern: str) -> tuple[int, int | None]:
    """The least and greatest width of a pattern, as Lark computes them.

    Raises:
        OverflowError: Python's versions treat so large a width differently. Others: the pattern is invalid.
    """
    from lark.utils import get_regexp_width  # an extra

    least, greatest = get_regexp_width(pattern)
    if int(parser.MAXREPEAT) <= greatest < LARGEST_WIDTH:
        raise OverflowError("the width is too large")
    return int(least), None if greatest >= LARGEST_WIDTH else int(greatest)
