"""Random JSON Schemas of all drafts, and values near them: few names and few values, combined in many ways.

In: a `random.Random`. Out: a schema, or values. Combinations that are difficult to implement are frequent:
conjunctions, `uniqueItems` beside `contains`, counts, names in few classes, `unevaluated*`. Schemas are small, since
the depth is bounded.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

__all__ = ["draw_schema", "draw_value"]

NAMES = ("a", "b", "ab", "c", "")
SCALARS = (None, True, False, 0, 1, 2, -1, 0.5, 1.5, 10, "", "a", "b", "ab", "1")
CONSTANTS = (*SCALARS, [], {}, [1], ["a"], [[]], {"a": 1}, {"b": []}, [1, 1])
PATTERNS = ("^a", "b$", "^.?$", "^[ab]$", "[0-9]", "a|b", "^a?$", "^(a|ab)$", "^$", "..")
DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}
DEEPEST = 3


def draw_schema(rng: random.Random) -> dict[str, Any]:
    """A schema with `$schema`. Some of it is in definitions, which may be recursive."""
    draft = rng.choices(tuple(DRAFTS), (5, 5, 12, 13, 65))[0]
    drawer = _Drawer(rng, draft)
    schema = drawer.schema(0)
    schema = dict(schema) if isinstance(schema, dict) else {"allOf": [schema]} if draft != "draft4" else {}
    if drawer.referred:
        schema[drawer.definitions] = {name: drawer.schema(1) for name in ("d", "e")}
    return {"$schema": DRAFTS[draft], **schema}


def draw_value(rng: random.Random, depth: int = 0) -> Any:
    """One of the few values that the schemas mention."""
    if depth > 2 or rng.random() < 0.35:
        return rng.choice(CONSTANTS if depth < 2 else SCALARS)
    if rng.random() < 0.5:
        return [draw_value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return {name: draw_value(rng, depth + 1) for name in rng.sample((*NAMES, "x1"), rng.randint(0, 3))}


class _Drawer:
    def __init__(self, rng: random.Random, draft: str) -> None:
        self.rng, self.draft = rng, draft
        self.age = tuple(DRAFTS).index(draft)
        self.definitions = "$defs" if self.age >= 3 else "definitions"
        self.referred = False

    def some(self, share: float) -> bool:
        return self.rng.random() < share

    def schema(self, depth: int) -> Any:
        """Any schema."""
        if self.age >= 1 and self.some(0.06):
            return self.some(0.6)
        if depth >= DEEPEST:
            return self.leaf()
        if depth and self.some(0.06):
            self.referred = True
            return {"$ref": self.rng.choice([f"#/{self.definitions}/{name}" for name in "ddde"] + ["#"])}
        kinds: tuple[Callable[[int], dict[str, Any]], ...]
        kinds = (self.array, self.object, self.combined, lambda _: self.leaf())
        shares = (5, 4, 5, 1) if depth == 0 else (3, 2, 3, 5)
        return self.rng.choices(kinds, shares)[0](depth)

    def leaf(self) -> dict[str, Any]:
        rng = self.rng
        kind = rng.randrange(7)
        if kind == 0:
            return {"enum": rng.sample(CONSTANTS, rng.randint(1, 4))}
        if kind == 1:
            constant = rng.choice(CONSTANTS)
            return {"const": constant} if self.age >= 1 else {"enum": [constant]}
        if kind == 2:
            return self.number()
        if kind == 3:
            return self.string()
        if kind == 4:
            return {"type": rng.sample(["null", "boolean", "integer", "string", "array", "object"], rng.randint(1, 2))}
        return {"type": rng.choice(["null", "boolean", "integer", "number", "string", "array", "object"])}

    def number(self) -> dict[str, Any]:
        rng = self.rng
        schema: dict[str, Any] = {"type": rng.choice(["integer", "number"])}
        if self.some(0.5):
            schema["minimum"] = rng.choice([0, 1, -1, 0.5])
            if self.some(0.3):
                schema |= {"exclusiveMinimum": True if self.age == 0 else schema.pop("minimum")}
        if self.some(0.5):
            schema["maximum"] = rng.choice([1, 2, 10, 1.5])
        if self.some(0.2):
            schema["multipleOf"] = rng.choice([1, 2, 0.5])
        return schema

    def string(self) -> dict[str, Any]:
        rng = self.rng
        schema: dict[str, Any] = {"type": "string"}
        if self.some(0.5):
            schema["pattern"] = rng.choice(PATTERNS)
        if self.some(0.3):
            schema["minLength"] = rng.randint(0, 2)
        if self.some(0.4):
            schema["maxLength"] = rng.randint(0, 2)
        return schema

    def array(self, depth: int) -> dict[str, Any]:
        rng, schema = self.rng, dict[str, Any]()
        if self.some(0.7):
            schema["type"] = "array"
        prefix = [self.schema(depth + 1) for _ in range(rng.randint(1, 3))] if self.some(0.35) else None
        rest = self.schema(depth + 1) if self.some(0.5) else None
        if self.age == 4:
            schema |= ({"prefixItems": prefix} if prefix else {}) | ({} if rest is None else {"items": rest})
        elif prefix:
            schema |= {"items": prefix} | ({} if rest is None else {"additionalItems": rest})
        elif rest is not None:
            schema["items"] = rest
        if self.some(0.5):
            schema["uniqueItems"] = True
        for keyword in ("minItems", "maxItems"):
            if self.some(0.35):
                schema[keyword] = rng.randint(0, 4)
        if self.age >= 1 and self.some(0.45):
            schema |= self.contains(depth)
        if self.age >= 3 and self.some(0.15):
            schema["unevaluatedItems"] = self.schema(depth + 1)
        return schema

    def contains(self, depth: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"contains": self.schema(max(depth + 1, 2))}
        for keyword in ("minContains", "maxContains"):
            if self.age >= 3 and self.some(0.4):
                schema[keyword] = self.rng.randint(0, 3)
        return schema

    def object(self, depth: int) -> dict[str, Any]:
        rng, schema = self.rng, dict[str, Any]()
        if self.some(0.7):
            schema["type"] = "object"
        if self.some(0.6):
            schema["properties"] = {n: self.schema(depth + 1) for n in rng.sample(NAMES, rng.randint(1, 3))}
        if self.some(0.35):
            schema["required"] = rng.sample(NAMES[:-1], rng.randint(1, 2))  # ajv ignores the empty name
        if self.some(0.35):
            schema["patternProperties"] = {p: self.schema(depth + 1) for p in rng.sample(PATTERNS, rng.randint(1, 2))}
        if self.some(0.4):
            schema["additionalProperties"] = False if self.some(0.5) else self.schema(depth + 1)
        if self.age >= 1 and self.some(0.2):
            schema["propertyNames"] = self.names()
        for keyword in ("minProperties", "maxProperties"):
            if self.some(0.25):
                schema[keyword] = rng.randint(0, 3)
        if self.some(0.15):
            schema |= self.dependencies(depth)
        if self.age >= 3 and self.some(0.25):
            schema["unevaluatedProperties"] = False if self.some(0.5) else self.schema(depth + 1)
        return schema

    def names(self) -> dict[str, Any]:
        rng = self.rng
        return rng.choice([{"pattern": rng.choice(PATTERNS)}, {"enum": rng.sample(NAMES, 2)}, {"maxLength": 1},
                           {"not": {"const": "a"}}])  # fmt: skip

    def dependencies(self, depth: int) -> dict[str, Any]:
        rng = self.rng
        name, needed = rng.choice(NAMES), rng.sample(NAMES[:-1], 1)
        if self.age < 3:
            return {"dependencies": {name: needed if self.some(0.5) else self.schema(depth + 1)}}
        return rng.choice([{"dependentRequired": {name: needed}}, {"dependentSchemas": {name: self.schema(depth + 1)}}])

    def combined(self, depth: int) -> dict[str, Any]:
        rng = self.rng
        base = rng.choice((self.array, self.object, lambda _: dict[str, Any]()))(depth + 1)
        keyword = rng.choices(["allOf", "anyOf", "oneOf", "not", "if"], (6, 3, 3, 2, 2 if self.age >= 2 else 0))[0]
        if keyword == "not":
            base["not"] = self.schema(depth + 1)
        elif keyword == "if":
            base |= {"if": self.schema(depth + 1), "then": self.schema(depth + 1), "else": self.schema(depth + 1)}
        else:
            base[keyword] = [self.schema(depth + 1) for _ in range(rng.randint(1, 3))]
        if self.age >= 3 and self.some(0.3):
            base[rng.choice(["unevaluatedItems", "unevaluatedProperties"])] = self.schema(depth + 1)
        return base
