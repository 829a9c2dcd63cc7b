"""
Kernels for rows on a CPU.

They take addresses, which they cannot check, and sizes, most of which they do not check. The caller
(guided/kernels/__init__.py, guided/attention/slots.py) checks shapes and types and keeps the memory alive. `half`:
whether numbers are bfloat16 instead of float32. Rows are contiguous unless a stride is given; strides are counted in
numbers. Functions release the GIL while they compute.
"""

from collections.abc import Sequence
from typing import Any

def multiply(
    half: bool, x: int, weights: int, bias: int, out: int, rows: int, outs: int, ins: int, threads: int
) -> None:
    """
    Write `x @ weights.T + bias` to `out`.

    Args:
        x: address of (rows, ins).
        weights: address of (outs, ins).
        bias: address of (outs,); 0: none.
        out: address of (rows, outs).
        threads: the maximum number of threads. It does not affect the results.
    """

def rms_norm(half: bool, x: int, weight: int, out: int, rows: int, size: int, eps: float, offset: float) -> None:
    """
    Write `x / sqrt(mean(x ** 2) + eps) * (offset + weight)` to `out`.

    Args:
        x: address of (rows, size).
        weight: address of (size,); 0: the last factor is omitted.
        out: address of (rows, size).
    """

def swiglu(half: bool, x: int, out: int, rows: int, size: int) -> None:
    """
    Write `silu(gate) * up` to `out`.

    Args:
        x: address of (rows, 2 * size): gate, then up.
        out: address of (rows, size).
    """

def geglu(half: bool, x: int, out: int, rows: int, size: int) -> None:
    """
    Write `gelu(gate) * up` to `out`, with the tanh approximation (see `gelu`).

    Args:
        x: address of (rows, 2 * size): gate, then up.
        out: address of (rows, size).
    """

def softcap(x: int, rows: int, size: int, cap: float) -> None:
    """
    Replace each number by `cap * tanh(number / cap)`, in place.

    Args:
        x: address of float32 (rows, size).
    """

def gelu(half: bool, exact: bool, x: int, out: int, rows: int, size: int) -> None:
    """
    Write `x * P(X <= x)`, for a standard normal X, to `out`.

    Args:
        exact: whether to use the error function instead of the tanh approximation.
        x: address of (rows, size).
        out: address of (rows, size).
    """

def rotate(half: bool, x: int, stride: int, cos: int, sin: int, rows: int, heads: int, size: int, turned: int) -> None:
    """
    Rotate heads in place: (a, b) becomes (a cos - b sin, b cos + a sin).

    a and b are the numbers i and i + turned / 2 of a head.

    Args:
        x: address of (rows, heads, size); rows are `stride` numbers apart.
        cos: address of (rows, turned).
        sin: address of (rows, turned); its first half is negated (models/rotary.py).
        turned: the number of numbers at the beginning of each head that are rotated, a and b together.
    """

def pack(half: bool, x: int, stride: int, out: int, rows: int, heads: int, size: int) -> None:
    """
    Quantise heads to 8 bits.

    Args:
        x: address of (rows, heads, size); rows are `stride` numbers apart.
        out: address of int8 (rows, heads, size + 4): the numbers, then the float32 by which they are multiplied.
    """

def choose_rows(
    rows: Sequence[tuple[Any, ...]], threads: int
) -> list[tuple[int, int, float, float, float | None, float, list[tuple[int, float]], float, int]]:
    """
    Choose a token from each row of logits; see guided/kernels/choose.py.

    Args:
        rows: one tuple per row: the address of its float32 logits; their number; the size of the vocabulary; three
            bitmasks or None (allowed tokens, allowed tokens without a budget, ramped tokens); the amount by which the
            logits of ramped tokens are lowered; changes or None; temperature; top_k (0: all); top_p; min_p; a uniform
            number in [0, 1); the number of most likely tokens to return (-1: no log probabilities); whether log
            probabilities are computed from the model's logits. Changes are a tuple: a bitmask of permitted tokens or
            None, banned ids, end ids, biased ids, biases, seen ids, their counts in the output, and the penalties for
            repetition, presence and frequency. Bitmasks and ids are int32 arrays; other arrays are float32.
        threads: the maximum number of threads. It does not affect the results.

    Returns:
        One tuple per row: 0, or the reason for a refusal (1: the greatest logit is not finite, 2: all tokens are
        banned); the token; with reason 1, the greatest logit; -log of the total probability of the allowed tokens; the
        probability that the budget removed, or None; the token's log probability; the most likely tokens with their log
        probabilities; log of the model's probability of the token, 0 without a mask; the model's most likely token if
        the mask forbids it, otherwise -1.

    Raises:
        ValueError: the length of an array does not fit the vocabulary or the ids.
        IndexError: an id is not below the vocabulary's size.
    """

