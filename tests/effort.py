"""The number of examples and cases: few in `make test`, the usual number in `make test-all`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def draws(count: int, many: int = 0) -> int:
    """Two fifths of `count`. If GUIDED_EXAMPLES=n is set, the largest of `count`, n and `many`."""
    asked = int(os.environ.get("GUIDED_EXAMPLES", "0"))
    return max(count, asked, many) if asked else max(1, count * 2 // 5)


def examples(count: int, many: int = 0) -> settings:
    """Settings with `draws(count, many)` examples."""
    return settings(max_examples=draws(count, many), deadline=None)


def every(step: int, cases: Iterable[Any], *, unpack: bool = False) -> list[Any]:
    """For `parametrize`: every `step`-th case is run by default, and the others are marked as slow.

    Args:
        unpack: each case is a tuple of several arguments.
    """
    return [case if at % step == 0 else _slow(case, unpack) for at, case in enumerate(cases)]


def _slow(case: Any, unpack: bool) -> Any:
    if isinstance(case, type(pytest.param())):
        return case._replace(marks=[*case.marks, pytest.mark.slow])
    return pytest.param(*case, marks=pytest.mark.slow) if unpack else pytest.param(case, marks=pytest.mark.slow)
