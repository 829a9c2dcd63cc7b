"""The language of an IR grammar, byte by byte: what a constraint means, written to be believed rather than to be fast.

In: a `Grammar` and the bytes that can be written. Out: states. A state is the future: equal futures that are found
equal are one object, `step` and `special` lead from one to the next, None where no completion is left.

Algorithm: Earley's (CACM 13(2), 1970) with Aycock and Horspool's treatment of empty rules (The Computer Journal 45(6),
2002). An item is what is left of a rule, its *return*: what its callers do afterwards, and its *memory*: the values
that were written where values must differ (`reference_memory.py`). Earley writes the column where the rule began; the
return is the part of that column which can matter, so that states meet again. Every call that may be empty is also
skipped, hence a call that consumed nothing has nothing to report. Left recursion, hidden or not, cyclic rules and empty
rules need no special case: a return may lead back to itself. A callee goes on with the memory of its caller and comes
back with its own, so the calls of one rule with two memories are two calls.

Only *productive* terms enter a state (`reference_terms.py`: some text or control tokens can be written), so a state
exists exactly where some completion does. Where values must differ, that is not enough: it may be that only values are
left that were there. Then a state is kept if a search for a completion finds one, `MAX_AHEAD` states wide at most.

Cost: a step is linear in the items of the state; states, returns and derivatives are kept, `MAX_STATES` at most. With
`Distinct`, each step may search.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from guided.automaton.reference_memory import NOTHING, Mark, Memory, Open, read, take
from guided.automaton.reference_regular import MAX_STATES, Run
from guided.automaton.reference_terms import Rest, Terms
from guided.errors import LimitExceeded, SpecError
from guided.grammar.ir import Grammar, Node, Ref, Repeat, Special

__all__ = ["Language", "State", "accepts", "viable"]

ALL_BYTES = frozenset(range(256))

MAX_AHEAD = 5_000
"""States that one search for a completion looks at."""


Call: TypeAlias = tuple[Node, Memory]
"""A rule or an item that is called, and what is remembered where it begins."""


class Return:
    """What is done when a call ends: the calls of `callee` among `calls`. Compared by identity.

    `calls` are the calls at one place: callee -> (what follows the call, the return of the caller). A caller that is
    itself called at that place stands there by its name: that is how left recursion leads back. `size` is a guess at
    how much there is to do.
    """

    def __init__(self, callee: Call | None, calls: Calls, size: int = 0) -> None:
        self.callee, self.calls, self.size = callee, calls, size
        self.resumed: frozenset[tuple[Rest, Return]] | None = None


Owner: TypeAlias = Return | Call | None
Calls: TypeAlias = Mapping[Call | None, Collection[tuple[Rest, Owner]]]
Item: TypeAlias = tuple[Rest, Return, Memory]
_END = Return(None, {})


class State:
    """A set of items that wait for a byte or a control token. Compared by identity: equal sets are one object.

    `viable`: whether some completion exists; None: not asked yet.
    """

    def __init__(self, items: frozenset[Item], accepting: bool, viable: bool | None = True) -> None:
        self.items, self.accepting, self.viable = items, accepting, viable
        self.steps: dict[int, State | None] = {}


class Language:
    """The states of one grammar. `live` are the bytes that can be written."""

    def __init__(self, grammar: Grammar, live: frozenset[int] = ALL_BYTES) -> None:
        if grammar.start not in grammar.rules:
            raise SpecError(f"there is no rule {grammar.start!r} to start from")
        self._terms, self._live = Terms(grammar, live), live
        self._returns: dict[object, Return] = {}
        self._states: dict[object, State] = {}
        self.control_tokens = self._terms.control_tokens
        """The control tokens that the grammar names."""
        self.start = self._if_viable(self._close([((Ref(grammar.start),), _END, NOTHING)]))
        """The state before the first byte; None: the language is empty."""

    # ---- stepping

    def step(self, state: State, byte: int) -> State | None:
        """The state after `byte`."""
        return self._if_viable(self._step(state, byte))

    def special(self, state: State, names: Collection[int | str]) -> State | None:
        """The state after a control token that goes by any of `names`. It is no part of an entry's text."""
        return self._if_viable(self._special(state, names))

    def either(self, a: State | None, b: State | None) -> State | None:
        """The state that allows what one of the two does."""
        if a is None or b is None:
            return b if a is None else a
        return self._if_viable(self._state(a.items | b.items, a.accepting or b.accepting))

    def _step(self, state: State, byte: int) -> State | None:
        if byte not in self._live:
            return None
        if byte not in state.steps:
            state.steps[byte] = self._close(
                ((run, *rest[1:]), back, read(memory, byte))
                for rest, back, memory in state.items
                if isinstance(rest[0], Run)
                for run in rest[0].after(byte)
            )
        return state.steps[byte]

    def _special(self, state: State, names: Collection[int | str]) -> State | None:
        return self._close(
            (rest[1:], back, memory)
            for rest, back, memory in state.items
            if isinstance(rest[0], Special) and rest[0].token in names
        )

    def _close(self, kernel: Iterable[Item]) -> State | None:
        """The state of these items and of all that they call, or None if none of them can be finished."""
        todo: list[tuple[Rest, Owner, Memory]] = list(kernel)
        seen: set[tuple[Rest, Owner, Memory]] = set()
        calls: dict[Call | None, set[tuple[Rest, Owner]]] = {}
        waiting: list[tuple[Rest, Owner, Memory]] = []
        accepting = False
        while todo:
            item = todo.pop()
            rest, owner, memory = item
            if item in seen or not all(self._terms.productive(term) for term in rest):
                continue
            seen.add(item)
            if not rest:  # The end of a call. One that began here consumed nothing: its caller has gone on already.
                accepting |= owner is _END
                if isinstance(owner, Return):
                    todo.extend((after, back, memory) for after, back in self._resume(owner))
                continue
            head, tail = rest[0], rest[1:]
            if isinstance(head, Run):
                todo.extend([(tail, owner, memory)] if head.may_stop else [])
                waiting.extend([item] if head.may_go_on else [])
            elif isinstance(head, Special):
                waiting.append(item)
            elif isinstance(head, Mark | Open):
                marked = take(memory, head)
                todo.extend([(tail, owner, marked)] if marked is not None else [])
            elif isinstance(head, Ref | Repeat):
                todo.extend([(tail, owner, memory)] if self._terms.nullable(head) else [])
                for callee, after in self._call(head):
                    call = (callee, memory)
                    if call not in calls:
                        body = self._terms.rules[callee.name] if isinstance(callee, Ref) else callee
                        calls[call] = set()
                        todo.append(((body,), call, memory))
                    calls[call].add((after + tail, owner))
            else:
                todo.extend((first + tail, owner, memory) for first in self._terms.expand(head))
        items = {
            (rest, owner if isinstance(owner, Return) else self._return(owner, calls), memory)
            for rest, owner, memory in waiting
        }
        return self._state(frozenset(items), accepting) if items or accepting else None

    def _state(self, items: frozenset[Item], accepting: bool) -> State:
        if len(self._states) > MAX_STATES:
            raise LimitExceeded("states", len(self._states), MAX_STATES, fixed=True)
        viable = True if accepting or not self._terms.remember else None
        return self._states.setdefault((items, accepting), State(items, accepting, viable))

    def _call(self, head: Ref | Repeat) -> Iterator[tuple[Node, Rest]]:
        """What `head` calls, and what is left of it afterwards."""
        if isinstance(head, Ref):
            if self._terms.productive(head):
                yield head, ()
        elif head.max != 0 and self._terms.productive(head.item):
            # Where the item may be empty, so may the rest: iterations that consume nothing need no call.
            high = None if head.max is None else head.max - 1
            yield head.item, (Repeat(head.item, max(head.min - 1, 0), high),)

    # ---- completions

    def _if_viable(self, state: State | None) -> State | None:
        if state is not None and state.viable is None:
            self._search(state)
        return state if state is not None and state.viable else None

    def _search(self, start: State) -> None:
        """Finds out whether some completion exists. What looks near the end is tried first; the answer is the same."""
        before: dict[State, State | None] = {start: None}
        todo = [(self._size(start), 0, start)]
        while todo:
            at = heapq.heappop(todo)[2]
            ways = [self._step(at, byte) for byte in self._live]
            ways += [self._special(at, {name}) for name in self.control_tokens]
            for after in dict.fromkeys(ways):
                if after is None or after.viable is False or after in before:
                    continue
                before[after] = at
                if after.viable:
                    on_the_way: State | None = after
                    while on_the_way is not None:
                        on_the_way.viable, on_the_way = True, before[on_the_way]
                    return
                if len(before) > MAX_AHEAD:
                    raise LimitExceeded("states", len(before), MAX_AHEAD, fixed=True)
                heapq.heappush(todo, (self._size(after), len(before), after))
        for state in before:  # there is nowhere else to go from them
            state.viable = False

    def _size(self, state: State) -> int:
        return min(sum(map(self._terms.size, rest)) + back.size for rest, back, _ in state.items)

    # ---- returns

    def _return(self, callee: Call | None, calls: Calls) -> Return:
        """The return of a call of `callee`, with no more of `calls` than it can come to."""
        reached: dict[Call | None, frozenset[tuple[Rest, Owner]]] = {}
        todo = [callee]
        while todo:
            name = todo.pop()
            if name not in reached:
                reached[name] = frozenset(self._resumptions(name, calls))
                todo.extend(owner for _, owner in reached[name] if not isinstance(owner, Return))
        if all(isinstance(owner, Return) for _, owner in reached[callee]):  # then the name does not matter
            callee, reached = None, {None: reached[callee]}
        key = (callee, frozenset(reached.items()))
        if key not in self._returns:
            self._returns[key] = Return(callee, reached, self._least(reached)[callee])
        return self._returns[key]

    def _least(self, calls: Calls) -> dict[Call | None, int]:
        """A guess at how much there is to do after each callee, at least."""
        least = dict.fromkeys(calls, len(calls) * MAX_AHEAD)
        for _ in calls:
            for name, ways in calls.items():
                for rest, owner in ways:
                    after = owner.size if isinstance(owner, Return) else least[owner]
                    least[name] = min(least[name], after + sum(map(self._terms.size, rest)))
        return least

    def _resumptions(self, callee: Call | None, calls: Calls) -> Iterator[tuple[Rest, Owner]]:
        """What goes on after `callee`. A caller with nothing left to do is replaced by what goes on after it."""
        todo, seen = [callee], {callee}
        while todo:
            for rest, owner in calls[todo.pop()]:
                if rest or owner is _END:
                    yield rest, owner
                elif isinstance(owner, Return):
                    yield from self._resume(owner)
                elif owner not in seen:
                    seen.add(owner)
                    todo.append(owner)

    def _resume(self, back: Return) -> frozenset[tuple[Rest, Return]]:
        """What a return leads to; nothing after the end."""
        if back.resumed is None:
            back.resumed = frozenset(
                (rest, owner if isinstance(owner, Return) else self._return(owner, back.calls))
                for rest, owner in back.calls.get(back.callee, ())
            )
        return back.resumed


def _after(grammar: Grammar, data: bytes) -> State | None:
    language = Language(grammar)
    state = language.start
    for byte in data:
        if state is None:
            break
        state = language.step(state, byte)
    return state


def accepts(grammar: Grammar, data: bytes) -> bool:
    """Whether `data` is in the language of `grammar`. Control tokens are no part of any `data`."""
    state = _after(grammar, data)
    return state is not None and state.accepting


def viable(grammar: Grammar, data: bytes) -> bool:
    """Whether `data` begins some output of `grammar`; control tokens may be needed after it."""
    return _after(grammar, data) is not None
