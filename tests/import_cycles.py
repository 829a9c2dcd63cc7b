"""Groups of modules that import each other, imports for types and within functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def import_cycles(package: Path) -> list[set[str]]:
    """The strongly connected components of the modules in a package, by Tarjan's algorithm, those of one left out."""
    files = {_name(path, package.parent): path for path in package.rglob("*.py")}
    imports = {name: set(_imported(path, name, files)) - {name} for name, path in files.items()}
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


def _imported(path: Path, module: str, files: dict[str, Path]) -> Iterator[str]:
    around = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            parts = around.split(".")[: len(around.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            for name in node.names:
                module = f"{base}.{name.name}" if f"{base}.{name.name}" in files else base
                if module in files:
                    yield module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in files)
