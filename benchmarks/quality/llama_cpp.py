"""Answers the extractions with llama.cpp and its own grammars, for comparison.

    make test-llama-cpp                                   # compiles llama-cpp-python
    python -m benchmarks.quality.llama_cpp --model qwen2.5-coder-0.5b-instruct.gguf

In: a GGUF file. Out: a row like those of `python -m benchmarks.quality`. llama.cpp reads the same prompt tokens. It
derives its grammar from the same schema, as for `response_format`, and decodes greedily.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import guided
from benchmarks.quality.cases import cases_of
from benchmarks.quality.runs import interval


def main() -> None:
    """Answer all extractions, one after the other."""
    from llama_cpp import Llama, LlamaGrammar

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    path = parser.parse_args().model
    engine = guided.Engine.from_pretrained(path)
    llama: Any = Llama(str(path), n_ctx=engine.model.config.context, verbose=False)
    counts, valid, tokens, refused = list[tuple[int, int]](), 0, 0, 0
    begin = perf_counter()
    for case in cases_of("extraction"):
        text, ids = "", engine.encode_prompt(case.conversation())
        try:
            grammar = LlamaGrammar.from_json_schema(json.dumps(case.schema), verbose=False)
        except Exception as error:
            print(f"{case.name}: {error}")
            refused += 1
        else:
            answer = llama.create_completion(ids, max_tokens=case.max_tokens, temperature=0.0, grammar=grammar)
            text, tokens = answer["choices"][0]["text"], tokens + answer["usage"]["completion_tokens"]
        verdict = case.judge(text)
        counts.append((sum(verdict.units.values()), len(verdict.units)))
        valid += verdict.valid
    low, high = interval(counts)
    right, units = map(sum, zip(*counts, strict=True))
    print("| mode | right fields | 95 % | valid | tokens | seconds |\n|---|--:|--:|--:|--:|--:|")
    print(
        f"| llama.cpp | {right} of {units} | {low:.0%} to {high:.0%} | {valid} of {len(counts)} | {tokens:,} "
        f"| {perf_counter() - begin:.0f} |"
    )
    print(f"{refused} schemas were refused")


if __name__ == "__main__":
    main()
