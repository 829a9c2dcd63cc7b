"""xgrammar's functions for testing languages and masks.

Functions that show xgrammar's automata and intermediate grammars (`GrammarFunctor`, `_print_grammar_fsms` and others)
are missing, since guided's automata and grammars are different.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from guided.compat.xgrammar.compiler import GrammarCompiler
from guided.compat.xgrammar.grammar import Grammar, schema_to_json
from guided.compat.xgrammar.grammar_matcher import GrammarMatcher
from guided.compat.xgrammar.recipe import StructuralTag
from guided.compat.xgrammar.tokenizer_info import TokenizerInfo
from guided.matching.bitmask import bits_of

if TYPE_CHECKING:
    import torch

__all__ = ["bitmask_to_bool_mask", "bool_mask_to_bitmask"]

_Format = Literal[
    "json", "qwen_xml", "minimax_xml", "minimax_m3_xml", "deepseek_xml", "glm_xml", "cohere_xml", "kimi_k3_xml",
    "deepseek_v4_1_xml",
]  # fmt: skip


def _json_schema_to_ebnf(
    schema: str | type | dict[str, Any],
    *,
    any_whitespace: bool = True,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    max_whitespace_cnt: int | None = None,
    strict_mode: bool = True,
    json_format: _Format = "json",
    any_order: bool = False,
) -> str:
    """Convert a schema to a grammar string, which `Grammar.from_ebnf` reads."""
    if json_format == "json":
        return str(
            Grammar.from_json_schema(
                schema, any_whitespace=any_whitespace, indent=indent, separators=separators, strict_mode=strict_mode,
                max_whitespace_cnt=max_whitespace_cnt, any_order=any_order,
            )
        )  # fmt: skip
    import json

    tag_format = {
        "type": "json_schema", "json_schema": json.loads(schema_to_json(schema)), "style": json_format,
        "any_order": any_order, "max_whitespace_cnt": max_whitespace_cnt,
    }  # fmt: skip
    return str(Grammar._from_recipe(StructuralTag(json.dumps({"type": "structural_tag", "format": tag_format}))))


def _regex_to_ebnf(regex: str, with_rule_name: bool = True) -> str:
    """Convert a regular expression to a grammar string."""
    text = str(Grammar.from_regex(regex))
    return text if with_rule_name else text.removeprefix("root ::= ").removesuffix("\n")


def _ebnf_to_grammar_no_normalization(ebnf_string: str, root_rule_name: str = "root") -> Grammar:
    """Like `Grammar.from_ebnf`, which never normalizes a grammar."""
    return Grammar.from_ebnf(ebnf_string, root_rule_name=root_rule_name)


def _get_matcher_from_grammar(grammar: Grammar | str, **kwargs: Any) -> GrammarMatcher:
    """A matcher without tokens, which accepts strings and ends when the output is complete."""
    compiled = GrammarCompiler(TokenizerInfo([]), cache_enabled=False).compile_grammar(grammar)
    return GrammarMatcher(compiled, terminate_without_stop_token=True, **kwargs)


def _is_grammar_accept_string(
    grammar: Grammar | str,
    input_str: str,
    *,
    debug_print: bool = False,
    print_time: bool = False,
    require_termination: bool = True,
) -> bool:
    """Whether a grammar accepts a text; without `require_termination`, whether it accepts it as a prefix."""
    matcher = _get_matcher_from_grammar(grammar)
    start = time.monotonic_ns()
    is_accepted = matcher.accept_string(input_str, debug_print=debug_print)
    if print_time:
        print(f"Accepting {input_str}, result: {is_accepted}, time: {(time.monotonic_ns() - start) / 1e3} us")
    return is_accepted and (not require_termination or matcher.is_terminated())


def _get_matcher_from_grammar_and_tokenizer_info(
    grammar: Grammar | str, tokenizer_info: TokenizerInfo | None = None, **kwargs: Any
) -> GrammarMatcher:
    """A matcher for a grammar, with or without a tokenizer."""
    info = TokenizerInfo([]) if tokenizer_info is None else tokenizer_info
    return GrammarMatcher(GrammarCompiler(info, cache_enabled=False).compile_grammar(grammar), **kwargs)


def _row_bits(bitmask: torch.Tensor, vocab_size: int, index: int) -> np.ndarray[Any, Any]:
    """The bits of one row."""
    if bitmask.device.type != "cpu":
        raise ValueError("bitmask should be on CPU.")
    rows = bitmask.numpy()
    if rows.dtype != np.int32:
        raise ValueError("bitmask should be of type torch.int32.")
    row = rows if rows.ndim == 1 else rows[index]
    return bits_of(row)[:vocab_size]


def _get_masked_tokens_from_bitmask(bitmask: torch.Tensor, vocab_size: int, index: int = 0) -> list[int]:
    """The ids that a row forbids."""
    return [int(number) for number in np.flatnonzero(_row_bits(bitmask, vocab_size, index) == 0)]


def _is_single_token_bitmask(bitmask: torch.Tensor, vocab_size: int, index: int = 0) -> tuple[bool, int]:
    """Whether a row allows exactly one token, and the id of this token, or -1."""
    allowed_ids = np.flatnonzero(_row_bits(bitmask, vocab_size, index))
    return (True, int(allowed_ids[0])) if len(allowed_ids) == 1 else (False, -1)


def bool_mask_to_bitmask(bool_mask: torch.Tensor) -> torch.Tensor:
    """Convert a boolean mask (batch, tokens), True means allowed, to a bitmask. The bits beyond the tokens are ones."""
    import torch

    bits = torch.nn.functional.pad(bool_mask.to(torch.int64), (0, -bool_mask.shape[1] % 32), value=1)
    weights = 1 << torch.arange(32, dtype=torch.int64, device=bool_mask.device)
    return (bits.view(bool_mask.shape[0], -1, 32) * weights).sum(dim=2).to(torch.int32)


def bitmask_to_bool_mask(bit_mask: torch.Tensor, vocab_size: int | None = None) -> torch.Tensor:
    """Convert a bitmask to a boolean mask (batch, vocab_size), or with all bits if `vocab_size` is None.

    Raises:
        ValueError: the bitmask is not int32, is not on the CPU, or has fewer than `vocab_size` bits.
    """
    import torch

    if bit_mask.device.type != "cpu":
        raise ValueError("bit_mask should be on CPU.")
    if bit_mask.dtype != torch.int32:
        raise ValueError("bit_mask should be of type torch.int32.")
    size = bit_mask.shape[1] * 32 if vocab_size is None else vocab_size
    if size > bit_mask.shape[1] * 32:
        raise ValueError("vocab_size should be less than or equal to the size represented by bit_mask.")
    bits = (bit_mask.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32)) & 1
    return bits.flatten(-2)[:, :size].bool()


def _traverse_draft_tree(
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    draft_tokens: torch.Tensor,
    matcher: GrammarMatcher,
    allocate_token_bitmask: torch.Tensor,
    time_threshold: float = -1.0,
) -> bool:
    """See `GrammarMatcher.traverse_draft_tree`."""
    return matcher.traverse_draft_tree(
        retrieve_next_token, retrieve_next_sibling, draft_tokens, allocate_token_bitmask, time_threshold
    )
