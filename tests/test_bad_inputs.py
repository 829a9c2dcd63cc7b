"""The search for bad inputs: what it scales, whether it finds bad inputs, and a small sample of it that counts work.

The search itself is slow and measures CPU time: `pytest -m slow tests/test_bad_inputs.py` runs it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import process_time

import pytest

import guided
from benchmarks.bad_inputs.calls import compiled, measure_calls, vocabulary
from benchmarks.bad_inputs.construct import Construct
from benchmarks.bad_inputs.meter import Meter
from benchmarks.bad_inputs.others import OTHERS
from benchmarks.bad_inputs.schemas import FRAGMENTS, SCHEMAS, pairs
from benchmarks.bad_inputs.search import Finding, Settings, run_once, search
from benchmarks.bad_inputs.texts import TEXTS
from benchmarks.bad_inputs.worst import request_of, worst_requests
from guided import meter
from guided.automaton.reference.terms import Terms
from guided.frontends.json_schema import unenforced
from guided.frontends.json_schema.documents.keywords import CONSTRAINING_KEYWORDS, KEYWORDS
from guided.frontends.structural_tag.formats import FORMATS
from guided.ir.nodes import Alt, Grammar, Seq, Text
from guided.matching.explain.lint_findings import lint_specification

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux: fork and /proc")

ROOT = Path(__file__).parents[1]
ALL = {each.name: each for each in [*SCHEMAS, *TEXTS, *OTHERS]}
NOTHING = Construct("nothing", "call", lambda n: n, most=64)


def written(table: tuple[Construct, ...], prefix: str) -> str:
    return "\n".join(str(each.build(2)) for each in table if each.name.startswith(prefix))


# ---- what is scaled


def test_names_are_unique_and_sizes_linear():
    """Inputs grow at most linearly with n, so the growth of a cost is not the growth of the text."""
    assert len(ALL) == len(SCHEMAS) + len(TEXTS) + len(OTHERS)
    for each in [*SCHEMAS, *TEXTS, *(it for it in OTHERS if it.kind == "structural_tag")]:
        one, two = len(str(each.build(64))), len(str(each.build(128)))
        assert two <= 2.6 * one, each.name
        assert each.most < 1 << 20 or two < one + 50, each.name


def test_every_keyword_is_scaled():
    """All keywords except those that only describe."""
    text = written(SCHEMAS, "schema")
    assert {name for name in CONSTRAINING_KEYWORDS & KEYWORDS.keys() if f"'{name}'" not in text} == set()


def test_every_format_of_structural_tags_is_scaled():
    text = written(OTHERS, "tag: ")
    assert {name for name in FORMATS if f"'type': '{name}'" not in text} == set()
    assert {f"tools in style {style}" for style in guided.TOOL_STYLES} <= ALL.keys()


def test_every_two_fragments_are_a_pair():
    names = [each.name for each in pairs()]
    assert len(set(names)) == len(names) == len(FRAGMENTS) * (len(FRAGMENTS) - 1) // 2
    assert "schemas: minItems + uniqueItems" in names
    built = next(each for each in pairs() if each.name == "schemas: minItems + uniqueItems").build(3)
    assert built == {"type": "array", "minItems": 3, "uniqueItems": True}


def test_every_route_and_every_field_is_scaled():
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    from benchmarks.bad_inputs.bodies import BODIES, ROUTES
    from guided.server.app import create_app
    from tests.server_support import small_engine

    app = create_app(small_engine())
    posted = {route.path for route in app.routes if "POST" in getattr(route, "methods", ())}
    assert posted == ROUTES.keys()
    fields = {each.name.split(": ")[1].split(",")[0] for each in BODIES if each.name.startswith("field of")}
    for model, valid in ROUTES.values():
        assert model.model_fields.keys() <= fields
        model.model_validate(valid)
    assert len({each.name for each in BODIES}) == len(BODIES)


# ---- whether bad inputs are found


def spend(seconds: float) -> None:
    end = process_time() + seconds
    while process_time() < end:
        pass


def rows_of(measure) -> list[tuple[str, str, int]]:
    found = search(NOTHING, measure, Settings(cpu=1, patience=0.5))
    return [(each.call, each.what, each.n) for each in found.findings]


def test_a_quadratic_cost_is_found():
    def measure(construct: Construct, n: int, meter: Meter) -> None:
        meter.note("compile", "", 4e-4 * n * n, 0.0, 0)
        meter.note("lint", "", 1e-2 * n, 0.0, 0)
        meter.note("mask", "", 1e-6 * n * n, 0.0, 1 << 10)

    found = search(NOTHING, measure, Settings())
    (finding,) = found.findings
    assert (finding.call, finding.what, finding.n) == ("compile", "growth in time", 64)
    assert finding.slope == pytest.approx(2.0)
    assert found.slope("lint", 0, 0.1) == pytest.approx(1.0)


def test_the_worst_n_before_a_limit_is_found():
    """From n = 90 on, the call is cheap."""

    def measure(construct: Construct, n: int, meter: Meter) -> None:
        meter.note("lint", "", 0.05 * n if n < 90 else 0.01, 0.0, 0)

    found = search(Construct("limited", "call", lambda n: n, most=256), measure, Settings())
    (finding,) = found.findings
    assert (finding.what, finding.n) == ("time", 88)


def test_memory_that_grows_is_found():
    def measure(construct: Construct, n: int, meter: Meter) -> None:
        meter.note("mask", "", 0.0, 0.0, 2**16 * n * n)

    kinds = {(each.what, each.n) for each in search(NOTHING, measure, Settings()).findings}
    assert kinds == {("memory", 64), ("growth in memory", 64)}


def test_a_call_over_its_bound_is_found_even_if_it_is_refused():
    def act(n: int) -> None:
        spend(0.2 if n == 4 else 0.0)
        raise guided.LimitExceeded("states", 2, 1)

    rows = rows_of(lambda _, n, meter: meter.call("mask", lambda: act(n)))
    assert rows == [("mask", "time", 4)]


def test_a_call_that_never_ends_is_killed_and_found():
    rows = rows_of(lambda _, n, meter: meter.call("step", lambda: spend(3600 if n == 8 else 0)))
    assert rows == [("step", "killed", 8)]


def test_a_call_without_memory_is_refused_and_only_its_process_crashes():
    def measure(construct: Construct, n: int, meter: Meter) -> None:
        meter.call("mask", lambda: bytearray(8 << 30))
        meter.call("step", lambda: os.kill(os.getpid(), signal.SIGTERM))

    rows, ended = run_once(NOTHING, 1, measure, Settings(memory=1 << 30))
    assert [row["refused"] for row in rows if "call" in row] == ["MemoryError"]
    assert ended == "signal 15" and rows[-1] == {"begin": "step"}


def test_an_error_of_the_search_itself_is_reported():
    def measure(construct: Construct, n: int, meter: Meter) -> None:
        raise KeyError("a defect")

    found = search(NOTHING, measure, Settings())
    assert len(found.died) == 1 and "KeyError: 'a defect'" in found.died[0]


def test_every_call_of_a_grammar_is_measured():
    rows, ended = run_once(ALL["gbnf: option: capture"], 3, measure_calls, Settings())
    calls = {row["call"] for row in rows if "call" in row}
    assert not ended
    assert calls >= {
        "compile", "first mask", "minimum", "forced", "explain at the start", "budget mask", "mask", "step", "explain",
        "rollback", "mask after rollback", "validate", "captures", "lint", "sample",
    }  # fmt: skip
    assert all(row["cpu"] >= 0 and row["wall"] > 0 for row in rows if "call" in row)


# ---- findings as requests


def test_the_worst_findings_become_requests():
    def finding(name: str, call: str, n: int, ratio: float) -> Finding:
        return Finding(name, call, "time", n, 1.0, ratio, None, "")

    found = [
        finding("schema: minProperties", "budget mask", 50, 9.0),
        finding("schema: minProperties", "step", 50, 8.0),
        finding("regex: alternatives", "explain", 3, 20.0),
        finding("type: dataclass", "compile", 3, 30.0),
        finding("choice: words", "lint", 2, 7.0),
    ]
    first, second = worst_requests(found, ALL, 2)
    assert first["route"] == "/v1/grammars/explain" and first["body"] == {"regex": "w0|w1|w2"}
    assert second["body"]["json_schema"] == {"type": "object", "minProperties": 50}
    assert second["route"] == "/v1/completions"
    assert request_of(ALL["choice: words"], "lint", 2)["body"] == {"structured_outputs": {"choice": ["w0", "w1"]}}
    assert request_of(ALL["gbnf: literal"], "compile", 5 << 20) is None


# ---- a small sample of the search, which counts work and measures no time

LINEAR = (
    "schema: enum of texts", "schema: properties", "schema: prefixItems", "regex: alternatives", "regex: count up to",
    "choice: words", "gbnf: alternatives", "gbnf: operators", "lark: keywords beside names", "tag: triggered_tags",
)  # fmt: skip


def states_of_a_walk(construct: Construct, n: int) -> int:
    """The number of states that masks add along a walk, with and without a budget."""
    matcher = guided.GrammarMatcher(compiled(construct, construct.build(n), vocabulary()))
    bitmask, rng = guided.allocate_token_bitmask(1, vocabulary().size), random.Random(1)
    for _ in range(12):
        least = matcher.min_tokens_to_finish()
        matcher.fill_next_token_bitmask(bitmask)
        matcher.fill_next_token_bitmask(bitmask, max_tokens=least + 2)
        allowed = [each for each in guided.allowed_tokens(bitmask) if each not in vocabulary().eos_token_ids]
        if not allowed or not matcher.accept_token(rng.choice(allowed)):
            break
    return matcher.configurations


@pytest.mark.parametrize("name", LINEAR)
def test_the_states_of_a_walk_grow_no_faster_than_the_input(name: str):
    small, large = (states_of_a_walk(ALL[name], n) for n in (16, 64))
    assert large <= 6 * small + 200


def python_calls(act: Callable[[], object]) -> int:
    """The number of Python functions and generators entered and of built-in functions called."""
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def work_of(call: str, name: str, n: int) -> int:
    """The Python calls of one call on a grammar."""
    construct = ALL[name]
    given = construct.build(n)
    if call == "compile":
        return python_calls(lambda: compiled(construct, given, vocabulary()))
    grammar = compiled(construct, given, vocabulary())
    if call == "lint":
        kind = {"json_schema": "schema"}.get(construct.kind, construct.kind)
        return python_calls(lambda: lint_specification(grammar, kind, given, {}))
    return python_calls(guided.GrammarMatcher(grammar).explain)


@pytest.mark.parametrize(
    ("call", "name", "n"),
    [
        ("explain", "regex: class of many characters", 64),
        ("lint", "schema: properties", 128),
        ("lint", "schema: const array", 64),
        ("compile", "schema: properties", 128),
        ("compile", "lark: rules", 64),
    ],
)
def test_the_calls_of_python_grow_no_faster_than_the_input(
    call: str, name: str, n: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(meter, "perf_counter", lambda: 0.0)  # counting calls takes longer than the calls themselves
    work_of(call, name, 8)  # one-time initialisation
    small, large = (work_of(call, name, size) for size in (n, 4 * n))
    assert large <= 5 * small


def test_the_limits_of_tokens_of_many_alternatives_are_found_in_one_pass():
    def rules(n: int) -> Grammar:
        return Grammar({"start": Alt(tuple(Seq((Text(f"a{i}"), Text("b"))) for i in range(n)))})

    small, large = (python_calls(lambda n=n: Terms(rules(n), frozenset(range(256)))) for n in (64, 256))
    assert large <= 5 * small


CLOCKED = (
    "schema: patternProperties", "schema: properties", "schema: enum of numbers", "schema: enum of objects",
    "schema: unknown keywords", "lark: terminals", "lark: maybes", "gbnf: alternatives",
    "regex: lookaheads",
)  # fmt: skip
_OF_EACH = 80  # Python calls for each part of a specification: about 10 us


@pytest.mark.parametrize("name", CLOCKED)
def test_the_clock_is_looked_at_often(name: str, monkeypatch: pytest.MonkeyPatch):
    """A compilation makes few Python calls between two checks of the clock, even for large specifications."""
    calls, before, longest = 0, 0, 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def look() -> float:
        nonlocal before, longest
        longest, before = max(longest, calls - before), calls
        return 0.0

    construct = ALL[name]
    with suppress(guided.GuidedError):
        compiled(construct, construct.build(31), vocabulary())  # one-time initialisation
    unenforced._hint_with_close_keyword.cache_clear()
    given = construct.build(2048)
    monkeypatch.setattr(meter, "perf_counter", look)
    sys.setprofile(note)
    try:
        with suppress(guided.GuidedError):
            compiled(construct, given, vocabulary())
    finally:
        sys.setprofile(None)
    look()
    assert longest < _OF_EACH * 2048 < calls


# ---- the search

FRONTS = ("schema: ", "schema, any order", "regex", "choice: ", "gbnf: ", "lark: ", "lark, scannerless", "tag: ",
          "tools in style", "type: ", "expression: ", "vocabulary: ", "pattern: ", "body of ", "field of ")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("front", FRONTS)
def test_the_search_finds_nothing(front: str, tmp_path: Path):
    """Half an hour on two cores. A finding is printed with its n, cost and growth.

    The slowest known call takes 0.7 s on one core at 2.6 GHz (docs/inside/bounds.md), seven times the search's
    default bound. Beside a busy core, it takes twice as long. Costs that grow faster than their input are not
    reported below that bound, where `call_work` stops them.
    """
    command = [sys.executable, "-m", "benchmarks.bad_inputs", front, "--factor", "4", "--cpu", "30", "--patience", "1"]
    out = tmp_path / "found.jsonl"
    command += ["--tolerance", "14", "--json", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert rows, done.stderr[-2000:]
    assert not [died for row in rows for died in row["died"]]
    assert done.returncode == 0, done.stdout
