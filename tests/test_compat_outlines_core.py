"""outlines-core's interface over guided: its documented examples, also run with the package if it is installed, and
walks that compare both indexes.
"""

from __future__ import annotations

import copy
import json
import pickle
import random
import re
from importlib import import_module
from importlib.util import find_spec

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided.compat.outlines_core as ours
from guided.compat.outlines_core import json_schema as schemas
from guided.errors import LimitExceeded
from tests.effort import examples

PACKAGES = ["guided.compat.outlines_core", "outlines_core"]


@pytest.fixture(params=PACKAGES)
def core(request):
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return import_module(request.param)


def digits(core):
    return core.Index("[1-9]", core.Vocabulary(3, {"1": [1], "2": [2]}))


def test_an_index(core):
    index = digits(core)
    first = index.get_initial_state()
    assert sorted(index.get_allowed_tokens(first)) == [1, 2] and not index.is_final_state(first)
    last = index.get_next_state(first, 2)
    assert index.get_next_state(first, 1) == last and index.is_final_state(last) and index.get_final_states() == {last}
    assert index.get_transitions() == {first: {1: last, 2: last}, last: {3: last}}
    assert index.get_allowed_tokens(last) == [3]
    assert index.get_next_state(last, 3) is index.get_next_state(last, 1) is index.get_next_state(first, 3) is None
    assert index.get_allowed_tokens(999) is None and not index.is_final_state(999)
    assert index.get_next_state(999, 1) is None


def test_a_guide(core):
    guide = core.Guide(digits(core), max_rollback=3)
    first = guide.get_state()
    assert sorted(guide.get_tokens()) == [1, 2] and not guide.is_finished() and guide.get_allowed_rollback() == 0
    assert [guide.accepts_tokens(tokens) for tokens in ([1], [2], [1, 1], [2, 3], [])] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert guide.advance(1) == [3] and guide.is_finished() and guide.get_allowed_rollback() == 1
    for token in (3, 1):
        with pytest.raises(ValueError, match="No next state found for the current state"):
            guide.advance(token)
    guide.rollback_state(1)
    assert guide.get_state() == first and guide.advance(2, return_tokens=False) is None
    guide.reset()
    assert guide.get_state() == first and guide.get_allowed_rollback() == 1
    with pytest.raises(ValueError, match="Cannot roll back"):
        guide.rollback_state(5)


def test_vocabularies(core):
    vocabulary = core.Vocabulary(3, {"1": [1], "a": [2]})
    assert (vocabulary.get_eos_token_id(), len(vocabulary)) == (3, 3)
    assert vocabulary == core.Vocabulary(3, {b"1": [1], b"a": [2]}) != core.Vocabulary(4, {})
    vocabulary.insert("b", 4)
    vocabulary.insert(b"b", 5)
    assert vocabulary.get("b") == vocabulary.get(b"b") == [4, 5] and len(vocabulary) == 5
    vocabulary.remove("b")
    vocabulary.remove("b")
    assert vocabulary.get("b") is None
    for wrong, kind in ((1, TypeError), ({1: [1]}, TypeError), ({"a": [3]}, ValueError)):
        with pytest.raises(kind):
            core.Vocabulary(3, wrong)
    with pytest.raises(ValueError, match="EOS token should not be inserted"):
        vocabulary.insert("end", 3)
    for call in (lambda: vocabulary.get(1), lambda: vocabulary.insert(1, 6), lambda: vocabulary.remove(1)):
        with pytest.raises(TypeError, match="Expected a token of type str or bytes"):
            call()


def test_copies_and_pickles(core):
    index = digits(core)
    guide = core.Guide(index)
    assert core.Guide(copy.deepcopy(index)) == guide == core.Guide(index)
    guide.advance(1)
    assert guide != core.Guide(index)
    for each in (core.Vocabulary(3, {b"\xff": [1], b"a": [2]}), index, guide):
        again = pickle.loads(pickle.dumps(each))
        assert again == each == copy.deepcopy(each)
        with pytest.raises(TypeError):
            hash(each)
    again = pickle.loads(pickle.dumps(guide))
    again.rollback_state(1)
    assert sorted(again.get_tokens()) == [1, 2]


