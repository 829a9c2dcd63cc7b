"""The protocols of grammars and matchers that an engine uses, with the contract of each method.

`CompiledGrammar` and `GrammarMatcher` are guided's own. An engine works with any other class that keeps these
contracts: a wrapper of a matcher (`engine/reasoning.py`), a test matcher, a matcher of another kind of grammar.

A token is an id below the vocabulary's size. An output is *complete* if `is_accepting()`. Only then is an end token
accepted, and it is the last step that changes anything.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["ForkingMatcher", "Grammar", "Matcher", "accept_any_id", "check_id"]


@runtime_checkable
class Grammar(Protocol):
    """A specification compiled for a vocabulary: immutable, shared by matchers and threads."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary that the grammar was compiled for. An engine refuses a grammar for another vocabulary."""

    @property
    def kind(self) -> str:
        """The kind of the specification. Outputs of "json_schema" and "type" are parsed to values."""

    @property
    def source(self) -> Any:
        """The specification as given. The value parser is derived from it."""


@runtime_checkable
class Matcher(Protocol):
    """The state of one output under a grammar. It belongs to one thread at a time.

    The engine relies on this guarantee: `accept_token` accepts every token that `fill_next_token_bitmask` allows, and
    with `max_tokens=n` the output can be completed within n - 1 more tokens, including the end token.
    """

    @property
    def budget_bound(self) -> bool:
        """Whether the last mask may lack tokens because of its `max_tokens`. If not, it equals the mask without one."""

    def fill_next_token_bitmask(
        self, bitmask: npt.NDArray[np.int32], row: int = 0, *, max_tokens: int | None = None
    ) -> bool:
        """Write the tokens that may come next into a row: int32, bit `id % 32` of word `id // 32`, 1 is allowed.

        Returns False, with the row unspecified, if all tokens are allowed. The state does not change. With
        `max_tokens`, only tokens remain after which the output can be completed within the budget. Raises BudgetError
        if not even the shortest completion fits.
        """

    def accept_token(self, token: int, /) -> bool:
        """Accept a token. False, with the state unchanged, if it is not allowed.

        Raises:
            ValueError: the vocabulary has no such id.
        """

    def rollback(self, n: int, /) -> None:
        """Take back the last n accepted tokens. Raises ValueError, with the state unchanged, if there are fewer."""

    def forced_tokens(self) -> list[int]:
        """The tokens with which every output continues, as the tokenizer produces them; empty if there is a choice.

        All of them would be accepted in order. An end token is never among them.
        """

    def is_accepting(self) -> bool:
        """Whether the output is complete: it may end here, but may also continue."""

    def is_terminated(self) -> bool:
        """Whether an end token was accepted. Only end tokens are allowed from then on, and they change nothing."""

    def min_tokens_to_finish(self) -> int:
        """A number of tokens that suffices to complete the output, including the end token.

        It is the length of the shortest completion, or an upper bound. Masks under a budget use the same number.
        """


@runtime_checkable
class ForkingMatcher(Matcher, Protocol):
    """A matcher that can look ahead on a copy, without changing itself."""

    def fork(self) -> Self:
        """An independent copy in the same state, with the same past."""


def check_id(token: int, size: int) -> None:
    """Raises ValueError if a vocabulary of this size has no such id."""
    if not 0 <= token < size:
        raise ValueError(f"{token} is not a token id of this vocabulary (0 to {size - 1})")


def accept_any_id(matcher: Matcher, token: int) -> bool:
    """Accept a token of another system, whose model may have more ids than the vocabulary. False: it is not allowed, or
    the vocabulary has no such id."""
    try:
        return matcher.accept_token(token)
    except ValueError:
        return False
