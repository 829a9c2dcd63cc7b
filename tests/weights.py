"""The weights of known models for tests: from guided's cache or from $GUIDED_ASSETS. Nothing is downloaded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from guided.files.hub import cache_directory, cached_model
from guided.files.known_models import MODELS

__all__ = ["QWEN", "SMOLLM2", "find_weights", "missing_weights", "weights_of"]

SMOLLM2 = "smollm2-135m-instruct"
QWEN = "qwen2.5-coder-0.5b-instruct"


def find_weights(name: str) -> Path | None:
    """The file of a known model, or None."""
    entry, below = MODELS[name], os.environ.get("GUIDED_ASSETS")
    found = (path for path in (Path(below).rglob(entry.file) if below else ()) if path.stat().st_size == entry.size)
    return cached_model(name) or next(found, None)


def missing_weights(name: str) -> str:
    """Why the file is missing; "" if it exists."""
    if find_weights(name) is not None:
        return ""
    where = f"{MODELS[name].file} is neither in {cache_directory()} nor below $GUIDED_ASSETS"
    return f"{where}: `guided models --fetch {name}` fetches it"


def weights_of(name: str) -> Path:
    """The file of a known model. Skips the test without it."""
    path = find_weights(name)
    if path is None:
        pytest.skip(missing_weights(name))
    return path
