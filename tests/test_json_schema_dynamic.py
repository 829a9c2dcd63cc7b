"""Dynamic references compared with a direct implementation of the standard."""

from urllib.parse import urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.json_schema import JsonSchemaOptions, json_schema_to_grammar
from guided.frontends.json_schema.documents.dynamic_scope import enter, outermost_resource
from guided.frontends.json_schema.documents.resolve import Library
from guided.limits import Limits
from tests.json_schema_support import verdicts

Y2019 = "https://json-schema.org/draft/2019-09/schema"


# --- $dynamicRef: random resources, judged by an evaluator that keeps the whole path of resources

NAMES = ("a", "b")
TYPES = {"string": str, "integer": int, "object": dict}


@st.composite
def _documents(draw):
    count = draw(st.integers(2, 4))
    resources = [{"$id": f"r{at}", "$defs": {}} for at in range(count)]
    named = {}
    for at, resource in enumerate(resources):
        for name in NAMES:
            how = draw(st.sampled_from(["none", "root", "def", "def", "def", "plain"]))
            if how == "root" and "$dynamicAnchor" not in resource:
                resource["$dynamicAnchor"] = name
            elif how in ("def", "plain"):
                resource["$defs"][name] = {"$dynamicAnchor" if how == "def" else "$anchor": name}
            else:
                continue
            named.setdefault(at, []).append(name)
    links = [f"r{at}#{name}" for at, names in named.items() for name in names]
    links += [f"r{at}" for at in range(count)]

    def body(at, types):
        schema = {"type": [draw(st.sampled_from(types))]} if draw(st.booleans()) else {}
        schema["properties"] = {name: member(at) for name in draw(st.sampled_from(["x", "x", "y", "xy"]))}
        if at + 1 < count and draw(st.integers(0, 3)):
            schema["$ref"] = f"r{draw(st.integers(at + 1, count - 1))}"
        return schema

    def member(at):
        own = [f"#{name}" for name in named.get(at, ())]
        link = draw(st.sampled_from(links + own * 4))
        reference = {draw(st.sampled_from(["$ref", "$dynamicRef", "$dynamicRef"])): link}
        if link.startswith("#") or draw(st.integers(0, 4)):
            return reference
        return {"$id": f"inner{at}", "properties": {"x": reference}}  # a resource on the path

    for at, resource in enumerate(resources):
        for definition in resource["$defs"].values():
            definition.update(body(at, sorted(TYPES)))
        resource.update(body(at, ["object"]))
    main = {"$id": "http://t/main", "$ref": "r0", "$defs": {}}
    if draw(st.booleans()):
        main["$defs"]["a"] = {"$dynamicAnchor": "a", "type": [draw(st.sampled_from(sorted(TYPES)))]}
    for at, resource in enumerate(resources):  # next to the others, or inside the previous one
        inside = resources[at - 1] if at and draw(st.booleans()) else main
        inside["$defs"][f"r{at}"] = resource
    return main


LEAVES = (1, "s", {})
FLAT = [{name: leaf} for name in "xy" for leaf in LEAVES]
INSTANCES = [*FLAT, *({name: inner} for name in "xy" for inner in FLAT), *({"x": {"x": inner}} for inner in FLAT)]


