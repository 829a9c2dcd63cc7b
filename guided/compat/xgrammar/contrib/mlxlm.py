"""A logits processor for mlx-lm.

It differs from xgrammar's processor: the tokens of the first call are the prompt, which is not part of the output, and
a token that the grammar does not allow is an error instead of a silent restart.
`guided.integrations.mlx_lm.GuidedLogitsProcessor` also completes answers within a budget.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from guided.compat.xgrammar.compiler import CompiledGrammar
from guided.compat.xgrammar.exception import as_xgrammar
from guided.integrations.sequence_mask import SequenceMask
from guided.logits.mlx import import_mlx, mask_logits

__all__ = ["XGrammarLogitsProcessor"]

import_mlx()  # fail at import if MLX is missing


class XGrammarLogitsProcessor:
    """Masks the logits of one sequence by a grammar. It can be used again for the next generation.

    Args:
        grammar: the grammar of the output.
        max_rollback_tokens: ignored, since any number of tokens can be taken back.
    """

    def __init__(self, grammar: CompiledGrammar, max_rollback_tokens: int = 16) -> None:
        self.vocab_size = grammar.tokenizer_info.vocab_size
        self._mask = SequenceMask(grammar._compiled_data.compile_for(), None)

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Return the logits, (1, vocab), with -inf for each token that may not follow `tokens`. Both are MLX arrays.

        Raises:
            RuntimeError: a token was sampled that the grammar does not allow.
        """
        with as_xgrammar():
            return mask_logits(logits, self._mask.mask_after(np.array(tokens)))
