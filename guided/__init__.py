"""guided: constrained decoding. A model's output always satisfies the specification, within its token budget.

    import guided

    vocabulary = guided.Vocabulary.from_gguf(path)
    grammar = guided.GrammarCompiler(vocabulary).compile_json_schema({"type": "integer", "minimum": 3})
    matcher = guided.GrammarMatcher(grammar)
    bitmask = guided.allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask, max_tokens=20)

torch is imported only when `Engine` is first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from guided.close_names import find_closest_name
from guided.errors import (
    BudgetError,
    ContextError,
    Finding,
    GuidedError,
    GuidedWarning,
    LimitExceeded,
    ModelFileError,
    OptionError,
    SpecError,
    ToolError,
    UnsupportedError,
    VocabularyError,
)
from guided.frontends.combinators import (
    Expr,
    capture,
    choice,
    gbnf,
    json_schema,
    lark,
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
from guided.frontends.json_schema import JsonSchemaOptions, Report, check_json_schema
from guided.frontends.json_schema.options import JsonSchemaKeywords
from guided.frontends.library import LibraryGrammar, grammar, library
from guided.frontends.openai.response_format import ResponseFormat, from_response_format, to_openai_schema
from guided.frontends.quote import Quote, QuoteLocation
from guided.frontends.structural_tag import structural_tag
from guided.frontends.structural_tag.tool_styles import TOOL_STYLES, tool_style
from guided.limits import Limits
from guided.logits import apply_token_bitmask_inplace
from guided.matching import (
    CompiledGrammar,
    Explanation,
    GrammarCompiler,
    GrammarMatcher,
    Masks,
    allocate_token_bitmask,
    allowed_tokens,
    fill_batch,
    masks_of,
)
from guided.packages import importing
from guided.version import __version__ as __version__
from guided.vocabulary import Vocabulary

if TYPE_CHECKING:
    from guided.chat import Message, derive_tool_style
    from guided.engine import Engine
    from guided.engine.agent.events import (
        CallArguments,
        CallResult,
        CallStarted,
        ChatDone,
        ChatResult,
        FunctionCall,
        ReasoningDelta,
        TextDelta,
    )
    from guided.engine.request import Options, Request
    from guided.engine.result import BudgetBound, Result, StreamEvent, Timings, ToolCall
    from guided.integrations.transformers_engine import from_transformers
    from guided.sampling.params import SamplingParams
    from guided.tools import CALCULATOR, FunctionTool, Tool, ToolTokens, function_tool

__all__ = [
    "CALCULATOR",
    "TOOL_STYLES",
    "BudgetBound",
    "BudgetError",
    "CallArguments",
    "CallResult",
    "CallStarted",
    "ChatDone",
    "ChatResult",
    "CompiledGrammar",
    "ContextError",
    "Engine",
    "Explanation",
    "Expr",
    "Finding",
    "FunctionCall",
    "FunctionTool",
    "GrammarCompiler",
    "GrammarMatcher",
    "GuidedError",
    "GuidedWarning",
    "JsonSchemaKeywords",
    "JsonSchemaOptions",
    "LibraryGrammar",
    "LimitExceeded",
    "Limits",
    "Masks",
    "Message",
    "ModelFileError",
    "OptionError",
    "Options",
    "Quote",
    "QuoteLocation",
    "ReasoningDelta",
    "Report",
    "Request",
    "ResponseFormat",
    "Result",
    "SamplingParams",
    "SpecError",
    "StreamEvent",
    "TextDelta",
    "Timings",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolTokens",
    "UnsupportedError",
    "Vocabulary",
    "VocabularyError",
    "allocate_token_bitmask",
    "allowed_tokens",
    "apply_token_bitmask_inplace",
    "capture",
    "check_json_schema",
    "choice",
    "derive_tool_style",
    "fill_batch",
    "from_response_format",
    "from_transformers",
    "function_tool",
    "gbnf",
    "grammar",
    "json_schema",
    "lark",
    "library",
    "masks_of",
    "optional",
    "pattern",
    "python_type",
    "regex",
    "repeat",
    "rule",
    "rules",
    "sequence",
    "special",
    "structural_tag",
    "text",
    "to_openai_schema",
    "tool_style",
]


_LAZY_MODULES: Final = {
    **dict.fromkeys(("CALCULATOR", "FunctionTool", "Tool", "ToolTokens", "function_tool"), "guided.tools"),
    **dict.fromkeys(
        (
            "CallArguments",
            "CallResult",
            "CallStarted",
            "ChatDone",
            "ChatResult",
            "FunctionCall",
            "ReasoningDelta",
            "TextDelta",
        ),
        "guided.engine.agent.events",
    ),
    "Engine": "guided.engine",
    **dict.fromkeys(("Message", "derive_tool_style"), "guided.chat"),
    **dict.fromkeys(("Options", "Request"), "guided.engine.request"),
    **dict.fromkeys(("BudgetBound", "Result", "StreamEvent", "Timings", "ToolCall"), "guided.engine.result"),
    "SamplingParams": "guided.sampling.params",
    "from_transformers": "guided.integrations.transformers_engine",
}
"""Name -> the module from which it is imported on first use. The engine's modules need torch."""


def __getattr__(name: str) -> Any:
    """Import a name of `_LAZY_MODULES`. The engine needs torch (`pip install guided-decoding[engine]`)."""
    if name in _LAZY_MODULES:
        with importing(f"guided.{name}"):
            return getattr(import_module(_LAZY_MODULES[name]), name)
    similar_name = find_closest_name(name, __all__)
    suggestion = f"; did you mean {similar_name!r}?" if similar_name else ""
    raise AttributeError(f"module 'guided' has no attribute {name!r}{suggestion}")


def __dir__() -> list[str]:
    """The public names that can be imported, so that `help(guided)` works without torch."""
    return [name for name in __all__ if name not in _LAZY_MODULES or _is_available(_LAZY_MODULES[name])]


def _is_available(module: str) -> bool:
    packages = {"guided.engine": "torch", "guided.integrations": "transformers"}
    return all(find_spec(package) is not None for start, package in packages.items() if module.startswith(start))
