"""`guided bench`: the cost of a specification over a vocabulary. It needs neither a model nor torch.

In: a specification, a vocabulary, and texts to match (random ones by default). Out: the time to prepare the vocabulary,
to compile, and until the first mask; the mask time in new and in cached states; the memory.

Method: first the texts are chosen: instances, encoded by the tokenizer, or random walks through the masks. Then all
token tables are dropped and the specification is compiled again. Each call of `fill_next_token_bitmask` is timed with
`perf_counter_ns`, including the overhead of the call. A second pass over the same texts measures cached states. A text
ends at a mask that exceeds a limit. Such masks are part of the result, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from time import perf_counter
from time import perf_counter_ns as clock
from typing import Any, Final

from guided.cli.arguments import integer
from guided.cli.console import DONE, NEGATIVE, InputError, Progress, print_json, read_text
from guided.cli.failed_masks import FailedMask
from guided.cli.specification import GENERATION, Specification, add_specification, read_specification
from guided.cli.vocabularies import add_vocabulary, load_vocabulary
from guided.errors import LimitExceeded, format_count
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask, allowed_tokens
from guided.matching.compiled import native_vocabulary
from guided.matching.explain.error_location import error_location_of
from guided.vocabulary import Vocabulary

__all__ = ["EXAMPLES", "HELP", "NAME", "PURPOSE", "USAGE", "add_arguments", "run"]

NAME = "bench"
USAGE = "SPECIFICATION [--vocabulary WHICH] [OPTION ...]"
HELP = "measure compile time, mask times and memory of a specification (no model)"
PURPOSE = "Measure what a specification costs: compile time, mask times and memory. No model is needed."
EXAMPLES = r"""examples:
  guided bench --schema order.schema.json --vocabulary model.gguf
  guided bench --schema order.schema.json --instance order.json --vocabulary tokenizer.json
  guided bench --regex '\w{1,200}' --vocabulary llama3.tiktoken --eos 128001,128009 --json

exit codes: 0 done; 1 a mask exceeds a limit; 2 bad input
"""

_COMPILES: Final = 5
_MAX_TOKENS: Final = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_specification(parser, required=True, generating=True)
    add_vocabulary(parser)
    group = parser.add_argument_group("texts")
    group.add_argument(
        "--instance",
        metavar="FILE",
        action="append",
        default=[],
        help="a text to match; may be repeated (default: random texts)",
    )
    group.add_argument("--n", type=integer(1), default=10, metavar="N", help="number of random texts (default: 10)")
    group.add_argument(
        "--max-tokens",
        type=integer(1),
        metavar="N",
        help=f"tokens of a random text (default: {_MAX_TOKENS}, or as many as the shortest text needs)",
    )
    group.add_argument("--seed", type=integer(0), default=0, metavar="N", help="seed of the random texts (default: 0)")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print."""
    specification = read_specification(arguments)
    assert specification is not None
    start = perf_counter()
    vocabulary = load_vocabulary(arguments)
    read_seconds = perf_counter() - start
    start = perf_counter()
    with Progress("building the trie"):
        native = native_vocabulary(vocabulary)
    trie_seconds = perf_counter() - start

    failed_masks = list[FailedMask]()
    token_sequences = _choose_token_sequences(specification, vocabulary, arguments, failed_masks)
    native.clear_cache()
    with Progress("measuring"):
        first_mask_seconds, grammar = _time_first_mask(specification, vocabulary)
        first_pass = _time_masks(grammar, token_sequences, failed_masks)
        second_pass = _time_masks(grammar, token_sequences, [])
        compiles = [_time_call(lambda: _compile(specification, vocabulary)) for _ in range(_COMPILES)]
    out = {
        "vocabulary": {
            "size": vocabulary.size,
            "read_ms": 1e3 * read_seconds,
            "trie_ms": 1e3 * trie_seconds,
            "trie_nodes": native.trie_nodes,
            "table_bytes": native.cached_bytes,
        },
        "compile_ms": 1e3 * statistics.median(compiles),
        "first_mask_ms": None if first_mask_seconds is None else 1e3 * first_mask_seconds,
        "texts": len(token_sequences),
        "steps": len(first_pass),
        "mask_us_first_visit": _summarise(first_pass),
        "mask_us_again": _summarise(second_pass),
        "failed_masks": [asdict(failed) for failed in failed_masks],
        "grammar": {
            "rules": grammar.native.rules,
            "positions": grammar.native.positions,
            "states": grammar.native.states,
            "bytes": grammar.native.memory_bytes,
        },
    }
    if arguments.json:
        print_json(out)
    else:
        _print(out)
        for failed in failed_masks:
            print(f"failure       {failed}\n              {failed.message}")
    return NEGATIVE if failed_masks else DONE


