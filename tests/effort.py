"""How many examples a slow property draws: few in `make test`, as many as others in `make test-all`."""

from __future__ import annotations

import os

from hypothesis import settings


def examples(count: int) -> settings:
    """So many examples; GUIDED_EXAMPLES=n in the environment asks for n at least."""
    return settings(max_examples=max(count, int(os.environ.get("GUIDED_EXAMPLES", "0"))), deadline=None)
