"""The chat templates of a model: messages in, prompt tokens out, as with transformers' `apply_chat_template`.

In: the Jinja templates of a model, and a `Conversation`. Out: ids. Steps:

    conversation.py   checks messages, and turns them into plain data
    call_pairing.py   sorts the results of calls, and rewrites ids that the template or the model does not know
    tool_messages.py  describes tools in the system message, unless the template describes them in this style
    shown_messages.py refuses messages that the template does not show to the model
    compiled.py       renders the template with Jinja, in a sandbox (sandbox.py) with a cost limit (render_budget.py)
    tagged_text.py    records which characters of the result the template wrote
    tokens.py         encodes the result; only names that the template wrote become control tokens

So a message that contains `<|im_end|>` does not end a turn: only the template can write control tokens. The rendered
text is the same as in transformers, character for character, because templates see the original strings without marks.
The exceptions are ids of a form that the model does not know, and results in another order than their calls.

If a template takes contents as strings only, text parts are joined for it.

A template that reads `tools` describes them itself if it uses the requested style of calls. A style that is none of the
known ones is derived from renderings of the template (derived_style.py). Not supported: images, and the assistant masks
of transformers. Needs the package jinja2, which is imported at the first rendering.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Final

from guided.chat.call_pairing import rewrite_ids, sort_results
from guided.chat.compiled import CompiledTemplate, TemplateRefusal, compile_template
from guided.chat.conversation import (
    DEFAULT_TOOL_STYLE,
    Conversation,
    Message,
    MessageError,
    as_style,
    convert_arguments,
    join_parts,
    to_plain,
    to_plain_list,
    to_plain_messages,
)
from guided.chat.derived_style import derive_tool_style
from guided.chat.shown_messages import ShownMessages, check_names, list_roles
from guided.chat.sources import read_named_templates
from guided.chat.tagged_text import join_tagged, tag_text
from guided.chat.tokens import encode_rendered, make_names_pattern
from guided.chat.tool_messages import (
    add_system_prompt,
    add_tool_prompt,
    complete_tool,
    default_system,
    write_tools_as_text,
)
from guided.errors import GuidedError, brief
from guided.frontends.structural_tag.call_ids import SHORT_IDS
from guided.frontends.structural_tag.markup import Markup
from guided.frontends.structural_tag.tool_prompts import detect_style
from guided.frontends.structural_tag.tool_styles import ToolStyle, tool_style
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["CHATML", "ChatTemplate"]

CHATML: Final = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""For a model that has ChatML's control tokens but no template."""
_CONTINUATION_MARK: Final = "\ue000goes on\ue001 "
_ANSWER_MARK: Final = "\ue000answer\ue001"
_RESERVED_VARIABLES: Final = frozenset(("messages", "tools", "documents", "add_generation_prompt"))


