"""The command line with standard streams that are closed or cannot be written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")  # every write to it fails, as on a full disk


def run(arguments: str, redirections: str) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} -m guided {arguments} {redirections}"
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "arguments",
    [
        "sample --regex a{5} --n 3", "check --regex a", "check --regex a --json", "check --regex '(' --json",
        "explain --regex ab --prefix a --json", "--help", "check --help", "--version",
    ],
)  # fmt: skip
def test_output_that_cannot_be_written_is_reported(arguments: str) -> None:
    done = run(arguments, f"> {FULL}")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    if "'('" in arguments:  # the command's own error, which could not be written as JSON
        assert "SpecError" in done.stderr
    else:
        assert done.stderr.endswith(": No space left on device\n") and done.stderr.count("\n") == 1


def test_closed_streams() -> None:
    done = run("sample --regex a", ">&-")
    assert (done.returncode, done.stderr) == (2, "guided: standard output is closed\n")
    done = run("sample --regex a", "2>&-")
    assert (done.returncode, done.stdout) == (0, "a\n")
    done = run("check --regex '(' --json", "2>&-")
    assert done.returncode == 2 and json.loads(done.stdout)["error"]["type"] == "SpecError"
    done = run("check --regex a --instance -", "<&-")
    assert done.returncode == 2 and "standard input is closed" in done.stderr
