"""The code blocks of a document, and how they are run as a reader would run them.

In: a Markdown file. Out: its blocks and, after running them, why a block did not do what the document says.

The blocks of a page run in order, in an empty folder, as one session. Names that Python code defines remain. A block
with a `title` is written to a file of that name. `guided ...` in a shell block is the command line of this source tree.
A `text` block directly after another block is its output; `...` in it matches any text. A comment before a block tells
the tests what a reader cannot see:

    <!-- snippet: needs model -->                       the weights of SmolLM2, or a module, such as `needs pydantic`
    <!-- snippet: exit 1 -->                            the exit code of the last command
    <!-- snippet: not run, it installs packages -->     and why
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path

from guided.files.hub import cached_model
from guided.files.known_models import MODELS

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_RUN = ("python", "sh")
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_COMMENT = re.compile(r"<!-- snippet: (?P<said>.*?) -->\s*\Z")


@dataclass(frozen=True, slots=True)
class Block:
    """A code block of a page.

    Attributes:
        page: the file, relative to the repository. line: its first line of code.
        language: "python", "sh", "json", "text", ... or empty.
        code: the text, without the indentation of the block.
        title: the name of the file that it becomes, if it has one.
        needs: required modules, or "model".
        exit: the exit code of shell commands.
        not_run: why it is not run; empty: it is run.
        output: its output; None: the page does not show it.
    """

    page: str
    line: int
    language: str
    code: str
    title: str = ""
    needs: tuple[str, ...] = ()
    exit: int = 0
    not_run: str = ""
    output: str | None = None

    @property
    def runs(self) -> bool:
        return self.language in _RUN and not self.not_run


def blocks_of(path: Path) -> list[Block]:
    """All code blocks of a page. Outputs are attached to the blocks that print them."""
    text = path.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        code = textwrap.dedent(match["code"])
        between, end = text[end : match.start()], match.end()
        if match["language"] == "text" and found and found[-1].language in _RUN and not between.strip():
            found[-1] = Block(**asdict(found[-1]) | {"output": code})
            continue
        title = re.search(r'title="([^"]+)"', match["info"])
        said = _COMMENT.search(between)
        marks = _marks(said["said"]) if said else {}
        page = str(path.relative_to(ROOT))
        found.append(Block(page, line, match["language"], code, title[1] if title else "", **marks))
    return found


def _marks(said: str) -> dict[str, object]:
    if said.startswith("not run, "):
        return {"not_run": said.removeprefix("not run, ")}
    marks: dict[str, object] = {}
    for part in said.split(", "):
        word, _, value = part.partition(" ")
        if word == "needs":
            marks["needs"] = (*marks.get("needs", ()), value)
        elif word == "exit":
            marks["exit"] = int(value)
        else:
            raise ValueError(f"a comment before a code block says {said!r}")
    return marks


def missing(needs: str) -> str:
    """Why a requirement is missing; "" if it is present."""
    name = "smollm2-135m-instruct" if needs == "model" else needs
    if name in MODELS:
        return "" if cached_model(name) else f"{name} is not in the cache: `guided models --fetch {name}` fetches it"
    return "" if importlib.util.find_spec(needs) else f"{needs} is not installed"


# One process runs all blocks of a page, so that names persist. It prints a JSON line for each block.
_SESSION = """
import contextlib, io, json, subprocess, sys, traceback
names = {"__name__": "__main__"}
def of_python(block):
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(block["code"], f"{block['page']}:{block['line']}", "exec"), names)
    except BaseException:
        return printed.getvalue(), traceback.format_exc()
    return printed.getvalue(), ""
def of_shell(block):
    done = subprocess.run(["sh", "-e", "-c", block["code"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    wrong = done.returncode != block["exit"]
    return done.stdout, f"exit code {done.returncode}" if wrong else ""
for block in json.loads(sys.argv[1]):
    if block["title"]:
        with open(block["title"], "w", encoding="utf-8") as file:
            file.write(block["code"])
    if block["language"] in ("python", "sh"):
        printed, error = of_python(block) if block["language"] == "python" else of_shell(block)
        print(json.dumps({"line": block["line"], "printed": printed, "error": error}), flush=True)
"""


def run_page(blocks: list[Block], folder: Path) -> list[str]:
    """Run the blocks of a page in a folder. Return a message for each difference from the page."""
    commands = folder / "bin"
    commands.mkdir()
    (commands / "guided").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m guided "$@"\n')
    (commands / "guided").chmod(0o755)
    (work := folder / "work").mkdir()
    environment = os.environ | {
        "PATH": f"{commands}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "120",
        "MPLBACKEND": "agg",
    }
    given = json.dumps([asdict(block) for block in blocks])
    command = [sys.executable, "-c", _SESSION, given]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False, timeout=600)
    told = {report["line"]: report for report in map(json.loads, done.stdout.splitlines())}
    wrong = []
    for block in blocks:
        if block.language not in _RUN:
            continue
        where, report = f"{block.page}:{block.line}", told.get(block.line)
        if report is None:
            wrong.append(f"{where}: the session ended before this block\n{done.stderr}")
        elif report["error"]:
            wrong.append(f"{where}: {report['printed']}{report['error']}")
        elif block.output is not None and not is_output(block.output, report["printed"]):
            wrong.append(f"{where}: it printed\n{report['printed']}and not\n{block.output}")
    return wrong


def is_output(shown: str, printed: str) -> bool:
    """Whether a page shows the printed text: `...` stands for any text, and trailing blanks are ignored."""
    lines = [re.escape(line.rstrip()).replace(re.escape("..."), ".*") for line in shown.strip().splitlines()]
    plain = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    return re.fullmatch(r"\n".join(lines), plain, re.DOTALL) is not None
