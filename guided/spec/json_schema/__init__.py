"""JSON Schema -> grammar. In: a schema (JSON text, dict or bool) and options. Out: an IR `Grammar`, or a report.

    text -> values -> resolve (places, references) -> reader (keywords) -> expand (union of shapes) -> lower (IR)

Each keyword is enforced exactly or refused with its JSON Pointer; see `keywords.py` for the table and the module
docstrings of `numbers.py` and `lower.py` for the two stated limits.
"""

from __future__ import annotations

from guided.spec.json_schema.check import Entry, Report, check_json_schema
from guided.spec.json_schema.compile import json_schema_to_grammar
from guided.spec.json_schema.options import JsonSchemaOptions
from guided.spec.json_schema.text.spelling import JSON_STRING

__all__ = ["JSON_STRING", "Entry", "JsonSchemaOptions", "Report", "check_json_schema", "json_schema_to_grammar"]
