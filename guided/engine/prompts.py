"""Encodes prompts as ids that the model can read.

In: a string, messages for the chat template, or ids. Out: ids: at least one, and few enough that the model's context
has space for an output. If the model has a chat template, a string is sent as a user message. Otherwise, or with `raw`,
the model continues the string.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Final, cast

from guided.chat import ChatTemplate, Conversation, Message
from guided.describe import Description
from guided.engine.request import Prompt
from guided.errors import ContextError, GuidedError, brief
from guided.models.model import ModelConfig
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["PromptReader", "has_description", "read_token_ids", "with_text"]

_ORDER_HINT: Final = "the first argument is the prompt, and the second is the constraint"


def check_prompt_type(prompt: object) -> None:
    """Raise TypeError for values that are not prompts, and GuidedError for a list of strings. Bytes are rejected
    although they are sequences of integers."""
    if isinstance(prompt, bytes | bytearray | memoryview):
        raise TypeError("a prompt must be text, messages or token ids, not bytes: decode the bytes")
    if not isinstance(prompt, str | Sequence | Conversation):
        hint = f": {_ORDER_HINT}" if isinstance(prompt, Mapping | type) else ""
        if isinstance(prompt, Mapping) and "role" in prompt:
            hint = ": put a single message into a list"
        raise TypeError(f"a prompt must be text, messages or token ids, not {brief(prompt)}{hint}")
    if isinstance(prompt, Sequence) and not isinstance(prompt, str) and prompt and isinstance(prompt[0], str):
        hint = f"{_ORDER_HINT}; generate_batch takes a list of prompts"
        message = f"a prompt must be text, messages or token ids, not a list of strings such as {brief(prompt)}"
        raise GuidedError(message).with_location("", (0, 0), hint=hint)


@dataclass(frozen=True, slots=True)
class PromptReader:
    """Reads the prompts of one model.

    Attributes:
        context: the maximum length of a sequence.
        template: the chat template, if the model has one.
        bos: the ids that precede a string which the model continues.
    """

    vocabulary: Vocabulary
    config: ModelConfig
    context: int
    template: ChatTemplate | None
    bos: Sequence[int]

    def encode(self, prompt: Prompt, *, raw: bool = False) -> list[int]:
        """Encode a prompt as ids.

        Raises:
            TypeError: the prompt is neither text, messages nor ids. GuidedError: it is a list of strings, the model has
                no chat template for messages, or `check` rejects the ids.
        """
        check_prompt_type(prompt)
        if isinstance(prompt, str):
            ids = self._encode_text(prompt, raw)
        elif self._is_token_ids(prompt):
            ids = read_token_ids(cast("Sequence[int]", prompt))
        elif raw:
            raise GuidedError("raw=True continues a string, but the prompt is a list of messages: leave raw out")
        else:
            ids = self._require_template().render(cast("Sequence[Message] | Conversation", prompt))
        self.check(ids, reserve=1)
        return ids

    def to_conversation(self, prompt: Prompt) -> Conversation:
        """The conversation of a prompt for which `is_templated` is true.

        Raises:
            GuidedError: the model has no chat template, there are no messages, or one of them is malformed.
        """
        if isinstance(prompt, Conversation):
            chat = prompt
        else:
            chat = Conversation(
                [{"role": "user", "content": prompt}] if isinstance(prompt, str) else _as_messages(prompt)
            )
        self._require_template().check_messages(chat)
        return chat

    def with_instruction(self, chat: Conversation, instruction: str) -> Conversation:
        """Add an instruction to the system message of a conversation.

        If the chat template does not render system messages, append the instruction to the user's last message.
        """
        messages, index, template = list(chat.messages), 0, self._require_template()
        if not template.shows_system:
            index = max(
                (i for i, message in enumerate(messages) if message.get("role") == "user"), default=len(messages) - 1
            )
        elif not messages or messages[0].get("role") not in ("system", "developer"):
            messages.insert(0, {"role": "system", "content": template.default_system(chat)})
        messages[index] = with_text(messages[index], instruction)
        return replace(chat, messages=messages)

    def next_turn(self, chat: Conversation, request: str) -> list[int]:
        """The ids between the model's answer and its next answer, if the user writes `request`."""
        return self._require_template().next_turn(chat, request)

    def is_templated(self, prompt: Prompt, *, raw: bool = False) -> bool:
        """Whether the chat template renders a prompt. Raises like `check_prompt_type`."""
        check_prompt_type(prompt)
        return self.template is not None and not raw if isinstance(prompt, str) else not self._is_token_ids(prompt)

    def _require_template(self) -> ChatTemplate:
        if self.template is None:
            raise GuidedError("this model has no chat template: pass the prompt as text or token ids")
        return self.template

    def _is_token_ids(self, prompt: Prompt) -> bool:
        """Whether a prompt is a sequence of numbers. An empty sequence counts as one if there is no chat template."""
        if isinstance(prompt, Conversation):
            return False
        return bool(prompt or self.template is None) and all(issubclass(kind, Real) for kind in set(map(type, prompt)))

    def _encode_text(self, prompt: str, raw: bool) -> list[int]:
        if self.template is None or raw:
            return [*self.bos, *self.vocabulary.encode(prompt)]
        if not prompt:
            raise GuidedError("the prompt is empty, so there is nothing to answer: write a message")
        return self.template.render([{"role": "user", "content": prompt}])

    def check(self, ids: Sequence[int], *, reserve: int) -> None:
        """Reject ids that the model cannot read, or that leave fewer than `reserve` positions in the context.

        Raises:
            GuidedError: there are no ids, or one is not in the vocabulary. ContextError: there are too many.
        """
        if not ids:
            raise GuidedError("the prompt is empty: the model needs at least one token")
        if invalid_ids := [id for id in ids if not 0 <= id < self.config.vocab_size]:
            raise GuidedError(f"the prompt contains the id {invalid_ids[0]}, which is not a token of this model")
        if len(ids) + reserve > self.context:
            model_context = self.config.context
            raise ContextError(len(ids), self.context, model_context if model_context > self.context else None)


def read_token_ids(items: Iterable[object]) -> list[int]:
    """Token ids as a list of `int`. Raises GuidedError if an item is not an integer."""
    ids = cast("list[int]", list(items))
    if set(map(type, ids)) == {int}:  # fast for long prompts
        return ids
    for id in ids:
        if isinstance(id, bool) or not isinstance(id, Integral):
            raise GuidedError(f"the prompt contains {brief(id)}, which is not a token id")
    return list(map(int, ids))


def has_description(chat: Conversation, description: Description) -> bool:
    """Whether a message already contains the description, or the specification itself."""
    return any(description.is_in(text) for message in chat.messages for text in _text_contents(message))


def _as_messages(prompt: object) -> Sequence[Message]:
    return cast("Sequence[Message]", prompt)


def _text_contents(message: Message) -> list[str]:
    content = message.get("content")
    content_parts = content if isinstance(content, list | tuple) else [{"text": content}]
    texts = [part.get("text") for part in content_parts if isinstance(part, Mapping)]
    return [text for text in texts if isinstance(text, str)]


def with_text(message: Message, text: str) -> Message:
    """Append a paragraph to a well-formed message. An empty line separates it, also from parts, which may be joined."""
    content = message.get("content")
    if isinstance(content, list | tuple):
        return {**message, "content": [*content, {"type": "text", "text": f"\n\n{text}"}]}
    return {**message, "content": f"{content}\n\n{text}" if content else text}
