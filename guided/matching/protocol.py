"""What an engine needs of a grammar and of a matcher, as protocols, each method with its contract.

`CompiledGrammar` and `GrammarMatcher` are the ones that guided has. Anything else that keeps these contracts may take
their places in an engine's loop: a gate in front of a matcher (`engine/reasoning.py`), a matcher of tests, one of a
grammar of another kind.

A token is an id below the vocabulary's size. An output is *complete* where `is_accepting()`; an end token is accepted
there and nowhere else, and it is the last step that changes anything.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["ForkingMatcher", "Grammar", "Matcher"]


@runtime_checkable
class Grammar(Protocol):
    """A specification compiled for a vocabulary: immutable, shared by matchers and threads."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary that it was compiled for. An engine refuses a grammar of another one."""

    @property
    def kind(self) -> str:
        """What the specification is: "json_schema" and "type" have values besides their texts."""

    @property
    def source(self) -> Any:
        """The specification as it was given, from which the reader of values is made."""


@runtime_checkable
class Matcher(Protocol):
    """The state of one output under a grammar. It belongs to one thread at a time.

    The promise that the loop relies on: a token that `fill_next_token_bitmask` allows is one that `accept_token`
    accepts, and with `max_tokens=n` some complete output follows it within n - 1 more tokens, the end token among them.
    """

    @property
    def budget_bound(self) -> bool:
        """Whether the last mask may lack tokens because of its `max_tokens`; False: it is the one without a budget."""

    def fill_next_token_bitmask(
        self, bitmask: npt.NDArray[np.int32], row: int = 0, *, max_tokens: int | None = None
    ) -> bool:
        """Write the tokens that may come next into a row: int32, bit `id % 32` of word `id // 32`, 1 is allowed.

        Returns False, with the row unspecified, where all tokens are allowed. The state does not change. With
        `max_tokens` only tokens remain after which the output can be completed in that budget; BudgetError where not
        even the shortest completion fits.
        """

    def accept_token(self, token: int, /) -> bool:
        """Move on by a token. False, with the state unchanged, where it is not allowed."""

    def rollback(self, n: int, /) -> None:
        """Take back the last n accepted tokens. ValueError, with the state unchanged, where there are not so many."""

    def forced_tokens(self) -> list[int]:
        """The tokens that every output continues with, spelled as the tokenizer would; empty where there is a choice.

        All of them would be accepted, one after the other. An end token is never among them.
        """

    def is_accepting(self) -> bool:
        """Whether the output is complete: it may end here, though it may also go on."""

    def is_terminated(self) -> bool:
        """Whether an end token was accepted. Only end tokens are allowed from then on, and they change nothing."""

    def min_tokens_to_finish(self) -> int:
        """A number of tokens within which the output can surely be completed, the end token included.

        The length of the shortest completion, or an upper bound of it; masks under a budget keep to the same number.
        """


@runtime_checkable
class ForkingMatcher(Matcher, Protocol):
    """A matcher that can look ahead: what is tried on a copy leaves the matcher as it is."""

    def fork(self) -> Self:
        """A copy in the same state with the same past, which moves independently."""
