"""Runs other projects' clients against the server: `make test-clients`, or this script if the extra `test` is
installed.

    python scripts/clients.py [--folder FOLDER] [--write] [NAME]...

In: the recipes, examples/clients_NAME.py and .mjs. The head of each recipe says what to install. Each recipe has its
own environment in FOLDER, since the clients need versions of packages that conflict. Delete FOLDER to install newer
versions. All recipes use one server, whose small model has random weights, so they check only the form of the answers.

Out: a table of what each recipe showed. Each entry is the word before the colon of a printed line. `--write` puts the
table into docs/guides/clients.md. The output of installations and recipes is in FOLDER/NAME.log.

Exit code: 1 if a recipe failed, else 0. A client that cannot be installed has a row that says so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)] if str(ROOT) not in sys.path else []

PAGE = ROOT / "docs" / "guides" / "clients.md"
FOLDER = ROOT / ".venv" / "test-clients"
BEGIN, END = "<!-- begin: scripts/clients.py --write -->\n", "<!-- end -->\n"
COLUMNS = {"object": "structured output", "calls": "tools", "stream": "streams"}
"""The word that a recipe prints, and what it has shown."""
MODEL = "smollm2-135m-instruct"
CONTEXT = 16_000  # one token for each byte, and some frameworks write long prompts
INSTALLATION, RUN = 1200, 300  # seconds
QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false", "HAYSTACK_TELEMETRY_ENABLED": "False",
    "OPENAI_AGENTS_DISABLE_TRACING": "1", "AGNO_TELEMETRY": "false", "AI_SDK_LOG_WARNINGS": "false",
    "PYTHONIOENCODING": "utf-8", "NO_PROXY": "*",
}  # fmt: skip
"""Nothing is fetched or reported by a client."""
HEAD = re.compile(
    r"(?:\"\"\"|// )(?P<client>.+?) against `guided serve`.*?^(?:// )?(?P<tool>pip|npm) install (?P<packages>.+?);",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe, with the information in its head: the client's name, its installer (pip or npm), and its packages."""

    path: Path
    client: str
    tool: str
    packages: tuple[str, ...]

    @property
    def name(self) -> str:
        """The part of the file name that identifies the recipe."""
        return self.path.stem.removeprefix("clients_")

    @property
    def names(self) -> list[str]:
        """The packages without their extras and versions."""
        return [re.match(r"@?[^\[@<>=~ ]+", package)[0] for package in self.packages]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a recipe: versions of its packages, words that it printed, seconds, and the problem, if any."""

    recipe: Recipe
    versions: str = ""
    words: tuple[str, ...] = ()
    seconds: float = 0.0
    missing: str = ""
    failure: str = ""


class InstallationError(Exception):
    """An environment could not be created. `output`: what the installation printed."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def main(arguments: list[str] | None = None) -> int:
    """See the module."""
    every = recipes()
    parser = argparse.ArgumentParser(prog="clients.py", description="Run other projects' clients against the server.")
    parser.add_argument("name", nargs="*", metavar="NAME", help=f"run these only, of {', '.join(every)}")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the folder for the environments")
    parser.add_argument("--write", action="store_true", help=f"write the table to {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    if options.write and options.name:
        parser.error("--write takes no names: the table has all clients")
    if unknown := [name for name in options.name if name not in every]:
        parser.error(f"no recipe is named {unknown[0]}")
    options.folder.mkdir(parents=True, exist_ok=True)
    outcomes = []
    with served_model() as address:
        for name in options.name or every:
            print(f"== {every[name].client} ...", end="", file=sys.stderr, flush=True)
            outcomes.append(run_recipe(every[name], options.folder.resolve(), address))
            print(f" {state(outcomes[-1])}", file=sys.stderr, flush=True)
    print(table(outcomes), end="", flush=True)
    for outcome in outcomes:
        if outcome.failure or outcome.missing:
            print(f"what {outcome.recipe.name} said: {options.folder / outcome.recipe.name}.log", file=sys.stderr)
    if options.write:
        write_page(table(outcomes))
    return int(any(outcome.failure for outcome in outcomes))


def recipes(folder: Path = ROOT / "examples") -> dict[str, Recipe]:
    """All recipes, by name."""
    recipes_by_name = {}
    for path in sorted([*folder.glob("clients_*.py"), *folder.glob("clients_*.mjs")]):
        if path.stem != "clients_types":
            head = HEAD.match(path.read_text("utf-8"))
            if head is None:
                raise ValueError(f"{path.name} does not begin with the client's name and what to install")
            recipe = Recipe(path, head["client"], head["tool"], tuple(shlex.split(head["packages"])))
            recipes_by_name[recipe.name] = recipe
    return recipes_by_name


@contextmanager
def served_model() -> Iterator[str]:
    """Run a server with the small model of the tests, and yield its address."""
    from tests.live_server import listening
    from tests.server_support import small_engine

    with listening(small_engine(CONTEXT), model_name=MODEL) as (_, address):
        yield address


def environment(address: str, home: Path) -> dict[str, str]:
    """The environment variables of a recipe's process: the server's address, and a home in which clients may write
    files.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return inherited | QUIET | {
        "GUIDED_URL": f"{address}/v1", "GUIDED_MODEL": MODEL, "HOME": str(home), "DSPY_CACHEDIR": str(home),
    }  # fmt: skip


def run_recipe(recipe: Recipe, folder: Path, address: str) -> Outcome:
    """Install a client and run its recipe."""
    place = folder / recipe.name
    log = place.with_suffix(".log")
    log.unlink(missing_ok=True)  # it is from an earlier run
    try:
        program = install(recipe, place)
        versions = versions_of(recipe, place, program)
    except InstallationError as error:
        log.write_text(f"{error.output}{error}\n", encoding="utf-8")
        return Outcome(recipe, missing=str(error))
    home = place / "home"
    home.mkdir(exist_ok=True)
    begin = perf_counter()
    try:
        process = run([*program, recipe.path.name], place, RUN, environment(address, home))
    except subprocess.TimeoutExpired as error:
        failure = f"stopped after {RUN} s"
        log.write_text(f"{output_until(error)}{failure}\n", encoding="utf-8")
        return Outcome(recipe, versions, failure=failure)
    seconds = perf_counter() - begin
    log.write_text(process.stdout + process.stderr, encoding="utf-8")
    words = tuple(word for word in COLUMNS if re.search(rf"^{word}\b[^:\n]*:", process.stdout, re.MULTILINE))
    failure = ""
    if process.returncode:
        failure = last_line(process.stderr) or f"exit code {process.returncode}"
    elif "object" not in words:
        failure = "it printed no object"
    return Outcome(recipe, versions, words, seconds, failure=failure)


def install(recipe: Recipe, place: Path) -> list[str]:
    """Create the environment of a client if necessary, and copy the recipe into it. Return the program that runs it."""
    place.mkdir(exist_ok=True)
    for path in (recipe.path, recipe.path.with_name("clients_types.py")):
        (place / path.name).write_bytes(path.read_bytes())
    python = [str(place / "bin" / "python"), "-B"]
    marker, packages = place / "packages.json", json.dumps(recipe.packages)
    if not marker.exists() or marker.read_text("utf-8") != packages:
        marker.unlink(missing_ok=True)
        if recipe.tool == "pip":
            commands = [[sys.executable, "-m", "venv", str(place)]]
            commands.append([*python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "-q"])
        else:
            (place / "package.json").write_text('{"private": true}', encoding="utf-8")
            commands = [["npm", "install", "--no-fund", "--no-audit", "--loglevel=error"]]
        commands[-1] += recipe.packages
        for command in commands:
            check(command, place)
        marker.write_text(packages, encoding="utf-8")
    return python if recipe.tool == "pip" else ["node"]


def check(command: list[str], place: Path) -> str:
    """Run an installation command, and return its output.

    Raises:
        InstallationError: the command is missing, fails, or takes too long.
    """
    try:
        process = run(command, place, INSTALLATION)
    except FileNotFoundError:
        raise InstallationError(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired as error:
        message = f"{command[0]} was stopped after {INSTALLATION} s"
        raise InstallationError(message, output_until(error)) from None
    if process.returncode:
        errors = [line for line in process.stderr.splitlines() if "error" in line.lower()]
        message = last_line("\n".join(errors[:1]) or process.stderr) or f"exit code {process.returncode}"
        raise InstallationError(message, process.stdout + process.stderr)
    return process.stdout


def output_until(error: subprocess.TimeoutExpired) -> str:
    """The output of a command that was stopped."""
    parts = [part or b"" for part in (error.stdout, error.stderr)]  # it is bytes on POSIX, even with an encoding
    return "".join(part.decode("utf-8", "replace") if isinstance(part, bytes) else part for part in parts)


def run(
    command: list[str], folder: Path, seconds: float, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
        timeout=seconds, check=False,
    )  # fmt: skip


def versions_of(recipe: Recipe, place: Path, program: list[str]) -> str:
    """The packages that the recipe names, each with its version."""
    if recipe.tool == "pip":
        code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
        versions = check([*program, "-c", code, *recipe.names], place).split()
    else:
        files = [place / "node_modules" / name / "package.json" for name in recipe.names]
        versions = [json.loads(file.read_text("utf-8"))["version"] for file in files]
    return ", ".join(f"{name} {version}" for name, version in zip(recipe.names, versions, strict=True))


def last_line(text: str) -> str:
    """The last line that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def state(outcome: Outcome) -> str:
    """How a recipe ended."""
    if outcome.missing:
        return f"not installed: {outcome.missing}"
    return f"failed: {outcome.failure}" if outcome.failure else f"{outcome.seconds:.1f} s"


def table(outcomes: Sequence[Outcome]) -> str:
    """A table in Markdown, a row for each recipe."""
    lines = [f"| | tested with | {' | '.join(COLUMNS.values())} | seconds | example |", "|---|---|---|---|---|--:|---|"]
    for outcome in outcomes:
        shown = ["yes" if word in outcome.words else "" for word in COLUMNS]
        seconds = f"{outcome.seconds:.1f}" if outcome.seconds else ""
        cells = [outcome.recipe.client, outcome.versions, *shown, seconds, f"`examples/{outcome.recipe.path.name}`"]
        if outcome.missing or outcome.failure:
            cells[1] = f"{cells[1]} {state(outcome)}".strip()
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def write_page(rows: str, page: Path = PAGE) -> None:
    """Replace the table between its markers."""
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page.name} has no {(BEGIN if not begin else END).strip()}")
    page.write_text(f"{before}{begin}\n{rows}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
