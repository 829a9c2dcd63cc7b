"""A logits processor for transformers' `generate`.

This processor works as in xgrammar: each call of `generate` needs a new processor, each row has one grammar, and beam
search is not supported. `guided.integrations.transformers.GuidedLogitsProcessor` also supports beams, padding and
several prompts, and completes answers within `max_new_tokens`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guided.compat.xgrammar.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from guided.compat.xgrammar.compiler import CompiledGrammar
from guided.compat.xgrammar.grammar_matcher import GrammarMatcher
from guided.logits.no_token_left import rows_without_tokens

if TYPE_CHECKING:
    import torch

    class _Processor:
        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor: ...

else:
    try:
        from transformers import LogitsProcessor as _Processor
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "this logits processor needs the package transformers: pip install transformers"
        ) from error

__all__ = ["LogitsProcessor"]


class LogitsProcessor(_Processor):
    """Masks the logits of each row by a grammar.

    Args:
        compiled_grammar: one grammar for all rows, or a list with one for each row.
    """

    def __init__(self, compiled_grammar: CompiledGrammar | list[CompiledGrammar]) -> None:
        self.matchers: list[GrammarMatcher] = []
        self.compiled_grammars = compiled_grammar if isinstance(compiled_grammar, list) else [compiled_grammar]
        self.full_vocab_size = self.compiled_grammars[0].tokenizer_info.vocab_size
        self.token_bitmask: torch.Tensor | None = None
        self.prefilled = False
        self.batch_size = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Accept the last token of each row, and mask the scores.

        Args:
            input_ids: int64 (batch, length), the prompts and the output so far.
            scores: (batch, vocab).

        Raises:
            RuntimeError: the number of rows has changed, a token was sampled that the mask did not allow, or other
                processors forbid all tokens that the mask allows.
            ValueError: there is more than one grammar, but not one for each row.
        """
        if not self.matchers:
            self._create_matchers(input_ids.shape[0])
        if input_ids.shape[0] != self.batch_size:
            raise RuntimeError(
                "Expect input_ids.shape[0] to be LogitsProcessor.batch_size. "
                f"Got {input_ids.shape[0]} for the former, and {self.batch_size} for the latter."
            )
        if self.prefilled:
            for matcher, token in zip(self.matchers, input_ids[:, -1].tolist(), strict=True):
                if not matcher.is_terminated() and not matcher.accept_token(token):
                    raise RuntimeError(f"token {token} was sampled, but the grammar does not allow it")
        self.prefilled = True
        bitmask = self.token_bitmask
        assert bitmask is not None
        active_rows = [row for row, matcher in enumerate(self.matchers) if not matcher.is_terminated()]
        for row in active_rows:
            self.matchers[row].fill_next_token_bitmask(bitmask, row)
        apply_token_bitmask_inplace(scores, bitmask.to(scores.device))
        for row in rows_without_tokens(active_rows, bitmask.numpy(), scores):
            raise RuntimeError(
                f"every token that the grammar allows in row {row} is forbidden by another processor or an option of "
                "generate, such as min_new_tokens: remove it"
            )
        return scores

    def _create_matchers(self, row_count: int) -> None:
        self.batch_size = row_count
        if len(self.compiled_grammars) == 1:
            self.compiled_grammars = self.compiled_grammars * row_count
        if len(self.compiled_grammars) != row_count:
            raise ValueError(
                f"there are {len(self.compiled_grammars)} grammars but {row_count} rows: pass one grammar for each row"
            )
        self.matchers = [GrammarMatcher(grammar) for grammar in self.compiled_grammars]
        self.token_bitmask = allocate_token_bitmask(row_count, self.full_vocab_size)
