"""The version of the installed xgrammar, for tests of what a version added."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["XGRAMMAR"]


def _find_version() -> tuple[int, ...]:
    try:
        return tuple(map(int, version("xgrammar").split(".")[:3]))
    except PackageNotFoundError:
        return ()


XGRAMMAR = _find_version()
"""The numbers of the version; () if xgrammar is not installed."""
