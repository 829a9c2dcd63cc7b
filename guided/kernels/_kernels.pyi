"""
Kernels for rows on a CPU: they take addresses and sizes, and check neither.

The caller (guided/kernels/__init__.py, guided/attention/slots.py) checks shapes and types and keeps the memory alive.
`half`: numbers are bfloat16, otherwise float32. Rows are contiguous unless a stride is given; strides are counted in
numbers. All functions run without the GIL.
"""

from collections.abc import Sequence

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

def apply_bitmask(logits: int, size: int, bits: int, words: int) -> tuple[float, float]:
    """
    Set the logits whose bit is not set to minus infinity, in place.

    Args:
        logits: address of float32 (size,).
        bits: address of a bitmask row, int32 (words,). Logits past its end have no bit.

    Returns:
        The log of the sum of exponentials of all logits, and of those that are left.
    """

def block_instructions() -> str:
    """
    What multiplies blocks on this processor: avx512, avxvnni, avx2 or plain.
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
