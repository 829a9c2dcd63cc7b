"""Builds structural tags for the formats in which families of models write tool calls and reasoning.

    style = guided.tool_style("qwen_3")
    tag = style.structural_tag(tools, tool_choice="required")
    grammar = compiler.compile_structural_tag(tag, allow_special_tokens=True)
    reader = style.reader(tools)              # reads calls back while they are written (calls.py)

Each file of `styles/` describes one format:

    models            the models that use the format
    source            where the format was read: chat templates, parsers and tokenizers of published packages
    reasoning         begin, end, after: the markers and the text that follows; in_prompt: the prompt ends with begin;
                      disabled: the text that replaces disabled reasoning; skipped: the text that replaces optional
                      reasoning; excludes: strings that do not occur in reasoning; auto_excludes: these strings if
                      reasoning is optional
    excludes          strings that do not occur in free text
    trigger           the begin of a call in free text, or a list. With a section, it contains {name}: free text may
                      contain the section's own begin, so the name in the first call shows that a section begins
    section           calls form a group: lead, begin, open (a text or a list), separator, end; begin is the trigger;
                      text_after: whether text and more groups may follow if a call is required; ends_answer: whether
                      nothing ever follows; excludes: more strings that do not occur in free text, if a section is
                      possible
    response          the answer is a message of blocks: begin and end of the text block, which precedes the section.
                      Without reasoning, the prompt ends with begin. `end` at the top level: the end of the message
    channels          the output consists of messages: separator, and the messages text, reasoning, and preamble, which
                      is text that precedes another message if calls are optional
    call              begin, end: texts, or lists of alternatives, with {name}, {index} and {id} (markup.py); id: a
                      pattern for {id}; id_form: the id of a call, if it has more parts than {id}; first: the first
                      {index}, in prompts; separator: the text between calls without a section, in prompts; arguments:
                      their form (argument_forms.py); excludes: strings that do not occur in strings of the arguments
    instructions      the sentence that tells the model how to call, if its chat template has one (tool_prompts.py)
    shown             strings that identify the chat templates of the style, if these build the begin of a call from
                      pieces, or if another style has the same begin; a list stands for at least one of its strings
    notes             in a derived style: the values that the chat template writes differently
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from guided.close_names import find_closest_name
from guided.errors import SpecError, UnsupportedError, brief
from guided.frontends.structural_tag.calls import CallReader
from guided.frontends.structural_tag.markup import Markup, section_begins
from guided.frontends.structural_tag.tag_formats import (
    Json,
    begins_of,
    const_string,
    cut_overlaps,
    one_of,
    sequence,
    tags_with_separator,
    to_formats,
    triggered_begins,
)
from guided.frontends.structural_tag.tools import ChosenTools, Function, ToolChoice, chosen_tools

__all__ = ["TOOL_STYLES", "ToolStyle", "tool_style"]

Reasoning: TypeAlias = Literal["enabled", "disabled", "auto"]
_FOLDER: Final = Path(__file__).parent / "styles"
TOOL_STYLES: Final = tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))
"""The names of all styles."""


@dataclass(frozen=True, slots=True)
class ToolStyle:
    """How a family of models, or the author of a chat template, writes tool calls.

    Attributes:
        name: one of `TOOL_STYLES`; or any other name, for a style that was derived (`guided.derive_tool_style`).
        data: the content of its file: plain JSON.
    """

    name: str
    data: Mapping[str, Any]

    @property
    def models(self) -> tuple[str, ...]:
        """The models that use this style."""
        return tuple(self.data["models"])

    def structural_tag(
        self,
        tools: Sequence[Mapping[str, Any]] | None,
        *,
        tool_choice: ToolChoice = "auto",
        parallel_tool_calls: bool = True,
        reasoning: Reasoning = "disabled",
        mixed: bool = True,
        text: Mapping[str, Any] | None = None,
    ) -> Json:
        """The structural tag of an answer that may call these tools.

        Args:
            tools, tool_choice: as in OpenAI's API. With "auto", the answer is free text that may contain calls; with
                "required", it begins with a call; with a named tool, it is one call.
            parallel_tool_calls: whether there may be several calls. If not, the answer ends after the first one.
            reasoning: "enabled": the answer begins with reasoning; "auto": it may; "disabled": it does not. For models
                whose prompt ends with the begin of the reasoning, "enabled" assumes this prompt.
            mixed: whether one answer may contain both text and calls. If not, it is either text or calls, and with
                "required" calls only.
            text: the format of the text, for answers that are not mixed; None: any text.

        Raises:
            SpecError: an argument is invalid; see also `chosen_tools`. UnsupportedError: see `chosen_tools`; or an
                answer of this style is always mixed.
        """
        if reasoning not in ("enabled", "disabled", "auto"):
            raise SpecError(f"unknown reasoning mode: {brief(reasoning)}", hint='use "enabled", "disabled" or "auto"')
        if not isinstance(parallel_tool_calls, bool):
            raise SpecError(f"parallel_tool_calls is {brief(parallel_tool_calls)}", hint="write True or False")
        choice = chosen_tools(tools, tool_choice)
        if text is not None and mixed:
            raise SpecError("text= is only for answers that are not mixed", hint="write mixed=False")
        if not mixed:
            self._check_not_mixed(reasoning)
            return _structural_tag(self._build_text_or_calls(choice, parallel_tool_calls, text))
        if "channels" in self.data:
            return _structural_tag(self._build_messages(choice, parallel_tool_calls, reasoning))
        if "response" in self.data:
            answer = self._build_blocks(choice, parallel_tool_calls, reasoning)
        else:
            answer = [self._build_answer(choice, parallel_tool_calls)]
        return _structural_tag(sequence([*self._build_reasoning(reasoning), *answer]))

    def reader(
        self,
        tools: Sequence[Mapping[str, Any]] | None,
        *,
        reasoning: Reasoning = "disabled",
        mixed: bool = True,
        end_tokens: Collection[str] = (),
    ) -> CallReader:
        """Create a reader that reads an answer back while it is written. For the arguments and errors, see
        `structural_tag`. A call inside the text of an answer that is not mixed is text.

        Args:
            end_tokens: the names of the tokens that end an output (`Vocabulary.end_names`). They are not part of the
                text, so a call that ends with one, such as `<|call|>` of gpt-oss, is complete without it.
        """
        functions = chosen_tools(tools).functions
        if not mixed:
            self._check_not_mixed(reasoning)
        begin_markers = () if mixed else self._begin_markers(functions)
        return CallReader(self.data, functions, reasoning, begin_markers, end_tokens)

    def _check_not_mixed(self, reasoning: Reasoning) -> None:
        if self.is_always_mixed or reasoning != "disabled":
            problem = f"answers of the style {self.name} with reasoning {reasoning!r} are always mixed"
            raise UnsupportedError(problem, hint="leave mixed out")

    def _begin_markers(self, functions: Sequence[Function]) -> tuple[str, ...]:
        """The markers with which an answer begins if it is not mixed and consists of calls."""
        section = self.data.get("section")
        if section is not None:
            return tuple(section.get("lead", "") + trigger for trigger in self.triggers(functions))
        triggers = () if self.is_always_mixed else tuple(self.triggers(functions))
        heads = [begin.head(function.name) for begin in Markup.from_style(self.data).begins for function in functions]
        return tuple(head for head in heads if head.startswith(triggers) or not triggers)

    @property
    def is_always_mixed(self) -> bool:
        """Whether an answer is a sequence of messages or blocks, which may always contain both text and calls."""
        return "channels" in self.data or "response" in self.data

    @property
    def calls_are_json(self) -> bool:
        """Whether calls are JSON, so that they cannot be distinguished from JSON text."""
        return "section" not in self.data and any(text.startswith("{") for text in self._trigger_texts)

    @property
    def why_no_format(self) -> str:
        """The reason why answers cannot contain both formatted text and calls; "" if they can."""
        if self.calls_are_json:
            return f"calls in the style {self.name} are JSON, so they cannot be distinguished from JSON text"
        if self.is_always_mixed:
            return f"answers in the style {self.name} consist of several messages, so no format applies beside tools"
        return ""

    def with_bare_calls(self) -> ToolStyle:
        """The style with calls that may also begin without their marker, as small models often write them.

            {"name": "weather", "arguments": {"city": "Oslo"}}            also inside ```json, and with line ends

        Such a call ends like all calls of the style. Only a text with the name of a tool in this form begins a call.
        If the answer consists of calls only, the first one has its marker.
        Styles whose calls have another form, such as a name before the JSON object, are returned as they are.
        """
        call = self.data["call"]
        marked_begin = call["begin"]
        bare_begin = "".join(marked_begin.partition('{"')[1:]) if isinstance(marked_begin, str) else ""
        is_named = "{name}" in bare_begin and "{id}" not in bare_begin and "{index}" not in bare_begin
        if "section" in self.data or call["arguments"] != "json" or bare_begin == marked_begin or not is_named:
            return self
        names = [bare_begin, bare_begin.replace(": ", ":").replace(", ", ",")]
        names += [bare_begin.replace("{", f"{{\n{space}", 1).replace(", ", f",\n{space}") for space in ("  ", "    ")]
        begins = [code_fence + begin for code_fence in ("", "```json\n") for begin in names]
        return ToolStyle(self.name, {**self.data, "call": {**call, "begin": [marked_begin, *begins]}})

    @property
    def call_separator(self) -> str:
        """The text between consecutive calls."""
        section = self.data.get("section")
        return str(self.data["call"].get("separator", "\n") if section is None else section["separator"])

    def triggers(self, functions: Sequence[Function]) -> list[str]:
        """The texts that begin calls in free text."""
        texts = self._trigger_texts or [self.data["section"]["begin"]]
        return list(dict.fromkeys(text.replace("{name}", each.name) for each in functions for text in texts))

    @property
    def _trigger_texts(self) -> list[str]:
        trigger = self.data.get("trigger", [])
        return [trigger] if isinstance(trigger, str) else list(trigger)

    def _build_call_tags(self, function: Function) -> list[Json]:
        """The tags of one tool's calls. All begins that have the same content share a tag."""
        call, markup = self.data["call"], Markup.from_style(self.data)
        schema = {"type": "json_schema", "json_schema": function.parameters, "style": call["arguments"]}
        schema |= {name: call[name] for name in ("excludes",) if name in call}
        end: str | list[str] = call["end"]
        end_formats: list[Json] = []
        if any(marker.rest("") for marker in markup.ends):
            ends = [to_formats(marker.parts("")) for marker in markup.ends]
            end_formats = ends[0] if len(ends) == 1 else [one_of([sequence(elements) for elements in ends])]
            end = ""
        heads: dict[tuple[tuple[str, bool], ...], list[str]] = {}  # by the parts after the head
        for begin in markup.begins:
            (head, _), *later_parts = begin.parts(function.name)
            heads.setdefault(tuple(later_parts), []).append(head)
        return [
            {
                "type": "tag",
                "begin": begins if len(begins) > 1 else begins[0],
                "content": sequence([*to_formats(later_parts), schema, *end_formats]),
                "end": end,
            }
            for later_parts, begins in heads.items()
        ]

    def _build_reasoning(self, mode: Reasoning) -> list[Json]:
        texts = self.data.get("reasoning")
        if texts is None:
            return []
        if mode == "disabled":
            return [const_string(texts["disabled"])] if texts["disabled"] else []
        begin = "" if mode == "enabled" and texts["in_prompt"] else texts["begin"]
        excluded_strings = (
            texts["auto_excludes"] if mode == "auto" and "auto_excludes" in texts else texts.get("excludes", [])
        )
        free_text = {"type": "any_text", "excludes": excluded_strings}
        block: Json = {"type": "tag", "begin": begin, "content": free_text, "end": texts["end"]}
        if texts["after"]:
            block = sequence([block, const_string(texts["after"])])
        if mode == "enabled":
            return [block]
        skipped = [const_string(texts["skipped"])] if "skipped" in texts else []
        return [{"type": "optional", "content": one_of([block, *skipped])}]

    def _build_answer(self, choice: ChosenTools, parallel: bool) -> Json:
        tags = [tag for function in choice.functions for tag in self._build_call_tags(function)]
        if not tags:
            return {"type": "any_text", "excludes": self.data["excludes"]}
        section = self.data.get("section")
        if section is not None:
            if choice.mode == "named" or (choice.mode == "required" and not section.get("text_after", False)):
                return self._build_section(choice, parallel, section.get("lead", ""))
            if "trigger" in self.data:
                return self._build_opened_sections(choice, parallel)
            tags = [self._build_section(choice, parallel)]
        elif choice.mode == "named":
            return one_of(tags)
        triggers = self.triggers(choice.functions)
        excluded_strings = [*self.data["excludes"], *(section or {}).get("excludes", [])]
        bare_begins = [begin for tag in tags for begin in begins_of(tag) if not begin.startswith(tuple(triggers))]
        is_single = not parallel or (section is not None and section.get("ends_answer", False))
        return {
            "type": "triggered_tags", "triggers": [*triggers, *bare_begins], "tags": tags,
            "at_least_one": choice.mode == "required", "stop_after_first": is_single,
            "excludes": [marker for marker in excluded_strings if marker not in triggers],
        }  # fmt: skip

    def _build_text_or_calls(self, choice: ChosenTools, parallel: bool, text: Mapping[str, Any] | None) -> Json:
        """Only calls, or only text unless a call is required."""
        triggers = self.triggers(choice.functions)
        any_text = {"type": "any_text", "excludes": [*self.data["excludes"], *triggers]}
        only_text = any_text if text is None else dict(text)
        if not choice.functions:
            return only_text
        if "section" in self.data:
            calls = self._build_section(choice, parallel, self.data["section"].get("lead", ""))
        else:
            tags = [tag for function in choice.functions for tag in self._build_call_tags(function)]
            calls = self._build_unsectioned_calls(tags, triggers, not parallel or choice.mode == "named")
        return calls if choice.mode != "auto" else one_of([only_text, calls])

    def _build_unsectioned_calls(self, tags: list[Json], triggers: Sequence[str], is_single: bool) -> Json:
        """One call or several, without a section. The marker of the first one shows that these are calls."""
        marked_tags = [{**tag, "begin": begins} for tag in tags if (begins := triggered_begins(tag, triggers))] or tags
        separator_format = [const_string(self.call_separator)] if self.call_separator else []
        if is_single or marked_tags == tags:
            calls = [tags_with_separator(marked_tags, self.call_separator, is_single)]
        else:
            later_calls = tags_with_separator(tags, self.call_separator, False)
            calls = [
                tags_with_separator(marked_tags, self.call_separator, True),
                {"type": "optional", "content": sequence([*separator_format, later_calls])},
            ]
        if (
            self.call_separator.isspace() and not is_single
        ):  # many models write the separator after every call, including the last one
            calls.append({"type": "optional", "content": separator_format[0]})
        return sequence(calls)

    def _build_section(self, choice: ChosenTools, parallel: bool, lead: str = "") -> Json:
        """A group of calls."""
        section = self.data["section"]
        tags = [tag for function in choice.functions for tag in self._build_call_tags(function)]
        calls = tags_with_separator(tags, section["separator"], not parallel or choice.mode == "named")
        begins = [lead + begin for begin in section_begins(section)]
        begin: str | list[str] = begins if len(begins) > 1 else begins[0]
        return {"type": "tag", "begin": begin, "content": calls, "end": section["end"]}

    def _build_opened_sections(self, choice: ChosenTools, parallel: bool) -> Json:
        """Free text, and groups of calls that begin with their first call.

        Triggered tags would need a tag for each call that may be the first, with all calls that may follow it.
        """
        section = self._build_section(choice, parallel)
        excluded_strings = [*self.data["excludes"], *self.data["section"].get("excludes", [])]
        excluded_strings += cut_overlaps(self.triggers(choice.functions))
        free_text: Json = {"type": "any_text", "excludes": list(dict.fromkeys(excluded_strings))}
        if not parallel:
            return (
                section
                if choice.mode == "required"
                else sequence([free_text, {"type": "optional", "content": section}])
            )
        later_sections: list[Json] = [{"type": "star", "content": sequence([free_text, section])}, free_text]
        return sequence([section, *later_sections] if choice.mode == "required" else later_sections)

    def _build_blocks(self, choice: ChosenTools, parallel: bool, reasoning: Reasoning) -> list[Json]:
        """An answer of blocks: text, then calls if there are any."""
        response = self.data["response"]
        begin = "" if reasoning == "disabled" else response["begin"]
        free_text = {"type": "any_text", "excludes": self.data["excludes"]}
        blocks: list[Json] = [{"type": "tag", "begin": begin, "content": free_text, "end": response["end"]}]
        if choice.functions:
            section = self._build_section(choice, parallel)
            blocks.append({"type": "optional", "content": section} if choice.mode == "auto" else section)
        return [*blocks, const_string(self.data["end"])]

    def _build_messages(self, choice: ChosenTools, parallel: bool, reasoning: Reasoning) -> Json:
        """An answer of messages: calls, text, and before each of them reasoning and preambles, which announce calls."""
        channels = self.data["channels"]
        message = {
            name: {"type": "tag", **channels[name], "content": {"type": "any_text"}}
            for name in ("text", "preamble", "reasoning")
        }
        calls = [tag for function in choice.functions for tag in self._build_call_tags(function)]
        tags = calls if choice.mode != "auto" else [*calls, message["text"]]
        preamble = [message["preamble"]] if calls and choice.mode == "auto" else []
        thoughts = [message["reasoning"]] if reasoning != "disabled" else []
        only_one_call = choice.mode == "named" or not parallel
        if not preamble and not thoughts:
            return tags_with_separator(tags, channels["separator"], only_one_call)
        separator = const_string(channels["separator"])

        def any_number(messages: list[Json]) -> list[Json]:
            return [{"type": "star", "content": sequence([one_of(messages), separator])}] if messages else []

        first_message = [*any_number([*thoughts, *preamble]), tags_with_separator(tags, channels["separator"], True)]
        if only_one_call:
            return sequence(first_message)
        later_message = sequence([separator, *any_number(preamble), one_of([*tags, *thoughts])])
        return sequence([*first_message, {"type": "star", "content": later_message}])


def _structural_tag(format_object: Json) -> Json:
    return {"type": "structural_tag", "format": format_object}


def tool_style(name: str) -> ToolStyle:
    """The style with this name.

    Raises:
        SpecError: the name is unknown.
    """
    if not isinstance(name, str) or name not in TOOL_STYLES:
        similar_name = find_closest_name(name, TOOL_STYLES)
        hint = f"did you mean {similar_name!r}?" if similar_name else f"one of {', '.join(TOOL_STYLES)}"
        raise SpecError(f"there is no tool style {brief(name)}", hint=hint)
    return _read_style(name)


@cache
def _read_style(name: str) -> ToolStyle:
    return ToolStyle(name, json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8")))
