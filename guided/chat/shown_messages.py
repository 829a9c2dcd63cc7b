"""Checks that a chat template shows each message of a conversation to the model, and each additional key.

Templates leave out what they do not know: a role, a system message that is not the first, or a key. In: plain messages
(conversation.py), and a function that renders messages. Out: an error if something would be left out.

How: the messages are rendered once more, each with a mark as its content, and the marks must occur in the result. Not
checked: messages without content, and messages with calls, beside which many templates leave out the text. A key is
checked by rendering the messages without it, which must change the result.

Cost: one rendering of short messages for each new sequence of roles, and one of all messages for each additional key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Final, TypeAlias

from guided.chat.compiled import CompiledTemplate
from guided.chat.conversation import STANDARD_ROLES, MessageError, list_additional_keys
from guided.errors import GuidedError, brief
from guided.frontends.structural_tag.markup import format_call_id

__all__ = ["ShownMessages", "check_names", "list_roles"]

_Json: TypeAlias = dict[str, Any]
_Render: TypeAlias = Callable[[list[_Json]], str]
_USER: Final[_Json] = {"role": "user", "content": "u"}
_CALL: Final[_Json] = {"role": "assistant", "content": "", "tool_calls": [
    {"id": format_call_id(0), "type": "function", "function": {"name": "f", "arguments": "{}"}}]}  # fmt: skip
_NOT_SHOWN: Final = "which this template would not show to the model"
_MAX_SHAPES: Final = 128  # remembered sequences of roles


def check_names(messages: Sequence[_Json], template: CompiledTemplate, roles: Callable[[], Collection[str]]) -> None:
    """Check that the template knows the roles and the additional keys of messages.

    Args:
        messages, template: plain messages and the template.
        roles: a function that returns the roles that the template shows, for the error.

    Raises:
        MessageError: a role is neither standard nor named as a role in the template, or a key does not occur in it.
    """
    for number, message in enumerate(messages):
        role = message["role"]
        if role not in STANDARD_ROLES and not (role.isidentifier() and role in template.role_names):
            problem = f"has the role {brief(str(role))}, which this template does not support; it supports"
            raise MessageError(number, "role", f"{problem} {', '.join(roles())}")
        for key in list_additional_keys(message):
            if key not in template.names:
                raise MessageError(number, key, f"has the key {brief(key)}, {_NOT_SHOWN}")


class ShownMessages:
    """The checks of one model's templates. It remembers the sequences of roles that were shown."""

    def __init__(self) -> None:
        self._shapes = set[Hashable]()

    def check(self, messages: Sequence[_Json], text: str, render: _Render, options: Hashable) -> None:
        """Check that `text`, the rendered messages, shows all messages and additional keys.

        Args:
            messages, text: the messages, and what `render` returned for them.
            render: a function that renders messages.
            options: what else determines the form of the rendered text.

        Raises:
            MessageError: a message or a key is left out.
        """
        shape = (options, *((message["role"], _has_text(message), frozenset(message)) for message in messages))
        if shape not in self._shapes:
            if (number := _find_hidden(messages, render)) is not None:
                problem = f"has the role {brief(messages[number]['role'])}, but the chat template does not show it"
                raise MessageError(number, "role", f"{problem} to the model at this position: move or remove it")
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            self._shapes.add(shape)
        _check_keys(messages, text, render)


def list_roles(template: CompiledTemplate, render: _Render) -> list[str]:
    """The roles whose messages the template shows at some position, the standard roles first.

    `render`: a function that renders messages.
    """
    names = [*STANDARD_ROLES, *sorted(filter(str.isidentifier, template.role_names - {*STANDARD_ROLES}))]
    return [role for role in names if _is_shown(role, render)]


def _is_shown(role: str, render: _Render) -> bool:
    message = {"role": role, "content": "c"}
    if role == "tool":
        return _find_hidden([_USER, _CALL, message | {"name": "f", "tool_call_id": format_call_id(0)}], render) is None
    later = [[_USER, message], [_USER, message, _USER], [_USER, _CALL, message]] if role != "system" else []
    for messages in ([message, _USER], [message], *later):
        try:
            render(messages)
        except GuidedError:
            continue
        if _find_hidden(messages, render) is None:
            return True
    return False


def _has_text(message: _Json) -> bool:
    return bool(message.get("content")) and not message.get("tool_calls")


def _find_hidden(messages: Sequence[_Json], render: _Render) -> int | None:
    """The number of the first message that is left out; None: there is none, or the marks cannot be rendered."""
    marks = {number: f"qz{number}qz" for number, message in enumerate(messages) if _has_text(message)}
    try:
        text = render([_set_text(message, marks.get(number)) for number, message in enumerate(messages)])
    except GuidedError:  # the template reads more from a content than its text
        return None
    return next((number for number, mark in marks.items() if mark not in text), None)


def _set_text(message: _Json, text: str | None) -> _Json:
    if text is None:
        return message
    return message | {"content": text if isinstance(message["content"], str) else [{"type": "text", "text": text}]}


def _check_keys(messages: Sequence[_Json], text: str, render: _Render) -> None:
    checked = set[tuple[str, str]]()
    for number, message in enumerate(messages):
        for key in list_additional_keys(message):
            role = message["role"]
            if not message[key] or (role, key) in checked:  # False and "" may be defaults, which change nothing
                continue
            checked.add((role, key))
            if text == _render_without(messages, role, key, render):
                raise MessageError(number, key, f"has the key {brief(key)}, {_NOT_SHOWN}")


def _render_without(messages: Sequence[_Json], role: str, key: str, render: _Render) -> str | None:
    """The rendered messages without a key of the messages with a role. None: the template needs the key."""
    try:
        return render([_remove_key(message, key) if message["role"] == role else message for message in messages])
    except GuidedError:
        return None


def _remove_key(message: _Json, key: str) -> _Json:
    return {name: value for name, value in message.items() if name != key}
