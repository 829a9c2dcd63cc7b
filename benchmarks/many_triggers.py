"""Free text with many triggers: compilation, the first mask, and masks along a text, for each number of triggers.

    python -m benchmarks.many_triggers --llama3 PATH [--triggers 10,100,800,2000,5000]

In: Llama-3's vocabulary; tags `<tool_17>`, each with its own trigger and a number as its content. Out, for each number
of triggers: the milliseconds of a compilation and of the first mask, and the median and the longest of the masks along
a text with three tags, in microseconds. Nothing is cached between compilations. The best of three runs counts.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.llama3 import load


def tag_of(count: int) -> dict[str, Any]:
    """A structural tag with this number of triggers."""
    begins = [f"<tool_{number}>" for number in range(count)]
    content = {"type": "regex", "pattern": "[0-9]{1,8}"}
    tags = [{"begin": begin, "content": content, "end": "</tool>"} for begin in begins]
    return {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": begins, "tags": tags}}


def measured(tokens: Any, count: int) -> tuple[float, float, float, float]:
    """Milliseconds of compilation and first mask; microseconds of masks along a text: median and longest."""
    import guided

    vocabulary = guided.Vocabulary(tokens.spelled, eos_token_ids=[tokens.end], special_tokens=tokens.special)
    compiler = guided.GrammarCompiler(vocabulary, cache_bytes=0)
    compiler.compile_regex("a")
    mask, tag = guided.allocate_token_bitmask(1, vocabulary.size), tag_of(count)
    begin = time.perf_counter()
    matcher = guided.GrammarMatcher(compiler.compile_structural_tag(tag))
    compiled = time.perf_counter()
    matcher.fill_next_token_bitmask(mask)
    first = time.perf_counter()
    along = []
    for token in vocabulary.encode(
        f"See <tool_{count - 1}>12</tool> and <tool_0>3</tool>, <tool_{count // 2}>4</tool>."
    ):
        before = time.perf_counter()
        matcher.fill_next_token_bitmask(mask)
        along.append(time.perf_counter() - before)
        assert matcher.accept_token(token)
    return (compiled - begin) * 1e3, (first - compiled) * 1e3, statistics.median(along) * 1e6, max(along) * 1e6


def main() -> None:
    """See the head."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_triggers", description=__doc__.split("\n")[0])
    parser.add_argument("--llama3", type=Path, required=True)
    parser.add_argument("--triggers", default="10,100,800,2000,5000")
    arguments = parser.parse_args()
    tokens = load(arguments.llama3)
    print("triggers  compile ms  first mask ms  median us  longest us")
    for count in map(int, arguments.triggers.split(",")):
        runs = [measured(tokens, count) for _ in range(3)]
        minima = [min(run[column] for run in runs) for column in range(4)]
        print(f"{count:8}  {minima[0]:10.1f}  {minima[1]:13.1f}  {minima[2]:9.1f}  {minima[3]:10.1f}")


if __name__ == "__main__":
    main()
