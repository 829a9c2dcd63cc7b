"""A plugin for pytest: fixtures that check texts, and explain why a text is refused.

    pytest_plugins = ("guided.testing.plugin",)         # in conftest.py

    def test_the_answer(assert_allowed, assert_refused):
        assert_allowed(SCHEMA, '{"id": 3}')
        assert_refused(SCHEMA, '{"id": 2}')

In: a constraint as for `Engine.generate`, and a text. Out: nothing, or a failure that shows the location, what was
expected there, and which part of the specification refuses the text. guided is imported when a fixture is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["assert_allowed", "assert_refused"]


@pytest.fixture
def assert_allowed() -> Callable[..., None]:
    """A function that fails if a specification refuses a text: `assert_allowed(constraint, text, **options)`."""
    from guided.matching.matcher import GrammarMatcher
    from guided.testing.language import over_bytes

    def check(constraint: Any, text: str, **options: Any) -> None:
        explanation = GrammarMatcher(over_bytes(constraint, **options)).explain(text.encode())
        matcher = GrammarMatcher(over_bytes(constraint, **options))
        if not explanation.accepted:
            lines = text[: explanation.characters_read].split("\n")
            pytest.fail(f"line {len(lines)}, column {len(lines[-1]) + 1}: {explanation.reason}")
        if not (matcher.accept_string(text) and matcher.is_accepting()):
            completion = matcher.explain().completion.decode("utf-8", "replace")
            pytest.fail(f"the text is not complete: the shortest way to finish it is {completion!r}")

    return check


@pytest.fixture
def assert_refused() -> Callable[..., None]:
    """A function that fails if a specification allows a text: `assert_refused(constraint, text, **options)`."""
    from guided.matching.matcher import GrammarMatcher
    from guided.testing.language import over_bytes

    def check(constraint: Any, text: str, **options: Any) -> None:
        matcher = GrammarMatcher(over_bytes(constraint, **options))
        if matcher.accept_string(text) and matcher.is_accepting():
            pytest.fail(f"the specification allows {text!r}")

    return check
