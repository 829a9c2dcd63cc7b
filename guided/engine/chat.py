"""The ChatML template: messages in, prompt tokens out.

In: [{"role": "user", "content": "..."}, ...]. Out: the ids of `<|im_start|>role\\ncontent<|im_end|>\\n` for each
message, followed by those of `<|im_start|>assistant\\n`. Role and content are encoded as text, so a message that
contains the name of a control token cannot end its turn. The default system message is the one in the model's own
template. Other chat templates are refused.

Tools are told in the system message, calls stand in the message of the assistant, and what the tools said in a message
of the user, as in the templates of Qwen and Hermes (`guided/spec/structural_tag/tool_prompts.py`). There, a marker such
as `<tool_call>` that is a control token of the vocabulary is that token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeAlias

from guided.errors import GuidedError, SpecError
from guided.spec.structural_tag.tool_prompts import Piece, found_style, read_arguments, tools_told, written_calls
from guided.spec.structural_tag.tool_styles import tool_style
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["DEFAULT_TOOL_STYLE", "ChatMl", "Conversation", "Message", "marked_pieces"]

Message: TypeAlias = Mapping[str, Any]
"""`role` and `content`; of the assistant also `tool_calls`, as in OpenAI's API; of a tool also `tool_call_id`."""

DEFAULT_TOOL_STYLE: Final = "qwen_3"
"""Hermes' form of calls, which most models with ChatML know."""
_START, _END = "<|im_start|>", "<|im_end|>"
_DEFAULT_SYSTEM = re.compile(r"'<\|im_start\|>system(?:\n|\\n)([^<{}']*)<\|im_end\|>")
_KEYS: Final = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, and what the model is told besides.

    Attributes:
        tools: that it may call, as in OpenAI's API.
        tool_style: how it writes calls, one of `guided.TOOL_STYLES`.
        begin: what its answer begins with, such as "<think>\\n"; names of control tokens mean these.
    """

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_style: str = DEFAULT_TOOL_STYLE
    begin: str = ""


class ChatMl:
    """The template over one vocabulary.

    Attributes:
        default_system: opens a conversation that has no system message.
        tool_style: how the model's own template writes calls; None where it does not say.
    """

    def __init__(
        self, vocabulary: Vocabulary, default_system: str | None = None, tool_style: str | None = None
    ) -> None:
        ids = {name: id for id, name in vocabulary.special_tokens.items()}
        if _START not in ids or _END not in ids:
            raise GuidedError(f"the vocabulary has no {_START} and {_END}: it cannot express ChatML messages")
        self._vocabulary, self._start, self._end = vocabulary, ids[_START], ids[_END]
        self.default_system, self.tool_style = default_system, tool_style

    @classmethod
    def from_template(cls, vocabulary: Vocabulary, template: object) -> ChatMl | None:
        """The template for the Jinja text in a model file; None if that is not ChatML."""
        if not isinstance(template, str) or _START not in template or _END not in template:
            return None
        found = _DEFAULT_SYSTEM.search(template)
        system = found.group(1).replace("\\n", "\n") if found else None
        return cls(vocabulary, system, found_style(template))

    def render(self, given: Sequence[Message] | Conversation) -> list[int]:
        """The ids of a conversation, ending where the assistant's next message begins.

        Raises:
            GuidedError: a message is malformed. UnsupportedError: see `written_calls`.
        """
        chat = given if isinstance(given, Conversation) else Conversation(given)
        if not chat.messages:
            raise GuidedError("the list of messages is empty")
        messages = [_checked(number, message) for number, message in enumerate(chat.messages)]
        if messages[0]["role"] != "system" and (self.default_system is not None or chat.tools):
            messages.insert(0, {"role": "system", "content": self.default_system or ""})
        newline, out = self._vocabulary.encode("\n"), list[int]()
        for role, pieces in _turns(messages, chat):
            out += [self._start, *self._encoded([Piece(f"{role}\n", True), *pieces]), self._end, *newline]
        return [*out, self._start, *self._encoded([Piece("assistant\n", True), Piece(chat.begin)])]

    def _encoded(self, pieces: Iterable[Piece]) -> list[int]:
        """Text between control tokens is encoded as one, as the model has seen it."""
        out, text = list[int](), ""
        for piece in marked_pieces(self._vocabulary, pieces):
            if isinstance(piece, str):
                text += piece
                continue
            out += [*(self._vocabulary.encode(text) if text else ()), piece]
            text = ""
        return [*out, *(self._vocabulary.encode(text) if text else ())]


def marked_pieces(vocabulary: Vocabulary, pieces: Iterable[Piece]) -> list[str | int]:
    """Texts, cut at the names of control tokens where these mean the tokens: their ids then."""
    ids: dict[str, int] = {}
    for id, name in vocabulary.special_tokens.items():
        if name:
            ids.setdefault(name, id)
    names = re.compile("|".join(map(re.escape, sorted(ids, key=len, reverse=True))) or "(?!)")
    out: list[str | int] = []
    for piece in pieces:
        at = 0
        for found in () if piece.literal else names.finditer(piece.text):
            out += [piece.text[at : found.start()], ids[found[0]]]
            at = found.end()
        out.append(piece.text[at:])
    return [one for one in out if one != ""]


def _turns(messages: Sequence[Message], chat: Conversation) -> list[tuple[str, list[Piece]]]:
    """Of each turn the role, and what stands in it."""
    style, out = tool_style(chat.tool_style), list[tuple[str, list[Piece]]]()
    for role, group in groupby(messages, key=lambda message: message["role"]):
        if role == "tool":  # they share a turn of the user
            said = [
                [Piece("<tool_response>\n"), Piece(one["content"], True), Piece("\n</tool_response>")] for one in group
            ]
            out.append(("user", _joined(said)))
            continue
        for message in group:
            parts = [[Piece(message["content"], True)]] if message["content"] else []
            if calls := message.get("tool_calls"):
                written = [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
                parts.append(written_calls(style, written))
            out.append((role, _joined(parts)))
    if chat.tools:
        system = out[0][1]
        out[0] = ("system", [*system, *([Piece("\n\n")] if system else []), *tools_told(style, chat.tools)])
    return out


def _joined(parts: Sequence[Sequence[Piece]]) -> list[Piece]:
    """Parts on lines of their own."""
    return [piece for number, part in enumerate(parts) for piece in (*([Piece("\n")] if number else []), *part)]


def _checked(number: int, message: Message) -> Message:
    """A message whose content is text, or a refusal that names it."""
    where = f"message {number}"
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise GuidedError(f'{where} is not of the form {{"role": "user", "content": "..."}}')
    calls = message.get("tool_calls") if message["role"] == "assistant" else None
    content = "" if calls and message.get("content") is None else message.get("content")
    if not isinstance(content, str):
        raise GuidedError(f'{where} is not of the form {{"role": "user", "content": "..."}}')
    if message["role"] not in _KEYS:
        raise GuidedError(f"{where} has the role {message['role']!r}; known are {', '.join(_KEYS)}")
    unknown = sorted(message.keys() - _KEYS[message["role"]])
    if unknown:
        raise GuidedError(f"{where} has the key {unknown[0]!r}, which this template would not show to the model")
    for call in calls or ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise GuidedError(f'{where} has a call without {{"function": {{"name": "...", "arguments": "{{...}}"}}}}')
        try:
            read_arguments(function.get("arguments"))
        except SpecError as error:
            raise GuidedError(f"{where}: {error}") from None
    return {**message, "content": content}
