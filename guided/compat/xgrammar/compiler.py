"""`GrammarCompiler` and `CompiledGrammar`: grammars compiled for the tokens of a model."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

from guided.compat.xgrammar.base import XGRObject
from guided.compat.xgrammar.config import SERIALIZATION_VERSION
from guided.compat.xgrammar.exception import DeserializeFormatError, as_xgrammar
from guided.compat.xgrammar.grammar import Grammar, read_named_grammars, schema_to_json, tag_to_json
from guided.compat.xgrammar.recipe import JsonSchema, Lark, Recipe, Regex, StructuralTag, read_recipe
from guided.compat.xgrammar.schema_options import SchemaOptions
from guided.compat.xgrammar.serialized import load_serialized
from guided.compat.xgrammar.stop_tokens import end_at_stops, find_named_stops
from guided.compat.xgrammar.tokenizer_info import TokenizerInfo
from guided.errors import VocabularyError, brief
from guided.frontends.common.rule_table import replace_nodes
from guided.frontends.regex.algebra import alt
from guided.ir.nodes import Grammar as IR
from guided.ir.nodes import Node, OtherTokens, Special
from guided.matching import CompiledGrammar as Compiled
from guided.matching import GrammarCompiler as Compiler
from guided.matching.compiled import native_vocabulary

__all__ = ["CompiledGrammar", "GrammarCompiler"]

_BYTES_PER_POSITION: Final = 600
_MIN_BYTES: Final = 4096


class CompiledGrammar(XGRObject):
    """A grammar that a GrammarCompiler compiled for a tokenizer. It is immutable; matchers and threads can share it."""

    @property
    def grammar(self) -> Grammar:
        """The grammar."""
        return self._compiled_data.grammar

    @property
    def tokenizer_info(self) -> TokenizerInfo:
        """The tokenizer."""
        return self._compiled_data.tokenizer_info

    @property
    def memory_size_bytes(self) -> int:
        """The approximate size in memory: the automaton, and the states that matching has created so far."""
        return self._compiled_data.memory_bytes()

    def serialize_json(self) -> str:
        """The grammar and the tokenizer's metadata, as JSON. `deserialize_json` compiles the grammar again."""
        data = self._compiled_data
        metadata = json.loads(data.tokenizer_info.dump_metadata())
        return json.dumps(
            {"grammar": str(data.grammar), "tokenizer_metadata": metadata, "__VERSION__": SERIALIZATION_VERSION}
        )

    @staticmethod
    def deserialize_json(json_str: str, tokenizer_info: TokenizerInfo) -> CompiledGrammar:
        """Read a string that `serialize_json` wrote, for the same tokenizer.

        Raises:
            InvalidJSONError, DeserializeVersionError: see `exception.py`. DeserializeFormatError: the string is not a
                compiled grammar, or the grammar was compiled for another tokenizer.
        """
        data = load_serialized(json_str, "CompiledGrammar")
        metadata = json.loads(tokenizer_info.dump_metadata())
        if not isinstance(data.get("grammar"), str) or not isinstance(data.get("tokenizer_metadata"), dict):
            raise DeserializeFormatError(
                "this is not a serialized CompiledGrammar, which would have a grammar and tokenizer_metadata"
            )
        if data["tokenizer_metadata"] != metadata:
            raise DeserializeFormatError(
                f"it was compiled for another tokenizer: {brief(data['tokenizer_metadata'])}, not {brief(metadata)}"
            )
        return GrammarCompiler(tokenizer_info, cache_enabled=False).compile_grammar(data["grammar"])

    @property
    def _compiled_data(self) -> _CompiledData:
        data: _CompiledData = self._handle
        return data


