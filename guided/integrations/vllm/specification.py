"""Reads the constraint of a vLLM request. In: vLLM's own fields, or one string with all of them. Out: a compiled
grammar.

The fields are those of vLLM's `StructuredOutputsParams`: one of `json`, `json_object`, `regex`, `choice`, `grammar` and
`structural_tag`, and options for writing JSON. vLLM passes a backend only the text of that one field, without the
options of the request and its `max_tokens`. So once guided has checked a request, it packs all of it into one string,
the *envelope*, in the field `grammar`:

    {"guided": {"json": {"type": "integer"}, "disable_any_whitespace": true, "max_tokens": 64}}

Clients may send an envelope, too; it cannot express more than the fields. Any other `grammar` is GBNF (or EBNF) if its
rules contain `::=`, otherwise Lark. This module does not import vLLM.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self

from guided.errors import LimitExceeded, SpecError, brief
from guided.frontends.gbnf import is_gbnf
from guided.frontends.json_schema.documents.values import read_json
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.integrations.vllm.settings import Settings
from guided.limits import Limits
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler

__all__ = ["KINDS", "OPTIONS", "Specification", "is_envelope"]

KINDS: Final = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
"""The fields that exclude each other; a request has one of them."""
OPTIONS: Final = ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern")
"""The options for writing JSON."""
_JSON_KINDS: Final = frozenset({"json", "json_object", "structural_tag"})
_ENVELOPE_KEY: Final = "guided"
_ENVELOPE_START: Final = f'{{"{_ENVELOPE_KEY}":'
_NO_SETTINGS: Final = Settings()


def is_envelope(text: object) -> bool:
    """Whether a `grammar` is an envelope: one string with all fields of a request."""
    return isinstance(text, str) and text.lstrip().startswith(_ENVELOPE_START)


@dataclass(frozen=True, slots=True)
class Specification:
    """The constraint on an answer's text.

    Attributes:
        kind: one of `KINDS`.
        source: the value of the field that `kind` names. For `json` and `structural_tag`, a JSON value or its text.
        disable_any_whitespace: write JSON without whitespace.
        disable_additional_properties: objects have only the members that their schema names.
        whitespace_pattern: a regular expression for the gaps of JSON. None: one space after `,` and `:`.
        max_tokens: the token budget of the answer, including its end token. None: no budget.
    """

    kind: str
    source: Any
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("disable_any_whitespace", "disable_additional_properties"):
            if not isinstance(getattr(self, name), bool):
                raise SpecError(f"{name} must be true or false, not {brief(getattr(self, name))}")
        if not isinstance(self.whitespace_pattern, str | None):
            raise SpecError(f"whitespace_pattern must be a regular expression, not {brief(self.whitespace_pattern)}")
        if self.max_tokens is not None and (type(self.max_tokens) is not int or self.max_tokens < 1):
            raise SpecError(f"max_tokens must be an integer of at least 1, not {brief(self.max_tokens)}")
        if self.disable_any_whitespace and self.whitespace_pattern is not None:
            raise SpecError("disable_any_whitespace and whitespace_pattern contradict each other: give only one")
        if self.kind not in _JSON_KINDS and (
            used_options := [name for name in OPTIONS if getattr(self, name) not in (None, False)]
        ):
            raise SpecError(f"{used_options[0]} applies to JSON, but {self.kind} is given")
        _check_source(self.kind, self.source)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], *, max_tokens: int | None = None) -> Self:
        """Read the fields of a request. Fields that are None are ignored, and an envelope in `grammar` is unpacked.

        Args:
            max_tokens: the budget of the request. None: the budget in the envelope, if there is one.

        Raises:
            SpecError: a field is unknown or malformed, or not exactly one of `KINDS` is given.
        """
        known_fields = (*KINDS, *OPTIONS)
        request_fields = {name: value for name, value in fields.items() if value is not None}
        if unknown_fields := sorted(request_fields.keys() - set(known_fields)):
            raise SpecError(
                f"unknown field {brief(unknown_fields[0])}", hint=f"known fields are {', '.join(known_fields)}"
            )
        kinds = [kind for kind in KINDS if kind in request_fields]
        if len(kinds) != 1:
            raise SpecError(f"give exactly one of {', '.join(KINDS)}; given are {', '.join(kinds) or 'none'}")
        source = request_fields.pop(kinds[0])
        if kinds[0] == "grammar" and is_envelope(source):
            return cls.from_text(source, max_tokens=max_tokens)
        return cls(kinds[0], source, **request_fields, max_tokens=max_tokens)

    @classmethod
    def from_text(cls, text: str, *, max_tokens: int | None = None) -> Self:
        """Read an envelope that `to_text` wrote; see `from_fields`."""
        read_json(text, Limits(), "grammar")  # refuses duplicate keys; its errors give a location
        content = json.loads(text)
        request_fields = content[_ENVELOPE_KEY]
        if len(content) != 1 or not isinstance(request_fields, dict):
            message = (
                f'a grammar that begins with {_ENVELOPE_START} must have the form {_ENVELOPE_START} {{"json": ...}}}}'
            )
            raise SpecError(message, text=text)
        if is_envelope(request_fields.get("grammar")):
            raise SpecError("a request is nested inside another one", text=text)
        packed_budget = request_fields.pop("max_tokens", None)
        return cls.from_fields(request_fields, max_tokens=packed_budget if max_tokens is None else max_tokens)

    @classmethod
    def from_key(cls, kind: str, text: str) -> Self:
        """Read the arguments that vLLM passes to a backend: the kind of the request, and its field as a string."""
        match kind:
            case "json_object":
                return cls(kind, True)
            case "choice":
                return cls(kind, json.loads(text))
        return cls.from_fields({kind: text})

    def to_text(self) -> str:
        """Write the envelope: one string with all fields."""
        defaults = {field.name: field.default for field in fields(self)}
        options = {name: getattr(self, name) for name in (*OPTIONS, "max_tokens")}
        non_defaults = {name: value for name, value in options.items() if value != defaults[name]}
        return f"{_ENVELOPE_START} {json.dumps({self.kind: self.source, **non_defaults})}}}"

    def with_budget(self, max_tokens: int | None) -> Specification:
        """A copy with this budget."""
        return replace(self, max_tokens=max_tokens)

    def compile(self, compiler: GrammarCompiler, settings: Settings = _NO_SETTINGS) -> CompiledGrammar:
        """Compile the specification. The request's options change the defaults of `JsonSchemaOptions.for_generation`.

        Raises:
            SpecError, UnsupportedError, LimitExceeded, VocabularyError: see the methods of `GrammarCompiler`.
        """
        json_options = self._json_options(settings.strict).non_defaults()
        allow_special_tokens = settings.allow_special_tokens
        match self.kind:
            case "json":
                return compiler.compile_json_schema(self.source, **json_options)
            case "json_object":
                return compiler.compile_json_schema({"type": "object"}, **json_options)
            case "regex":
                return compiler.compile_regex(self.source, classes="plain")
            case "choice":
                return compiler.compile_choice(self.source)
            case "structural_tag":
                return compiler.compile_structural_tag(
                    self.source, allow_special_tokens=allow_special_tokens, **json_options
                )
        if is_gbnf(self.source):
            return compiler.compile_gbnf(self.source, allow_special_tokens=allow_special_tokens)
        return compiler.compile_lark(self.source, allow_special_tokens=allow_special_tokens, **json_options)

    def _json_options(self, strict: bool) -> JsonSchemaOptions:
        changes: dict[str, Any] = {"strict": strict}
        if self.kind == "json_object":
            changes["additional_properties"] = True
        if self.disable_additional_properties:
            changes["additional_properties"] = False
        if self.disable_any_whitespace:
            changes["whitespace"] = "compact"
        if self.whitespace_pattern is not None:
            changes["whitespace"] = self.whitespace_pattern
        return JsonSchemaOptions.for_generation(**changes)


def _check_source(kind: str, source: object) -> None:
    if kind == "json_object":
        if source is not True:
            raise SpecError(f"json_object must be true or absent, not {brief(source)}")
    elif kind == "choice":
        if not (isinstance(source, list) and all(isinstance(choice, str) for choice in source)):
            raise SpecError(f"choice must be a list of strings, not {brief(source)}")
    elif kind in ("json", "structural_tag"):
        if not isinstance(source, str | Mapping | bool):
            raise SpecError(f"{kind} must be JSON, as a text or as an object, not {brief(source)}")
    elif not isinstance(source, str):
        raise SpecError(f"{kind} must be a string, not {brief(source)}")
    if isinstance(source, str) and len(source) > Limits().spec_length:
        raise LimitExceeded("spec_length", len(source), Limits().spec_length)
