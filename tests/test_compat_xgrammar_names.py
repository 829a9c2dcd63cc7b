"""The facade has the names and signatures of the installed xgrammar. A list has the omitted names, with reasons."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import guided.compat.xgrammar as xgr
from tests.xgrammar_version import XGRAMMAR

ROOT = Path(__file__).parents[1]
theirs = pytest.importorskip("xgrammar", reason="names are compared with the installed xgrammar")
pytest.importorskip("pydantic")
pytest.importorskip("torch")

LEFT_OUT = {
    # automata and intermediate grammars of xgrammar, which guided does not have
    "testing.GrammarFunctor",
    "testing._generate_float_regex",
    "testing._generate_range_regex",
    "testing._get_allow_empty_rule_ids",
    "testing._is_rule_fsm_accept_string",
    "testing._print_grammar_fsms",
    # its bindings and its kernels
    "base",
    "kernels",
    "load_binding",
    "tvm_ffi_binding",
}
ADDED = {"enable_dynamic_compilation", "find_jump_forward_tokens", "syntax", "token_markers", "marker_tokens"}
"""Parameters, methods and fields that xgrammar 0.2.8 lacks."""
MODULES = ("", "builtin_structural_tag", "config", "contrib.hf", "exception", "openai_tool_call_schema",
           "structural_tag", "testing", "tokenizer_info")  # fmt: skip
CLASSES = ("BatchGrammarMatcher", "CompiledGrammar", "Grammar", "GrammarCompiler", "GrammarMatcher", "StructuralTag",
           "TokenizerInfo", "VocabType")  # fmt: skip


def named(package: str, module: str) -> Any:
    return importlib.import_module(package + ("." + module if module else ""))


def defined(module: Any) -> dict[str, Any]:
    """The definitions of a module of xgrammar, and its public names."""
    return {
        name: value
        for name, value in vars(module).items()
        if name in getattr(module, "__all__", ()) or getattr(value, "__module__", "") == module.__name__
    }


def shape(function: Any) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults of parameters."""
    found = inspect.signature(function).parameters.values()
    return [
        (each.name, each.kind, getattr(each.default, "name", each.default)) for each in found if is_there(each.name)
    ]


def is_there(name: str) -> bool:
    return XGRAMMAR >= (0, 2, 9) or name not in ADDED


def test_all_public_names_are_there() -> None:
    assert set(theirs.__all__) <= set(xgr.__all__)
    assert all(getattr(xgr, name) is not None for name in xgr.__all__)
    assert set(xgr.__all__) <= set(dir(xgr))


@pytest.mark.parametrize("module", MODULES)
def test_functions_take_the_same_parameters(module: str) -> None:
    ours, other = named("guided.compat.xgrammar", module), named("xgrammar", module)
    compared = 0
    for name, value in defined(other).items():
        private = name.startswith("_") and module != "testing"
        if private or f"{module}.{name}" in LEFT_OUT or not (inspect.isfunction(value) or inspect.isclass(value)):
            continue
        assert hasattr(ours, name), f"{module}.{name}"
        if inspect.isfunction(value):
            assert shape(getattr(ours, name)) == shape(value), f"{module}.{name}"
            compared += 1
    assert compared or module in (
        "contrib.hf",
        "exception",
        "openai_tool_call_schema",
        "structural_tag",
        "tokenizer_info",
    )


@pytest.mark.parametrize("name", CLASSES)
def test_classes_have_the_same_methods(name: str) -> None:
    ours, other = getattr(xgr, name), getattr(theirs, name)
    own = [one for base in other.__mro__ if base.__module__.startswith("xgrammar") for one in vars(base)]
    for attribute in own:
        if attribute.startswith("_") and attribute != "__init__":
            continue
        assert hasattr(ours, attribute), f"{name}.{attribute}"
        found = inspect.getattr_static(other, attribute)
        assert isinstance(inspect.getattr_static(ours, attribute), property) == isinstance(found, property)
        if inspect.isfunction(found) or isinstance(found, staticmethod):
            assert shape(getattr(ours, attribute)) == shape(getattr(other, attribute)), f"{name}.{attribute}"


@pytest.mark.parametrize("module", ["structural_tag", "openai_tool_call_schema"])
def test_models_have_the_same_fields(module: str) -> None:
    ours, other = named("guided.compat.xgrammar", module), named("xgrammar", module)
    models = {name: value for name, value in defined(other).items() if hasattr(value, "model_fields")}
    assert len(models) > 8
    for name, model in models.items():
        fields = {key: (one.is_required(), one.default) for key, one in model.model_fields.items()}
        mine = {key: (one.is_required(), one.default) for key, one in getattr(ours, name).model_fields.items()}
        assert {key: field for key, field in mine.items() if is_there(key)} == fields, name


def test_exceptions_are_runtime_errors() -> None:
    names = [name for name in vars(theirs.exception) if name.endswith("Error")]
    assert names and all(issubclass(getattr(xgr, name), RuntimeError) for name in names)


def test_omitted_names_match_xgrammar() -> None:
    for name in LEFT_OUT:
        module, _, attribute = name.rpartition(".")
        if module == "testing":
            assert hasattr(theirs.testing, attribute) and not hasattr(xgr.testing, attribute)
        else:
            assert importlib.util.find_spec(f"xgrammar.{name}") is not None
            assert importlib.util.find_spec(f"guided.compat.xgrammar.{name}") is None or name == "base"


def test_importing_it_loads_neither_torch_nor_pydantic() -> None:
    code = (
        "import sys, guided.compat.xgrammar as xgr; dir(xgr); xgr.Grammar.from_ebnf('root ::= \"a\"'); "
        "print([name for name in ('torch', 'pydantic', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
