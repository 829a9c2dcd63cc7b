"""Makes and measures every call that a grammar offers, one after the other. In: a construct, n, a meter.

The calls: compile, the first mask, masks and steps along a random walk, the shortest completion, forced tokens,
rollback, masks under budgets near the minimum, explanations, captures, remarks, a random sentence. The walk is the same
each time.
"""

from __future__ import annotations

import random
from functools import cache, partial
from itertools import product
from typing import Any, Final

import guided
from benchmarks.bad_inputs.bounds import LIMITS
from benchmarks.bad_inputs.construct import Construct
from benchmarks.bad_inputs.meter import Meter
from guided.matching.compiled import CompiledGrammar
from guided.matching.explain.lint_findings import lint_specification
from guided.matching.sentences import byte_vocabulary, draw_sentence

__all__ = ["compiled", "measure_calls", "vocabulary"]

_WALK: Final = 24  # steps of the random walk
_NEAR: Final = 10  # steps of each walk under a budget
_SLACKS: Final = (0, 1, 3)
_COMPILERS: Final = {
    "json_schema": "compile_json_schema",
    "regex": "compile_regex",
    "gbnf": "compile_gbnf",
    "lark": "compile_lark",
    "choice": "compile_choice",
    "structural_tag": "compile_structural_tag",
    "type": "compile_type",
    "expr": "compile",
}


@cache
def vocabulary() -> guided.Vocabulary:
    """A vocabulary with every byte, pairs of letters and digits, frequent pieces of JSON, words, and control tokens."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pairs = [a + b for a, b in product(letters, letters)] + [a + b for a, b in product("0123456789", repeat=2)]
    parts = [
        '{"',
        '":',
        '": ',
        '","',
        '", "',
        '"}',
        '"},',
        '":"',
        '": "',
        "},",
        "}]",
        "[{",
        "[[",
        "]]",
        "[]",
        "{}",
        '""',
    ]
    words = [
        "true",
        "false",
        "null",
        "the",
        "and",
        "ing",
        "name",
        "type",
        " a",
        " the",
        "  ",
        "    ",
        "\n\n",
        "aaaa",
        "\\u",
    ]
    tokens = [*(bytes([byte]) for byte in range(256)), *(each.encode() for each in [*pairs, *parts, *words])]
    special = {len(tokens) + 1: "<tool_call>", len(tokens) + 2: "</tool_call>"}
    size = len(tokens) + 3
    return guided.Vocabulary(tokens, eos_token_ids=[len(tokens)], special_tokens=special, size=size)


def compiled(construct: Construct, specification: Any, tokens: guided.Vocabulary) -> CompiledGrammar:
    """The grammar of a specification, compiled with empty caches."""
    compiler = guided.GrammarCompiler(tokens, limits=LIMITS, cache_bytes=0, warn=False)
    if construct.kind == "call":
        return specification(compiler)  # type: ignore[no-any-return]
    return getattr(compiler, _COMPILERS[construct.kind])(specification, **construct.options)  # type: ignore[no-any-return]


def measure_calls(construct: Construct, n: int, meter: Meter) -> None:
    """See the head. After a refused call, the calls that depend on it are skipped."""
    specification = construct.build(n)
    name = "compile" if construct.kind != "call" else "call"
    grammar = meter.call(name, lambda: compiled(construct, specification, vocabulary()))
    if not isinstance(grammar, CompiledGrammar):
        return
    walk = _Walk(grammar, meter, random.Random(construct.name))
    walk.measure_start()
    walk.measure_budgets()
    walk.measure_steps()
    meter.call("explain", lambda: walk.matcher.explain("\x00 "))
    walk.measure_rollback()
    if grammar.regions:
        meter.call("captures", lambda: walk.matcher.captures(partial=True))
    kind = {"json_schema": "schema", "type": "schema"}.get(construct.kind, construct.kind)
    if kind in ("schema", "regex", "gbnf", "lark", "choice", "structural_tag"):
        lark = dict(construct.options) if kind == "lark" else {}
        meter.call("lint", lambda: lint_specification(grammar, kind, specification, lark))
    measure_sentence(construct, specification, meter)


def measure_sentence(construct: Construct, specification: Any, meter: Meter) -> None:
    """A random sentence over bytes, not much longer than the shortest one."""
    if construct.kind in ("call", "type", "expr"):
        return
    grammar = meter.call("compile for bytes", lambda: compiled(construct, specification, byte_vocabulary()))
    if grammar is None:
        return
    minimum = meter.call("minimum in bytes", lambda: guided.GrammarMatcher(grammar).min_tokens_to_finish())
    if minimum is not None and minimum < 500:
        meter.call("sample", lambda: draw_sentence(grammar, random.Random(1), minimum + 20, False))


class _Walk:
    """Measure a matcher, and the calls along its output."""

    def __init__(self, grammar: CompiledGrammar, meter: Meter, rng: random.Random) -> None:
        self.grammar, self.meter, self.rng = grammar, meter, rng
        self.matcher = guided.GrammarMatcher(grammar)
        self.bitmask = guided.allocate_token_bitmask(1, grammar.vocabulary.size)
        self.taken: list[int] = []

    def measure_start(self) -> None:
        """Make the calls that come before the first token."""
        call, matcher = self.meter.call, self.matcher
        call("first mask", lambda: matcher.fill_next_token_bitmask(self.bitmask))
        call("minimum", matcher.min_tokens_to_finish)
        call("forced", matcher.forced_tokens)
        call("explain at the start", matcher.explain)

    def measure_budgets(self) -> None:
        """Measure walks with a few tokens more than the minimum."""
        for slack in _SLACKS:
            matcher = guided.GrammarMatcher(self.grammar)
            for step in range(_NEAR):
                minimum = self.meter.call("minimum", matcher.min_tokens_to_finish)
                if minimum is None:
                    break
                act = partial(matcher.fill_next_token_bitmask, self.bitmask, max_tokens=minimum + slack)
                self.meter.call("budget mask", act, slack=slack, step=step)
                if self.meter.refused or not self._step(matcher):
                    break

    def measure_steps(self) -> None:
        """Fill masks and take steps along a random walk. Make the other calls halfway."""
        call, matcher = self.meter.call, self.matcher
        for step in range(_WALK):
            call("mask", lambda: matcher.fill_next_token_bitmask(self.bitmask), step=step)
            if self.meter.refused or not self._step(matcher):
                break
            if step % 4 == 0:
                call("minimum", matcher.min_tokens_to_finish)
                call("forced", matcher.forced_tokens)
            if step in (0, _WALK // 2):
                call("explain", lambda: matcher.explain("w\x00 "))

    def measure_rollback(self) -> None:
        """Roll back all steps, and accept the same tokens again."""
        call, matcher = self.meter.call, self.matcher
        call("rollback", lambda: matcher.rollback(matcher.steps))
        call("mask after rollback", lambda: matcher.fill_next_token_bitmask(self.bitmask))
        call("validate", lambda: matcher.validate_tokens(self.taken))

    def _step(self, matcher: guided.GrammarMatcher) -> bool:
        """Accept an allowed token. Return False if the output has ended."""
        allowed = [each for each in guided.allowed_tokens(self.bitmask) if each < self.grammar.vocabulary.size]
        longer = [each for each in allowed if each not in self.grammar.vocabulary.eos_token_ids]
        if not longer:
            return False
        token = self.rng.choice(longer)
        if matcher is self.matcher:
            self.taken.append(token)
        return bool(self.meter.call("step", lambda: matcher.accept_token(token)))
