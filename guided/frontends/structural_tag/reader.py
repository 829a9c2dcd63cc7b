"""Reads a structural tag: JSON text, or the result of `json.loads`, becomes a tree of `Format`s.

Two documents are accepted: `{"type": "structural_tag", "format": {...}}`, and vLLM's older `{"structures": [...],
"triggers": [...]}`, which means triggered tags. As in xgrammar, both may omit the type. Each value is checked at its
location. An error has the JSON Pointer of the location and, if the structural tag is JSON text, the span.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from guided.close_names import find_closest_name
from guided.errors import LimitExceeded, SpecError, brief
from guided.frontends.json_schema.documents.source_spans import escape, syntax_hint
from guided.frontends.json_schema.documents.values import load_json
from guided.frontends.structural_tag.argument_forms import ArgumentForm, argument_form
from guided.frontends.structural_tag.formats import FORMATS, REQUIRED, Format
from guided.ir.ranges import has_surrogate
from guided.limits import Limits

__all__ = ["read_structural_tag"]

_MAX_INTEGER = 2**31 - 1
_NODES_PER_FORMAT = 10  # an estimate of the IR nodes for a format


def read_structural_tag(spec: str | Mapping[str, Any], limits: Limits) -> Format:
    """The format of a structural tag.

    Raises:
        SpecError: it is not JSON, or not a structural tag.
        LimitExceeded: it is too long, or nests too deeply.
    """
    document = _parse_json(spec, limits) if isinstance(spec, str) else spec
    if not isinstance(document, Mapping):
        raise SpecError(
            f"a structural tag is an object, not {_describe_kind(document)}",
            hint='write {"type": "structural_tag", "format": {...}}',
        )
    reader = _Reader(limits)
    if "structures" in document or "triggers" in document:
        return reader.read_legacy(document)
    reader.check_members(document, "", ("type", "format"))
    if document.get("type", "structural_tag") != "structural_tag":
        is_format = isinstance(document["type"], str) and document["type"] in FORMATS
        raise SpecError(
            f'"type" is {brief(document["type"])}, not "structural_tag"',
            pointer="/type",
            hint='put the format inside {"type": "structural_tag", "format": ...}' if is_format
            else 'write "type": "structural_tag"',
        )  # fmt: skip
    if "format" not in document:
        raise SpecError('"format" is missing', hint='write "format": {"type": "any_text"}, or another format')
    return reader.format(document["format"], "/format")


def _parse_json(text: str, limits: Limits) -> object:
    if len(text) > limits.spec_length:
        raise LimitExceeded("spec_length", len(text), limits.spec_length)
    try:
        return load_json(text)
    except json.JSONDecodeError as error:
        raise SpecError(
            f"the structural tag is not JSON: {error.msg}", text=text, span=(error.pos, error.pos + 1),
            hint=syntax_hint(text, error.pos) or "check commas, quotation marks and brackets around this position",
        ) from None  # fmt: skip
    except RecursionError:
        raise LimitExceeded("depth", limits.depth + 1, limits.depth) from None
    except ValueError as error:
        raise SpecError(f"the structural tag is not JSON: {error}", hint="write shorter numbers") from None


def _describe_kind(value: object) -> str:
    if isinstance(value, Mapping):
        return "an object"
    names = {
        list: "an array",
        tuple: "an array",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return "null" if value is None else names.get(type(value), f"a {type(value).__name__}")


class _Reader:
    """Reads values of the kinds in `FORMATS`. Each kind is a method that takes a value and its pointer."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.depth = self.formats_read = 0

    def read_legacy(self, document: Mapping[str, Any]) -> Format:
        """Read vLLM's older form. It may contain `"type": "structural_tag"`."""
        self.check_members(document, "", ("type", "structures", "triggers"))
        for name in ("structures", "triggers"):
            if name not in document:
                raise SpecError(f'"{name}" is missing', hint='write {"structures": [...], "triggers": [...]}')
        if document.get("type", "structural_tag") != "structural_tag":
            raise SpecError('"type" is not "structural_tag"', pointer="/type", hint="leave it out")
        tags = []
        for pointer, item in self._read_items(document["structures"], "/structures", "structures"):
            self.check_members(item, pointer, ("begin", "schema", "end"))
            for name in ("begin", "schema", "end"):
                if name not in item:
                    raise SpecError(
                        f'"{name}" is missing', pointer=pointer, hint="a structure has begin, schema and end"
                    )
            schema = self.schema(self._parse_schema(item["schema"], f"{pointer}/schema"), f"{pointer}/schema")
            content = Format(
                "json_schema", f"{pointer}/schema", {**_default_fields("json_schema"), "json_schema": schema}
            )
            begin, end = ((self.string(item[name], f"{pointer}/{name}"),) for name in ("begin", "end"))
            tags.append(Format("tag", pointer, {"begin": begin, "content": content, "end": end}))
        triggers = self.some_strings(document["triggers"], "/triggers")
        fields = {**_default_fields("triggered_tags"), "tags": tuple(tags), "triggers": triggers}
        return Format("triggered_tags", "", fields)

    def _parse_schema(self, schema: Any, pointer: str) -> Any:
        if not isinstance(schema, str):
            return schema
        try:
            return load_json(schema)
        except ValueError as error:
            raise SpecError(
                f"the schema is not JSON: {error}", pointer=pointer, hint="write the schema as an object"
            ) from None
        except SpecError as error:  # a repeated key
            raise SpecError(error.message, pointer=pointer, hint=error.hint) from None

    def format(self, value: Any, pointer: str) -> Format:
        """Read a format of any type."""
        if not isinstance(value, Mapping):
            raise SpecError(
                f"a format is an object, not {_describe_kind(value)}",
                pointer=pointer,
                hint='write {"type": "any_text"}',
            )
        if "type" not in value:
            raise SpecError('"type" is missing', pointer=pointer, hint=f"one of {', '.join(FORMATS)}")
        name = value["type"]
        if not isinstance(name, str) or name not in FORMATS:
            similar_name = find_closest_name(name, FORMATS)
            hint = f"did you mean {similar_name!r}?" if similar_name else f"one of {', '.join(FORMATS)}"
            raise SpecError(f"there is no format {brief(name)}", pointer=f"{pointer}/type", hint=hint)
        return self.format_of_type(name, value, pointer)

    def format_of_type(self, name: str, value: Mapping[str, Any], pointer: str) -> Format:
        """Read the fields of a format."""
        self.depth, self.formats_read = self.depth + 1, self.formats_read + 1
        if self.formats_read * _NODES_PER_FORMAT > self.limits.nodes:
            raise LimitExceeded("nodes", self.formats_read * _NODES_PER_FORMAT, self.limits.nodes)
        if self.depth > self.limits.depth:
            raise LimitExceeded("depth", self.depth, self.limits.depth)
        members = FORMATS[name]
        self.check_members(value, pointer, ("type", *members))
        fields = {}
        for field, (kind, default) in members.items():
            if field in value and not (value[field] is None and default is None):
                fields[field] = getattr(self, kind)(value[field], f"{pointer}/{field}")
            elif default is REQUIRED:
                raise SpecError(
                    f'"{field}" of the format {name} is missing', pointer=pointer, hint=f"write {_example(kind, field)}"
                )
            else:
                fields[field] = default
        self.depth -= 1
        return Format(name, pointer, fields)

    def check_members(self, value: Any, pointer: str, known_names: tuple[str, ...]) -> None:
        """Refuse a value that is not an object, and unknown members."""
        if not isinstance(value, Mapping):
            raise SpecError(
                f"this is {_describe_kind(value)}, not an object",
                pointer=pointer,
                hint=f"its members are {', '.join(known_names)}",
            )
        for name in value:
            if name not in known_names:
                similar_name = find_closest_name(name, known_names)
                hint = (
                    f"did you mean {similar_name!r}?"
                    if similar_name
                    else f"the members here are {', '.join(known_names)}"
                )
                raise SpecError(
                    f"there is no member {brief(name)} here", pointer=f"{pointer}/{escape(str(name))}", hint=hint
                )

    # --- kinds of fields

    def string(self, value: Any, pointer: str) -> str:
        if not isinstance(value, str):
            raise SpecError(f"this is {_describe_kind(value)}, not a string", pointer=pointer, hint='write "text"')
        if has_surrogate(value):
            raise SpecError(
                "the string contains a lone surrogate, which cannot occur in a text",
                pointer=pointer,
                hint="remove \\udXXX",
            )
        return value

    def boolean(self, value: Any, pointer: str) -> bool:
        if not isinstance(value, bool):
            raise SpecError(
                f"this is {_describe_kind(value)}, not a boolean", pointer=pointer, hint="write true or false"
            )
        return value

    def _integer(self, value: Any, pointer: str, minimum: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= _MAX_INTEGER:
            raise SpecError(
                f"this is {brief(value)}, not an integer from {minimum} to {_MAX_INTEGER}",
                pointer=pointer,
                hint="write an integer such as 8",
            )
        return value

    def count(self, value: Any, pointer: str) -> int:
        return self._integer(value, pointer, 0)

    def at_most(self, value: Any, pointer: str) -> int:
        return self._integer(value, pointer, -1)

    def style(self, value: Any, pointer: str) -> ArgumentForm | None:
        return argument_form(value, pointer)

    def syntax(self, value: Any, pointer: str) -> str:
        if value not in ("ebnf", "lark"):
            raise SpecError(f"there is no syntax {brief(value)}", pointer=pointer, hint='write "ebnf" or "lark"')
        return str(value)

    def schema(self, value: Any, pointer: str) -> Mapping[str, Any] | bool:
        if not isinstance(value, Mapping | bool):
            raise SpecError(
                f"this is {_describe_kind(value)}, not a schema",
                pointer=pointer,
                hint="a schema is an object or a boolean",
            )
        return value

    def token(self, value: Any, pointer: str) -> int | str:
        if isinstance(value, bool) or not isinstance(value, int | str) or (isinstance(value, int) and value < 0):
            raise SpecError(
                f"this is {brief(value)}, not a token", pointer=pointer, hint='write an id, 17, or a name, "<|call|>"'
            )
        return value

    def _read_items(self, value: Any, pointer: str, what: str, min_items: int = 1) -> list[tuple[str, Any]]:
        if not isinstance(value, list | tuple):
            raise SpecError(
                f"this is {_describe_kind(value)}, not an array of {what}", pointer=pointer, hint="write [...]"
            )
        if len(value) < min_items:
            raise SpecError(f"the array of {what} is empty", pointer=pointer, hint="give at least one")
        return [(f"{pointer}/{number}", item) for number, item in enumerate(value)]

    def strings(self, value: Any, pointer: str, min_items: int = 0) -> tuple[str, ...]:
        texts = [
            (item_pointer, self.string(item, item_pointer))
            for item_pointer, item in self._read_items(value, pointer, "strings", min_items)
        ]
        for item_pointer, text in texts:
            if not text:
                raise SpecError(
                    "the string is empty, so it occurs in every text", pointer=item_pointer, hint="leave it out"
                )
        return tuple(text for _, text in texts)

    def some_strings(self, value: Any, pointer: str) -> tuple[str, ...]:
        return self.strings(value, pointer, 1)

    def tokens(self, value: Any, pointer: str, min_items: int = 0) -> tuple[int | str, ...]:
        return tuple(
            [
                self.token(item, item_pointer)
                for item_pointer, item in self._read_items(value, pointer, "tokens", min_items)
            ]
        )

    def some_tokens(self, value: Any, pointer: str) -> tuple[int | str, ...]:
        return self.tokens(value, pointer, 1)

    def formats(self, value: Any, pointer: str) -> tuple[Format, ...]:
        return tuple(
            [self.format(item, item_pointer) for item_pointer, item in self._read_items(value, pointer, "formats")]
        )

    def markers(self, value: Any, pointer: str) -> tuple[str, ...] | Format:
        if isinstance(value, Mapping):
            return self._read_token_format(value, pointer)
        if isinstance(value, list | tuple):
            return tuple(
                [self.string(item, item_pointer) for item_pointer, item in self._read_items(value, pointer, "strings")]
            )
        return (self.string(value, pointer),)

    def _read_token_format(self, value: Mapping[str, Any], pointer: str) -> Format:
        if value.get("type", "token") != "token":
            raise SpecError(
                'this is not a format of type "token"', pointer=f"{pointer}/type", hint="write a string, or a token"
            )
        return self.format_of_type("token", value, pointer)

    def tags(self, value: Any, pointer: str) -> tuple[Format, ...]:
        out = []
        for item_pointer, item in self._read_items(value, pointer, "tags"):
            if not isinstance(item, Mapping):
                raise SpecError(
                    f"a tag is an object, not {_describe_kind(item)}",
                    pointer=item_pointer,
                    hint="it has begin, content, end",
                )
            if item.get("type", "tag") != "tag":
                raise SpecError(
                    f'a format of type "tag" is required here, not {brief(item["type"])}',
                    pointer=f"{item_pointer}/type",
                    hint='write "type": "tag"',
                )
            out.append(self.format_of_type("tag", item, item_pointer))
        return tuple(out)

    def _read_rules(self, value: Any, pointer: str) -> list[tuple[str, Any, Format]]:
        out = []
        for item_pointer, item in self._read_items(value, pointer, "rules"):
            if not isinstance(item, list | tuple) or len(item) != 2:
                raise SpecError(
                    "a rule is a pair of a pattern and a format", pointer=item_pointer, hint='write ["<tool>", {...}]'
                )
            out.append((f"{item_pointer}/0", item[0], self.format(item[1], f"{item_pointer}/1")))
        return out

    def string_rules(self, value: Any, pointer: str) -> tuple[tuple[str, Format], ...]:
        rules = [
            (item_pointer, self.string(pattern, item_pointer), content)
            for item_pointer, pattern, content in self._read_rules(value, pointer)
        ]
        seen_patterns = set[str]()
        for item_pointer, pattern, _ in rules:
            if not pattern or pattern in seen_patterns:
                raise SpecError(
                    "the pattern is empty" if not pattern else f"the pattern {brief(pattern)} occurs twice",
                    pointer=item_pointer,
                    hint="give each rule a different pattern; for several formats, use the format or",
                )
            seen_patterns.add(pattern)
        return tuple((pattern, content) for _, pattern, content in rules)

    def token_rules(self, value: Any, pointer: str) -> tuple[tuple[int | str, Format], ...]:
        return tuple(
            [
                (self.token(pattern, item_pointer), content)
                for item_pointer, pattern, content in self._read_rules(value, pointer)
            ]
        )


def _default_fields(name: str) -> dict[str, Any]:
    return {field: default for field, (_, default) in FORMATS[name].items() if default is not REQUIRED}


def _example(kind: str, field: str) -> str:
    examples = {
        "string": '"..."', "schema": "{...}", "format": '{"type": "any_text"}', "formats": '[{"type": "any_text"}]',
        "markers": '"<tag>"', "token": '"<|call|>"', "some_strings": '["<tag"]', "tags": "[{...}]",
        "some_tokens": '["<|call|>"]', "count": "0", "at_most": "8, or -1 for unbounded",
    }  # fmt: skip
    return f'"{field}": {examples.get(kind, "[...]")}'
