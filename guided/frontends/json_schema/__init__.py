"""Turns a JSON Schema into a grammar. In: a schema (JSON text, dict or bool) and options. Out: an IR `Grammar`, or a
report.

    documents/   text -> values -> schemas with their locations; resolves references
    algebra/     schemas -> the values they allow, as a union of shapes; conjunction, negation, conditions, counts
    text/        shapes -> IR rules that define how these values are written

Each keyword is enforced exactly, or refused with its JSON Pointer. `documents/keywords.py` has the table of keywords.
The exceptions are documented in `text/numbers.py` (spellings of numbers with an exponent) and `formats/`.
"""

from __future__ import annotations

from guided.frontends.json_schema.check import Entry, Report, check_json_schema
from guided.frontends.json_schema.compile import json_schema_to_grammar
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.json_schema.text.spelling import JSON_STRING

__all__ = ["JSON_STRING", "Entry", "JsonSchemaOptions", "Report", "check_json_schema", "json_schema_to_grammar"]
