"""Builds the matchers of a request's outputs in layers.

In: a grammar, and the options of a request. Out: a function that makes the matcher of an output. The layers, from the
inside out:

    GrammarMatcher      the specification
    HealingMatcher      first, the removed end of the prompt                  heal_prompt
    CanonicalMatcher    only tokens that the tokenizer itself would produce   canonical
    ReasoningGate       first, free reasoning                                 reasoning_end
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from guided.chat import Conversation
from guided.chat.conversation import MessageError, join_parts
from guided.engine.prompts import PromptReader
from guided.engine.reasoning import ReasoningGate, find_reasoning_end
from guided.engine.request import Prompt
from guided.errors import OptionError, brief
from guided.matching.canonical.matcher import CanonicalMatcher
from guided.matching.canonical.spelling import spelling_of
from guided.matching.compiled import CompiledGrammar
from guided.matching.constraint import Constraint, ConstraintCompiler
from guided.matching.healing import HealingMatcher, count_unstable_tokens
from guided.matching.matcher import GrammarMatcher
from guided.matching.protocol import ForkingMatcher, Matcher
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["continued_text", "iterate_layers", "matcher_maker", "prompt_ids"]


def prompt_ids(
    reader: PromptReader, prompt: Prompt, ids: list[int] | None, *, raw: bool, heal: bool
) -> tuple[list[int], bytes]:
    """The ids of a prompt, and the bytes of the tokens that `heal` removed from its end. `ids`: the ids of the whole
    prompt, if known.

    Raises:
        GuidedError: the prompt is invalid. OptionError: a chat template renders the prompt, so the healed text would
            not be at its end.
    """
    ids = reader.encode(prompt, raw=raw) if ids is None else ids
    if not heal:
        return ids, b""
    if reader.is_templated(prompt, raw=raw):
        raise OptionError(
            "heal_prompt needs a string that the model continues, but this prompt is rendered with a chat template: "
            "pass the prompt as a string with raw=True"
        )
    stable_length = len(ids) - count_unstable_tokens(reader.vocabulary, ids)
    return ids[:stable_length], reader.vocabulary.decode(ids[stable_length:])


def matcher_maker(
    vocabulary: Vocabulary,
    grammar: CompiledGrammar | None,
    prefix: bytes = b"",
    *,
    canonical: bool = False,
    reasoning_end: str | None = None,
    reasoning_limit: int | None = None,
    prefill: str = "",
) -> Callable[[], ForkingMatcher | None]:
    """Return a function that makes the matcher of an output. The function returns None if there is no grammar.
    `prefill`: the beginning of the text, which the prompt already contains.

    Raises:
        UnsupportedError: it is unknown how the tokenizer splits text. OptionError: the options exclude each other.
        GuidedError: `reasoning_end` is empty.
    """
    if prefix and reasoning_end is not None:
        raise OptionError("heal_prompt and reasoning_end exclude each other: leave one of them out")
    end = [] if reasoning_end is None else find_reasoning_end(vocabulary, reasoning_end)
    spelling = spelling_of(vocabulary) if canonical else None

    def make() -> ForkingMatcher | None:
        if grammar is None:
            return None
        inner = GrammarMatcher(grammar)
        inner.accept_string(prefill)
        matcher = cast(ForkingMatcher, HealingMatcher(inner, prefix, vocabulary) if prefix else inner)
        if spelling is not None:
            matcher = CanonicalMatcher(matcher, spelling)
        return ReasoningGate(matcher, end, vocabulary, limit=reasoning_limit) if end else matcher

    return make


def continued_text(grammar: CompiledGrammar | None, constraint: Constraint, prompt: Prompt, ids: Sequence[int]) -> str:
    """The text of a conversation's last message as it appears at the end of the prompt, if the output continues it.

    Chat templates may strip whitespace from the end of a message. `grammar`: the compiled constraint, if any. Returns
    "" if the output begins a new message, or if the constraint applies only to the text after the message
    (`ConstraintCompiler.follows_message`).

    Raises:
        MessageError: no output that satisfies the grammar begins with this text.
    """
    if grammar is None or (isinstance(constraint, ConstraintCompiler) and constraint.follows_message):
        return ""
    if not isinstance(prompt, Conversation) or not prompt.continue_final_message:
        return ""
    message_text = join_parts(prompt.messages[-1].get("content") or "")
    prompt_tail = grammar.vocabulary.decode(ids[-len(message_text.encode()) - 1 :])
    candidates = (message_text, message_text.rstrip(), message_text.strip())
    text = next((text for text in candidates if prompt_tail.endswith(text.encode())), candidates[-1])
    matcher = GrammarMatcher(grammar)
    if not matcher.accept_string(text):
        end = next(i for i, character in enumerate(text) if not matcher.accept_string(character))
        problem = (
            f"begins no output that satisfies the constraint: {brief(text[end:], 20)} cannot follow {brief(text[:end])}"
        )
        raise MessageError(len(prompt.messages) - 1, "content", problem)
    return text


def iterate_layers(matcher: Matcher | None) -> Iterator[Matcher]:
    """Yield a matcher and its inner matchers, from the outside in."""
    while matcher is not None:
        yield matcher
        if isinstance(matcher, ReasoningGate):
            matcher = matcher.answer
        elif isinstance(matcher, CanonicalMatcher | HealingMatcher):
            matcher = matcher.inner
        else:
            return
