"""Which terminals must not run over which lazy terminals. In: rules, and the names of lazy terminals. Out: positions of
terminals in the rules, and the lazy terminals that each must not run over.

    start: (call | TEXT)*        TEXT: /(.|\\n)*/
    call: head "(" ")"           head[lazy]: TEXT "<call"

A lazy terminal ends at its first match. Wherever it can be tried, the text up to that point belongs to it: no other
terminal may take this text and continue. So the first TEXT above contains no `<call`, although its pattern allows it,
and `<call` is followed by `(`. Two lazy terminals may match the same text.

How: terminals compete if one state of the LR(0) automaton has items before both. Rules that may be empty are skipped
over.
Source: llguidance, docs/syntax.md, "Lazy lexemes" and "Tool calling".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .lalr import FIRST, ROOT, Place, Rules, kernels, nullable

__all__ = ["kept_from"]


def kept_from(rules: Rules, start: str, lazy: frozenset[str]) -> Mapping[Place, frozenset[str]]:
    """See the module docstring. Each place is an item before a terminal.

    If the automaton is too large, no terminal may run over any lazy one.
    """
    if not lazy:
        return {}
    rooted = {ROOT: [[(start, False)]], **rules}
    out: dict[Place, set[str]] = {}
    found = kernels(rules, start)
    if found is None:
        found = [frozenset(Place(name, at, 0) for name, each in rooted.items() for at in range(len(each)))]
    empty = nullable(rooted)
    for kernel in found:
        places = {place: _symbol(rooted, place) for place in _terminals_before(rooted, kernel, empty)}
        competing = lazy & set(places.values())
        for place, name in places.items():
            if competing - {name}:
                out.setdefault(place, set()).update(competing - {name})
    return {place: frozenset(names) for place, names in out.items()}


def _symbol(rules: Rules, place: Place) -> str:
    return rules[place.rule][place.alternative][place.read][0]


def _terminals_before(rules: Rules, kernel: frozenset[Place], empty: set[str]) -> Iterator[Place]:
    """The items before terminals that a parser reaches without reading anything."""
    todo = list(kernel or {FIRST})
    seen: set[str] = set()
    for place in todo:  # grows while it is read
        symbols = rules[place.rule][place.alternative]
        for read in range(place.read, len(symbols)):
            name, is_terminal = symbols[read]
            if is_terminal:
                yield Place(place.rule, place.alternative, read)
                break
            if name not in seen:
                seen.add(name)
                todo += [Place(name, number, 0) for number in range(len(rules[name]))]
            if name not in empty:
                break
