"""Writes the stubs of the native modules, _*.pyi, from the signatures and docstrings of the built modules.

    python scripts/stubs.py [--check]

In: the built modules. Out: the files. With --check, nothing is written, and the exit code is 1 if a file is out of
date.
"""

import importlib
import subprocess
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

ROOT = Path(__file__).resolve().parent.parent
MODULES = "guided.automaton._core", "guided.kernels._kernels", "guided.frontends.lark._lark"


def path_of(module: str) -> Path:
    """The stub file of a module."""
    return ROOT / f"{module.replace('.', '/')}.pyi"


def stub(module: str) -> str:
    """The stub of a module, formatted like the rest of the project."""
    native = importlib.import_module(module)
    generator = StubGen(native, include_private=True, quiet=True)
    generator.put(native)
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(path_of(module)), "-"]
    return subprocess.run(command, input=generator.get(), capture_output=True, text=True, check=True).stdout


def main(arguments: list[str]) -> int:
    """Write the files, or compare them."""
    different = []
    for module in MODULES:
        text, path = stub(module), path_of(module)
        if not path.exists() or path.read_text("utf-8") != text:
            different.append(path)
            if "--check" not in arguments:
                path.write_text(text, "utf-8")
    for path in different:
        print(f"{path.relative_to(ROOT)} {'differs: run make stubs' if '--check' in arguments else 'was written'}")
    return int(bool(different) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
