"""Every target of the Makefile fails if one of its commands fails.

The Makefile and the scripts that it calls run in a copy of the project, with stand-ins for all programs. The stand-ins
count their calls, and one call, each in turn, fails. Commands whose failure is ignored are listed by name.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAM = """#!/bin/sh
# Answers probes; creates what a virtual environment, a build and a wheel consist of; fails when it is this one's turn.
case "$*" in
*find_spec*) echo "$PYTHONPATH/guided/__init__.py"; exit ;;
"-c "*) echo "$0"; exit ;;
-print-file-name=* | "-std=c++20 "*) exit ;;
esac
echo "$(basename "$0") $*" >>"$CALLS"
[ "$(wc -l <"$CALLS")" -eq "$FAILS_AT" ] && exit 3
for last; do :; done
case "$*" in
"-m venv "*)
    mkdir -p "$last/bin"
    for name in python ruff mypy lint-imports clang-format; do cp "$0" "$last/bin/$name"; done
    ;;
*"-m build --sdist"*) touch dist/guided_decoding-0.tar.gz ;;
*"-m pip wheel"*)
    while [ "$1" != -w ]; do shift; done
    mkdir -p "$2" && touch "$2/guided_decoding-0.whl"
    ;;
-S*) for kind in address thread; do mkdir -p "build/sanitize-$kind/cmake"; done ;;
-C*) for name in _core _kernels _lark; do touch "$2/$name.so"; done ;;
esac
exit 0
"""
FORGIVEN = {
    ".venv/clients": "frameworks of an environment of their own: their tests skip, and say so",
}
"""What the call of a command holds whose failure does not fail a target, and why."""
TARGETS = [
    name
    for name in re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    if name not in ("help", "clean")  # targets whose only command is sed or rm
]


class Copy:
    """A copy of the project's Makefile and scripts, in which all programs are stand-ins."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls = folder, folder / "calls"
        shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("Makefile", "pyproject.toml", "CMakeLists.txt"):
            shutil.copy(ROOT / name, folder / name)
        (folder / "guided" / "frontends" / "lark").mkdir(parents=True)
        for name in ("guided/automaton", "guided/kernels", "benchmarks", "grammars", "tests/smoke", "dist", "programs"):
            (folder / name).mkdir(parents=True)
        for name in ("python", "c++", "g++", "cmake", "ninja", "setarch"):
            program = folder / "programs" / name
            program.write_text(PROGRAM, encoding="utf-8")
            program.chmod(0o755)

    def make(self, target: str, fails_at: int) -> subprocess.CompletedProcess[str]:
        """Make a target from scratch. The command with this number fails."""
        for name in (".venv", ".venv-vllm", "build"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self.calls.write_text("")
        programs = self.folder / "programs"
        environment = {
            **{"PATH": f"{programs}:{os.environ['PATH']}", "CALLS": str(self.calls), "FAILS_AT": str(fails_at)},
            **{"PYTHON": str(programs / "python"), "CXX": str(programs / "c++"), "HOME": str(self.folder)},
        }
        return subprocess.run(
            ["make", "--no-print-directory", target],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip


def test_targets_fail_with_each_of_their_commands(tmp_path: Path) -> None:
    """Commands that several targets share, such as those of the set-up, fail once."""
    copy, failed = Copy(tmp_path), set[str]()
    for target in TARGETS:
        done = copy.make(target, 0)
        assert done.returncode == 0, done.stdout + done.stderr
        calls = copy.calls.read_text().splitlines()
        assert calls, target
        assert not [call for call in calls if " -m pip " in call and " -C" in call], "pip before 23.1 has no option -C"
        for at, call in enumerate(calls, 1):
            same = re.sub(r"/tmp\.\w+|=\d+$", "", call)  # without the folders and seeds of this run
            if same not in failed:
                done = copy.make(target, at)
                forgiven = any(part in call for part in FORGIVEN)
                assert (done.returncode == 0) == forgiven, f"{call}\n{done.stdout}{done.stderr}"
            failed.add(same)
    assert len(failed) > 40


def test_the_site_is_built_as_strictly_as_its_test_builds_it() -> None:
    """mkdocs counts only warnings that it would log: --quiet would hide them from --strict."""
    commands = re.findall(r"mkdocs build.*", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert commands == ["mkdocs build --strict"]


def test_targets_are_explained_and_phony() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    explained = set(re.findall(r"^#   make ([a-z-]+) ", text, re.MULTILINE))
    phony = set(text.split(".PHONY:")[1].split("\n")[0].split())
    assert len(TARGETS) > 10 and explained == {*TARGETS, "clean"} and phony == {*TARGETS, "clean", "help"}
