"""`python -m benchmarks.audit`: finds tokens that the masks of each library wrongly allow or refuse, on real schemas.

In: MaskBench's folder, and Llama-3's vocabulary. Out: a line each for guided, xgrammar and llguidance: schemas,
positions, judged tokens, wrongly allowed tokens, wrongly refused tokens, and examples. Each library runs in its own
process with the options of `benchmarks/engines.py`. Seeds are fixed, so every run judges the same tokens.

**The judge** is Python's `jsonschema` with exact numbers (`tests/json_schema_judge.py`). It knows nothing of masks and
tokens, and shares no code with any library. It judges complete texts, so a token is judged by a text that contains it:

- *Wrongly refused.* A text is valid, and the mask refuses a token with which the rest of the text begins. Some texts
  are the valid instances of MaskBench, as `json.dumps` writes them, with members in the order of the schema. The others
  are valid outputs that a library completed (below), if `json.dumps` would write them the same way. *Own* counts
  refused tokens of the tokenizer's own encoding; after such a refusal the text cannot be written. *Others* counts
  refused shorter or longer tokens at the same positions. llguidance allows only the tokenizer's own tokens in forced
  text, by design.
- *Wrongly allowed.* The mask allows a token after the beginning of a valid text, and the output that the library itself
  then completes is invalid or has no end. So this token, or a later one of the same library, was wrong.

**What it cannot decide.** These cases are undecided: a completion that takes too many tokens, an object that names a
member twice (RFC 8259 leaves it open), and a schema or value that `jsonschema` cannot judge. Tokens are a sample.
`format` is not checked, so completions of schemas with formats are not used as texts. Schemas with `contentEncoding` or
`contentMediaType` are left out. Control tokens are not judged. These counts cannot show that a mask is right. For that,
`tests/test_core_reference.py` compares all tokens with an exact reference on small grammars.

Cost: about three seconds for each schema and library.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks import llama3
from benchmarks.engines import versions
from benchmarks.slack import find_schemas
from benchmarks.tables import table
from benchmarks.workers import Failure, Worker
from tests.json_schema_judge import Judge, NoJudge

__all__ = ["LIBRARIES", "Tally", "audit", "in_order", "verdict"]

LIBRARIES = ("guided", "xgrammar", "llguidance")
_INSTANCES, _TEXTS, _SECONDS, _SHOWN = 2, 6, 120.0, 3
_LEFT_OUT = re.compile(r'"(contentEncoding|contentMediaType)"')
_Verdict = Literal["valid", "invalid", "undecided"]


@dataclass
class Tally:
    """The counts of one library."""

    schemas: int = 0
    refused_schemas: int = 0
    positions: int = 0
    judged: int = 0
    allowed: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    undecided: int = 0

    def row(self, name: str) -> list[str]:
        """A row of the table."""
        counts = (self.schemas, self.refused_schemas, self.positions, self.judged, len(self.allowed), len(self.own))
        return [name, *(f"{count:,}" for count in (*counts, len(self.others), self.undecided))]


def audit(
    workers: dict[str, Worker], files: list[Path], *, positions: int, choices: int, most: int
) -> dict[str, Tally]:
    """Judge the masks of each worker's library on each schema. For the numbers, see `complete`."""
    tallies = {name: Tally() for name in workers}
    for number, file in enumerate(files):
        print(f"{number} of {len(files)}: {file.stem}", file=sys.stderr, flush=True)
        case = json.loads(file.read_text(encoding="utf-8"))
        schema = case["schema"]
        try:
            judge = Judge(schema)
        except NoJudge:
            continue
        instances = [test["data"] for test in case["tests"] if test["valid"]]
        texts = list(_texts(schema, judge, instances))[:_INSTANCES]
        if not texts or _LEFT_OUT.search(json.dumps(schema)):
            continue
        compiled = {}
        for name, worker in workers.items():
            answer = worker.call("recompile", "audit", "json_schema", json.dumps(schema), limit=_SECONDS)
            if isinstance(answer, Failure):
                tallies[name].refused_schemas += 1
            else:
                tallies[name].schemas += 1
                compiled[name] = worker
        values: list[Any] = []
        for name, worker in compiled.items():
            for seed, text in enumerate(texts):
                completions = worker.call("complete", "audit", text, positions, choices, most, seed, limit=_SECONDS)
                values += _judge_completions(tallies[name], judge, completions, file.stem)
        if '"format"' not in json.dumps(schema):
            texts += list(_texts(schema, judge, values))[: _TEXTS * len(compiled)]
        for name, worker in compiled.items():
            for text in dict.fromkeys(texts):
                _count_refused(tallies[name], worker.call("follow", "audit", text, limit=_SECONDS), text, file.stem)
    return tallies


