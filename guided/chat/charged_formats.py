"""Charges for the formats of chat templates: `"%s" % x`, `"{}".format(x)` and the filter `format`.

In: a format and its values. Out: the text. A field may be much longer than the format and the value: it has a width and
a precision, prints an attribute, or prints a number such as 1e308 with all its digits. So `"{}".format` is charged
field by field, and `%`, which Python formats in one step, for the longest possible text before it begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEscapeFormatter, SandboxedFormatter

from guided.chat.render_budget import STEP, charge, charge_all

__all__ = ["ChargedEscapeFormatter", "ChargedFormatter", "check_width", "format_percent"]

_WIDE_FIELD: Final = re.compile(r"\d{5,}|%[^a-zA-Z%]*\*|\{[^{}]*\{[^{}]*\}")  # a large width, or an argument as width
_NUMBER: Final = re.compile(r"\d+")
_LONGEST_FLOAT: Final = 320  # "%f" % 1e308
_ESCAPE_LENGTH: Final = 10  # "%a" prints a character such as "\U0001f600"


class ChargedFormatter(SandboxedFormatter):
    """Formats a string."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """Charge for a value that `!r`, `!s` or `!a` prints."""
        if conversion is not None:
            charge(_ESCAPE_LENGTH * _measure_printed_text(value))
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        """Charge for a field. Its width and precision have at most four digits."""
        charge(_measure_printed_text(value))
        text: str = super().format_field(value, format_spec)
        charge(STEP + len(text))
        return text


class ChargedEscapeFormatter(ChargedFormatter, SandboxedEscapeFormatter):
    """Formats a text that is marked as HTML."""


def check_width(template: str) -> None:
    """Charge for a format. Raises SecurityError if a field may be wider than 9,999 characters."""
    charge(len(template))
    if _WIDE_FIELD.search(template):
        raise SecurityError("the width of a field is too large for a chat template")


def format_percent(template: str, values: Iterable[Any], make: Callable[[], str]) -> str:
    """Charge for the longest text of a format with `%`, for which every field prints all values, then call `make`."""
    check_width(template)
    field_count = template.count("%")
    escape_length = 1 if template.count("%s") == field_count else _ESCAPE_LENGTH
    widths = sum(int(number[0]) for number in _NUMBER.finditer(template))
    charge(widths + field_count * escape_length * sum(map(_measure_printed_text, values)))
    return make()


def _measure_printed_text(value: Any) -> int:
    """At least the length of the longest text of a value with a width of 0, unless it prints escapes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int):
        return 2 * value.bit_length() + 8  # binary, with separators
    if isinstance(value, float):
        return _LONGEST_FLOAT
    charge_all(value)
    return len(str(value)) + (_LONGEST_FLOAT if isinstance(value, dict) else 0)
