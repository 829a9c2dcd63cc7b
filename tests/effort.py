"""How many examples a slow property draws: few in `make test`, as many as others in `make test-all`."""

from __future__ import annotations

import os

from hypothesis import settings


def examples(count: int, many: int = 0) -> settings:
    """Settings with `count` examples; if GUIDED_EXAMPLES=n is set, with n or `many`, whichever is more."""
    asked = int(os.environ.get("GUIDED_EXAMPLES", "0"))
    return settings(max_examples=max(count, asked, many if asked else 0), deadline=None)
