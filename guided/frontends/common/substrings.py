"""An automaton for the texts that consist of consecutive pieces of a list. In: the pieces. Out: a node of the IR.

How: the suffix automaton whose letters are the pieces accepts exactly the sequences of consecutive pieces, and has at
most two states for each piece (Blumer et al., "The smallest automaton recognizing the subwords of a text", 1985). Then
each letter is spelled out in characters. A piece may be a prefix of another one, so the result is made deterministic.

Cost: for each state of the suffix automaton, the length of the pieces that may follow it, if no piece is a prefix of
another one. `Limits.nodes` bounds the states, and `Limits.seconds` the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from guided.errors import LimitExceeded
from guided.ir.nodes import Automaton
from guided.limits import Limits
from guided.meter import spend

__all__ = ["substring_automaton"]


def substring_automaton(texts: Iterable[str], limits: Limits) -> Automaton:
    """The automaton of the pieces `texts`. Empty pieces are ignored. Raises LimitExceeded if it becomes too large."""
    pieces = [piece for piece in texts if piece]
    size = sum(map(len, pieces))
    if 2 * size > limits.nodes:
        raise LimitExceeded("nodes", 2 * size, limits.nodes)
    numbers = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    return _spell_out(_suffix_automaton([numbers[piece] for piece in pieces]), list(numbers), limits)


def _suffix_automaton(letters: Sequence[int]) -> list[dict[int, int]]:
    """The edges of each state. State 0 is the start, and all states accept."""
    edges: list[dict[int, int]] = [{}]
    link, length = [-1], [0]
    last_state = 0
    for letter in letters:
        new_state = len(edges)
        edges.append({})
        link.append(0)
        length.append(length[last_state] + 1)
        state = last_state
        while state >= 0 and letter not in edges[state]:
            edges[state][letter] = new_state
            state = link[state]
        if state >= 0:
            target = edges[state][letter]
            if length[target] == length[state] + 1:
                link[new_state] = target
            else:
                clone = len(edges)
                spend(len(edges[target]))
                edges.append(dict(edges[target]))
                link.append(link[target])
                length.append(length[state] + 1)
                while state >= 0 and edges[state].get(letter) == target:
                    edges[state][letter] = clone
                    state = link[state]
                link[target] = link[new_state] = clone
        last_state = new_state
    return edges


def _spell_out(edges: list[dict[int, int]], pieces: list[str], limits: Limits) -> Automaton:
    """The automaton over characters. Each of its states is a set of triples: a state of the suffix automaton, a piece,
    and the number of characters read of the piece. Between two pieces, the piece is -1.
    """
    start_set = frozenset({(0, -1, 0)})
    numbers: dict[frozenset[tuple[int, int, int]], int] = {start_set: 0}
    state_sets = [start_set]
    out: list[tuple[bool, tuple[tuple[int, int, int], ...]]] = []
    for members in state_sets:  # grows during the loop
        spend(len(members))
        successors: dict[int, set[tuple[int, int, int]]] = {}
        for state, piece, offset in members:
            open_pieces = ((piece, offset),) if piece >= 0 else tuple((each, 0) for each in edges[state])
            for each, next_offset in open_pieces:
                is_complete = next_offset + 1 == len(pieces[each])
                to = (edges[state][each], -1, 0) if is_complete else (state, each, next_offset + 1)
                successors.setdefault(ord(pieces[each][next_offset]), set()).add(to)
        row = []
        for code in sorted(successors):
            target = frozenset(successors[code])
            if target not in numbers:
                if len(state_sets) > limits.nodes:
                    raise LimitExceeded("nodes", len(state_sets), limits.nodes)
                numbers[target] = len(state_sets)
                state_sets.append(target)
            row.append((code, code, numbers[target]))
        out.append((any(piece < 0 for _, piece, _ in members), tuple(row)))
    return Automaton(tuple(out))
