"""Changes one operator, constant or statement at a time, and reports the changes that no test notices.

In: the package and its tests. Out: for each part of the package, how many mutants the tests killed, and the survivors
with file, line and change. Most survivors are harmless, such as a bound that nobody reaches, or a message. The others
show a missing test.

    python scripts/mutants.py --count 400 --seed 1          # all groups
    python scripts/mutants.py --only guided/sampling/ --count 60

How: candidates come from the syntax tree. A worker has a copy of the project in a temporary folder, with torch, numpy
and pytest imported. It runs the tests of each group once, and records with `coverage` (which must be installed) which
test runs which line. For each mutant it writes the changed file, forks, and runs the tests of the changed line in the
child, the fastest first, until one fails. If no test runs the line in its own process, random tests of the group run. A
mutant also counts as killed if the tests take five times as long as without it.

Cost: one run of the tests under coverage. After that, most mutants take a second, and a survivor takes `--seconds` of
tests.

Not done: mutants of the C++ code, since compiling each of them takes a minute.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
SLACK: Final = 20.0  # seconds added to the time limit of each run

GROUPS: Final = {  # the first matching prefix decides
    "guided/sampling/": "sampling_* choice kernels_choose logits_apply engine_logprobs",
    "guided/logits/": "logits_apply kernels_triton integration_transformers engine_engine",
    "guided/attention/": "attention_* kv_caches models_forward",
    "guided/automaton/": "reference* core_[ckrt]* stored* kept_nodes lexer_masks indentation_masks",
    "guided/describe/": "describe",
    "guided/kernels/": "kernels_choose kernels kernels_few kernels_misuse choice kernels_triton fake_cuda",
    "guided/kv/": "kv_caches kv_offload kv_offload_ring kv_quantised kv_rows store_kv",
    "guided/engine/": "engine_[a-p]* engine_r* engine_s[a-lt]* engine_think_first healing tools*",
    "guided/tools/": "tools* engine_nanochat",
    "guided/chat/": "chat_templates chat_sandbox engine_chat derived_styles",
    "guided/vocabulary/": "vocabulary* real_vocabularies",
    "guided/files/": "files_* models_gguf random_gguf models_huggingface*",
    "guided/models/": "models_*",
    "guided/matching/canonical/": "canonical orthogonal",
    "guided/matching/explain/": "explain*",
    "guided/matching/regions/": "captures engine_captures",
    "guided/matching/": "compiler matcher_end healing grammar_cache max_tokens captures misuse output_masks stored",
    "guided/frontends/regex/": "regex_*",
    "guided/frontends/gbnf/": "gbnf_*",
    "guided/frontends/lark/": "lark_*",
    "guided/frontends/python_types/": "python_*",
    "guided/frontends/structural_tag/": "structural_tag*",
    "guided/frontends/json_schema/formats/": "json_schema_formats json_schema_format_keyword",
    "guided/frontends/json_schema/": "json_schema_* explain_schemas engine_fields engine_retries advice",
    "guided/frontends/stored/": "stored* grammar_cache library",
    "guided/frontends/openai/": "openai_schema server_structured generated_*",
    "guided/frontends/common/": "lint* quote* combinators finite_string_sets compiler captures structural_tag_later",
    "guided/frontends/": "combinators pattern generated_* compiler finite_string_sets",
    "guided/ir/": "combinators kept_nodes reference* compiler",
    "guided/testing/": "testing* expected library",
    "guided/compat/xgrammar/": "compat_xgrammar*",
    "guided/compat/llguidance/": "compat_llguidance*",
    "guided/compat/": "compat_outlines_core compat_rust_regex",
    "guided/integrations/": "integration_*",
    "guided/server/": "server_*",
    "guided/cli/": "cli*",
    "guided/levels/": "levels",
    "guided/": "keywords meter limits close_names packages misuse",
}
SWAPS: Final[dict[type, type]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: characters `start` to `end` of a file become `text`."""

    file: str
    line: int
    start: int
    end: int
    text: str
    before: str

    @property
    def group(self) -> str:
        """The prefix in `GROUPS` whose tests are run for a file."""
        return next(prefix for prefix in GROUPS if self.file.startswith(prefix))


