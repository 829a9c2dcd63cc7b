"""Nodes that occur in many grammars as the same objects are read once. The compiled results are the same."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from guided.automaton import _core, build
from guided.automaton.build import Target, compile_native
from guided.errors import LimitExceeded
from guided.frontends.json_schema import json_schema_to_grammar
from guided.ir import Alt, Chars, Grammar, Node, Ref, Repeat, Seq, Text
from guided.limits import Limits
from guided.matching.compiled import native_vocabulary
from tests.core_support import vocabulary

WORDS = vocabulary()
SCHEMAS = [
    {"type": "integer"},
    {"type": "object", "properties": {"n": {"type": "integer"}, "x": {"type": "number", "multipleOf": 0.25}}},
    {"type": "array", "items": {"type": "string", "format": "date-time"}},
    {"properties": {"a": {"pattern": "^[a-z]{2,30}(x|y)+$"}, "b": {"pattern": "^[a-z]{2,30}(x|y)+$", "minLength": 3}}},
    {"anyOf": [{"type": "integer", "minimum": 12, "maximum": 98765}, {"format": "ipv4", "type": "string"}, {}]},
    {"type": "array", "uniqueItems": True, "items": {"type": "integer"}, "prefixItems": [{"format": "uuid"}]},
]


def compiled(grammar: Grammar, kept: _core.KeptNodes | None, monkeypatch: pytest.MonkeyPatch, nodes: int = 100_000):
    monkeypatch.setattr(build, "_SHARED_NODES", kept)
    target = Target(native_vocabulary(WORDS), end_tokens=WORDS.eos_token_ids)
    return compile_native(grammar, target, Limits(nodes=nodes))


def walked(native: _core.Compiled, seed: int) -> list[object]:
    """The observations of a random walk along single bytes."""
    rng, matcher, record = random.Random(seed), _core.Matcher(native), [native.positions, native.rules]
    for _ in range(60):
        allowed = [token for token in range(WORDS.size) if matcher.validate_tokens([token])]
        record.append((allowed, matcher.min_tokens_to_finish()))
        if not allowed or not matcher.accept_token(rng.choice(allowed)) or matcher.is_terminated():
            break
    return record


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_cached_nodes_mean_the_same(schema, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = _core.KeptNodes()
    plain = compiled(json_schema_to_grammar(schema), None, monkeypatch)
    for seed in range(3):  # the first compilation caches, the others reuse cached nodes
        again = compiled(json_schema_to_grammar(schema), kept, monkeypatch)
        assert walked(again, seed) == walked(plain, seed)
    assert len(kept) and kept.nodes


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_it_counts_as_if_it_were_read(schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of nodes is reached at the same node, with and without cached nodes."""

    def fits(nodes: int, kept: _core.KeptNodes | None) -> bool:
        try:
            compiled(grammar, kept, monkeypatch, nodes)
        except LimitExceeded as error:
            assert (error.limit, error.given, error.allowed) == ("nodes", nodes + 1, nodes)
            return False
        return True

    grammar = json_schema_to_grammar(schema)
    low, high = 0, 100_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle, None) else (middle, high)
    kept = _core.KeptNodes()
    assert fits(high, kept) and len(kept)
    assert [fits(nodes, kept) for nodes in (high - 2, high - 1, high, high + 1)] == [False, False, True, True]


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, most = _core.KeptNodes(), 0
    for start in range(300):
        parts: list[Node] = [Seq((Text("a" * (start + 1)), Chars(((97 + at % 20, 120),)))) for at in range(60)]
        held = Alt(tuple(parts))
        for _ in range(2):
            compiled(
                Grammar({"start": Seq((Text("<"), Repeat(held, 1, 3), Ref("end"))), "end": Text(">")}),
                kept,
                monkeypatch,
            )
        most = max(most, kept.nodes)
    assert 1000 < most <= 20_000
    kept.clear()
    assert len(kept) == kept.nodes == 0


def test_many_threads_share_it_and_clear_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Pythons without a GIL, its mutex replaces the GIL."""
    kept, monkey = _core.KeptNodes(), monkeypatch
    expected = [walked(compiled(json_schema_to_grammar(schema), None, monkey), 1) for schema in SCHEMAS]
    gate = threading.Barrier(8)

    def lane(number: int) -> list[tuple[int, list[object]]]:
        gate.wait()
        out = []
        for turn in range(12):
            at = (number + turn) % len(SCHEMAS)
            out.append((at, walked(compiled(json_schema_to_grammar(SCHEMAS[at]), kept, monkey), 1)))
            if number % 4 == 0:
                kept.clear()
            assert len(kept) >= 0 and kept.nodes >= 0
        return out

    with ThreadPoolExecutor(8) as pool:
        for lane_results in pool.map(lane, range(8)):
            assert all(record == expected[at] for at, record in lane_results)
