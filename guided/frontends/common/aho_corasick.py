"""Builds automata for free text up to a marker: texts that contain none of the given strings, and texts that end with
the first of them.

    texts = free_text(["<tool>", "<code>"], never=["</answer>"])
    texts.without_markers       # texts that contain none of the three strings
    texts.until(0)              # such a text, then "<tool>"; none of the other strings is complete before it
    texts.dispatch([a, b])      # such a text, "<tool>" and then a, or "<code>" and then b

In: the strings. Out: nodes over code points: regular ones (`Automaton`), or a `Dispatch`.

How: the trie of all strings with failure links (Aho and Corasick, "Efficient string matching", 1975) is a deterministic
automaton whose state is the longest suffix of the text that begins one of the strings. Its transitions, for the markers
"ab" and "b c":

    text            state       a           b           c           ' '         other
    ...             ""          "a"         "b"         ""          ""          ""
    ...a            "a"         "a"         end "ab"    ""          ""          ""
    ...b            "b"         "a"         "b"         ""          "b "        ""
    ...b' '         "b "        "a"         "b"         end "b c"   ""          ""

A marker ends the text as soon as it is complete. Three cases need a rule. If several markers are complete at the same
character, the longest one counts. If one marker extends another, as "<tool>!" extends "<tool>", then "<tool>" may be
followed by its item or by "!"; in the second case, only strings inside "<tool>!" count. A string of `never` that is
complete forbids the text, even if a marker is complete at the same character. So a marker that contains another string
may be unreachable, such as "abc" if "b" is also one of the strings; `unreachable` lists such markers.

Cost: the states are linear in the characters of the strings. Each state has an edge for each character that does not
lead back to the start, and for each range between such characters. `dispatch` is one automaton for all ends; each
`until` is a separate automaton.

Not done: repeating free text. The caller's grammar does that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from guided.errors import LimitExceeded
from guided.ir.nodes import EMPTY, Automaton, Dispatch, Node
from guided.ir.ranges import ALL_CHARS
from guided.limits import Limits

__all__ = ["FreeText", "Trie", "free_text"]

_Edges = tuple[tuple[int, int, int], ...]
_NO_STRING = -1
_FORBIDDEN = -2


@dataclass(frozen=True, slots=True)
class FreeText:
    """The languages that the ends and the forbidden strings define. All nodes except `dispatch` are regular.

    Attributes:
        without_markers: the texts in which no end and no forbidden string occurs.
        unreachable: the indices of the ends that are never reached, because another string is always complete first.
        states: the states of the shared automaton, none of which accepts.
        end_states: for each end, the state in which it is complete; None if the end is unreachable.
    """

    without_markers: Node
    unreachable: tuple[int, ...]
    states: tuple[tuple[bool, _Edges], ...]
    end_states: tuple[int | None, ...]

    def until(self, *ends: int) -> Node:
        """The texts that end with one of these ends, and in which none of the strings is complete earlier."""
        states = [state for end in ends if (state := self.end_states[end]) is not None]
        return _with_accepting_states(self.states, states) if states else EMPTY

    def dispatch(self, items: Sequence[Node]) -> Node:
        """For each end, the texts of `until` followed by its item."""
        pairs = [(state, item) for state, item in zip(self.end_states, items, strict=True) if state is not None]
        return Dispatch(
            Automaton(self.states), tuple([state for state, _ in pairs]), tuple([item for _, item in pairs])
        )


def free_text(ends: Sequence[str], never: Iterable[str] = (), *, limits: Limits | None = None) -> FreeText:
    """Texts without any of these strings, and texts that end with the first of `ends`.

    Args:
        ends: the markers that end a text. Equal markers are allowed, and have equal languages.
        never: strings that must not occur before the end is complete, not even within it.

    Raises:
        LimitExceeded: the automaton has more states than `limits.states`, or more edges than `limits.nodes`.
    """
    limits = Limits() if limits is None else limits
    end_indices = {marker: index for index, marker in reversed(list(enumerate(ends)))}  # the first of equal ends
    layout = _Layout(_MatchingTrie({**end_indices, **dict.fromkeys(never, _FORBIDDEN)}, limits))
    states = tuple([(False, edges) for edges in layout.edges]) or ((False, ()),)
    end_states = tuple([layout.end_states.get(end_indices[marker]) for marker in ends])
    unreachable = tuple([index for index, state in enumerate(end_states) if state is None])
    return FreeText(_with_accepting_states(states, layout.free_states), unreachable, states, end_states)


class Trie:
    """The trie of some texts; node 0 is the empty text. `children`: for each node, symbol -> child."""

    def __init__(self, max_nodes: float = inf) -> None:
        self.children: list[dict[Any, int]] = [{}]
        self._max_nodes = max_nodes

    def add(self, text: Iterable[Any]) -> int:
        """Add a text, and return its node. Raises LimitExceeded if there are more than `max_nodes` nodes."""
        node = 0
        for symbol in text:
            if symbol not in self.children[node]:
                if len(self.children) >= self._max_nodes:
                    raise LimitExceeded("states", len(self.children) + 1, self._max_nodes)
                self.children[node][symbol] = len(self.children)
                self.children.append({})
            node = self.children[node][symbol]
        return node

    def find_suffixes(self) -> tuple[list[int], list[int]]:
        """The nodes, from short to long texts; and for each node, the node of its longest proper suffix in the trie.

        Cost: linear in the lengths of all texts.
        """
        order, suffixes = [0], [0] * len(self.children)
        for node in order:  # grows during the loop
            for symbol, child in self.children[node].items():
                suffix = suffixes[node]
                while suffix and symbol not in self.children[suffix]:
                    suffix = suffixes[suffix]
                suffixes[child] = self.children[suffix].get(symbol, 0) if node else 0
                order.append(child)
        return order, suffixes


class _MatchingTrie(Trie):
    """The trie of the ends and the forbidden strings.

    Attributes:
        strings_at: for each node, the string that ends there: the index of an end, _FORBIDDEN or _NO_STRING.
        matched_nodes: for each node, the node of the longest string that its text ends with, or -1. A forbidden string
            takes precedence.
        steps: for each node, the characters that do not lead back to node 0, and their targets.
    """

    def __init__(self, strings: Mapping[str, int], limits: Limits) -> None:
        super().__init__(limits.states)
        nodes = {self.add(text): number for text, number in strings.items()}
        self.strings_at = [nodes.get(node, _NO_STRING) for node in range(len(self.children))]
        self.matched_nodes = [-1 if string == _NO_STRING else node for node, string in enumerate(self.strings_at)]
        self.steps: list[dict[str, int]] = [{} for _ in self.children]
        edges = 0
        order, suffixes = self.find_suffixes()
        for node in order:
            suffix = suffixes[node]
            self.steps[node] = {**self.steps[suffix], **self.children[node]}
            if self.matched_nodes[node] < 0 or self.is_forbidden(suffix):
                self.matched_nodes[node] = self.matched_nodes[suffix]
            edges += len(self.steps[node])
            if edges > limits.nodes:
                raise LimitExceeded("nodes", edges, limits.nodes)

    def is_forbidden(self, node: int) -> bool:
        """Whether the text of a node ends with a forbidden string."""
        return self.matched_nodes[node] >= 0 and self.strings_at[self.matched_nodes[node]] == _FORBIDDEN


class _Layout:
    """Maps the trie to the reachable states.

    A node has up to two states. The first one is for texts in which nothing was complete before. The second one is for
    texts in which an end is complete: it exists for the node of this end, and for the nodes on the way to longer ends.

    Attributes:
        edges: the edges of each state.
        free_states: the states in which nothing is complete yet.
        end_states: for each end, by its index, the state in which it is complete.
    """

    def __init__(self, trie: _MatchingTrie) -> None:
        self._trie = trie
        self._numbers: dict[tuple[int, bool], int] = {}
        self._order: list[tuple[int, bool]] = []
        self.edges: list[_Edges] = []
        self.free_states: list[int] = []
        self.end_states: dict[int, int] = {}
        if not trie.is_forbidden(0):
            self._intern_state(0, trie.strings_at[0] >= 0)
        for number, (node, is_continuation) in enumerate(self._order):  # grows during the loop
            if not is_continuation:
                self.free_states.append(number)
            elif trie.strings_at[node] >= 0:
                self.end_states[trie.strings_at[node]] = number
            self.edges.append(self._continuation_edges(node) if is_continuation else self._free_edges(node))

    def _intern_state(self, node: int, is_continuation: bool) -> int:
        number = self._numbers.setdefault((node, is_continuation), len(self._order))
        if number == len(self._order):
            self._order.append((node, is_continuation))
        return number

    def _free_edges(self, node: int) -> _Edges:
        """The edges of a first state: every character leads to a state, unless it completes a forbidden string."""
        trie, edges = self._trie, list[tuple[int, int, int]]()
        steps = sorted((ord(char), to) for char, to in trie.steps[node].items())
        for low, high in ALL_CHARS:
            for code, to in steps:
                if low <= code <= high:
                    if low < code:
                        edges.append((low, code - 1, 0))
                    if not trie.is_forbidden(to):
                        completes = trie.matched_nodes[to] >= 0
                        edges.append(
                            (code, code, self._intern_state(trie.matched_nodes[to] if completes else to, completes))
                        )
                    low = code + 1
            if low <= high:
                edges.append((low, high, 0))
        return tuple(edges)

    def _continuation_edges(self, node: int) -> _Edges:
        """The edges of a second state: to a longer end, unless another string inside it is complete earlier."""
        children = sorted(self._trie.children[node].items())
        continuations = [
            (ord(char), child) for char, child in children if self._trie.matched_nodes[child] in (-1, child)
        ]
        return tuple(
            [
                (code, code, self._intern_state(child, True))
                for code, child in continuations
                if self._trie.strings_at[child] != _FORBIDDEN
            ]
        )


def _with_accepting_states(states: Sequence[tuple[bool, _Edges]], accepting: Iterable[int]) -> Automaton:
    """The automaton in which only these states accept. All other states remain the same objects."""
    new_states = list(states)
    for number in accepting:
        new_states[number] = (True, states[number][1])
    return Automaton(tuple(new_states))
