"""Describes a JSON Schema to a model: the form of the values, in a notation that models know, with comments.

In: a schema, as parsed JSON. Out: text, in the notation of TypeScript's types:

    {
      "customer": string,  // who pays
      "status": "open" | "closed",
      "due"?: string | null,  // date: YYYY-MM-DD
      "items": [{
        "name": string,
        "price": number
      }, ...]
    }

Members are listed in the order of `properties`, which is the order in which guided writes them. A `?` marks optional
members. References are replaced by their targets. A recursive reference gets a name, whose definition follows the form.

The form is advice to a model, not a specification. Keywords with no short form, such as `if` and `not`, are left out,
and so is everything beyond `MAX_LENGTH` characters. The mask still enforces them. Bounds of numbers, lengths and counts
are left out, too: with them, Qwen2.5-Coder-0.5B gets 320 of 398 fields of fifty extractions right, and without, 329.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from guided.frontends.json_schema.documents.source_spans import reference_target

__all__ = ["MAX_LENGTH", "schema_form", "to_json"]

MAX_LENGTH: Final = 6_000  # characters of a form
_MAX_VALUES: Final = 40  # values of an enum
_MAX_DEPTH: Final = 24  # levels of nested schemas
_ANY: Final = "any value"
_FORMATS: Final[Mapping[str, str]] = {
    "date": "date: YYYY-MM-DD",
    "date-time": "date and time: YYYY-MM-DDThh:mm:ssZ",
    "time": "time: hh:mm:ssZ",
    "duration": "ISO 8601 duration, such as P3DT4H",
    "email": "e-mail address",
    "uri": "URL",
    "uuid": "UUID",
    "ipv4": "IPv4 address",
    "ipv6": "IPv6 address",
    "hostname": "host name",
}


def schema_form(schema: object) -> str:
    """The form of a schema's values. Malformed parts are described as any value."""
    writer = _Writer(schema)
    form, notes = writer.write(schema, 0, ())
    text = form + _format_comment(notes)
    while (pending := writer.take_undefined()) is not None:
        name, target = pending
        form, notes = writer.write(target, 0, (name,))
        text += f"\n{name} = {form}{_format_comment(notes)}"
        if len(text) > MAX_LENGTH:
            break
    return text if len(text) <= MAX_LENGTH else text[: text.rfind("\n", 0, MAX_LENGTH)] + "\n..."


def _format_comment(notes: Iterable[str]) -> str:
    joined_notes = "; ".join(dict.fromkeys(note for note in notes if note))
    return f"  // {joined_notes}" if joined_notes else ""