def _choose_token_sequences(
    specification: Specification, vocabulary: Vocabulary, arguments: argparse.Namespace, failed_masks: list[FailedMask]
) -> list[list[int]]:
    """The token sequences to match. Adds masks that exceed a limit; no random text begins after such a mask."""
    grammar = _compile(specification, vocabulary)
    token_sequences = []
    for name in arguments.instance:
        text = read_text(name)
        tokens = vocabulary.encode(text)
        if GrammarMatcher(grammar).validate_tokens(tokens) < len(tokens):
            data = text.encode()
            hint = "hint: --whitespace json --numbers json allow more spellings"
            raise InputError(
                f"{name} does not match the specification\n{error_location_of(grammar, data, must_end=True)}\n{hint}"
            )
        token_sequences.append(tokens)
    if not token_sequences:
        generator = random.Random(arguments.seed)
        with Progress("writing random texts"):
            for _ in range(arguments.n):
                if not failed_masks:
                    token_sequences.append(
                        _generate_random_text(grammar, generator, arguments.max_tokens, failed_masks)
                    )
    return token_sequences


def _generate_random_text(
    grammar: CompiledGrammar, generator: random.Random, max_tokens: int | None, failed_masks: list[FailedMask]
) -> list[int]:
    """The tokens of a random walk through the masks, within a budget. It ends at a mask that exceeds a limit."""
    matcher = GrammarMatcher(grammar)
    bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)
    out: list[int] = []
    tokens_left = max_tokens or _MAX_TOKENS
    try:
        if max_tokens is None:
            tokens_left = max(_MAX_TOKENS, matcher.min_tokens_to_finish())
        while not matcher.is_terminated():
            matcher.fill_next_token_bitmask(bitmask, max_tokens=tokens_left)
            token = generator.choice(allowed_tokens(bitmask))
            matcher.accept_token(token)
            out.append(token)
            tokens_left -= 1
    except LimitExceeded as error:
        failed_masks.append(FailedMask.from_error(error, grammar.vocabulary.decode(out), tokens_left))
        return out
    return out[:-1]


def _compile(specification: Specification, vocabulary: Vocabulary) -> CompiledGrammar:
    return specification.compile(GrammarCompiler(vocabulary, cache_bytes=0), GENERATION)


def _time_first_mask(specification: Specification, vocabulary: Vocabulary) -> tuple[float | None, CompiledGrammar]:
    """The time from the specification to the first mask, with empty caches, and the grammar. None: the mask exceeds a
    limit.
    """
    bitmask = allocate_token_bitmask(1, vocabulary.size)
    start = perf_counter()
    grammar = _compile(specification, vocabulary)
    try:
        GrammarMatcher(grammar).fill_next_token_bitmask(bitmask)
    except LimitExceeded:
        return None, grammar
    return perf_counter() - start, grammar


def _time_masks(
    grammar: CompiledGrammar, token_sequences: Sequence[Sequence[int]], failed_masks: list[FailedMask]
) -> list[float]:
    """The time of each mask along the texts, in microseconds, including the mask after the last token. Ends at a mask
    that exceeds a limit, and adds it to `failed_masks`.
    """
    bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)
    out = []
    for token_ids in token_sequences:
        matcher = GrammarMatcher(grammar)
        for number, token in enumerate((*token_ids, None)):
            try:
                start = clock()
                matcher.fill_next_token_bitmask(bitmask)
                out.append((clock() - start) / 1e3)
                if token is not None:
                    matcher.accept_token(token)
            except LimitExceeded as error:
                text = grammar.vocabulary.decode(token_ids[:number])
                failed_masks.append(FailedMask.from_error(error, text, None))
                return out
    return out


def _time_call(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _summarise(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    sorted_values = sorted(values)
    return {
        "p50": statistics.median(sorted_values),
        "p99": sorted_values[min(len(sorted_values) - 1, len(sorted_values) * 99 // 100)],
        "max": sorted_values[-1],
        "mean": statistics.fmean(sorted_values),
    }


def _print(out: dict[str, Any]) -> None:
    vocabulary, grammar = out["vocabulary"], out["grammar"]
    read_ms, trie_ms = vocabulary["read_ms"], vocabulary["trie_ms"]
    table_kib, state_kib = vocabulary["table_bytes"] / 1024, grammar["bytes"] / 1024
    lines = [
        f"vocabulary    {vocabulary['size']:,} tokens; read in {read_ms:.0f} ms",
        f"              trie of {vocabulary['trie_nodes']:,} nodes in {trie_ms:.0f} ms",
        f"compile       {out['compile_ms']:.2f} ms (median of {_COMPILES})",
        "first mask    exceeds a limit"
        if out["first_mask_ms"] is None
        else f"first mask    {out['first_mask_ms']:.2f} ms from the specification, with empty caches",
        f"masks         {out['steps']:,} steps of {out['texts']} texts, in microseconds",
    ]
    for label, key in (("first visit", "mask_us_first_visit"), ("again", "mask_us_again")):
        times = out[key] or {}
        lines.append(f"  {label:12}" + "   ".join(f"{name} {value:.2f}" for name, value in times.items()))
    positions, rules = format_count(grammar["positions"], "position"), format_count(grammar["rules"], "rule")
    lines.append(f"automaton     {positions} in {rules}")
    states = format_count(grammar["states"], "state")
    lines.append(f"memory        {states} {state_kib:,.0f} KiB; token tables {table_kib:,.0f} KiB")
    print("\n".join(lines))
