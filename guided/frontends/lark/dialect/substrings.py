"""Reads `%regex {"substring_...": ...}`, which matches each run of consecutive pieces of a text or list. In: the JSON
value. Out: an automaton.

%regex {"substring_words": "to be or"}      "", "to", "to ", "to be", "be or", ...: 5 pieces, two of them spaces
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from guided.errors import SpecError
from guided.frontends.common.substrings import substring_automaton
from guided.ir.nodes import Automaton
from guided.limits import Limits

__all__ = ["read_substrings"]

_FORMS: Final = ("substring_words", "substring_chars", "substring_chunks")
_WORDS: Final = re.compile(r"\w+|[^\w\s]+|\s+")


def read_substrings(spec: str, limits: Limits) -> Automaton:
    """The automaton of a `%regex` value, given as JSON text.

    Raises:
        SpecError: the value is malformed. The error has no location; the caller adds it. LimitExceeded: it is too long.
    """
    return substring_automaton(_read_pieces(json.loads(spec)), limits)


def _read_pieces(spec: Any) -> Sequence[str]:
    hint = 'write {"substring_words": "..."}, "substring_chars", or "substring_chunks": [...]'
    if isinstance(spec, dict) and spec.get("type") == "substring":
        spec = {f"substring_{key}": value for key, value in spec.items() if key != "type"}
    if not isinstance(spec, dict) or not spec:
        raise SpecError("%regex takes an object with one field", hint=hint)
    for key in spec:
        if key not in _FORMS:
            raise SpecError(f"%regex has no field {key!r}", hint=hint)
    if len(spec) > 1:
        raise SpecError("%regex takes one field", hint=hint)
    (form, value), *_ = spec.items()
    if form == "substring_chunks":
        if not isinstance(value, list) or not all(isinstance(piece, str) for piece in value):
            raise SpecError(f"{form} takes a list of strings", hint=hint)
        return value
    if not isinstance(value, str):
        raise SpecError(f"{form} takes a string", hint=hint)
    return _WORDS.findall(value) if form == "substring_words" else value