class _Candidates(ast.NodeVisitor):
    """Collects the changes of a file."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source, self.mutants = file, source, list[Mutant]()
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line.encode()))
        self.data = source.encode()

    def add(self, node: ast.expr | ast.stmt, changed: str) -> None:
        start = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        before = self.data[start:end].decode()
        self.mutants.append(Mutant(self.file, node.lineno, start, end, changed, before))

    def swap(self, node: ast.expr, parent: ast.AST, field: str, old: ast.AST) -> None:
        new = SWAPS.get(type(old))
        if new is None:
            return
        operator = getattr(parent, field)
        setattr(parent, field, [new()] if isinstance(operator, list) else new())
        self.add(node, f"({ast.unparse(node)})")
        setattr(parent, field, operator)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            self.swap(node, node, "ops", node.ops[0])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = (ast.JoinedStr, ast.List, ast.Tuple)
        is_text = any(
            isinstance(side, texts) or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
            for side in (node.left, node.right)
        )
        if not is_text:
            self.swap(node, node, "op", node.op)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.swap(node, node, "op", node.op)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.add(node, f"bool({ast.unparse(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.add(node, str(not node.value))
        elif isinstance(node.value, int):
            self.add(node, str(node.value + 1))

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.NamedExpr):
            self.add(node.test, f"not ({ast.unparse(node.test)})")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.add(node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.add(node, "pass")
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:  # not its annotations
        for part in (*node.body, *node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)):
            self.visit(part)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and ast.unparse(node.annotation) != "TypeAlias":
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...  # positions inside of f-strings are not exact


def candidates(only: str) -> list[Mutant]:
    """All changes of all files with this prefix."""
    listed = subprocess.check_output(["git", "ls-files", "guided"], cwd=ROOT, text=True).split()
    mutants = list[Mutant]()
    for file in listed:
        if file.endswith(".py") and file.startswith(only):
            source = (ROOT / file).read_text()
            visitor = _Candidates(file, source)
            visitor.visit(ast.parse(source))
            mutants += visitor.mutants
    return mutants


def tests_of(group: str) -> list[str]:
    """The test files of a group."""
    files = [path for name in GROUPS[group].split() for path in sorted((ROOT / "tests").glob(f"test_{name}.py"))]
    return [f"tests/{path.name}" for path in dict.fromkeys(files)]


@contextlib.contextmanager
def copy_of_project() -> Iterator[Path]:
    """A copy of the project's files and of the built modules."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
        for file in (*listed, *(str(path.relative_to(ROOT)) for path in (ROOT / "guided").rglob("*.so"))):
            if (ROOT / file).is_file():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, folder / file)
        yield folder


