"""A schema with the shape and size of FHIR's: 150 kinds of resources that contain each other, with the default limits.

The names and types of members are random. As in FHIR, no resource has `"type": "object"`, each has a required constant,
members come in pairs (`birthDate` and `_birthDate`), and strings have patterns.
"""

from __future__ import annotations

import json
import random
from typing import Any

from tests.json_schema_judge import Judge
from tests.json_schema_support import byte_compiler, matches

KINDS, ELEMENTS = 150, 450
PATTERNS = {
    "id": "^[A-Za-z0-9\\-\\.]{1,64}$",
    "code": "^[^\\s]+(\\s[^\\s]+)*$",
    "date": "^([0-9]{4})(-(0[1-9]|1[0-2])(-(0[1-9]|[1-2][0-9]|3[0-1]))?)?$",
    "decimal": "^-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?$",
    "base64Binary": "^(\\s*([0-9a-zA-Z\\+\\/=]){4}\\s*)+$",
}
SYLLABLES = ["ver", "sion", "con", "tact", "pe", "riod", "sub", "ject", "sta", "tus", "ref", "er", "ence", "val", "ue"]


def resources() -> dict[str, Any]:
    rng = random.Random(4)

    def ref(name: str) -> dict[str, str]:
        return {"$ref": f"#/definitions/{name}"}

    def members(count: int) -> dict[str, Any]:
        out: dict[str, Any] = {"id": ref("id"), "extension": {"type": "array", "items": ref("Extension")}}
        for _ in range(count):
            name = "".join(rng.choices(SYLLABLES, k=rng.randint(2, 6)))
            if rng.random() < 0.5:
                out |= {name: ref(rng.choice([*PATTERNS])), f"_{name}": ref("Element")}
            else:
                element = ref(f"Element{rng.randrange(ELEMENTS)}")
                out[name] = rng.choice([element, {"type": "array", "items": element}])
        return out

    definitions: dict[str, Any] = {name: {"type": "string", "pattern": one} for name, one in PATTERNS.items()}
    definitions["Element"] = {"properties": members(0), "additionalProperties": False}
    choice = {f"value{name[0].upper()}{name[1:]}{at}": ref(name) for name in PATTERNS for at in range(12)}
    definitions["Extension"] = {"properties": {**members(0), **choice}, "additionalProperties": False}
    for at in range(ELEMENTS):
        definitions[f"Element{at}"] = {"properties": members(8), "additionalProperties": False}
    for at in range(KINDS):
        inner = {"contained": {"type": "array", "items": ref("ResourceList")}}
        definitions[f"Kind{at}"] = {
            "properties": {"resourceType": {"const": f"Kind{at}"}, **inner, **members(14)},
            "additionalProperties": False,
            "required": ["resourceType"],
        }
    definitions["ResourceList"] = {"oneOf": [ref(f"Kind{at}") for at in range(KINDS)]}
    return {"$schema": "http://json-schema.org/draft-06/schema#", **ref("ResourceList"), "definitions": definitions}


def test_resources_compile_with_the_default_limits() -> None:
    schema = resources()
    grammar, judge = byte_compiler().compile_json_schema(schema, property_order="any"), Judge(schema)
    inside = {"resourceType": "Kind7", "id": "a.b", "extension": [{"valueDate3": "2020-02"}]}
    values = [
        {"resourceType": "Kind3"},
        {"resourceType": "Kind149", "contained": [inside, {"resourceType": "Kind8", "contained": []}]},
        {"resourceType": "Kind149", "contained": [{**inside, "id": "a b"}]},
        {"resourceType": "Kind149", "contained": [{"resourceType": "Kind150"}]},
        {"resourceType": "Kind3", "extension": [{"valueDate3": "2020-13"}]},
        {"id": "x"},
        "a text, which all resources allow",
    ]
    expected = [judge(json.dumps(value)) for value in values]
    assert expected == [True, True, False, False, False, False, False]
    assert [matches(grammar, json.dumps(value)) for value in values] == expected
