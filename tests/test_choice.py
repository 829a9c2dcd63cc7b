"""Choices: exactly the strings given."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.automaton.reference.token_masks import accepts
from guided.errors import LimitExceeded, SpecError
from guided.frontends.choice import choice_to_grammar
from guided.limits import Limits

_TEXTS = st.text(st.sampled_from("ab€\U0001f600 "), max_size=4)


@settings(deadline=None)
@given(st.lists(_TEXTS, min_size=1, max_size=6), st.lists(_TEXTS, max_size=6))
def test_exactly_the_choices(choices, others):
    grammar = choice_to_grammar(choices)
    for text in choices + others:
        assert accepts(grammar, text.encode()) == (text in choices)


@pytest.mark.parametrize(
    ("choices", "message", "pointer"),
    [
        ([], "there is nothing to choose from", ""),
        ("yes", "a choice is a list of strings, not one string", ""),
        (["a", 1], "choice 1 is a int, not a string", "/1"),
        (["a", None], "choice 1 is a NoneType, not a string", "/1"),
        (["\ud800"], "choice 0 contains a lone surrogate, which cannot occur in a text", "/0"),
    ],
)
def test_refusals(choices, message, pointer):
    with pytest.raises(SpecError) as caught:
        choice_to_grammar(choices)
    assert (caught.value.message, caught.value.pointer) == (message, pointer)


def test_length_limit():
    with pytest.raises(LimitExceeded) as caught:
        choice_to_grammar(["abc", "def"], limits=Limits(spec_length=5))
    assert (caught.value.limit, caught.value.given, caught.value.allowed) == ("spec_length", 6, 5)
