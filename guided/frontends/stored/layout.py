"""The classes that occur in stored grammars, and the forms of their fields. Data only.

The position of a class in the table is its number in stored grammars. Its fields are in declaration order. After
any change to this table, to `fields.py` or to the meaning of a node, increase `container.FORMAT` and change
`automaton/native/python/row_layout.hpp`, with which the core reads the same tables.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, get_args

from guided.frontends.stored.compound_fields import (
    DEFERRED_GRAMMAR,
    OPTIONS,
    TOKENS,
    entries_of,
    entry_of,
    instances_of,
    items_of,
    json_of,
    map_of,
)
from guided.frontends.stored.fields import (
    BYTES,
    COUNT,
    COUNTS,
    FLAG,
    LIMIT,
    NAMES,
    RANGES,
    STATES,
    TEMPERATURE,
    TEXT,
    TEXTS,
    TOKEN,
    Field,
)
from guided.ir import conditions, nodes
from guided.ir.embedded import EmbeddedSchema
from guided.ir.encodings import Encoding, Form, Span
from guided.ir.indentation import Indentation

__all__ = ["CLASS_NUMBERS", "FIELDS", "LAYOUT"]

_NODE: Final = entry_of(*get_args(nodes.Node))
_NODES: Final = entries_of(*get_args(nodes.Node))
_CONDITIONS: Final = get_args(conditions.Condition)


def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


LAYOUT: Final[tuple[tuple[type, tuple[Field, ...]], ...]] = (
    (nodes.Chars, (RANGES,)),
    (nodes.Text, (TEXT,)),
    (nodes.Seq, (_NODES,)),
    (nodes.Alt, (_NODES,)),
    (nodes.Repeat, (_NODE, COUNT, LIMIT)),
    (nodes.And, (_NODES,)),
    (nodes.Not, (_NODE,)),
    (nodes.Automaton, (STATES, COUNT)),
    (nodes.Substrings, (TEXTS, FLAG)),
    (nodes.Dispatch, (entry_of(nodes.Automaton), COUNTS, _NODES)),
    (nodes.Length, (_NODE, COUNT, LIMIT)),
    (nodes.Encoded, (_NODE, entry_of(Encoding))),
    (nodes.Ref, (TEXT,)),
    (nodes.Special, (TOKEN,)),
    (nodes.OtherTokens, (TOKENS, COUNT, LIMIT)),
    (nodes.MaxTokens, (_NODE, COUNT)),
    (nodes.Member, (_NODE, FLAG, FLAG)),
    (nodes.Permutation, (
        entries_of(nodes.Member), _NODE, COUNT, LIMIT, COUNTS, FLAG, entry_of(*_CONDITIONS, is_optional=True),
    )),
    (nodes.Distinct, (_NODE, TEXTS)),
    (nodes.Entry, (_NODE,)),
    (nodes.Lexed, (entry_of(nodes.Grammar),)),
    (conditions.Written, (COUNTS,)),
    (conditions.AllOf, (entries_of(*_CONDITIONS),)),
    (conditions.AnyOf, (entries_of(*_CONDITIONS),)),
    (conditions.NoneOf, (entries_of(*_CONDITIONS),)),
    (Form, (RANGES, items_of(instances_of(Span, "low", "high", "value", "step")))),
    (Encoding, (TEXT, entries_of(Form))),
    (nodes.Keyword, (TEXT, _NODE, FLAG)),
    (nodes.Terminal, (TEXT, _NODE, entries_of(nodes.Keyword), TEXT)),
    (Indentation, (TEXT, TEXT, TEXT, NAMES, NAMES, COUNT, COUNT, COUNT)),
    (nodes.Lexer, (
        entries_of(nodes.Terminal), NAMES, entry_of(Indentation, is_optional=True), map_of(NAMES, NAMES), FLAG,
        map_of(NAMES, NAMES),
    )),
    (nodes.Ending, (_NODE, _NODE, TEXT)),
    (nodes.Region, (TEXT, entry_of(nodes.Ending, is_optional=True), TEMPERATURE, FLAG)),
    (nodes.DeferredRule, (DEFERRED_GRAMMAR, BYTES, COUNT)),
    (EmbeddedSchema, (json_of(str, dict, bool), OPTIONS, json_of(dict), json_of(dict), TEXT)),
    (nodes.Grammar, (
        map_of(TEXT, _NODE), TEXT, map_of(TEXT, TEXT), entry_of(nodes.Lexer, is_optional=True),
        map_of(TEXT, entry_of(nodes.Region)), map_of(TEXT, entry_of(nodes.DeferredRule)), FLAG,
        map_of(TEXT, entry_of(EmbeddedSchema)),
    )),
)  # fmt: skip
"""Each class, and its fields."""

CLASS_NUMBERS: Final[dict[type, int]] = {cls: number for number, (cls, _) in enumerate(LAYOUT)}
FIELDS: Final[dict[type, tuple[tuple[str, Field], ...]]] = {
    cls: tuple(zip(_field_names(cls), fields, strict=True)) for cls, fields in LAYOUT
}
"""Each class, and its fields with their names."""
