"""Groups of modules that import each other, imports within functions included, and imports for types on request."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def import_cycles(package: Path, *, types: bool) -> list[set[str]]:
    """The strongly connected components of the modules in a package that have several modules, by Tarjan's algorithm.

    `types`: also count imports that only type checkers see.
    """
    files = {_name(path, package.parent): path for path in package.rglob("*.py")}
    imports = {name: set(_imported(path, name, files, types)) - {name} for name, path in files.items()}
    order, low, stack, found = dict[str, int](), dict[str, int](), list[str](), list[set[str]]()

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in imports[module]:
            if other not in order:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], order[other])
        if low[module] == order[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(set(stack[at:]))
            del stack[at:]

    for module in imports:
        if module not in order:
            visit(module)
    return found


def _name(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _imported(path: Path, module: str, files: dict[str, Path], types: bool) -> Iterator[str]:
    around = module if path.name == "__init__.py" else module.rpartition(".")[0]
    work: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    for node in work:
        if types or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            work += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom):
            parts = around.split(".")[: len(around.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            for name in node.names:
                module = f"{base}.{name.name}" if f"{base}.{name.name}" in files else base
                if module in files and not name.name.startswith(
                    "_"
                ):  # the package's native modules have no Python file
                    yield module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in files)
