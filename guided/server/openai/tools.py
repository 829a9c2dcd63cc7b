"""Functions that a model may call. In: `tools` and `tool_choice` of a request. Out: the constraint on the answer, and a
reader for its calls.

| tool_choice | the answer | finish_reason |
|---|---|---|
| none | text | stop |
| auto (default) | text with calls; if the text has a constraint, constrained text or calls | tool_calls, if any |
| required | calls | tool_calls |
| a function | one call of this function | stop: calling it was not the model's decision |

If a request has tools, only JSON formats may constrain the text (`_check_text_format`). If calls are required, such a
format has no effect. This causes a warning, not an error, because many clients always send their `response_format`.

In free text and after another call, a call without its marker also counts as a call (`ToolStyle.with_bare_calls`). If
the answer continues an assistant message, required calls follow the text of that message.

Arguments always satisfy their schema, with or without `strict`. With `strict`, an object whose schema does not mention
additional members may have only the members that the schema names. Calls are written in the model's style
(`guided.tool_style`). Names of functions and members are checked, so that a request cannot smuggle in control tokens.

An error in a schema reports its location in the request, such as `tools/0/function/parameters/properties/city`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from guided.chat.tokens import make_names_pattern
from guided.errors import SpecError, UnsupportedError, brief
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.openai.response_format import close_objects
from guided.frontends.structural_tag.calls import CallReader
from guided.frontends.structural_tag.tool_styles import ToolStyle
from guided.frontends.structural_tag.tools import chosen_tools, restrict_to_objects
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import ConstraintCompiler, ConstraintOptions, compile_constraint
from guided.server.http.errors import RequestError
from guided.server.openai.structured import StructuredOutput
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Functions"]

_KEYS: Final = {"": ("type", "function"), "/function": ("name", "description", "parameters", "strict")}
_Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions that the answers to one request may call.

    Attributes:
        style: how the model writes calls.
        tools: the tools that the prompt describes.
        constraint: the constraint on the answer.
        has_text_format: whether an answer is either text in a format or calls.
        has_named_function: whether the request names the function to call.
        warnings: fields without effect -> the reason.
    """

    style: ToolStyle
    tools: Sequence[_Json]
    constraint: ConstraintCompiler
    has_text_format: bool
    has_named_function: bool
    warnings: Mapping[str, str] = field(default_factory=dict)

    def reader(self, end_tokens: Collection[str] = ()) -> CallReader:
        """A reader for one answer. `end_tokens`: the names of the tokens that end it."""
        return self.style.reader(self.tools, mixed=not self.has_text_format, end_tokens=end_tokens)

    @classmethod
    def from_request(
        cls, tools: Sequence[_Json], tool_choice: Any, *, parallel: bool, style: ToolStyle, vocabulary: Vocabulary,
        structured_output: StructuredOutput,
    ) -> Functions | None:  # fmt: skip
        """Read the request's tools; None for the choice "none". `structured_output` constrains the text.

        Raises:
            RequestError: a tool or the choice is malformed, or cannot be combined with the constraint on the text.
        """
        try:
            choice = chosen_tools(tools, tool_choice)
            _check_keys(tools)
        except (SpecError, UnsupportedError) as error:
            raise _to_request_error(error) from None
        if tool_choice == "none":
            return None
        tools = [_require_object(tool) for tool in tools]
        _check_names(tools, style, vocabulary)
        must_call = choice.mode != "auto"
        _check_text_format(structured_output, must_call=must_call)
        text_format = None if must_call else _make_text_format(style, structured_output)
        is_mixed = text_format is None and (not must_call or style.is_always_mixed)
        if text_format is None:
            style = style.with_bare_calls()
        tag = style.structural_tag(
            tools, tool_choice=tool_choice, parallel_tool_calls=parallel, mixed=is_mixed, text=text_format
        )
        locations = _find_locations(tag, tools, text_format, structured_output.param)
        options = {name: value for name, value in structured_output.options.items() if name != "additional_properties"}

        def compile_calls(compiler: GrammarCompiler) -> CompiledGrammar:
            if (
                text_format is None and structured_output.constraint is not None
            ):  # the answer contains no text, but errors in the schema of the text are reported
                _check_text(compiler, structured_output)
            try:
                json_options = JsonSchemaOptions.for_generation(**options).non_defaults()
                grammar = compiler.compile_structural_tag(tag, allow_special_tokens=True, **json_options)
                return _locate_findings(grammar, locations)
            except (SpecError, UnsupportedError) as error:
                raise _locate_error(error, locations) from None

        constraint = ConstraintCompiler(compile_calls, open_ended=is_mixed, has_calls=True, follows_message=must_call)
        warnings = _warn_about_text(structured_output) if must_call else {}
        return cls(style, tools, constraint, text_format is not None, choice.mode == "named", warnings)


def _require_object(tool: _Json) -> _Json:
    """Restrict a tool's arguments to objects, even if its schema allows other values. `strict` also closes the
    objects."""
    function = tool["function"]
    parameters = function.get("parameters")
    if parameters is None or parameters is False:
        return tool
    schema = restrict_to_objects(parameters, "")
    assert isinstance(schema, dict)
    return {**tool, "function": {**function, "parameters": close_objects(schema) if function.get("strict") else schema}}


def _check_text_format(structured_output: StructuredOutput, *, must_call: bool) -> None:
    """Refuse a constraint on the text that is not JSON. `must_call`: whether the answer consists of calls.

    Raises:
        RequestError: the constraint cannot be combined with the tools.
    """
    if structured_output.constraint is None or structured_output.is_json:
        return
    param = structured_output.param
    problem = (
        "cannot be combined with required calls, since it constrains the text: leave it out"
        if must_call
        else "cannot be combined with tools, since the end of the text could be the beginning of a call: "
        "write a JSON Schema"
    )
    raise RequestError(f"{param} {problem}, or set tool_choice to none", param=param)


