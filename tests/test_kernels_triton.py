"""Each Triton kernel compiles for each generation of GPUs. Without a device, it is not run."""

from __future__ import annotations

import pytest

from tests.triton_support import CAPABILITIES, KERNELS, compile_kernels


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_each_kernel_compiles_for_cuda(capability, request) -> None:
    """Later runs find unchanged kernels in Triton's cache."""
    made = compile_kernels(capability, request.config.cache.mkdir("triton"))
    assert [one["kernel"] for one in made] == list(KERNELS)
    for one in made:
        assert one["bytes"] > 1000 and one["stores"] and not one["spills"], one
