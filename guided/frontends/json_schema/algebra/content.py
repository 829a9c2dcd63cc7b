"""Checks strings that must contain a JSON text: `contentMediaType` of draft 7, plain or in base64. In: a shape. Out:
membership, and errors for unsupported combinations.

JSON texts are not a regular language, so they cannot be intersected with other constraints on the same string. Such
combinations are refused.
"""

from __future__ import annotations

import base64
import json

from guided.errors import UnsupportedError
from guided.frontends.json_schema.algebra.shape import Shape, Window
from guided.frontends.json_schema.documents.schema import Schema

__all__ = ["content_error", "content_fits", "content_schema", "refuse_content"]

_MIN_BASE64_LENGTH = 4  # the length of the shortest JSON text in base64


def content_schema(shape: Shape) -> Schema | None:
    """The schema that requires or forbids a JSON text in a string, if there is one."""
    return shape.json_text or shape.json_base64 or shape.no_json_text or shape.no_json_base64


def content_fits(text: str, shape: Shape) -> bool:
    """Whether a string satisfies the shape's requirements on JSON texts."""
    if (content := content_schema(shape)) is None:
        return True
    checks = (
        (shape.json_text, shape.no_json_text, _is_json),
        (shape.json_base64, shape.no_json_base64, _is_base64_of_json),
    )
    try:
        for required, unwanted, check in checks:
            if (required or unwanted) is not None and (is_content := check(text)) != (required is not None):
                return False
            if required is not None and unwanted is not None and is_content:
                return False
    except RecursionError:
        raise content_error(
            content, "a string in enum or const nests too deeply to be read as JSON", "leave it out"
        ) from None
    return True


def refuse_content(shape: Shape, length: Window) -> None:
    """Raise UnsupportedError if a string must contain a JSON text and satisfy anything else, or must contain no JSON
    text.
    """
    if (unwanted := shape.no_json_text or shape.no_json_base64) is not None:
        raise content_error(unwanted, "the negation of contentMediaType is not enforced",
                       "drop the not, oneOf or if that negates contentMediaType")  # fmt: skip
    required_schema, min_length = (
        shape.json_text or shape.json_base64,
        1 if shape.json_base64 is None else _MIN_BASE64_LENGTH,
    )
    has_both = shape.json_text is not None and shape.json_base64 is not None
    if required_schema is not None and (
        has_both or shape.patterns or length.low > min_length or length.high is not None
    ):
        raise content_error(required_schema, "contentMediaType cannot be combined with another constraint on a string",
                       "drop its pattern, format or length (or the option max_string)")  # fmt: skip


def content_error(schema: Schema, reason: str, hint: str) -> UnsupportedError:
    """The error for a schema with `contentMediaType`."""
    full_hint = f"{hint}, or pass format='annotate'"
    return UnsupportedError(reason, pointer=schema.location_of("contentMediaType"), hint=full_hint)


def _is_base64_of_json(text: str) -> bool:
    """Whether the text is a JSON text in base64."""
    try:
        return len(text) % 4 == 0 and _is_json(base64.b64decode(text.encode("ascii"), validate=True).decode("utf-8"))
    except ValueError:
        return False


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except ValueError:
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(name)
