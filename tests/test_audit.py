"""The audit of masks finds libraries that allow or refuse too much, and finds nothing in guided."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

import guided
from benchmarks.audit import audit, in_order, verdict
from benchmarks.audit_walks import complete, follow
from tests.json_schema_judge import Judge, NoJudge

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 50}, "tag": {"enum": ["a", "ab", "c"]}},
    "required": ["n", "tag"],
    "additionalProperties": False,
}
WORDS = [bytes([byte]) for byte in range(256)] + [b'{"', b'": ', b', "', b'"}', b"12", b"ab", b"tag"]
VOCABULARY = guided.Vocabulary(WORDS, eos_token_ids=[len(WORDS)])


class Library:
    """A library in this process: guided, compiled for `change(schema)`. Accepts the jobs of a worker."""

    def __init__(self, change: Any = None) -> None:
        self._change = change or (lambda schema: schema)
        row = guided.allocate_token_bitmask(1, VOCABULARY.size)
        tokens = SimpleNamespace(
            ranks={word: id for id, word in enumerate(WORDS)}, spelled=[*WORDS, None], end=len(WORDS),
            size=VOCABULARY.size, encode=VOCABULARY.encode,
        )  # fmt: skip
        engine = SimpleNamespace(
            matcher=guided.GrammarMatcher,
            fill=lambda matcher, row: matcher.fill_next_token_bitmask(row),
            accept=lambda matcher, id: matcher.accept_token(id),
        )
        self.place: Any = SimpleNamespace(tokens=tokens, engine=engine, grammars={}, row=row, words=row[0])

    def call(self, job: str, *arguments: Any, limit: float) -> Any:
        if job != "recompile":
            return {"complete": complete, "follow": follow}[job](self.place, *arguments)
        schema = self._change(json.loads(arguments[2]))
        compiler = guided.GrammarCompiler(VOCABULARY)
        self.place.grammars[arguments[0]] = compiler.compile_json_schema(schema, whitespace="single_space")
        return None


def changed(**keywords: Any) -> Any:
    def change(schema: Any) -> Any:
        schema["properties"]["n"] |= keywords
        return schema

    return change


def test_each_kind_of_mistake_is_found(tmp_path):
    path = tmp_path / "case.json"
    tests = [{"valid": True, "data": {"tag": "ab", "n": 12}}, {"valid": False, "data": {"n": 51}}]
    path.write_text(json.dumps({"schema": SCHEMA, "tests": tests}))
    libraries = {"right": Library(), "lax": Library(changed(maximum=5000)), "strict": Library(changed(minimum=20))}
    tallies = audit(libraries, [path], positions=12, choices=8, most=60)  # type: ignore[arg-type]
    right, lax, strict = tallies["right"], tallies["lax"], tallies["strict"]
    assert right.judged > 50 and right.schemas == 1
    assert (right.allowed, right.own, right.others) == ([], [], [])
    assert lax.allowed and all(example.startswith("case: ") for example in lax.allowed)
    assert not lax.own and not lax.others
    assert strict.own and not strict.allowed
    assert right.row("right")[:3] == ["right", "1", "0"]


def test_other_spellings_of_a_text_are_tried():
    library = Library()
    library.call("recompile", "audit", "json_schema", json.dumps(SCHEMA), limit=1.0)
    fill = library.place.engine.fill

    def without_tag(matcher, row):
        fill(matcher, row)
        row[0, ord("t") >> 5] &= ~(1 << (ord("t") & 31))

    text = '{"n": 12, "tag": "ab"}'
    assert follow(library.place, "audit", text)["others"] == []
    library.place.engine.fill = without_tag
    walk = follow(library.place, "audit", text)
    assert walk["own"] == [] and walk["others"] == [(text.index("tag"), b"t")]
    assert walk["positions"] == len(VOCABULARY.encode(text)) + 1


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"n": 50, "tag": "c"}', "valid"),
        (b'{"n": 51, "tag": "c"}', "invalid"),
        (b'{"n": 50, "tag": "c"', "invalid"),
        (b'{"n": 50, "tag": "c"}\xff', "invalid"),
        (b'{"n": NaN, "tag": "c"}', "invalid"),
        (b'{"n": 50, "n": 50, "tag": "c"}', "undecided"),
    ],
)
def test_verdicts(data, expected):
    assert verdict(Judge(SCHEMA), data) == expected


def test_members_in_the_order_of_the_schema():
    inner = {"properties": {"y": {}, "x": {}}, "required": ["z"]}
    schema = {
        "allOf": [{"$ref": "#/$defs/d"}],
        "properties": {"b": {"items": inner}, "a": {"additionalProperties": inner}},
        "$defs": {"d": {"properties": {"c": {}}, "anyOf": [{"$ref": "#/$defs/d"}]}},
    }
    value = {"z": 0, "c": 1, "a": {"k": {"x": 1, "z": 2, "y": 3}}, "b": [{"x": 1, "y": 2}, 5]}
    ordered = {"b": [{"y": 2, "x": 1}, 5], "a": {"k": {"y": 3, "x": 1, "z": 2}}, "c": 1, "z": 0}
    assert json.dumps(in_order(schema, value)) == json.dumps(ordered)
    disagreeing = {"properties": {"a": {}, "b": {}}, "anyOf": [{"properties": {"b": {}, "a": {}}}]}
    with pytest.raises(NoJudge):
        in_order(disagreeing, {"a": 1, "b": 2})
    assert in_order(disagreeing, {"b": 2}) == {"b": 2}
    with pytest.raises(NoJudge):
        in_order({"$ref": "elsewhere"}, {})
