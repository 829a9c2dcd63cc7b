"""Builds the matchers of a request's outputs in layers.

In: a grammar, and the options of a request. Out: a function that makes the matcher of an output. From the inside out:

    GrammarMatcher      the specification
    HealingMatcher      first, the end of the prompt, in new tokens           heal_prompt
    CanonicalMatcher    only tokens that the tokenizer itself would produce   canonical
    ReasoningGate       first, free reasoning                                 reasoning_end
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from guided.engine.prompts import PromptReader
from guided.engine.reasoning import ReasoningGate, find_reasoning_end
from guided.engine.request import Prompt
from guided.errors import OptionError
from guided.matching.canonical.matcher import CanonicalMatcher
from guided.matching.canonical.spelling import spelling_of
from guided.matching.compiled import CompiledGrammar
from guided.matching.healing import HealingMatcher, count_unstable_tokens
from guided.matching.matcher import GrammarMatcher
from guided.matching.protocol import ForkingMatcher, Matcher
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["layers", "matcher_maker", "prompt_ids"]


def prompt_ids(reader: PromptReader, prompt: Prompt, *, raw: bool, heal: bool) -> tuple[list[int], bytes]:
    """The ids of a prompt, and the bytes of the tokens that `heal` has removed from its end.

    Raises:
        GuidedError: the prompt is invalid. OptionError: a chat template would end the healed prompt.
    """
    ids = reader.encode(prompt, raw=raw)
    if not heal:
        return ids, b""
    if reader.is_templated(prompt, raw=raw):
        raise OptionError(
            "heal_prompt needs a text that the model continues, but this prompt is rendered with a chat template: pass "
            "the prompt as a text with raw=True"
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
) -> Callable[[], ForkingMatcher | None]:
    """A function that makes the matcher of an output, or None if there is no grammar.

    Raises:
        UnsupportedError: the tokenizer's spelling rules are unknown. OptionError: the options exclude each other.
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
        matcher = cast(ForkingMatcher, HealingMatcher(inner, prefix, vocabulary) if prefix else inner)
        if spelling is not None:
            matcher = CanonicalMatcher(matcher, spelling)
        return ReasoningGate(matcher, end, vocabulary, limit=reasoning_limit) if end else matcher

    return make


def layers(matcher: Matcher | None) -> Iterator[Matcher]:
    """A matcher and its inner matchers, from the outside in."""
    while matcher is not None:
        yield matcher
        if isinstance(matcher, ReasoningGate):
            matcher = matcher.answer
        elif isinstance(matcher, CanonicalMatcher | HealingMatcher):
            matcher = matcher.inner
        else:
            return
