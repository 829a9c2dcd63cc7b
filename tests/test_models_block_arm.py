"""The kernels for Arm under an emulator, with g++-aarch64-linux-gnu and qemu-user-static of Debian or Ubuntu."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.block_support import FORMATS

TESTS = Path(__file__).parent
NATIVE = TESTS.parent / "guided" / "kernels" / "native"
COMPILER = shutil.which("aarch64-linux-gnu-g++")
EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")


@pytest.mark.slow
@pytest.mark.skipif(not (COMPILER and EMULATOR), reason="no compiler or no emulator for Arm")
def test_dot_products_give_the_bits_of_the_plain_code(tmp_path):
    """All kernels compile without warnings. Cortex-A53 has no dot-product instructions, Neoverse N1 has them."""
    program = tmp_path / "checksums"
    kernels = [file for file in NATIVE.glob("*.cpp") if "nanobind" not in file.read_text(encoding="utf-8")]
    sources = [TESTS / "block_checksums.cpp", *kernels]
    flags = ["-std=c++20", "-O3", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-static", "-o", program]
    subprocess.run([str(COMPILER), *flags, *sources, "-ldl"], check=True, timeout=600)

    def checksums(processor: str, level: str) -> list[str]:
        environment = os.environ | {"GUIDED_CPU": level}
        command = [str(EMULATOR), "-cpu", processor, program]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=300)
        return done.stdout.splitlines()

    plain, old, new = checksums("neoverse-n1", "plain"), checksums("cortex-a53", ""), checksums("neoverse-n1", "")
    assert [lines.pop(0) for lines in (plain, old, new)] == ["plain", "plain", "neon"]
    assert len(new) == len(FORMATS)
    assert plain == old == new
