"""The language of an IR grammar, byte by byte: what a constraint means, written to be believed rather than to be fast.

In: a `Grammar` and the bytes that can be written. Out: states. A state is the future: equal futures that are found
equal are one object, `step` and `special` lead from one to the next, None where no completion is left.

Algorithm: Earley's (CACM 13(2), 1970) with Aycock and Horspool's treatment of empty rules (The Computer Journal 45(6),
2002). An item is what is left of a rule, and its *return*: what its callers do afterwards. Earley writes the column
where the rule began; the return is the part of that column which can matter, so that states meet again. Every call
that may be empty is also skipped, hence a call that consumed nothing has nothing to report. Left recursion, hidden or
not, cyclic rules and empty rules need no special case: a return may lead back to itself.

Only *productive* terms enter a state (least fixpoint over the rules: some text or control tokens can be written), so
a state exists exactly where some completion does.

Cost: a step is linear in the items of the state; states, returns and derivatives are kept. Nesting of the
specification is bounded by `MAX_DEPTH`, states by `MAX_STATES`. Not done: `Encoded` inside `And`, `Not`, `Length` or
another `Encoded` is refused: combine the items first, then spell them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from guided.automaton.reference_regular import (
    MAX_DEPTH,
    MAX_STATES,
    Run,
    Spelling,
    in_bounds,
    regular,
)
from guided.errors import LimitExceeded, SpecError
from guided.grammar.ir import (
    UTF8,
    Alt,
    And,
    Chars,
    Encoded,
    Encoding,
    Grammar,
    Length,
    Node,
    Not,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Special,
    Text,
)

__all__ = ["Language", "State", "accepts", "viable"]

ALL_BYTES = frozenset(range(256))


class Return:
    """What is done when a call ends: the calls of `callee` among `calls`. Compared by identity.

    `calls` are the calls at one place: callee -> (what follows the call, the return of the caller). A caller that is
    itself called at that place stands there by its name: that is how left recursion leads back.
    """

    def __init__(self, callee: Node | None, calls: Mapping[Node | None, Collection[tuple[Rest, Owner]]]) -> None:
        self.callee, self.calls = callee, calls
        self.resumed: frozenset[tuple[Rest, Return]] | None = None


Owner: TypeAlias = "Return | Node | None"
_END = Return(None, {})


class State:
    """A set of items that wait for a byte or a control token. Compared by identity: equal sets are one object."""

    def __init__(self, items: frozenset[tuple[Rest, Return]], accepting: bool) -> None:
        self.items, self.accepting = items, accepting
        self.steps: dict[int, State | None] = {}


class Language:
    """The states of one grammar. `live` are the bytes that can be written."""

    def __init__(self, grammar: Grammar, live: frozenset[int] = ALL_BYTES) -> None:
        self._rules, self._live = grammar.rules, live
        self._spellings: dict[Encoding, Spelling] = {}
        self._runs: dict[Node, Run] = {}
        self._returns: dict[object, Return] = {}
        self._states: dict[object, State] = {}
        self._known: dict[Term, bool] = {}  # productive or not
        self._nullable_rules: set[str] = set()
        self._productive_rules: set[str] = set()
        if grammar.start not in grammar.rules:
            raise SpecError(f"there is no rule {grammar.start!r} to start from")
        self._check()
        self._least(self._nullable, self._nullable_rules)
        self._least(self._productive, self._productive_rules)
        for node in self._nodes():
            if isinstance(node, Permutation) and any(self._nullable(member.item) for member in node.members):
                raise SpecError("a member of a permutation may be empty", hint="take the empty case out of the member")
        self.control_tokens = frozenset(node.token for node in self._nodes() if isinstance(node, Special))
        """The control tokens that the grammar names."""
        self.start = self._close([((Ref(grammar.start),), _END)])
        """The state before the first byte; None: the language is empty."""

    # ---- stepping

    def step(self, state: State, byte: int) -> State | None:
        """The state after `byte`."""
        if byte not in self._live:
            return None
        if byte not in state.steps:
            state.steps[byte] = self._close(
                ((run, *rest[1:]), back)
                for rest, back in state.items
                if isinstance(rest[0], Run)
                for run in rest[0].after(byte)
            )
        return state.steps[byte]

    def special(self, state: State, names: Collection[int | str]) -> State | None:
        """The state after a control token that goes by any of `names`."""
        return self._close(
            (rest[1:], back) for rest, back in state.items if isinstance(rest[0], Special) and rest[0].token in names
        )

    def either(self, a: State | None, b: State | None) -> State | None:
        """The state that allows what one of the two does."""
        if a is None or b is None:
            return b if a is None else a
        return self._state(a.items | b.items, a.accepting or b.accepting)

    def _close(self, kernel: Iterable[tuple[Rest, Return]]) -> State | None:
        """The state of these items and of all that they call, or None if none of them can be finished."""
        todo: list[tuple[Rest, Owner]] = list(kernel)
        seen: set[tuple[Rest, Owner]] = set()
        calls: dict[Node | None, set[tuple[Rest, Owner]]] = {}
        waiting: list[tuple[Rest, Owner]] = []
        accepting = False
        while todo:
            item = todo.pop()
            rest, owner = item
            if item in seen or not all(self._productive(term) for term in rest):
                continue
            seen.add(item)
            if not rest:  # The end of a call. One that began here consumed nothing: its caller has gone on already.
                accepting |= owner is _END
                if isinstance(owner, Return):
                    todo.extend(self._resume(owner))
                continue
            head, tail = rest[0], rest[1:]
            if isinstance(head, Run):
                todo.extend([(tail, owner)] if head.may_stop else [])
                waiting.extend([item] if head.may_go_on else [])
            elif isinstance(head, Special):
                waiting.append(item)
            elif isinstance(head, Ref | Repeat):
                todo.extend([(tail, owner)] if self._nullable(head) else [])
                for callee, after in self._call(head):
                    if callee not in calls:
                        body = self._rules[callee.name] if isinstance(callee, Ref) else callee
                        calls[callee] = set()
                        todo.append(((body,), callee))
                    calls[callee].add((after + tail, owner))
            else:
                todo.extend((first + tail, owner) for first in self._expand(head))
        items = {(rest, owner if isinstance(owner, Return) else self._return(owner, calls)) for rest, owner in waiting}
        return self._state(frozenset(items), accepting) if items or accepting else None

    def _state(self, items: frozenset[tuple[Rest, Return]], accepting: bool) -> State:
        if len(self._states) > MAX_STATES:
            raise LimitExceeded("states", len(self._states), MAX_STATES)
        return self._states.setdefault((items, accepting), State(items, accepting))

    def _call(self, head: Ref | Repeat) -> Iterator[tuple[Node, Rest]]:
        """What `head` calls, and what is left of it afterwards."""
        if isinstance(head, Ref):
            if self._productive(head):
                yield head, ()
        elif head.max != 0 and self._productive(head.item):
            # Where the item may be empty, so may the rest: iterations that consume nothing need no call.
            high = None if head.max is None else head.max - 1
            yield head.item, (Repeat(head.item, max(head.min - 1, 0), high),)

    # ---- returns

    def _return(self, callee: Node | None, calls: Mapping[Node | None, Collection[tuple[Rest, Owner]]]) -> Return:
        """The return of a call of `callee`, with no more of `calls` than it can come to."""
        reached: dict[Node | None, frozenset[tuple[Rest, Owner]]] = {}
        todo = [callee]
        while todo:
            name = todo.pop()
            if name not in reached:
                reached[name] = frozenset(self._resumptions(name, calls))
                todo.extend(owner for _, owner in reached[name] if not isinstance(owner, Return))
        if all(isinstance(owner, Return) for _, owner in reached[callee]):  # then the name does not matter
            callee, reached = None, {None: reached[callee]}
        key = (callee, frozenset(reached.items()))
        return self._returns.setdefault(key, Return(callee, reached))

    def _resumptions(
        self, callee: Node | None, calls: Mapping[Node | None, Collection[tuple[Rest, Owner]]]
    ) -> Iterator[tuple[Rest, Owner]]:
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
