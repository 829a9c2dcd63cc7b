"""Random schemas compared with two validators: `python -m tests.two_judges --count 1000 --seed 7`.

Each schema is compiled, with members in any order. The grammar, jsonschema and ajv (on node, see `ajv_judge.py`) judge
values near it. Samples from its masks, and texts of walks with and without a budget, must be valid. If the two
validators disagree, the case is set aside (`--aside FILE` stores it).

Out: counts, and each failure as a line of JSON with the seed of its schema. The exit code is 1 if there is a failure.
Memory is limited (`--memory`, in GiB). Several runs with different seeds can run in parallel.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
import warnings
from collections import Counter
from typing import Any, TextIO

from guided.errors import GuidedError, LimitExceeded, SpecError, UnsupportedError
from guided.limits import Limits
from guided.matching import CompiledGrammar, GrammarCompiler
from tests.ajv_judge import Ajv, why_no_ajv
from tests.core_support import vocabulary
from tests.json_schema_judge import Judge, NoJudge
from tests.json_schema_support import matches
from tests.random_schemas import draw_schema, draw_value
from tests.test_json_schema_random import is_plain, neighbour
from tests.walks import Walker, WalkError, plans

__all__ = ["Run", "check"]

SECONDS = 5.0  # seconds of a compilation, and of the walks of a schema
STYLES: tuple[dict[str, Any], ...] = (
    {},
    {"property_order": "any"},
    {"property_order": "any", "whitespace": "compact", "numbers": "plain", "escapes": "minimal"},
    {"whitespace": "single_space", "numbers": "plain", "escapes": "minimal"},
)


class Run:
    """Checks schemas, and counts the outcomes."""

    def __init__(self, ajv: Ajv | None, aside: TextIO | None = None) -> None:
        words = vocabulary()
        self.compiler = GrammarCompiler(words, limits=Limits(seconds=SECONDS), cache_bytes=0)
        self.walker = Walker(words)
        self.ajv, self.aside = ajv, aside
        self.counts: Counter[str] = Counter()

    def check(self, schema: Any, rng: random.Random) -> list[dict[str, Any]]:
        """The problems with a schema's grammar."""
        self.counts["schemas"] += 1
        begin = time.monotonic()
        try:
            grammar = self.compiled(schema, {"property_order": "any"})
            written = self.compiled(schema, rng.choice(STYLES))
        except (UnsupportedError, LimitExceeded) as error:
            why = error.reason if isinstance(error, UnsupportedError) else f"limit {error.limit}"
            self.counts[f"not compiled: {why[:60]}"] += 1
            return []
        except SpecError as error:
            if error.message != "the schema refers to itself without end":
                return [{"kind": "not compiled", "schema": schema, "detail": str(error)}]
            self.counts["refers to itself without end"] += 1
            return []
        self.counts["compiled" if grammar else "empty"] += 1
        values = [draw_value(rng) for _ in range(12)]
        texts, wrong = self.walked(schema, grammar, written, rng)
        values += [neighbour(json.loads(text), rng) for text in texts for _ in range(2)]
        texts += [json.dumps(value) for value in values if is_plain(value)]
        wrong += self.judged(schema, grammar, list(dict.fromkeys(texts)))
        if (seconds := time.monotonic() - begin) > 2 * SECONDS:
            self.counts["slow"] += 1
            print(json.dumps({"kind": "slow", "seconds": round(seconds), "schema": schema}), flush=True)
        return wrong

    def compiled(self, schema: Any, options: dict[str, Any]) -> CompiledGrammar | None:
        """The grammar; None if no value satisfies the schema."""
        try:
            return self.compiler.compile_json_schema(schema, **options)
        except SpecError as error:
            if "no JSON value" in error.message or "allows no output" in error.message:
                return None
            raise

    def walked(
        self, schema: Any, grammar: CompiledGrammar | None, written: CompiledGrammar | None, rng: random.Random
    ) -> tuple[list[str], list[dict[str, Any]]]:
        """Texts that the masks allow, and failed walks."""
        texts: list[str] = []
        self.walker.deadline = time.monotonic() + SECONDS
        for which in (grammar, written):
            if which is None:
                continue
            try:
                begun = [text.encode() for text in texts if matches(which, text)]
                for plan in rng.sample(plans(rng, begun), 2 if which is grammar else 1):
                    text = self.walker.walk(which, plan, rng)
                    texts += [] if text is None else [text.decode()]
            except (WalkError, AssertionError, GuidedError) as error:
                if isinstance(error, LimitExceeded):
                    self.counts[f"walk: limit {error.limit}"] += 1
                    continue
                return texts, [{"kind": "walk", "schema": schema, "detail": f"{type(error).__name__}: {error}"[:300]}]
        self.counts["texts of walks"] += len(texts)
        return texts, []

    def judged(self, schema: Any, grammar: CompiledGrammar | None, texts: list[str]) -> list[dict[str, Any]]:
        """The verdicts on which both validators differ from the grammar."""
        plain = [text for text in texts if is_plain(json.loads(text))]
        second = self.ajv.verdicts(schema, plain) if self.ajv else None
        others: dict[str, bool] = dict(zip(plain, second, strict=True)) if second is not None else {}
        try:
            judge = Judge(schema)
            first = {text: judge(text) for text in texts}
        except (NoJudge, TypeError, AttributeError):  # the library's own errors, such as for 2019-09's `items: true`
            self.counts["no verdict of jsonschema"] += 1
            return []
        self.counts["no verdict of ajv"] += second is None
        wrong = []
        for text, valid in first.items():
            ours = matches(grammar, text)
            self.counts["verdicts"] += 1
            unsettled = others.get(text, valid) != valid or (second is None and ours != valid)
            if unsettled or (ours != valid and errs_in_2019_09(schema, alone=text not in others)):
                self.counts["set aside"] += 1
                if self.aside is not None:
                    case = {
                        "schema": schema,
                        "text": text,
                        "guided": ours,
                        "jsonschema": valid,
                        "ajv": others.get(text),
                    }
                    print(json.dumps(case), file=self.aside, flush=True)
            elif ours != valid:
                wrong.append({"kind": "verdict", "schema": schema, "text": text, "guided": ours, "judges": valid})
        return wrong[:3]


