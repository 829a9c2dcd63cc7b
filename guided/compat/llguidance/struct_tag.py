"""`StructTag`: tool calls in free text, as a Lark grammar. In: tags. Out: a grammar string for `LLMatcher`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["StructTag"]


class StructTag:
    """A constrained part of a free text, between a beginning and an end.

    Args:
        trigger: the text that begins the tag, or `<name>` for a control token.
        begin: the whole beginning, which starts with the trigger.
        grammar: the content: a JSON Schema (a dict, or text that begins with a brace) or a Lark grammar.
        end: the text after the content.

    Raises:
        AssertionError: the trigger is empty, or `begin` does not start with it.
    """

    def __init__(self, *, trigger: str, begin: str, grammar: str | dict[str, Any], end: str) -> None:
        self.trigger, self.begin, self.grammar, self.end = trigger, begin, grammar, end
        self._validate()

    def _validate(self) -> None:
        if not self.trigger:
            raise AssertionError("trigger must not be empty")
        if not self.begin.startswith(self.trigger):
            raise AssertionError("begin must start with trigger")

    @staticmethod
    def to_grammar(tags: list[StructTag], *, assume_special: bool = True, text_regex: str = r"(.|\n)*") -> str:
        """Build the grammar of free text that contains any of the tags, any number of times.

        Args:
            assume_special: whether a trigger `<...>` is a control token.
            text_regex: a regular expression for the free text, without a slash.

        Raises:
            AssertionError: there are no tags, or `text_regex` contains a slash. ValueError: a grammar is neither text
                nor a dict.
        """
        if not tags:
            raise AssertionError("tags must not be empty")
        if "/" in text_regex:
            raise AssertionError("text_regex must not contain /")
        names = [f"tag_{number}" for number in range(len(tags))]
        lines = ["%llguidance {}", f"start: ({' | '.join(names)})* tag_end", "tag_end: TAG_TEXT"]
        lines.append(f"TAG_TEXT: /{text_regex}/")
        extra_grammars: list[Mapping[str, str]] = []
        for name, tag in zip(names, tags, strict=True):
            tag._validate()
            content = _format_content(tag.grammar, f"{name}_grm", extra_grammars)
            body = " ".join(filter(None, [_quote(tag.begin[len(tag.trigger) :]), content, _quote(tag.end)]))
            if assume_special and tag.trigger.startswith("<") and tag.trigger.endswith(">"):
                lines.append(f"{name}: TAG_TEXT {tag.trigger} {body}")
            else:
                lines.append(f"{name}_trig[lazy]: TAG_TEXT {_quote(tag.trigger)}")
                lines.append(f"{name}: {name}_trig {body}")
        lark = "\n".join(lines) + "\n"
        grammars = [{"name": "struct_tag", "lark_grammar": lark}, *extra_grammars]
        return json.dumps({"grammars": grammars}) if extra_grammars else lark


def _quote(text: str) -> str:
    return json.dumps(text) if text else ""


def _format_content(grammar: str | dict[str, Any], name: str, extra_grammars: list[Mapping[str, str]]) -> str:
    """The content of a tag in Lark. A Lark grammar becomes a separate grammar, and the content refers to its name."""
    if isinstance(grammar, dict):
        return "%json " + json.dumps(grammar)
    if not isinstance(grammar, str):
        raise ValueError("grammar must be a string or a dictionary")
    if grammar.lstrip().startswith("{"):
        return "%json " + grammar
    extra_grammars.append({"name": name, "lark_grammar": grammar})
    return f"@{name}"
