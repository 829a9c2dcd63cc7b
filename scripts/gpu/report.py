"""The device of a part, and its report.

`Setting`: the device, or the CPU in a dry run. `Report`: checks and figures. They are printed and saved at once, so a
part that is stopped leaves its results.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    import torch

__all__ = ["Report", "Setting"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class Setting:
    """See the module.

    Attributes:
        dry: the CPU replaces the device, and sizes are small.
        deadline: a time of perf_counter. Measurements that have not begun by then are skipped.
    """

    dry: bool
    deadline: float

    @classmethod
    def of(cls, *, dry: bool, seconds: float) -> Setting:
        """The setting of a part that may take this many seconds. A tenth of them is reserved for its end."""
        return cls(dry, perf_counter() + 0.9 * seconds)

    @property
    def device(self) -> torch.device:
        """The device of tensors."""
        import torch

        return torch.device("cpu") if self.dry else torch.device("cuda", 0)

    @property
    def is_over(self) -> bool:
        """Whether no further measurement should begin."""
        return perf_counter() > self.deadline

    def pick(self, real: _T, dry: _T) -> _T:
        """The size for the device, or the size for a dry run."""
        return dry if self.dry else real

    def wait(self) -> None:
        """Wait until the device has completed everything."""
        import torch

        if not self.dry:
            torch.cuda.synchronize()


@dataclass
class Report:
    """The checks and figures of a part. As a context manager, it records an error that ends the part."""

    part: str
    out: Path
    checks: list[dict[str, Any]] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: str = ""

    def __post_init__(self) -> None:
        self._begin = perf_counter()

    def __enter__(self) -> Self:
        self.out.mkdir(parents=True, exist_ok=True)
        self.save()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self.error = "".join(traceback.format_exception(error))
            print(self.error, flush=True)
        self.save()
        return isinstance(error, Exception)

    @property
    def failed(self) -> bool:
        """Whether a check or the part has failed."""
        return bool(self.error) or any(not check["holds"] for check in self.checks)

    def check(self, name: str, holds: bool, detail: str = "") -> None:
        """Record whether a condition holds."""
        self.checks.append({"name": name, "holds": bool(holds), "said": detail})
        self._print(f"{'ok    ' if holds else 'FAILED'} {name}{': ' if detail else ''}{detail}")

    @contextmanager
    def checking(self, name: str) -> Iterator[Callable[[str], None]]:
        """A check that passes unless its block raises an error. The block gets a list for its notes."""
        details = list[str]()
        try:
            yield details.append
        except Exception as error:
            trace = traceback.extract_tb(error.__traceback__)
            where = "; ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in trace[-3:])
            self.check(name, False, f"{type(error).__name__}: {str(error).strip()[:600]} ({where})")
        else:
            self.check(name, True, "; ".join(details))

    def figure(self, table: str, row: str, column: str, value: float, unit: str) -> None:
        """Record a number for a table."""
        self.figures.append({"table": table, "row": row, "column": column, "value": value, "unit": unit})
        self._print(f"       {table}: {row}: {column}: {value:,.4g} {unit}")

    def note(self, text: str) -> None:
        """Record a sentence."""
        self.notes.append(text)
        self._print(f"       {text}")

    def save(self) -> None:
        """Write everything."""
        content = {
            "part": self.part, "seconds": perf_counter() - self._begin, "checks": self.checks, "figures": self.figures,
            "notes": self.notes, "error": self.error,
        }  # fmt: skip
        path = self.out / f"{self.part}.json"
        part = path.with_suffix(".tmp")
        part.write_text(json.dumps(content, indent=1), encoding="utf-8")
        part.replace(path)  # the file stays complete if this process is killed meanwhile

    def _print(self, line: str) -> None:
        print(f"{perf_counter() - self._begin:7.1f} {line}", flush=True)
        self.save()
