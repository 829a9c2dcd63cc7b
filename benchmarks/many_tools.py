"""The first mask of a chat that may call many tools, beside xgrammar's structural tags and llguidance's Lark.

    python -m benchmarks.many_tools --llama3 PATH [--tools 1,8,32,128,512] [--limit 120]

In: Llama-3's vocabulary; tools with one kilobyte of JSON Schema each (`tool_schemas.py`). Out, for each number of tools
and each library: the milliseconds from the list of tools to the first mask, and the same for a second time with the
same tools.

How: each figure has its own process, which has prepared the vocabulary and compiled one small schema. A time is the
lesser of wall and CPU time. `--limit`: the seconds after which the measurement of a library is stopped for that number.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.llama3 import load
from benchmarks.tool_schemas import tools_of

WARM_UP = {"type": "object", "properties": {"q": {"type": "string"}}}
LIBRARIES = ("guided", "xgrammar", "llguidance")


def _guided(tokens: Any, tools: list[dict[str, Any]]) -> Callable[[], object]:
    import guided

    vocabulary = guided.Vocabulary(tokens.spelled, eos_token_ids=[tokens.end], special_tokens=tokens.special)
    compiler = guided.GrammarCompiler(vocabulary)
    compiler.compile_json_schema(WARM_UP)
    mask, style = guided.allocate_token_bitmask(1, vocabulary.size), guided.tool_style("qwen_3")

    def first_mask() -> object:
        tag = style.structural_tag(tools)
        matcher = guided.GrammarMatcher(compiler.compile_structural_tag(tag, allow_special_tokens=True))
        return matcher.fill_next_token_bitmask(mask)

    return first_mask


def _xgrammar(tokens: Any, tools: list[dict[str, Any]]) -> Callable[[], object]:
    import xgrammar

    spelled = [token or b"" for token in tokens.spelled]
    info = xgrammar.TokenizerInfo(spelled, xgrammar.VocabType.RAW, vocab_size=tokens.size, stop_token_ids=[tokens.end])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1)
    compiler.compile_json_schema(json.dumps(WARM_UP))
    mask = xgrammar.allocate_token_bitmask(1, tokens.size)

    def first_mask() -> object:
        tag = xgrammar.get_model_structural_tag("qwen_3", [*tools], reasoning="disabled")
        return xgrammar.GrammarMatcher(compiler.compile_structural_tag(tag)).fill_next_token_bitmask(mask)

    return first_mask


def _llguidance(tokens: Any, tools: list[dict[str, Any]]) -> Callable[[], object]:
    import llguidance.numpy
    import llguidance.tiktoken
    from llguidance import LLMatcher

    tokenizer = llguidance.tiktoken.lltokenizer_from_encoding(
        tokens.encoding, n_vocab=tokens.size, eos_token=tokens.end
    )
    mask = llguidance.numpy.allocate_token_bitmask(1, tokens.size)
    warm = LLMatcher(tokenizer, LLMatcher.grammar_from_json_schema(json.dumps(WARM_UP)))
    llguidance.numpy.fill_next_token_bitmask(warm, mask, 0)

    def first_mask() -> object:
        calls = " | ".join(f"call{number}" for number in range(len(tools)))
        lines = [f"start: (TEXT? ({calls}))* TEXT?", "TEXT: /[^<]+/"]
        for number, tool in enumerate(tools):
            function = tool["function"]
            begin = json.dumps(f'<tool_call>\n{{"name": "{function["name"]}", "arguments": ')
            schema = json.dumps(function["parameters"])
            lines.append(f'call{number}: {begin} %json {schema} "}}\\n</tool_call>"')
        matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_lark("\n".join(lines)))
        llguidance.numpy.fill_next_token_bitmask(matcher, mask, 0)
        if matcher.is_error():
            raise RuntimeError(matcher.get_error())
        return matcher

    return first_mask


PREPARED: Final = {"guided": _guided, "xgrammar": _xgrammar, "llguidance": _llguidance}


def milliseconds(work: Callable[[], object]) -> float:
    """The lesser of wall and CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return 1e3 * min(time.perf_counter() - wall, time.process_time() - cpu)


def main() -> int:
    """Parse the command line, and measure one figure, or all figures in processes of their own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_tools", description=__doc__.split("\n")[0])
    parser.add_argument("--llama3", type=Path, required=True, help="llama3.tiktoken")
    parser.add_argument("--tools", default="1,8,32,128,512", help="numbers of tools (1,8,32,128,512)")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one figure (120)")
    parser.add_argument("--one", choices=LIBRARIES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        first_mask = PREPARED[arguments.one](load(arguments.llama3), tools_of(int(arguments.tools)))
        print(f"{milliseconds(first_mask):.1f} {milliseconds(first_mask):.2f}")
        return 0
    print("| tools | library | first mask, ms | again, ms |\n|---|---|---|---|")
    for count in arguments.tools.split(","):
        for library in LIBRARIES:
            command = [sys.executable, "-m", "benchmarks.many_tools", "--llama3", str(arguments.llama3)]
            try:
                process = subprocess.run(
                    [*command, "--tools", count, "--one", library],
                    capture_output=True, text=True, check=True, timeout=arguments.limit,
                )  # fmt: skip
                first, again = process.stdout.split()
            except subprocess.TimeoutExpired:
                first, again = f"more than {arguments.limit:g} s", ""
            print(f"| {count} | {library} | {first} | {again} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
