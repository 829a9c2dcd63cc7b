"""Sends the choices of a batch to a device, as tensors in one copy.

In: some `Choice`s with the row of logits of each, and choices whose parameters are in arrays already. Out: a
`ChoiceTable`: a column for each numeric parameter of a choice, the bitmasks, and the ids in penalties, bias and bans. A
choice refers to its bitmasks by row number. The rows `EVERYTHING` and `NOTHING` always exist.

Cost: one asynchronous copy. Each bitmask is copied once on the host (16 KB for 128,256 tokens). Each choice takes a few
more microseconds, mostly for the hash from which its uniform number comes. Prepared choices need none of this: their
bitmasks are sent from where they are, in a second copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.kernels.transfer import Rows, send_arrays
from guided.sampling.choice import Bits, Choice
from guided.sampling.prepared import PreparedChoices
from guided.sampling.sampler import inverse_temperature, uniform

__all__ = ["EVERYTHING", "NOTHING", "ChoiceTable", "Pairs", "make_choice_table"]

EVERYTHING: Final = 0
NOTHING: Final = 1
_DOUBLES: Final = ("uniform", "top_p")
_INTS: Final = ("row", "allowed", "specified", "ramped", "permitted", "slot", "top_k", "raw")
_FLOATS: Final = ("ramp", "scale", "min_p", "repetition", "presence", "frequency")
_COLUMNS: Final[Mapping[str, tuple[tuple[str, ...], type[np.number[Any]]]]] = {
    "doubles": (_DOUBLES, np.float64),
    "ints": (_INTS, np.int32),
    "floats": (_FLOATS, np.float32),
}
"""The name of an array -> its columns, and its type. `_list_numbers` returns the numbers in this order."""
_LISTS: Final = {"banned": None, "ends": None, "biased": "bias", "seen": "counts"}
"""The lists of ids in `Changes` -> the names of the lists with a number for each id, if any."""
_PAIR_FIELDS: Final = ("choice", "id", "number", "start")
_ALIGNMENT: Final = 4  # in numbers: 16 bytes. Triton recompiles a kernel for pointers with less alignment
_NO_CHANGES: Final = (1.0, 0.0, 0.0)  # repetition, presence, frequency


@dataclass(frozen=True, slots=True)
class Pairs:
    """One list of ids per choice, concatenated. All four tensors are empty if no choice of the batch has changes.

    Attributes:
        choice: int32 (n,): the choice of each id.
        id: int32 (n,).
        number: float32 (n,): the bias, or how often the id is in the output; zeros for other lists.
        start: int32 (choices + 1,): the ids of choice i go from start[i] to start[i + 1] (exclusive).
    """

    choice: Tensor
    id: Tensor
    number: Tensor
    start: Tensor


@dataclass(frozen=True, slots=True)
class ChoiceTable:
    """See the module docstring. Each column has the shape (choices,).

    Attributes:
        size: the size of the vocabulary, which all choices share.
        masks: int32 (rows, words).
        uniform: float64, in [0, 1).
        top_p: float64; 1: all tokens.
        row: int32, the row of logits.
        allowed, specified, ramped, permitted: int32, rows of `masks`. `specified` is the mask without a budget.
        slot: int32, the index of the choice in `changed`; -1: it has no changes.
        top_k: int32; 0: all tokens.
        raw: int32; 1: log probabilities are computed from the model's logits, 0: from the changed logits.
        ramp: float32, subtracted from the logits of the tokens in `ramped`.
        scale: float32, 1 / temperature; 0: the greatest logit is chosen.
        min_p: float32; 0: all tokens.
        repetition, presence, frequency: float32, see `SamplingParams`.
        banned, ends, biased, seen: see `Changes`.
        changed, min_p_rows, sorts: int32, the indices of the choices with changes, with min-p, and with top-k or top-p.
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
    min_p_rows: Tensor
    sorts: Tensor


def make_choice_table(
    choices: Sequence[Choice], rows: Sequence[int], device: torch.device, prepared: PreparedChoices | None = None
) -> ChoiceTable:
    """Make the table of `choices`, then those in `prepared`, on `device`. Choice i uses row `rows[i]` of the logits.

    Raises:
        ValueError: the choices have vocabularies of different sizes, or a bitmask does not have one bit per token.
    """
    size = prepared.size if prepared is not None else choices[0].size
    if any(choice.size != size for choice in choices):
        raise ValueError("the choices have vocabularies of different sizes")
    masks = _Masks(size)
    subsets = _list_subsets(choices)
    slots = {index: slot for slot, index in enumerate(subsets["changed"])}
    choice_numbers = [
        _list_numbers(choice, row, slots.get(index, -1), masks)
        for index, (choice, row) in enumerate(zip(choices, rows, strict=True))
    ]
    prepared_columns = None if prepared is None else _prepared_columns(prepared, first_mask=len(masks.rows))
    count = len(choices) + (0 if prepared is None else len(prepared))
    arrays: dict[str, npt.NDArray[Any] | Rows] = {"masks": masks.rows}
    for part, (kind, (names, dtype)) in enumerate(_COLUMNS.items()):
        numbers = [parts[part] for parts in choice_numbers]
        arrays[kind] = _transpose(numbers, names, dtype, count, prepared_columns)
    if prepared is not None:
        for name, added in (("min_p_rows", prepared.min_p_rows), ("sorts", prepared.sorts)):
            subsets[name] += (added + len(choices)).tolist()
    arrays |= {name: np.array(indices, np.int32) for name, indices in subsets.items()}
    lists = _build_id_lists(choices, count) if subsets["changed"] else {}
    for name, arrays_by_field in lists.items():
        arrays |= {f"{name} {field_name}": array for field_name, array in arrays_by_field.items()}
    tensors = send_arrays(arrays, device)
    if prepared is not None and (used := int(prepared.mask.max(initial=-1)) + 1):
        tensors["masks"] = torch.cat([tensors["masks"], prepared.masks[:used].to(device, non_blocking=True)])
    columns: dict[str, Any] = {}
    for kind, (names, _) in _COLUMNS.items():
        columns |= dict(zip(names, tensors[kind][:, :count], strict=True))
    no_pairs = Pairs(tensors["ints"][0, :0], tensors["ints"][0, :0], tensors["floats"][0, :0], tensors["ints"][0, :0])
    for name in _LISTS:
        columns[name] = (
            Pairs(*(tensors[f"{name} {field_name}"] for field_name in _PAIR_FIELDS)) if name in lists else no_pairs
        )
    columns |= {name: tensors[name] for name in subsets}
    return ChoiceTable(size, tensors["masks"], **columns)


