"""Prints the packages of an extra from pyproject.toml, one a line, to install them without building the project again.

python scripts/requirements.py test      an extra
python scripts/requirements.py build     what a build without isolation imports
python scripts/requirements.py backend   what such a build also needs: CMake and Ninja, if they are not installed
"""

from __future__ import annotations

import sys
import tomllib
from importlib import import_module
from pathlib import Path

PROJECT_FILE = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))


def packages(name: str) -> list[str]:
    """The requirements of an extra, of the build, or of the build backend."""
    if name == "build":
        return PROJECT_FILE["build-system"]["requires"]
    if name == "backend":
        return import_module(PROJECT_FILE["build-system"]["build-backend"]).get_requires_for_build_editable()
    return PROJECT_FILE["project"]["optional-dependencies"][name]


print(*packages(sys.argv[1]), sep="\n")
