"""Reads the form in which a style writes arguments: a name, or a description in the structural tag itself.

    "qwen_xml"                                                                     a name, see `ARGUMENT_STYLES`
    {"type": "elements", "begin": "<arg ", "after": ">", "string": "", "other": "", "end": "</arg>"}   `ElementForm`
    {"type": "literals", "quotes": ["'"], "assign": "=", "comma": ", "}                                `LiteralForm`

In: the value of `style`. Out: a form. A description has the fields of its form; absent fields have their defaults. It
may come from a client, so each field is checked: its type, its length, and that the text can be read back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from guided.close_names import find_closest_name
from guided.errors import SpecError, brief
from guided.frontends.structural_tag.element_forms import FORMS, ElementForm
from guided.frontends.structural_tag.literal_forms import LITERAL_FORMS, LiteralForm

__all__ = ["ARGUMENT_STYLES", "ArgumentForm", "argument_form", "describe_form"]

ArgumentForm: TypeAlias = ElementForm | LiteralForm
ARGUMENT_STYLES: Final = ("json", *FORMS, *LITERAL_FORMS)
"""The names of all forms."""
_MAX_LENGTH: Final = 200  # characters of a text; the texts of known forms have at most 40
_VALUE_TYPES: Final = ("string", "number", "boolean", "null", "object", "array")


def argument_form(style: object, pointer: str = "") -> ArgumentForm | None:
    """The form with this name or description; None for JSON.

    Raises:
        SpecError: there is no such form, or the description is invalid. `pointer` is its location.
    """
    if isinstance(style, Mapping):
        return _read_form(style, pointer)
    if not isinstance(style, str) or style not in ARGUMENT_STYLES:
        raise SpecError(
            f"there is no style {brief(style)}", pointer=pointer, hint=f"one of {', '.join(ARGUMENT_STYLES)}"
        )
    return FORMS.get(style) or LITERAL_FORMS.get(style)


def describe_form(form: ArgumentForm) -> dict[str, Any]:
    """The description of a form, as plain JSON without defaults."""
    defaults: Mapping[str, Any] = type(form)._field_defaults
    fields = {name: value for name, value in form._asdict().items() if name not in defaults or value != defaults[name]}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    return {"type": "elements" if isinstance(form, ElementForm) else "literals", **plain}


def _read_form(description: Mapping[Any, Any], pointer: str) -> ArgumentForm:
    kinds: dict[Any, type[ElementForm] | type[LiteralForm]] = {"elements": ElementForm, "literals": LiteralForm}
    kind = description.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        raise SpecError(
            f"there is no form of arguments of the type {brief(kind)}", pointer=f"{pointer}/type",
            hint='write "type": "elements", or "literals"',
        )  # fmt: skip
    form_class, fields = kinds[kind], dict[str, Any]()
    for name, value in description.items():
        if name == "type":
            continue
        if name not in form_class._fields:
            similar_name = find_closest_name(str(name), form_class._fields)
            hint = (
                f"did you mean {similar_name!r}?" if similar_name else f"its fields are {', '.join(form_class._fields)}"
            )
            raise SpecError(f"a form of this type has no field {brief(name)}", pointer=f"{pointer}/{name}", hint=hint)
        fields[name] = _READERS[type(form_class._field_defaults.get(name, ""))](value, f"{pointer}/{name}")
    missing_fields = [
        name for name in form_class._fields if name not in fields and name not in form_class._field_defaults
    ]
    if missing_fields:
        raise SpecError(f'"{missing_fields[0]}" is missing', pointer=pointer, hint=f'add "{missing_fields[0]}"')
    form = form_class(**fields)
    for name, problem in _ambiguous_fields(form):
        raise SpecError(problem, pointer=f"{pointer}/{name}", hint="change the description of the arguments")
    return form


def _ambiguous_fields(form: ArgumentForm) -> list[tuple[str, str]]:
    """The fields that make it impossible to read a form back, each with the reason."""
    if isinstance(form, LiteralForm):
        are_python_quotes = [quote in ("'", '"') for quote in form.quotes]
        checks = [
            ("quotes", not form.quotes or "" in form.quotes, "strings need a delimiter"),
            (
                "quotes",
                form.escapes and not all(are_python_quotes),
                "strings with Python's escapes need the delimiters ' or \"",
            ),
            ("assign", form.assign.strip() not in ("=", ":"), "names and values must be separated by = or :"),
            ("colon", form.colon.strip() not in ("=", ":"), "names and values must be separated by = or :"),
            ("comma", form.comma.strip() != ",", "values must be separated by a comma"),
            ("bare", form.bare and form.escapes, "names without delimiters cannot be combined with Python's escapes"),
        ]
        return [(name, reason) for name, is_wrong, reason in checks if is_wrong]
    whitespace = ("separator", "last")
    checks = [
        ("begin", not form.begin.strip(), "an element needs a text before its name"),
        ("after", not (form.after + form.other).strip(), "a name needs a text after it"),
        ("end", not form.end.strip(), "an element needs a text at its end"),
        ("never", form.repeats_names and not form.never, "an end that repeats the name needs a text that no value has"),
        ("item", bool(form.item) != bool(form.item_end), "items need both a begin and an end"),
        (
            "item",
            form.is_typed and form.has_nested_elements and "{type}" not in form.other,
            "the types of values are not written",
        ),
        *((name, bool(getattr(form, name).strip()), "it may contain only whitespace") for name in whitespace),
    ]
    return [(name, reason) for name, is_wrong, reason in checks if is_wrong]


def _read_text(value: object, pointer: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_LENGTH or "\0" in value:
        raise SpecError(
            f"{brief(value)} is not a string of at most {_MAX_LENGTH} characters",
            pointer=pointer,
            hint="write a shorter string",
        )
    return value


def _read_flag(value: object, pointer: str) -> bool:
    if not isinstance(value, bool):
        raise SpecError(f"{brief(value)} is not a boolean", pointer=pointer, hint="write true or false")
    return value


def _read_texts(value: object, pointer: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not 0 < len(value) <= 4:
        raise SpecError(f"{brief(value)} is not a list of one to four strings", pointer=pointer, hint='write ["..."]')
    return tuple(_read_text(text, f"{pointer}/{number}") for number, text in enumerate(value))


def _read_mapping(value: object, pointer: str) -> Mapping[str, str]:
    if (
        not isinstance(value, Mapping)
        or len(value) > len(_VALUE_TYPES)
        or not all(isinstance(key, str) for key in value)
    ):
        raise SpecError(
            f"{brief(value)} is not an object that maps types of values to strings",
            pointer=pointer,
            hint='write {"...": "..."}',
        )
    return {key: _read_text(text, f"{pointer}/{key}") for key, text in value.items()}


_READERS: Final[Mapping[type, Callable[[object, str], Any]]] = {
    str: _read_text, bool: _read_flag, tuple: _read_texts, dict: _read_mapping,
}  # fmt: skip
"""By the type of a field's default. Fields without a default are texts."""
