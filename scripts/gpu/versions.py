"""The machine and the package versions of a measurement."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

import torch

__all__ = ["versions"]

_PACKAGES = ("torch", "triton", "numpy", "nanobind", "scikit-build-core", "flash-attn", "xgrammar", "transformers")


def versions() -> dict[str, str]:
    """The processor, the GPU and its driver, and the installed packages."""
    numbers = {"python": platform.python_version(), "machine": platform.machine()}
    for package in _PACKAGES:
        try:
            numbers[package] = version(package)
        except PackageNotFoundError:
            continue
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        if process.returncode == 0 and process.stdout.strip():
            numbers["card"], numbers["driver"], numbers["memory"] = process.stdout.splitlines()[0].split(", ")
    if torch.cuda.is_available():
        numbers["card"] = torch.cuda.get_device_name(0)  # the version in use, if there are several
    return numbers
