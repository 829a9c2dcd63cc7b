"""Stop tokens that a grammar names.

In xgrammar, a grammar may name a stop token, such as `root ::= "ok" Token(1)`. The token is then part of the output,
and ends it: it is allowed only if the output is complete after it.

In: a grammar, and the stop tokens that it names. Out: the grammar of those outputs in which each of these tokens is the
last one. It is compiled for a vocabulary in which they are control tokens and do not end an output.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from guided.frontends.common.end_tokens import end_at_tokens
from guided.frontends.common.rule_table import parts_of
from guided.ir.nodes import EMPTY, Alt, Grammar, Node, Seq, Special

__all__ = ["end_at_stops", "find_named_stops"]


def find_named_stops(
    grammar: Grammar, ids_of: Callable[[str], Sequence[int]], stops: Collection[int]
) -> frozenset[int]:
    """The stop tokens that a grammar names, by id or by text."""
    named_ids = set[int]()
    for root in grammar.rules.values():
        for part in parts_of(root):
            if isinstance(part, Special):
                named_ids.update([part.token] if isinstance(part.token, int) else ids_of(part.token))
    return frozenset(named_ids.intersection(stops))


def end_at_stops(grammar: Grammar, stops: Iterable[int]) -> Grammar:
    """The outputs of a grammar in which each of these tokens is the last one. It names tokens by their ids.

    Raises:
        UnsupportedError: see `end_at_tokens`.
    """
    for stop in stops:

        def without_stop(token: int | str, stop: int = stop) -> Node:
            return EMPTY if token == stop else Special(token)

        ended = end_at_tokens(grammar, without_stop)
        start = ended.rules[ended.start]
        assert isinstance(start, Alt)
        without, cut = start.items  # the outputs without the token, and those before the token
        grammar = replace(ended, rules={**ended.rules, ended.start: Alt((without, Seq((cut, Special(stop)))))})
    return grammar