def _transpose(
    choice_numbers: Sequence[tuple[float, ...]],
    names: Sequence[str],
    dtype: type[np.number[Any]],
    count: int,
    prepared_columns: Mapping[str, npt.NDArray[Any] | float] | None,
) -> npt.NDArray[Any]:
    """Transpose the numbers: a row for each column, padded so that each row begins at an aligned address. The numbers
    of prepared choices come last."""
    out = np.zeros((len(names), -(-count // _ALIGNMENT) * _ALIGNMENT), dtype)
    first = len(choice_numbers)
    if choice_numbers:
        out[:, :first] = np.array(choice_numbers, dtype).T
    if prepared_columns is not None:
        for row, name in zip(out, names, strict=True):
            row[first:count] = prepared_columns[name]
    return out


def _prepared_columns(prepared: PreparedChoices, first_mask: int) -> dict[str, npt.NDArray[Any] | float]:
    """The columns of prepared choices: arrays, or one number for all. `first_mask`: the row of their first bitmask."""
    allowed = np.where(prepared.mask < 0, EVERYTHING, prepared.mask + first_mask)
    repetition, presence, frequency = _NO_CHANGES
    return {
        "uniform": prepared.uniform,
        "top_p": prepared.top_p,
        "row": prepared.row,
        "allowed": allowed,
        "specified": allowed,
        "ramped": NOTHING,
        "permitted": EVERYTHING,
        "slot": -1,
        "top_k": prepared.top_k,
        "raw": 1,
        "ramp": 0.0,
        "scale": prepared.scale,
        "min_p": prepared.min_p,
        "repetition": repetition,
        "presence": presence,
        "frequency": frequency,
    }


class _Masks:
    """Collects the bitmasks of a batch."""

    def __init__(self, size: int) -> None:
        self._words = (size + 31) // 32
        self.rows: list[Bits] = [np.full(self._words, -1, np.int32), np.zeros(self._words, np.int32)]

    def add(self, bits: Bits | None, default_row: int) -> int:
        """Add a bitmask and return its row. Return `default_row` if `bits` is None."""
        if bits is None:
            return default_row
        if len(bits) != self._words:
            raise ValueError(f"a bitmask of {len(bits)} words does not have one bit for each token")
        self.rows.append(bits)
        return len(self.rows) - 1


def _list_numbers(
    choice: Choice, row: int, slot: int, masks: _Masks
) -> tuple[tuple[float, float], tuple[int, ...], tuple[float, ...]]:
    """The numbers of a choice for the columns of `_DOUBLES`, `_INTS` and `_FLOATS`."""
    params, ramp, changes = choice.params, choice.ramp, choice.changes
    allowed = masks.add(choice.allowed, EVERYTHING)
    scale = inverse_temperature(params.temperature)
    uniform_number = uniform(params.seed, choice.position) if params.temperature else 0.0
    return (
        (uniform_number, 1.0 if params.top_p is None else params.top_p),
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


def _build_id_lists(choices: Sequence[Choice], count: int) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """The arrays of `Pairs` for each list of ids, named as in `_PAIR_FIELDS`. `count`: with the prepared choices, which
    have no lists."""
    lists_by_name = dict[str, dict[str, npt.NDArray[Any]]]()
    for name, weight in _LISTS.items():
        ids, numbers, counts = [np.zeros(0, np.int32)], [np.zeros(0, np.float32)], np.zeros(count, np.int64)
        for index, choice in enumerate(choices):
            if choice.changes is None or not (id_count := len(own_ids := getattr(choice.changes, name))):
                continue
            counts[index] = id_count
            ids.append(np.asarray(own_ids, np.int32))
            numbers.append(np.zeros(id_count, np.float32) if weight is None else getattr(choice.changes, weight))
        lists_by_name[name] = {
            "choice": np.repeat(np.arange(count, dtype=np.int32), counts),
            "id": np.concatenate(ids),
            "number": np.concatenate(numbers, dtype=np.float32),
            "start": np.concatenate([[0], counts.cumsum()]).astype(np.int32),
        }
    return lists_by_name


def _list_subsets(choices: Sequence[Choice]) -> dict[str, list[int]]:
    """For each optional step, the indices of the choices that need it."""
    return {
        "changed": [i for i, choice in enumerate(choices) if choice.changes is not None],
        "min_p_rows": [i for i, choice in enumerate(choices) if choice.params.temperature and choice.params.min_p],
        "sorts": [i for i, choice in enumerate(choices) if choice.needs_sorting],
    }
