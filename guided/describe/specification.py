"""Describes a specification in a few lines, for the prompt of a model.

In: a compiled grammar. Out: a `Description`, such as "Answer with JSON of this form: ...". Schemas and types are shown
as their form (schema.py), choices as a list, quotations in words, regular expressions and grammars with two samples.
The chat template describes tools, so the description only says that several calls are possible. Small models often
answer a request for several calls with one: Qwen2.5-Coder-0.5B is right in 4 of 28 tasks of BFCL's category "parallel",
and in 7 with the description.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from guided.describe.schema import schema_form, to_json
from guided.errors import GuidedError
from guided.frontends.composition import only_part
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.quote import Quote
from guided.matching.compiled import CompiledGrammar
from guided.testing.sampling import sample

__all__ = ["Description", "describe"]

_MAX_CHOICES: Final = 100
_SAMPLE_COUNT: Final = 2
_MAX_SAMPLE_LENGTH: Final = 60  # bytes
_SEVERAL_CALLS: Final = "If the user asks for several things, call the function once for each of them"


@dataclass(frozen=True)
class Description:
    """A description of a specification.

    Attributes:
        text: the instruction for the model.
        equivalents: other texts that say the same, such as the source of the specification.
        words: words that together say the same, such as all choices.
        schema: the described schema, which says the same if the prompt contains it as JSON.
    """

    text: str
    equivalents: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None

    def is_in(self, text: str) -> bool:
        """Whether a text of the prompt already says this."""
        if any(form in text for form in (self.text, *self.equivalents)):
            return True
        if self.schema is not None and "{" in text and any(layout in text for layout in self._layouts):
            return True
        return bool(self.words) and all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in self.words)

    @cached_property
    def _layouts(self) -> list[str]:
        """The schema as JSON, in the usual layouts."""
        layouts: list[dict[str, Any]] = [{"separators": (",", ":")}, *({"indent": indent} for indent in (None, 2, 4))]
        return [to_json(self.schema, **layout) for layout in layouts]


def describe(grammar: CompiledGrammar, *, has_tools: bool = False, with_samples: bool = True) -> Description | None:
    """The description of a specification, or None if there is nothing to describe.

    Args:
        grammar: the specification.
        has_tools: whether the chat template describes tools that the specification lets the model call.
        with_samples: whether to describe regular expressions and grammars, with samples.
    """
    kind, source = grammar.kind, grammar.source
    if isinstance(source, Quote):
        length = f"of at least {source.min_words} words " if source.min_words > 1 else ""
        return Description(f"Answer with a passage {length}that is copied verbatim from the given text.")
    if kind == "expr":
        kind, source = only_part(source)
    match kind:
        case "json_schema":
            return _describe_schema(source)
        case "type":
            return _describe_schema(type_to_schema(source))
        case "choice":
            return _describe_choices(source)
        case "structural_tag":
            hint = _hint_at_several_calls(source) if has_tools else ""
            return Description(hint) if hint else None
    if not with_samples:
        return None
    if kind == "regex":
        text = f"Answer with text that matches the regular expression {source}"
        return Description(_with_samples(text, grammar), (str(source),))
    return Description(_with_samples("Answer with nothing but text of the required form", grammar))


def _hint_at_several_calls(tag: Any) -> str:
    """The hint that several calls are possible; empty if a structural tag does not allow several tags in a row.

    It names the marker if each call has its own, such as <tool_call>.
    """
    nodes: list[Any] = [json.loads(tag) if isinstance(tag, str) else tag]
    while nodes:
        match nodes.pop():
            case {"type": "triggered_tags" | "tags_with_separator", "tags": [Mapping() as call, *_], **options} if (
                not options.get("stop_after_first")
            ):
                marker = re.match(r"<\|?\w*call\w*\|?>", _find_call_begin(call))
                return f"{_SEVERAL_CALLS}." if marker is None else f"{_SEVERAL_CALLS}, in several {marker[0]} blocks."
            case {"type": "star", "content": {"elements": [*_, {"elements": messages}]}} if any(
                message["type"] == "tag" and message["content"]["type"] != "any_text" for message in messages
            ):  # messages of gpt-oss
                return f"{_SEVERAL_CALLS}."
            case {"type": "json_schema" | "grammar" | "regex"}:
                continue
            case Mapping() as node:
                nodes += node.values()
            case list() as items:
                nodes += items
    return ""


def _find_call_begin(tag: Mapping[str, Any]) -> str:
    """The text with which a call begins, inside the group of calls if there is one."""
    match tag:
        case {"content": {"type": "tags_with_separator", "tags": [Mapping() as inner, *_]}}:
            return _find_call_begin(inner)
        case {"begin": str(begin) | [str(begin), *_]}:
            return begin
    return ""


def _describe_schema(schema: Any) -> Description:
    source = (schema,) if isinstance(schema, str) else ()
    schema = json.loads(schema) if isinstance(schema, str) else schema
    if not isinstance(schema, Mapping):
        return Description("Answer with JSON.")
    return Description(f"Answer with JSON of this form:\n{schema_form(schema)}", source, schema=schema)


def _describe_choices(choices: Any) -> Description:
    texts = tuple(str(choice) for choice in choices[:_MAX_CHOICES])
    ellipsis = ("...",) if len(choices) > _MAX_CHOICES else ()
    return Description(
        "Answer with exactly one of these: " + ", ".join(texts + ellipsis), words=() if ellipsis else texts
    )


def _with_samples(instruction: str, grammar: CompiledGrammar) -> str:
    try:
        texts = sample(grammar, _SAMPLE_COUNT, seed=0, max_length=_MAX_SAMPLE_LENGTH)
    except GuidedError:  # no text is short enough
        return f"{instruction}."
    return f"{instruction}, such as {' or '.join(dict.fromkeys(texts))}"
