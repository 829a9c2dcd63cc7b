"""Rules whose texts are the JSON of a schema, so that explanations can name locations in the schema. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Embedded"]


@dataclass(frozen=True, slots=True)
class Embedded:
    """A schema that became a rule. It does not change the language of the rule.

    Attributes:
        schema: JSON text, a dict or a bool, as its author wrote it.
        options: the `JsonSchemaOptions` with which it was read.
        registry: URI -> schema, for its references.
        prefix: precedes its pointers in the whole specification.
    """

    schema: object
    options: Any
    registry: Mapping[str, object]
    prefix: str = ""
