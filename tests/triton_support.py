"""Triton's kernels without a device: its interpreter runs them on a CPU (tests/conftest.py selects it), and its
compiler produces machine code in a separate process.

`python tests/triton_support.py CAPABILITY` compiles all kernels, and prints a line of JSON for each.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

REASON = "Triton is not installed; its interpreter runs the kernels on a CPU"
CAPABILITIES = 90, *(pytest.param(each, marks=pytest.mark.slow) for each in (80, 100))
_CHOICE = {
    "logits": "*fp32", "stride": "i64", "masks": "*i32", "rows": "*i32", "allowed": "*i32", "specified": "*i32",
    "ramped": "*i32", "ramps": "*fp32", "scales": "*fp32", "permitted": "*i32", "slots": "*i32", "work": "*fp32",
    "work_stride": "i32", "stats": "*fp32", "bests": "*i32", "tops": "*fp32", "width": "i32", "size": "i32",
    "words": "i32", "blocks": "i32", "chunks": "i32", "block": 2048, "stat_count": 12, "chunk": 64, "changes": True,
    "padded": 128, "columns": 11, "preferences": "*i32", "uniform": "*fp64", "raw": "*i32", "out": "*fp64",
    "min_ps": "*fp32",
    "top_ks": "*i32", "top_ps": "*fp64", "changed": "*i32", "min_p_rows": "*i32", "sorts": "*i32", "chunk_list": "*i32",
    "buffer": "*i64", "look": "i32", "capacity": "i32", "max_chunks": 4096, "sort_size": 512, "banned": "*i32",
    "banned_starts": "*i32", "ends": "*i32", "end_starts": "*i32", "biased": "*i32", "biases": "*fp32",
    "bias_starts": "*i32", "seen": "*i32", "counts": "*fp32", "seen_starts": "*i32", "repetitions": "*fp32",
    "presences": "*fp32", "frequencies": "*fp32",
}  # fmt: skip
"""The arguments of all kernels for choices, which have the same names in all of them."""
KERNELS: dict[str, dict[str, Any]] = {
    "guided.kernels.store_kv_triton:store_kvcache_kernel": {
        "k": "*bf16", "k_stride": "i32", "v": "*bf16", "v_stride": "i32", "k_cache": "*bf16", "v_cache": "*bf16",
        "slots": "*i64", "size": 192, "padded": 256,
    },
    "guided.logits.apply_triton:mask_kernel": {
        "logits": "*bf16", "stride": "i64", "masks": "*i32", "mask_stride": "i64", "rows": "*i32", "width": "i32",
        "words": "i32", "has_rows": True, "block": 4096,
    },
    "guided.kernels.choose_triton:scan_kernel": _CHOICE,
    "guided.kernels.choose_triton:pick_kernel": _CHOICE,
    "guided.kernels.penalties_triton:penalties_kernel": _CHOICE,
    "guided.kernels.penalties_triton:rescan_kernel": _CHOICE,
    "guided.kernels.truncation_triton:min_p_kernel": _CHOICE,
    "guided.kernels.truncation_triton:top_p_kernel": _CHOICE,
}  # fmt: skip


def import_kernels(name: str):
    """A module of kernels that the interpreter runs. Skips the test without Triton."""
    pytest.importorskip("triton", reason=REASON)
    assert os.environ["TRITON_INTERPRET"] == "1"
    _accelerate_interpreter()
    return importlib.import_module(name)


@cache
def _accelerate_interpreter() -> None:
    """Let numpy compute xor sums, on which sorting depends, and patch Triton's language once instead of in each call.

    The interpreter itself combines the elements of such sums one by one. Other versions of it may lack these names.
    """
    from triton import language
    from triton.runtime import interpreter

    reduce, patch = interpreter.ReduceOps.generic_reduce, interpreter._patch_lang

    def reduce_with_numpy(self: Any, values: Any) -> Any:
        if self.combine_fn is not language.standard._xor_combine or self.axis is None:
            return reduce(self, values)
        data = np.bitwise_xor.reduce(values[0].handle.data, axis=self.axis, keepdims=self.keep_dims)
        return [self.to_tensor(data, values[0].dtype)]

    def patch_once(function: Any) -> Any:
        used = [each for each in (language, language.core) if each in function.__globals__.values()]
        is_patched = used and not any(language.core.is_builtin(each.load) for each in used)
        return interpreter._LangPatchScope() if is_patched else patch(function)

    interpreter.ReduceOps.generic_reduce, interpreter._patch_lang = reduce_with_numpy, patch_once


def compile_kernels(capability: int, cache: Path) -> list[dict[str, Any]]:
    """The compiler's results for all kernels, for GPUs of a compute capability such as 90."""
    pytest.importorskip("triton", reason=REASON)
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "tests.triton_support", str(capability)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _compile(name: str, arguments: dict[str, Any], capability: int) -> dict[str, Any]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module, function = name.split(":")
    kernel = getattr(importlib.import_module(module), function)
    signature = {key: arguments[key] if isinstance(arguments[key], str) else "constexpr" for key in kernel.arg_names}
    constants = {key: arguments[key] for key in kernel.arg_names if not isinstance(arguments[key], str)}
    made = triton.compile(ASTSource(kernel, signature, constants), target=GPUTarget("cuda", capability, 32))
    spilled = ".local" in made.asm["ptx"]
    return {
        "kernel": name,
        "bytes": len(made.asm["cubin"]),
        "stores": "st.global" in made.asm["ptx"],
        "spills": spilled,
    }


if __name__ == "__main__":
    for name, arguments in KERNELS.items():
        print(json.dumps(_compile(name, arguments, int(sys.argv[1]))))
