"""Reads the text of `serialize_json`, of any class."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from guided.compat.xgrammar.config import SERIALIZATION_VERSION
from guided.compat.xgrammar.exception import DeserializeFormatError, DeserializeVersionError, InvalidJSONError
from guided.errors import brief

__all__ = ["loaded"]


def loaded(text: str, what: str, *, also: Collection[str] = ()) -> dict[str, Any]:
    """The object in a text that was written by this version, or by one of those in `also`.

    Raises:
        InvalidJSONError: the text is not JSON. DeserializeFormatError: it is not an object, or has no version.
        DeserializeVersionError: it was written by another version, or by xgrammar itself.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidJSONError(f"Failed to parse JSON: {error}") from None
    if not isinstance(data, dict) or "__VERSION__" not in data:
        raise DeserializeFormatError(f"this is not a serialized {what}, which is an object with a __VERSION__")
    version = data["__VERSION__"]
    if version != SERIALIZATION_VERSION and version not in also:
        raise DeserializeVersionError(
            f"this {what} was written by version {brief(version)}, not {SERIALIZATION_VERSION!r}: create it again"
        )
    return data
