"""The API of xgrammar 0.2.9, implemented with guided: the same names, parameters and defaults.

    import guided.compat.xgrammar as xgr      # instead of: import xgrammar as xgr

    info = xgr.TokenizerInfo.from_huggingface(tokenizer, vocab_size=config.vocab_size)
    grammar = xgr.GrammarCompiler(info).compile_json_schema(schema)
    matcher = xgr.GrammarMatcher(grammar)
    bitmask = xgr.allocate_token_bitmask(1, info.vocab_size)

guided does the compiling and matching. It raises a RuntimeError for every part of a specification that it cannot
enforce. docs/migration.md lists the differences from xgrammar and the functions that are missing.

How: a `Grammar` keeps its specification (`recipe.py`) and its IR. A `CompiledGrammar` keeps guided's compiled grammars,
one for each set of stop tokens. A `GrammarMatcher` wraps guided's `GrammarMatcher`. Optional packages are imported on
first use: torch for tensors, pydantic for the models of structural tags, and transformers for `contrib.hf`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from guided.compat.xgrammar import contrib, exception
from guided.compat.xgrammar.batch import BatchGrammarMatcher
from guided.compat.xgrammar.bitmask import (
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    get_bitmask_shape,
    reset_token_bitmask,
)
from guided.compat.xgrammar.compiler import CompiledGrammar, GrammarCompiler
from guided.compat.xgrammar.config import (
    get_max_recursion_depth,
    get_serialization_version,
    max_recursion_depth,
    set_max_recursion_depth,
)
from guided.compat.xgrammar.exception import (
    DeserializeFormatError,
    DeserializeVersionError,
    InvalidJSONError,
    InvalidStructuralTagError,
)
from guided.compat.xgrammar.grammar import Grammar
from guided.compat.xgrammar.grammar_matcher import GrammarMatcher
from guided.compat.xgrammar.packages import import_optional
from guided.compat.xgrammar.tokenizer_info import TokenizerInfo, VocabType

if TYPE_CHECKING:
    import torch

    from guided.compat.xgrammar import builtin_structural_tag, structural_tag, testing
    from guided.compat.xgrammar.builtin_structural_tag import (
        get_builtin_structural_tag,
        get_model_structural_tag,
        normalize_tool_choice,
        register_model_structural_tag,
    )
    from guided.compat.xgrammar.contrib import hf
    from guided.compat.xgrammar.structural_tag import StructuralTag, StructuralTagItem

    bitmask_dtype: torch.dtype

__all__ = [
    "BatchGrammarMatcher",
    "CompiledGrammar",
    "DeserializeFormatError",
    "DeserializeVersionError",
    "Grammar",
    "GrammarCompiler",
    "GrammarMatcher",
    "InvalidJSONError",
    "InvalidStructuralTagError",
    "StructuralTag",
    "StructuralTagItem",
    "TokenizerInfo",
    "VocabType",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "bitmask_dtype",
    "builtin_structural_tag",
    "contrib",
    "exception",
    "get_bitmask_shape",
    "get_builtin_structural_tag",
    "get_max_recursion_depth",
    "get_model_structural_tag",
    "get_serialization_version",
    "hf",
    "max_recursion_depth",
    "normalize_tool_choice",
    "register_model_structural_tag",
    "reset_token_bitmask",
    "set_max_recursion_depth",
    "structural_tag",
    "testing",
]

_PACKAGE: Final = "guided.compat.xgrammar"
_MODULES: Final = ("builtin_structural_tag", "structural_tag", "testing")
_LAZY: Final = {
    **dict.fromkeys(
        ("get_builtin_structural_tag", "get_model_structural_tag", "normalize_tool_choice",
         "register_model_structural_tag"), "builtin_structural_tag",
    ),
    **dict.fromkeys(("StructuralTag", "StructuralTagItem"), "structural_tag"),
    "hf": "contrib",
    "bitmask_dtype": "matcher",
}  # fmt: skip
"""Name -> its module, for names that need torch, pydantic or transformers. The module is imported on first access."""


def __getattr__(name: str) -> Any:
    """Import the names of `_LAZY` and the modules of `_MODULES` on first access."""
    if name in _MODULES:
        return import_optional(f"{_PACKAGE}.{name}")
    if name in _LAZY:
        return getattr(import_optional(f"{_PACKAGE}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
