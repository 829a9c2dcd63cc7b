"""The schemas of rules, so that explanations can name locations in a schema. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["EmbeddedSchema"]


@dataclass(frozen=True, slots=True)
class EmbeddedSchema:
    """The schema from which a rule was made. It does not change the language of the rule.

    Attributes:
        schema: JSON text, a dict or a bool, as its author wrote it.
        options: the `JsonSchemaOptions` with which it was read.
        registry: URI -> schema, for its references.
        documents: name -> text, for its quotations.
        prefix: the location of the schema in the whole specification, which precedes its pointers.
    """

    schema: object
    options: Any
    registry: Mapping[str, object]
    documents: Mapping[str, str]
    prefix: str = ""
