"""Old names of the public API still work, with a DeprecationWarning that gives the new name."""

from __future__ import annotations

from dataclasses import replace

import pytest

import guided
from guided import levels


def test_old_names_of_fields():
    with pytest.warns(DeprecationWarning, match="Tool.room is deprecated: use Tool.reserved_tokens"):
        assert guided.CALCULATOR.room == guided.CALCULATOR.reserved_tokens
    with pytest.warns(DeprecationWarning, match="Tool.longest is deprecated: use Tool.max_characters"):
        tool = replace(guided.CALCULATOR, longest=5)
    assert tool.max_characters == 5 and tool.name == guided.CALCULATOR.name
    timings = guided.Timings()
    with pytest.warns(DeprecationWarning, match="Timings.drafted is deprecated: use Timings.drafted_tokens"):
        timings.drafted = 3
    assert timings.drafted_tokens == 3


def test_old_names_of_methods():
    vocabulary = guided.Vocabulary.from_characters("ab")
    matcher = guided.GrammarMatcher(guided.GrammarCompiler(vocabulary).compile_regex("a+"))
    with pytest.warns(DeprecationWarning, match="captures_with_offsets"):
        assert matcher.captures_with_places() == matcher.captures_with_offsets()
    with pytest.warns(DeprecationWarning, match="Vocabulary.changed is Vocabulary.copy_with"):
        assert vocabulary.changed(size=9).size == 9


def test_the_old_name_of_an_error_method():
    with pytest.warns(DeprecationWarning, match="GuidedError.located is deprecated: use GuidedError.with_location"):
        error = guided.GuidedError("wrong").located("abc", (1, 2))
    assert error.text == "abc" and error.span == (1, 2)


def test_the_old_name_of_a_class():
    with pytest.warns(DeprecationWarning, match="guided.levels.GuidedOutput"):
        assert levels.Generated is levels.GuidedOutput
