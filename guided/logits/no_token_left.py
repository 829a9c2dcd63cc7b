"""Finds rows in which no token is allowed. In: a bitmask, and masked logits. Out: the rows whose logits are all -inf.

Other logits processors also forbid tokens, and may forbid all tokens that a mask allows. Cost: one logit of each row is
read, of a token that the mask allows; if it is -inf, all logits of the row are read. This module does not import torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from guided.matching.bitmask import first_allowed

if TYPE_CHECKING:
    import torch

__all__ = ["rows_without_tokens"]


def rows_without_tokens(rows: Sequence[int], bitmask: npt.NDArray[np.int32], logits: torch.Tensor) -> list[int]:
    """The rows in which all logits are -inf.

    Args:
        rows: the rows to check.
        bitmask: int32 (rows, ceil(vocabulary / 32)), one row for each row of logits.
        logits: masked logits, float (rows, vocabulary).
    """
    last = logits.shape[-1] - 1
    samples = logits[list(rows), [min(first_allowed(bitmask[row]), last) for row in rows]].tolist()
    candidates = [row for row, logit in zip(rows, samples, strict=True) if logit == -inf]
    return [row for row in candidates if logits[row].max() == -inf]
