"""Structural tags as pydantic models. docs/guides/structural-tags.md explains each format."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

__all__ = [
    "AnyTextFormat",
    "AnyTokensFormat",
    "ConstStringFormat",
    "ExcludeTokenFormat",
    "Format",
    "GrammarFormat",
    "JSONSchemaFormat",
    "OptionalFormat",
    "OrFormat",
    "PlusFormat",
    "QwenXMLParameterFormat",
    "RegexFormat",
    "RepeatFormat",
    "SequenceFormat",
    "StarFormat",
    "StructuralTag",
    "StructuralTagItem",
    "TagFormat",
    "TagsWithSeparatorFormat",
    "TokenFormat",
    "TokenTriggeredTagsFormat",
    "TriggeredTagsFormat",
]

_Count = Annotated[int | None, Field(ge=0, le=2**31 - 1)]
_Style = Literal[
    "json", "qwen_xml", "minimax_xml", "minimax_m3_xml", "deepseek_xml", "glm_xml", "cohere_xml", "kimi_k3_xml",
    "deepseek_v4_1_xml", "gemma",
]  # fmt: skip


class ConstStringFormat(BaseModel):
    """Exactly this text."""

    type: Literal["const_string"] = "const_string"
    value: str


class JSONSchemaFormat(BaseModel):
    """JSON that matches a schema; with a style other than "json", the arguments of a call as XML-like elements."""

    type: Literal["json_schema"] = "json_schema"
    json_schema: bool | dict[str, Any]
    style: _Style = "json"
    any_order: bool = False
    max_whitespace_cnt: int | None = None
    excludes: list[str] = []


class AnyTextFormat(BaseModel):
    """Any text that contains none of `excludes`."""

    type: Literal["any_text"] = "any_text"
    excludes: list[str] = []
    max_tokens: _Count = None
    max_chars: _Count = None


class TokenFormat(BaseModel):
    """One token, given by its id or its text."""

    type: Literal["token"] = "token"
    token: int | str


class ExcludeTokenFormat(BaseModel):
    """One token that is not in `exclude_tokens`."""

    type: Literal["exclude_token"] = "exclude_token"
    exclude_tokens: list[int | str] = []


class AnyTokensFormat(BaseModel):
    """Any number of tokens that are not in `exclude_tokens`."""

    type: Literal["any_tokens"] = "any_tokens"
    exclude_tokens: list[int | str] = []
    max_tokens: _Count = None


class GrammarFormat(BaseModel):
    """A text that a grammar in EBNF or Lark accepts."""

    type: Literal["grammar"] = "grammar"
    grammar: str
    syntax: Literal["ebnf", "lark"] = "ebnf"


class RegexFormat(BaseModel):
    """A text that a regular expression matches."""

    type: Literal["regex"] = "regex"
    pattern: str


class SequenceFormat(BaseModel):
    """A sequence of formats."""

    type: Literal["sequence"] = "sequence"
    elements: list[Format]


class OrFormat(BaseModel):
    """A choice among formats."""

    type: Literal["or"] = "or"
    elements: list[Format]


class TagFormat(BaseModel):
    """`begin`, the content, and `end` (or one of several ends)."""

    type: Literal["tag"] = "tag"
    begin: str | TokenFormat
    content: Format
    end: str | list[str] | TokenFormat


class TriggeredTagsFormat(BaseModel):
    """Free text in which a trigger begins one of the tags."""

    type: Literal["triggered_tags"] = "triggered_tags"
    triggers: list[str]
    tags: list[TagFormat]
    at_least_one: bool = False
    stop_after_first: bool = False
    excludes: list[str] = []


class TokenTriggeredTagsFormat(BaseModel):
    """Tokens, among which each trigger token begins one of the tags."""

    type: Literal["token_triggered_tags"] = "token_triggered_tags"
    trigger_tokens: list[int | str]
    tags: list[TagFormat]
    exclude_tokens: list[int | str] = []
    at_least_one: bool = False
    stop_after_first: bool = False


class TagsWithSeparatorFormat(BaseModel):
    """Tags with a separator between them, and no other text."""

    type: Literal["tags_with_separator"] = "tags_with_separator"
    tags: list[TagFormat]
    separator: str
    at_least_one: bool = False
    stop_after_first: bool = False


class OptionalFormat(BaseModel):
    """The content, or nothing."""

    type: Literal["optional"] = "optional"
    content: Format


class PlusFormat(BaseModel):
    """The content, one or more times."""

    type: Literal["plus"] = "plus"
    content: Format


class StarFormat(BaseModel):
    """The content, any number of times."""

    type: Literal["star"] = "star"
    content: Format


class RepeatFormat(BaseModel):
    """The content, `min` to `max` times; a `max` of -1 means no limit."""

    type: Literal["repeat"] = "repeat"
    min: int
    max: int
    content: Format


class DispatchFormat(BaseModel):
    """Free text in which each pattern is followed by its format."""

    type: Literal["dispatch"] = "dispatch"
    rules: list[tuple[str, Format]]
    loop: bool = True
    excludes: list[str] = []


class TokenDispatchFormat(BaseModel):
    """Tokens, where each token of the rules is followed by its format."""

    type: Literal["token_dispatch"] = "token_dispatch"
    rules: list[tuple[int | str, Format]]
    loop: bool = True
    exclude_tokens: list[int | str] = []


class QwenXMLParameterFormat(BaseModel):
    """Deprecated: `JSONSchemaFormat` with `style="qwen_xml"`."""

    type: Literal["qwen_xml_parameter"] = "qwen_xml_parameter"
    json_schema: bool | dict[str, Any]


Format: TypeAlias = Annotated[
    AnyTextFormat
    | ConstStringFormat
    | JSONSchemaFormat
    | GrammarFormat
    | RegexFormat
    | QwenXMLParameterFormat
    | OrFormat
    | SequenceFormat
    | TagFormat
    | TriggeredTagsFormat
    | TokenTriggeredTagsFormat
    | TagsWithSeparatorFormat
    | OptionalFormat
    | PlusFormat
    | StarFormat
    | TokenFormat
    | ExcludeTokenFormat
    | AnyTokensFormat
    | RepeatFormat
    | DispatchFormat
    | TokenDispatchFormat,
    Field(discriminator="type"),
]
"""Any format."""

for _model in (
    SequenceFormat, OrFormat, TagFormat, TriggeredTagsFormat, TokenTriggeredTagsFormat, TagsWithSeparatorFormat,
    OptionalFormat, PlusFormat, StarFormat, RepeatFormat, DispatchFormat, TokenDispatchFormat,
):  # fmt: skip
    _model.model_rebuild()


class StructuralTagItem(BaseModel):
    """Deprecated: one tag of `from_legacy_structural_tag`."""

    begin: str
    schema_: str | type[BaseModel] | dict[str, Any] = Field(alias="schema")
    end: str


class StructuralTag(BaseModel):
    """A structural tag: `{"type": "structural_tag", "format": {...}}`."""

    type: Literal["structural_tag"] = "structural_tag"
    format: Format

    @staticmethod
    def from_legacy_structural_tag(tags: list[StructuralTagItem], triggers: list[str]) -> StructuralTag:
        """Create triggered tags whose contents are JSON Schemas."""
        tag_formats = [
            TagFormat(begin=tag.begin, content=JSONSchemaFormat(json_schema=_read_schema(tag.schema_)), end=tag.end)
            for tag in tags
        ]
        return StructuralTag(format=TriggeredTagsFormat(triggers=triggers, tags=tag_formats))

    @staticmethod
    def from_json(json_str: str | dict[str, Any]) -> StructuralTag:
        """Create a structural tag from JSON text or a dict. ValueError: it is neither, or not a structural tag."""
        if isinstance(json_str, str):
            return StructuralTag.model_validate_json(json_str)
        if isinstance(json_str, dict):
            return StructuralTag.model_validate(json_str)
        raise ValueError("Invalid JSON string or dictionary")


def _read_schema(schema: str | type[BaseModel] | dict[str, Any]) -> Any:
    if isinstance(schema, str):
        return json.loads(schema)
    return schema if isinstance(schema, dict) else schema.model_json_schema()