def test_guides_of_two_indices_are_compared_by_state():
    index, other = digits(ours), digits(ours)
    other.get_next_state(0, 2)
    one, two = ours.Guide(index), ours.Guide(other)
    one.advance(1)
    assert one != two
    two.advance(2)
    assert one == two


@pytest.mark.parametrize("wrong", [b"", b"{}", b"[1]", b'{"regex": "a", "vocabulary": "x"}', [300], b"\x80\x04N."])
def test_unpickled_data_is_checked(wrong):
    for kind in (ours.Vocabulary, ours.Index, ours.Guide):
        with pytest.raises(ValueError):
            kind.from_binary(wrong)


def test_invalid_model_names_are_value_errors():
    with pytest.raises(ValueError, match="model is None, but must be the name of a model on the hub"):
        ours.Vocabulary.from_pretrained(None)


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "a{2,1}"])
def test_a_wrong_pattern_is_a_value_error(core, pattern):
    with pytest.raises(ValueError):
        core.Index(pattern, core.Vocabulary(3, {"a": [1]}))


def test_a_vocabulary_that_cannot_write_it(core):
    with pytest.raises(ValueError, match="incompatible with the regex"):
        core.Index("x", core.Vocabulary(3, {"1": [1]}))


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_kernels(core, library):
    arrays = pytest.importorskip(library, reason=f"{library} is not installed")
    if core is not ours:
        pytest.importorskip("numba", reason="outlines-core's kernels for numpy need numba")
    if core is not ours and library == "torch":
        pytest.skip("outlines-core compiles its kernel")
    kernels = import_module(f"{core.__name__}.kernels.{library}")
    mask = kernels.allocate_token_bitmask(40)
    assert tuple(mask.shape) == (1, 2) and str(mask.dtype).endswith("int32")
    tokens = {f"{number % 10}": [] for number in range(10)}
    for number in range(39):
        tokens[f"{number % 10}"].append(number)
    guide = core.Guide(core.Index("[27]", core.Vocabulary(39, tokens)))
    kernels.fill_next_token_bitmask(guide, mask)
    logits = np.zeros((1, 50), np.float32) if library == "numpy" else arrays.zeros(1, 50)
    kernels.apply_token_bitmask_inplace(logits, mask)
    assert [n for n in range(50) if float(logits[0, n]) == 0] == [n for n in range(39) if n % 10 in (2, 7)]
    for call in (
        lambda: kernels.apply_token_bitmask_inplace(
            logits, mask.astype("int64") if library == "numpy" else mask.long()
        ),
        lambda: kernels.fill_next_token_bitmask(guide, kernels.allocate_token_bitmask(9)[0]),
        lambda: kernels.fill_next_token_bitmask(guide, arrays.concatenate([mask, mask])),
        lambda: guide.write_mask_into(0, 2, 4),
        lambda: guide.write_mask_into(6, 2, 4),
        lambda: guide.write_mask_into(8, 1, 4),
        lambda: guide.write_mask_into(8, 2, 8),
    ):
        with pytest.raises(ValueError, match="Invalid"):
            call()


PIECES = [
    "a",
    "b",
    "[ab]",
    "(a|bc)",
    "c?",
    "(ab)*",
    "b+",
    "[^a]",
    r"\d",
    r"\w",
    ".",
    "é",
    "(?i)A",
    "(?:b|a{2,3})",
    r"[a-c&&[^b]]",
]