def errs_in_2019_09(schema: Any, *, alone: bool) -> bool:
    """Whether the validators are known to differ from 2019-09 about unevaluated items and members.

    There, `contains` gives `unevaluatedItems` no annotation (Core 9.3.1.3, 9.3.1.4), but both validators let it.
    And jsonschema, if it judges alone, forgets what `additionalProperties` evaluates.
    """
    keywords = json.dumps(schema)
    if "2019-09" not in keywords:
        return False
    return ('"contains"' in keywords and '"unevaluatedItems"' in keywords) or (alone and '"unevaluatedP' in keywords)


def check(seed: str, run: Run) -> list[dict[str, Any]]:
    """The problems with the schema of a seed."""
    rng = random.Random(seed)
    schema = draw_schema(rng)
    try:
        return [{"seed": seed, **one} for one in run.check(schema, rng)]
    except MemoryError:
        return [{"seed": seed, "kind": "memory", "schema": schema}]


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.two_judges", description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="number of schemas (1000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first schema (0)")
    parser.add_argument("--seed", default="0", help="seed of the schemas (0)")
    parser.add_argument("--memory", type=float, default=4, help="GiB of address space (4)")
    parser.add_argument(
        "--aside", type=argparse.FileType("a"), help="a file for the cases on which the validators disagree"
    )
    args = parser.parse_args()
    if why := why_no_ajv():
        print(f"two judges are needed: {why}", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")  # warnings about keywords without effect are expected
    with Ajv() as ajv:
        limit = int(args.memory * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        run, failures, begin = Run(ajv, args.aside), 0, time.monotonic()
        for number in range(args.first, args.first + args.count):
            for one in check(f"{args.seed}.{number}", run):
                failures += 1
                print(json.dumps(one), flush=True)
            if (number + 1) % 1000 == 0:
                print(f"{number + 1}: {failures} failures, {time.monotonic() - begin:.0f} s", flush=True)
        print(json.dumps({"failures": failures, **dict(sorted((run.counts + run.walker.counts).items()))}, indent=2))
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
