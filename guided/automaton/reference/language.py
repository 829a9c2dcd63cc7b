"""The language of an IR grammar, read byte by byte by an Earley parser. It is written for correctness, not for speed.

In: a `Grammar` and the live bytes, which occur in some token. Out: states. `step` and `special` lead from one state to
the next, or to None if no output continues in this way. States with equal sets of items are the same object.

How: Earley's algorithm (CACM 13(2), 1970). Empty rules are handled as by Aycock and Horspool (The Computer Journal
45(6), 2002): the parser also skips each call of a nullable rule, so a call that consumes nothing need not be completed.
An item has three parts:

- the terms of a rule that are still to be read (the part after the dot);
- its *return*: the continuation of its callers. Earley instead stores the column in which the rule began. The return is
  the part of that column that can still matter. It does not depend on how much has been read, so the same state can
  occur again later in the text;
- the open uniqueness scopes with the values seen in them (`uniqueness.py`). A callee starts with the scopes of its
  caller and returns its own, so calls of one rule with different scopes are different calls.

Example: `list -> "x" | list "," "x"`. The start state has the items ["x"] and ["," "x"] waiting for a call of `list` to
end. `list` itself makes that call, so its return leads back to itself; after `x,x` the parser is in the same state as
after `x`. So left recursion (hidden or not), cyclic rules and empty rules need no special case.

Only *productive* terms enter a state (`terms.py`), so a state exists only if a completion does. If values must differ,
this is not enough, because every value that could still follow may have been seen. Then a state is kept only if a
search over at most `MAX_AHEAD` states finds a completion.

Cost: a step is linear in the items of the state. States (at most `MAX_STATES`), returns and derivatives are memoised.
With `Distinct`, each step may search.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from guided.automaton.reference.regular import MAX_STATES, Run
from guided.automaton.reference.terms import Rest, Terms
from guided.automaton.reference.token_limits import LimitedRun, fewest_tokens
from guided.automaton.reference.uniqueness import NO_SCOPES, Mark, OpenScope, Scopes, apply_mark, read_byte
from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.ir.nodes import Grammar, Node, Ref, Repeat, Special
from guided.meter import spend

__all__ = ["Item", "Language", "State", "accepts", "viable"]

ALL_BYTES = frozenset(range(256))

MAX_AHEAD = 5_000
"""The maximum number of states that one search for a completion visits; beyond this, `LimitExceeded` is raised."""


Call: TypeAlias = tuple[Node, Scopes]
"""A rule or the item of a repetition, and the scopes that are open when it is called."""


class Return:
    """The continuation of a call of `callee`: the terms that the parser reads after the call. Compared by identity.

    `calls` are the calls that began at one position in the text: callee -> {(terms after the call, owner of the
    caller)}. The owner is the caller's return, unless the caller was itself called at this position. Then it is the
    `Call` of the caller, which is also a key of `calls`. Left recursion makes a cycle of such keys. `size` estimates
    the length of the shortest completion.
    """

    def __init__(self, callee: Call | None, calls: Calls, size: int = 0) -> None:
        self.callee, self.calls, self.size = callee, calls, size
        self.continuations: frozenset[tuple[Rest, Return]] | None = None


Owner: TypeAlias = Return | Call | None
Calls: TypeAlias = Mapping[Call | None, Collection[tuple[Rest, Owner]]]
Item: TypeAlias = tuple[Rest, Return, Scopes]
_END = Return(None, {})


class State:
    """A set of items that wait for a byte or a control token. Compared by identity: equal sets are the same object.

    `viable`: whether a completion exists; None means unknown.
    """

    def __init__(self, items: frozenset[Item], is_accepting: bool, viable: bool | None = True) -> None:
        self.items, self.is_accepting, self.viable = items, is_accepting, viable
        self.steps: dict[int, State | None] = {}


class Language:
    """The states of one grammar. `live`: the bytes that occur in some token."""

    def __init__(self, grammar: Grammar, live: frozenset[int] = ALL_BYTES) -> None:
        if grammar.start not in grammar.rules:
            raise SpecError(f"the start rule {grammar.start!r} is not defined")
        self._terms, self._live = Terms(grammar, live), live
        self._returns: dict[object, Return] = {}
        self._states: dict[object, State] = {}
        self.control_tokens = self._terms.control_tokens
        """The control tokens that the grammar names."""
        self.limits = self._terms.limits
        """The `MaxTokens` nodes that some output can reach."""
        self.start = self._if_viable(self._close([((Ref(grammar.start),), _END, NO_SCOPES)]))
        """The state before the first byte, or None if the language is empty."""
        self.begin = self.start

    # ---- stepping

    def step(self, state: State, byte: int) -> State | None:
        """The state after `byte`, or None if no output continues with it."""
        return self._if_viable(self._step(state, byte))

    def special(self, state: State, names: Collection[int | str]) -> State | None:
        """The state after a control token with one of `names`, or None. The token adds nothing to an entry's text."""
        return self._if_viable(self._special(state, names))

    def unite(self, a: State | None, b: State | None) -> State | None:
        """The union: the state that allows everything that `a` or `b` allows."""
        if a is None or b is None:
            return b if a is None else a
        return self._if_viable(self._state(a.items | b.items, a.is_accepting or b.is_accepting))

    def after_token(self, state: State, texts: Collection[bytes]) -> State | None:
        """The state after a token ends here, or None. `texts`: the texts of all tokens (see `token_limits.py`)."""
        items: set[Item] = set()
        for rest, return_, scopes in state.items:
            head = rest[0].after_token(texts) if isinstance(rest[0], LimitedRun) else rest[0]
            if head is not None:
                items.add(((head, *rest[1:]), return_, scopes))
        return (
            self._if_viable(self._state(frozenset(items), state.is_accepting)) if items or state.is_accepting else None
        )

    def check_limits(self, texts: Collection[bytes]) -> None:
        """Raise `UnsupportedError` if even the shortest text of a `MaxTokens` node takes more tokens than it allows."""
        for node in self.limits:
            run = self._terms.run(node.item)
            min_tokens = fewest_tokens(run, texts) if run.can_continue else 0
            if min_tokens is None or min_tokens > node.max > 0:
                raise UnsupportedError(f"the shortest text takes {min_tokens} tokens, and max_tokens is {node.max}")

    def _step(self, state: State, byte: int) -> State | None:
        if byte not in self._live:
            return None
        if byte not in state.steps:
            state.steps[byte] = self._close(
                ((run, *rest[1:]), return_, read_byte(scopes, byte))
                for rest, return_, scopes in state.items
                if isinstance(rest[0], Run | LimitedRun)
                for run in rest[0].step(byte)
            )
        return state.steps[byte]

    def _special(self, state: State, names: Collection[int | str]) -> State | None:
        return self._close(
            (rest[1:], return_, scopes)
            for rest, return_, scopes in state.items
            if isinstance(rest[0], Special) and rest[0].token in names
        )

    def _close(self, kernel: Iterable[Item]) -> State | None:
        """The state of these items and all items that they predict and complete, or None if no item can be completed.

        This is Earley's predictor and completer. A call that begins here has no return until all its callers are known.
        Until then, the call itself owns its items.
        """
        todo: list[tuple[Rest, Owner, Scopes]] = list(kernel)
        seen: set[tuple[Rest, Owner, Scopes]] = set()
        calls: dict[Call | None, set[tuple[Rest, Owner]]] = {}
        waiting_items: list[tuple[Rest, Owner, Scopes]] = []
        is_accepting = False
        while todo:
            spend()
            item = todo.pop()
            rest, owner, scopes = item
            if item in seen or not all(self._terms.productive(term) for term in rest):
                continue
            seen.add(item)
            if not rest:  # The end of a call. A call that began here consumed nothing, and has already been skipped.
                is_accepting |= owner is _END
                if isinstance(owner, Return):
                    todo.extend(
                        (continuation, return_, scopes) for continuation, return_ in self.find_continuations(owner)
                    )
                continue
            head, tail = rest[0], rest[1:]
            if isinstance(head, Run | LimitedRun):
                todo.extend([(tail, owner, scopes)] if head.may_stop else [])
                waiting_items.extend([item] if head.can_continue else [])
            elif isinstance(head, Special):
                waiting_items.append(item)
            elif isinstance(head, Mark | OpenScope):
                scopes_after_mark = apply_mark(scopes, head)
                todo.extend([(tail, owner, scopes_after_mark)] if scopes_after_mark is not None else [])
            elif isinstance(head, Ref | Repeat):
                todo.extend([(tail, owner, scopes)] if self._terms.nullable(head) else [])
                for callee, rest_after_call in self._calls(head):
                    call = (callee, scopes)
                    if call not in calls:
                        body = self._terms.rules[callee.name] if isinstance(callee, Ref) else callee
                        calls[call] = set()
                        todo.append(((body,), call, scopes))
                    calls[call].add((rest_after_call + tail, owner))
            else:
                todo.extend((expansion + tail, owner, scopes) for expansion in self._terms.expand(head))
        items = {
            (rest, owner if isinstance(owner, Return) else self._return(owner, calls), scopes)
            for rest, owner, scopes in waiting_items
        }
        return self._state(frozenset(items), is_accepting) if items or is_accepting else None

    def _state(self, items: frozenset[Item], is_accepting: bool) -> State:
        if len(self._states) > MAX_STATES:
            raise LimitExceeded("states", len(self._states), MAX_STATES, fixed=True)
        viable = True if is_accepting or not self._terms.has_uniqueness else None
        return self._states.setdefault((items, is_accepting), State(items, is_accepting, viable))

    def _calls(self, head: Ref | Repeat) -> Iterator[tuple[Node, Rest]]:
        """The nodes that `head` calls, each with the terms of `head` that remain after the call."""
        if isinstance(head, Ref):
            if self._terms.productive(head):
                yield head, ()
        elif head.max != 0 and self._terms.productive(head.item):
            # If the item is nullable, so are the remaining iterations: iterations that consume nothing need no call.
            high = None if head.max is None else head.max - 1
            yield head.item, (Repeat(head.item, max(head.min - 1, 0), high),)

    # ---- completions

    def _if_viable(self, state: State | None) -> State | None:
        if state is not None and state.viable is None:
            self._search(state)
        return state if state is not None and state.viable else None

    def _search(self, start: State) -> None:
        """Decide by a best-first search whether `start` has a completion. The size estimates affect only the speed."""
        predecessors: dict[State, State | None] = {start: None}
        todo = [(self._size(start), 0, start)]
        while todo:
            state = heapq.heappop(todo)[2]
            next_states = [self._step(state, byte) for byte in self._live]
            next_states += [self._special(state, {name}) for name in self.control_tokens]
            for successor in dict.fromkeys(next_states):
                if successor is None or successor.viable is False or successor in predecessors:
                    continue
                predecessors[successor] = state
                if successor.viable:
                    ancestor: State | None = successor
                    while ancestor is not None:
                        ancestor.viable, ancestor = True, predecessors[ancestor]
                    return
                if len(predecessors) > MAX_AHEAD:
                    raise LimitExceeded("states", len(predecessors), MAX_AHEAD, fixed=True)
                heapq.heappush(todo, (self._size(successor), len(predecessors), successor))
        for state in predecessors:  # the search has visited every state that these can reach, and none is viable
            state.viable = False

    def _size(self, state: State) -> int:
        return min(sum(map(self._terms.size, rest)) + return_.size for rest, return_, _ in state.items)

    # ---- returns

    def _return(self, callee: Call | None, calls: Calls) -> Return:
        """The return of a call of `callee`. It keeps only the part of `calls` that is reachable from `callee`."""
        reachable: dict[Call | None, frozenset[tuple[Rest, Owner]]] = {}
        todo = [callee]
        while todo:
            call = todo.pop()
            if call not in reachable:
                reachable[call] = frozenset(self._resumptions(call, calls))
                todo.extend(owner for _, owner in reachable[call] if not isinstance(owner, Return))
        # If all owners are returns, the callee does not matter: equal continuations become the same object.
        if all(isinstance(owner, Return) for _, owner in reachable[callee]):
            callee, reachable = None, {None: reachable[callee]}
        key = (callee, frozenset(reachable.items()))
        if key not in self._returns:
            self._returns[key] = Return(callee, reachable, self._estimate_sizes(reachable)[callee])
        return self._returns[key]

    def _estimate_sizes(self, calls: Calls) -> dict[Call | None, int]:
        """For each callee, an estimate of the length of the shortest completion, computed by Bellman-Ford rounds."""
        sizes = dict.fromkeys(calls, len(calls) * MAX_AHEAD)
        for _ in calls:
            for callee, resumptions in calls.items():
                spend()
                for rest, owner in resumptions:
                    owner_size = owner.size if isinstance(owner, Return) else sizes[owner]
                    sizes[callee] = min(sizes[callee], owner_size + sum(map(self._terms.size, rest)))
        return sizes

    def _resumptions(self, callee: Call | None, calls: Calls) -> Iterator[tuple[Rest, Owner]]:
        """The terms after a call of `callee`. A caller without remaining terms is replaced by its continuation.

        This tail-call elimination keeps the returns of right-recursive rules from growing with the text.
        """
        todo, seen = [callee], {callee}
        while todo:
            spend()
            for rest, owner in calls[todo.pop()]:
                if rest or owner is _END:
                    yield rest, owner
                elif isinstance(owner, Return):
                    yield from self.find_continuations(owner)
                elif owner not in seen:
                    seen.add(owner)
                    todo.append(owner)

    def find_continuations(self, return_: Return) -> frozenset[tuple[Rest, Return]]:
        """The continuations of a call with this return: remaining terms and the caller's return. Empty for `_END`."""
        if return_.continuations is None:
            return_.continuations = frozenset(
                (rest, owner if isinstance(owner, Return) else self._return(owner, return_.calls))
                for rest, owner in return_.calls.get(return_.callee, ())
            )
        return return_.continuations


def _read(grammar: Grammar, data: bytes) -> State | None:
    language = Language(grammar)
    state = language.start
    for byte in data:
        if state is None:
            break
        state = language.step(state, byte)
    return state


def accepts(grammar: Grammar, data: bytes) -> bool:
    """Whether `data` is in the language of `grammar`. An output with control tokens equals no `data`."""
    state = _read(grammar, data)
    return state is not None and state.is_accepting


def viable(grammar: Grammar, data: bytes) -> bool:
    """Whether `data` is a prefix of some output of `grammar`. Control tokens may be needed to complete it."""
    return _read(grammar, data) is not None