class _Naive:
    """A literal implementation of the standard, for the keywords that `_documents` draws."""

    def __init__(self, main):
        self.resources, self.anchors = {}, {}
        self._walk(main, "")

    def _walk(self, schema, base):
        if "$id" in schema:
            base = urljoin(base, schema["$id"])
            self.resources.setdefault(base, schema)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if keyword in schema:
                self.anchors[base, schema[keyword]] = (keyword, schema)
        for keyword in ("$defs", "properties"):
            for inner in schema.get(keyword, {}).values():
                self._walk(inner, base)

    def valid(self, value, schema, base, path):
        if "$id" in schema:
            base = urljoin(base, schema["$id"])
        if not path or path[-1] != base:
            path = [*path, base]
        if not isinstance(value, tuple(TYPES[name] for name in schema.get("type", TYPES))) and "type" in schema:
            return False
        for keyword in ("$ref", "$dynamicRef"):
            if keyword in schema and not self._follow(value, keyword, schema[keyword], base, path):
                return False
        members = schema.get("properties", {})
        return not isinstance(value, dict) or all(
            self.valid(value[name], inner, base, path) for name, inner in members.items() if name in value
        )

    def _follow(self, value, keyword, reference, base, path):
        uri, _, name = reference.partition("#")
        uri = urljoin(base, uri) if uri else base
        if not name:
            return self.valid(value, self.resources[uri], uri, path)
        how, target = self.anchors[uri, name]
        if keyword == "$dynamicRef" and how == "$dynamicAnchor":
            uri = next((u for u in path if self.anchors.get((u, name), ("",))[0] == "$dynamicAnchor"), uri)
            target = self.anchors[uri, name][1]
        return self.valid(value, target, uri, path)


@given(_documents())
def test_dynamic_references_mean_the_outermost_anchor(main):
    naive = _Naive(main)
    assert verdicts(main, *INSTANCES) == [naive.valid(value, main, "", []) for value in INSTANCES]


# --- the rules one by one

ITEMS = {"$id": "list", "type": "array", "items": {"$dynamicRef": "#item"}}


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        ({"$dynamicAnchor": "item"}, {"$dynamicAnchor": "item", "type": "string"}, [True, False]),
        ({"$dynamicAnchor": "item"}, {"$anchor": "item", "type": "string"}, [True, True]),
        ({"$anchor": "item"}, {"$dynamicAnchor": "item", "type": "string"}, [True, True]),
        ({"$dynamicAnchor": "item", "type": "null"}, {"$dynamicAnchor": "other", "type": "string"}, [False, False]),
    ],
    ids=["both dynamic", "plain outside", "plain inside", "another name"],
)
def test_the_outermost_anchor_wins_where_both_are_dynamic(inner, outer, expected):
    schema = {"$id": "http://t/", "$ref": "list", "$defs": {"o": outer, "l": {**ITEMS, "$defs": {"i": inner}}}}
    assert verdicts(schema, ["a"], [1]) == expected
    pointed = {**ITEMS, "items": {"$dynamicRef": "#/$defs/i"}}  # a pointer is not a dynamic anchor
    schema["$defs"]["l"] = {**pointed, "$defs": {"i": inner}}
    assert verdicts(schema, ["a"], [1]) == [inner.get("type") != "null"] * 2


def test_a_place_has_a_meaning_for_each_way_to_it():
    generic = {**ITEMS, "$defs": {"i": {"$dynamicAnchor": "item", "type": "null"}}}
    of = {name: {"$id": name, "$ref": "list", "$defs": {"i": {"$dynamicAnchor": "item", "type": name}}}
          for name in ("string", "integer")}  # fmt: skip
    names = {name: {"$ref": name} for name in (*of, "list")}
    schema = {"$id": "http://t/", "properties": names, "$defs": {"l": generic, **of}}
    values = [{name: [item]} for name in names for item in ("a", 1, None)]
    assert verdicts(schema, *values) == [True, False, False, False, True, False, False, False, True]


