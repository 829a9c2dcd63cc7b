"""Reads the strings that the `serialize_json` methods write."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from guided.compat.xgrammar.config import SERIALIZATION_VERSION
from guided.compat.xgrammar.exception import DeserializeFormatError, DeserializeVersionError, InvalidJSONError
from guided.errors import brief

__all__ = ["load_serialized"]


def load_serialized(text: str, class_name: str, *, accepted_versions: Collection[str] = ()) -> dict[str, Any]:
    """Read a JSON object of this format version, or of one of `accepted_versions`.

    Raises:
        InvalidJSONError: the string is not JSON. DeserializeFormatError: it is not an object, or it has no version.
        DeserializeVersionError: another version of guided, or xgrammar, wrote it.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidJSONError(f"Failed to parse JSON: {error}") from None
    if not isinstance(data, dict) or "__VERSION__" not in data:
        raise DeserializeFormatError(
            f"this is not a serialized {class_name}, which would be an object with a __VERSION__"
        )
    version = data["__VERSION__"]
    if version != SERIALIZATION_VERSION and version not in accepted_versions:
        raise DeserializeVersionError(
            f"this {class_name} has format version {brief(version)}, not {SERIALIZATION_VERSION!r}: create it again"
        )
    return data
