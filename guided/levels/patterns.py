r"""Level 3: the machine is compiled from a pattern, a list of (class or character, "1" or "+").

    [("UPPER", "+"), (":", "1"), (" ", "1"), ("LOWER", "+"), ("\n", "1")]

A simple compiler of ten lines could create an edge for each "1", and an edge and a loop for each "+". It would be wrong
if adjacent elements overlap: in [("UPPER", "+"), ("A", "1")], an 'A' may belong to the first element or be the last
letter, and only the following text decides. A machine that is in one state at a time needs a separate state for "either
of the two":

    0 --[A-Z]--> 1                  one or more letters; the last one is not an 'A' that could be the end
    1 --[A]----> 2                  2 accepts, and continues like 1
    1 --[B-Z]--> 1
    2 --[A]----> 2
    2 --[B-Z]--> 1

This is the subset construction, which the library's compiler does. A pattern is a regular language, and is compiled in
the same way as a JSON Schema. `CompiledFSM` wraps the result as a machine with the methods of level 2. Its methods take
ids and return sets of ids. Internally, it works on bytes, on a bitmask with 32 tokens per word, and for the budget on
distances to the end (`GrammarMatcher`). Any compiled grammar can be wrapped in this way, including recursive ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from guided.errors import BudgetError, SpecError
from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.matcher import GrammarMatcher
from guided.matching.protocol import accept_any_id
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["CompiledFSM", "compile_pattern"]


class CompiledFSM:
    """A compiled grammar as a machine; see `fsm.FSM`."""

    def __init__(self, grammar: CompiledGrammar) -> None:
        self.grammar, self.end_tokens = grammar, grammar.vocabulary.eos_token_ids
        self._matcher = GrammarMatcher(grammar)
        self._bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)

    def allowed_tokens(self, max_tokens: int | None = None) -> set[int]:
        """The ids that may come next. With a budget, only ids after which the output can be completed within it.

        Raises:
            BudgetError: no output fits into the budget.
        """
        if self._matcher.is_terminated():
            return set()
        budget = None if max_tokens is None else max_tokens + 1  # the core counts the end token, `max_tokens` does not
        if budget is not None and (shortest_length := self._matcher.min_tokens_to_finish()) > budget:
            raise BudgetError(shortest_length - 1, budget - 1)
        self._matcher.fill_next_token_bitmask(self._bitmask, max_tokens=budget)
        return {token for token in allowed_tokens(self._bitmask) if token < self.grammar.vocabulary.size}

    def advance(self, token: int) -> bool:
        """Accept a token. If it is not allowed, returns False and leaves the state unchanged.

        After an end token, no token is allowed.
        """
        return not self._matcher.is_terminated() and accept_any_id(self._matcher, token)

    def is_complete(self) -> bool:
        """Whether the output may end here, or has ended."""
        return self._matcher.is_accepting() or self._matcher.is_terminated()

    def reset(self) -> None:
        """Return to the start."""
        self._matcher.reset()


def compile_pattern(
    pattern_elements: Sequence[tuple[str, str]],
    char_classes: Mapping[str, Collection[int]],
    stoi: Mapping[str, int],
    *,
    end_tokens: Collection[int] = (),
) -> CompiledFSM:
    """The machine of a pattern over a vocabulary of characters.

    Args:
        pattern_elements: pairs of a class name or a character, and "1" or "+".
        char_classes: name -> ids, such as the result of `build_char_classes`; a pattern cannot name empty classes.
        stoi: character -> id.
        end_tokens: ids that may end a complete output.

    Raises:
        SpecError: an element is not such a pair, or the vocabulary lacks a character. The error contains a JSON
            Pointer.
    """
    itos = {token: char for char, token in stoi.items()}
    classes = {name: [itos[token] for token in sorted(ids)] for name, ids in char_classes.items() if ids}
    tokens = [itos[i].encode() if i in itos else None for i in range(max(itos, default=-1) + 1)]
    if end_tokens:
        size = max(len(tokens), *(id + 1 for id in end_tokens))
        vocabulary = Vocabulary(tokens, eos_token_ids=end_tokens, size=size)
    else:
        vocabulary = Vocabulary.without_end(tokens)
    for i, element in enumerate(pattern_elements):
        match element:
            case (str(name), _) if len(name) == 1 and name not in classes and name not in stoi:
                raise SpecError(f"element {i}: no token spells {name!r}", pointer=f"/{i}/0", hint="add it to stoi")
    return CompiledFSM(GrammarCompiler(vocabulary).compile_pattern(pattern_elements, classes))
