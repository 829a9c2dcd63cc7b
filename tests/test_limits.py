"""Every bound of `Limits` is reached with its exact fields, and hostile input costs little time and memory.

Each case runs in its own process, which this module forks if it is run as a program. The process may use one gigabyte
more than an idle one, and 40 seconds of CPU time. The tests compare CPU seconds, so a busy machine has no effect.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import guided
from guided.errors import GuidedError, LimitExceeded
from guided.ir import ANY_CHAR, Alt, And, Chars, Grammar, Length, Member, Not, Permutation, Ref, Repeat, Seq, Text

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux: fork and RLIMIT_AS")

GIGABYTE = 1 << 30
VOCABULARY = guided.Vocabulary([bytes((byte,)) for byte in range(256)], eos_token_ids=[256])


def compiler(**limits: Any) -> guided.GrammarCompiler:
    return guided.GrammarCompiler(VOCABULARY, limits=guided.Limits(**{"seconds": 600.0, **limits}))


def regex(pattern: str, **limits: Any) -> Callable[[], Any]:
    return lambda: compiler(**limits).compile_regex(pattern)


def schema(given: Any, options: Mapping[str, Any] = {}, **limits: Any) -> Callable[[], Any]:
    return lambda: compiler(**limits).compile_json_schema(given() if callable(given) else given, **options)


def rule(node: Any, **limits: Any) -> Callable[[], Any]:
    return lambda: compiler(**limits).compile_grammar(Grammar({"start": node() if callable(node) else node}))


def matcher_of(act: Callable[[], Any]) -> guided.GrammarMatcher:
    return guided.GrammarMatcher(act())


def least(act: Callable[[], Any]) -> Callable[[], int]:
    return lambda: matcher_of(act).min_tokens_to_finish()


def matched(act: Callable[[], Any], text: bytes) -> Callable[[], Any]:
    """Read `text` and fill a mask."""

    def read() -> None:
        matcher = guided.GrammarMatcher(act())
        assert matcher.accept_string(text)
        matcher.fill_next_token_bitmask(guided.allocate_token_bitmask(1, VOCABULARY.size))

    return read


def nested_schema(depth: int) -> Any:
    out: Any = {}
    for _ in range(depth):
        out = {"items": out}
    return out


def nested_node(depth: int) -> Any:
    out: Any = Text("a")
    for _ in range(depth):
        out = Seq((Text("("), out, Text(")")))
    return out


def nested_type(depth: int) -> Any:
    out: Any = int
    for _ in range(depth):
        out = list[out]
    return out


def chain(length: int, link: Callable[[str], Any]) -> Any:
    """A schema with a chain of references. `link`: how each refers to the next."""
    last = {f"d{length}": {"type": "null"}}
    return {"$ref": "#/$defs/d0", "$defs": {f"d{i}": link(f"#/$defs/d{i + 1}") for i in range(length)} | last}


def doubled(to: str) -> Any:
    return {"type": "array", "prefixItems": [{"$ref": to}] * 2, "items": False, "minItems": 2}


def members(count: int, **keywords: Any) -> Any:
    return {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(count)}, **keywords}


def operations(depth: int) -> Any:
    out: Any = Repeat(Chars(((97, 98),)), 0, 1000)
    for i in range(depth):
        out = Not(And((out, Seq((Text("a"), Repeat(ANY_CHAR, i, None))))))
    return out


def cycle(count: int) -> Any:
    """Left recursion through all rules."""
    rules = {f"r{i}": Alt((Seq((Ref(f"r{(7 * i + 1) % count}"), Text("a"))), Text("b"))) for i in range(count)}
    return compiler().compile_grammar(Grammar({"start": Ref("r0"), **rules}))


AB = Chars(((97, 98),))
ANYTHING = Repeat(ANY_CHAR, 0, None)
LONG = "x" * 60

# name -> (the call, the fields of LimitExceeded; ... for a measured time)
# fmt: off
FIELDS: dict[str, tuple[Callable[[], Any], tuple[str, Any, Any]]] = {
    "length of a regex": (regex("a" * 11, spec_length=10), ("spec_length", 11, 10)),
    "length of choices": (lambda: compiler(spec_length=10).compile_choice(["abcde", "fghijk"]),
                          ("spec_length", 11, 10)),
    "length of a schema": (schema('{"type":"string"}', spec_length=10), ("spec_length", 17, 10)),
    "length of a dict": (schema({"type": "string"}, spec_length=10), ("spec_length", 18, 10)),
    "length of a type": (lambda: compiler(spec_length=10).compile_type(list[int]), ("spec_length", 47, 10)),
    "length in the registry": (schema({"$ref": "u"}, {"registry": {"u": f'{{"title":"{LONG}"}}'}}, spec_length=60),
                               ("spec_length", 72, 60)),
    "length by default": (regex("a" * 4_000_001), ("spec_length", 4_000_001, 4_000_000)),
    "depth of groups": (regex("(" * 11 + "a" + ")" * 11, depth=10), ("depth", 11, 10)),
    "depth of a schema": (schema('{"items":' * 11 + "{}" + "}" * 11, depth=10), ("depth", 11, 10)),
    "depth of a dict": (schema(nested_schema(11), depth=10), ("depth", 11, 10)),
    "depth of a type": (lambda: compiler(depth=10).compile_type(nested_type(99)), ("depth", 11, 10)),
    "depth of nodes": (rule(lambda: nested_node(2001)), ("depth", 2001, 2000)),
    "nodes of a grammar": (rule(Alt(tuple(map(Text, "abcdefghijk"))), nodes=10), ("nodes", 11, 10)),
    "nodes of a regex": (regex("a|" * 30 + "[bc]", nodes=10), ("nodes", 11, 10)),
    "nodes of choices": (lambda: compiler(nodes=10).compile_choice(list("abcdefghijk")),
                         ("nodes", 11, 10)),
    "nodes of a pattern": (lambda: compiler(nodes=10).compile_pattern([("a", "+")] * 11), ("nodes", 11, 10)),
    "nodes of a schema": (schema({"enum": list(range(11))}, nodes=10), ("nodes", 11, 10)),
    "states of a regex": (regex("abcdefghijklmnop", states=10), ("states", 11, 10)),
    "states of choices": (lambda: compiler(states=10).compile_choice(["abcdefghijklmnop"]), ("states", 11, 10)),
    "states of a schema": (schema({"type": "integer"}, states=100), ("states", 101, 100)),
    "states of a pattern": (lambda: compiler(states=10).compile_pattern([("a", "1")] * 11), ("states", 11, 10)),
    "states of an operation": (rule(Not(Seq((ANYTHING, Text("a"), Repeat(ANY_CHAR, 1000, 1000)))), states=20_000),
                               ("states", 20_002, 20_000)),
    "a count past all states": (rule(Repeat(Text("a"), 2**30, None)), ("states", 2**30, 2**30 - 1)),
    "memory of a text": (lambda: matcher_of(regex("[ab]{1,400000}", memory=1)).accept_string("ab" * 60_000),
                         ("memory", 67_109_888, 1 << 26)),
    "work of a call": (least(schema({"type": "array", "minItems": 10}, call_work=10)), ("call_work", 16, 10)),
    "work of a rule": (rule(And((ANYTHING, Seq((ANYTHING, Text("a"), Repeat(ANY_CHAR, 12, 12))))), work=100_000),
                       ("work", 102_478, 100_000)),
    "work of a schema": (schema({"allOf": [{"anyOf": [{"minimum": i}, {"type": "null"}]} for i in range(40)]},
                                work=150_000),
                         ("work", 150_243, 150_000)),
    "seconds of a regex": (regex("abc", seconds=0), ("seconds", ..., 0)),
    "seconds of a schema": (schema({}, seconds=0), ("seconds", ..., 0)),
    "seconds of the core": (rule(lambda: Alt(tuple(Text(f"{i}" * 3) for i in range(3000))), seconds=0),
                            ("seconds", ..., 0)),
}

# name -> (the call, its outcome: "compiles", the name of a limit or of an error)
HOSTILE: dict[str, tuple[Callable[[], Any], str]] = {
    "groups, deep enough to pass": (regex("(" * 400 + "a" + ")" * 400), "compiles"),
    "groups, deeper": (regex("(" * 100_000 + "a" + ")" * 100_000), "depth"),
    "groups that may be empty": (regex("(?:" * 300 + "a?" + ")*" * 300), "compiles"),
    "counts of counts": (regex("(?:(?:a{1000}){1000}){1000}"), "compiles"),
    "counts of counts that may be less": (regex("(?:(?:a{0,1000}){0,1000}){0,1000}"), "compiles"),
    "counts in a count": (regex("(?:a{1000}b){1000}"), "compiles"),
    "counts of 10^9": (regex("(?:a{1000000000}){1000000000}"), "compiles"),
    "alternatives that begin alike": (
        regex("(?:" + "|".join("ab"[i % 2] * (i % 97) + "ab" for i in range(10_000)) + ")*c"), "compiles"),
    "alternatives at random": (
        regex("(?:" + "|".join(f"{i * 2654435761 % 2**32:032b}" for i in range(3_000)) + ")*c"), "compiles"),
    "lookaheads over counts": (regex("(?=.{0,1000}a)(?!.{0,900}b).*"), "compiles"),
    "lookaheads over counts, repeated": (regex("(?:(?=.{0,100}a)(?!.{0,90}b).)*"), "UnsupportedError"),
    "a lookbehind over a count": (regex(".*(?<=a.{200})b.*"), "UnsupportedError"),
    "a count begun anywhere": (regex(".*a.{1000}"), "compiles"),
    "a count begun anywhere, read": (matched(regex(".*a.{1000}"), b"ab" * 3000 + b"a" * 3000), "compiles"),
    "counts begun anywhere, read": (
        matched(regex("(?:.*a.{300}){2}"), bytes(random.Random(1).choices(b"ab", k=6000))), "compiles"),
    "not a count begun anywhere": (
        rule(Not(Seq((ANYTHING, Text("a"), Repeat(ANY_CHAR, 20, 20)))), states=50_000), "states"),
    "operations in operations": (rule(lambda: operations(30)), "compiles"),
    "counts in an operation": (
        rule(Not(And((Repeat(AB, 0, 3000), Not(Seq((Repeat(Text("a"), 0, 3000), Repeat(Text("b"), 0, 3000)))))))),
        "states"),
    "periods without a common one": (
        rule(And(tuple(Repeat(Repeat(Text("a"), n, n), 0, None) for n in (2, 3, 5, 7, 11, 13, 17, 19, 23)))), "states"),
    "a length over an operation": (rule(Length(And((Repeat(Text("ab"), 0, None), Not(Text("ab")))), 0, 5000)),
                                   "compiles"),
    "left recursion, long": (lambda: cycle(2000), "compiles"),
    "a permutation of many": (
        rule(lambda: Permutation(tuple(Member(Text(f"{i};")) for i in range(2000)), Text(","))), "compiles"),
    "nodes, deep": (rule(lambda: nested_node(10_000)), "depth"),
    "schemas, deep enough to pass": (schema(nested_schema(400)), "compiles"),
    "schemas, deeper": (schema(lambda: nested_schema(100_000)), "depth"),
    "schemas, deeper, as text": (schema('{"items":' * 100_000 + "{}" + "}" * 100_000), "depth"),
    "references, long": (schema(lambda: chain(10_000, lambda to: {"$ref": to})), "compiles"),
    "references, doubled": (schema(lambda: chain(60, doubled)), "compiles"),
    "an enumeration of a megabyte": (schema(lambda: {"enum": [f"value number {i:06}" for i in range(40_000)]}),
                                     "compiles"),
    "choices of a megabyte": (lambda: compiler().compile_choice([f"value number {i:06}" for i in range(50_000)]),
                              "compiles"),
    "1,000 members": (schema(lambda: members(1000)), "compiles"),
    "1,000 members in any order": (schema(lambda: members(1000), {"property_order": "any"}), "compiles"),
    "bounds of 10^9": (schema({"type": "array", "minItems": 10**9, "maxItems": 10**9}), "compiles"),
    "lengths of 10^9": (schema({"type": "string", "minLength": 10**9}), "compiles"),
    "members to 10^9": (schema({"type": "object", "minProperties": 10**9}), "compiles"),
    "numbers to 10^300": (schema({"type": "integer", "minimum": -(10**300), "maximum": 10**300}), "compiles"),
    "the shortest of 10^9 items": (least(schema({"type": "array", "minItems": 10**9})), "compiles"),
    "the shortest of a chain of conditions": (
        least(schema({"type": "object", "required": ["p0"],
                      "dependentSchemas": {f"p{i}": {"required": [f"p{i + 1}"]} for i in range(256)}},
                     call_work=1_000_000)), "call_work"),
    "the shortest of nested counts": (least(regex("(?:(?:ab){1000000}b){1000000}")), "compiles"),
    "NUL in a regex": (matched(regex("a\0b"), b"a\0b"), "compiles"),
    "NUL in a schema": (schema('{"const": "a\0b"}'), "SpecError"),
    "NUL in a constant": (matched(schema({"const": "\0"}), b'"\\u0000"'), "compiles"),
    "a lone surrogate in a schema": (schema('{"const": "\ud800"}'), "SpecError"),
    "a lone surrogate in a regex": (regex("\ud800"), "SpecError"),
    "an empty regex": (matched(regex(""), b""), "compiles"),
    "an empty schema": (schema(""), "SpecError"),
}
LARGE: dict[str, tuple[Callable[[], Any], str]] = {
    "alternatives, 20,000": (regex("(?:" + "|".join(f"{i:x}" for i in range(20_000)) + ")*c", work=10**9), "compiles"),
    "text of 4,000,000": (regex("a" * 4_000_000), "states"),
    "a constant of a megabyte": (schema(lambda: {"enum": ["x" * 1_000_000]}), "states"),
    "not a count begun anywhere": (rule(Not(Seq((ANYTHING, Text("a"), Repeat(ANY_CHAR, 1000, 1000))))), "work"),
    "a pattern begun anywhere": (schema({"type": "string", "pattern": "^(a|b)*a.{20}$", "maxLength": 10**6}), "work"),
    "nodes, 100,000 deep": (rule(lambda: nested_node(100_000)), "depth"),
    "10,000 members": (schema(lambda: members(10_000)), "compiles"),
    "30,000 members": (schema(lambda: members(30_000)), "work"),
    "10,000 required members": (
        schema(lambda: members(10_000, required=[f"p{i}" for i in range(10_000)], additionalProperties=False)),
        "compiles"),
}
# fmt: on
TABLES: dict[str, Mapping[str, tuple[Callable[[], Any], Any]]] = {
    "fields": FIELDS,
    "hostile": HOSTILE,
    "large": LARGE,
}
SECONDS = {"fields": 5, "hostile": 10, "large": 40}
"""The CPU time after which the kernel ends the process of a case, which then has no result."""


def outcome(act: Callable[[], Any]) -> tuple[str, Any]:
    """(how it ended, the error's fields or text)."""
    try:
        act()
    except LimitExceeded as error:
        return error.limit, [error.limit, error.given, error.allowed]
    except GuidedError as error:
        return type(error).__name__, str(error)
    return "compiles", ""


def run_all(table: str) -> None:
    """Print one line of JSON for each case: [name, outcome, the error's fields]. A case that takes too long is
    ended.
    """
    import resource

    for name, (act, _) in TABLES[table].items():
        if os.fork():
            os.wait()
            continue
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + GIGABYTE,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS[table],) * 2)
        print(json.dumps([name, *outcome(act)]), flush=True)
        os._exit(0)


