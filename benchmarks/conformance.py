"""`python -m benchmarks.conformance`: judges the public suites and writes `docs/conformance.md`.

In: the JSON-Schema-Test-Suite (its drafts' folders and `remotes`) and MaskBench's data folder. Out, for each draft: the
number of groups of tests that compile, of correct verdicts, of false accepts and of false rejects, and every group that
does not compile, with its reason. Out, for real schemas: the same, with members in any order and in declared order. The
native core judges a text over single bytes. It takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guided.errors import GuidedError, GuidedWarning, SpecError
from guided.limits import Limits
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary

INTRODUCTION = """\
Which schemas of the public test suites compile, and is every verdict right? `python -m benchmarks.conformance` writes
this page.

A *group* is a schema of a suite, with its instances. A *verdict* is whether guided accepts the complete text of an
instance. Members may have any order. `format`, `contentEncoding` and `contentMediaType` are enforced in their optional
tests and in the real schemas. The suite's remote documents are passed in `registry`."""

WHY_REFUSED = """\
Three formats are narrower than the standards. `hostname` and `idn-hostname` allow no label in Punycode (`xn--`,
`formats/internet.py`). `regex` allows no named groups and no back-references (`formats/regex.py`). The schemas of
Kubernetes require the format `byte`, which is base64; the refused instances are not base64."""

DRAFTS = ("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12")


@dataclass
class Tally:
    """Counts of one table row."""

    groups: int = 0
    compiled: int = 0
    right: int = 0
    other_order: int = 0
    accepts: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    not_compiled: list[str] = field(default_factory=list)

    def row(self, name: str) -> str:
        """A line of Markdown."""
        share = 100 * self.compiled / self.groups if self.groups else 100.0
        return (
            f"| {name} | {self.groups:,} | {self.compiled:,} ({share:.1f} %) | {self.right:,} "
            f"| {len(self.accepts)} | {len(self.refusals)} |"
        )


class Judge:
    """Compiles schemas over a vocabulary of single bytes, and judges texts."""

    def __init__(self) -> None:
        vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
        self._compiler = GrammarCompiler(vocabulary)
        self._large = GrammarCompiler(vocabulary, limits=Limits(states=4_000_000, seconds=120.0))

    def compile(self, schema: Any, **options: Any) -> CompiledGrammar | None:
        """The grammar, or None if no value satisfies the schema. Raises GuidedError if the schema is refused."""
        return self._compiled(self._compiler, schema, options)

    def compile_large(self, schema: Any, **options: Any) -> CompiledGrammar | None:
        """The same with wider limits."""
        return self._compiled(self._large, schema, options)

    @staticmethod
    def _compiled(compiler: GrammarCompiler, schema: Any, options: dict[str, Any]) -> CompiledGrammar | None:
        try:
            return compiler.compile_json_schema(schema, **options)
        except SpecError as error:
            if "no JSON value" in error.message or "allows no output" in error.message:
                return None
            raise

    def accepts(self, grammar: CompiledGrammar | None, value: Any) -> bool:
        """Whether the value's text is in the language."""
        if grammar is None:
            return False
        matcher = GrammarMatcher(grammar)
        return matcher.accept_string(json.dumps(value)) and matcher.is_accepting()


def _reason(error: GuidedError) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0]}".replace("|", "\\|")


def suite(judge: Judge, root: Path, draft: str, optional: bool) -> Tally:
    """One draft of the JSON-Schema-Test-Suite."""
    remotes = root / "remotes"
    registry = {
        f"http://localhost:1234/{path.relative_to(remotes).as_posix()}": json.loads(path.read_text("utf-8"))
        for path in remotes.rglob("*.json")
    }
    tally = Tally()
    for name, group in _groups(root / draft, optional):
        tally.groups += 1
        label = f"{draft}/{name}: {group['description']}"
        try:
            grammar = judge.compile(
                group["schema"], draft=draft.replace("draft2", "2"), registry=registry, property_order="any",
                format="assert" if name.startswith(("optional/format", "optional/content")) else "annotate",
                unknown_format="refuse",
            )  # fmt: skip
        except GuidedError as error:
            tally.not_compiled.append(f"{label} — {_reason(error)}")
            continue
        tally.compiled += 1
        for test in group["tests"]:
            verdict = judge.accepts(grammar, test["data"])
            where = f"{label}: {test['description']}"
            if verdict == test["valid"]:
                tally.right += 1
            else:
                (tally.accepts if verdict else tally.refusals).append(where)
    return tally


