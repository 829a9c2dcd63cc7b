"""Describes how some styles write the arguments of a call as literals of a programming language. `literal_text.py`
writes them, and `literal_arguments.py` reads them back.

    {"city": "Oslo", "on": true, "at": {"lat": 1.5}}     in the style pythonic
    city="Oslo", on=True, at={"lat": 1.5}

    in the style gemma
    city:<|"|>Oslo<|"|>,on:true,at:{lat:1.5}

Sources: Python's grammar of string literals; for the other styles, the files in `styles/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["LITERAL_FORMS", "LiteralForm"]


class LiteralForm(NamedTuple):
    """How a style writes arguments: name, `assign`, value, with `comma` between arguments.

    Attributes:
        quotes: the delimiters of strings. The first one is used in prompts; a model may use any of them.
        assign: the text between the name of an argument and its value.
        colon: the text between the name of a member and its value, in objects.
        comma: the text between arguments, members or items.
        true, false, null: the spellings of the constants. The first one is used in prompts.
        escapes: whether strings have Python's escapes. Otherwise a string is literal, and cannot contain its delimiter.
        bare: whether objects have names without delimiters, as arguments do.
        braces: whether the arguments are in braces, like any other object.
    """

    quotes: tuple[str, ...] = ('"', "'")
    assign: str = "="
    colon: str = ": "
    comma: str = ", "
    true: tuple[str, ...] = ("True",)
    false: tuple[str, ...] = ("False",)
    null: tuple[str, ...] = ("None",)
    escapes: bool = True
    bare: bool = False
    braces: bool = False

    def constant(self, value: bool | None) -> tuple[str, ...]:
        """The spellings of a constant."""
        return self.null if value is None else self.true if value else self.false

    def can_write_name(self, name: str) -> bool:
        """Whether an argument with this name can be written."""
        return re.fullmatch(self.name_pattern, name) is not None

    @property
    def forbidden_texts(self) -> tuple[str, ...]:
        """The texts that no string may contain, because they end it."""
        return () if self.escapes else self.quotes

    @property
    def name_pattern(self) -> str:
        """A regular expression for names without delimiters. In styles with Python's escapes: the ASCII identifiers."""
        return "[A-Za-z_][A-Za-z0-9_]*" if self.escapes else "[A-Za-z0-9_.$-]+"


LITERAL_FORMS: Final[Mapping[str, LiteralForm]] = {
    "pythonic": LiteralForm(),
    "pythonic_json": LiteralForm(
        ("'", '"'), true=("true", "True"), false=("false", "False"), null=("null", "None")
    ),
    "gemma": LiteralForm(
        ('<|"|>',), ":", ":", ",", ("true",), ("false",), ("null",), escapes=False, bare=True, braces=True
    ),
}  # fmt: skip
