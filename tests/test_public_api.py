"""The public names: all are listed, documented, short in print, and typed for users that check types."""

from __future__ import annotations

import ast
import inspect
import pydoc
import re
import subprocess
import sys
from importlib import import_module, resources
from pathlib import Path

import pytest

import guided
from guided.matching.protocol import ForkingMatcher, Grammar, Matcher

ROOT = Path(__file__).parent.parent
VOCABULARY = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
GRAMMAR = guided.GrammarCompiler(VOCABULARY).compile_json_schema({"enum": ["a" * 1000]})
MAX_LENGTH = 120  # characters of a repr


def test_all_names_are_there_and_shown():
    assert set(guided.__all__) <= set(dir(guided))
    assert all(getattr(guided, name) is not None for name in guided.__all__)
    shown = pydoc.plaintext.document(guided)
    assert [name for name in guided.__all__ if name not in shown] == []
    for name in ("Engine", "Result", "StreamEvent", "Request", "Options", "Message", "SamplingParams", "Tool"):
        assert name in guided.__all__
    with pytest.raises(AttributeError, match="module 'guided' has no attribute 'Resultt'; did you mean 'Result'"):
        _ = guided.Resultt


def test_names_that_need_torch_are_imported_on_demand():
    code = "import sys, guided; dir(guided); guided.JsonSchemaOptions; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("name", "package", "command"),
    [
        ("Engine", "torch", r"pip install 'guided-decoding\[engine\]'"),
        ("Engine", "xxhash", r"pip install 'guided-decoding\[engine\]'"),
        ("from_transformers", "transformers", "pip install transformers"),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(name, package, command):
    code = f"import sys; sys.modules[{package!r}] = None; import guided; guided.{name}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert re.search(f"ModuleNotFoundError: guided.{name} needs the package {package}: {command}\n", done.stderr), (
        done.stderr
    )


def _public_members():
    for name in guided.__all__:
        thing = getattr(guided, name)
        if inspect.isclass(thing):
            for member, value in inspect.getmembers(thing):
                owner = next((base for base in thing.__mro__ if member in vars(base)), None)
                if member.startswith("_") or owner is None or not owner.__module__.startswith("guided"):
                    continue
                raw = vars(owner)[member]
                if callable(value) or isinstance(raw, property) or hasattr(raw, "func"):
                    yield f"{name}.{member}", raw, value


def test_every_name_and_method_has_its_own_docstring():
    classes = [name for name in guided.__all__ if inspect.isclass(getattr(guided, name))]
    functions = [name for name in guided.__all__ if inspect.isfunction(getattr(guided, name))]
    assert len(classes) > 15 and len(functions) > 12
    missing = [name for name in classes if not vars(getattr(guided, name)).get("__doc__")]
    missing += [name for name in functions if not getattr(guided, name).__doc__]
    members = list(_public_members())
    assert len(members) > 50
    missing += [name for name, raw, value in members if not (getattr(raw, "__doc__", None) or value.__doc__)]
    assert missing == []


def _samples():
    from guided.engine.result import Timings
    from tests.tool_support import ENGINE

    long = "a long text of many words " * 40
    result = guided.Result(long, [5] * 900, [1] * 900, "stop", Timings(), [0.5] * 900, 450.0, 7, 3)
    event = guided.StreamEvent(tuple(range(500)), long, result=result)
    request = guided.Request([{"role": "user", "content": long}], {"const": long}, 3, {"stop": [long], "max_tokens": 7})
    limits = guided.Limits(depth=7)
    options = guided.JsonSchemaOptions.for_generation()
    matcher = guided.GrammarMatcher(GRAMMAR)
    compiler = guided.GrammarCompiler(VOCABULARY)
    parts = (guided.regex("a" * 500), guided.CALCULATOR, matcher.explain(b"x"))
    return (result, event, request, limits, options, matcher, compiler, GRAMMAR, VOCABULARY, ENGINE, *parts)


def test_reprs_are_a_short_line():
    for thing in _samples():
        shown = repr(thing)
        assert len(shown) <= MAX_LENGTH + 20 * isinstance(thing, guided.JsonSchemaOptions), shown
        assert "\n" not in shown
        assert " object at 0x" not in shown
    result, event, request, limits, *_ = _samples()
    assert repr(result) == "Result('a long text of many words a long text...', 900 tokens, finish_reason='stop')"
    assert repr(event) == "StreamEvent('a long text of many words a long text...', 500 tokens, finish_reason='stop')"
    assert repr(request).startswith("Request([{'role': 'user'")
    assert repr(limits) == "Limits(depth=7)"
    assert repr(guided.StreamEvent((1, 2), "ab", forced=True)) == "StreamEvent('ab', 2 tokens, forced)"


def test_matchers_keep_the_protocols():
    """`isinstance` checks the names. mypy checks the signatures where the engine accepts a matcher."""
    from guided.engine.reasoning import ReasoningGate

    matcher = guided.GrammarMatcher(GRAMMAR)
    assert isinstance(GRAMMAR, Grammar)
    assert isinstance(matcher, ForkingMatcher)
    assert isinstance(ReasoningGate(matcher, [3], VOCABULARY), Matcher)
    for protocol in (Grammar, Matcher, ForkingMatcher):
        for name, member in vars(protocol).items():
            if not name.startswith("_"):
                assert member.__doc__, name


@pytest.mark.parametrize("module", ["automaton._core", "kernels._kernels", "frontends.lark._lark"])
def test_help_for_native_functions_begins_with_their_signature(module):
    """With the names and types of all parameters, as Python code."""
    native = import_module(f"guided.{module}")
    kinds = [native, *(value for value in vars(native).values() if isinstance(value, type))]
    functions = {
        f"{kind.__name__}.{name}": value
        for kind in kinds
        for name, value in vars(kind).items()
        if type(value).__name__ in ("nb_func", "nb_method") and not name.startswith("__")
    }
    assert functions
    for name, function in functions.items():
        signature, _, text = function.__doc__.partition("\n\n")
        definition = ast.parse(f"def {signature}: ...").body[0]
        assert isinstance(definition, ast.FunctionDef) and definition.name == name.rpartition(".")[2]
        parameters = [*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs]
        assert all(each.annotation for each in parameters if each.arg != "self") and definition.returns, name
        assert not any(each.arg.startswith("arg") for each in parameters) and text.strip(), name
    if module == "automaton._core":
        shown = pydoc.plaintext.document(guided.GrammarMatcher.accept_token)
        assert "accept_token(self, token: int) -> bool" in shown and "ValueError" in shown


def test_the_package_is_marked_as_typed():
    assert resources.files("guided").joinpath("py.typed").is_file()


def test_a_users_file_passes_strict_types_with_precise_results():
    pytest.importorskip("mypy", reason="mypy is not installed")
    file = Path(__file__).parent / "typed_user.py"
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # its trees take gigabytes
    out, err, code = done.stdout, done.stderr, done.returncode
    revealed = [line.split('Revealed type is "')[1].rstrip('"') for line in out.splitlines() if "Revealed type" in line]
    problems = [line for line in out.splitlines() if "Revealed type" not in line]
    assert (problems, err, code) == ([], "", 0), out
    asked = file.read_text("utf-8").count("reveal_type(")
    assert len(revealed) == asked > 20
    assert [kind for kind in revealed if "Any" in kind] == []
