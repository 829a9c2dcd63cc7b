"""The classes that SGLang's scheduler calls: a grammar backend, and the grammar of one request.

In: a specification's kind and text. Out: a grammar that accepts tokens, rolls them back, and fills rows of SGLang's
bitmask (int32, bit `id % 32` of word `id // 32`, 1 means allowed), which is guided's own layout.

SGLang compiles on threads and makes all other calls from its scheduler's thread. A step fills the rows of a batch on
several OS threads without the GIL. While SGLang walks its tree of drafts, it accepts each token, fills the next mask,
and rolls the token back. Compiled grammars are in two bounded caches: one by kind and text, which replaces SGLang's
unbounded dictionary, and guided's own by content.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    GrammarRow,
    GrammarStats,
    InvalidGrammarObject,
)

from guided.errors import GuidedError, SpecError
from guided.frontends.gbnf import is_gbnf
from guided.frontends.json_schema.documents.values import read_json
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.limits import Limits
from guided.logits import apply_token_bitmask_inplace
from guided.matching.bitmask import fill_batch, row_of
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.matcher import GrammarMatcher

__all__ = ["CACHE_SIZE", "GuidedBackend", "GuidedGrammar"]

_ANY_JSON: Final = "$$ANY$$"  # SGLang's name for JSON without a schema
CACHE_SIZE: Final = 1024
"""The capacity of the cache with the key (kind, text of a specification), which replaces SGLang's unbounded
dictionary."""

_log = logging.getLogger(__name__)


class GuidedGrammar(BaseGrammarObject):  # type: ignore[misc]
    """The grammar of one request.

    Args:
        matcher: the state of the request.
        stats: SGLang's statistics of the compilation.
    """

    def __init__(self, matcher: GrammarMatcher, stats: GrammarStats | None = None) -> None:
        super().__init__()
        self.matcher = matcher
        self.grammar_stats = stats
        self._tokens_after_end = 0  # the number of tokens after the end token, which the matcher has not accepted

    def __repr__(self) -> str:
        return f"GuidedGrammar({self.matcher!r})"

    def accept_token(self, token: int) -> None:
        """Accept a token. Tokens after the end are only counted, for `rollback`.

        Raises:
            ValueError: the token is not allowed. SGLang then ends the request.
        """
        self.current_token = token
        if self.matcher.is_terminated():
            self._tokens_after_end += 1
        elif not self.matcher.accept_token(token):
            raise ValueError(f"token {token} is not allowed: {self.matcher.explain(token)}")

    def rollback(self, k: int) -> None:
        """Take back the last k tokens. Raises ValueError if fewer were accepted."""
        tokens_after_end = min(k, self._tokens_after_end)
        self.matcher.rollback(k - tokens_after_end)
        self._tokens_after_end -= tokens_after_end

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""
        return self.matcher.is_terminated()

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        """A bitmask that allows all tokens, int32 (batch_size, ceil(vocab_size / 32)), on the CPU."""
        return GuidedBackend.allocate_vocab_mask(vocab_size, batch_size, device)

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Write the tokens that may come next into a row."""
        if not self.matcher.fill_next_token_bitmask(vocab_mask, idx):
            vocab_mask[idx].fill_(-1)

    @staticmethod
    def fill_vocab_mask_batched(entries: list[GrammarRow], vocab_mask: torch.Tensor) -> None:
        """Fill some rows: on several threads, or one by one if any grammar is wrapped in SGLang's gate for
        reasoning."""
        if all(isinstance(entry.grammar, GuidedGrammar) for entry in entries):
            fill_batch([entry.grammar.matcher for entry in entries], vocab_mask, [entry.row for entry in entries])
        else:
            BaseGrammarObject.fill_vocab_mask_batched(entries, vocab_mask)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        """Allow all tokens in every row."""
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        """Copy the mask to a device."""
        return GuidedBackend.move_vocab_mask(vocab_mask, device)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        """Set the logits of forbidden tokens to -inf, in place."""
        GuidedBackend.apply_vocab_mask(logits, vocab_mask)

    def copy(self) -> GuidedGrammar:
        """An independent copy of the state. O(1)."""
        stats = self.grammar_stats
        new_stats = None if stats is None else replace(stats, is_cache_hit=True, tree_traversal_time=[])
        return GuidedGrammar(self.matcher.fork(), new_stats)


