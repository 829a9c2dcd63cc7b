"""guided: constrained decoding. What the model writes satisfies the specification, always, within its token budget.

    import guided

    vocabulary = guided.Vocabulary.from_gguf(path)
    grammar = guided.GrammarCompiler(vocabulary).compile_json_schema({"type": "integer", "minimum": 3})
    matcher = guided.GrammarMatcher(grammar)
    bitmask = guided.allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask, max_tokens=20)

Nothing here imports torch before `Engine` is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guided.errors import (
    BudgetError,
    Finding,
    GuidedError,
    GuidedWarning,
    LimitExceeded,
    ModelFileError,
    SpecError,
    ToolError,
    UnsupportedError,
    VocabularyError,
)
from guided.limits import Limits
from guided.logits import apply_token_bitmask_inplace
from guided.matching import (
    CompiledGrammar,
    Explanation,
    GrammarCompiler,
    GrammarMatcher,
    allocate_token_bitmask,
    allowed_tokens,
    fill_batch,
)
from guided.spec.combinators import (
    Expr,
    choice,
    json_schema,
    optional,
    pattern,
    python_type,
    regex,
    repeat,
    rule,
    rules,
    sequence,
    special,
    text,
)
from guided.spec.json_schema import JsonSchemaOptions, Report, check_json_schema
from guided.vocabulary import Vocabulary

if TYPE_CHECKING:
    from guided.engine import Engine
    from guided.tools import CALCULATOR, Tool, ToolTokens

__all__ = [
    "CALCULATOR",
    "BudgetError",
    "CompiledGrammar",
    "Engine",
    "Explanation",
    "Expr",
    "Finding",
    "GrammarCompiler",
    "GrammarMatcher",
    "GuidedError",
    "GuidedWarning",
    "JsonSchemaOptions",
    "LimitExceeded",
    "Limits",
    "ModelFileError",
    "Report",
    "SpecError",
    "Tool",
    "ToolError",
    "ToolTokens",
    "UnsupportedError",
    "Vocabulary",
    "VocabularyError",
    "allocate_token_bitmask",
    "allowed_tokens",
    "apply_token_bitmask_inplace",
    "check_json_schema",
    "choice",
    "fill_batch",
    "json_schema",
    "optional",
    "pattern",
    "python_type",
    "regex",
    "repeat",
    "rule",
    "rules",
    "sequence",
    "special",
    "text",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Imported when first asked for: `Engine` needs torch (`pip install guided-decoding[engine]`)."""
    if name == "Engine":
        from guided.engine import Engine

        return Engine
    if name in ("CALCULATOR", "Tool", "ToolTokens"):
        import guided.tools

        return getattr(guided.tools, name)
    raise AttributeError(f"module 'guided' has no attribute {name!r}")
