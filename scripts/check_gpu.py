"""Checks guided on a GPU: `make gpu`, or this script if torch, pytest and hypothesis are installed.

    python scripts/check_gpu.py [--part NAME]... [--out FOLDER] [--write] [--dry]

Each part (scripts/gpu/) runs in its own process with a time limit. If a part fails or is stopped, the others still run.
Each part writes its results to FOLDER/NAME.json while it runs: checks, which pass or fail, and figures. At the end, the
script prints a table and writes summary.json. `--write` puts the figures into docs/inside/gpu.md. `--dry` runs
everything on a CPU with small sizes, to test the script itself.

Exit code: 0 if all checks hold, 1 if one fails, 2 if there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)] if str(ROOT) not in sys.path else []

from scripts.gpu.report import Report, Setting  # noqa: E402 - the folder of the project must be on the path
from scripts.gpu.versions import versions  # noqa: E402

LIMITS = {"build": 480, "kernels": 240, "models": 240, "throughput": 360, "extras": 150}
"""The parts in their order, and the seconds that each may take."""
NO_GPU = "There is no GPU that torch can use: torch.cuda.is_available() is false. --dry tries this script on the CPU."


def main(arguments: list[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="check_gpu.py", description="Check and measure guided on a GPU.")
    parser.add_argument("--part", action="append", choices=LIMITS, help="run only this part; may be repeated")
    parser.add_argument(
        "--out", default=os.environ.get("OUT") or str(ROOT / "build" / "gpu"), help="the folder for the JSON files"
    )
    parser.add_argument("--write", action="store_true", help="write the figures to docs/inside/gpu.md")
    parser.add_argument("--dry", action="store_true", help="run on the CPU, with small sizes")
    parser.add_argument("--child", choices=LIMITS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    out = Path(options.out)
    if options.child:
        return run_part(options.child, out, dry=options.dry)
    if not options.dry and not has_gpu():
        print(NO_GPU, file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    for part in options.part or LIMITS:
        start_part(part, out, dry=options.dry)
    results = {part: json.loads((out / f"{part}.json").read_text("utf-8")) for part in options.part or LIMITS}
    summary = {"versions": versions(), "dry": options.dry, "parts": results}
    (out / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    print(table(results), flush=True)
    if options.write:
        from scripts.gpu.page import write_page

        print(f"written: {write_page(out, ROOT / 'docs' / 'inside' / 'gpu.md')}")
    return int(any(state(part) != "ok" for part in results.values()))


def has_gpu() -> bool:
    """Whether torch can use a GPU."""
    import torch

    return bool(torch.cuda.is_available())


def start_part(part: str, out: Path, *, dry: bool) -> None:
    """Run a part in its own process, and record a failure if it does not end by itself."""
    path, limit, begin = out / f"{part}.json", LIMITS[part], perf_counter()
    path.unlink(missing_ok=True)
    command = [sys.executable, "-u", str(Path(__file__).resolve()), "--child", part, "--out", str(out)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    if dry:
        command.append("--dry")
        environment |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    print(f"== {part} (at most {limit} s)", flush=True)
    process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    why = ""
    try:
        code = process.wait(limit)
        why = f"the process has ended with {code}" if code not in (0, 1) else ""
    except BaseException as error:  # also on Ctrl-C, since the process has its own session and would continue
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        why = f"stopped after {limit} s"
    if why or not path.exists():
        left: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"checks": [], "figures": []}
        left |= {"error": why or "nothing was written", "seconds": perf_counter() - begin}
        path.write_text(json.dumps(left), encoding="utf-8")


def run_part(part: str, out: Path, *, dry: bool) -> int:
    """Run a part in this process."""
    setting = Setting.of(dry=dry, seconds=LIMITS[part])
    with Report(part, out) as report:
        import_module(f"scripts.gpu.{part}").run(setting, report)
    return int(report.failed)


def state(part: dict[str, Any]) -> str:
    """How a part ended, in a few words."""
    if part.get("error"):
        return str(part["error"]).splitlines()[-1][:80]
    failed = sum(not check["holds"] for check in part["checks"])
    return f"{failed} failed" if failed else "ok"


def table(results: dict[str, dict[str, Any]]) -> str:
    """A table of the parts, and the failed checks."""
    lines = ["", f"{'part':<12}{'seconds':>9}{'checks':>8}{'figures':>9}  state"]
    for name, part in results.items():
        numbers = f"{part.get('seconds', 0):>9.1f}{len(part['checks']):>8}{len(part['figures']):>9}"
        lines.append(f"{name:<12}{numbers}  {state(part)}")
    for name, part in results.items():
        lines += [f"FAILED {name}: {c['name']}: {c['said']}" for c in part["checks"] if not c["holds"]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
