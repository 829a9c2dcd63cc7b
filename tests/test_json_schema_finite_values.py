"""The values of schemas with few values, compared with a list of all values, each judged by jsonschema.

The schemas of `finite` only allow values in ALL: few scalars, arrays of at most two of them, and objects of at most two
members named `a` and `b`.
"""

import json
from itertools import product

from hypothesis import event, given
from hypothesis import strategies as st

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema import JsonSchemaOptions
from guided.frontends.json_schema.algebra.expand import Expander
from guided.frontends.json_schema.algebra.finite_values import MAX_VALUES
from guided.frontends.json_schema.algebra.reader import Reader
from guided.frontends.json_schema.documents.resolve import Library
from guided.frontends.json_schema.documents.values import canonical_key, read_json
from guided.limits import Limits
from tests.json_schema_judge import Judge, NoJudge
from tests.json_schema_support import POOL, QUIET, schemas

SCALARS = (None, False, True, -1, 0, 0.5, 1, 2, "", "a", "b", "ab")
NAMES = ("a", "b")


def _universe():
    arrays = [list(items) for length in range(3) for items in product(SCALARS, repeat=length)]
    absent = object()
    objects = [
        {name: value for name, value in zip(NAMES, members, strict=True) if value is not absent}
        for members in product((absent, *SCALARS), repeat=len(NAMES))
    ]
    return [json.dumps(value) for value in (*SCALARS, *arrays, *objects)]


def _keys(texts):
    return {text: canonical_key(read_json(text, Limits())) for text in texts}


ALL = _keys(_universe())
OTHERS = _keys(POOL)
"""Values of which some are not in ALL."""


def expanded(schema):
    """An expander, and the schema as its goal."""
    options, limits = JsonSchemaOptions(), Limits()
    library = Library(schema, options, {}, limits)
    expander = Expander(Reader(library, options, limits), options, limits)
    return expander, expander.goal((library.root,))


def few(schema):
    """The result of `ListedValues` for the schema."""
    expander, goal = expanded(schema)
    return expander.listed_values.values_of(goal)


def allowed(schema, keys):
    """The values of `keys` that satisfy the schema."""
    judge = Judge(schema)
    return {key for text, key in keys.items() if judge(text)}


# --- schemas


def _optional(**keywords):
    return st.fixed_dictionaries({}, optional=keywords)


def _with(fixed, options):
    return options.map(lambda drawn: {**fixed, **drawn})