def test_unevaluated_properties_see_through_dynamic_references():
    tree = {"$id": "http://t/tree", "$dynamicAnchor": "node", "type": "object",
            "properties": {"data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}}}  # fmt: skip
    strict = {"$id": "http://t/strict", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": False}
    values = [{"children": [{"data": 1}]}, {"children": [{"daat": 1}]}]
    assert verdicts(strict, *values, registry={"http://t/tree": tree}) == [True, False]
    assert verdicts({"$ref": "http://t/tree"}, *values, registry={"http://t/tree": tree}) == [True, True]
    chosen = {"$dynamicRef": "#node", "$defs": {"n": {"$dynamicAnchor": "node", "properties": {"a": {}}}},
              "unevaluatedProperties": False}  # fmt: skip
    assert verdicts(chosen, {"a": 1}, {"b": 1}) == [True, False]


@pytest.mark.parametrize(
    ("inner", "outer", "verdict"), [(True, True, True), (True, False, False), (False, True, False)], ids=str
)
def test_recursive_references(inner, outer, verdict):
    """Only the outer resource allows an integer below."""
    nested = {"type": "object", "additionalProperties": {"$recursiveRef": "#"}}
    node = {"$id": "node", "$recursiveAnchor": inner, "anyOf": [{"type": "string"}, nested]}
    schema = {"$schema": Y2019, "$id": "http://t/", "$recursiveAnchor": outer,
              "anyOf": [{"type": "integer"}, {"$ref": "node"}], "$defs": {"n": node}}  # fmt: skip
    assert verdicts(schema, 1, {"a": "s"}, {"a": {"b": 1}}, {"a": None}) == [True, True, verdict, False]


def test_a_recursive_reference_has_one_form():
    with pytest.raises(SpecError, match="must be '#'"):
        json_schema_to_grammar({"$schema": Y2019, "items": {"$recursiveRef": "#/$defs/a"}})
    with pytest.raises(UnsupportedError, match="not a keyword of 2020-12"):
        json_schema_to_grammar({"items": {"$recursiveRef": "#"}})


def test_complements_keep_the_scope():
    generic = {**ITEMS, "$defs": {"i": {"$dynamicAnchor": "item"}}}
    schema = {"$id": "http://t/", "type": "array", "not": {"$ref": "list"},
              "$defs": {"l": generic, "i": {"$dynamicAnchor": "item", "type": "string"}}}  # fmt: skip
    assert verdicts(schema, ["a"], [1], ["a", None], []) == [False, True, True, False]


# --- scopes


@given(st.lists(st.tuples(st.sampled_from("uvw"), st.sets(st.sampled_from("abc")))))
def test_a_scope_is_the_first_resource_for_each_name(path):
    resources = {}
    for uri, names in path:
        resources.setdefault(uri, names)
    scope, first = (), {}
    for uri, _ in path:
        before, scope = scope, enter(scope, resources[uri], uri)
        assert enter(scope, resources[uri], uri) is scope  # entering a resource again changes nothing
        assert set(before) <= set(scope)
        for name in resources[uri]:
            first.setdefault(name, uri)
    assert dict(scope) == first
    assert list(scope) == sorted(scope)
    assert all(outermost_resource(scope, name) == first.get(name) for name in "abc")


def _ring(count):
    resources = {
        f"r{at}": {"$id": f"r{at}", "$dynamicAnchor": "node",
                   "properties": {f"p{to}": {"$ref": f"r{to}"} for to in range(count)},
                   "items": {"$dynamicRef": "#node"}}
        for at in range(count)
    }  # fmt: skip
    return {"$id": "http://t/", "$ref": "r0", "$defs": resources}


def test_recursion_ends_and_shares_its_rules():
    few, many = (len(json_schema_to_grammar(_ring(count)).rules) for count in (4, 8))
    assert many <= 2 * few + 8  # each resource has one meaning, since all are entered from the same outermost one


def test_without_dynamic_anchors_every_scope_is_empty():
    schema = {
        "$id": "http://t/",
        "properties": {"a": {"$id": "a", "items": {"$ref": "b"}}},
        "$defs": {"b": {"$id": "b"}},
    }
    library = Library(schema, JsonSchemaOptions(), {}, Limits())
    items = library.child(library.child(library.root, "properties", "a"), "items")
    assert library.root.scope == items.scope == library.resolve(items, "$ref").scope == ()


def test_scopes_count_as_nodes():
    resources = {
        f"r{at}": {"$id": f"r{at}", "$dynamicAnchor": f"n{at}",
                   "properties": {f"p{to}": {"$ref": f"r{to}"} for to in range(at + 1, 24)}}
        for at in range(24)
    }  # fmt: skip
    with pytest.raises(LimitExceeded, match="nodes"):
        json_schema_to_grammar({"$id": "http://t/", "$ref": "r0", "$defs": resources}, limits=Limits(nodes=50_000))
