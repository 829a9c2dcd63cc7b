"""Hypothesis profiles: the default is quick and always the same; GUIDED_EXAMPLES=n draws n fresh examples of each."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
settings.register_profile("default", deadline=None, suppress_health_check=QUIET, max_examples=100)
settings.register_profile(
    "long",
    deadline=None,
    suppress_health_check=QUIET,
    max_examples=int(os.environ.get("GUIDED_EXAMPLES", "100")),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
settings.load_profile("long" if "GUIDED_EXAMPLES" in os.environ else "default")
