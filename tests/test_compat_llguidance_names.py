"""The interface of llguidance over guided has the names and arguments of the package, except for those in a list."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

llguidance = pytest.importorskip("llguidance", reason="llguidance is not installed (extra bench)")

from guided.compat import llguidance as facade  # noqa: E402

ROOT = Path(llguidance.__file__).parent
# A name's location in the package -> its location in the facade.
FILES = {
    "_lib.pyi": "",
    "_struct_tag.py": "",
    "_grammar_from.py": "",
    "_tokenizer.py": "",
    "numpy.py": "numpy",
    "torch.py": "torch",
    "mlx.py": "mlx",
    "hf.py": "hf",
    "tiktoken.py": "tiktoken",
    "gbnf_to_lark.py": "gbnf_to_lark",
}
LEFT_OUT = {
    "cli.py": "the command line of llguidance: guided has its own",
    "llamacpp.py": "llama.cpp's vocabulary by a pointer: LLTokenizer(guided.Vocabulary.from_gguf(path)) reads the file",
    "gbnf_to_lark.main": "a command",
    "gbnf_to_lark.resolve": "a step of the converter",
    **{
        f"gbnf_to_lark.{name}": "a class of the converter's own tree"
        for name in (
            "Position", "GbnfToLarkError", "ASTNode", "LiteralNode", "RegexNode", "RuleRefNode", "RepetitionNode",
            "SequenceNode", "AlternativeNode", "RuleNode", "GrammarParser",
        )
    },
}  # fmt: skip
INTERNAL = {"_util.py", "__init__.py"}


def declared(path):
    """Name -> arguments, for functions, methods and annotated attributes; None for an attribute."""
    out = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            out[node.name] = _arguments(node, is_method=False)
        elif isinstance(node, ast.ClassDef):
            out |= {f"{node.name}.{name}": found for name, found in _members(node).items()}
    return out


def _members(node):
    out = {}
    for member in node.body:
        if isinstance(member, ast.AnnAssign):
            out[member.target.id] = None
        elif isinstance(member, ast.FunctionDef):
            name = "__init__" if member.name == "__new__" else member.name
            is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in member.decorator_list)
            if not name.startswith("_") or name == "__init__":
                out[name] = None if is_property else _arguments(member, is_method=True)
    return out


def _arguments(node, is_method):
    names = [argument.arg for argument in node.args.posonlyargs + node.args.args]
    without = names[1:] if is_method and names[:1] in (["self"], ["cls"]) else names
    return without, [argument.arg for argument in node.args.kwonlyargs]


def given(module, name):
    """The facade's object with a name: its arguments, or None for an attribute."""
    owner, _, member = name.rpartition(".")
    found = getattr(module, owner or member)
    if owner:
        is_attribute = member not in vars(found) and member in inspect.getsource(found)
        found = None if is_attribute else inspect.getattr_static(found, member)
        found = found.__func__ if isinstance(found, staticmethod) else found
    if found is object.__init__:
        return [], []
    if not callable(found):
        return None
    parameters = list(inspect.signature(found).parameters.values())
    is_bound = owner and parameters and parameters[0].name == "self"
    kinds = inspect.Parameter
    return (
        [p.name for p in parameters[1 if is_bound else 0 :] if p.kind is not kinds.KEYWORD_ONLY],
        [p.name for p in parameters if p.kind is kinds.KEYWORD_ONLY],
    )


NAMES = [(file, name) for file in FILES for name in declared(ROOT / file)]


@pytest.mark.parametrize(("file", "name"), NAMES)
def test_names_and_arguments(file, name):
    stem = Path(file).stem
    if f"{stem}.{name.split('.')[0]}" in LEFT_OUT:
        return
    if FILES[file] in ("torch", "mlx"):
        pytest.importorskip(FILES[file], reason=f"{FILES[file]} is not installed")
    module = import_module(f"guided.compat.llguidance.{FILES[file]}") if FILES[file] else facade
    if name.startswith("JsonCompileOptions."):
        assert name.split(".")[1] in facade.JsonCompileOptions.__annotations__
        return
    if declared(ROOT / file)[name] is None:
        attribute = name.split(".")[1]
        assert attribute in inspect.getsource(getattr(module, name.split(".")[0]))
        return
    assert given(module, name) == declared(ROOT / file)[name]


def test_each_file_and_each_public_name_has_its_place():
    files = {path.name for path in ROOT.iterdir() if path.suffix in (".py", ".pyi")}
    assert files == set(FILES) | {name for name in LEFT_OUT if name.endswith(".py")} | INTERNAL
    assert set(llguidance.__all__) <= set(facade.__all__)
    assert facade.__version__ == llguidance.__version__
    named = {f"{Path(file).stem}.{name.split('.')[0]}" for file, name in NAMES}
    assert {name for name in LEFT_OUT if not name.endswith(".py")} <= named  # everything in the list is really missing
    methods = {name for name in dir(llguidance.LLMatcher) if not name.startswith("_")}
    assert methods <= set(dir(facade.LLMatcher))
    assert {name for name in dir(llguidance.LLTokenizer) if not name.startswith("_")} - {"from_llamacpp"} <= {
        *dir(facade.LLTokenizer), "vocab_size", "eos_token", "eos_tokens", "is_canonical",
    }  # fmt: skip
    assert {name for name in dir(llguidance.LLInterpreter) if not name.startswith("_")} <= {
        *dir(facade.LLInterpreter), "log_level",
    }  # fmt: skip
