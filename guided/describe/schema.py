"""A JSON Schema as a short form that models know: the form of a value, with comments.

In: a schema, as parsed JSON. Out: text, in the notation of TypeScript's types:

    {
      "customer": string,  // at most 40 characters
      "status": "open" | "closed",
      "due"?: string | null,  // date: YYYY-MM-DD
      "items": [{
        "name": string,
        "price": number  // 0 or more
      }, ...]  // 1 to 5 items
    }

Members are listed in the order of `properties`, which is the order in which guided writes them. A `?` marks optional
members. References are replaced by their targets. A recursive one is named, and its definition follows the form.

The form is advice to a model, not a specification. Keywords with no short form, such as `if` and `not`, are left out,
and so is everything beyond `MAX_LENGTH` characters. The mask enforces them all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["MAX_LENGTH", "schema_form"]

MAX_LENGTH: Final = 6_000  # characters of a form
_MAX_VALUES: Final = 40  # of an enum
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
    form, notes = writer.form(schema, 0, ())
    text = form + _comment(notes)
    while (pending := writer.next_undefined()) is not None:
        name, target = pending
        form, notes = writer.form(target, 0, (name,))
        text += f"\n{name} = {form}{_comment(notes)}"
        if len(text) > MAX_LENGTH:
            break
    return text if len(text) <= MAX_LENGTH else text[: text.rfind("\n", 0, MAX_LENGTH)] + "\n..."


def _comment(notes: Iterable[str]) -> str:
    joined_notes = "; ".join(dict.fromkeys(note for note in notes if note))
    return f"  // {joined_notes}" if joined_notes else ""


class _Writer:
    """Writes the forms of one document. `size` counts what was written, so that a large document ends early."""

    def __init__(self, document: object) -> None:
        self._document, self._names, self._defined = document, dict[str, str](), set[str]()
        self._size = self._depth = 0

    def next_undefined(self) -> tuple[str, object] | None:
        """A name that a form uses and that has no definition yet, and its schema."""
        for reference, name in self._names.items():
            if name not in self._defined:
                self._defined.add(name)
                return name, self._target(reference)
        return None

    def form(self, schema: object, indent: int, references: tuple[str, ...]) -> tuple[str, list[str]]:
        """The form of a schema, and the comments on it. `references`: the references that lead to it."""
        if not isinstance(schema, Mapping) or self._depth > _MAX_DEPTH or self._size > MAX_LENGTH:
            return _ANY, []
        notes = [_one_line(schema.get("description") or schema.get("title") or "")]
        self._depth += 1
        form, form_notes = self._form(schema, indent, references)
        self._depth -= 1
        self._size += len(form) if "\n" not in form else 2
        return form, notes + form_notes

    def _form(self, schema: Mapping[str, Any], indent: int, references: tuple[str, ...]) -> tuple[str, list[str]]:
        if isinstance(reference := schema.get("$ref"), str):
            return self._reference(reference, indent, references)
        if "const" in schema:
            return _value(schema["const"]), []
        if isinstance(values := schema.get("enum"), list):
            texts = [_value(value) for value in values[:_MAX_VALUES]]
            return " | ".join([*texts, "..."] if len(values) > _MAX_VALUES else texts), []
        for keyword in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(keyword), list) and branches and "properties" not in schema:
                rest = _without_keyword(schema, keyword)
                merged = [{**rest, **branch} if isinstance(branch, Mapping) else branch for branch in branches]
                return self._union(merged, indent, references)
        if isinstance(parts := schema.get("allOf"), list) and parts:
            return self.form(
                _merge_parts([_without_keyword(schema, "allOf"), *map(self._resolve, parts)]), indent, references
            )
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._union([{**schema, "type": type_name} for type_name in kind], indent, references)
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, indent, references)
        if kind == "array" or (kind is None and ("items" in schema or "prefixItems" in schema)):
            return self._array(schema, indent, references)
        if kind in ("integer", "number"):
            return kind, [
                _describe_range(schema, "minimum", "maximum", ""),
                _describe_exclusive_bounds(schema),
                _describe_multiple(schema),
            ]
        if kind == "string" or (kind is None and ("pattern" in schema or "format" in schema)):
            return "string", _string_notes(schema)
        return (kind if kind in ("boolean", "null") else _ANY), []

    def _union(self, branches: list[Any], indent: int, references: tuple[str, ...]) -> tuple[str, list[str]]:
        forms, notes = list[str](), list[str]()
        for branch in branches:
            form, form_notes = self.form(branch, indent, references)
            forms.append(form)
            notes += form_notes
        return " | ".join(dict.fromkeys(forms)), notes

    def _object(self, schema: Mapping[str, Any], indent: int, references: tuple[str, ...]) -> tuple[str, list[str]]:
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        members = schema.get("properties")
        lines = list[tuple[str, list[str]]]()
        for name, member in members.items() if isinstance(members, Mapping) else ():
            if member is False:
                continue
            form, notes = self.form(member, indent + 1, references)
            lines.append((f"{_value(name)}{'' if name in required else '?'}: {form}", notes))
        patterns = schema.get("patternProperties")
        for pattern, member in patterns.items() if isinstance(patterns, Mapping) else ():
            form, notes = self.form(member, indent + 1, references)
            lines.append((f"[name: string]: {form}", [f"names match {pattern}", *notes]))
        others = schema.get("additionalProperties")
        if isinstance(others, Mapping) and others:
            form, notes = self.form(others, indent + 1, references)
            lines.append((f"[name: string]: {form}", notes))
        counts = [_describe_range(schema, "minProperties", "maxProperties", "members")]
        if not lines:
            return "{}" if others is False else "object", counts
        padding = "  " * (indent + 1)
        commas = ["," for _ in lines[1:]] + [""]
        body = (padding + text + comma + _comment(notes) for (text, notes), comma in zip(lines, commas, strict=True))
        return "\n".join(("{", *body, "  " * indent + "}")), counts

    def _array(self, schema: Mapping[str, Any], indent: int, references: tuple[str, ...]) -> tuple[str, list[str]]:
        notes = [
            _describe_range(schema, "minItems", "maxItems", "items"),
            "all different" * (schema.get("uniqueItems") is True),
        ]
        first, rest = schema.get("prefixItems"), schema.get("items")
        if isinstance(rest, list):
            first, rest = rest, schema.get("additionalItems")
        forms = list[str]()
        for item in first if isinstance(first, list) else ():
            form, form_notes = self.form(item, indent, references)
            forms.append(form)
            notes += form_notes
        if isinstance(rest, Mapping):
            form, form_notes = self.form(rest, indent, references)
            forms += [f"({form})" if " | " in form and "\n" not in form else form, "..."]
            notes += form_notes
        elif rest is not False:
            forms.append("...")
        return f"[{', '.join(forms)}]", notes

    def _reference(self, reference: str, indent: int, references: tuple[str, ...]) -> tuple[str, list[str]]:
        if reference in references or reference in self._names:
            name = self._names.setdefault(reference, reference.rsplit("/", 1)[-1].strip("#") or "Value")
            return name, []
        target = self._target(reference)
        if target is None:
            return _ANY, []
        form, notes = self.form(target, indent, (*references, reference))
        if reference in self._names:  # it is recursive
            return self._names[reference], []
        return form, notes

    def _resolve(self, schema: object) -> object:
        for _ in range(_MAX_DEPTH):
            if not (isinstance(schema, Mapping) and isinstance(reference := schema.get("$ref"), str)):
                break
            schema = self._target(reference)
        return schema

    def _target(self, reference: str) -> object:
        """The schema that a reference within the document points to; None if there is none."""
        if not reference.startswith("#"):
            return None
        target: Any = self._document
        for token in reference[1:].split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            if isinstance(target, Mapping) and key in target:
                target = target[key]
            elif isinstance(target, list) and key.isdecimal() and int(key) < len(target):
                target = target[int(key)]
            else:
                return None
        return target


def _without_keyword(schema: Mapping[str, Any], keyword: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name not in (keyword, "description", "title")}


def _merge_parts(parts: Iterable[object]) -> dict[str, Any]:
    """One schema for the parts of an `allOf`: the union of members and requirements, and the last of other keywords."""
    out: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items() if isinstance(part, Mapping) else ():
            before = out.get(name)
            if isinstance(value, Mapping) and isinstance(before, Mapping):
                value = {**before, **value}
            elif isinstance(value, list) and isinstance(before, list) and name == "required":
                value = [*before, *value]
            out[name] = value
    return out


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _one_line(text: object) -> str:
    return " ".join(text.split()) if isinstance(text, str) else ""


def _number(value: object) -> str:
    return "" if isinstance(value, bool) or not isinstance(value, int | float) else f"{value}"


def _describe_range(schema: Mapping[str, Any], lower: str, upper: str, unit: str) -> str:
    low, high = _number(schema.get(lower)), _number(schema.get(upper))
    if unit and low == "0":
        low = ""
    if not low and not high:
        return ""
    span = (
        low if low == high else f"{low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}"
    )
    return f"{span} {unit}".strip()


def _describe_exclusive_bounds(schema: Mapping[str, Any]) -> str:
    parts = (
        (_number(schema.get("exclusiveMinimum")), "more than"),
        (_number(schema.get("exclusiveMaximum")), "less than"),
    )
    return " and ".join(f"{words} {number}" for number, words in parts if number)


def _describe_multiple(schema: Mapping[str, Any]) -> str:
    number = _number(schema.get("multipleOf"))
    return f"a multiple of {number}" if number else ""


def _string_notes(schema: Mapping[str, Any]) -> list[str]:
    name, pattern = schema.get("format"), schema.get("pattern")
    notes = [_FORMATS.get(name, name) if isinstance(name, str) else ""]
    notes.append(f"matches {pattern}" if isinstance(pattern, str) and len(pattern) <= 200 else "")
    quote = schema.get("x-guided-quote")
    notes.append("copied verbatim from the given text" if "x-guided-quote" in schema else "")
    notes.append(_describe_range(quote, "minWords", "", "words") if isinstance(quote, Mapping) else "")
    return [*notes, _describe_range(schema, "minLength", "maxLength", "characters")]