class ChatTemplate:
    """The templates of one model over its vocabulary.

    Args:
        vocabulary: the model's vocabulary.
        templates: the text of a template, or a mapping from names ("default", "tool_use", ...) to texts.
        tokens: values of `bos_token`, `eos_token` and similar variables.

    Attributes:
        vocabulary, tokens: the arguments.
        tool_style: how the template writes calls, one of `guided.TOOL_STYLES`; None: in another way, or not at all.

    Raises:
        TypeError: an argument has another type. GuidedError: there is no template.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        templates: str | Mapping[str, str] = CHATML,
        *,
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(
                f"vocabulary is {brief(vocabulary)}, but must be a Vocabulary: ChatTemplate(vocabulary, text)"
            )
        if not isinstance(templates, str | Mapping | list):  # a list, as in tokenizer_config.json
            raise TypeError(f"templates is {brief(templates)}, but must be a text, or a mapping from names to texts")
        self.vocabulary, self._templates = vocabulary, read_named_templates(templates)
        if not self._templates:
            raise GuidedError("there is no chat template: pass its text, or a mapping from names to texts")
        self.tokens: Mapping[str, str] = MappingProxyType(dict(tokens or {}))
        self._tokens = {name: tag_text(text) for name, text in self.tokens.items()}
        self._shown_messages, self._roles = ShownMessages(), dict[str, list[str]]()
        self.tool_style = next(
            filter(None, map(detect_style, (self._select(None, tools) for tools in (True, False)))), None
        )

    @classmethod
    def from_metadata(
        cls, vocabulary: Vocabulary, templates: object, tokens: Mapping[str, str] | None = None
    ) -> ChatTemplate | None:
        """The templates in a model file's metadata; None if no template uses `messages`."""
        texts = {name: text for name, text in read_named_templates(templates).items() if "messages" in text}
        return cls(vocabulary, texts, tokens=tokens) if texts else None

    def render(self, conversation: Sequence[Message] | Conversation) -> list[int]:
        """The ids of a conversation, up to the point where the assistant continues.

        Raises:
            GuidedError: a message is malformed, or the template refuses the conversation. UnsupportedError: the
                template is invalid, or uses a forbidden operation. LimitExceeded: rendering costs too much.
        """
        chat = conversation if isinstance(conversation, Conversation) else Conversation(conversation)
        text = self.text(chat)
        return encode_rendered(self.vocabulary, text, self._list_markers(self._source(chat)))

    def check_messages(self, conversation: Conversation) -> None:
        """Raise the error of `render` if there are no messages, or if one is malformed or has an unknown role."""
        self._read_messages(conversation)

    def next_turn(self, chat: Conversation, request: str) -> list[int]:
        """The ids between the model's answer to a conversation and its next answer, if the user writes `request`.

        Raises:
            GuidedError: the template does not render the answer; or an error of `render`.
        """
        turns = [{"role": "assistant", "content": _ANSWER_MARK}, {"role": "user", "content": request}]
        text = self.text(replace(chat, messages=[*chat.messages, *turns]))
        mark_start = text.rfind(_ANSWER_MARK)
        if mark_start < 0:
            raise GuidedError("the model's chat template does not show the model's earlier answers")
        return encode_rendered(
            self.vocabulary, text[mark_start + len(_ANSWER_MARK) :], self._list_markers(self._source(chat))
        )

    def text(self, conversation: Sequence[Message] | Conversation) -> str:
        """The text that `render` tokenizes. It is a `TaggedText`, which records the parts that the template wrote."""
        chat = conversation if isinstance(conversation, Conversation) else Conversation(conversation)
        messages = self._read_messages(chat)
        variables = self._merge_variables(chat, compile_template(self._source(chat)))
        render = partial(self._render, chat, variables)
        text = render(messages)
        options = (chat.template, bool(chat.tools), repr(chat.tool_style), chat.continue_final_message)
        self._shown_messages.check(messages, text, render, options)
        if chat.continue_final_message:
            text = _cut_at_continuation_mark(text)
        return _append_begin(text, chat.begin)

    def _read_messages(self, chat: Conversation) -> list[dict[str, Any]]:
        """The plain messages. Raises MessageError if one is malformed, or has a role or a key that is unknown."""
        messages, source = to_plain_messages(chat.messages), self._source(chat)
        check_names(messages, compile_template(source), partial(self._list_roles, source, chat.template))
        return messages

    def _list_roles(self, source: str, name: str | None) -> list[str]:
        """The roles of the template with this text and name."""
        if source not in self._roles:
            render = partial(self._render, Conversation((), template=name), self._tokens)
            self._roles[source] = list_roles(compile_template(source), render)
        return self._roles[source]

    def _render(self, chat: Conversation, variables: Mapping[str, Any], messages: list[dict[str, Any]]) -> str:
        """The text of plain messages with the inputs of a conversation, whose own messages are not used."""
        source = self._source(chat)
        template = compile_template(source)
        messages = [
            self._tag_own_markers(self._join_unread_parts(message, template, bool(chat.tools)), source)
            for message in sort_results(messages)
        ]
        if chat.continue_final_message:
            messages[-1] = _mark_continuation(messages[-1], chat)
        tools, documents = to_plain_list(chat.tools, "tools"), to_plain_list(chat.documents, "documents")
        if documents and "documents" not in template.variables:
            raise GuidedError("this model's chat template does not support documents")
        template_variables: dict[str, Any] = {
            "documents": documents or None,
            "add_generation_prompt": chat.add_generation_prompt and not chat.continue_final_message,
            **variables,
        }
        if "tools" in template.variables and self._writes_as(chat.tool_style):
            template_messages = convert_arguments(
                self._rewrite_ids(messages, template), as_text=template.arguments_are_text
            )
            try:
                return _render_tools(template, tools, {"messages": template_messages, **template_variables})
            except TemplateRefusal:  # several calls in a message (Llama): write them as text
                if self.style is None or not any(len(message.get("tool_calls", ())) > 1 for message in messages):
                    raise
        style = as_style(chat.tool_style) or self.style or tool_style(DEFAULT_TOOL_STYLE)
        keeps_results = style == self.style and template.writes_results
        messages = write_tools_as_text(messages, style, keeps_results=keeps_results)
        return _render_with_tool_prompt(template, messages, style, tools, source, template_variables)

    @property
    def source(self) -> str:
        """The text of the template for conversations without tools."""
        return self._select(None, False)

    @cached_property
    def style(self) -> ToolStyle | None:
        """How the template writes calls: a known style, or a style derived from the template.

        None if the template does not show calls, or if their form cannot be derived. `guided.derive_tool_style` raises
        an error with the reason.
        """
        if self.tool_style is not None:
            return tool_style(self.tool_style)
        try:
            return derive_tool_style(self._templates, tokens=self._tokens)
        except GuidedError:
            return None

    def _rewrite_ids(self, messages: list[dict[str, Any]], template: CompiledTemplate) -> list[dict[str, Any]]:
        """The messages, with ids of calls in the form that the template or the model needs, if it needs one."""
        if not any(message.get("tool_calls") or message["role"] == "tool" for message in messages):
            return messages
        form = None if self.style is None else Markup.from_style(self.style.data).id_form
        if form is not None and "{name}" in form.text:  # the template shows any id, but the model was trained on these
            return rewrite_ids(messages, form, restarts=not template.shows_call_ids(self._tokens))
        return rewrite_ids(messages, SHORT_IDS) if template.needs_short_ids(self._tokens) else messages

    def _writes_as(self, style: str | ToolStyle | None) -> bool:
        """Whether the template writes calls in this style. None stands for the template's own style."""
        return style is None or style == self.tool_style or (not isinstance(style, str) and style == self.style)

    @cached_property
    def shows_system(self) -> bool:
        """Whether the default template shows a system message."""
        try:
            return "probing" in self.text([{"role": "system", "content": "probing"}, {"role": "user", "content": "u"}])
        except GuidedError:
            return False

    def default_system(self, chat: Conversation) -> str:
        """The system message of a conversation that has none, or "" if it cannot be determined."""
        return default_system(self._source(chat))

    def uses_variable(self, variable: str) -> bool:
        """Whether one of the templates reads a variable, such as `enable_thinking`."""
        return any(variable in compile_template(source).variables for source in self._templates.values())

    def _select(self, name: str | None, has_tools: bool) -> str:
        if name is not None:
            if not isinstance(name, str) or name not in self._templates:
                names = ", ".join(sorted(self._templates))
                raise GuidedError(f"this model has no chat template {brief(name)}; it has {names}")
            return self._templates[name]
        preferred_name = "tool_use" if has_tools and "tool_use" in self._templates else "default"
        if preferred_name not in self._templates:
            if len(self._templates) == 1:
                return next(iter(self._templates.values()))
            names = ", ".join(sorted(self._templates))
            raise GuidedError(f"this model has the chat templates {names}, but no default: choose one by name")
        return self._templates[preferred_name]

    def _source(self, chat: Conversation) -> str:
        return self._select(chat.template, bool(chat.tools))

    def _merge_variables(self, chat: Conversation, template: CompiledTemplate) -> dict[str, Any]:
        if not isinstance(chat.variables, Mapping):
            raise GuidedError(f"variables of the chat template must be a dict, not {brief(chat.variables)}")
        variables: dict[str, Any] = to_plain(dict(chat.variables), "variables of the chat template")
        for name in variables:
            if name in _RESERVED_VARIABLES:
                raise GuidedError(f"{name} cannot be set as a variable: pass the argument `{name}` instead")
            if name not in template.variables:
                names = ", ".join(sorted(template.variables - _RESERVED_VARIABLES - self._tokens.keys())) or "none"
                raise GuidedError(f"this model's chat template does not read {name!r}; it reads {names}")
        return {**self._tokens, **variables}

    def _join_unread_parts(
        self, message: dict[str, Any], template: CompiledTemplate, has_tools: bool
    ) -> dict[str, Any]:
        """The message, with its content as a string if it consists of parts and the template does not read those."""
        content = message.get("content")
        if not isinstance(content, list) or template.reads_parts(message["role"], self._tokens, has_tools=has_tools):
            return message
        return message | {"content": join_parts(content)}

    def _tag_own_markers(self, message: dict[str, Any], source: str) -> dict[str, Any]:
        """Tag markers such as `<think>` in an assistant's message, so they are tokenized as markers again."""
        names = self._list_markers(source) if message["role"] == "assistant" else ()
        texts = (
            {key: content for key, content in message.items() if key != "role" and isinstance(content, str)}
            if names
            else {}
        )
        split_texts = {key: re.split(f"({make_names_pattern(names)})", content) for key, content in texts.items()}
        return message | {
            key: join_tagged(tag_text(part) if i % 2 else part for i, part in enumerate(parts))
            for key, parts in split_texts.items()
        }

    def _list_markers(self, source: str) -> tuple[str, ...]:
        return tuple(name for name in self.vocabulary.text_markers if name in source and not name.isspace())


