"""Describes how the XML styles write the arguments of a call. `element_text.py` writes them, and `call_arguments.py`
reads them back.

    {"city": "Oslo", "days": 3}        in the style qwen_xml
    <parameter=city>
    Oslo
    </parameter>
    <parameter=days>
    3
    </parameter>

    {"city": "Oslo", "at": {"lat": 1.5}, "tags": ["a"]}        in the style cohere_xml, which writes no line breaks
    <cofl:value name="city" type="raw">Oslo</cofl:value>
    <cofl:value name="at" type="dict"><cofl:value name="lat" type="json">1.5</cofl:value></cofl:value>
    <cofl:value name="tags" type="list"><cofl:value type="raw">a</cofl:value></cofl:value>

Source: the texts that xgrammar 0.2.9's grammars for these styles accept; for step_xml, SGLang's parser of Step 3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["FORMS", "ElementForm"]

_NO_STRINGS: Final[Mapping[str, str]] = {}
_COHERE_TYPES: Final = {"number": "json", "boolean": "json", "null": "json", "object": "dict", "array": "list"}
_MINIMAX_MARK: Final = "]<]minimax[>["
_QUOTE_ESCAPES: Final = {"&": "&amp;", '"': "&quot;"}
_XML_ESCAPES: Final = {**_QUOTE_ESCAPES, "<": "&lt;", ">": "&gt;"}


class ElementForm(NamedTuple):
    """How a style writes one value: `begin`, the name, `after`, `string` or `other`, the value, `end`, in this order.

    In all of these texts, {gap} is whitespace, {type} is the type of the value, and {name} the name of the member.

    Attributes:
        begin, after: the texts before and after the name of a member.
        string, other: the text before the value: for a string, and for any other value.
        end: the text after the value.
        item, item_end: for the items of an array, `item` replaces `begin` and `after`, and `item_end` replaces `end`.
            If they are empty, the style writes nested objects and arrays as JSON.
        never: a text that no string may contain; if empty, no string may contain `end`.
        types: the style's names for the types of values.
        lines: whether a newline may precede and follow a string.
        around: whether a value that is not a string may have whitespace around it.
        between: whether whitespace may separate items.
        escapes: special character in a name -> how it is written; & comes first. A style with escapes can write all
            characters in names except NUL.
        names_integers: whether an integer may also be labelled "integer" if the schema does not constrain the value.
        separator, last: the whitespace between elements and after the last one, in prompts. In answers, any whitespace
            may surround elements.
    """

    begin: str
    after: str
    string: str
    other: str
    end: str
    item: str = ""
    item_end: str = ""
    never: str = ""
    types: Mapping[str, str] = _NO_STRINGS
    lines: bool = False
    around: bool = True
    between: bool = False
    escapes: Mapping[str, str] = _NO_STRINGS
    names_integers: bool = False
    separator: str = ""
    last: str = ""

    @property
    def is_typed(self) -> bool:
        """Whether a label shows that a value is a string. Otherwise this follows from the schema and the text."""
        return self.string != self.other

    @property
    def has_nested_elements(self) -> bool:
        """Whether members of objects and items of arrays are elements, too."""
        return self.item != ""

    @property
    def has_quoted_names(self) -> bool:
        """Whether names are in quotation marks."""
        return self.after.startswith('"')

    @property
    def repeats_names(self) -> bool:
        """Whether the end of a member repeats its name."""
        return "{name}" in self.end

    @property
    def forbidden_texts(self) -> tuple[str, ...]:
        """The texts that no string may contain: `never`, or the end of the element."""
        return (self.never or self.end,)

    def value_prefix(self, kind: str) -> str:
        """The text before a value of the type `kind`."""
        return self.string if kind == "string" else self.other.replace("{type}", self.types.get(kind, kind))

    def encode_name(self, name: str) -> str:
        """The written form of a name."""
        return "".join([self.escapes.get(char, char) for char in name])

    def decode_name(self, name: str) -> str:
        """Decode a written name; the inverse of `encode_name`."""
        for char, escape in reversed([*self.escapes.items()]):
            name = name.replace(escape, char)
        return name

    @property
    def name_pattern(self) -> str:
        """A regular expression that matches an encoded name."""
        return '[^"]+' if self.has_quoted_names else r'(?!/)[^<>"\s]+' if self.repeats_names else r'[^<>"\s]+'

    def can_write_name(self, name: str) -> bool:
        """Whether a member with this name can be written."""
        if self.escapes:
            return name != "" and "\0" not in name
        is_end = self.repeats_names and name.startswith("/")
        return re.fullmatch(r'[^\0<>&"\s]+', name) is not None and not is_end


FORMS: Final[Mapping[str, ElementForm]] = {
    "qwen_xml": ElementForm("<parameter=", ">", "", "", "</parameter>", lines=True, separator="\n"),
    "minimax_xml": ElementForm('<parameter name="', '"', ">", ">", "</parameter>"),
    "step_xml": ElementForm(
        '<steptml:parameter name="', '"', ">", ">", "</steptml:parameter>", separator="\n"
    ),
    "glm_xml": ElementForm("<arg_key>", "</arg_key>{gap}<arg_value>", "", "", "</arg_value>"),
    "deepseek_xml": ElementForm(
        '<｜DSML｜parameter name="', '"', ' string="true">', ' string="false">', "</｜DSML｜parameter>"
    ),
    "deepseek_v4_1_xml": ElementForm(
        '<｜DSML｜ parameter name="', '"', ' string="true">', ' string="false">', "</｜DSML｜ parameter>"
    ),
    "kimi_k3_xml": ElementForm(
        '<|open|>argument key="', '"', ' type="string"<|sep|>', ' type="{type}"<|sep|>', "<|close|>argument<|sep|>",
        escapes=_QUOTE_ESCAPES, names_integers=True,
    ),
    "cohere_xml": ElementForm(
        '<cofl:value name="', '"', ' type="raw">', ' type="{type}">', "</cofl:value>",
        item="<cofl:value", item_end="</cofl:value>", types=_COHERE_TYPES, escapes=_XML_ESCAPES,
    ),
    "minimax_m3_xml": ElementForm(
        _MINIMAX_MARK + "<", ">", "", "", _MINIMAX_MARK + "</{name}>",
        item=_MINIMAX_MARK + "<item>", item_end=_MINIMAX_MARK + "</item>", never=_MINIMAX_MARK,
        around=False, between=True,
    ),
}  # fmt: skip
