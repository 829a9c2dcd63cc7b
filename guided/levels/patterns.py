r"""Level 3: the machine is compiled from a pattern, a list of (class or character, "1" or "+").

    [("UPPER", "+"), (":", "1"), (" ", "1"), ("LOWER", "+"), ("\n", "1")]

To walk the list and to emit an edge for "1", an edge and a loop for "+", is a compiler of ten lines, and wrong where
neighbours overlap: in [("UPPER", "+"), ("A", "1")] an 'A' may be one more of the first or the last, and only what
follows will tell. A machine that is in one state at a time must be in "either of both", which is a state of its own:

    0 --[A-Z]--> 1                  one letter or more, the last is no 'A' that could be the end
    1 --[A]----> 2                  2 accepts, and goes on like 1
    1 --[B-Z]--> 1
    2 --[A]----> 2
    2 --[B-Z]--> 1

That is the subset construction, and the toolkit's compiler does it: a pattern is a regular language, and this is the
whole way down which a JSON Schema goes, too. `CompiledFSM` shows it as a machine with level 2's methods; ids go in
and sets of ids come out, while inside there are bytes, a bitmask of 32 tokens a word, and distances to the end for
the budget (`GrammarMatcher`). Any compiled grammar can be looked at in this way, recursive ones among them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from guided.errors import BudgetError, SpecError
from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.matcher import GrammarMatcher
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["CompiledFSM", "compile_pattern"]


class CompiledFSM:
    """A compiled grammar as a machine, see `fsm.FSM`."""

    def __init__(self, grammar: CompiledGrammar) -> None:
        self.grammar, self.end_tokens = grammar, grammar.vocabulary.eos_token_ids
        self._matcher = GrammarMatcher(grammar)
        self._bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)

    def allowed_tokens(self, max_tokens: int | None = None) -> set[int]:
        """What may come next; with a budget: what leaves a way to the end.

        Raises:
            BudgetError: nothing does.
        """
        if self._matcher.is_terminated():
            return set()
        budget = None if max_tokens is None else max_tokens + 1  # the core counts the end token, here it is free
        if budget is not None and (needed := self._matcher.min_tokens_to_finish()) > budget:
            raise BudgetError(needed - 1, budget - 1)
        self._matcher.fill_next_token_bitmask(self._bitmask, max_tokens=budget)
        return {token for token in allowed_tokens(self._bitmask) if token < self.grammar.vocabulary.size}

    def advance(self, token: int) -> bool:
        """Take a token. False: it is not allowed, nothing has changed. After an end nothing is, not even another."""
        return not self._matcher.is_terminated() and self._matcher.accept_token(token)

    def is_complete(self) -> bool:
        """The output may end here, or has ended."""
        return self._matcher.is_accepting() or self._matcher.is_terminated()

    def reset(self) -> None:
        """Back to the start."""
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
        pattern_elements: pairs of a class's name or a character, and "1" or "+".
        char_classes: name -> ids, see `build_char_classes`; empty ones are not known.
        stoi: character -> id.
        end_tokens: ids that may end the output where it is complete.

    Raises:
        SpecError: an element is no such pair, or a character that the vocabulary lacks, with its place.
    """
    itos = {token: char for char, token in stoi.items()}
    classes = {name: [itos[token] for token in sorted(ids)] for name, ids in char_classes.items() if ids}
    tokens = [itos[i].encode() if i in itos else None for i in range(max(itos, default=-1) + 1)]
    if end_tokens:
        size = max(len(tokens), *(id + 1 for id in end_tokens))
        vocabulary = Vocabulary(tokens, eos_token_ids=end_tokens, size=size)
    else:
        vocabulary = Vocabulary.without_end(tokens)
    for at, element in enumerate(pattern_elements):
        match element:
            case (str(name), _) if len(name) == 1 and name not in classes and name not in stoi:
                raise SpecError(f"element {at}: no token spells {name!r}", pointer=f"/{at}/0", hint="add it to stoi")
    return CompiledFSM(GrammarCompiler(vocabulary).compile_pattern(pattern_elements, classes))
