"""Reads the settings that the operator of a vLLM server chooses. In: the environment variable GUIDED_VLLM, a JSON
object. Out: `Settings`.

    GUIDED_VLLM='{"allow_special_tokens": true, "limits": {"seconds": 5}}'

Each vLLM process reads the variable, since vLLM passes its environment on to its processes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

from guided.errors import GuidedError, brief
from guided.limits import Limits

__all__ = ["VARIABLE", "Settings"]

VARIABLE: Final = "GUIDED_VLLM"


@dataclass(frozen=True, slots=True)
class Settings:
    """See the module docstring.

    Attributes:
        allow_special_tokens: whether grammars and structural tags may name control tokens. Grammars come from untrusted
            clients, except the grammars that vLLM creates for tools.
        strict: whether a schema with parts that are not enforced (unknown keywords, unknown formats) is refused. If
            not, such parts cause a warning.
        any_version: whether to accept untested versions of vLLM, also older ones, without a warning, if all replaced
            objects have the expected signatures.
        limits: the limits of each compilation.
    """

    allow_special_tokens: bool = False
    strict: bool = False
    any_version: bool = False
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the settings from the variable; the defaults if it is not set.

        Raises:
            GuidedError: the variable is malformed.
        """
        text = environment.get(VARIABLE, "").strip()
        if not text:
            return cls()
        try:
            settings = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise GuidedError(f"{VARIABLE} is not JSON: {error}") from None
        field_names = [field.name for field in fields(cls)]
        if not isinstance(settings, dict):
            raise GuidedError(
                f"{VARIABLE} must be an object, not {brief(settings)}; its fields are {', '.join(field_names)}"
            )
        if unknown_names := sorted(settings.keys() - set(field_names)):
            raise GuidedError(
                f"{VARIABLE} has no field {brief(unknown_names[0])}; its fields are {', '.join(field_names)}"
            )
        for name in ("allow_special_tokens", "strict", "any_version"):
            if not isinstance(settings.get(name, False), bool):
                raise GuidedError(f"{name} of {VARIABLE} must be true or false, not {brief(settings[name])}")
        return cls(**{**settings, "limits": _read_limits(settings.get("limits", {}))})


def _read_limits(values: Any) -> Limits:
    if not isinstance(values, dict):
        raise GuidedError(f"limits of {VARIABLE} must be an object, not {brief(values)}")
    try:
        return Limits(**values)
    except (TypeError, ValueError) as error:
        raise GuidedError(f"limits of {VARIABLE}: {error}") from None
