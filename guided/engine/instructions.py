"""Adds instructions to a conversation: a description of the answer's format, and a request to think first.

In: a prompt, the grammar of the answer, and the options of the request. Out: the new prompt, and for `think_first` also
the ids between the model's free text and its answer (think_first.py).
"""

from __future__ import annotations

from typing import Final

from guided.chat import Conversation
from guided.describe import Description, describe
from guided.engine.prompts import PromptReader, has_description
from guided.engine.request import Prompt
from guided.engine.think_first import THINK_INSTRUCTION, Thoughts, request_for_answer
from guided.errors import OptionError
from guided.matching.compiled import CompiledGrammar
from guided.models.model import ModelConfig

__all__ = ["Instructions", "describes_by_default"]

_MIN_PARAMETERS: Final = 200_000_000
_NO_CONSTRAINT: Final = "there is no constraint"
_NO_TEMPLATE: Final = "no chat template renders the prompt"


def describes_by_default(config: ModelConfig) -> bool:
    """Whether specifications are described to a model by default: if it has about 200 million parameters or more.

    Measured on fifty extractions: Qwen2.5-Coder-0.5B gets 19 more fields right with descriptions, SmolLM2-135M 5 fewer
    (docs/right-answers.md). Parameters are estimated without embeddings, as 12 layers dim^2, as in "Scaling Laws for
    Neural Language Models" (arXiv 2001.08361).
    """
    return 12 * config.layers * config.dim**2 >= _MIN_PARAMETERS


class Instructions:
    """The instructions of one request.

    Args:
        reader: encodes the request's prompt.
        grammar: the specification of the answer, if there is one.
        raw: whether the model continues a string prompt instead of answering it as a message.
        is_free_text: whether the grammar allows any text; then there is nothing to describe.
        has_tools: whether the request has tools, even if the model must not call them. Then it is no error if there is
            nothing to describe.
    """

    def __init__(
        self,
        reader: PromptReader,
        grammar: CompiledGrammar | None,
        *,
        raw: bool,
        is_free_text: bool = False,
        has_tools: bool = False,
    ) -> None:
        self._reader, self._grammar, self._raw, self._is_free_text = reader, grammar, raw, is_free_text
        self._has_tools = has_tools

    def describe(self, prompt: Prompt, *, is_required: bool) -> Prompt:
        """The prompt with a description of the specification. Tools are left to the chat template.

        Args:
            prompt: the prompt of the request.
            is_required: whether the request asks for a description. Otherwise, regular expressions and grammars are not
                described, because two random samples may mislead a model.

        Raises:
            OptionError: a description is required, but there is no constraint or no conversation, or the constraint
                cannot be described.
        """
        is_templated = self._reader.is_templated(prompt, raw=self._raw)
        chat = self._reader.to_conversation(prompt) if is_templated else None
        if chat is None and not is_required:
            return prompt
        description = self._describe_specification(chat, with_samples=is_required)
        if description is not None and chat is not None:
            return (
                prompt if has_description(chat, description) else self._reader.with_instruction(chat, description.text)
            )
        if not is_required or self._has_tools or (chat is not None and chat.tools):
            return prompt
        if description is not None:
            reason = _NO_TEMPLATE
        else:
            reason = _NO_CONSTRAINT if self._is_free_text else "the constraint cannot be described"
        raise OptionError(f"describe=True adds the specification to the conversation, but {reason}", option="describe")

    def think_first(self, prompt: Prompt, thoughts: Thoughts, *, may_describe: bool) -> tuple[Prompt, list[int]]:
        """The prompt for the free text, and the ids between the free text and the answer.

        Raises:
            OptionError: there is no constraint, or no conversation in which the model begins the next message.
        """
        chat, reason = None, _NO_CONSTRAINT
        if self._grammar is not None:
            reason = _NO_TEMPLATE
            if self._reader.is_templated(prompt, raw=self._raw):
                chat, reason = self._reader.to_conversation(prompt), "the model continues the last message"
        if chat is None or chat.continue_final_message or not chat.add_generation_prompt:
            raise OptionError(f"think_first lets the model write before its answer, but {reason}", option="think_first")
        if thoughts != "answer":
            chat = self._reader.with_instruction(chat, THINK_INSTRUCTION)
        description = self._describe_specification(chat, with_samples=True) if may_describe else None
        text = "" if description is None or has_description(chat, description) else description.text
        return chat, self._reader.next_turn(chat, request_for_answer(thoughts, text))

    def _describe_specification(self, chat: Conversation | None, *, with_samples: bool) -> Description | None:
        if self._grammar is None or self._is_free_text:
            return None
        has_tools = chat is not None and bool(chat.tools)
        return describe(self._grammar, has_tools=has_tools, with_samples=with_samples)
