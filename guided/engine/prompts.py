"""Encodes prompts as ids that the model can read.

In: a text, messages for the chat template, or ids. Out: at least one id, and few enough to leave context for an output.
If the model has a chat template, a text is the user's message. Otherwise, or with `raw`, the model continues the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from guided.chat import ChatTemplate, Conversation, Message
from guided.engine.request import Prompt
from guided.errors import ContextError, GuidedError, brief
from guided.models.model import ModelConfig
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["PromptReader"]


def refuse_others(prompt: object) -> None:
    """Refuse values that are not prompts. Bytes are a sequence of numbers, but these are not token ids."""
    if isinstance(prompt, bytes | bytearray | memoryview):
        raise TypeError("a prompt is text, messages or token ids, not bytes: decode them")
    if not isinstance(prompt, str | Sequence | Conversation):
        hint = ": for a single message write [message]" if isinstance(prompt, Mapping) else ""
        raise TypeError(f"a prompt is text, messages or token ids, not {brief(prompt)}{hint}")


@dataclass(frozen=True, slots=True)
class PromptReader:
    """Reads the prompts of one model.

    Attributes:
        chat: the chat template, if the model has one.
        bos: ids prepended to a text.
    """

    vocabulary: Vocabulary
    config: ModelConfig
    chat: ChatTemplate | None
    bos: Sequence[int]

    def encode(self, prompt: Prompt, *, raw: bool = False) -> list[int]:
        """The ids of a prompt.

        Raises:
            TypeError: the prompt is neither text, messages nor ids. GuidedError: the model has no template for
                messages; or as `check`.
        """
        refuse_others(prompt)
        if isinstance(prompt, str):
            ids = self._text(prompt, raw)
        elif self._is_ids(prompt):
            ids = list(cast("Sequence[int]", prompt))
        elif raw:
            raise GuidedError("raw=True goes on from a text, and these are messages: leave it out")
        elif self.chat is None:
            raise GuidedError("this model has no chat template: give the prompt as text or token ids")
        else:
            ids = self.chat.render(cast("Sequence[Message] | Conversation", prompt))
        self.check(ids, room=1)
        return ids

    def is_templated(self, prompt: Prompt, *, raw: bool = False) -> bool:
        """Whether the chat template renders a prompt."""
        return self.chat is not None and not raw if isinstance(prompt, str) else not self._is_ids(prompt)

    def _is_ids(self, prompt: Prompt) -> bool:
        if isinstance(prompt, Conversation):
            return False
        return bool(prompt or self.chat is None) and all(isinstance(item, int) for item in prompt)

    def _text(self, prompt: str, raw: bool) -> list[int]:
        if self.chat is None or raw:
            return [*self.bos, *self.vocabulary.encode(prompt)]
        if not prompt:
            raise GuidedError(
                "the prompt is an empty text, which asks the model nothing: write the message that it is to answer"
            )
        return self.chat.render([{"role": "user", "content": prompt}])

    def check(self, ids: Sequence[int], *, room: int) -> None:
        """Refuse ids that the model cannot read; `room`: the number of further tokens that must fit the context.

        Raises:
            GuidedError: there are no ids, or one is not in the vocabulary. ContextError: there are too many.
        """
        if not ids:
            raise GuidedError("the prompt is empty: the model needs at least one token to go on from")
        if wrong := [id for id in ids if not 0 <= id < self.config.vocab_size]:
            raise GuidedError(f"the prompt holds the id {wrong[0]}, which is no token of this model")
        if len(ids) + room > (context := self.config.context):
            raise ContextError(len(ids), context)
