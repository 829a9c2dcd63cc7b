"""Lookarounds away: a tree with looks becomes an IR node for the same set of whole texts. Exact, or refused.

In: a `Tree`. Out: an IR node.

Reading from the left with a *continuation* (the rest of the pattern up to the end of the text):

- `L((?=A) K) = L(A any*) & L(K)`, `L((?!A) K) = L(K) - L(A any*)`
- a lookbehind is a condition on the *left context*, a state of the automaton in behind.py; a part without looks is
  cut by the context it leads to. A lookahead inside a lookbehind is left as a condition on the continuation.
- at one character (anchors, word boundaries) both are cuts at the first or last character of the neighbouring part

so that counted repetition stays counted. Where a look stands inside a repetition or an alternation the continuation
would be recursive or copied; loops.py turns such a part into a list of `(text, left context, condition on what
follows)`, and the continuation is taken once for each.

Cost: one IR node for each (place in the pattern, left context) that can be reached; results past `Limits.nodes` or
`Limits.depth` are refused.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from guided.errors import LimitExceeded, UnsupportedError
from guided.grammar.ir import EMPTY, EPSILON, Alt, And, Length, Node, Not, Repeat, Seq
from guided.limits import Limits

from .algebra import ANY_TEXT, Edges, alt, as_chars, conj, negate, run, seq
from .behind import Contexts
from .loops import Exits, Explorer
from .terms import Terms, TooLarge
from .tree import Cat, Look, Or, Times, Tree, cat, either, has_look

__all__ = ["Cont", "Lowering", "lower", "measure"]

_CONTEXTS = 200
_DEPTH = 8
"""Levels of IR for each level of `Limits.depth`."""


@dataclass(frozen=True, slots=True, eq=False)
class Cont:
    """A place in the pattern: `tree`, then `next`. `left`: whether a lookbehind is still to come."""

    tree: Tree
    next: Cont | None
    left: bool


@dataclass(frozen=True, slots=True)
class Behind:
    """A lookbehind: it holds if the text so far is in the language `first + i` and what follows is in `after[i]`."""

    first: int
    after: tuple[int, ...]


def lower(tree: Tree, text: str, limits: Limits) -> Node:
    """The IR node of the texts that match `tree` as a whole."""
    if isinstance(tree, (Look, Cat, Or, Times)):
        lowering = Lowering(text, limits)
        lowering.learn(tree)
        result = run(lowering.suffix(lowering.cont(tree, None), 0))
    else:
        result = tree
    nodes, depth = measure(result)
    if nodes > limits.nodes:
        raise LimitExceeded("nodes", nodes, limits.nodes)
    if depth > _DEPTH * limits.depth:
        raise LimitExceeded("depth", depth / _DEPTH, limits.depth)
    return result


def measure(node: Node) -> tuple[int, int]:
    """(nodes, depth) of an IR node written out as a tree, in time linear in the shared nodes."""
    known: dict[int, tuple[int, int]] = {}

    def visit(node: Node) -> Generator[Any, Any, tuple[int, int]]:
        if id(node) in known:
            return known[id(node)]
        items: tuple[Node, ...] = ()
        if isinstance(node, (Seq, Alt, And)):
            items = node.items
        elif isinstance(node, (Repeat, Not, Length)):
            items = (node.item,)
        nodes, depth = 1, 0
        for item in items:
            below = yield visit(item)
            nodes, depth = nodes + below[0], max(depth, below[1])
        known[id(node)] = (nodes, depth + 1)
        return known[id(node)]

    return run(visit(node))


class Lowering:
    """The work on one pattern. All nodes and trees it has seen stay alive as long as it does."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text, self.limits = text, limits
        self.terms = Terms()
        self.edges = Edges()
        self.behinds: dict[int, Behind] = {}
        self.languages: list[int] = []
        self._same: dict[object, Behind] = {}
        self.contexts = Contexts(self.terms, self.edges, (), 1)
        self._conts: dict[tuple[int, int], Cont] = {}
        self._suffixes: dict[tuple[int, int], Node] = {}
        self._explorers: dict[tuple[int, int], Exits] = {}
        self._made: list[object] = []

    def refuse(self, what: str, span: tuple[int, int], hint: str) -> UnsupportedError:
        """A part that is valid but too hard."""
        return UnsupportedError(what, pointer=f"offset {span[0]}", hint=hint, text=self.text, span=span)

    def cont(self, tree: Tree, after: Cont | None) -> Cont:
        """The place `tree`, then `after`; equal places are one object."""
        key = (id(tree), id(after))
        found = self._conts.get(key)
        if found is None:
            left = isinstance(tree, (Look, Cat, Or, Times)) and tree.behind
            found = self._conts[key] = Cont(tree, after, left or (after is not None and after.left))
        return found

    # --- lookbehinds

    def learn(self, tree: Tree) -> None:
        """Find the lookbehinds, inner ones first, and build the automaton of left contexts."""
        order: list[Look] = []
        todo: list[Tree] = [tree]
        while todo:
            at = todo.pop()
            match at:
                case Look(item):
                    todo.append(item)
                    if not at.ahead:
                        order.append(at)
                case Cat(items) | Or(items):
                    todo.extend(items)
                case Times(item):
                    todo.append(item)
                case _:
                    pass
        stale = False
        for found in reversed(order):
            if stale and has_look(found.item):
                self._rebuild(found.span)
                stale = False
            size = len(self.languages)
            self._learn(found)
            stale = stale or len(self.languages) > size
        if stale:
            self._rebuild(tree.span if isinstance(tree, (Look, Times)) else (0, len(self.text)))

    def _rebuild(self, span: tuple[int, int]) -> None:
        try:
            self.contexts = Contexts(self.terms, self.edges, self.languages, _CONTEXTS)
        except TooLarge:
            raise self.refuse(
                "the lookbehinds of this pattern need too many states", span, "use shorter or fewer lookbehinds"
            ) from None
        self._suffixes.clear()
        self._explorers.clear()

    def _learn(self, found: Look) -> None:
        one = as_chars(found.item)
        key = one if one is not None else id(found.item)
        known = self._same.get(key)
        if known is not None:
            self.behinds[id(found)] = known
            return
        try:
            if not has_look(found.item):
                assert not isinstance(found.item, (Look, Cat, Or, Times))
                ways = [(self.terms.read(seq((ANY_TEXT, found.item))), self.terms.read(ANY_TEXT))]
            else:
                prefix = cat([ANY_TEXT, found.item])
                exits = run(self.explore(prefix, 0, found.span))
                ways = [(self.terms.read(node), after) for (_, after), node in exits.items()]
        except TooLarge:
            raise self.refuse("this lookbehind is too large", found.span, "use a shorter lookbehind") from None
        known = Behind(len(self.languages), tuple(after for _, after in ways))
        self.languages.extend(language for language, _ in ways)
        self._same[key] = self.behinds[id(found)] = known

    def condition(self, at: Look, context: int) -> Generator[Any, Any, int]:
        """The term that the rest of the text must be in where the look `at` is tested in `context`."""
        if at.ahead:
            here = self.cont(at.item, self.cont(ANY_TEXT, None))
            term = self.terms.read((yield self.suffix(here, context)))
        else:
            known = self.behinds[id(at)]
            holds = self.contexts.holds[context]
            term = self.terms.union([after for i, after in enumerate(known.after) if holds[known.first + i]])
        return self.terms.negate(term) if at.negative else term

    def keep(self, thing: object) -> None:
        """Keep an object alive whose identity is a key."""
        self._made.append(thing)

    def explore(self, tree: Tree, context: int, span: tuple[int, int]) -> Generator[Any, Any, Exits]:
        """`tree` as (text, left context after it, condition on what follows), for one left context before it."""
        key = (id(tree), context)
        if key not in self._explorers:
            self.keep(tree)
            self._explorers[key] = yield Explorer(self, span).exits(tree, context)
        return self._explorers[key]

    # --- the rest of the text

    def suffix(self, at: Cont | None, context: int) -> Generator[Any, Any, Node]:
        """The IR node of what may follow, up to the end of the text, at the place `at` in the left `context`."""
        if at is None:
            return EPSILON
        context = context if at.left else 0
        key = (id(at), context)
        known = self._suffixes.get(key)
        if known is None:
            known = yield self._suffix(at, context)
            self._suffixes[key] = known
            if len(self._suffixes) > self.limits.nodes:
                raise LimitExceeded("nodes", len(self._suffixes), self.limits.nodes)
        return known

    def _suffix(self, at: Cont, context: int) -> Generator[Any, Any, Node]:
        tree = at.tree
        match tree:
            case Cat(items):
                place: Cont | None = at.next
                for item in reversed(items):
                    place = self.cont(item, place)
                return (yield self.suffix(place, context))
            case Look():
                return (yield self._look(tree, at.next, context))
            case Or(items) if not tree.near:
                branches = []
                for item in items:
                    branches.append((yield self.suffix(self.cont(item, at.next), context)))
                return alt(branches)
            case Times(item, 0, 1):
                choice = either([EPSILON, item])
                self.keep(choice)
                return (yield self.suffix(self.cont(choice, at.next), context))
            case Or() | Times():
                span = tree.span if isinstance(tree, Times) else (0, len(self.text))
                exits = yield self.explore(tree, context, span)
                return (yield self._resume(exits, at.next))
            case _:
                return (yield self._plain(tree, at.next, context))

    def _plain(self, node: Node, after: Cont | None, context: int) -> Generator[Any, Any, Node]:
        if after is None or not after.left:
            return seq((node, (yield self.suffix(after, 0))))
        parts = []
        for part, target in self.contexts.ends(node, context):
            parts.append((part, (yield self.suffix(after, target))))
        return self._joined(parts)

    def _joined(self, parts: list[tuple[Node, Node]]) -> Node:
        """The union of `part rest`, with parts that have the same rest taken together."""
        groups: dict[int, tuple[list[Node], Node]] = {}
        for part, rest in parts:
            groups.setdefault(id(rest), ([], rest))[0].append(part)
        return alt([seq((alt(heads), rest)) for heads, rest in groups.values()])

    def _resume(self, exits: Exits, after: Cont | None) -> Generator[Any, Any, Node]:
        parts = []
        for (target, condition), node in exits.items():
            rest = yield self.suffix(after, target)
            parts.append((node, self._under(condition, rest)))
        return self._joined(parts)

    def _under(self, condition: int, rest: Node) -> Node:
        """The strings of `rest` that meet a condition."""
        near = self.terms.near(condition)
        if near is not None:
            return self.edges.restrict(rest, *near, False)
        return conj(rest, self.terms.node(condition))

    def _look(self, at: Look, after: Cont | None, context: int) -> Generator[Any, Any, Node]:
        rest = yield self.suffix(after, context)
        if rest is EMPTY:
            return EMPTY
        if not at.ahead or as_chars(at.item) is not None:
            return self._under((yield self.condition(at, context)), rest)
        here = self.cont(at.item, self.cont(ANY_TEXT, None))
        found = yield self.suffix(here, context)
        if isinstance(at.item, (Look, Cat, Or, Times)):
            wanted = found
        else:  # what begins with a string that may be empty is everything
            wanted = ANY_TEXT if self.edges.nullable(at.item) else found
        return conj(rest, negate(wanted) if at.negative else wanted)
