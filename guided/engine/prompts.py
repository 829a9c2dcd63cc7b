"""What the model sees of a prompt: ids, and only such as it can read.

In: a text, messages for the chat template, or ids. Out: ids, at least one, with room for an output. A text is the
user's message where the model has a chat template, and else, or with `raw`, what the model goes on from.
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
    """Refuse what is no prompt. The numbers in bytes are no token ids, though they look like some."""
    if isinstance(prompt, bytes | bytearray | memoryview):
        raise TypeError("a prompt is text, messages or token ids, not bytes: decode them")
    if not isinstance(prompt, str | Sequence | Conversation):
        hint = ": for a single message write [message]" if isinstance(prompt, Mapping) else ""
        raise TypeError(f"a prompt is text, messages or token ids, not {brief(prompt)}{hint}")


@dataclass(frozen=True, slots=True)
class PromptReader:
    """Of one model.

    Attributes:
        chat: the chat template, None where the model has none.
        bos: ids put before a text.
    """

    vocabulary: Vocabulary
    config: ModelConfig
    chat: ChatTemplate | None
    bos: Sequence[int]

    def encode(self, prompt: Prompt, *, raw: bool = False) -> list[int]:
        """The ids of a prompt.

        Raises:
            TypeError: it is no text, no messages and no ids. GuidedError: there is no template for messages; or as
                `check`.
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
        """Whether a prompt is put into the chat template."""
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
        """Refuse what the model cannot read; `room`: for so many tokens more.

        Raises:
            GuidedError: there are no ids, or one is none of its tokens. ContextError: there are too many.
        """
        if not ids:
            raise GuidedError("the prompt is empty: the model needs at least one token to go on from")
        if wrong := [id for id in ids if not 0 <= id < self.config.vocab_size]:
            raise GuidedError(f"the prompt holds the id {wrong[0]}, which is no token of this model")
        if len(ids) + room > (context := self.config.context):
            raise ContextError(len(ids), context)
