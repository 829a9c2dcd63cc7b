"""The number of examples for slow properties: few in `make test`, the usual number in `make test-all`."""

from __future__ import annotations

import os

from hypothesis import settings


def examples(count: int, many: int = 0) -> settings:
    """Settings with `count` examples. If GUIDED_EXAMPLES=n is set, with the larger of n and `many`."""
    asked = int(os.environ.get("GUIDED_EXAMPLES", "0"))
    return settings(max_examples=max(count, asked, many if asked else 0), deadline=None)