class _CompiledData:
    """The data of a CompiledGrammar: its grammar, its tokenizer, and guided's compiled grammar for each set of stop
    tokens in use."""

    def __init__(self, grammar: Grammar, tokenizer_info: TokenizerInfo) -> None:
        self.grammar, self.tokenizer_info = grammar, tokenizer_info
        self._grammars_by_stops: dict[tuple[int, ...], Compiled] = {}
        self._lock = threading.Lock()

    def compile_for(self, stops: tuple[int, ...] | None = None) -> Compiled:
        """The compiled grammar for these stop tokens; None means the tokenizer's. It is compiled on the first call.

        Raises:
            RuntimeError: the grammar allows no output, it names a token that the tokenizer lacks, or a limit is
                exceeded.
        """
        tokens = self.tokenizer_info._tokens
        stop_ids = tokens.stops if stops is None else stops
        with self._lock:
            if stop_ids not in self._grammars_by_stops:
                control_names = self.grammar._recipe.token_names
                vocabulary = tokens.get_vocabulary(stop_ids, control_names)
                ir = self.grammar._parsed_recipe.ir(defer=native_vocabulary(vocabulary).byte_complete)
                with as_xgrammar():
                    if not ir.composed and (named_stops := find_named_stops(ir, tokens.ids_of, stop_ids)):
                        ir = end_at_stops(_replace_token_names(ir, tokens.ids_of), sorted(named_stops))
                        vocabulary = tokens.get_vocabulary(stop_ids, control_names, named_stops)
                    compiler = Compiler(vocabulary, cache_bytes=0)
                    try:
                        self._grammars_by_stops[stop_ids] = compiler.compile_grammar(
                            _replace_token_names(ir, tokens.ids_of) if control_names else ir
                        )
                    except VocabularyError as error:
                        if not isinstance(error.token, str):
                            raise
                        self._grammars_by_stops[stop_ids] = compiler.compile_grammar(
                            _replace_token_names(ir, tokens.ids_of)
                        )
            return self._grammars_by_stops[stop_ids]

    def memory_bytes(self) -> int:
        """The approximate size in bytes."""
        natives = [grammar.native for grammar in self._grammars_by_stops.values()]
        return sum(_MIN_BYTES + _BYTES_PER_POSITION * native.positions + native.memory_bytes for native in natives)


