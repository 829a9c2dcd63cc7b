"""Fills a mask for each node of a tree of draft tokens (speculative decoding).

In: for each node, its token, its first child and its next sibling (-1 means none). Node 0 is the root, whose token has
already been accepted. Out: for each node, a row of the bitmask with the tokens that may follow it. The row of a node
is empty, and its subtree is not visited, if its parent's row does not allow its token, or if it ends the output.

How: depth first, with an explicit stack. The matcher steps down with `accept_token` and back up with `rollback`. Cost:
one mask and one step for each visited node.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from guided.compat.xgrammar.arrays import as_array, as_rows

if TYPE_CHECKING:
    import torch

__all__ = ["traverse"]


class TreeMatcher(Protocol):
    """The part of a `GrammarMatcher` that the traversal needs."""

    _size: int

    @property
    def temperature(self) -> float | None:
        """The temperature of the next token."""

    def accept_token(self, token_id: int) -> bool:
        """Accept a token. False if it is not allowed."""

    def rollback(self, num_tokens: int = 1) -> None:
        """Take tokens back."""

    def is_terminated(self) -> bool:
        """Whether the output has ended."""

    def _fill_row(self, rows: np.ndarray[Any, Any], index: int) -> bool: ...


def traverse(
    matcher: TreeMatcher,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    draft_tokens: torch.Tensor,
    token_bitmask: torch.Tensor,
    time_threshold: float,
    temperatures: torch.Tensor | None,
) -> bool:
    """See `GrammarMatcher.traverse_draft_tree`."""
    names = ("retrieve_next_token", "retrieve_next_sibling", "draft_tokens")
    arguments = (retrieve_next_token, retrieve_next_sibling, draft_tokens)
    children, siblings, tokens = (
        as_array(array, np.int64, name).tolist() for name, array in zip(names, arguments, strict=True)
    )
    rows = as_rows(token_bitmask, matcher._size, dimensions=(2,))
    temperature_array = None if temperatures is None else as_array(temperatures, np.float32, "temperatures")
    _check_tree(children, siblings, tokens, len(rows), None if temperature_array is None else len(temperature_array))
    if temperature_array is not None:
        temperature_array[:] = -1.0
    return _TreeWalk(matcher, children, siblings, tokens, rows, temperature_array, time_threshold).run()


def _check_tree(
    children: Sequence[int],
    siblings: Sequence[int],
    tokens: Sequence[int],
    row_count: int,
    temperature_count: int | None,
) -> None:
    count = len(children)
    for name, length in (
        ("retrieve_next_sibling", len(siblings)), ("draft_tokens", len(tokens)), ("token_bitmask", row_count),
        ("temperatures", count if temperature_count is None else temperature_count),
    ):  # fmt: skip
        if length != count:
            raise RuntimeError(
                f"{name} has {length} nodes but retrieve_next_token has {count}: they must have the same length"
            )
    if not count:
        raise RuntimeError("The draft tree must not be empty")
    if siblings[0] != -1:
        raise RuntimeError("The root node must not have siblings")
    reached_nodes: set[int] = set()
    for name, edges in (("retrieve_next_token", children), ("retrieve_next_sibling", siblings)):
        for node, target in enumerate(edges):
            if not -1 <= target < count:
                raise RuntimeError(f"{name}[{node}] = {target} is out of bounds: it should be in [-1, {count}).")
            if target == 0:
                raise RuntimeError("The root node must not be the child or sibling of a node")
            if target in reached_nodes:
                raise RuntimeError(
                    f"Node {target} is reached twice; the draft tree must not contain cycles or shared nodes."
                )
            if target != -1:
                reached_nodes.add(target)


class _TreeWalk:
    def __init__(
        self,
        matcher: TreeMatcher,
        children: Sequence[int],
        siblings: Sequence[int],
        tokens: Sequence[int],
        rows: np.ndarray[Any, Any],
        temperature_array: np.ndarray[Any, Any] | None,
        seconds: float,
    ) -> None:
        self.matcher, self.children, self.siblings, self.tokens = matcher, children, siblings, tokens
        self.rows, self.temperature_array = rows, temperature_array
        self.deadline = time.monotonic() + seconds if seconds > 0 else None

    def run(self) -> bool:
        """Visit the nodes, and return whether there was time for all. The matcher's state does not change."""
        path = [0]  # the nodes from the root to the current one
        if not self._fill_node_row(0):
            return True
        node = self.children[0]
        while True:
            if node == -1:  # go up, then to the next sibling of the finished node
                finished_node = path.pop()
                if not path:
                    return True
                self.matcher.rollback(1)
                node = self.siblings[finished_node]
            elif self._is_allowed(node, path[-1]):
                if self.deadline is not None and time.monotonic() > self.deadline:
                    self.matcher.rollback(len(path) - 1)
                    return False
                node = self._enter(node, path)
            else:
                self.rows[node] = 0
                node = self.siblings[node]

    def _enter(self, node: int, path: list[int]) -> int:
        """Go down to a node, and return the next node to visit."""
        if not self.matcher.accept_token(self.tokens[node]):
            self.rows[node] = 0
            return self.siblings[node]
        if self._fill_node_row(node):
            path.append(node)
            return self.children[node]
        self.matcher.rollback(1)
        return self.siblings[node]

    def _fill_node_row(self, node: int) -> bool:
        """Fill the row of `node`, which the matcher has accepted. False if the output ends here."""
        if self.matcher.is_terminated():
            self.rows[node] = 0
            return False
        self.matcher._fill_row(self.rows, node)
        if self.temperature_array is not None and (temperature := self.matcher.temperature) is not None:
            self.temperature_array[node] = temperature
        return True

    def _is_allowed(self, node: int, parent: int) -> bool:
        token = self.tokens[node]
        if not 0 <= token < 32 * self.rows.shape[1]:
            return False
        return bool(int(self.rows[parent][token // 32]) >> token % 32 & 1)