def _judge_completions(tally: Tally, judge: Judge, completions: Any, schema: str) -> Iterator[Any]:
    """Count the verdicts on completions. Yield the values of the valid ones."""
    if isinstance(completions, Failure):
        tally.undecided += 1
        return
    for prefix, token, rest in completions:
        tally.positions += 1
        outcome = "undecided" if rest is None else verdict(judge, prefix + token + rest)
        if outcome == "undecided":
            tally.undecided += 1
            continue
        tally.judged += 1
        if outcome == "invalid":
            tally.allowed.append(f"{schema}: {_shown(prefix)} | {_shown(token)} | {_shown(rest)}")
        else:
            text = (prefix + token + rest).decode()
            if json.dumps(json.loads(text), ensure_ascii=False) == text:
                yield json.loads(text)


def _count_refused(tally: Tally, walk: Any, text: str, schema: str) -> None:
    if isinstance(walk, Failure):
        tally.undecided += 1
        return
    tally.positions += walk["positions"]
    tally.judged += walk["judged"]
    data = text.encode()
    tally.own += [f"{schema}: {_shown(data[:at])} | {_shown(data[at : at + 40])}" for at in walk["own"]]
    tally.others += [f"{schema}: {_shown(data[:at])} | {_shown(token)}" for at, token in walk["others"]]


def _shown(data: bytes) -> str:
    text = data.decode(errors="replace")
    return repr(text if len(text) <= 60 else f"...{text[-57:]}")


def verdict(judge: Judge, data: bytes) -> _Verdict:
    """The verdict on a complete output. An output without an end is invalid (see `complete`)."""
    try:
        text = data.decode()
        has_repeats = False

        def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            nonlocal has_repeats
            has_repeats |= len(dict(pairs)) < len(pairs)
            return dict(pairs)

        json.loads(text, object_pairs_hook=members)
    except ValueError:  # also for bytes that are not UTF-8
        return "invalid"
    except RecursionError:
        return "undecided"
    try:
        return "undecided" if has_repeats else "valid" if judge(text) else "invalid"
    except NoJudge:
        return "undecided"


def _texts(schema: Any, judge: Judge, values: list[Any]) -> Iterator[str]:
    """The texts of values that are valid if their members are written in the order of the schema."""
    for value in values:
        try:
            text = json.dumps(in_order(schema, value), ensure_ascii=False)
        except NoJudge:
            continue
        if verdict(judge, text.encode()) == "valid":
            yield text


def in_order(schema: Any, value: Any) -> Any:
    """A value whose objects have their members in the order of `properties`, then of `required`, then all others.

    Raises:
        NoJudge: parts of the schema disagree about the order, or the order cannot be determined.
    """
    return _in_order([schema], value, schema)


