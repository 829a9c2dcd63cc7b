"""Reads the constraint on an answer's text. In: the fields of a request that constrain the text, as in OpenAI, vLLM and
SGLang. Out: a constraint for the engine, its options, and the field that contains it.

| field | from |
|---|---|
| `response_format`: text, json_object, json_schema, structural_tag (both forms), grammar, regex | OpenAI, vLLM |
| `response_format`: json_object or json_schema with `schema` next to it | llama.cpp |
| `structured_outputs`: json, regex, choice, grammar, json_object, structural_tag; whitespace options | vLLM |
| `guided_json`, `guided_regex`, `guided_choice`, `guided_grammar`, ... (deprecated, with a warning) | older vLLM |
| `json_schema`, `regex`, `ebnf`, `structural_tag` | SGLang |
| `lark`, `gbnf`, `grammar` (the name of a bundled grammar) | guided |

A request may contain only one of these fields. If the request does not name the notation of a grammar, the grammar is
read as GBNF or EBNF if it contains `::=`, otherwise as Lark.

Safety: specifications in requests are untrusted. They can name control tokens only if the operator sets
`allow_special_tokens`, and they cannot refer to files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from guided.errors import GuidedError, OptionError, brief
from guided.frontends.gbnf import is_gbnf
from guided.frontends.json_schema.documents.values import read_json
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.library import grammar as library_grammar
from guided.limits import Limits
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import Constraint, ConstraintCompiler
from guided.server.http.errors import RequestError
from guided.server.openai.reading import check_object

__all__ = ["KINDS", "StructuredOutput", "read_structured_output"]

_DEPRECATED_NAMES: Final = {
    "guided_json": "json",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
    "guided_json_object": "json_object",
    "guided_whitespace_pattern": "whitespace_pattern",
}
_MODIFIERS: Final = ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern")
KINDS: Final = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
"""The kinds of specifications in `structured_outputs`."""
_JSON_OPTIONS: Final = JsonSchemaOptions.for_generation().non_defaults()
_ANY_OBJECT: Final = {"type": "object"}


@dataclass(frozen=True, slots=True)
class StructuredOutput:
    """A constraint on the text of an answer.

    Attributes:
        constraint: the constraint for `Engine.generate`; None: any text.
        options: the options with which the constraint is compiled.
        param: the field of the request that contains the constraint; "" if there is none.
        is_json: whether the text is JSON.
        warnings: field -> what is wrong with it, such as what to write instead of a deprecated name.
        kind: "schema", "regex", "lark", "gbnf", "grammar" (a bundled one), "structural_tag" or "choice".
        source: the value of the field.
    """

    constraint: Constraint = None
    options: Mapping[str, Any] = field(default_factory=dict)
    param: str = ""
    is_json: bool = False
    warnings: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""
    source: Any = None

    def add_warnings(self, warnings: Mapping[str, str]) -> StructuredOutput:
        """A copy with further warnings. If a field already has one, its warning becomes longer."""
        messages = dict(self.warnings)
        for name, message in warnings.items():
            messages[name] = f"{messages[name]}; {message}" if name in messages else message
        return replace(self, warnings=messages)


def read_structured_output(
    request_fields: Mapping[str, Any], *, allow_special_tokens: bool = False
) -> StructuredOutput:
    """Combine the fields of a request that constrain its text into one constraint. Fields that are None are ignored.

    Raises:
        RequestError: a field is malformed, or several fields constrain the text.
        SpecError: no bundled grammar has this name. Other errors inside a specification are found when it is compiled.
    """
    fields = {name: value for name, value in request_fields.items() if value is not None}
    warnings = {
        name: f"{name} is deprecated: write structured_outputs={{{_DEPRECATED_NAMES.get(name, name)!r}: ...}}"
        for name in fields
        if name.startswith("guided_")
    }
    fields.pop("guided_decoding_backend", None)  # there is only one backend
    reader = _Reader(allow_special_tokens)
    candidates = list[StructuredOutput]()
    if (format := fields.pop("response_format", None)) is not None:
        candidates.append(reader.read_response_format(check_object("response_format", format)))
    if (outputs := fields.pop("structured_outputs", None)) is not None:
        candidates.append(
            reader.read_structured_outputs("structured_outputs.", check_object("structured_outputs", outputs))
        )
    if deprecated_fields := {
        _DEPRECATED_NAMES[name]: fields.pop(name) for name in list(fields) if name in _DEPRECATED_NAMES
    }:
        candidates.append(reader.read_structured_outputs("guided_", deprecated_fields))
    candidates += [reader.read(name, name, value) for name, value in fields.items()]
    candidates = [candidate for candidate in candidates if candidate.constraint is not None]
    if len(candidates) > 1:
        names = " and ".join(candidate.param for candidate in candidates)
        raise RequestError(f"{names} cannot be combined: give only one constraint", param=candidates[1].param)
    output = candidates[0] if candidates else StructuredOutput()
    return replace(output, warnings=warnings)


class _Reader:
    """Reads one field at a time."""

    def __init__(self, allow_special_tokens: bool) -> None:
        self._allow_special_tokens = allow_special_tokens

    def read_response_format(self, format: Mapping[str, Any]) -> StructuredOutput:
        kind = format.get("type")
        match kind:
            case "text":
                _refuse_unknown("response_format", format, ("type",))
                return StructuredOutput(param="response_format")
            case "json_object" | "json_schema" if format.get("schema") is not None and "json_schema" not in format:
                _refuse_unknown("response_format", format, ("type", "schema"))  # as in llama.cpp's server
                return self.read("json", "response_format.schema", format["schema"])
            case "json_object":
                _refuse_unknown("response_format", format, ("type", "schema"))
                return self.read("json_object", "response_format", True)
            case "json_schema":
                json_schema = check_object("response_format.json_schema", format.get("json_schema"))
                param = "response_format.json_schema.schema"
                if "schema" not in json_schema:
                    raise RequestError("response_format.json_schema has no schema", param=param)
                _refuse_unknown("response_format", format, ("type", "json_schema"))
                _refuse_unknown("response_format.json_schema", json_schema, ("name", "schema", "strict", "description"))
                return self.read("json", param, json_schema["schema"])
            case "structural_tag":
                return self.read("structural_tag", "response_format", format)
            case "grammar" | "regex" | "lark" | "gbnf":
                name = next((name for name in (kind, "grammar", "value", "pattern") if name in format), kind)
                _refuse_unknown("response_format", format, ("type", name))
                return self.read(
                    kind if kind != "grammar" else "text_grammar", f"response_format.{name}", format.get(name)
                )
        types = "text, json_object, json_schema, structural_tag, grammar, lark, gbnf, regex"
        message = f"response_format.type must be one of {types}, not {brief(kind)}"
        raise RequestError(message, param="response_format.type")

    def read_structured_outputs(self, prefix: str, request_fields: Mapping[str, Any]) -> StructuredOutput:
        _refuse_unknown(prefix.rstrip("._"), request_fields, (*KINDS, *_MODIFIERS))
        kinds = [kind for kind in KINDS if request_fields.get(kind) is not None and request_fields[kind] is not False]
        if len(kinds) != 1:
            given_kinds = f"{' and '.join(kinds)} are given" if kinds else "none of them is given"
            param = prefix.rstrip(".") if prefix.endswith(".") else prefix + next(iter(request_fields))
            raise RequestError(f"give exactly one of {', '.join(KINDS)}; {given_kinds}", param=param)
        kind = kinds[0]
        for name in _MODIFIERS:
            if request_fields.get(name) not in (None, False) and kind not in ("json", "json_object"):
                raise RequestError(f"{name} requires json or json_object", param=f"{prefix}{name}")
            if name != "whitespace_pattern" and not isinstance(request_fields.get(name), bool | None):
                message = f"{prefix}{name} must be true or false, not {brief(request_fields[name])}"
                raise RequestError(message, param=f"{prefix}{name}")
        output = self.read("text_grammar" if kind == "grammar" else kind, prefix + kind, request_fields[kind])
        if not output.is_json:
            return output
        options = dict(output.options)
        if request_fields.get("disable_any_whitespace"):
            options["whitespace"] = "compact"
        if (pattern := request_fields.get("whitespace_pattern")) is not None:
            try:
                options["whitespace"] = JsonSchemaOptions.of(whitespace=pattern).whitespace
            except OptionError as error:
                raise RequestError(str(error), param=f"{prefix}whitespace_pattern") from None
        if request_fields.get("disable_additional_properties"):
            options["additional_properties"] = False
        return replace(output, options=options)

    def read(self, kind: str, param: str, value: Any) -> StructuredOutput:
        """Read the value of a field as a specification of this kind."""
        match kind:
            case "json" | "json_schema":
                return StructuredOutput(_parse_schema(param, value), {}, param, True, kind="schema", source=value)
            case "json_object" if value is True:
                return StructuredOutput(_ANY_OBJECT, {"additional_properties": True}, param, True, kind="schema")
            case "json_object":
                raise RequestError(f"{param} must be true, not {brief(value)}", param=param)
            case "choice":
                if not (isinstance(value, list) and value and all(isinstance(choice, str) for choice in value)):
                    raise RequestError(f"{param} must be a list of strings, not {brief(value)}", param=param)
                return StructuredOutput(value, {}, param, kind="choice", source=value)
            case "structural_tag":
                tag = _parse_json(param, value) if isinstance(value, str) else value
                compile_tag = GrammarCompiler.compile_structural_tag
                constraint = self._build_constraint(compile_tag, check_object(param, tag), **_JSON_OPTIONS)
                return StructuredOutput(constraint, {}, param, kind="structural_tag", source=value)
        if not isinstance(value, str):
            raise RequestError(f"{param} must be a string, not {brief(value)}", param=param)
        if kind in ("ebnf", "text_grammar"):
            kind = "gbnf" if kind == "ebnf" or is_gbnf(value) else "lark"
        constraint_makers: dict[str, Callable[[str], Any]] = {
            "regex": str,
            "gbnf": lambda text: self._build_constraint(GrammarCompiler.compile_gbnf, text),
            "lark": lambda text: self._build_constraint(GrammarCompiler.compile_lark, text, **_JSON_OPTIONS),
            "grammar": library_grammar,
        }
        if kind not in constraint_makers:
            raise RequestError(f"{param} cannot be {brief(value)}", param=param)
        return StructuredOutput(constraint_makers[kind](value), {}, param, kind=kind, source=value)

    def _build_constraint(
        self, method: Callable[..., CompiledGrammar], source: Any, **options: Any
    ) -> ConstraintCompiler:
        """A constraint whose grammar the compiler caches by its content, for all clients."""
        allow_special_tokens = self._allow_special_tokens

        def compile_constraint(compiler: GrammarCompiler) -> CompiledGrammar:
            return method(compiler, source, allow_special_tokens=allow_special_tokens, **options)

        return ConstraintCompiler(compile_constraint)


def _parse_schema(param: str, value: Any) -> Any:
    schema = _parse_json(param, value) if isinstance(value, str) else value
    if not isinstance(schema, dict | bool):
        raise RequestError(f"{param} must be a JSON Schema, not {brief(schema)}", param=param)
    return schema


def _parse_json(param: str, text: str) -> Any:
    try:
        read_json(text, Limits(), param)  # refuses duplicate keys; its errors have a location and a hint
        return json.loads(text)
    except (GuidedError, ValueError, RecursionError) as error:
        raise RequestError(str(error), param=param) from error


def _refuse_unknown(param: str, fields: Mapping[str, Any], names: tuple[str, ...]) -> None:
    if unknown_names := fields.keys() - set(names):
        name = min(unknown_names)
        message = f"{param} has the unknown member {brief(name)}; known members are {', '.join(names)}"
        raise RequestError(message, param=f"{param}.{name}")