class _Lines:
    """A plugin of pytest. It records which tests run which lines, and how long each test takes."""

    def __init__(self, folder: Path) -> None:
        import coverage

        self.measured = coverage.Coverage(data_file=None, config_file=False, source=[str(folder / "guided")])
        self.seconds = dict[str, float]()

    def pytest_sessionstart(self) -> None:
        self.measured.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.measured.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

    def write(self, path: Path, folder: Path) -> None:
        """Write the tests with their seconds, and the numbers of the tests of each line."""
        self.measured.stop()
        data, number = self.measured.get_data(), {test: at for at, test in enumerate(self.seconds)}
        lines = {
            str(Path(file).relative_to(folder)): {
                line: [number[test] for test in tests if test in number]
                for line, tests in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        path.write_text(json.dumps({"tests": list(self.seconds.items()), "lines": lines}))


class TestsOfLines:
    """The tests of a group, and which of them run a line."""

    def __init__(self, recorded: Path) -> None:
        read = json.loads(recorded.read_text())
        self.tests: list[tuple[str, float]] = [(test, seconds) for test, seconds in read["tests"]]
        self.lines: dict[str, dict[str, list[int]]] = read["lines"]

    def of(self, mutant: Mutant, most: float) -> tuple[list[str], float]:
        """The tests of a mutant, the fastest first, with their seconds; about `most` seconds in total.

        A line that runs when the module is imported belongs to no test. Then the tests come in a random order, so that
        they cover more than the fastest ones do.
        """
        numbers = self.lines.get(mutant.file, {}).get(str(mutant.line))
        if numbers:
            tests = sorted((self.tests[number] for number in numbers), key=lambda pair: pair[1])
        else:
            tests = random.Random(0).sample(self.tests, len(self.tests))
        chosen, total = list[str](), 0.0
        for test, seconds in tests:
            if chosen and total + seconds > most:
                break
            chosen.append(test)
            total += seconds
        return chosen, total


def run_tests(tests: list[str], limit: float, recorded: Path | None = None) -> bool:
    """Whether the tests pass, in a forked child. `recorded`: where the tests of each line are written."""
    begin, child = time.perf_counter(), os.fork()
    if not child:
        os.setsid()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        sys.dont_write_bytecode = recorded is None
        import pytest

        code = 1
        try:
            lines = None if recorded is None else _Lines(Path.cwd())
            code = int(
                pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests], plugins=[] if lines is None else [lines])
            )
            if lines is not None and recorded is not None:
                lines.write(recorded, Path.cwd())
        finally:
            os._exit(code)
    while time.perf_counter() - begin < limit:
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            return status == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def work(mutants: list[Mutant], seconds: float) -> list[tuple[Mutant, bool]]:
    """Run the tests of each mutant, for up to `seconds`. Return for each whether it survived."""
    out = list[tuple[Mutant, bool]]()
    with copy_of_project() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        for name in ("numpy", "torch", "pytest"):
            __import__(name)
        groups = dict[str, TestsOfLines | None]()
        for mutant in mutants:
            group, recorded = mutant.group, folder / "recorded.json"
            if group not in groups:
                succeeded = run_tests(tests_of(group), 1e9, recorded)
                if not succeeded:
                    print(f"the tests of {group} fail without a change", file=sys.stderr)
                groups[group] = TestsOfLines(recorded) if succeeded else None
            known = groups[group]
            if known is None:
                continue
            tests, usual = known.of(mutant, seconds)
            path = Path(mutant.file)
            data, times = path.read_bytes(), path.stat()
            path.write_bytes(data[: mutant.start] + mutant.text.encode() + data[mutant.end :])
            survived = run_tests(tests, 5 * usual + SLACK)
            path.write_bytes(data)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # so that its bytecode is valid again
            out.append((mutant, survived))
            word = "SURVIVED" if survived else "killed"
            changed = f"{mutant.before[:70]!r} -> {mutant.text[:70]!r}"
            print(f"{word:8} {mutant.file}:{mutant.line}  {changed}", file=sys.stderr, flush=True)
    return out


def divide(mutants: list[Mutant], workers: int) -> list[list[Mutant]]:
    """Divide the mutants among the workers. Mutants of a group stay together, so its tests are recorded once."""
    shares: list[list[Mutant]] = [[] for _ in range(workers)]
    groups = [[one for one in mutants if one.group == group] for group in GROUPS]
    for group in sorted(groups, key=len, reverse=True):
        min(shares, key=len).extend(group)
    return shares


def main() -> None:
    """Draw mutants, run them, and print a table and the survivors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400, help="number of mutants to draw (400)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="guided/", metavar="PREFIX", help="only files whose path begins with this")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of tests for each mutant (60)")
    parser.add_argument("--workers", type=int, default=2, help="number of processes (2)")
    arguments = parser.parse_args()
    mutants = candidates(arguments.only)
    drawn = random.Random(arguments.seed).sample(mutants, min(arguments.count, len(mutants)))
    drawn.sort(key=lambda mutant: (list(GROUPS).index(mutant.group), mutant.file, mutant.start))
    shares = divide(drawn, arguments.workers)
    with get_context("spawn").Pool(arguments.workers) as pool:
        results = [one for share in pool.map(partial(work, seconds=arguments.seconds), shares) for one in share]
    counts, survived = Counter(one.group for one, _ in results), Counter(one.group for one, lives in results if lives)
    print(f"{len(mutants):,} candidates, {len(results)} tried, {sum(survived.values())} survived\n")
    print("| part | mutants | survived |\n|---|--:|--:|")
    for group in counts:
        print(f"| `{group}` | {counts[group]} | {survived[group]} |")
    for mutant, lives in results:
        if lives:
            print(f"\n{mutant.file}:{mutant.line}\n  - {mutant.before}\n  + {mutant.text}")


if __name__ == "__main__":
    main()
