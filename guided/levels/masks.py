"""The one step that makes decoding guided, and level 1: a mask for each position, fixed in advance.

Ordinary decoding computes logits, applies softmax, and samples. Guided decoding inserts one step after the first: the
logit of each token that may not come next becomes -inf, so softmax assigns it probability 0:

    logits = model(idx)                          # (B, V): the model does not know the constraint
    logits = apply_token_mask(logits, allowed)   # the only new line
    idx = torch.cat((idx, sample(logits)), dim=1)

The odds among the remaining tokens stay the same: if 'e' was three times as likely as 't', it still is. Only the
probability of the removed tokens is lost. The forward pass, the cache and attention do not change, so it does not
matter how the logits are computed (reader.py).

`idx` is (B, T), int64: the ids so far, with a row for each sequence. A model is any function from `idx` to the logits
of the next token, (B, V).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

__all__ = [
    "Choose",
    "NextLogits",
    "apply_token_mask",
    "build_char_classes",
    "generate_guided_static",
    "greedy",
    "sample",
]

NextLogits: TypeAlias = Callable[[Tensor], Tensor]
"""idx (B, T) -> logits (B, V)."""
Choose: TypeAlias = Callable[[Tensor], Tensor]
"""logits (B, V) -> ids (B, 1)."""


def build_char_classes(stoi: Mapping[str, int]) -> dict[str, set[int]]:
    """The ids of each class of characters, for a vocabulary {character: id}.

    A newline ends a line and a space separates words, so each is a separate class, and not in PUNCT. For the 65
    characters of Tiny Shakespeare: UPPER 26, LOWER 26, DIGIT 1 (the 3), NEWLINE 1, SPACE 1, PUNCT 10, LETTER 52,
    ANY 65. A class without characters is empty.
    """
    classes: dict[str, set[int]] = {name: set() for name in ("UPPER", "LOWER", "DIGIT", "NEWLINE", "SPACE", "PUNCT")}
    for char, token in stoi.items():
        classes[_classify(char)].add(token)
    return classes | {"LETTER": classes["UPPER"] | classes["LOWER"], "ANY": set(stoi.values())}


def _classify(char: str) -> str:
    tests = {"UPPER": char.isupper(), "LOWER": char.islower(), "DIGIT": char.isdigit()}
    tests |= {"NEWLINE": char == "\n", "SPACE": char == " "}
    return next((name for name, is_true in tests.items() if is_true), "PUNCT")


def apply_token_mask(logits: Tensor, allowed: Collection[int]) -> Tensor:
    """The logits (..., V) with -inf for each id that is not allowed.

    Raises:
        ValueError: nothing is allowed (softmax would return NaN), or an id is out of range.
    """
    if not allowed:
        raise ValueError("no token is allowed: the constraint cannot continue from here")
    size = logits.shape[-1]
    if invalid_ids := [token for token in allowed if not 0 <= token < size]:
        raise ValueError(f"the id {invalid_ids[0]} is allowed, but there are {size} logits")
    mask = torch.zeros(size, dtype=torch.bool, device=logits.device)
    mask[list(allowed)] = True
    return logits.masked_fill(~mask, -torch.inf)


def sample(logits: Tensor) -> Tensor:
    """A token for each row, drawn from its distribution: (B, V) -> (B, 1). `torch.manual_seed` makes it repeatable."""
    return torch.multinomial(torch.softmax(logits, dim=-1), num_samples=1)


def greedy(logits: Tensor) -> Tensor:
    """The most likely token for each row: (B, V) -> (B, 1)."""
    return logits.argmax(dim=-1, keepdim=True)


def generate_guided_static(
    model: NextLogits, idx: Tensor, masks: Sequence[Collection[int]], *, choose: Choose = sample
) -> Tensor:
    """Level 1: token i of the output is one of masks[i]. (B, T) -> (B, T + len(masks)).

    Five lower-case letters and a newline are `[classes["LOWER"]] * 5 + [classes["NEWLINE"]]`. Fixed masks cannot
    express "one or more letters": the next mask would depend on the output so far, which requires a state (fsm.py).
    """
    for allowed in masks:
        logits = apply_token_mask(model(idx), allowed)
        idx = torch.cat((idx, choose(logits)), dim=1)
    return idx
