"""The published patterns of pre-tokenizers, by their names in model files.

A pre-tokenizer splits text into words, numbers and runs of punctuation before byte pairs are merged, so no token
crosses these boundaries. If a name has several patterns, each splits the pieces of the previous one.
"""

from __future__ import annotations

from typing import Final

__all__ = ["PATTERNS"]

_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORDS = r"|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s"
    r"|%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

PATTERNS: Final[dict[str, tuple[str, ...]]] = {
    "gpt2": (_GPT2,),
    "smollm": (r"\p{N}", _GPT2),
    "llama3": (_CONTRACTION + _WORDS % r"\p{N}{1,3}",),
    "qwen2": (_CONTRACTION + _WORDS % r"\p{N}",),
    "qwen35": (
        _CONTRACTION
        + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    # {1,3}+ is possessive, as in tiktoken. Oniguruma, the engine of `tokenizers`, interprets it differently.
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
        r"|\s+(?!\S)|\s",
    ),
    "o200k": (_CASED % (_CONTRACTION + "?", _CONTRACTION + "?", r"\p{N}{1,3}"),),
    "tekken": (_CASED % ("", "", r"\p{N}"),),
}
