"""The ChatML template: messages in, prompt tokens out.

In: [{"role": "user", "content": "..."}, ...]. Out: the ids of `<|im_start|>role\\ncontent<|im_end|>\\n` for each
message, followed by those of `<|im_start|>assistant\\n`. Role and content are encoded as text, so a message that
contains the name of a control token cannot end its turn. The default system message is the one in the model's own
template. Other chat templates are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from guided.errors import GuidedError
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["ChatMl", "Message"]

Message: TypeAlias = Mapping[str, str]

_START, _END = "<|im_start|>", "<|im_end|>"
_DEFAULT_SYSTEM = re.compile(r"'<\|im_start\|>system(?:\n|\\n)([^<{}']*)<\|im_end\|>")
_ROLES = ("system", "user", "assistant", "tool")


class ChatMl:
    """The template over one vocabulary; `default_system` opens a conversation that has no system message."""

    def __init__(self, vocabulary: Vocabulary, default_system: str | None = None) -> None:
        ids = {name: id for id, name in vocabulary.special_tokens.items()}
        if _START not in ids or _END not in ids:
            raise GuidedError(f"the vocabulary has no {_START} and {_END}: it cannot express ChatML messages")
        self._vocabulary, self._start, self._end = vocabulary, ids[_START], ids[_END]
        self.default_system = default_system

    @classmethod
    def from_template(cls, vocabulary: Vocabulary, template: object) -> ChatMl | None:
        """The template for the Jinja text in a model file; None if that is not ChatML."""
        if not isinstance(template, str) or _START not in template or _END not in template:
            return None
        found = _DEFAULT_SYSTEM.search(template)
        return cls(vocabulary, found.group(1).replace("\\n", "\n") if found else None)

    def render(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a conversation, ending where the assistant's next message begins."""
        if not messages:
            raise GuidedError("the list of messages is empty")
        turns = [_checked(number, message) for number, message in enumerate(messages)]
        if turns[0][0] != "system" and self.default_system is not None:
            turns.insert(0, ("system", self.default_system))
        encode = self._vocabulary.encode
        newline, out = encode("\n"), []
        for role, content in turns:
            out += [self._start, *encode(f"{role}\n{content}"), self._end, *newline]
        return [*out, self._start, *encode("assistant\n")]


def _checked(number: int, message: Message) -> tuple[str, str]:
    """Role and content, or a refusal that names the message."""
    where = f"message {number}"
    if not isinstance(message, Mapping) or not all(isinstance(message.get(key), str) for key in ("role", "content")):
        raise GuidedError(f'{where} is not of the form {{"role": "user", "content": "..."}}')
    unknown = sorted(message.keys() - {"role", "content"})
    if unknown:
        raise GuidedError(f"{where} has the key {unknown[0]!r}, which this template would not show to the model")
    if message["role"] not in _ROLES:
        raise GuidedError(f"{where} has the role {message['role']!r}; known are {', '.join(_ROLES)}")
    return message["role"], message["content"]
