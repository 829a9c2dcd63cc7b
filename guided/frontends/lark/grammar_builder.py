"""Reads the statements of a grammar, and of the files that it imports, with Lark's own builder. In: a grammar. Out:
what Lark's `load_grammar` returns for it, and the locations of its definitions (`sources.py`).

How: as in Lark, but one statement and one file at a time, so that errors have the location of their statement. Each
file is checked against the limits before Lark expands it (`bounds.py`).

Source: lark/load_grammar.py, `GrammarBuilder`. Cost: linear in the length of the grammar and its imports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from guided.errors import SpecError
from guided.limits import Limits
from guided.meter import spend

from .bounds import check_depth, check_terminals, check_trees
from .imported_files import ImportedFiles, format_file_name, get_folder
from .lark_errors import convert_error, get_error_classes, import_lark
from .notation import parse_grammar
from .sources import DefinedName, Source, Sources, Span

__all__ = ["build_grammar"]

_Mangle: TypeAlias = Callable[[str], str]


def build_grammar(text: str, import_paths: tuple[str, ...], limits: Limits) -> tuple[Any, Sources]:
    """See the module docstring.

    Raises:
        SpecError: the grammar or an imported file is malformed, does not exist, or imports itself. LimitExceeded: it or
            its expansion is too large, see `bounds.py`. Both errors have the location.
    """
    source = Source(text)
    loader = import_lark().load_grammar
    reader = _Reader(loader, ImportedFiles(loader, import_paths, limits), limits, Sources([source]))
    builder = reader.read_source(source, None, None, ())
    try:
        return builder.build(), reader.sources
    except get_error_classes() as error:
        raise convert_error(error, reader.sources) from None


@dataclass(frozen=True, slots=True)
class _Reader:
    loader: Any
    files: ImportedFiles
    limits: Limits
    sources: Sources

    def read_source(self, source: Source, folder: Any, mangle: _Mangle | None, chain: tuple[Any, ...]) -> Any:
        """A builder that has read `source`. `folder`: the base of relative imports; `mangle`: maps names to Lark's
        names, None for the caller's grammar; `chain`: the importing files.
        """
        check_depth(source, self.limits)
        builder = self.loader.GrammarBuilder()
        span = (0, 0)
        try:
            tree = parse_grammar(source.text, source.file or "<grammar>")
            check_trees(tree, source)
            check_terminals(tree, source)
            imports = dict[tuple[str, ...], tuple[Any, dict[Any, Any], Span]]()
            for each in tree.children:
                if each.data == "import":
                    span = _find_first_token_span(each)
                    path, _, aliases = builder._unpack_import(each, "<grammar>")
                    base = folder if each.children[0].data == "import_rel" else None
                    imports.setdefault(path, (base, {}, span))[1].update(aliases)
            for path, (base, aliases, span) in imports.items():
                self._import(builder, source, span, path, base, aliases, mangle, chain)
            for each in tree.children:
                spend()
                span = _find_first_token_span(each)
                self._define(builder, each, source, span, mangle)
            span = (0, 0)
            terminals = {name: each.tree for name, each in builder._definitions.items() if each.is_term}
            self.loader.resolve_term_references(terminals)
        except get_error_classes() as error:
            raise convert_error(error, self.sources, source, span) from None
        return builder

    def _import(
        self, builder: Any, source: Source, span: Span, path: tuple[str, ...], base: Any,
        aliases: dict[Any, Any], outer_mangle: _Mangle | None, chain: tuple[Any, ...],
    ) -> None:  # fmt: skip
        file, text = self.files.find(source, span, path, base)
        if file in chain:
            names = " -> ".join(map(format_file_name, (*chain[chain.index(file) :], file)))
            raise source.error(SpecError(f"a file imports itself: {names}"), span, "move common rules to a third file")
        mangle = self.loader._get_mangle("__".join(path), aliases, outer_mangle)
        imported_source = Source(text, format_file_name(file), mangle)
        self.sources.texts.append(imported_source)
        imported_builder = self.read_source(imported_source, get_folder(file), mangle, (*chain, file))
        self.sources.import_files.update({mangle(name): imported_source.file for name in aliases})
        imported_builder._remove_unused(map(mangle, aliases))
        for name in imported_builder._definitions:
            if name in builder._definitions:
                raise source.error(
                    SpecError(f"{self.sources.original_name(name)} is imported, but already defined"), span
                )
        builder._definitions.update(imported_builder._definitions)

    def _define(self, builder: Any, statement: Any, source: Source, span: Span, mangle: _Mangle | None) -> None:
        match statement.data:
            case "rule" | "term":
                builder._define(*self._unpack(builder, statement, source, mangle))
            case "override":
                builder._define(*self._unpack(builder, statement.children[0], source, mangle), override=True)
            case "extend":
                builder._extend(*builder._unpack_definition(statement.children[0], mangle))
            case "ignore" if mangle is None:  # %ignore in an imported file has no effect
                builder._ignore(*statement.children)
                if (name := builder._ignore_names[-1]).startswith("__"):  # a name that Lark gave to a pattern
                    self.sources.definitions[name] = DefinedName("%ignore", source, span)
            case "declare":
                for symbol in statement.children:
                    builder._define(symbol.name if mangle is None else mangle(symbol.name), symbol.is_term, None)

    def _unpack(self, builder: Any, tree: Any, source: Source, mangle: _Mangle | None) -> tuple[Any, ...]:
        definition: tuple[Any, ...] = builder._unpack_definition(tree, mangle)
        token = tree.children[0 if tree.data == "term" else 1]
        if definition[0] not in builder._definitions:
            self.sources.definitions[definition[0]] = DefinedName(str(token), source, (token.start_pos, token.end_pos))
        return definition


def _find_first_token_span(tree: Any) -> Span:
    """The span of the first token in the tree of a statement. Lark drops some tokens from the tree."""
    for leaf in tree.scan_values(lambda leaf: getattr(leaf, "start_pos", None) is not None):
        return leaf.start_pos, leaf.end_pos
    return 0, 0