class GrammarCompiler(XGRObject):
    """Compiles grammars for a tokenizer, and caches them.

    Args:
        tokenizer_info: the tokenizer.
        max_threads: at least 1. It has no effect: a grammar is compiled on the calling thread, and several threads may
            compile at once.
        cache_enabled: whether compiled grammars are cached.
        cache_limit_bytes: the maximum size of the cache in memory; -1 means no limit. Beyond it, the least recently
            used grammars are dropped.
        enable_dynamic_compilation: whether masks are computed when a matcher first needs them. It has no effect: they
            always are.

    Raises:
        ValueError: `tokenizer_info` is not a TokenizerInfo. RuntimeError: `max_threads` or `cache_limit_bytes` is out
            of range.
    """

    def __init__(
        self,
        tokenizer_info: TokenizerInfo,
        *,
        max_threads: int = 8,
        cache_enabled: bool = True,
        cache_limit_bytes: int = -1,
        enable_dynamic_compilation: bool = False,
    ) -> None:
        if not isinstance(tokenizer_info, TokenizerInfo):
            raise ValueError("Please convert the tokenizer to TokenizerInfo before passing it to GrammarCompiler.")
        if not isinstance(max_threads, int) or max_threads < 1:
            raise RuntimeError(f"max_threads must be at least 1, not {max_threads!r}")
        if not isinstance(cache_limit_bytes, int) or cache_limit_bytes < -1:
            raise RuntimeError(f"cache_limit_bytes must be -1 or at least 0, not {cache_limit_bytes!r}")
        self._tokenizer_info, self._cache_enabled, self._cache_limit = tokenizer_info, cache_enabled, cache_limit_bytes
        self._cached_grammars: OrderedDict[Recipe, CompiledGrammar] = OrderedDict()
        self._lock = threading.Lock()
        self._init_handle(self._cached_grammars)

    def compile_json_schema(
        self,
        schema: str | type | dict[str, Any],
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        any_order: bool = False,
    ) -> CompiledGrammar:
        """Compile a JSON Schema, see `Grammar.from_json_schema`."""
        pair = None if separators is None else (separators[0], separators[1])
        options = SchemaOptions(any_whitespace, indent, pair, strict_mode, max_whitespace_cnt, any_order)
        return self._compile_recipe(JsonSchema(schema_to_json(schema), options))

    def compile_builtin_json_grammar(self) -> CompiledGrammar:
        """Compile the grammar of `Grammar.builtin_json_grammar`."""
        return self._compile_recipe(Grammar.builtin_json_grammar()._recipe)

    def compile_regex(self, regex: str) -> CompiledGrammar:
        """Compile a regular expression, see `Grammar.from_regex`."""
        return self._compile_recipe(Regex(regex))

    def compile_lark(
        self, lark_string: str, *, named_grammars: dict[str, Grammar | str] | None = None
    ) -> CompiledGrammar:
        """Compile a Lark grammar, see `Grammar.from_lark`."""
        return self._compile_recipe(Lark(lark_string, read_named_grammars(named_grammars)))

    def compile_structural_tag(self, *args: Any, **kwargs: Any) -> CompiledGrammar:
        """Compile a structural tag, see `Grammar.from_structural_tag`."""
        return self._compile_recipe(StructuralTag(tag_to_json(args, kwargs)))

    def compile_grammar(self, grammar: str | Grammar, *, root_rule_name: str = "root") -> CompiledGrammar:
        """Compile a Grammar, or an EBNF string with the start rule `root_rule_name`. ValueError: it is neither."""
        if isinstance(grammar, str):
            return self._compile_recipe(read_recipe(grammar, root_rule_name))
        if isinstance(grammar, Grammar):
            return self._compile_recipe(grammar._recipe, grammar)
        raise ValueError("Invalid grammar type. Please pass a string or a Grammar object.")

    def clear_cache(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._cached_grammars.clear()

    def get_cache_size_bytes(self) -> int:
        """The approximate size of the cached grammars in memory."""
        with self._lock:
            return sum(grammar.memory_size_bytes for grammar in self._cached_grammars.values())

    @property
    def cache_limit_bytes(self) -> int:
        """The maximum size of the cache; -1 means no limit."""
        return self._cache_limit

    def _compile_recipe(self, recipe: Recipe, grammar: Grammar | None = None) -> CompiledGrammar:
        with self._lock:
            cached_grammar = self._cached_grammars.get(recipe)
            if cached_grammar is not None:
                self._cached_grammars.move_to_end(recipe)
                return cached_grammar
        data = _CompiledData(Grammar._from_recipe(recipe) if grammar is None else grammar, self._tokenizer_info)
        data.compile_for()
        compiled = CompiledGrammar._create_from_handle(data)
        if self._cache_enabled:
            self._cache_grammar(recipe, compiled)
        return compiled

    def _cache_grammar(self, recipe: Recipe, compiled: CompiledGrammar) -> None:
        with self._lock:
            self._cached_grammars[recipe] = compiled
            if self._cache_limit < 0:
                return
            sizes = {key: grammar.memory_size_bytes for key, grammar in self._cached_grammars.items()}
            total = sum(sizes.values())
            while self._cached_grammars and total > self._cache_limit:
                key, _ = self._cached_grammars.popitem(last=False)
                total -= sizes[key]


def _replace_token_names(grammar: IR, ids_of: Callable[[str], Sequence[int]]) -> IR:
    """Replace the names of tokens in a grammar by ids. As in xgrammar, a name refers to the tokens with this text,
    whether or not they are control tokens. VocabularyError: no token has this text."""

    def find_ids(name: int | str) -> Sequence[int]:
        token_ids = [name] if isinstance(name, int) else ids_of(name)
        if not token_ids:
            raise VocabularyError(f"no token of the vocabulary is spelled {name!r}", token=name)
        return token_ids

    def replace_node(node: Any) -> Node | None:
        match node:
            case Special(token):
                return alt([Special(token_id) for token_id in find_ids(token)])
            case OtherTokens(excluded, low, high):
                return OtherTokens(tuple(token_id for token in excluded for token_id in find_ids(token)), low, high)
        return None

    return replace_nodes(grammar, replace_node)