class _Writer:
    """Writes the forms of one document. `_size` approximates the characters so far, so a large document ends early."""

    def __init__(self, document: object) -> None:
        self._document, self._names, self._defined_names = document, dict[str, str](), set[str]()
        self._size = self._depth = 0

    def take_undefined(self) -> tuple[str, object] | None:
        """The next name that a form uses and that has no definition yet, and its schema. Marks it as defined."""
        for reference, name in self._names.items():
            if name not in self._defined_names:
                self._defined_names.add(name)
                return name, reference_target(self._document, reference)
        return None

    def write(self, schema: object, indent: int, references: tuple[str, ...]) -> tuple[str, list[str]]:
        """The form of a schema, and the comments on the form. `references`: the references that lead to the schema."""
        if not isinstance(schema, Mapping) or self._depth > _MAX_DEPTH or self._size > MAX_LENGTH:
            return _ANY, []
        notes = [_as_one_line(schema.get("description") or schema.get("title") or "")]
        self._depth += 1
        form, form_notes = self._write_form(schema, indent, references)
        self._depth -= 1
        self._size += len(form) if "\n" not in form else 2
        return form, notes + form_notes

    def _write_form(self, schema: Mapping[str, Any], indent: int, references: tuple[str, ...]) -> tuple[str, list[str]]:
        if isinstance(reference := schema.get("$ref"), str):
            return self._write_reference(reference, indent, references)
        if "const" in schema:
            return to_json(schema["const"]), []
        if isinstance(values := schema.get("enum"), list):
            texts = [to_json(value) for value in values[:_MAX_VALUES]]
            return " | ".join([*texts, "..."] if len(values) > _MAX_VALUES else texts), []
        for keyword in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(keyword), list) and branches and "properties" not in schema:
                other_keywords = _without_keyword(schema, keyword)
                merged_branches = [
                    {**other_keywords, **branch} if isinstance(branch, Mapping) else branch for branch in branches
                ]
                return self._write_union(merged_branches, indent, references)
        if isinstance(parts := schema.get("allOf"), list) and parts:
            return self.write(
                _merge_parts([_without_keyword(schema, "allOf"), *map(self._resolve_reference, parts)]),
                indent,
                references,
            )
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._write_union([{**schema, "type": type_name} for type_name in kind], indent, references)
        if kind == "object" or (kind is None and "properties" in schema):
            return self._write_object(schema, indent, references), []
        if kind == "array" or (kind is None and ("items" in schema or "prefixItems" in schema)):
            return self._write_array(schema, indent, references)
        if kind == "string" or (kind is None and ("pattern" in schema or "format" in schema)):
            return "string", _string_notes(schema)
        return (kind if kind in ("integer", "number", "boolean", "null") else _ANY), []

    def _write_union(self, branches: list[Any], indent: int, references: tuple[str, ...]) -> tuple[str, list[str]]:
        forms, notes = list[str](), list[str]()
        for branch in branches:
            form, form_notes = self.write(branch, indent, references)
            forms.append(form)
            notes += form_notes
        return " | ".join(dict.fromkeys(forms)), notes

    def _write_object(self, schema: Mapping[str, Any], indent: int, references: tuple[str, ...]) -> str:
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        members = schema.get("properties")
        lines = list[tuple[str, list[str]]]()
        for name, member in members.items() if isinstance(members, Mapping) else ():
            if member is False:
                continue
            form, notes = self.write(member, indent + 1, references)
            lines.append((f"{to_json(name)}{'' if name in required else '?'}: {form}", notes))
        patterns = schema.get("patternProperties")
        for pattern, member in patterns.items() if isinstance(patterns, Mapping) else ():
            form, notes = self.write(member, indent + 1, references)
            lines.append((f"[name: string]: {form}", [f"names match {pattern}", *notes]))
        additional = schema.get("additionalProperties")
        if isinstance(additional, Mapping) and additional:
            form, notes = self.write(additional, indent + 1, references)
            lines.append((f"[name: string]: {form}", notes))
        if not lines:
            return "{}" if additional is False else "object"
        padding = "  " * (indent + 1)
        commas = ["," for _ in lines[1:]] + [""]
        body = (
            padding + text + comma + _format_comment(notes) for (text, notes), comma in zip(lines, commas, strict=True)
        )
        return "\n".join(("{", *body, "  " * indent + "}"))

    def _write_array(
        self, schema: Mapping[str, Any], indent: int, references: tuple[str, ...]
    ) -> tuple[str, list[str]]:
        notes = ["all different" * (schema.get("uniqueItems") is True)]
        prefix_items, items = schema.get("prefixItems"), schema.get("items")
        if isinstance(items, list):
            prefix_items, items = items, schema.get("additionalItems")
        forms = list[str]()
        for item in prefix_items if isinstance(prefix_items, list) else ():
            form, form_notes = self.write(item, indent, references)
            forms.append(form)
            notes += form_notes
        if isinstance(items, Mapping):
            form, form_notes = self.write(items, indent, references)
            forms += [f"({form})" if " | " in form and "\n" not in form else form, "..."]
            notes += form_notes
        elif items is not False:
            forms.append("...")
        return f"[{', '.join(forms)}]", notes

    def _write_reference(self, reference: str, indent: int, references: tuple[str, ...]) -> tuple[str, list[str]]:
        if reference in references or reference in self._names:
            if reference not in self._names:
                self._names[reference] = self._new_name(reference)
            return self._names[reference], []
        target = reference_target(self._document, reference)
        if target is None:
            return _ANY, []
        form, notes = self.write(target, indent, (*references, reference))
        if reference in self._names:  # it is recursive
            return self._names[reference], []
        return form, notes

    def _new_name(self, reference: str) -> str:
        """A name for a definition that no other definition has."""
        base_name = name = reference.rsplit("/", 1)[-1].strip("#") or "Value"
        number, names = 1, {*self._names.values()}
        while name in names:
            number += 1
            name = f"{base_name}_{number}"
        return name

    def _resolve_reference(self, schema: object) -> object:
        for _ in range(_MAX_DEPTH):
            if not (isinstance(schema, Mapping) and isinstance(reference := schema.get("$ref"), str)):
                break
            schema = reference_target(self._document, reference)
        return schema


def _without_keyword(schema: Mapping[str, Any], keyword: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name not in (keyword, "description", "title")}


def _merge_parts(parts: Iterable[object]) -> dict[str, Any]:
    """Merge the parts of an `allOf`: objects and `required` are united. For other keywords, the last part counts."""
    out: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items() if isinstance(part, Mapping) else ():
            earlier_value = out.get(name)
            if isinstance(value, Mapping) and isinstance(earlier_value, Mapping):
                value = {**earlier_value, **value}
            elif isinstance(value, list) and isinstance(earlier_value, list) and name == "required":
                value = [*earlier_value, *value]
            out[name] = value
    return out


def to_json(value: object, **layout: Any) -> str:
    """A value of a schema as JSON. `layout`: `indent` or `separators` of `json.dumps`."""
    return json.dumps(value, ensure_ascii=False, default=_to_json_type, **layout)


def _to_json_type(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else float(value) if isinstance(value, Decimal) else str(value)


def _as_one_line(text: object) -> str:
    return " ".join(text.split()) if isinstance(text, str) else ""


def _string_notes(schema: Mapping[str, Any]) -> list[str]:
    name, pattern = schema.get("format"), schema.get("pattern", schema.get("x-guided-python-pattern"))
    notes = [_FORMATS.get(name, name) if isinstance(name, str) else ""]
    notes.append(f"matches {pattern}" if isinstance(pattern, str) and len(pattern) <= 200 else "")
    quote = schema.get("x-guided-quote")
    notes.append("copied verbatim from the given text" if "x-guided-quote" in schema else "")
    min_words = quote.get("minWords") if isinstance(quote, Mapping) else None
    return [*notes, f"at least {min_words} words" if isinstance(min_words, int) and min_words > 1 else ""]
