from collections.abc import Sequence

class Batch:
    """Sequences of a forward pass: for each the addresses of keys and values of layer 0, elements between layers, the
    address of its slots (None: they follow one another), the first slot, positions, first new row, new positions."""

    def __init__(
        self,
        heads: int,
        kv_heads: int,
        head_dim: int,
        half: bool,
        rows: Sequence[tuple[int, int, int, int | None, int, int, int, int]],
    ) -> None: ...
    def run(self, layer: int, q: int, q_stride: int, out: int) -> None: ...

def rms_norm(half: bool, x: int, weight: int, out: int, rows: int, size: int, eps: float) -> None: ...
def swiglu(half: bool, x: int, out: int, rows: int, size: int) -> None: ...
def rotate(half: bool, x: int, stride: int, cos: int, sin: int, rows: int, heads: int, size: int) -> None: ...
def lay_mask(logits: int, size: int, bits: int, words: int) -> tuple[float, float]: ...
