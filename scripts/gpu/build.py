"""Part `build`: builds the C++ core with the installed tools, without a network, and imports guided.

It uses pip if the build backend is installed. Otherwise it uses CMake, and copies the modules to their folders.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.gpu.report import Report, Setting
from scripts.gpu.versions import versions

__all__ = ["run"]

ROOT = Path(__file__).resolve().parents[2]
MODULES = {"_core": "guided/automaton", "_kernels": "guided/kernels", "_lark": "guided/frontends/lark"}
_IMPORTS = "import guided.automaton._core, guided.kernels._kernels, guided.frontends.lark._lark, guided"
_TRY = """
import guided
vocabulary = guided.Vocabulary([b"a", b"b"], eos_token_ids=[2])
matcher = guided.GrammarMatcher(guided.GrammarCompiler(vocabulary).compile_regex("ab*"))
row = guided.allocate_token_bitmask(1, vocabulary.size)
matcher.fill_next_token_bitmask(row)
assert guided.allowed_tokens(row) == [0], guided.allowed_tokens(row)
"""


def run(setting: Setting, report: Report) -> None:
    """See the module."""
    for name, value in versions().items():
        report.note(f"{name}: {value}")
    ways = build_commands(ROOT / "build" / "gpu-core")
    report.note(f"ways to build: {', '.join(ways) or 'none'}")
    if not setting.dry and not _succeeds([sys.executable, "-c", _IMPORTS]):
        for way, commands in ways.items():
            built = all(_succeeds(command, shown=True) for command in commands)
            if built and way == "CMake":
                copy_modules(ROOT / "build" / "gpu-core")
            if built and _succeeds([sys.executable, "-c", _IMPORTS]):
                report.note(f"built by {way}")
                break
            report.note(f"{way} did not build it")
    with report.checking("guided is imported, and its core fills a mask"):
        subprocess.run([sys.executable, "-c", _IMPORTS + _TRY], cwd=ROOT, check=True)
    with report.checking("torch computes on the device"):
        import torch

        x = torch.ones(64, 64, device=setting.device, dtype=torch.bfloat16)
        assert float((x @ x).sum()) == 64.0**3


def build_commands(folder: Path) -> dict[str, list[list[str]]]:
    """The ways to build the core, best first, with their commands."""
    has_backend = all(importlib.util.find_spec(name) is not None for name in ("scikit_build_core", "nanobind", "pip"))
    ways = dict[str, list[list[str]]]()
    if has_backend and shutil.which("cmake"):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        ways["pip"] = [[*pip, "install", "--no-index", "--no-build-isolation", "--no-deps", "-e", "."]]
    if importlib.util.find_spec("nanobind") is not None and shutil.which("cmake"):
        ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_UNITY_BUILD=ON", f"-DPython_EXECUTABLE={sys.executable}"]
        ways["CMake"] = [
            ["cmake", "-S", ".", "-B", str(folder), *ninja, *options],
            ["cmake", "--build", str(folder), "--parallel"],
        ]
    return ways


def copy_modules(folder: Path) -> None:
    """Copy the modules that CMake built to where Python looks for them."""
    for module, target in MODULES.items():
        for built in folder.glob(f"{module}*.so"):
            shutil.copy(built, ROOT / target)


def _succeeds(command: list[str], *, shown: bool = False) -> bool:
    process = subprocess.run(command, cwd=ROOT, check=False, capture_output=not shown)
    return process.returncode == 0
