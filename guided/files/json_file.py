"""JSON files beside a model."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from guided.errors import ModelFileError

__all__ = ["read_json"]


def read_json(path: str | PathLike[str]) -> Any:
    """The value in a JSON file.

    Raises:
        ModelFileError: the file is not JSON, or nests deeper than Python's reader goes.
        OSError: the file cannot be opened.
    """
    try:
        return json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: not a JSON file: {str(error)[:200] or type(error).__name__}") from None
