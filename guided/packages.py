"""Optional packages. In: the error of a failed import. Out: an error that says what to install."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Final

__all__ = ["how_to_install", "importing", "triton_function"]

_EXTRAS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("torch", "xxhash", "safetensors", "tqdm", "jinja2", "markupsafe", "docstring_parser"), "engine"),
    **dict.fromkeys(("tokenizers", "tiktoken", "sentencepiece"), "tokenizers"),
    **dict.fromkeys(("fastapi", "starlette", "uvicorn", "pydantic", "prometheus_client"), "serve"),
    "lark": "grammars",
    "huggingface_hub": "hub",
    "opentelemetry": "otel",
    "ray": "ray",
}
"""Package -> the extra of this project that installs it."""
_OTHER_PACKAGES: Final = frozenset(("transformers", "hypothesis", "jsonschema"))


def how_to_install(error: ModuleNotFoundError) -> str:
    """The missing package and how to install it; "" if the package is not an optional one of this project."""
    package = (error.name or "").partition(".")[0]
    if package in _EXTRAS:
        return f"needs the package {package}: pip install 'guided-decoding[{_EXTRAS[package]}]'"
    return f"needs the package {package}: pip install {package}" if package in _OTHER_PACKAGES else ""


@contextmanager
def importing(feature: str) -> Iterator[None]:
    """If an optional package is missing in this block, raise an error that says what to install.

    Args:
        feature: what needs the package, for the message.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if not (install_hint := how_to_install(error)):
            raise
        raise ModuleNotFoundError(f"{feature} {install_hint}", name=error.name) from None


@cache
def triton_function(module: str, name: str) -> Any:
    """A function of a module of Triton kernels; None if they cannot run.

    torch's builds for CUDA on Linux depend on Triton. Triton compiles a small C file at its first launch, so it needs a
    C compiler as well.
    """
    if not any(shutil.which(compiler) for compiler in (os.environ.get("CC", ""), "cc", "gcc", "clang") if compiler):
        return None
    try:
        return getattr(import_module(module), name)
    except ImportError:
        return None