@cache
def results(table: str) -> dict[str, list[Any]]:
    ran = subprocess.run(
        [sys.executable, "-m", __name__, table], capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    return {name: rest for name, *rest in map(json.loads, ran.stdout.splitlines())} | {"": [ran.stderr[-2000:]]}


def result(table: str, name: str) -> list[Any]:
    found = results(table)
    assert name in found, f"the process did not come to its end: {found['']}"
    return found[name]


@pytest.mark.parametrize("name", FIELDS)
def test_each_bound_has_its_fields(name: str) -> None:
    limit, given, allowed = FIELDS[name][1]
    how, fields = result("fields", name)
    assert how == limit, fields
    assert fields[2] == allowed
    assert fields[1] == given if given is not ... else 0 < fields[1] < 60


def test_an_exceeded_limit_has_a_location() -> None:
    """The location is the rule whose automaton is built, or the part of the schema that is read."""
    with pytest.raises(guided.LimitExceeded) as caught:
        compiler(work=200_000).compile_grammar(
            Grammar({"start": Ref("few"), "few": Not(Seq((ANYTHING, Text("a"), Repeat(ANY_CHAR, 14, 14))))})
        )
    assert (caught.value.limit, caught.value.place) == ("work", "few")
    assert "(at few)" in str(caught.value)
    many = {"allOf": [{"anyOf": [{"minimum": i}, {"type": "null"}]} for i in range(40)]}
    with pytest.raises(guided.LimitExceeded) as caught:
        schema({"type": "object", "properties": {"x": many}}, work=150_000)()
    assert (caught.value.limit, caught.value.place) == ("work", "/properties/x")


def test_each_field_of_limits_has_a_case() -> None:
    assert {row[1][0] for row in FIELDS.values()} == set(guided.Limits.__dataclass_fields__)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_costs_little(name: str) -> None:
    how, said = result("hostile", name)
    assert how == HOSTILE[name][1], said


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_input_ends(name: str) -> None:
    how, said = result("large", name)
    assert how == LARGE[name][1], said


if __name__ == "__main__":
    run_all(sys.argv[1])