class GuidedBackend(BaseGrammarBackend):  # type: ignore[misc]
    """Compiles the specifications of requests.

    Args:
        compiler: a compiler for the model's vocabulary.
        whitespace: the whitespace in JSON; see `JsonSchemaOptions`.
    """

    def __init__(self, compiler: GrammarCompiler, whitespace: str = "json") -> None:
        super().__init__()
        self.compiler = compiler
        self._json_options = JsonSchemaOptions.for_generation(whitespace=whitespace).non_defaults()

    @property
    def is_support_token_filter(self) -> bool:
        """Whether the backend has `set_token_filter`, which strict thinking needs."""
        return True

    def dispatch_json(self, key_string: str) -> BaseGrammarObject:
        """Compile a JSON Schema, given as JSON text."""
        if key_string == _ANY_JSON:
            return self._compile_or_refuse(
                "json", lambda: self.compiler.compile_json_schema(True, **self._json_options)
            )
        return self._compile_or_refuse(
            "json", lambda: self.compiler.compile_json_schema(key_string, **self._json_options)
        )

    def dispatch_regex(self, key_string: str) -> BaseGrammarObject:
        """Compile a regular expression, which the whole output must match."""
        classes = self._json_options["classes"]
        return self._compile_or_refuse("regex", lambda: self.compiler.compile_regex(key_string, classes=classes))

    def dispatch_ebnf(self, key_string: str) -> BaseGrammarObject:
        """Compile a grammar: GBNF or EBNF if it contains `::=` and no Lark rule, otherwise Lark."""

        def compile_ebnf() -> CompiledGrammar:
            if is_gbnf(key_string):
                return self.compiler.compile_gbnf(key_string, allow_special_tokens=True)
            return self.compiler.compile_lark(key_string, allow_special_tokens=True, **self._json_options)

        return self._compile_or_refuse("ebnf", compile_ebnf)

    def dispatch_structural_tag(self, key_string: str) -> BaseGrammarObject:
        """Compile a structural tag, also in the older form with `structures`."""
        return self._compile_or_refuse(
            "structural_tag",
            lambda: self.compiler.compile_structural_tag(
                _read_tag(key_string), allow_special_tokens=True, **self._json_options
            ),
        )

    def _compile_or_refuse(self, kind: str, compile: Callable[[], CompiledGrammar]) -> BaseGrammarObject:
        """Compile a grammar. An error becomes an `InvalidGrammarObject`, which SGLang answers with status 400."""
        try:
            return GuidedGrammar(GrammarMatcher(compile()), GrammarStats(dispatch_type=kind))
        except GuidedError as error:
            _log.warning("a request's %s is refused: %s", kind, error)
            return InvalidGrammarObject(str(error))

    @staticmethod
    def allocate_vocab_mask(vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        """A bitmask that allows all tokens, int32 (batch_size, ceil(vocab_size / 32)), pinned if CUDA is available."""
        shape = (batch_size, (vocab_size + 31) // 32)
        return torch.full(shape, -1, dtype=torch.int32, pin_memory=torch.cuda.is_available())

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        """Copy the mask to a device."""
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        """Set the logits of forbidden tokens to -inf, in place."""
        apply_token_bitmask_inplace(logits, vocab_mask)

    @staticmethod
    def set_token_filter(
        vocab_mask: torch.Tensor,
        token_ids: Sequence[int],
        batch_idx: int,
        is_allowed: bool = True,
        reset_vocab_mask: bool = True,
    ) -> None:
        """Allow or forbid some ids in a row. With `reset_vocab_mask`, all other ids get the opposite."""
        row = vocab_mask[batch_idx]
        if reset_vocab_mask:
            row.fill_(0 if is_allowed else -1)
        ids = torch.from_numpy(row_of(32 * len(row), list(token_ids))).to(row.device)
        if is_allowed:
            row |= ids
        else:
            row &= ~ids


def _read_tag(text: str) -> Mapping[str, Any]:
    """Parse a structural tag, and rewrite SGLang's extensions in terms of formats that guided supports.

    These extensions are `at_least_one` next to `structures`, and null schemas, such as for functions without
    parameters.
    """
    read_json(text, Limits(), "structural_tag")  # refuses duplicate members; its errors give a location
    document = json.loads(text)
    if not isinstance(document, dict):
        raise SpecError("a structural tag must be an object", hint='write {"type": "structural_tag", "format": {...}}')
    if not isinstance(document.get("structures"), list):
        return {name: _fill_null_schemas(value) for name, value in document.items()}
    structures = [_fill_schema(structure, "schema") for structure in document["structures"]]
    tag = {**document, "structures": structures}
    if not tag.pop("at_least_one", False):
        return tag
    if unknown_names := sorted(tag.keys() - {"type", "triggers", "structures"}):
        raise SpecError(
            f'a structural tag has no "{unknown_names[0]}"', hint="write structures, triggers, at_least_one"
        )
    tags = []
    for index, structure in enumerate(structures):
        if not isinstance(structure, dict) or structure.keys() != {"begin", "schema", "end"}:
            raise SpecError("a structure must have begin, schema and end", pointer=f"/structures/{index}")
        content = {"type": "json_schema", "json_schema": structure["schema"]}
        tags.append({"begin": structure["begin"], "content": content, "end": structure["end"]})
    triggered_tags = {"type": "triggered_tags", "triggers": tag.get("triggers"), "tags": tags, "at_least_one": True}
    return {"type": "structural_tag", "format": triggered_tags}


def _fill_null_schemas(format: Any) -> Any:
    """Replace missing and null JSON Schemas in a format by the schema that allows everything."""
    if isinstance(format, list):
        return [_fill_null_schemas(item) for item in format]
    if not isinstance(format, dict):
        return format
    new_format = {name: value if name == "json_schema" else _fill_null_schemas(value) for name, value in format.items()}
    return (
        _fill_schema(new_format, "json_schema")
        if format.get("type") in ("json_schema", "qwen_xml_parameter")
        else new_format
    )


def _fill_schema(item: Any, name: str) -> Any:
    """Replace a missing or null member by the schema that allows everything."""
    return {**item, name: {}} if isinstance(item, dict) and item.get(name) is None else item