def _render_with_tool_prompt(
    template: CompiledTemplate,
    messages: list[dict[str, Any]],
    style: ToolStyle,
    tools: list[dict[str, Any]],
    source: str,
    variables: Mapping[str, Any],
) -> str:
    """Render with tools in the system message, or in the first message if the template refuses system messages (Gemma)
    or leaves them out."""
    if not tools:
        return template.render(messages=messages, tools=None, **variables)
    with_system = add_system_prompt(messages, style, tools, default_system(source))
    has_system = len(with_system) == len(messages)
    try:
        text = template.render(messages=with_system, tools=None, **variables)
        if has_system or with_system[0]["content"].strip() in text:
            return text
    except TemplateRefusal:
        if has_system:
            raise
    return template.render(messages=add_tool_prompt(messages, style, tools), tools=None, **variables)


def _mark_continuation(message: Mapping[str, Any], chat: Conversation) -> dict[str, Any]:
    """The last message with a mark at its end, the point where generation continues.

    Raises:
        MessageError: it has calls. GuidedError: it has no text, or `chat.begin` begins a new message.
    """
    content = message.get("content")
    if message.get("tool_calls"):
        problem = "has tool_calls, which end a message, so continue_final_message cannot continue it: remove the calls"
        raise MessageError(len(chat.messages) - 1, "tool_calls", problem)
    if chat.begin:
        raise GuidedError("continue_final_message cannot be combined with `begin`, which begins a new message")
    if isinstance(content, str):
        return {**message, "content": content + _CONTINUATION_MARK}
    if isinstance(content, list):
        last = {**content[-1], "text": content[-1]["text"] + _CONTINUATION_MARK}
        return {**message, "content": [*content[:-1], last]}
    raise GuidedError("continue_final_message needs a last message with text content")


