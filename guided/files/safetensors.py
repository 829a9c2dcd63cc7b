"""Reads tensors from safetensors files, one at a time on demand.

In: paths. Out: a `TensorFile` (models/loading/weights.py) over all of them. Weights are F32, F16 or BF16. Only
safetensors are read, since other files may run code. Only this module imports the package `safetensors`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from torch import Tensor

from guided.errors import GuidedError, ModelFileError, UnsupportedError
from guided.files.dequantise import Blocks

__all__ = ["SafetensorFiles"]

_DTYPES = ("F32", "F16", "BF16")


class SafetensorFiles:
    """The tensors of one or more files."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """Raises GuidedError if the package is missing, and ModelFileError if a file is missing or corrupt."""
        self._files: dict[str, Any] = {}  # tensor -> its file
        self._stack = ExitStack()
        try:
            for path in paths:
                self._add(path)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> SafetensorFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.clear()
        self._stack.close()

    def names(self) -> Collection[str]:
        """See `TensorFile`."""
        return self._files.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        """See `TensorFile`."""
        return tuple(self._files[name].get_slice(name).get_shape())

    def read(self, name: str) -> Tensor:
        """See `TensorFile`."""
        dtype = self._files[name].get_slice(name).get_dtype()
        if dtype not in _DTYPES:
            hint = f"convert them to one of {', '.join(_DTYPES)}"
            raise UnsupportedError(f"weights of type {dtype} are not supported", pointer=name, hint=hint)
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor.clone()  # the file is memory-mapped, and may change or vanish while the model is used

    def read_blocks(self, name: str) -> Blocks | None:
        """Returns None: these files are not quantised."""
        return None

    def forget(self, name: str) -> None:
        """Does nothing: `read` returns copies."""

    def _add(self, path: Path) -> None:
        try:
            from safetensors import SafetensorError, safe_open
        except ModuleNotFoundError:
            raise GuidedError(
                'models in directories need the package safetensors: pip install "guided-decoding[engine]"'
            ) from None
        if not path.is_file():
            raise ModelFileError(f"{path}: there is no such file (only safetensors are supported)")
        try:
            file = self._stack.enter_context(safe_open(path, framework="pt"))
        except (SafetensorError, OSError) as error:
            raise ModelFileError(f"{path}: not a safetensors file: {str(error)[:200]}") from None
        names: list[str] = file.keys()
        for name in names:
            if name in self._files:
                raise ModelFileError(f"{path}: the tensor {name!r} is in another file, too")
            self._files[name] = file
