"""Refuses keywords that the draft of their schema does not have, with a few exceptions."""

from __future__ import annotations

from guided.errors import UnsupportedError
from guided.frontends.json_schema.documents.keywords import KEYWORDS, Status
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.options import DRAFTS

__all__ = ["check_foreign"]


def check_foreign(schema: Schema, keyword: str) -> None:
    """Refuse a keyword of another draft. Accepted, without effect: annotations, newer keywords if the schema's draft is
    declared, and `additionalItems` without a list of items.
    """
    draft, definition = schema.document.draft, KEYWORDS[keyword]
    if definition.status is Status.NOT_ENFORCED_ALONE:
        return
    if keyword == "additionalItems" and not isinstance(schema.value.get("items"), list):  # type: ignore[union-attr]
        return  # without a list of items, it has no effect in any draft
    was_removed = DRAFTS.index(definition.last_draft) < DRAFTS.index(draft)
    if was_removed or not schema.document.is_declared:
        suffix = "" if schema.document.is_declared else ", which is assumed without $schema"
        hint = f"add $schema, or pass draft={definition.last_draft!r}" if suffix else f"use its replacement in {draft}"
        raise UnsupportedError(
            f"{keyword!r} is not a keyword of {draft}{suffix}", pointer=schema.location_of(keyword), hint=hint
        )
