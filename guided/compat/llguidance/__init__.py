"""The API of llguidance 1.9.1, implemented with guided: `import guided.compat.llguidance as llguidance`.

It accepts the same arguments as llguidance and returns the same results, except where those are wrong.
`docs/migration.md` lists the differences and the reasons. `.numpy`, `.torch`, `.mlx`, `.hf`, `.tiktoken` and
`.gbnf_to_lark` are imported only on request.
"""

from guided.compat.llguidance.compilers import (
    GrammarFormat,
    JsonCompiler,
    LarkCompiler,
    RegexCompiler,
    grammar_from,
    regex_to_lark,
)
from guided.compat.llguidance.executor import LLExecutor
from guided.compat.llguidance.interpreter import LLInterpreter
from guided.compat.llguidance.limits import LLParserLimits
from guided.compat.llguidance.matcher import LLMatcher
from guided.compat.llguidance.options import JsonCompileOptions
from guided.compat.llguidance.struct_tag import StructTag
from guided.compat.llguidance.tokenizer import LLTokenizer, TokenizerWrapper

__version__ = "1.9.1"
"""The version of llguidance whose interface this is."""

__all__ = [
    "GrammarFormat",
    "JsonCompileOptions",
    "JsonCompiler",
    "LLExecutor",
    "LLInterpreter",
    "LLMatcher",
    "LLParserLimits",
    "LLTokenizer",
    "LarkCompiler",
    "RegexCompiler",
    "StructTag",
    "TokenizerWrapper",
    "__version__",
    "get_version",
    "grammar_from",
    "regex_to_lark",
]


def get_version() -> str:
    """The version of the interface, followed by "by guided"."""
    return f"llguidance@{__version__} by guided"
