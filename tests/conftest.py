"""The common set-up of all tests: fixed seeds, one thread, and a profile of hypothesis.

By default, each property draws the same examples every time, on every machine. `GUIDED_EXAMPLES=n` draws n new examples
for each property without its own number (`make test-all` does so, and shows the seed). A failing example is printed as
`@reproduce_failure(...)`, kept in `.hypothesis`, and tried first the next time. Written as `@example(...)`, it becomes
a permanent case.
"""

from __future__ import annotations

import gc
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported, so that its kernels run on the CPU
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before PyTorch is imported, since the workers share the cores
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # so that the processes that tests start share compiled modules

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
settings.register_profile(
    "fixed",
    deadline=None,
    suppress_health_check=QUIET,
    max_examples=25,
    derandomize=True,
    database=None,
    print_blob=True,
)
settings.register_profile(
    "random",
    deadline=None,
    suppress_health_check=QUIET,
    max_examples=int(os.environ.get("GUIDED_EXAMPLES", "100")),
    derandomize=False,
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
    print_blob=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
settings.load_profile("random" if "GUIDED_EXAMPLES" in os.environ else "fixed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude imported modules and collected tests from garbage collections. They stay until the end, and scanning them
    again and again would take two fifths of the time of the collection.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """The same state of the global random generators for each test, independent of earlier tests."""
    random.seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After each module, exclude all living objects from garbage collections. With millions of objects, each collection
    takes seconds.
    """
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


_MISSING = re.compile(r"could not import '([\w.]+)|([\w.-]+) is not installed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line about skipped tests: how many were skipped for each missing requirement. `-rs` lists them with their
    reasons.
    """
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])]
    if not reasons or "s" in terminalreporter.reportchars:
        return
    wanted = Counter[str]()
    for reason in reasons:
        found = _MISSING.search(reason)
        wanted[(found[1] or found[2]).split(".")[0] if found else "other reasons"] += 1
    others = wanted.pop("other reasons", 0)
    parts = [f"{count} without {name}" for name, count in wanted.most_common()]
    parts += [f"{others} for other reasons"] * bool(others)
    terminalreporter.write_line(f"skipped (-rs lists them): {', '.join(parts)}")
