"""The tests themselves: each test checks something, whatever it draws, and expects errors by their kind.

In: the syntax trees of all tests. A *check* is an assertion, `pytest.raises` and the like, a program that must succeed
(`check=True`), or a call of a test function that has a check. Loops over empty lists are not detected.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PATHS = sorted(Path(__file__).parent.rglob("*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef
BROAD = {"Exception", "BaseException"}
EXPECTING = {"raises", "warns", "deprecated_call", "fail"}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(call: ast.Call) -> str:
    return {ast.Name: lambda f: f.id, ast.Attribute: lambda f: f.attr}.get(type(call.func), lambda f: "")(call.func)


def is_check(node: ast.AST) -> bool:
    """Whether a node alone is a check."""
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Assert | ast.Raise)
    must_succeed = any(word.arg == "check" and ast.unparse(word.value) == "True" for word in node.keywords)
    return must_succeed or name_of(node) in EXPECTING or name_of(node).startswith("assert_")


@cache
def checking() -> frozenset[str]:
    """The names of functions of the tests that have a check, or call one that has."""
    calls, found = dict[str, set[str]](), set[str]()
    for path in PATHS:
        for function in ast.walk(tree_of(path)):
            if isinstance(function, Function):
                inside = list(ast.walk(function))
                calls.setdefault(function.name, set()).update(name_of(n) for n in inside if isinstance(n, ast.Call))
                if any(map(is_check, inside)):
                    found.add(function.name)
    while more := {name for name, called in calls.items() if name not in found and called & found}:
        found |= more
    return frozenset(found)


def checks(node: ast.AST, within: tuple[type[ast.AST], ...] = ()) -> Iterator[tuple[type[ast.AST], ...]]:
    """The kinds of the branches around each check in a node."""
    if is_check(node) or (isinstance(node, ast.Call) and name_of(node) in checking()):
        yield within
    for field, value in ast.iter_fields(node):
        inner = (*within, type(node)) if isinstance(node, ast.If | ast.ExceptHandler) and field == "body" else within
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from checks(child, inner)


def wrong(path: Path, tree: ast.Module) -> Iterator[str]:
    """The problems of the tests of a file."""
    for node in ast.walk(tree):
        where = f"{path.name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, Function) and node.name.startswith("test_"):
            found = list(checks(node))
            if not found:
                yield f"{where}: {node.name} checks nothing"
            elif all(found):
                yield f"{where}: {node.name} checks in branches alone, none of which may be taken"
        if isinstance(node, ast.Call) and name_of(node) == "raises" and node.args:
            kinds = {part.id for part in ast.walk(node.args[0]) if isinstance(part, ast.Name)}
            if kinds & BROAD:
                yield f"{where}: any mistake raises an {kinds.pop()}; name the error"
        if isinstance(node, ast.Assert) and isinstance(
            node.test, ast.Constant | ast.Tuple | ast.Lambda | ast.GeneratorExp
        ):
            yield f"{where}: this assertion always holds"
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Compare):
            yield f"{where}: this comparison has no effect"


@pytest.mark.parametrize("path", [path for path in PATHS if path.name.startswith("test_")], ids=lambda path: path.name)
def test_tests_can_fail(path: Path) -> None:
    assert not list(wrong(path, tree_of(path)))


@pytest.mark.parametrize(
    ("body", "is_wrong"),
    [
        ("assert f()", False),
        ("f()", True),
        ("if f():\n        assert g()", True),
        ("if f():\n        assert g()\n    else:\n        assert h()", False),
        ("try:\n        f()\n    except ValueError:\n        assert g()", True),
        ("with pytest.raises(Exception):\n        f()", True),
        ("with pytest.raises((ValueError, Exception)):\n        f()", True),
        ("with pytest.raises(ValueError):\n        f()", False),
        ("assert (f(), 'it is so')", True),
        ("assert f() == 1\n    f() == 2", True),
        ("subprocess.run(['f'], check=True)", False),
        ("nowhere(['f'], check=False)", True),
        ("for x in f():\n        assert x", False),
    ],
)
def test_tests_that_cannot_fail_are_found(body: str, is_wrong: bool) -> None:
    assert bool(list(wrong(Path("test_a.py"), ast.parse(f"def test_a():\n    {body}\n")))) == is_wrong
