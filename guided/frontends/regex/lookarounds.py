"""Turns lookarounds into boolean operations: a tree with lookarounds becomes an IR node for the same set of strings.

In: a `Tree`. Out: an IR node with exactly the same language. Trees that need too many states are not supported.

Problem: a lookaround constrains text outside itself, so the language of a pattern cannot be composed from the languages
of its parts. Each part is therefore lowered together with its *continuation*, the rest of the pattern up to the end of
the text. Let any* be all strings, K the continuation, and L(X) the language of X:

- lookahead: `L((?=A) K) = L(A any*) & L(K)` and `L((?!A) K) = L(K) - L(A any*)`. For example, `(?!ab).*` is all strings
  that do not begin with ab.
- lookbehind: a condition on the *left context*, which is a state of the automaton in `left_contexts.py`. A part without
  lookarounds is partitioned by the contexts to which its strings lead. If the lookbehind contains a lookahead, it
  holds only if the continuation satisfies a further condition.
- lookaround of one character (anchors, word boundaries): it restricts the first or last character of the neighbouring
  part, so counted repetition stays counted.

The obvious alternative is one automaton for the whole pattern that tracks all lookarounds. It would unroll every count
and multiply the states of all lookarounds, even if two lookarounds are never active at the same time.

If a lookaround is inside a repetition or an alternation, the continuation would be recursive or copied. `loops.py`
turns such a part into a list of (language, left context, condition on the following text). The continuation is then
used once for each entry.

Cost: one IR node for each pair of a continuation and a reachable left context. Raises `LimitExceeded` if the result
exceeds `Limits.nodes` or `_LEVELS_PER_DEPTH` times `Limits.depth`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from guided.errors import LimitExceeded, UnsupportedError
from guided.ir.nodes import EMPTY, EPSILON, Node
from guided.ir.serial import Numbered, serial

from .algebra import ANY_TEXT, EndCharacters, alt, as_chars, conj, measure, run, seq
from .budget import Budget
from .derivatives import ANY_STRING, Terms, TooLarge
from .left_contexts import Contexts
from .loops import Exits, Explorer, Situation
from .tree import TREE_NODES, Cat, Lookaround, Or, Times, Tree, cat, contains_lookaround, make_alternation

__all__ = ["Continuation", "Lowering", "lower"]

_LEVELS_PER_DEPTH = 8
"""The number of IR levels allowed for each level of `Limits.depth`."""


@dataclass(frozen=True, slots=True, eq=False)
class Continuation(Numbered):
    """The rest of a pattern: `tree`, then `successor`. Without a successor, it is the end of the pattern.

    `language_bits` is the set of lookbehind languages that matter from here on, as bits. The left contexts at this
    point are states of `Lowering.get_contexts(language_bits)`, which does not track languages that no later lookbehind
    needs.
    """

    tree: Tree
    successor: Continuation | None
    language_bits: int


@dataclass(frozen=True, slots=True)
class Lookbehind:
    """The condition of a lookbehind. It holds if, for some i, the text so far is in language `first_language + i` and
    the rest of the text is in the term `conditions[i]`.
    """

    first_language: int
    conditions: tuple[int, ...]


def lower(tree: Tree, text: str, budget: Budget) -> Node:
    """The IR node of the strings that `tree` matches as a whole. `text`: the pattern, for error messages."""
    if not isinstance(tree, TREE_NODES):
        return tree
    lowering = Lowering(text, budget)
    try:
        lowering.collect_lookbehinds(tree)
        result = run(lowering.lower_suffix(lowering.make_continuation(tree, lowering.make_end(0)), 0))
    except TooLarge:
        raise lowering.make_error() from None
    nodes, depth = measure(result)
    limits = budget.limits
    if nodes > limits.nodes:
        raise LimitExceeded("nodes", nodes, limits.nodes)
    if depth > _LEVELS_PER_DEPTH * limits.depth:
        raise LimitExceeded("depth", depth / _LEVELS_PER_DEPTH, limits.depth)
    return result


def _list_inside_out(tree: Tree) -> list[Tree]:
    """The nodes of the tree that are not IR nodes, inner nodes first. Shared nodes are listed only once."""
    out: list[Tree] = []
    seen: set[int] = set()

    def visit(tree: Tree) -> Generator[Any, Any, None]:
        if isinstance(tree, (Lookaround, Cat, Or, Times)) and serial(tree) not in seen:
            seen.add(serial(tree))
            for part in tree.items if isinstance(tree, (Cat, Or)) else (tree.item,):
                yield visit(part)
            out.append(tree)

    run(visit(tree))
    return out


class Lowering:
    """Lowers one pattern. Each result is computed once."""

    def __init__(self, text: str, budget: Budget) -> None:
        self.text, self.budget = text, budget
        self.terms = Terms()
        self.end_characters = EndCharacters()
        self.span = (0, len(text))
        """The part of the pattern that is being lowered, for error messages."""
        self._lookbehinds: dict[int, Lookbehind] = {}
        self._languages: list[int] = []
        self._one_char_languages = 0  # as bits: the languages that depend only on the last character
        self._lookbehinds_by_item: dict[object, Lookbehind] = {}
        self._language_bits: dict[int, int] = {}
        self._contexts: dict[int, Contexts] = {}
        self._continuations: dict[tuple[int, int], Continuation] = {}
        self._ends: dict[int, Continuation] = {}
        self._suffixes: dict[tuple[int, int], Node] = {}
        self._exits: dict[tuple[int, Situation, int], Exits] = {}

    def make_error(self) -> UnsupportedError:
        """The error for a part that is valid but needs too many states."""
        return UnsupportedError(
            "the lookarounds, anchors or word boundaries in this part need too many states",
            pointer=f"offset {self.span[0]}",
            hint="use shorter lookarounds and smaller counts, or move them out of the repetition",
            text=self.text,
            span=self.span,
        )

    # --- continuations

    def make_continuation(self, tree: Tree, rest: Continuation) -> Continuation:
        """The continuation that is `tree`, then `rest`. Equal arguments return the same object."""
        key = (serial(tree), serial(rest))
        cached = self._continuations.get(key)
        if cached is None:
            cached = self._continuations[key] = Continuation(
                tree, rest, self.find_language_bits(tree) | rest.language_bits
            )
        return cached

    def make_end(self, language_bits: int) -> Continuation:
        """An empty continuation at which the languages of `language_bits` still matter."""
        if language_bits not in self._ends:
            self._ends[language_bits] = Continuation(EPSILON, None, language_bits)
        return self._ends[language_bits]

    def find_language_bits(self, tree: Tree) -> int:
        """The set of lookbehind languages that matter inside a tree, as bits."""
        if not isinstance(tree, (Lookaround, Cat, Or, Times)):
            return 0
        bits = self._language_bits.get(serial(tree))
        if bits is None:  # the bits of the node's parts are known, because inner nodes come first
            bits = 0
            for part in tree.items if isinstance(tree, (Cat, Or)) else (tree.item,):
                bits |= self.find_language_bits(part)
            self._language_bits[serial(tree)] = bits
        return bits

    def get_contexts(self, language_bits: int) -> Contexts:
        """The left contexts for the languages of `language_bits`."""
        if language_bits not in self._contexts:
            languages = [language for i, language in enumerate(self._languages) if language_bits >> i & 1]
            one_char = language_bits & ~self._one_char_languages == 0
            self._contexts[language_bits] = Contexts(self.terms, self.end_characters, self.budget, languages, one_char)
        return self._contexts[language_bits]

    def project(self, context: int, language_bits: int, subset: int) -> int:
        """Convert a left context for `language_bits` to one for `subset`, a subset of it."""
        if language_bits == subset:
            return context
        state = self.get_contexts(language_bits).states[context]
        bits = [i for i in range(language_bits.bit_length()) if language_bits >> i & 1]
        substate = tuple(term for i, term in zip(bits, state, strict=True) if subset >> i & 1)
        return self.get_contexts(subset).numbers[substate]

    # --- lookbehinds

    def collect_lookbehinds(self, tree: Tree) -> None:
        """Find the languages of all lookbehinds, inner ones first."""
        for node in _list_inside_out(tree):
            if isinstance(node, Lookaround) and not node.ahead:
                self._language_bits[serial(node)] = self._collect_lookbehind(node)
            else:
                self.find_language_bits(node)

    def _collect_lookbehind(self, node: Lookaround) -> int:
        """Record the languages of one lookbehind, and return them as bits."""
        self.span = node.span
        key = as_chars(node.item) or serial(node.item)
        lookbehind = self._lookbehinds_by_item.get(key)
        if lookbehind is None:
            if not contains_lookaround(node.item):
                assert not isinstance(node.item, TREE_NODES)
                alternatives = [(self.terms.read(seq((ANY_TEXT, node.item))), ANY_STRING)]
            else:
                exits = run(self.explore(cat([ANY_TEXT, node.item]), (0, ANY_STRING), 0))
                alternatives = [(self.terms.read(strings), condition) for (_, condition), strings in exits.items()]
            if as_chars(node.item) is not None:
                self._one_char_languages |= 1 << len(self._languages)
            lookbehind = Lookbehind(len(self._languages), tuple(condition for _, condition in alternatives))
            self._languages.extend(language for language, _ in alternatives)
            self._lookbehinds_by_item[key] = lookbehind
        self._lookbehinds[serial(node)] = lookbehind
        return ((1 << len(lookbehind.conditions)) - 1) << lookbehind.first_language

    def compute_condition(self, node: Lookaround, language_bits: int, context: int) -> Generator[Any, Any, int]:
        """A term: the texts that may follow if the lookaround holds, in a left context for `language_bits`."""
        if not node.one_char:
            self.span = node.span
        if node.ahead:
            continuation = self.make_continuation(node.item, self.make_continuation(ANY_TEXT, self.make_end(0)))
            suffix = yield self.lower_suffix(
                continuation, self.project(context, language_bits, continuation.language_bits)
            )
            term = self.terms.read(suffix)
        else:
            lookbehind = self._lookbehinds[serial(node)]
            state = self.get_contexts(language_bits).states[context]
            first_index = (language_bits & ((1 << lookbehind.first_language) - 1)).bit_count()
            pairs = zip(state[first_index:], lookbehind.conditions, strict=False)
            term = self.terms.union([condition for language, condition in pairs if self.terms.nullable[language]])
        return self.terms.negate(term) if node.negative else term

    def explore(self, tree: Tree, start: Situation, bits_after: int) -> Generator[Any, Any, Exits]:
        """The exits of `tree`. `start` has a left context for the languages of the tree and of `bits_after`; the exits
        have left contexts for `bits_after`.
        """
        key = (serial(tree), start, bits_after)
        if key not in self._exits:
            self._exits[key] = yield Explorer(self).find_exits(tree, start, bits_after)
        return self._exits[key]

    # --- the rest of the text

    def lower_suffix(self, continuation: Continuation, context: int) -> Generator[Any, Any, Node]:
        """The IR node of all strings that match the continuation, in a left context for its languages."""
        if continuation.successor is None:
            return EPSILON
        key = (serial(continuation), context)
        suffix = self._suffixes.get(key)
        if suffix is None:
            suffix = yield self._compute_suffix(continuation, continuation.successor, context)
            self._suffixes[key] = suffix
            self.budget.spend(1)
        return suffix

    def _compute_suffix(
        self, continuation: Continuation, rest: Continuation, context: int
    ) -> Generator[Any, Any, Node]:
        tree = continuation.tree
        result: Node
        match tree:
            case Cat(items):
                first = rest
                for item in reversed(items):
                    first = self.make_continuation(item, first)
                result = yield self.lower_suffix(first, context)
            case Lookaround():
                result = yield self._lower_lookaround(tree, continuation, rest, context)
            case Or(items) if not tree.one_char:
                branches = []
                for item in items:
                    branch = self.make_continuation(item, rest)
                    branch_context = self.project(context, continuation.language_bits, branch.language_bits)
                    branches.append((yield self.lower_suffix(branch, branch_context)))
                result = alt(branches)
            case Times(item, 0, 1):
                optional_item = make_alternation([EPSILON, item])
                result = yield self.lower_suffix(self.make_continuation(optional_item, rest), context)
            case Or() | Times():
                parts = []
                exits = yield self.explore(tree, (context, ANY_STRING), rest.language_bits)
                for (target, condition), node in exits.items():
                    suffix = yield self.lower_suffix(rest, target)
                    parts.append((node, self._restrict_to_condition(suffix, condition)))
                result = self._join(parts)
            case _:
                assert not isinstance(tree, TREE_NODES)
                parts = []
                start = self.project(context, continuation.language_bits, rest.language_bits)
                for part, target in self.get_contexts(rest.language_bits).partition_by_context(tree, start):
                    parts.append((part, (yield self.lower_suffix(rest, target))))
                result = self._join(parts)
        return result

    def _join(self, parts: list[tuple[Node, Node]]) -> Node:
        """The union of the concatenations `part suffix`. Parts with the same suffix share it."""
        groups: dict[int, tuple[list[Node], Node]] = {}
        for part, suffix in parts:
            groups.setdefault(serial(suffix), ([], suffix))[0].append(part)
        return alt([seq((alt(heads), suffix)) for heads, suffix in groups.values()])

    def _restrict_to_condition(self, suffix: Node, condition: int) -> Node:
        """The strings of `suffix` that satisfy a condition."""
        one_char = self.terms.next_char_condition(condition)
        if one_char is not None:
            return self.end_characters.restrict(suffix, *one_char, False)
        return conj(suffix, self.terms.node(condition))

    def _lower_lookaround(
        self, node: Lookaround, continuation: Continuation, rest: Continuation, context: int
    ) -> Generator[Any, Any, Node]:
        suffix: Node = yield self.lower_suffix(
            rest, self.project(context, continuation.language_bits, rest.language_bits)
        )
        if suffix is EMPTY:
            return EMPTY
        if not node.ahead or as_chars(node.item) is not None:
            return self._restrict_to_condition(
                suffix, (yield self.compute_condition(node, continuation.language_bits, context))
            )
        lookahead = self.make_continuation(node.item, self.make_continuation(ANY_TEXT, self.make_end(0)))
        language = yield self.lower_suffix(
            lookahead, self.project(context, continuation.language_bits, lookahead.language_bits)
        )
        if not isinstance(node.item, TREE_NODES) and self.end_characters.is_nullable(node.item):
            language = ANY_TEXT  # "the empty string, then anything" is everything
        return self.end_characters.exclude(suffix, language) if node.negative else conj(suffix, language)