_LEAVES = st.one_of(
    st.sampled_from([{"type": "null"}, {"type": "boolean"}, {"type": ["boolean", "null"]}, {"const": "ab"}, False]),
    st.lists(st.sampled_from(SCALARS), min_size=1, max_size=4).map(lambda values: {"enum": values}),
    _with(
        {"type": "integer", "minimum": -1, "maximum": 2},
        _optional(exclusiveMinimum=st.sampled_from([-0.5, 0, 1]), exclusiveMaximum=st.sampled_from([0.5, 1, 2])),
    ),
    _with({"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.5}, _optional(exclusiveMaximum=st.just(1))),
    _with(
        {"type": "string"},
        st.fixed_dictionaries(
            {"pattern": st.sampled_from(["^a?$", "^(a|b)$", "^(ab)?$", "^a?b?$"])},
            optional={"minLength": st.integers(0, 2), "maxLength": st.integers(1, 2)},
        ),
    ),
    st.just({"type": "string", "maxLength": 0}),
)


def _combined(inner):
    several = st.lists(inner, min_size=1, max_size=2)
    return inner | several.map(lambda s: {"anyOf": s}) | several.map(lambda s: {"allOf": s})


_SCALAR = _combined(_LEAVES)
_COUNTS = st.integers(0, 2)
_ARRAY = st.one_of(
    _with(
        {"type": "array"},
        st.fixed_dictionaries(
            {"items": _SCALAR, "maxItems": _COUNTS},
            optional={
                "prefixItems": st.lists(_SCALAR, min_size=1, max_size=2),
                "minItems": _COUNTS,
                "uniqueItems": st.booleans(),
            },
        ),
    ),
    _with(
        {"type": "array", "items": False},
        st.fixed_dictionaries(
            {"prefixItems": st.lists(_SCALAR, min_size=1, max_size=2)},
            optional={"minItems": _COUNTS, "uniqueItems": st.booleans()},
        ),
    ),
)
_MEMBERS = {
    "properties": st.dictionaries(st.sampled_from(NAMES), _SCALAR, max_size=2),
    "required": st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
    "minProperties": _COUNTS,
    "maxProperties": _COUNTS,
}
_SOURCES = st.dictionaries(st.sampled_from(["^a$", "^[ab]$", "^b"]), _SCALAR, min_size=1, max_size=2)
_SHORT_NAMES = st.sampled_from([{"enum": ["a", "b"]}, {"pattern": "^[ab]$"}, {"const": "b"}, {"pattern": "^a?b?$", "maxLength": 1, "minLength": 1}])  # noqa: E501  # fmt: skip
_OBJECT = st.one_of(
    _with({"type": "object", "additionalProperties": False}, _optional(**_MEMBERS)),
    _with(
        {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": False},
        _optional(**_MEMBERS, patternProperties=_SOURCES),
    ),
    _with(
        {"type": "object"},
        st.fixed_dictionaries(
            {"propertyNames": _SHORT_NAMES, "additionalProperties": _SCALAR},
            optional={**_MEMBERS, "patternProperties": _SOURCES},
        ),
    ),
)
finite = _combined(_SCALAR | _ARRAY | _OBJECT)


# --- properties


@QUIET
@given(finite)
def test_all_values_and_no_others(schema):
    try:
        found = few(schema)
    except UnsupportedError as error:
        return event(error.reason[:40])
    assert found is not None
    keys = [canonical_key(value) for value in found]
    assert len(set(keys)) == len(keys) <= MAX_VALUES
    assert set(keys) == allowed(schema, ALL)


@QUIET
@given(st.data())
def test_no_value_is_forgotten(data):
    """With keywords of every kind, the result is an upper bound. There is no result if there may be many values."""
    schema = data.draw(schemas())
    if data.draw(st.booleans()):
        texts = data.draw(st.lists(st.sampled_from(sorted({*ALL, *OTHERS})), min_size=1, max_size=9))
        schema = {"allOf": [schema, {"enum": [*map(json.loads, texts)]}], "$defs": schema["$defs"]}
    elif data.draw(st.integers(0, 3)):
        schema = {"allOf": [schema, data.draw(finite)], "$defs": schema["$defs"]}
    try:
        found = few(schema)
        valid = allowed(schema, ALL | OTHERS)
    except (SpecError, UnsupportedError, NoJudge) as error:  # such as a schema inside itself
        return event(str(error)[:40])
    event("many" if found is None else "some" if valid else "none")
    if found is not None:
        keys = [canonical_key(value) for value in found]
        assert len(set(keys)) == len(keys) <= MAX_VALUES
        assert valid <= set(keys)


@QUIET
@given(
    st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b", "ab", "q"]), st.booleans(), max_size=2),
            "required": st.lists(st.sampled_from(["a", "ab"]), max_size=1),
            "patternProperties": st.dictionaries(
                st.sampled_from(["^a$", "^[ab]{1,2}$", "^b", "a"]), st.booleans(), min_size=1, max_size=2
            ),
            "additionalProperties": st.booleans(),
            "propertyNames": st.sampled_from([{"pattern": "^[ab]{0,3}$"}, {"enum": ["a", "ab", "x"]}, {"maxLength": 0}])
            | st.just({"pattern": "^a"}),
        },
    )
)
def test_names_that_are_not_declared(schema):
    judge = Judge({key: value for key, value in schema.items() if key != "required"})
    declared = {*schema.get("properties", ()), *schema.get("required", ())}
    names = {"".join(letters) for length in range(5) for letters in product("abx", repeat=length)} - declared
    possible = {name for name in names if judge(json.dumps({name: 1}))}
    many = any(len(name) > 3 for name in possible)  # then of all lengths
    expander, goal = expanded(schema)
    for shape in expander.expand(goal).shapes:  # one, or none if a required member is impossible
        assert expander.listed_values.count_additional_names(shape) == (None if many else len(possible))