@examples(120)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5), st.integers(0, 2**32))
def test_walks_match_the_package(pieces, seed):
    """guided allows every token that outlines-core allows. It also allows tokens that outlines-core wrongly refuses
    (such as the second "a" of `(ab)*`, in a token that extends past a match). The package `regex` confirms that a match
    may begin with them.
    """
    judge = pytest.importorskip("regex", reason="regex is not installed")
    theirs = pytest.importorskip("outlines_core", reason="outlines_core is not installed")
    # Every byte is a token, so neither index has dead ends.
    table = {bytes([byte]): [byte] for byte in range(256)} | {b"ab": [256], b"bca": [257], "éa".encode(): [258]}
    pattern = "".join(pieces)
    one = ours.Guide(ours.Index(pattern, ours.Vocabulary(300, table)))
    try:
        other = theirs.Guide(theirs.Index(pattern, theirs.Vocabulary(300, table)))
    except ValueError:
        return  # a pattern that outlines-core refuses
    texts = {number: text for text, (number,) in table.items()}
    draw, read = random.Random(seed), b""
    for _ in range(12):
        tokens = one.get_tokens()
        assert one.is_finished() == other.is_finished() and tokens == sorted(set(tokens))
        assert set(other.get_tokens()) <= set(tokens)
        for token in set(tokens) - set(other.get_tokens()):
            text = (read + texts[token]).decode(errors="ignore")
            assert judge.fullmatch(pattern, text, partial=True, flags=judge.V1), text
        going = [token for token in other.get_tokens() if token != 300]
        if not going:
            break
        token = draw.choice(sorted(each for each in going if each < 128 or each > 255) or sorted(going))
        read += texts[token]
        one.advance(token)
        other.advance(token)


SCHEMAS = [
    {"type": "object", "properties": {"foo": {"type": "integer"}, "bar": {"type": "string"}},
     "required": ["foo", "bar"]},
    {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}, "c": {"type": "integer"}}},
    {"type": "array", "items": {"enum": ["x", 1, None]}, "minItems": 1, "maxItems": 2},
    {"const": {"a": [1, "é\n\"/"]}},
    {"type": "string", "minLength": 1, "maxLength": 2, "pattern": "^[a-c/\"]+$"},
    {"type": "string", "format": "date"},
    {"anyOf": [{"type": "integer", "minimum": 3, "maximum": 12}, {"$ref": "#/$defs/x"}], "$defs": {"x": {"const": 1}}},
    {"allOf": [{"type": "integer", "minimum": 0}, {"maximum": 30, "multipleOf": 7}]},
    {"oneOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]},
]  # fmt: skip
ANY = {byte: [byte[0]] for byte in (bytes([number]) for number in range(256))}


def written(index, seed, most=150):
    """A random text of an index; None if it did not end."""
    guide, draw, out = ours.Guide(index), random.Random(seed), bytearray()
    for _ in range(most):
        tokens = [token for token in guide.get_tokens() if token == 256 or 32 <= token < 127 or token > 193]
        token = 256 if 256 in tokens and draw.random() < 0.5 else draw.choice(tokens or guide.get_tokens())
        if token == 256:
            return out.decode()
        out.append(token)
        guide.advance(token)
    return None


@pytest.mark.parametrize("schema", SCHEMAS)
def test_patterns_of_schemas_mean_the_schema(schema):
    pattern = ours.json_schema.build_regex_from_schema(json.dumps(schema))
    texts = [text for seed in range(40) if (text := written(ours.Index(pattern, ours.Vocabulary(256, ANY)), seed))]
    assert len(texts) > 2
    for text in texts:
        jsonschema.validate(json.loads(text), schema)
        assert re.fullmatch(pattern, text)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_package_reads_our_patterns_and_we_read_its(schema):
    theirs = pytest.importorskip("outlines_core", reason="outlines_core is not installed")
    pattern = ours.json_schema.build_regex_from_schema(json.dumps(schema))
    index = ours.Index(pattern, ours.Vocabulary(256, ANY))
    other = theirs.Index(pattern, theirs.Vocabulary(256, ANY))
    for text in filter(None, (written(index, seed) for seed in range(20))):
        guide = theirs.Guide(other)
        assert guide.accepts_tokens(list(text.encode()))
    try:
        foreign = theirs.json_schema.build_regex_from_schema(json.dumps(schema))
    except ValueError:
        return
    assert ours.Index(foreign, ours.Vocabulary(256, ANY)).get_allowed_tokens(0)