def block_instructions() -> str:
    """
    The instructions that multiply blocks on this processor: avx512, avxvnni, avx2, neon or plain.
    """

class BlockMatrix:
    """A matrix that stays quantised in ggml's formats, stored in tiles."""

    def __init__(self, columns: int) -> None:
        """Make a matrix without rows."""

    def add(self, ggml_type: int, raw: int, rows: int, order: int | None, count: int, threads: int) -> None:
        """
        Append rows of a GGUF file.

        Args:
            ggml_type: the format of the rows.
            raw: address of `rows` rows of blocks, as they are stored in the file.
            order: address of the indices of the rows to append, int64 (count,); None: the first `count` rows.
            threads: the maximum number of threads.

        Raises:
            ValueError: the format is unknown, or the rows do not consist of whole blocks.
            IndexError: a row does not exist.
        """

    def multiply(self, half: bool, x: int, bias: int, out: int, rows: int, threads: int) -> None:
        """
        Write `x @ weights.T + bias` to `out`.

        Args:
            half: whether x, bias and out are bfloat16 instead of float32.
            x: address of (rows, columns).
            bias: address of (outs,); 0: none.
            out: address of (rows, outs). `outs` is the number of rows of the matrix.
            threads: the maximum number of threads. It does not affect the results.
        """

    def values(self, rows: int, count: int, out: int) -> None:
        """
        Write rows to `out` as float32 (count, columns).

        Args:
            rows: address of the indices of the rows, int64 (count,).
            out: address of the output.

        Raises:
            IndexError: a row does not exist.
        """

    @property
    def bytes(self) -> int:
        """The number of bytes that a multiplication reads."""

class Batch:
    """
    The sequences of one forward pass, for attention over slots of a cache.
    """

    def __init__(
        self,
        heads: int,
        kv_heads: int,
        head_dim: int,
        half: bool,
        stored: int,
        rows: Sequence[tuple[int, int, int, int, int, int | None, int, int, int, int]],
    ) -> None:
        """
        Bind the sequences of a forward pass. Their new positions attend to all positions before them.

        Args:
            heads: the number of query heads, a multiple of `kv_heads`.
            kv_heads: the number of heads of keys and values.
            head_dim: the numbers per head.
            half: whether queries and output are bfloat16 instead of float32.
            stored: bytes per number of keys and values: 4 (float32), 2 (bfloat16) or 1 (int8, see `pack`).
            rows: one tuple per sequence: the address of the keys of layer 0; the address of the values of layer 0; the
                number of layers; the distance between two layers, in numbers; the number of slots in the cache; the
                address of the sequence's slots as int64, or None if they are consecutive; the first slot if they are
                consecutive; the number of positions; the query row of the first new position; the number of new
                positions.

        Raises:
            ValueError: the numbers of heads or the types do not fit together.
            IndexError: a row refers to slots or positions that do not exist.
        """

    def run(
        self,
        layer: int,
        q: int,
        q_stride: int,
        out: int,
        queries: int,
        scale: float,
        softcap: float,
        window: int | None,
        threads: int,
    ) -> None:
        """
        Write the attention of one layer to `out`.

        Args:
            layer: the index of the layer.
            q: address of (queries, heads, head_dim); rows are `q_stride` numbers apart.
            out: address of (queries, heads, head_dim).
            scale: the factor by which dot products of queries and keys are multiplied.
            softcap: c: scores become c * tanh(score / c); 0: scores are not capped.
            window: the maximum number of positions that a query reads, including its own; None: no limit.
            threads: the maximum number of threads. It does not affect the results.

        Raises:
            IndexError: the layer does not exist, or `queries` is not the number of new positions.
            ValueError: the window is empty.
        """
