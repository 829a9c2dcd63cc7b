"""JSON Schema: random and real schemas, samples from their grammars, and instances drawn by another library.

`GUIDED_EXAMPLES=n` draws n schemas for each test, and `--hypothesis-seed=m` selects which. For a long run, use many
seeds. hypothesis-jsonschema is optional; version 0.23.1 works with hypothesis up to 6.148, if both are installed.
"""

from __future__ import annotations

import copy
import json
import math
import os
import random
import time
import warnings
from collections import Counter
from typing import Any

import pytest
from hypothesis import Phase, assume, given, reject, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException, UnsatisfiedAssumption

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.json_schema import JsonSchemaOptions
from guided.matching import CompiledGrammar
from tests.json_schema_judge import Judge, NoJudge
from tests.json_schema_support import (
    NUMBERS,
    QUIET,
    STRINGS,
    byte_compiler,
    compiled,
    grammar_of,
    matches,
    sample,
    schemas,
    spellings,
)
from tests.test_json_schema_suites import _data

ANY_ORDER = JsonSchemaOptions(property_order="any")
OPTIONS = (
    JsonSchemaOptions(),
    JsonSchemaOptions(whitespace="single_space", numbers="plain", escapes="minimal"),
    JsonSchemaOptions(whitespace="compact", numbers="plain", property_order="any"),
)


@QUIET
@given(st.data())
def test_samples_satisfy_the_schema(data):
    """Everything that the masks allow is valid, and texts with a small change have the library's verdict."""
    schema = data.draw(schemas(leaves=8))
    native = compiled(grammar_of(schema, ANY_ORDER))
    assume(native is not None)
    try:
        check_samples(data, schema, native)
    except NoJudge:
        reject()


def check_samples(data, schema, native):
    judge = Judge(schema)
    rng = random.Random(f"{data.draw(st.integers(0, 99))} {schema}")
    for _ in range(3):
        text = drawn_from(native, rng, schema)
        assert judge(text), (schema, text)
        for _ in range(4):
            changed = neighbour(json.loads(text), rng)
            if is_plain(changed):
                other = json.dumps(changed, ensure_ascii=rng.random() < 0.5, separators=rng.choice(SEPARATORS))
                assert matches(native, other) == judge(other), (schema, other)
    written = compiled(grammar_of(schema, data.draw(st.sampled_from(OPTIONS))))
    for _ in range(2 if written else 0):
        text = drawn_from(written, rng, schema)
        assert judge(text) and matches(native, text), (schema, text)


def drawn_from(native: CompiledGrammar, rng: random.Random, schema: Any) -> str:
    """A sample. `pytest -s` shows schemas that take long."""
    begin = time.perf_counter()
    text = sample(native, rng, 60)
    if (seconds := time.perf_counter() - begin) > PATIENCE:
        print(f"slow: {seconds:.1f} s for {text!r} of {json.dumps(schema)}", flush=True)
    return text


PATIENCE = 2.0
SEPARATORS = ((",", ":"), (" ,", "\n: "))
SCALARS = (None, True, False, *NUMBERS, *STRINGS, 3, 0.1, "b", [], {}, [1], {"a": 1})


def neighbour(value: Any, rng: random.Random) -> Any:
    """A similar value: one part of it replaced, removed, doubled or moved."""
    if not isinstance(value, list | dict) or not value or rng.random() < 0.2:
        return rng.choice([rng.choice(SCALARS), [value], {"a": value}, value])
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    at = rng.randrange(len(pairs))
    name, item = pairs[at]
    act = rng.choice(["replace", "drop", "double", "move", "inside", "inside"])
    if act == "replace":
        pairs[at] = (name, rng.choice(SCALARS))
    elif act == "drop":
        pairs.pop(at)
    elif act == "double":
        pairs.append((rng.choice(["a", "b", "z"]), item))
    elif act == "move":
        pairs.append(pairs.pop(at))
    else:
        pairs[at] = (name, neighbour(item, rng))
    return dict(pairs) if isinstance(value, dict) else [item for _, item in pairs]


def is_plain(value: Any) -> bool:
    """Whether Python writes no number in it with many digits or an exponent: see the limit in numbers.py."""
    if isinstance(value, list | dict):
        return all(map(is_plain, value.values() if isinstance(value, dict) else value))
    if isinstance(value, int):
        return abs(value) < 10**15
    return not isinstance(value, float) or value == 0 or (math.isfinite(value) and 1e-4 < abs(value) < 1e15)