@pytest.mark.parametrize(
    ("schema", "passing", "failing"),
    [
        ({"type": "object"}, ['{ }', '{"a":{"b" :[]}}'], ['{"a":1,"a":2}']),
        ({"type": "object", "properties": {"x": {"$ref": "#"}}}, ["{}", '{"x":{"x":{"x":{"x":{}}}}}'], ['{"x":1}']),
        ({"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}}, ["[1, 2]"], ["[1, 1]"]),
    ],
)  # fmt: skip
def test_schemas_that_no_pattern_has(schema, passing, failing):
    pattern = schemas.build_regex_from_schema(json.dumps(schema))
    with pytest.raises(re.error):
        re.compile(pattern)
    guide = ours.Guide(ours.Index(pattern, ours.Vocabulary(256, ANY)))
    ends = [guide.accepts_tokens(list(text.encode())) for text in (*passing, *failing)]
    assert ends == [True] * len(passing) + [False] * len(failing)


def test_white_space_and_errors_of_schemas(core):
    build = core.json_schema.build_regex_from_schema
    schema = json.dumps(SCHEMAS[0])
    assert re.fullmatch(build(schema), '{"foo" : 4 ,"bar":"baz    baz baz bar"}')
    spaced = '{     "foo"   :   4, \n\n\n   "bar": "baz    baz baz bar"\n\n}'
    assert re.fullmatch(build(schema, r"[\n ]*"), spaced) and not re.fullmatch(build(schema), spaced)
    with pytest.raises(TypeError, match="Expected a valid JSON string"):
        build("{'name':")
    with pytest.raises(TypeError):
        build({"type": "integer"})
    with pytest.raises(ValueError):
        build('{"type": "nothing"}')


def test_constants(core):
    for name, passing in {
        "BOOLEAN": "true", "NULL": "null", "INTEGER": "-12", "NUMBER": "1.5e+3", "STRING": '"a\\n"',
        "STRING_INNER": "a",
        "DATE": '"2024-02-29"', "TIME": '"12:00:00Z"', "DATE_TIME": '"2024-01-01T00:00:00Z"',
        "UUID": '"123e4567-e89b-12d3-a456-426614174000"', "URI": '"https://a.bc/d"', "WHITESPACE": " ",
    }.items():  # fmt: skip
        assert re.fullmatch(getattr(core.json_schema, name), passing), name
    assert core.json_schema.BOOLEAN == "(true|false)" and core.json_schema.EMAIL


def test_names_and_arguments():
    theirs = pytest.importorskip("outlines_core", reason="outlines_core is not installed")
    import inspect

    assert set(theirs.json_schema.__all__) == set(schemas.__all__)
    for kind in ("Vocabulary", "Index", "Guide"):
        own, other = getattr(ours, kind), getattr(theirs, kind)
        assert list(inspect.signature(own).parameters) == list(inspect.signature(other).parameters)
        for name in dir(other):
            if not name.startswith("_"):
                found = [list(inspect.signature(getattr(each, name)).parameters) for each in (own, other)]
                assert found[0] == found[1], name
    assert import_module("guided.compat.outlines_core.outlines_core").Guide is ours.Guide


def test_the_time_to_find_all_states_is_bounded(monkeypatch):
    index = digits(ours)
    monkeypatch.setattr("guided.compat.outlines_core.index.MAX_SECONDS", 0.0)
    for find in (index.get_transitions, index.get_final_states):
        with pytest.raises(LimitExceeded, match="seconds"):
            find()
