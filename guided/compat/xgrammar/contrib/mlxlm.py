"""A logits processor for mlx-lm.

guided's own processor completes answers within a budget: `guided.integrations.mlx_lm.GuidedLogitsProcessor`. This one
works as in xgrammar, except that the prompt is not part of the output: the tokens of the first call are the prompt.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from guided.compat.xgrammar.compiler import CompiledGrammar
from guided.compat.xgrammar.exception import as_xgrammar
from guided.integrations.sequence_mask import SequenceMask
from guided.logits.mlx import masked, mlx

__all__ = ["XGrammarLogitsProcessor"]

mlx()  # fail at import if MLX is missing


class XGrammarLogitsProcessor:
    """Masks the logits of one sequence by a grammar; it starts anew for the next generation.

    Args:
        grammar: the grammar of the output.
        max_rollback_tokens: ignored: any number of tokens can be taken back.
    """

    def __init__(self, grammar: CompiledGrammar, max_rollback_tokens: int = 16) -> None:
        self.vocab_size = grammar.tokenizer_info.vocab_size
        self._mask = SequenceMask(grammar._parts.compiled(), None)

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """The logits, (1, vocab), with -inf for each token that may not come after `tokens`. Both are MLX arrays.

        Raises:
            RuntimeError: a token was written that the grammar does not allow.
        """
        with as_xgrammar():
            return masked(logits, self._mask.after(np.array(tokens)))
