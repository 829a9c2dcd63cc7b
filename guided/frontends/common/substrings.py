"""An automaton of the texts that consist of consecutive pieces of a list. In: the pieces. Out: a node of the IR.

How: the suffix automaton whose letters are the pieces accepts exactly the sequences of consecutive pieces, and has at
most two states for each piece (Blumer et al., "The smallest automaton recognizing the subwords of a text", 1985). Then
each letter is spelled out in characters. A piece may be a prefix of another one, so the result is made deterministic.

Cost: linear in the length of the pieces, if no piece is a prefix of another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from guided.errors import LimitExceeded
from guided.ir.nodes import Automaton
from guided.limits import Limits

__all__ = ["substring_automaton"]


def substring_automaton(texts: Iterable[str], limits: Limits) -> Automaton:
    """The automaton of these pieces. Empty pieces are ignored. Raises LimitExceeded if they are too long."""
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
    last = 0
    for letter in letters:
        new = len(edges)
        edges.append({})
        link.append(0)
        length.append(length[last] + 1)
        at = last
        while at >= 0 and letter not in edges[at]:
            edges[at][letter] = new
            at = link[at]
        if at >= 0:
            to = edges[at][letter]
            if length[to] == length[at] + 1:
                link[new] = to
            else:
                copy = len(edges)
                edges.append(dict(edges[to]))
                link.append(link[to])
                length.append(length[at] + 1)
                while at >= 0 and edges[at].get(letter) == to:
                    edges[at][letter] = copy
                    at = link[at]
                link[to] = link[new] = copy
        last = new
    return edges


def _spell_out(edges: list[dict[int, int]], pieces: list[str], limits: Limits) -> Automaton:
    """The automaton over characters. A state is a set of (state, piece, number of its characters that have been read);
    the piece is -1 between two pieces.
    """
    border = frozenset({(0, -1, 0)})
    numbers: dict[frozenset[tuple[int, int, int]], int] = {border: 0}
    sets = [border]
    out: list[tuple[bool, tuple[tuple[int, int, int], ...]]] = []
    for members in sets:  # grows during the loop
        following: dict[int, set[tuple[int, int, int]]] = {}
        for state, piece, read in members:
            started = ((piece, read),) if piece >= 0 else tuple((each, 0) for each in edges[state])
            for each, at in started:
                is_complete = at + 1 == len(pieces[each])
                to = (edges[state][each], -1, 0) if is_complete else (state, each, at + 1)
                following.setdefault(ord(pieces[each][at]), set()).add(to)
        row = []
        for code in sorted(following):
            target = frozenset(following[code])
            if target not in numbers:
                if len(sets) > limits.nodes:
                    raise LimitExceeded("nodes", len(sets), limits.nodes)
                numbers[target] = len(sets)
                sets.append(target)
            row.append((code, code, numbers[target]))
        out.append((any(piece < 0 for _, piece, _ in members), tuple(row)))
    return Automaton(tuple(out))