SETS = {"type": "array", "uniqueItems": True}


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ({"minProperties": 2}, '[{"":0," ":0},{"x":0,"":0}]'),
        ({"minProperties": 2}, '[{"b":0,"":0},{"b":0,"x":0}]'),
        ({"minProperties": 2, "patternProperties": {"a": {}}}, '[{"b":0,"":0},{"b":0,"x":0}]'),
        ({"minProperties": 2, "properties": {"b": {"type": "null"}}}, '[{"":0," ":0},{"x":0,"":0}]'),
        ({"minProperties": 2, "required": ["b"]}, '[{"b":0,"":0},{"b":0,"x":0}]'),
    ],
)
def test_objects_that_differ(items, text):
    """Reduced from cases with wrong verdicts."""
    schema = {**SETS, "items": {"type": "object", **items}}
    assert Judge(schema)(text)
    assert matches(compiled(grammar_of(schema, ANY_ORDER)), text)


@pytest.mark.parametrize("within", [{"items": {"$ref": "#"}}, {"prefixItems": [{"$ref": "#"}]}])
def test_sets_of_sets(within):
    native = compiled(grammar_of({**SETS, **within}, ANY_ORDER))
    assert matches(native, "[]") and matches(native, "[[]]") and not matches(native, "[[[],[]]]")


# ---- instances drawn by hypothesis-jsonschema


def instances_of(schema: Any) -> st.SearchStrategy[Any]:
    """A strategy of that library for the schema, which may ignore newer keywords. Skips the test if there is none that
    works.
    """
    library = pytest.importorskip("hypothesis_jsonschema", reason="hypothesis-jsonschema is not installed (optional)")
    from hypothesis.internal.conjecture.utils import many

    if not hasattr(many, "more"):
        pytest.skip("the installed hypothesis-jsonschema does not work with this version of hypothesis")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library.from_schema(copy.deepcopy(schema))  # it resolves references in place


@QUIET
@given(st.data())
def test_instances_that_another_library_draws(data):
    schema = data.draw(schemas())
    native = compiled(grammar_of(schema, ANY_ORDER))
    try:
        drawn = instances_of(schema)
    except HypothesisException:  # references that it does not support
        assume(False)
    judge = Judge(schema)
    for _ in range(3):
        try:
            value = data.draw(drawn)
        except UnsatisfiedAssumption:
            raise
        except Exception:  # contradictions and recursions that the other library finds while it draws
            reject()
        if is_plain(value):
            text = data.draw(spellings(value, numbers=True))
            assert matches(native, text) == judge(text), (schema, text)


@pytest.mark.slow
def test_instances_of_real_schemas():
    """Some instances of each of MaskBench's schemas; `GUIDED_FILES=first:last` selects some of these."""
    first, last = map(int, os.environ.get("GUIDED_FILES", "0:100").split(":"))
    counts: Counter[str] = Counter()
    wrong: list[tuple[str, str]] = []
    files = sorted(_data("maskbench").glob("*.json"))
    random.Random(7).shuffle(files)
    for file in files[first:last]:
        schema = json.loads(file.read_text("utf-8"))["schema"]
        try:
            grammar = byte_compiler().compile_json_schema(
                schema, property_order="any", unknown_format="ignore", format="annotate"
            )
            found = verdicts_on(grammar, Judge(schema), instances_of(schema), file.stem, counts)
        except (UnsupportedError, LimitExceeded, SpecError, NoJudge, HypothesisException) as error:
            counts[f"schemas left out: {type(error).__name__}"] += 1
            continue
        except Exception as error:  # errors of the other library
            counts[f"schemas left out: {type(error).__name__}"] += 1
            continue
        counts["schemas"] += 1
        wrong += [(file.stem, text) for text in found]
        print(f"{file.stem}: {len(found)} wrong", flush=True)
    print(dict(counts))
    assert wrong == []


def verdicts_on(grammar, judge, drawn, name, counts) -> list[str]:
    """The drawn texts on which a grammar and the judge disagree."""
    wrong = []

    @settings(QUIET, phases=[Phase.generate], max_examples=max(10, settings.default.max_examples // 10), database=None)
    @given(st.data())
    def look(data):
        value = data.draw(drawn)
        if is_plain(value):
            text = data.draw(spellings(value, numbers=True))
            valid = judge(text)
            counts["valid" if valid else "invalid"] += 1
            if matches(grammar, text) != valid:
                wrong.append(text)

    look()
    return wrong
