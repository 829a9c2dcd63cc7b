"""The choices of a batch as tensors on a device, sent in one copy.

In: some `Choice`s, and the row of logits of each. Out: a `ChoiceTable`: a column for each number of a choice, the
bitmasks, and the ids in penalties, bias and bans. A choice refers to its bitmasks by row. The rows `EVERYTHING` and
`NOTHING` always exist.

Cost: one asynchronous copy. Each bitmask is copied on the host once (16 KB for 128,256 tokens). A choice takes a few
more microseconds, mostly for the hash behind its uniform number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.kernels.transfer import Rows, send_arrays
from guided.sampling.choice import Bits, Choice
from guided.sampling.sampler import COLDEST, HOTTEST, uniform

__all__ = ["EVERYTHING", "NOTHING", "ChoiceTable", "Pairs", "choice_table"]

EVERYTHING: Final = 0
NOTHING: Final = 1
_DOUBLES: Final = ("uniform", "top_p")
_INTS: Final = ("row", "allowed", "specified", "ramped", "permitted", "slot", "top_k", "raw")
_FLOATS: Final = ("ramp", "scale", "min_p", "repetition", "presence", "frequency")
_LISTS: Final = {"banned": None, "ends": None, "biased": "bias", "seen": "counts"}
"""Lists of ids in `Changes`, and the list of their numbers."""
_PARTS: Final = ("choice", "id", "number", "start")
_ALIGNED: Final = 4  # numbers; Triton compiles a kernel anew for pointers that are not aligned to 16 bytes
_NO_CHANGES: Final = (1.0, 0.0, 0.0)  # repetition, presence, frequency


@dataclass(frozen=True, slots=True)
class Pairs:
    """Ids in the lists of choices.

    Attributes:
        choice: int32 (n,): the choice of each id.
        id: int32 (n,).
        number: float32 (n,): a bias, or how often the id is in the output; zeros for other lists.
        start: int32 (choices + 1,): the ids of choice i are those from start[i] to start[i + 1]. Without any list in
            the batch all four are empty.
    """

    choice: Tensor
    id: Tensor
    number: Tensor
    start: Tensor


@dataclass(frozen=True, slots=True)
class ChoiceTable:
    """See the module. Each column has the shape (choices,).

    Attributes:
        size: of the vocabulary, the same for all choices.
        masks: int32 (rows, words).
        uniform: float64, in [0, 1).
        top_p: float64; 1: all.
        row: int32, which row of the logits.
        allowed, specified, ramped, permitted: int32, rows of `masks`. `specified` is the mask without a budget.
        slot: int32, the place of the choice in `changed`; -1: it has no changes.
        top_k: int32; 0: all.
        raw: int32; 1: log probabilities are by the model's logits, 0: by the changed logits.
        ramp: float32, subtracted from the logits of `ramped`.
        scale: float32, 1 / temperature; 0: the greatest logit is chosen.
        min_p: float32; 0: all.
        repetition, presence, frequency: float32, see `SamplingParams`.
        banned, ends, biased, seen: see `Changes`.
        changed, thinned, sorts: int32: which choices have changes, are drawn with min-p, and with top-k or top-p.
    """

    size: int
    masks: Tensor
    uniform: Tensor
    top_p: Tensor
    row: Tensor
    allowed: Tensor
    specified: Tensor
    ramped: Tensor
    permitted: Tensor
    slot: Tensor
    top_k: Tensor
    raw: Tensor
    ramp: Tensor
    scale: Tensor
    min_p: Tensor
    repetition: Tensor
    presence: Tensor
    frequency: Tensor
    banned: Pairs
    ends: Pairs
    biased: Pairs
    seen: Pairs
    changed: Tensor
    thinned: Tensor
    sorts: Tensor


def choice_table(choices: Sequence[Choice], rows: Sequence[int], device: torch.device) -> ChoiceTable:
    """The table of `choices` on `device`; choice i is made from row `rows[i]` of some logits.

    Raises:
        ValueError: the choices have vocabularies of different sizes, or a bitmask does not have one bit per token.
    """
    size = choices[0].size
    if any(choice.size != size for choice in choices):
        raise ValueError("the choices are of vocabularies of different sizes")
    masks = _Masks(size)
    some = _some(choices)
    slots = {at: slot for slot, at in enumerate(some["changed"])}
    lines = [
        _numbers(choice, row, slots.get(at, -1), masks)
        for at, (choice, row) in enumerate(zip(choices, rows, strict=True))
    ]
    arrays: dict[str, npt.NDArray[Any] | Rows] = {
        "doubles": _columns([line[0] for line in lines], np.float64),
        "ints": _columns([line[1] for line in lines], np.int32),
        "floats": _columns([line[2] for line in lines], np.float32),
        "masks": masks.rows,
    }
    arrays |= {name: np.array(places, np.int32) for name, places in some.items()}
    lists = _named(choices) if some["changed"] else {}
    for name, parts in lists.items():
        arrays |= {f"{name} {part}": array for part, array in parts.items()}
    there = send_arrays(arrays, device)
    columns: dict[str, Any] = {}
    for kind, names in (("doubles", _DOUBLES), ("ints", _INTS), ("floats", _FLOATS)):
        columns |= dict(zip(names, there[kind][:, : len(choices)], strict=True))
    nothing = Pairs(there["ints"][0, :0], there["ints"][0, :0], there["floats"][0, :0], there["ints"][0, :0])
    for name in _LISTS:
        columns[name] = Pairs(*(there[f"{name} {part}"] for part in _PARTS)) if name in lists else nothing
    columns |= {name: there[name] for name in some}
    return ChoiceTable(size, there["masks"], **columns)


def _columns(lines: Sequence[tuple[float, ...]], dtype: type[np.number[Any]]) -> npt.NDArray[Any]:
    """A row for each column, padded, so that each begins at an aligned address for any number of choices."""
    out = np.zeros((len(lines[0]), -(-len(lines) // _ALIGNED) * _ALIGNED), dtype)
    out[:, : len(lines)] = np.array(lines, dtype).T
    return out


class _Masks:
    """Bitmasks of a batch."""

    def __init__(self, size: int) -> None:
        self._words = (size + 31) // 32
        self.rows: list[Bits] = [np.full(self._words, -1, np.int32), np.zeros(self._words, np.int32)]

    def add(self, bits: Bits | None, otherwise: int) -> int:
        """The row of a bitmask, or `otherwise` if there is none."""
        if bits is None:
            return otherwise
        if len(bits) != self._words:
            raise ValueError(f"a bitmask of {len(bits)} words has not one bit for each token")
        self.rows.append(bits)
        return len(self.rows) - 1


def _numbers(
    choice: Choice, row: int, slot: int, masks: _Masks
) -> tuple[tuple[float, float], tuple[int, ...], tuple[float, ...]]:
    """The numbers of a choice for the columns of `_DOUBLES`, `_INTS` and `_FLOATS`."""
    params, ramp, changes = choice.params, choice.ramp, choice.changes
    allowed = masks.add(choice.allowed, EVERYTHING)
    scale, number = 0.0, 0.0
    if params.temperature:
        scale = max(COLDEST, 1 / min(max(params.temperature, COLDEST), HOTTEST))
        number = uniform(params.seed, choice.position)
    return (
        (number, 1.0 if params.top_p is None else params.top_p),
        (
            row,
            allowed,
            masks.add(choice.unbudgeted, allowed),
            NOTHING if ramp is None else masks.add(ramp.bits, NOTHING),
            masks.add(None if changes is None else changes.permitted, EVERYTHING),
            slot,
            choice.top_k,
            int(choice.raw),
        ),
        (
            0.0 if ramp is None else ramp.penalty,
            scale,
            params.min_p or 0.0,
            *(_NO_CHANGES if changes is None else (changes.repetition, changes.presence, changes.frequency)),
        ),
    )


def _named(choices: Sequence[Choice]) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """For each list of ids what `Pairs` has of it, by the names in `_PARTS`."""
    found = dict[str, dict[str, npt.NDArray[Any]]]()
    for name, weight in _LISTS.items():
        ids, numbers, counts = [np.zeros(0, np.int32)], [np.zeros(0, np.float32)], np.zeros(len(choices), np.int64)
        for at, choice in enumerate(choices):
            if choice.changes is None or not (count := len(own := getattr(choice.changes, name))):
                continue
            counts[at] = count
            ids.append(np.asarray(own, np.int32))
            numbers.append(np.zeros(count, np.float32) if weight is None else getattr(choice.changes, weight))
        found[name] = {
            "choice": np.repeat(np.arange(len(choices), dtype=np.int32), counts),
            "id": np.concatenate(ids),
            "number": np.concatenate(numbers, dtype=np.float32),
            "start": np.concatenate([[0], counts.cumsum()]).astype(np.int32),
        }
    return found


def _some(choices: Sequence[Choice]) -> dict[str, list[int]]:
    """The places of the choices that take part in only some of the steps."""
    return {
        "changed": [at for at, choice in enumerate(choices) if choice.changes is not None],
        "thinned": [at for at, choice in enumerate(choices) if choice.params.temperature and choice.params.min_p],
        "sorts": [at for at, choice in enumerate(choices) if choice.sorts],
    }
