"""The language of an IR grammar, read byte by byte: an Earley parser that is written to be correct, not to be fast.

In: a `Grammar` and the live bytes, those that occur in some token. Out: states. `step` and `special` lead from one
state to the next, or to None if no output continues in this way. States with equal sets of items are one object.

How: Earley's algorithm (CACM 13(2), 1970), with empty rules treated as by Aycock and Horspool (The Computer Journal
45(6), 2002): a call of a nullable rule is also skipped, so a call that consumes nothing need not be completed. An item
has three parts:

- the terms of a rule that are still to be read (the part after the dot);
- its *return*: the continuation of its callers. Earley stores the column in which the rule began instead. The return is
  the part of that column that can still matter. It does not depend on how much has been read, so the same state can
  occur again later in the text;
- the open uniqueness scopes with the values seen in them (`uniqueness.py`). A callee starts with the scopes of its
  caller and returns its own, so calls of one rule with different scopes are different calls.

Example: `list -> "x" | list "," "x"`. The start state has the items ["x"] and ["," "x"] waiting for a call of `list` to
end. `list` itself makes that call, so its return leads back to itself; after `x,x` the parser is in the same state as
after `x`. So left recursion (hidden or not), cyclic rules and empty rules need no special case.

Only *productive* terms enter a state (`terms.py`), so a state exists exactly if some completion does. If values must
differ, that is not enough: all remaining values may have been seen. Then a state is kept only if a search over at most
`MAX_AHEAD` states finds a completion.

Cost: a step is linear in the items of the state. States, returns and derivatives are memoised, at most `MAX_STATES` of
them. With `Distinct`, each step may search.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from guided.automaton.reference.limits import Limited, fewest_tokens
from guided.automaton.reference.regular import MAX_STATES, Run
from guided.automaton.reference.terms import Rest, Terms
from guided.automaton.reference.uniqueness import NO_SCOPES, Mark, Open, Scopes, apply_mark, read_byte
from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.ir.nodes import Grammar, Node, Ref, Repeat, Special
from guided.meter import spend

__all__ = ["Item", "Language", "State", "accepts", "viable"]

ALL_BYTES = frozenset(range(256))

MAX_AHEAD = 5_000
"""The most states that one search for a completion visits; beyond it `LimitExceeded` is raised."""


Call: TypeAlias = tuple[Node, Scopes]
"""A rule, or the item of a repetition, that is called, with the open scopes at its start."""


class Return:
    """The continuation of a call of `callee`: the terms that the parser reads when the call ends. Compared by identity.

    `calls` are calls that began at one position in the text: callee -> {(terms after the call, owner of the caller)}.
    The owner is the caller's return, or, if the caller was itself called at this position, its `Call`, to be looked up
    in `calls` again. Left recursion is a cycle of such look-ups. `size` estimates the length of the shortest
    completion.
    """

    def __init__(self, callee: Call | None, calls: Calls, size: int = 0) -> None:
        self.callee, self.calls, self.size = callee, calls, size
        self.resumed: frozenset[tuple[Rest, Return]] | None = None


Owner: TypeAlias = Return | Call | None
Calls: TypeAlias = Mapping[Call | None, Collection[tuple[Rest, Owner]]]
Item: TypeAlias = tuple[Rest, Return, Scopes]
_END = Return(None, {})


class State:
    """A set of items that wait for a byte or a control token. Compared by identity: equal sets are one object.

    `viable` says whether some completion exists; None means unknown.
    """

    def __init__(self, items: frozenset[Item], accepting: bool, viable: bool | None = True) -> None:
        self.items, self.accepting, self.viable = items, accepting, viable
        self.steps: dict[int, State | None] = {}


class Language:
    """The states of one grammar. `live` are the bytes that occur in some token."""

    def __init__(self, grammar: Grammar, live: frozenset[int] = ALL_BYTES) -> None:
        if grammar.start not in grammar.rules:
            raise SpecError(f"there is no rule {grammar.start!r} to start from")
        self._terms, self._live = Terms(grammar, live), live
        self._returns: dict[object, Return] = {}
        self._states: dict[object, State] = {}
        self.control_tokens = self._terms.control_tokens
        """The control tokens that the grammar names."""
        self.limits = self._terms.limits
        """The token limits that some output meets."""
        self.start = self._if_viable(self._close([((Ref(grammar.start),), _END, NO_SCOPES)]))
        """The state before the first byte, or None if the language is empty."""
        self.begin = self.start

    # ---- stepping

    def step(self, state: State, byte: int) -> State | None:
        """The state after `byte`, or None if no output continues with it."""
        return self._if_viable(self._step(state, byte))

    def special(self, state: State, names: Collection[int | str]) -> State | None:
        """The state after a control token with any of `names`, or None. Its name is not part of an entry's text."""
        return self._if_viable(self._special(state, names))

    def either(self, a: State | None, b: State | None) -> State | None:
        """The union: the state that allows everything that `a` or `b` allows."""
        if a is None or b is None:
            return b if a is None else a
        return self._if_viable(self._state(a.items | b.items, a.accepting or b.accepting))

    def after_token(self, state: State, texts: Collection[bytes]) -> State | None:
        """The state after a token ends here. `texts`: the texts of all tokens; see `limits.py`."""
        items: set[Item] = set()
        for rest, back, scopes in state.items:
            head = rest[0].after_token(texts) if isinstance(rest[0], Limited) else rest[0]
            if head is not None:
                items.add(((head, *rest[1:]), back, scopes))
        return self._if_viable(self._state(frozenset(items), state.accepting)) if items or state.accepting else None

    def check_limits(self, texts: Collection[bytes]) -> None:
        """Raise `UnsupportedError` if some text does not fit into its token limit."""
        for node in self.limits:
            run = self._terms.run(node.item)
            needed = fewest_tokens(run, texts) if run.may_go_on else 0
            if needed is None or needed > node.max > 0:
                raise UnsupportedError(f"the shortest text takes {needed} tokens, and max_tokens is {node.max}")

    def _step(self, state: State, byte: int) -> State | None:
        if byte not in self._live:
            return None
        if byte not in state.steps:
            state.steps[byte] = self._close(
                ((run, *rest[1:]), back, read_byte(scopes, byte))
                for rest, back, scopes in state.items
                if isinstance(rest[0], Run | Limited)
                for run in rest[0].after(byte)
            )
        return state.steps[byte]

    def _special(self, state: State, names: Collection[int | str]) -> State | None:
        return self._close(
            (rest[1:], back, scopes)
            for rest, back, scopes in state.items
            if isinstance(rest[0], Special) and rest[0].token in names
        )

    def _close(self, kernel: Iterable[Item]) -> State | None:
        """The state of these items and all that they predict and complete, or None if no item can be completed.

        This is Earley's predictor and completer. Calls that begin here have no return yet: their owner is the call
        itself, until all callers are known.
        """
        todo: list[tuple[Rest, Owner, Scopes]] = list(kernel)
        seen: set[tuple[Rest, Owner, Scopes]] = set()
        calls: dict[Call | None, set[tuple[Rest, Owner]]] = {}
        waiting: list[tuple[Rest, Owner, Scopes]] = []
        accepting = False
        while todo:
            spend()
            item = todo.pop()
            rest, owner, scopes = item
            if item in seen or not all(self._terms.productive(term) for term in rest):
                continue
            seen.add(item)
            if not rest:  # The end of a call. If the call began here, it consumed nothing, and was skipped already.
                accepting |= owner is _END
                if isinstance(owner, Return):
                    todo.extend((after, back, scopes) for after, back in self.resumed(owner))
                continue
            head, tail = rest[0], rest[1:]
            if isinstance(head, Run | Limited):
                todo.extend([(tail, owner, scopes)] if head.may_stop else [])
                waiting.extend([item] if head.may_go_on else [])
            elif isinstance(head, Special):
                waiting.append(item)
            elif isinstance(head, Mark | Open):
                marked = apply_mark(scopes, head)
                todo.extend([(tail, owner, marked)] if marked is not None else [])
            elif isinstance(head, Ref | Repeat):
                todo.extend([(tail, owner, scopes)] if self._terms.nullable(head) else [])
                for callee, after in self._call(head):
                    call = (callee, scopes)
                    if call not in calls:
                        body = self._terms.rules[callee.name] if isinstance(callee, Ref) else callee
                        calls[call] = set()
                        todo.append(((body,), call, scopes))
                    calls[call].add((after + tail, owner))
            else:
                todo.extend((first + tail, owner, scopes) for first in self._terms.expand(head))
        items = {
            (rest, owner if isinstance(owner, Return) else self._return(owner, calls), scopes)
            for rest, owner, scopes in waiting
        }
        return self._state(frozenset(items), accepting) if items or accepting else None

    def _state(self, items: frozenset[Item], accepting: bool) -> State:
        if len(self._states) > MAX_STATES:
            raise LimitExceeded("states", len(self._states), MAX_STATES, fixed=True)
        viable = True if accepting or not self._terms.has_uniqueness else None
        return self._states.setdefault((items, accepting), State(items, accepting, viable))

    def _call(self, head: Ref | Repeat) -> Iterator[tuple[Node, Rest]]:
        """The terms that `head` calls, and the terms of `head` that remain after each."""
        if isinstance(head, Ref):
            if self._terms.productive(head):
                yield head, ()
        elif head.max != 0 and self._terms.productive(head.item):
            # If the item is nullable, so are the remaining iterations: those that consume nothing need no call.
            high = None if head.max is None else head.max - 1
            yield head.item, (Repeat(head.item, max(head.min - 1, 0), high),)

    # ---- completions

    def _if_viable(self, state: State | None) -> State | None:
        if state is not None and state.viable is None:
            self._search(state)
        return state if state is not None and state.viable else None

    def _search(self, start: State) -> None:
        """Decide whether `start` has a completion, by a best-first search. The estimates affect only its time."""
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
        for state in before:  # all states reachable from them were visited, and none is viable
            state.viable = False

    def _size(self, state: State) -> int:
        return min(sum(map(self._terms.size, rest)) + back.size for rest, back, _ in state.items)

    # ---- returns

    def _return(self, callee: Call | None, calls: Calls) -> Return:
        """The return of a call of `callee`, with only those of `calls` that are reachable from it."""
        reached: dict[Call | None, frozenset[tuple[Rest, Owner]]] = {}
        todo = [callee]
        while todo:
            name = todo.pop()
            if name not in reached:
                reached[name] = frozenset(self._resumptions(name, calls))
                todo.extend(owner for _, owner in reached[name] if not isinstance(owner, Return))
        # If no owner has to be looked up, the callee's name does not matter: equal continuations become one object.
        if all(isinstance(owner, Return) for _, owner in reached[callee]):
            callee, reached = None, {None: reached[callee]}
        key = (callee, frozenset(reached.items()))
        if key not in self._returns:
            self._returns[key] = Return(callee, reached, self._least(reached)[callee])
        return self._returns[key]

    def _least(self, calls: Calls) -> dict[Call | None, int]:
        """For each callee, an estimate of the length of the shortest completion (by Bellman-Ford rounds)."""
        least = dict.fromkeys(calls, len(calls) * MAX_AHEAD)
        for _ in calls:
            for name, ways in calls.items():
                spend()
                for rest, owner in ways:
                    after = owner.size if isinstance(owner, Return) else least[owner]
                    least[name] = min(least[name], after + sum(map(self._terms.size, rest)))
        return least

    def _resumptions(self, callee: Call | None, calls: Calls) -> Iterator[tuple[Rest, Owner]]:
        """The terms after `callee`. A caller with no terms left is replaced by its own continuation.

        This elimination of tail calls keeps the returns of right-recursive rules from growing with the text.
        """
        todo, seen = [callee], {callee}
        while todo:
            spend()
            for rest, owner in calls[todo.pop()]:
                if rest or owner is _END:
                    yield rest, owner
                elif isinstance(owner, Return):
                    yield from self.resumed(owner)
                elif owner not in seen:
                    seen.add(owner)
                    todo.append(owner)

    def resumed(self, back: Return) -> frozenset[tuple[Rest, Return]]:
        """The continuation of a call with this return: remaining terms and the return of the caller.
        Empty for `_END`.
        """
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
    """Whether `data` is in the language of `grammar`. An output with control tokens is not equal to any `data`."""
    state = _after(grammar, data)
    return state is not None and state.accepting


def viable(grammar: Grammar, data: bytes) -> bool:
    """Whether `data` is a prefix of some output of `grammar`. Control tokens may be needed to complete it."""
    return _after(grammar, data) is not None
