"""Reads JSON files, such as a model's configuration."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from guided.errors import ModelFileError, brief

__all__ = ["read_json", "read_json_object"]


def read_json(path: str | PathLike[str]) -> Any:
    """The value in a JSON file.

    Raises:
        ModelFileError: the file is not JSON, or nests too deeply for Python's parser.
        OSError: the file cannot be opened.
    """
    try:
        return json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: not a JSON file: {str(error)[:200] or type(error).__name__}") from None


def read_json_object(path: str | PathLike[str]) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        ModelFileError: as `read_json`, or the value is not an object.
        OSError: the file cannot be opened.
    """
    value = read_json(path)
    if not isinstance(value, dict):
        raise ModelFileError(f"{path}: the file contains {brief(value, 60)}, not an object")
    return value
