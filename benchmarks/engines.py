"""A common interface to the libraries, so that the same work is timed for each.

In: a `Tokens`. Out: an `Engine`: prepare (its constructor), compile, matcher, fill, accept. A library is imported when
its engine is created, so each worker process holds one library only. All run on one thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.llama3 import Tokens

__all__ = ["ENGINES", "Engine", "Refused", "versions"]


class Refused(Exception):
    """The library itself reports that it does not support this specification."""


class Engine(Protocol):
    """What the jobs need from a library. `kind` is "json_schema", "regex", "lark" or "ebnf".

    A matcher is the library's own object.
    """

    package: ClassVar[str]

    def __init__(self, tokens: Tokens) -> None:
        """Prepare the vocabulary. This is timed."""

    def forget(self) -> None:
        """Drop caches of earlier specifications, so that the next compilation is a first one."""

    def compile(self, kind: str, text: str) -> Any:
        """Compile, or raise `Refused`."""

    def matcher(self, compiled: Any) -> Any:
        """Create a matcher."""

    def row(self) -> tuple[Any, npt.NDArray[np.int32]]:
        """A mask of one row in the library's format, and a view of its words."""

    def fill(self, matcher: Any, row: Any) -> Any:
        """Fill the mask."""

    def accept(self, matcher: Any, token: int) -> bool:
        """Accept a token."""


class Guided:
    """guided, for JSON with `", "` and `": "`, as `json.dumps` writes it."""

    package = "guided"
    options: ClassVar[dict[str, Any]] = {"whitespace": "single_space"}

    def __init__(self, tokens: Tokens) -> None:
        import guided

        self.lib = guided
        self.vocabulary = guided.Vocabulary(tokens.spelled, eos_token_ids=[tokens.end], special_tokens=tokens.special)
        self.compiler = guided.GrammarCompiler(self.vocabulary, cache_bytes=0)

    def forget(self) -> None:
        from guided.matching.compiled import native_vocabulary

        native_vocabulary(self.vocabulary).clear_cache()

    def compile(self, kind: str, text: str) -> Any:
        try:
            if kind == "regex":
                return self.compiler.compile_regex(text)
            if kind == "lark":
                return self.compiler.compile_lark(text)
            return self.compiler.compile_json_schema(text, **self.options)
        except self.lib.GuidedError as error:
            raise Refused(str(error)) from None

    def matcher(self, compiled: Any) -> Any:
        return self.lib.GrammarMatcher(compiled)

    def row(self) -> tuple[Any, npt.NDArray[np.int32]]:
        row = self.lib.allocate_token_bitmask(1, self.vocabulary.size)
        return row, row[0]

    def fill(self, matcher: Any, row: Any) -> Any:
        return matcher.fill_next_token_bitmask(row, 0)

    def accept(self, matcher: Any, token: int) -> bool:
        return bool(matcher.accept_token(token))


class GuidedFlexible(Guided):
    """guided, with any JSON whitespace in any gap."""

    options: ClassVar[dict[str, Any]] = {"whitespace": "json"}


class XGrammar:
    """xgrammar with `any_whitespace=False`, so `", "` and `": "`, and one compiler thread."""

    package = "xgrammar"

    def __init__(self, tokens: Tokens) -> None:
        import xgrammar

        self.lib = xgrammar
        spelled = [tokens.special[i].encode() if t is None else t for i, t in enumerate(tokens.spelled)]
        raw = xgrammar.VocabType.RAW
        self.info = xgrammar.TokenizerInfo(spelled, raw, vocab_size=tokens.size, stop_token_ids=[tokens.end])
        self.compiler = xgrammar.GrammarCompiler(self.info, max_threads=1)

    def forget(self) -> None:
        self.compiler.clear_cache()

    def compile(self, kind: str, text: str) -> Any:
        try:
            if kind == "regex":
                return self.compiler.compile_regex(text)
            if kind == "ebnf":
                return self.compiler.compile_grammar(self.lib.Grammar.from_ebnf(text))
            return self.compiler.compile_json_schema(text, any_whitespace=False, strict_mode=True)
        except RuntimeError as error:
            raise Refused(str(error)) from None

    def matcher(self, compiled: Any) -> Any:
        return self.lib.GrammarMatcher(compiled)

    def row(self) -> tuple[Any, npt.NDArray[np.int32]]:
        row = self.lib.allocate_token_bitmask(1, self.info.vocab_size)
        return row, row.numpy()[0]

    def fill(self, matcher: Any, row: Any) -> Any:
        return matcher.fill_next_token_bitmask(row)

    def accept(self, matcher: Any, token: int) -> bool:
        return bool(matcher.accept_token(token))


class LLGuidance:
    """llguidance with its defaults (flexible whitespace). Its numpy helper fills the masks."""

    package = "llguidance"

    def __init__(self, tokens: Tokens) -> None:
        import llguidance
        import llguidance.numpy
        from llguidance.tiktoken import lltokenizer_from_encoding

        self.lib, self.numpy = llguidance, llguidance.numpy
        self.tokenizer = lltokenizer_from_encoding(tokens.encoding, n_vocab=tokens.size, eos_token=tokens.end)

    def forget(self) -> None:
        """It caches nothing between specifications."""

    def compile(self, kind: str, text: str) -> Any:
        if kind == "regex":
            grammar = self.lib.LLMatcher.grammar_from_regex(text)
        elif kind == "lark":
            skip = '%llguidance {"allow_initial_skip": true}'  # as in Lark
            grammar = self.lib.LLMatcher.grammar_from_lark(f"{skip}\n{text}")
        else:
            grammar = json.dumps({"grammars": [{"json_schema": json.loads(text)}]})
        matcher = self.lib.LLMatcher(self.tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise Refused(matcher.get_error())
        return matcher

    def matcher(self, compiled: Any) -> Any:
        return compiled.deep_copy()

    def row(self) -> tuple[Any, npt.NDArray[np.int32]]:
        row = self.numpy.allocate_token_bitmask(1, self.tokenizer.vocab_size)
        return row, row[0]

    def fill(self, matcher: Any, row: Any) -> Any:
        return self.numpy.fill_next_token_bitmask(matcher, row, 0)

    def accept(self, matcher: Any, token: int) -> bool:
        return bool(matcher.consume_token(token))


class LLGuidancePointer(LLGuidance):
    """llguidance that fills masks through a stored pointer, without the cost of its helper."""

    def row(self) -> tuple[Any, npt.NDArray[np.int32]]:
        row = self.numpy.allocate_token_bitmask(1, self.tokenizer.vocab_size)
        return (row.ctypes.data, row.nbytes), row[0]

    def fill(self, matcher: Any, row: Any) -> Any:
        return matcher.unsafe_compute_mask_ptr(*row)


ENGINES: dict[str, Callable[[Tokens], Engine]] = {
    "guided": Guided,
    "guided, any whitespace": GuidedFlexible,
    "xgrammar": XGrammar,
    "llguidance": LLGuidance,
    "llguidance, kept pointer": LLGuidancePointer,
}


def versions() -> dict[str, str]:
    """The engines of all libraries."""
    out = {}
    for package in ("guided", "xgrammar", "llguidance", "torch", "numpy"):
        try:
            out[package] = version("guided-decoding" if package == "guided" else package)
        except PackageNotFoundError:
            out[package] = "from the source tree" if package == "guided" else "not installed"
    return out
