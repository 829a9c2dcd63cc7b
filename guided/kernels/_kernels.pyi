"""
Kernels for rows on a CPU: they take addresses and sizes, and check neither.

The caller (guided/kernels/__init__.py, guided/attention/slots.py) checks shapes and types and keeps the memory alive.
`half`: numbers are bfloat16, otherwise float32. Rows are contiguous unless a stride is given; strides are counted in
numbers. All functions run without the GIL.
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
        threads: the most threads to use; they change no bit.
    """

def rms_norm(half: bool, x: int, weight: int, out: int, rows: int, size: int, eps: float, offset: float) -> None:
    """
    Write `x / sqrt(mean(x ** 2) + eps) * (offset + weight)` to `out`.

    Args:
        x: address of (rows, size).
        weight: address of (size,); 0: nothing is multiplied.
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
    Write `gate * P(X <= gate) * up`, by the approximation with tanh, to `out`.

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
    Write `x * P(X <= x)`, for a normal X, to `out`.

    Args:
        exact: by the error function; otherwise by the approximation with tanh.
        x: address of (rows, size).
        out: address of (rows, size).
    """

def rotate(half: bool, x: int, stride: int, cos: int, sin: int, rows: int, heads: int, size: int, turned: int) -> None:
    """
    Turn heads in place: (a, b) becomes (a cos - b sin, b cos + a sin).

    Args:
        x: address of (rows, heads, size); rows are `stride` numbers apart.
        cos: address of (rows, turned).
        sin: address of (rows, turned), with its sign.
        turned: the first numbers of each head, a and b together; the others stay.
    """

def pack(half: bool, x: int, stride: int, out: int, rows: int, heads: int, size: int) -> None:
    """
    Quantise heads to 8 bits.

    Args:
        x: address of (rows, heads, size); rows are `stride` numbers apart.
        out: address of int8 (rows, heads, size + 4): the numbers, then the float32 that they are multiplied by.
    """

def choose_rows(
    rows: Sequence[tuple[Any, ...]], threads: int
) -> list[tuple[int, int, float, float, float | None, float, list[tuple[int, float]], float, int]]:
    """
    Choose a token from each row of logits; see guided/kernels/choose.py.

    Args:
        rows: for each (address of float32 logits, how many there are, how many of them are tokens; bitmasks or None:
            allowed, the same without a budget, tokens whose logits are lowered; by how much; changes or None;
            temperature, top_k (0: all), top_p, min_p, uniform number, how many of the most likely tokens come back (-1:
            no log probabilities), whether by the model's own logits). Changes are (permitted bitmask or None, banned
            ids, end ids, biased ids, biases, seen ids, their counts in the output, penalties for repetition, presence,
            frequency). Bitmasks and ids are int32, numbers float32, in numpy.
        threads: the most threads to use; they change nothing.

    Returns:
        For each (0, or why not: 1 there is no number, 2 everything is banned; the token; the greatest logit in the
        first case; -log of the probability that the mask leaves; what the budget took of it, or None; the token's log
        probability; the most likely tokens with theirs; log of the model's probability of the token, 0 without a mask;
        the model's most likely token if the mask forbids it, else -1).

    Raises:
        ValueError: an array is of another size than the vocabulary, or than its ids.
        IndexError: an id is not below the vocabulary's size.
    """

def block_instructions() -> str:
    """
    What multiplies blocks on this processor: avx512, avxvnni, avx2, neon or plain.
    """

class BlockMatrix:
    """A matrix that stays as ggml has quantised it, in tiles."""

    def __init__(self, columns: int) -> None:
        """Without rows."""

    def add(self, ggml_type: int, raw: int, rows: int, order: int | None, count: int, threads: int) -> None:
        """
        Put rows of a GGUF file below those that are there.

        Args:
            ggml_type: their format.
            raw: address of `rows` rows of blocks, as they lie in the file.
            order: address of the numbers of the rows to take, int64 (count,); None: the first ones.
            threads: the most threads to use.

        Raises:
            ValueError: the format is not known, or rows of this many columns are not made of its blocks.
            IndexError: there is no such row.
        """

    def multiply(self, half: bool, x: int, bias: int, out: int, rows: int, threads: int) -> None:
        """
        Write `x @ weights.T + bias` to `out`.

        Args:
            half: x, bias and out are bfloat16, otherwise float32.
            x: address of (rows, columns).
            bias: address of (weights,); 0: none.
            out: address of (rows, weights).
            threads: the most threads to use; they change no bit.
        """

    def values(self, rows: int, count: int, out: int) -> None:
        """
        Write rows to `out`, float32 (count, columns).

        Args:
            rows: address of their numbers, int64 (count,).
            out: address of the output.

        Raises:
            IndexError: there is no such row.
        """

    @property
    def bytes(self) -> int:
        """That a product reads."""

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
        Bind the sequences of a forward pass, whose new positions attend to all that came before.

        Args:
            heads: heads of the queries, a multiple of `kv_heads`.
            kv_heads: heads of keys and values.
            head_dim: numbers of a head.
            half: queries and output are bfloat16, otherwise float32.
            stored: bytes of a number of keys and values: 4 (float32), 2 (bfloat16) or 1 (int8, `pack`).
            rows: for each sequence (address of the keys of layer 0, address of its values, layers, numbers between two
                layers, slots of the cache, address of this sequence's slots as int64 or None if they follow one
                another, the first slot, positions, first new row of the queries, new positions).

        Raises:
            ValueError: the heads do not fit together; or the types do not.
            IndexError: a row names slots or positions that do not exist.
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
            layer: the number of the layer.
            q: address of (queries, heads, head_dim); rows are `q_stride` numbers apart.
            out: address of (queries, heads, head_dim).
            scale: what the products of queries and keys are multiplied by.
            softcap: c: scores become c * tanh(score / c); 0: they stay.
            window: the most positions that a query reads, itself included; None: all.
            threads: the most threads to use; they change no bit.

        Raises:
            IndexError: there is no such layer, or `queries` is not the number of new positions.
            ValueError: the window is empty.
        """