def _groups(folder: Path, optional: bool) -> Iterator[tuple[str, Any]]:
    for path in sorted((folder / "optional").rglob("*.json") if optional else folder.glob("*.json")):
        for group in json.loads(path.read_text("utf-8")):
            yield path.relative_to(folder).as_posix(), group


def maskbench(judge: Judge, folder: Path, every: int, order: str) -> Tally:
    """Judge real schemas, with valid and invalid instances."""
    tally = Tally()
    files = sorted(folder.glob("*.json"))[::every]
    begin = time.monotonic()
    for at, path in enumerate(files):
        if at % 100 == 0:
            print(f"{order} order: {at} of {len(files)}, {time.monotonic() - begin:.0f} s", file=sys.stderr)
        case = json.loads(path.read_text("utf-8"))
        tally.groups += 1
        try:
            grammar = judge.compile(case["schema"], property_order=order, unknown_format="ignore")
        except GuidedError as error:
            tally.not_compiled.append(f"{path.stem} — {_reason(error)}")
            continue
        tally.compiled += 1
        any_order = None
        for test in case["tests"]:
            verdict = judge.accepts(grammar, test["data"])
            if verdict == test["valid"]:
                tally.right += 1
            elif verdict:
                tally.accepts.append(f"{path.stem}, {order} order")
            else:
                any_order = any_order or judge.compile_large(
                    case["schema"], property_order="any", unknown_format="ignore"
                )
                if order == "declared" and judge.accepts(any_order, test["data"]):
                    tally.other_order += 1
                else:
                    tally.refusals.append(f"{path.stem}, {order} order")
    return tally


def _report(required: dict[str, Tally], optional: dict[str, Tally], real: dict[str, Tally]) -> str:
    head = "| {} | groups | compiled | correct | false accepts | false rejects |\n|---|---:|---:|---:|---:|---:|"
    lines = [
        "# Conformance",
        "",
        INTRODUCTION,
        "",
        "## JSON-Schema-Test-Suite, required tests",
        "",
        head.format("draft"),
        *(tally.row(draft) for draft, tally in required.items()),
        "",
        "## Optional tests, including formats",
        "",
        head.format("draft"),
        *(tally.row(draft) for draft, tally in optional.items()),
        "",
        '## MaskBench, real schemas (`unknown_format="ignore"`)',
        "",
        head.format("order of members"),
        *(tally.row(order) for order, tally in real.items()),
        "",
    ]
    if "declared" in real:
        other = real["declared"].other_order
        lines += [
            f"In declared order, guided refuses {other} more instances, because their members have a different order.",
            "",
        ]
    sections: dict[str, list[str]] = {
        "Not compiled, required tests": [line for tally in required.values() for line in tally.not_compiled],
        "Not compiled, optional tests": [line for tally in optional.values() for line in tally.not_compiled],
        "Not compiled, real schemas": list(real["any"].not_compiled) if "any" in real else [],
        "False accepts": [
            line for part in (required, optional, real) for tally in part.values() for line in tally.accepts
        ],
        "False rejects": [
            line for part in (required, optional, real) for tally in part.values() for line in tally.refusals
        ],
    }
    for title, items in sections.items():
        reasons = [WHY_REFUSED, ""] if title == "False rejects" and items else []
        lines += [f"## {title}", "", *reasons, *(f"- {item}" for item in items), *([] if items else ["None."]), ""]
    return "\n".join(lines)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conformance", description=__doc__.split("\n\n")[0])
    parser.add_argument("--suite", type=Path, required=True, help="the folder of the JSON-Schema-Test-Suite's drafts")
    parser.add_argument("--maskbench", type=Path, help="MaskBench's data folder")
    parser.add_argument("--every", type=int, default=1, help="judge only every n-th real schema (1)")
    parser.add_argument("--out", type=Path, default=Path("docs/conformance.md"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", GuidedWarning)  # the suites have many unknown keywords
    judge = Judge()
    required, optional = (
        {draft: suite(judge, arguments.suite, draft, is_optional) for draft in DRAFTS} for is_optional in (False, True)
    )
    real = {}
    if arguments.maskbench:
        real = {order: maskbench(judge, arguments.maskbench, arguments.every, order) for order in ("any", "declared")}
    arguments.out.write_text(_report(required, optional, real), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
