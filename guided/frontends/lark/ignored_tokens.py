"""Allows ignored texts before terminals. In: the ignored terminals. Out: for a terminal's rule, a node that begins with
an optional gap.

Problem: in Lark, an ignored terminal takes its longest match, even with "scannerless" semantics. So in

    start: WORD*        WORD: /[a-z]+/        %ignore /#.*/        input: #a b

everything is a comment. The comment cannot end before the b and leave it as a WORD.

How: a gap is a sequence of ignored texts. What follows a gap must not extend the match of its last ignored text. The
state in which the automaton of the ignored terminal ends determines which continuations would do so. Gaps are
classified by these continuations, and each class has a rule. A terminal or ignored text may follow a gap only if it
does not begin with a continuation of the gap's class. If a terminal may end before this is decided, the grammar is not
supported.

Cost: each terminal is determinised, and compared with each state in which an ignored text may either end or continue.
The copies of states count as work, because `/#a{1,n}/` has n classes of n states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from guided.errors import UnsupportedError
from guided.frontends.common.regular_texts import TextAutomaton
from guided.frontends.common.rule_table import RuleTable
from guided.frontends.lark.dialect.expressions import determinise
from guided.frontends.lark.terminal_texts import find_common_edges
from guided.frontends.regex.algebra import ANY_TEXT, conj, negate, seq
from guided.ir.nodes import EPSILON, Alt, Automaton, MaxTokens, Node, Ref, Region, Repeat, Seq
from guided.meter import spend

__all__ = ["IgnoredTokens"]

_States: TypeAlias = tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...]
_WORK_PER_STATE: Final = 50  # each class of gaps has its own copy of the states


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some texts of the ignored terminal `rule`. `continuations`: the texts that would extend a match of them, or None
    if there are none. `is_live`: whether a state of `continuations` other than its start leads to a text.
    """

    rule: str
    texts: Node
    continuations: Automaton | None
    is_live: Callable[[int], bool]


class IgnoredTokens:
    """The gaps of a grammar. Their rules are added to its table.

    `ignored`: rule name -> node, for each part of the grammar that is ignored. The node is None if the part is not a
        terminal, such as an embedded schema.
    `is_single`: a gap is one ignored text. `as_regions`: gaps are regions, so that a capture does not include the gap
    at its end.

    Raises:
        UnsupportedError: an ignored match may extend past the end of the ignored text that follows it.
    """

    def __init__(
        self, table: RuleTable, ignored: Mapping[str, Node | None], is_single: bool, as_regions: bool = False
    ) -> None:
        self._table = table
        pieces = [piece for rule, node in ignored.items() for piece in _make_pieces(rule, node)]
        self._gaps = [
            (table.define("gap", table.origins.get(piece.rule, piece.rule), piece.texts), piece) for piece in pieces
        ]
        for name, piece in () if is_single else self._gaps:
            table.rules[name] = self._add_gaps(piece.texts, piece.rule, piece.texts)
        if as_regions:
            self._gaps = [
                (table.define("ignored", table.origins[name], Ref(name)), piece) for name, piece in self._gaps
            ]
            table.regions |= {name: Region(ignored=True) for name, _ in self._gaps}
        self._nodes_by_terminal: dict[tuple[str, int | None], Node] = {}

    def add_gap_before(self, rule: str, max_tokens: int | None = None) -> Node:
        """A node for an optional gap followed by the terminal `rule`. `max_tokens` limits the tokens of the terminal.

        Raises:
            UnsupportedError: an ignored match may extend past the end of the terminal.
        """
        key = rule, max_tokens
        if key not in self._nodes_by_terminal:
            self._nodes_by_terminal[key] = self._add_gaps(self._table.rules[rule], rule, Ref(rule), max_tokens)
        return self._nodes_by_terminal[key]

    def make_optional_gap(self) -> Node:
        """An optional gap, for the end of the text and for parts that are not terminals."""
        return Repeat(_unite([Ref(name) for name, _ in self._gaps]), 0, 1) if self._gaps else EPSILON

    def _add_gaps(self, node: Node, rule: str, reference: Node, max_tokens: int | None = None) -> Node:
        """A node for an optional gap followed by `node`. `reference`: a short node with the same texts, used after gaps
        that exclude none of these texts, and without a gap."""
        free_gaps: list[Node] = []  # gaps that all texts of the node may follow
        restricted_branches: list[Node] = []
        for name, piece in self._gaps:
            texts = node if piece.continuations is None else _exclude_extensions(node, rule, piece)
            if texts is node:
                free_gaps.append(Ref(name))
            elif texts is not None:
                restricted_branches.append(Seq((Ref(name), _limit_tokens(texts, max_tokens))))
        item = _limit_tokens(reference, max_tokens)
        return _unite([Seq((Repeat(_unite(free_gaps), 0, 1), item)) if free_gaps else item, *restricted_branches])


def _make_pieces(rule: str, node: Node | None) -> list[_Piece]:
    if node is None:
        return [_Piece(rule, Ref(rule), None, lambda _: True)]
    automaton = determinise(node, rule)
    start = (False, automaton.states[automaton.start][1])  # a start state that does not accept the empty string
    states: _States = (*automaton.states, start)
    is_live = TextAutomaton(Automaton(states)).is_live
    ends: dict[tuple[tuple[int, int, int], ...], set[int]] = {}
    for number, (accepts, edges) in enumerate(states):
        if accepts:
            ends.setdefault(tuple(edge for edge in edges if is_live(edge[2])), set()).add(number)
    out = []
    for edges, numbers in ends.items():
        spend(_WORK_PER_STATE * len(states))
        texts = Automaton(
            tuple((number in numbers, out_edges) for number, (_, out_edges) in enumerate(states)), len(states) - 1
        )
        continuations = Automaton((*states, (False, edges)), len(states)) if edges else None
        out.append(_Piece(rule, texts, continuations, is_live))
    return out


def _exclude_extensions(node: Node, rule: str, piece: _Piece) -> Node | None:
    """The texts of a node that do not extend the ignored match: the node itself if none does, None if all do."""
    continuations = piece.continuations
    assert continuations is not None
    automaton, extends_match = determinise(node, rule), False
    todo = [(automaton.start, continuations.start)]
    seen = set(todo)
    for state, other_state in todo:  # grows during the loop
        edges, other_edges = automaton.states[state][1], continuations.states[other_state][1]
        spend(1 + len(edges) + len(other_edges))
        for _, (target, other_target) in find_common_edges(edges, other_edges):
            if not piece.is_live(other_target):
                continue
            if continuations.states[other_target][0]:
                extends_match = True
            elif automaton.states[target][0]:
                reason = f"a match of {piece.rule}, which is ignored, may extend past the end of {rule} after it"
                hint = "ignore only texts whose end the next character determines, or read the text with a lexer"
                raise UnsupportedError(reason, hint=hint)
            elif (target, other_target) not in seen:
                seen.add((target, other_target))
                todo.append((target, other_target))
    if not extends_match:
        return node
    result = determinise(conj(automaton, negate(seq([continuations, ANY_TEXT]))), rule)
    return result if any(accepts for accepts, _ in result.states) else None


def _limit_tokens(node: Node, max_tokens: int | None) -> Node:
    return node if max_tokens is None else MaxTokens(node, max_tokens)


def _unite(nodes: list[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Alt(tuple(nodes))
