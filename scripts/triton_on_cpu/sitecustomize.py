"""Runs Triton kernels on a CPU, with Triton's own interpreter, in each Python whose PYTHONPATH has this folder.

vLLM's V2 model runner consists of such kernels. On a CPU, vLLM assumes that Triton is missing unless Triton has a
backend "cpu", which only builds of triton-cpu have. This module adds a backend of that name, which compiles nothing.
"""

from __future__ import annotations

import os
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

from triton import backends
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle


class _Driver:
    @staticmethod
    def is_active() -> bool:
        return False


def _with_bool(call: Any, place: int) -> Any:
    """A load or store of the interpreter that accepts integer masks, as the compiler does; the interpreter needs
    bool.
    """

    def called(self: Any, *arguments: Any) -> Any:
        mask = TensorHandle(arguments[place].data.astype(bool), arguments[place].dtype)
        return call(self, *arguments[:place], mask, *arguments[place + 1 :])

    return called


backends.backends["cpu"] = backends.Backend(compiler=None, driver=_Driver)  # type: ignore[arg-type]
InterpreterBuilder.create_masked_load = _with_bool(InterpreterBuilder.create_masked_load, 1)
InterpreterBuilder.create_masked_store = _with_bool(InterpreterBuilder.create_masked_store, 2)
