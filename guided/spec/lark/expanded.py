"""What Lark's loader makes of a text, without what nobody needs here. In: a text, or the grammar that Lark has read,
and the rule to begin with. Out: that grammar, and its terminals and the alternatives of its rules.

How: `built` calls Lark's builder as `load_grammar` does, statement by statement. `compiled` is `Grammar.compile`:
terminals are made by Lark's own transformers, and so are those of literals in rules, in the same order, since their
names count. Rules are written out in C++ (`native/ebnf.hpp`). What is unusual is left to Lark: templates, long
repetitions, and whatever is an error.

Cost: linear in the trees and in what is written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from guided.errors import SpecError
from guided.spec.lark import _lark

from .bounds import check_terminals

__all__ = ["Symbols", "built", "compiled", "lark_package"]

Symbols: TypeAlias = tuple[tuple[str, bool], ...]
"""Names, and whether each is that of a terminal."""


def lark_package() -> Any:
    """The package lark.

    Raises:
        SpecError: it is not installed.
    """
    try:
        import lark
        import lark.load_grammar
    except ImportError:
        raise SpecError(
            "grammars in Lark's notation need the package lark", hint="pip install 'guided-decoding[grammars]'"
        ) from None
    return lark


def built(text: str, import_paths: Sequence[str]) -> Any:
    """The grammar that Lark's `load_grammar` gives for a text, which is parsed once, and bounded before it is expanded.

    Raises:
        lark.exceptions.LarkError and others: as Lark does. LimitExceeded: of a terminal, see `check_terminals`.
        SpecError: there is no grammar to import.
    """
    loader = lark_package().load_grammar
    builder = loader.GrammarBuilder(import_paths=list(import_paths))
    tree, imports = loader._parse_grammar(text, "<grammar>"), dict[Any, Any]()
    check_terminals(tree, text)
    for each in (statement for statement in tree.children if statement.data == "import"):
        path, _, aliases = builder._unpack_import(each, "<grammar>")
        imports.setdefault(path, {}).update(aliases)
    for path, aliases in imports.items():
        _import(builder, path, aliases)
    for each in tree.children:
        _define(builder, each)
    loader.resolve_term_references({name: it.tree for name, it in builder._definitions.items() if it.is_term})
    return builder.build()


def _import(builder: Any, path: tuple[str, ...], aliases: dict[Any, Any]) -> None:
    """A text has no folder of its own, so `%import .name` means the folders of `import_paths`, too.

    Where there is no such file, Lark would try to open it in the current folder, to show the error.
    """
    name = "/".join(path) + ".lark"
    try:
        if not any((Path(folder) / name).is_file() for folder in builder.import_paths):
            lark_package().load_grammar.stdlib_loader(None, name)
        builder.do_import(path, None, aliases)
    except OSError:
        hint = "give the folder of the file by import_paths=[...]; without it, Lark's own grammars can be imported"
        raise SpecError(f"there is no grammar {name!r} to import", hint=hint) from None


def _define(builder: Any, statement: Any) -> None:
    match statement.data:
        case "rule" | "term":
            builder._define(*builder._unpack_definition(statement, None))
        case "override":
            builder._define(*builder._unpack_definition(statement.children[0], None), override=True)
        case "extend":
            builder._extend(*builder._unpack_definition(statement.children[0], None))
        case "ignore":
            builder._ignore(*statement.children)
        case "declare":
            for symbol in statement.children:
                builder._define(symbol.name, symbol.is_term, None)
        case kind:
            assert kind == "import", kind


def compiled(grammar: Any, start: str) -> tuple[list[Any], dict[str, list[Symbols]]]:
    """See the head.

    Raises:
        lark.exceptions.LarkError, AssertionError and others: as Lark does.
    """
    loader = lark_package().load_grammar
    terminals = _terminals(grammar, loader)
    literals, names = loader.PrepareLiterals(), loader.PrepareAnonTerminals(terminals)

    def terminal_of(tree: Any) -> tuple[str, bool]:
        (pattern,) = getattr(literals, tree.data)(*tree.children).children
        return str(names.pattern(pattern).name), pattern.type == "str"

    rules = _lark.expanded(grammar.rule_defs, start, terminal_of)
    if rules is not None:
        return terminals, rules
    terminals, found, _ = grammar.compile([start], "*")
    rules = {}
    for rule in found:
        symbols = tuple((str(symbol.name), bool(symbol.is_term)) for symbol in rule.expansion)
        rules.setdefault(str(rule.origin.name), []).append(symbols)
    return terminals, rules


def _terminals(grammar: Any, loader: Any) -> list[Any]:
    """Those with a name, as Lark makes them; its transformers change trees, which are needed again."""
    out, transformer = [], loader.PrepareLiterals() * loader.TerminalTreeToPattern()
    for name, (tree, priority) in grammar.term_defs:
        if tree is None:  # declared
            continue
        copy = loader.nr_deepcopy_tree(tree)
        empty = list(copy.find_data("expansion"))
        if len(empty) == 1 and not empty[0].children:
            raise loader.GrammarError(f"Terminals cannot be empty ({name})")
        out.append(loader.TerminalDef(name, transformer.transform(copy), priority))
    return out
