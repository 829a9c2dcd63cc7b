"""What masks and steps make, counted in configurations: no single one may cost many times what it says."""

from __future__ import annotations

import json
from typing import Any

from guided.matching import GrammarMatcher
from tests.core_support import mask_of
from tests.json_schema_support import byte_compiler


def made(schema: dict[str, Any], text: str) -> int:
    """The configurations that masks along a text make; the masks are what a walk of the vocabulary says."""
    matcher = GrammarMatcher(byte_compiler().compile_json_schema(schema, property_order="any"))
    masks = []
    for byte in text.encode():
        masks.append(mask_of(matcher))
        assert matcher.accept_token(byte)
    configurations = matcher.configurations
    for mask in reversed(masks):
        matcher.rollback(1)
        assert mask == tuple(matcher._walk_mask())
    return configurations


def test_whether_an_entry_can_end_in_a_new_way_needs_no_shortest_one() -> None:
    """The shortest object is there already: whether there is another one is told by any that is met."""
    names = {"cli": "binary", "dir": "location", "env": "variable", "file": "location"}
    kinds = [
        {
            "type": "object",
            "properties": {"rule": {"enum": [rule]}, "on": {"type": "boolean"}, "line": {"type": ["string", "null"]}},
            "required": ["rule", name],
        }
        for rule, name in names.items()
    ]
    schema = {"type": "array", "uniqueItems": True, "items": {"oneOf": kinds}}
    values = [{"rule": "cli", "binary": 0}, {"rule": "cli", "binary": 1}, {"rule": "dir", "location": 0}]
    assert made(schema, json.dumps(values)) < 5_000