def _in_order(schemas: list[Any], value: Any, root: Any) -> Any:
    parts = [part for schema in schemas for part in _parts(schema, root, [])]
    if isinstance(value, list):
        return [_in_order(_of_item(parts, at), item, root) for at, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    orders = [list(_members(part)) for part in parts]
    declared = {name for order in orders for name in order}
    required = [part["required"] for part in parts if isinstance(part.get("required"), list)]
    orders.append([name for listed in required for name in listed if name not in declared])
    names = dict.fromkeys([*(name for order in orders for name in order if name in value), *value])
    ranks = {name: rank for rank, name in enumerate(names)}
    for order in orders:
        present = [ranks[name] for name in dict.fromkeys(order) if name in ranks]
        if present != sorted(present):
            raise NoJudge("two orders of members")
    return {name: _in_order(_of_member(parts, name), value[name], root) for name in names}


def _parts(schema: Any, root: Any, seen: list[Any]) -> Iterator[dict[str, Any]]:
    """The object schemas that may apply to the same value as a schema."""
    if not isinstance(schema, dict) or any(schema is other for other in seen):
        return
    seen = [*seen, schema]
    yield schema
    if isinstance(reference := schema.get("$ref"), str):
        yield from _parts(_target(reference, root), root, seen)
    for name in ("allOf", "anyOf", "oneOf"):
        for branch in schema.get(name, ()):
            yield from _parts(branch, root, seen)
    for name in ("if", "then", "else"):
        yield from _parts(schema.get(name), root, seen)
    if any(name in schema for name in ("$dynamicRef", "$recursiveRef", "dependentSchemas", "dependencies")):
        raise NoJudge("the order cannot be seen")


def _target(reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        raise NoJudge("a reference to another document")
    target = root
    for part in filter(None, reference[1:].split("/")):
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            target = target[int(key)] if isinstance(target, list) else target[key]
        except (KeyError, ValueError, IndexError, TypeError):
            raise NoJudge(f"the reference {reference}") from None
    return target


def _members(part: dict[str, Any]) -> dict[str, Any]:
    members = part.get("properties")
    return members if isinstance(members, dict) else {}


def _of_member(parts: list[dict[str, Any]], name: str) -> list[Any]:
    schemas: list[Any] = []
    for part in parts:
        schemas += [_members(part)[name]] if name in _members(part) else []
        schemas += [*part.get("patternProperties", {}).values(), part.get("additionalProperties")]
    return schemas


def _of_item(parts: list[dict[str, Any]], at: int) -> list[Any]:
    schemas: list[Any] = []
    for part in parts:
        for name in ("items", "prefixItems", "additionalItems", "contains"):
            of_items = part.get(name)
            schemas += of_items[at : at + 1] if isinstance(of_items, list) else [of_items]
    return schemas


def main() -> int:
    """Parse the command line, audit, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__.split("\n\n")[0])
    parser.add_argument("--schemas", help="MaskBench's data folder (found as by python -m benchmarks)")
    parser.add_argument("--llama3", help="the vocabulary (found as by python -m benchmarks)")
    parser.add_argument("--count", type=int, default=20, help="number of schemas (20)")
    parser.add_argument("--positions", type=int, default=6, help="positions of a text at which tokens are tried (6)")
    parser.add_argument("--choices", type=int, default=6, help="number of tokens to try at each position (6)")
    parser.add_argument("--most", type=int, default=120, help="largest number of tokens of a completion (120)")
    parser.add_argument("--seed", type=int, default=5, help="seed for the choice of schemas (5)")
    parser.add_argument("--library", action="append", choices=LIBRARIES, help="only these libraries")
    arguments = parser.parse_args()
    files = sorted(find_schemas(arguments.schemas).glob("*.json"))
    random.Random(arguments.seed).shuffle(files)
    vocabulary = llama3.find(arguments.llama3)
    workers = {name: Worker(name, vocabulary) for name in arguments.library or LIBRARIES}
    numbers = {"positions": arguments.positions, "choices": arguments.choices, "most": arguments.most}
    tallies = audit(workers, files[: arguments.count], **numbers)
    for worker in workers.values():
        worker.close()
    head = ["library", "schemas", "not compiled", "positions", "tokens judged", "wrongly allowed"]
    head += ["wrongly refused, own", "wrongly refused, others", "undecided"]
    print("\n".join(table(head, [tally.row(name) for name, tally in tallies.items()])))
    print("\n" + ", ".join(f"{package} {version}" for package, version in versions().items()))
    for name, tally in tallies.items():
        kinds = (("wrongly allowed", tally.allowed), ("own refused", tally.own), ("others refused", tally.others))
        for kind, examples in kinds:
            for example in examples[:_SHOWN]:
                print(f"{name}, {kind}: {example}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