def _warn_about_text(structured_output: StructuredOutput) -> dict[str, str]:
    """The warning about a constraint on the text of an answer that consists of calls: field -> message."""
    if structured_output.constraint is None:
        return {}
    param = structured_output.param
    return {param: f"{param} has no effect: it constrains the text, but this answer consists of calls"}


def _make_text_format(style: ToolStyle, structured_output: StructuredOutput) -> dict[str, Any] | None:
    """The format of the text, for an answer that may call tools instead. None: free text."""
    if structured_output.constraint is None:
        return None
    if style.why_no_format:
        raise RequestError(style.why_no_format, param=structured_output.param)
    schema: Any = structured_output.constraint
    if structured_output.options.get(
        "additional_properties"
    ):  # applies to the text only, not to the arguments of calls
        schema = {"additionalProperties": True, **schema}
    return {"type": "json_schema", "json_schema": schema}


def _check_text(compiler: GrammarCompiler, structured_output: StructuredOutput) -> None:
    try:
        compile_constraint(
            compiler, structured_output.constraint, cast(ConstraintOptions, dict(structured_output.options))
        )
    except (SpecError, UnsupportedError) as error:
        error.pointer = structured_output.param + error.pointer
        raise


def _check_keys(tools: Sequence[_Json]) -> None:
    """Refuse unknown keys of a tool. Raises SpecError."""
    for number, tool in enumerate(tools):
        for path, known_keys in _KEYS.items():
            for name, value in (tool["function"] if path else tool).items():
                if name not in known_keys:
                    raise SpecError(
                        f"a tool cannot have {brief(name)}", pointer=f"/tools/{number}{path}/{name}",
                        hint=f"known members are {', '.join(known_keys)}",
                    )  # fmt: skip
                expected_type = {"strict": bool, "description": str}.get(name)
                if expected_type is not None and value is not None and not isinstance(value, expected_type):
                    hint = "write true or false" if expected_type is bool else "write a string"
                    raise SpecError(f"{name} is {brief(value)}", pointer=f"/tools/{number}{path}/{name}", hint=hint)


def _check_names(tools: Sequence[_Json], style: ToolStyle, vocabulary: Vocabulary) -> None:
    """Refuse names that contain the name of a control token, since the model would read it as that token.

    Checks names of functions and, in styles that do not write arguments as JSON, names of members.
    """
    control_tokens = re.compile(make_names_pattern(filter(None, vocabulary.special_tokens.values())))

    def check(name: str, param: str) -> None:
        if match := control_tokens.search(name):
            message = f"the name {brief(name)} contains the control token {match[0]} of this model"
            raise RequestError(message, param=param)

    for number, tool in enumerate(tools):
        function, path = tool["function"], f"tools/{number}/function"
        check(function["name"], f"{path}/name")
        pending = [(function.get("parameters"), f"{path}/parameters")]
        while pending and style.data["call"]["arguments"] != "json":
            value, path = pending.pop()
            if isinstance(value, dict):
                for name in value:
                    check(name, f"{path}/{name}")
            inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            pending += [(child, f"{path}/{key}") for key, child in inner]


def _find_locations(tag: _Json, tools: Sequence[_Json], text_format: _Json | None, param: str) -> dict[str, str]:
    """Pointer to each schema in the structural tag -> its location in the request.

    `text_format`: the format of the text, which is at `param` in the request.
    """
    param_by_id = {} if text_format is None else {id(text_format["json_schema"]): param}
    for number, tool in enumerate(tools):
        param_by_id[id(tool["function"].get("parameters"))] = f"tools/{number}/function/parameters"
    locations, pending = dict[str, str](), list[tuple[Any, str]]([(tag, "")])
    while pending:
        value, pointer = pending.pop()
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            inner_pointer = f"{pointer}/{key}"
            if key == "json_schema" and isinstance(inner, dict):
                locations[inner_pointer] = param_by_id.get(id(inner), "tools")
            elif isinstance(inner, dict | list):
                pending.append((inner, inner_pointer))
    return locations


def _locate_error(error: SpecError | UnsupportedError, locations: Mapping[str, str]) -> SpecError | UnsupportedError:
    """Set an error's pointer to its location in the request."""
    error.pointer = _translate_pointer(error.pointer, locations)
    return error


def _locate_findings(grammar: CompiledGrammar, locations: Mapping[str, str]) -> CompiledGrammar:
    """A copy of the grammar whose findings have locations in the request. The compiler caches the original."""
    if not grammar.findings:
        return grammar
    located_grammar = copy(grammar)
    findings = [
        replace(finding, pointer=_translate_pointer(finding.pointer, locations)) for finding in grammar.findings
    ]
    located_grammar.findings = tuple(dict.fromkeys(findings))  # a tool's schema occurs in several tags
    return located_grammar


def _translate_pointer(pointer: str, locations: Mapping[str, str]) -> str:
    for tag_pointer, location in locations.items():
        if pointer == tag_pointer or pointer.startswith(f"{tag_pointer}/"):
            return location + pointer.removeprefix(tag_pointer)
    return "tools"


def _to_request_error(error: SpecError | UnsupportedError) -> RequestError:
    error.pointer = error.pointer.lstrip("/")
    return RequestError(str(error), param=error.pointer, code="invalid_specification")
