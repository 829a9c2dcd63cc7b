"""The stubs of the native modules equal those that `make stubs` writes, and every native function has a docstring."""

import ast
from importlib import import_module

import pytest

from scripts import stubs


@pytest.mark.parametrize("module", stubs.MODULES)
def test_stub_is_generated(module):
    assert stubs.path_of(module).read_text("utf-8") == stubs.stub(module), "run make stubs"


@pytest.mark.parametrize("module", stubs.MODULES)
def test_everything_native_has_a_docstring(module):
    defined = [
        node
        for node in ast.walk(ast.parse(stubs.stub(module)))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]
    public = {name for name in vars(import_module(module)) if not name.startswith("_")}
    assert public and public <= {node.name for node in defined if not isinstance(node, ast.Module)}
    assert [node for node in defined if not ast.get_docstring(node)] == []
