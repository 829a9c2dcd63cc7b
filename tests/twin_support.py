"""The native core and its readable twin for one grammar, for comparisons state by state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import currently_in_test_context, event

from guided.automaton.reference import language as reference_language
from guided.automaton.reference import regular as reference_regular
from guided.automaton.reference import token_masks as reference
from guided.automaton.reference.token_masks import ReferenceGrammar
from guided.errors import LimitExceeded, SpecError, UnsupportedError, VocabularyError
from guided.ir import Grammar
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary


@contextmanager
def small_searches(search: int, states: int, ahead: int = reference_language.MAX_AHEAD) -> Iterator[None]:
    """The twin gives up early: a few large examples are not worth the time of many small ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "MAX_SEARCH", search)
        patch.setattr(reference_language, "MAX_STATES", states)
        patch.setattr(reference_language, "MAX_AHEAD", ahead)
        patch.setattr(reference_regular, "MAX_STATES", 1500)
        yield


def compile_both(
    grammar: Grammar,
    tokens: Sequence[bytes | None],
    eos_token_ids: Collection[int],
    special_tokens: Mapping[int, str],
    everything_supported: bool = False,
) -> tuple[GrammarMatcher, ReferenceGrammar] | None:
    """Compile with the core and with the twin.

    Returns None if both refuse, if one of them reaches a limit, or if the core does not support the grammar. With
    `everything_supported`, the last case is a failure.
    """
    refused: Exception | None = None
    try:
        twin = ReferenceGrammar(grammar, tokens, eos_token_ids, special_tokens)
    except (SpecError, VocabularyError) as error:
        refused = error
    except LimitExceeded:
        note("the reference gave up at the start")
        return None
    try:
        vocabulary = Vocabulary(tokens, eos_token_ids=eos_token_ids, special_tokens=special_tokens)
        compiled = GrammarCompiler(vocabulary).compile_grammar(grammar)
    except LimitExceeded as error:
        note(f"the core gave up: {error.limit}")
        return None
    except UnsupportedError as error:
        assert not everything_supported, error
        note(f"not supported: {error.reason[:40]}")
        return None
    except (SpecError, VocabularyError) as error:
        assert refused is not None, f"only the core refuses: {error}"
        assert type(refused) is type(error), (refused, error)
        return None
    assert refused is None, f"only the reference refuses: {refused}"
    return GrammarMatcher(compiled), twin


def note(what: str) -> None:
    """Count `what` in hypothesis' statistics if a property test is running."""
    if currently_in_test_context():
        event(what)
