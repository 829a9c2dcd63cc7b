r"""`guided lint`: finds problems that a valid specification may cause during generation.

In: a specification. Out: findings, each with its location and a suggested fix; the specification's size; and the
slowest mask in random walks. A walk ends at a mask that exceeds a limit, which is a finding, too. The exit code is 1 if
a finding is serious.
"""

from __future__ import annotations

import argparse
import random
import statistics
from dataclasses import asdict
from time import perf_counter
from typing import Any, Final

from guided.cli.console import DONE, NEGATIVE, Progress, print_json
from guided.cli.failed_masks import FailedMask
from guided.cli.specification import GENERATION, add_specification, read_specification
from guided.cli.vocabularies import add_vocabulary, load_vocabulary
from guided.errors import LimitExceeded, format_count
from guided.frontends.common.lint_finding import LintFinding
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask, allowed_tokens
from guided.matching.explain.lint_findings import lint_specification

__all__ = ["EXAMPLES", "HELP", "NAME", "PURPOSE", "USAGE", "add_arguments", "run"]

NAME = "lint"
USAGE = "SPECIFICATION [OPTION ...]"
HELP = "find problems that a specification may cause during generation"
PURPOSE = (
    "Find problems that a specification may cause during generation: unbounded text, colliding terminals, rules that\n"
    "generate nothing, masks that exceed a limit. Also report its size and its slowest mask."
)
EXAMPLES = r"""examples:
  guided lint --lark query.lark
  guided lint --schema order.schema.json --vocabulary model.gguf
  guided lint --regex '(a|b)+'

exit codes: 0 no serious finding; 1 a serious finding; 2 bad input
"""

_WALKS: Final = 5
_STEPS: Final = 200
_SEED: Final = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_specification(parser, required=True, generating=True)
    add_vocabulary(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings."""
    specification = read_specification(arguments)
    assert specification is not None
    vocabulary = load_vocabulary(arguments)
    begin = perf_counter()
    grammar = specification.compile(GrammarCompiler(vocabulary), GENERATION)
    seconds = perf_counter() - begin
    with Progress("comparing terminals"):
        lark_options = {"import_paths": specification.import_paths, **specification.options}
        findings = lint_specification(grammar, specification.kind, specification.value, lark_options)
    with Progress("measuring masks"):
        masks, failed_masks = _measure_masks(grammar)
    findings = [*_limit_findings(failed_masks), *findings]
    size = {"rules": len(grammar.grammar.rules), "positions": grammar.native.positions, "compile_ms": seconds * 1e3}
    if grammar.grammar.lexer is not None:
        size["terminals"] = len(grammar.grammar.lexer.terminals)
    if arguments.json:
        print_json({"findings": [asdict(finding) for finding in findings], "size": size, "masks": masks})
    else:
        _show(findings, size, masks)
    return NEGATIVE if any(finding.matters for finding in findings) else DONE


def _measure_masks(grammar: CompiledGrammar) -> tuple[dict[str, Any], list[FailedMask]]:
    """Time the masks along random walks, in microseconds. Also returns the text before the slowest mask, and the masks
    that exceed a limit. No walk begins after such a mask.
    """
    rng = random.Random(_SEED)
    times, failed_masks = list[tuple[float, bytes]](), list[FailedMask]()
    for _ in range(_WALKS):
        if not failed_masks:
            failed_masks = _walk(grammar, rng, times)
    slowest, prefix = max(times, default=(None, b""))
    masks = {
        "measured": len(times),
        "median_us": statistics.median(microseconds for microseconds, _ in times) if times else None,
        "slowest_us": slowest,
        "after": prefix[-60:].decode(errors="replace"),
    }
    return masks, failed_masks


def _walk(grammar: CompiledGrammar, rng: random.Random, times: list[tuple[float, bytes]]) -> list[FailedMask]:
    """Add the time of each mask along a random walk, and the text before it. Return the mask that exceeds a limit, and
    the same mask without a budget if it exceeds one, too.
    """
    mask = allocate_token_bitmask(1, grammar.vocabulary.size)
    matcher, output, tokens_left = GrammarMatcher(grammar), b"", _STEPS
    try:
        tokens_left = max(_STEPS, matcher.min_tokens_to_finish())
        while not matcher.is_terminated() and tokens_left:
            begin = perf_counter()
            matcher.fill_next_token_bitmask(mask, max_tokens=tokens_left)
            times.append(((perf_counter() - begin) * 1e6, output))
            token = rng.choice(allowed_tokens(mask))
            matcher.accept_token(token)
            output += grammar.vocabulary.token_bytes(token) or b""
            tokens_left -= 1
    except LimitExceeded as error:
        failed_masks = [FailedMask.from_error(error, output, tokens_left)]
        try:
            matcher.fill_next_token_bitmask(mask)
        except LimitExceeded as same_error:
            failed_masks.append(FailedMask.from_error(same_error, output, None))
        return failed_masks
    return []


def _limit_findings(failed_masks: list[FailedMask]) -> list[LintFinding]:
    """One finding: the mask without a budget if it fails, otherwise the mask under a budget."""
    if not failed_masks:
        return []
    failed, has_budget = failed_masks[-1], len(failed_masks) == 1
    masks = "masks under a budget" if has_budget else "masks"
    message = f"{masks} of this specification can exceed the limit {failed.limit!r}, so a request fails: {failed}"
    hint = "masks without a budget may work" if has_budget else "simplify the specification"
    return [LintFinding("limit", "", message, f"{failed.hint}; {hint}")]


def _show(findings: list[LintFinding], size: dict[str, Any], masks: dict[str, Any]) -> None:
    for each in findings:
        print(f"{each.kind if each.matters else 'note: ' + each.kind}: {each.place or 'everywhere'}: {each.message}")
        if each.example and repr(each.example) not in each.message:
            print(f"  example: {each.example!r}")
        if each.hint:
            print(f"  hint: {each.hint}")
    if not findings:
        print("nothing found")
    counts = [format_count(size[f"{noun}s"], noun) for noun in ("rule", "terminal", "position") if f"{noun}s" in size]
    print(f"size: {', '.join(counts)}, compiled in {size['compile_ms']:.1f} ms")
    if not masks["measured"]:
        print("masks: none could be measured")
        return
    print(
        f"masks: median {masks['median_us']:.1f} us, slowest {masks['slowest_us']:.0f} us of {masks['measured']}, "
        f"after {masks['after']!r}"
    )
