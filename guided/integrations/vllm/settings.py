"""What the operator of a vLLM server says. In: the environment variable GUIDED_VLLM, a JSON object. Out: `Settings`.

    GUIDED_VLLM='{"allow_special_tokens": true, "limits": {"seconds": 5}}'

It is read in each process of vLLM, which hands its environment on to them.
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
    """See the head.

    Attributes:
        allow_special_tokens: whether grammars and structural tags may name control tokens that are to be written.
            They come from strangers, but for those that vLLM makes itself for tools.
        strict: whether a schema is refused for what is read and not enforced (unknown keywords, unknown formats), which
            is warned of otherwise.
        any_version: whether versions of vLLM that are not known are tried, if all names have the known signatures.
        limits: of each compilation.
    """

    allow_special_tokens: bool = False
    strict: bool = False
    any_version: bool = False
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """What the variable says; nothing, if it is not set.

        Raises:
            GuidedError: it is malformed.
        """
        text = environment.get(VARIABLE, "").strip()
        if not text:
            return cls()
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise GuidedError(f"{VARIABLE} is not JSON: {error}") from None
        known = [each.name for each in fields(cls)]
        if not isinstance(given, dict):
            raise GuidedError(f"{VARIABLE} is an object, not {brief(given)}; it may have {', '.join(known)}")
        if unknown := sorted(given.keys() - set(known)):
            raise GuidedError(f"{VARIABLE} has no field {brief(unknown[0])}; it may have {', '.join(known)}")
        for name in ("allow_special_tokens", "strict", "any_version"):
            if not isinstance(given.get(name, False), bool):
                raise GuidedError(f"{name} of {VARIABLE} is true or false, not {brief(given[name])}")
        return cls(**{**given, "limits": _limits(given.get("limits", {}))})


def _limits(given: Any) -> Limits:
    if not isinstance(given, dict):
        raise GuidedError(f"limits of {VARIABLE} is an object, not {brief(given)}")
    try:
        return Limits(**given)
    except (TypeError, ValueError) as error:
        raise GuidedError(f"limits of {VARIABLE}: {error}") from None
