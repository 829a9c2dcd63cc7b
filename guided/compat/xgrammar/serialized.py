"""Reading what `serialize_json` wrote, of whatever class."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from guided.compat.xgrammar.config import SERIALIZATION_VERSION
from guided.compat.xgrammar.exception import DeserializeFormatError, DeserializeVersionError, InvalidJSONError
from guided.errors import brief

__all__ = ["loaded"]


def loaded(text: str, what: str, *, also: Collection[str] = ()) -> dict[str, Any]:
    """The object that a text holds, if it was written by this version, or by one of those in `also`.

    Raises:
        InvalidJSONError: it is no JSON. DeserializeFormatError: it is no object, or names no version.
        DeserializeVersionError: it was written by another version, or by xgrammar itself.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidJSONError(f"Failed to parse JSON: {error}") from None
    if not isinstance(data, dict) or "__VERSION__" not in data:
        raise DeserializeFormatError(f"this is no serialized {what}: it is an object with a __VERSION__")
    version = data["__VERSION__"]
    if version != SERIALIZATION_VERSION and version not in also:
        raise DeserializeVersionError(
            f"this {what} was written by the version {brief(version)}, not {SERIALIZATION_VERSION!r}: make it anew"
        )
    return data
