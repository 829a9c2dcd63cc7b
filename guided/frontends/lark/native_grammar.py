"""Reads a Lark grammar with C++ code. In: a grammar and its start rule. Out: terminals, rules and locations.

How: the C++ code (`native/grammar.hpp`) gives the same results as Lark's loader in about a hundredth of the time. It
gives up on mistakes, rare statements and very large grammars, which `grammar_builder.py` and `ebnf_expansion.py` then
read with Lark itself. So all error messages come from Lark.

This module finds imported files in the same folders as Lark.
"""

from __future__ import annotations

import re._parser as parser  # type: ignore[import-not-found]
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from guided.frontends.lark import _lark
from guided.limits import Limits
from guided.meter import spend

from .alphabet import get_alphabet
from .ebnf_expansion import Symbols
from .imported_files import ImportedFiles, format_file_name, get_folder
from .lark_errors import import_lark
from .sources import DefinedName, Source, Sources

__all__ = ["LARGEST_WIDTH", "NativeGrammar", "NativeTerminal", "read_grammar"]

LARGEST_WIDTH: Final = int(getattr(parser, "MAXWIDTH", parser.MAXREPEAT))
"""The width that Python's `re` reports for patterns of unbounded width."""


NativeTerminal: TypeAlias = "tuple[str, str, bool, int, str, str, str, bool, tuple[int, int | None] | None]"
"""A terminal: (name, regular expression, whether it is a string, priority, value, flag, literal as written or "",
whether the grammar or an imported file defines it by name, width if it is known)."""


@dataclass(frozen=True, slots=True)
class NativeGrammar:
    """The terminals in Lark's order, the alternatives of each rule, the ignored terminals, and all locations."""

    terminals: list[NativeTerminal]
    rules: dict[str, list[Symbols]]
    ignored_terminals: tuple[str, ...]
    sources: Sources


def read_grammar(text: str, start: str, import_paths: tuple[str, ...], limits: Limits) -> NativeGrammar | None:
    """See the module docstring. None if Lark has to read the grammar."""
    loader = import_lark().load_grammar
    sources = Sources([Source(text)])
    files = ImportedFiles(loader, import_paths, limits)
    folders: list[Any] = [None]

    def open_import(
        path: tuple[str, ...], is_relative: bool, aliases: dict[str, str], importer: int
    ) -> tuple[int, str]:
        importing_source = sources.texts[importer]
        file, imported_text = files.find(importing_source, (0, 0), path, folders[importer] if is_relative else None)
        mangle = loader._get_mangle("__".join(path), aliases, importing_source.mangle)
        sources.texts.append(Source(imported_text, format_file_name(file), mangle))
        folders.append(get_folder(file))
        return len(folders) - 1, imported_text

    depth_and_nodes = limits.depth, limits.nodes
    result = _lark.read_grammar(text, start, get_alphabet(), depth_and_nodes, _choose_name, _compute_width, open_import)
    if result is None:
        return None
    terminals, rules, ignored, locations = result
    spend(len(text))
    for name, original_name, number, span in locations:
        sources.definitions[name] = DefinedName(original_name, sources.texts[number], span)
    return NativeGrammar(terminals, rules, tuple(ignored), sources)


def _choose_name(value: str) -> str:
    """The name that Lark prefers for the terminal of a string, or ""."""
    loader = import_lark().load_grammar
    if value in loader._TERMINAL_NAMES:
        return str(loader._TERMINAL_NAMES[value])
    if value.isascii():  # faster than Lark's functions, which look up each character
        return value.upper() if value.isidentifier() else ""
    return value.upper() if loader.is_id_continue(value) and loader.is_id_start(value[0]) else ""


def _compute_width(pattern: str) -> tuple[int, int | None]:
    """The minimum and maximum width of a pattern, as Lark computes them if the package regex is not installed.

    Raises:
        OverflowError: the width is so large that Python versions differ in it. Other errors: the pattern is invalid.
    """
    min_width, max_width = parser.parse(pattern).getwidth()
    if int(parser.MAXREPEAT) <= max_width < LARGEST_WIDTH:
        raise OverflowError("the width is too large")
    return int(min_width), None if max_width >= LARGEST_WIDTH else int(max_width)