def _render_tools(template: CompiledTemplate, tools: list[Any], variables: Mapping[str, Any]) -> str:
    """The output of a template. If it cannot render tools without a description or parameters, which are optional in
    OpenAI's API, they get empty ones.
    """
    try:
        return template.render(tools=tools or None, **variables)
    except GuidedError as error:
        complete_tools = [complete_tool(tool) for tool in tools]
        if type(error) is not GuidedError or complete_tools == tools:
            raise
        return template.render(tools=complete_tools, **variables)


def _cut_at_continuation_mark(text: str) -> str:
    """Cut the text at the mark, as transformers does. If the mark's space was stripped, strip the text, too."""
    mark_start = text.rfind(_CONTINUATION_MARK.rstrip())
    if mark_start < 0:
        raise GuidedError("the model's chat template does not show the end of the last message: it cannot be continued")
    return (
        text[:mark_start]
        if text[mark_start : mark_start + len(_CONTINUATION_MARK)] == _CONTINUATION_MARK
        else text[:mark_start].rstrip()
    )


def _append_begin(text: str, begin: str) -> str:
    """Append `begin`, without the part of it that the text already ends with."""
    if not isinstance(begin, str):
        raise GuidedError(f"begin must be a string, not {brief(begin)}")
    size = next(size for size in range(min(len(begin), len(text)), -1, -1) if text.endswith(begin[:size]))
    addition = begin[size:] if begin[size:].strip() or not size else ""
    return join_tagged((text, tag_text(addition))) if addition else text
